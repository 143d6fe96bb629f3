"""What is said about a call's outcome: by a returned value's shape, by the tool, or by a confirmation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

__all__ = ["Applied", "AppliedByOther", "Confirmation", "Inconclusive", "NotApplied", "Signal"]


@dataclass(frozen=True, slots=True)
class Signal:
    """A returned value that means failure by its shape; what kind of failure is decided elsewhere.

    Attributes:
        kind: `http`: a response with a status of 400 or more, or a redirect that was not followed; `mcp`: a tool result with `isError`;
            `process`: a finished process with an exit code other than 0.
        message: what the other side said, raw; it may hold secrets until `classify_signal` has worded it.
        status: HTTP status, or exit code; None for `mcp`.
        method: HTTP method of the request that was answered; None if not known.
        retry_after: raw value of the `Retry-After` header.
        has_history: whether other answers or attempts (redirects, the client's own retries) came before this answer.
    """

    kind: Literal["http", "mcp", "process"]
    message: str = ""
    status: int | None = None
    method: str | None = None
    retry_after: str | None = None
    has_history: bool = False


@dataclass(frozen=True, slots=True)
class Applied:
    """A confirmation found the write in the system, and it is ours.

    Attributes:
        data: what becomes the data of the call; None: nothing.
    """

    data: Any = None


@dataclass(frozen=True, slots=True)
class AppliedByOther:
    """A confirmation found the wanted state in the system, but not who brought it about.

    Attributes:
        data: the state that was found.
        reason: why its author is not known.
    """

    data: Any = None
    reason: str = ""


class NotApplied(Exception):
    """Nothing happened: raised by a tool that knows it, or returned by a confirmation that looked.

    Raise it only with knowledge: the write it speaks of may be sent again.

    Args:
        message: why nothing happened, or how it is known; no secrets.
    """

    def __init__(self, message: str = "") -> None:
        self.message = message
        super().__init__(message)


@dataclass(frozen=True, slots=True)
class Inconclusive:
    """A confirmation could not tell; the call stays uncertain.

    Attributes:
        reason: why it could not tell.
    """

    reason: str = ""


Confirmation: TypeAlias = Applied | AppliedByOther | NotApplied | Inconclusive
"""What a tool's `confirm` answers."""
