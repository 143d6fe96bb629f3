"""Exceptions for misuse of the library; a governed call itself answers with an envelope, it does not raise.

::

    FcguardError
    ├── ConfigurationError          a tool, rule, option or guard is declared wrongly (raised at declaration)
    │   ├── SchemaError             a JSON Schema cannot be used
    │   ├── DuplicateToolError      two tools of one name, or of names that collapse to one
    │   └── ColourError             an async collaborator on a sync tool
    ├── UsageError                  a function is called where it has no meaning
    │   ├── NoCurrentCallError      current_call() outside a governed call
    │   └── TaskError               guard.task(...) misused
    ├── ToolCallFailed              raised by ToolResult.unwrap(); carries the envelope
    ├── StoreError                  the ledger cannot do what was asked; nothing was lost silently
    │   ├── StoreUnavailable        cannot be reached, is full, or is read-only
    │   ├── StoreCorrupt            the bytes are not a ledger, or not a whole one
    │   ├── StoreTooNew             written by a newer fcguard
    │   └── StoreClosed             used after close()
    └── MissingExtraError           an optional package is not installed (also an ImportError)

One warning: `UnmatchedNameWarning`, where a task allows or forbids by a glob that no tool matches.
"""

from __future__ import annotations

from typing import Any

__all__ = [
    "ColourError",
    "ConfigurationError",
    "DuplicateToolError",
    "FcguardError",
    "MissingExtraError",
    "NoCurrentCallError",
    "SchemaError",
    "StoreClosed",
    "StoreCorrupt",
    "StoreError",
    "StoreTooNew",
    "StoreUnavailable",
    "TaskError",
    "ToolCallFailed",
    "UnmatchedNameWarning",
    "UsageError",
]


class FcguardError(Exception):
    """Root of everything that fcguard raises itself."""


class ConfigurationError(FcguardError):
    """A tool, rule, option or guard is declared wrongly; the message says how to mend it."""


class SchemaError(ConfigurationError):
    """A JSON Schema cannot be used as a tool's parameters."""


class DuplicateToolError(ConfigurationError):
    """Two tools have one name, or names that differ only in case and separators."""


class ColourError(ConfigurationError):
    """An async collaborator (rule, confirm, classifier) was given to a sync tool."""


class UsageError(FcguardError):
    """A function of fcguard was called where it has no meaning."""


class NoCurrentCallError(UsageError):
    """`current_call()` was called outside a governed call."""


class TaskError(UsageError):
    """`guard.task(...)` was entered twice, left out of order, or given unusable context."""


class UnmatchedNameWarning(UserWarning):
    """A task allows or forbids tools by a glob that matches none of the guard's; misspelt, it forbids nothing."""


class ToolCallFailed(FcguardError):
    """A call did not succeed and its caller asked for the data anyway.

    Attributes:
        result: the whole envelope (`fcguard.ToolResult`).
    """

    def __init__(self, result: Any) -> None:
        self.result = result
        super().__init__(
            f"{result.tool_name}: {result.error_type}: {result.message} (next_action={result.next_action})"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.result,))


class StoreError(FcguardError):
    """The ledger cannot do what was asked."""


class StoreUnavailable(StoreError):
    """The ledger cannot be reached, is full, or is read-only; the write was refused."""


class StoreCorrupt(StoreError):
    """The ledger's bytes are not a ledger, or not a whole one."""


class StoreTooNew(StoreError):
    """The ledger was written by a newer fcguard; upgrade the library."""


class StoreClosed(StoreError):
    """The ledger was used after it was closed."""


class MissingExtraError(FcguardError, ImportError):
    """An optional package is not installed; the message holds the pip line that brings it."""

    def __init__(self, package: str, extra: str) -> None:
        self.package, self.extra = package, extra
        super().__init__(f"{package!r} is not installed; run: pip install 'fcguard[{extra}]'")

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (self.package, self.extra))
