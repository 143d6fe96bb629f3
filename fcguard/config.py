"""The frozen collaborators of a guard, and its registered tools, each prepared once."""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Awaitable, Callable, Iterator, KeysView, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from fcguard.arguments import ArgumentSchema
from fcguard.arguments.signature import Converter
from fcguard.errors import ColourError, ConfigurationError, DuplicateToolError, UsageError
from fcguard.model.call import Call, Purpose
from fcguard.model.failure import ErrorType, Failure
from fcguard.model.secrets import PLAIN_REDACTOR, Redactor, may_hold_secrets, secret_properties
from fcguard.model.tool import ConfirmBy, Retry, Tool
from fcguard.recovery.backoff import retry_policy
from fcguard.recovery.table import DEFAULT_TABLE, RecoveryTable
from fcguard.results import ArtifactDirectory
from fcguard.rules.base import is_async, rule_name
from fcguard.stores.base import Store
from fcguard.telemetry.capture import LogCapture
from fcguard.telemetry.observer import Observer

__all__ = ["Collaborator", "Config", "Prepared", "Toolbox", "Verdict", "is_coroutine_callable"]

Child = Callable[[Call, str, Mapping[str, Any], Purpose, Any], Awaitable[Call]]
"""`(parent, tool name, arguments, purpose, io)`: runs a child call through the same pipeline."""


def is_coroutine_callable(fn: Any) -> bool:
    """Answer whether calling `fn` gives something to await (functions, methods, partials and callable objects)."""
    while isinstance(fn, partial):
        fn = fn.func
    if inspect.iscoroutinefunction(fn) or inspect.isasyncgenfunction(fn):
        return True
    if inspect.isroutine(fn) or not callable(fn):
        return False
    call = type(fn).__call__
    return inspect.iscoroutinefunction(call) or inspect.isasyncgenfunction(call)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the checks of step 4 said.

    Attributes:
        passed: names of the business rules that passed, in order.
        refused_by: name of the check that refused; None if none did.
        approval: how the call was approved; None if it needed no approval.
    """

    passed: tuple[str, ...]
    refused_by: str | None = None
    approval: str | None = None


@dataclass(frozen=True, slots=True)
class Collaborator:
    """A rule or constraint with what is known of it before any call."""

    name: str
    check: Any
    is_async: bool

    @classmethod
    def of_rule(cls, rule: Any) -> Collaborator:
        """Describe a rule."""
        return cls(rule_name(rule), rule, is_async(rule))


@dataclass(slots=True)
class Prepared:
    """A tool with everything that can be decided once.

    Attributes:
        tool: the tool.
        is_async: whether its function is awaited.
        rules, constraints: in the order they are asked.
        convert: turns JSON arguments into what the annotations promise; None: nothing to turn.
        info_parameter: parameter that receives the `CallInfo`; None: none.
        positional: parameters that only go by position.
        names: parameters that may go by position, in order.
        takes_receiver: a method decorated in its class: its first argument is the instance.
        is_generator: what it returns is consumed, up to the tool's `max_items`.
        is_read: whether the tool leaves the world as it is.
        policy: how it is retried.
        redactor: masks its secrets.
    """

    tool: Tool
    is_async: bool
    rules: tuple[Collaborator, ...]
    constraints: tuple[Any, ...]
    convert: Converter | None = None
    info_parameter: str | None = None
    positional: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    takes_receiver: bool = False
    is_generator: bool = False
    is_read: bool = field(init=False)
    policy: Retry = field(init=False)
    redactor: Redactor = field(init=False)
    secrets: frozenset[str] = field(init=False)
    may_hold_secrets: bool = field(init=False)
    checks: tuple[Any, ...] = field(init=False)
    passed: tuple[str, ...] = field(init=False)
    all_passed: Verdict = field(init=False)
    needs_approval: bool = field(init=False)
    _schema: ArgumentSchema | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        self.is_read = self.tool.effect == "read"
        self.policy = retry_policy(self.tool)
        self.secrets = secret_properties(self.tool.parameters, self.tool.redact)
        self.redactor = Redactor(self.secrets) if self.secrets else PLAIN_REDACTOR
        self.may_hold_secrets = may_hold_secrets(self.tool.parameters, self.secrets)
        self.passed = tuple(rule.name for rule in self.rules)
        self.checks = tuple(rule.check for rule in self.rules)
        self.all_passed = Verdict(self.passed)
        tool = self.tool
        self.needs_approval = tool.approval != "never" and (tool.approval is not None or tool.effect == "destructive")

    @property
    def schema(self) -> ArgumentSchema:
        """The compiled argument schema (compiled at first use)."""
        if self._schema is None:
            tool = self.tool
            self._schema = ArgumentSchema.compile(
                tool.parameters,
                aliases=tool.aliases,
                normalizers=tool.normalize,
                hidden=tool.hidden,
                secret=self.secrets,
            )
        return self._schema


_FOLDABLE: Final = re.compile(r"[A-Za-z0-9_ .:/-]{1,256}\Z")
"""Names in which case, separators and prefixes may be folded; other characters are no separators."""

_SEPARATORS: Final = re.compile(r"[^0-9a-z]+")


def collapse(name: str) -> str:
    """Answer a name without case and separators; two registered tools must not share it."""
    return _SEPARATORS.sub("", name.lower())


def _named_by(tool: Tool) -> Iterator[tuple[str, str]]:
    """Yield the tools that a tool names, with their role."""
    if isinstance(tool.confirm, ConfirmBy):
        yield tool.confirm.tool, "confirm"
    for entry in tool.fallback:
        yield entry if isinstance(entry, str) else entry.tool, "fallback"


class Toolbox:
    """The registered tools by exact name. Registering is the only change; look-up costs nothing per registered tool.

    Args:
        prefixes: transport prefixes that may stand before a tool's name.

    Attributes:
        is_settled: whether it is in use, and every tool that another one names is registered.
    """

    __slots__ = ("_by_name", "_collapsed", "_is_in_use", "_missing", "_readers", "is_settled", "prefixes")

    def __init__(self, prefixes: tuple[str, ...]) -> None:
        self._by_name: dict[str, Prepared] = {}
        self._collapsed: dict[str, str] = {}
        self._readers: dict[str, tuple[str, str]] = {}
        self._missing: dict[str, list[tuple[str, str]]] = {}
        self._is_in_use = False
        self.is_settled = False
        self.prefixes = prefixes

    def add(self, prepared: Prepared) -> None:
        """Register a tool.

        Raises:
            DuplicateToolError: the name is taken, or differs from a taken one only in case and separators.
            ConfigurationError: a confirmation, or what answers for a read, would write.
        """
        name = prepared.tool.name
        key = collapse(name)
        taken = self._collapsed.get(key)
        if taken is not None:
            why = (
                "is registered already"
                if taken == name
                else f"cannot be told from the registered {taken!r} (case and separators do not count)"
            )
            raise DuplicateToolError(f"tool {name!r} {why}; give one of them another name with name=...")
        self._check_readers(prepared.tool)
        self._by_name[name] = prepared
        self._collapsed[key] = name
        self._missing.pop(name, None)
        for other, role in _named_by(prepared.tool):
            if other not in self._by_name:
                self._missing.setdefault(other, []).append((name, role))
                self.is_settled = False

    def _check_readers(self, tool: Tool) -> None:
        """Refuse a tool that writes where one is named that may only read, whichever of the two is registered first."""
        named = [(name, role) for name, role in _named_by(tool) if role == "confirm" or tool.is_read]
        for name, role in named:
            known = self._by_name.get(name)
            if known is not None and not known.is_read:
                raise ConfigurationError(f"tool {tool.name!r}: its {role} {name!r} writes; it may only read")
        if not tool.is_read and tool.name in self._readers:
            owner, role = self._readers[tool.name]
            raise ConfigurationError(
                f"tool {tool.name!r} is the {role} of {owner!r}, so it may only read: declare effect='read'"
            )
        self._readers.update({name: (tool.name, role) for name, role in named})

    def settle(self, prepared: Prepared | None = None) -> None:
        """Begin to use the tools: what they name must be registered, of all tools at first, later of the one that is called.

        Args:
            prepared: the tool that is called; None: none in particular.

        Raises:
            ConfigurationError: a fallback, or the tool of a confirmation, is not registered.
        """
        for name, owners in list(self._missing.items()):
            for owner, role in owners:
                if not self._is_in_use or (prepared is not None and owner == prepared.tool.name):
                    close = difflib.get_close_matches(name, self._by_name, n=1)
                    hint = f"did you mean {close[0]!r}?" if close else "register it before the guard is used"
                    raise ConfigurationError(f"tool {owner!r}: its {role} {name!r} is not registered; {hint}")
        self._is_in_use = True
        self.is_settled = not self._missing

    def settle_all(self) -> None:
        """Begin to use every tool that is registered so far, as a recovery does.

        Raises:
            ConfigurationError: a fallback, or the tool of a confirmation, is not registered.
        """
        for prepared in () if self.is_settled else tuple(self._by_name.values()):
            self.settle(prepared)

    def names(self) -> KeysView[str]:
        """Answer the names of all tools, and of those that are registered later."""
        return self._by_name.keys()

    def get(self, name: str) -> Prepared | None:
        """Look a tool up by its exact name."""
        return self._by_name.get(name)

    def require(self, name: str) -> Prepared:
        """Look a tool up that must be there.

        Raises:
            UsageError: it is not; the message names those that are.
        """
        prepared = self._by_name.get(name)
        if prepared is None:
            raise UsageError(f"there is no tool {name!r}; registered: {', '.join(self._by_name) or 'none'}")
        return prepared

    def instrument(
        self, name: str, fn: Callable[..., Any] | None, normalize: Mapping[str, Callable[[Any], Any]] | None
    ) -> Tool:
        """Put other code into a tool; schema, rules and everything else of its contract stay.

        Args:
            name: the tool.
            fn: its function, of the same colour; None: stays.
            normalize: its own normalizers, by parameter; None: they stay.

        Returns:
            The tool as it was, to put its code back.

        Raises:
            UsageError: there is no such tool.
            ColourError: the function is async and the tool is not, or the other way round.
        """
        prepared = self.require(name)
        before = prepared.tool
        if fn is not None and is_coroutine_callable(fn) != prepared.is_async:
            raise ColourError(f"tool {name!r} is {'async' if prepared.is_async else 'sync'}; give it such a function")
        prepared.tool = replace(
            before, fn=before.fn if fn is None else fn, normalize=before.normalize if normalize is None else normalize
        )
        if normalize is not None:
            prepared._schema = None
        return before

    def __iter__(self) -> Iterator[Prepared]:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)

    def resolve(self, name: str, allowed: Callable[[str], bool]) -> Prepared | Failure:
        """Look up a name as a model wrote it: exactly, or with a transport prefix or separators folded if exactly one tool fits."""
        found = self._by_name.get(name)
        if found is not None:
            return found
        fits = {self._collapsed.get(collapse(candidate)) for candidate in self._spellings(name)} - {None}
        if len(fits) == 1:
            return self._by_name[str(fits.pop())]
        known = sorted(tool for tool in self._by_name if allowed(tool))
        close = difflib.get_close_matches(name, known, n=3, cutoff=0.6)
        shown = known if len(known) <= 20 else [*known[:20], f"... {len(known) - 20} more"]
        hint = f" Did you mean {' or '.join(map(repr, close))}?" if close else ""
        return Failure.of(
            ErrorType.TOOL_UNKNOWN,
            f"There is no tool {name[:80]!r}.{hint} Available: {', '.join(shown) if shown else 'none'}.",
            "intent",
        )

    def _spellings(self, name: str) -> Iterator[str]:
        if _FOLDABLE.match(name) is None:
            return
        yield name
        for prefix in self.prefixes:
            if name.startswith(prefix) and len(name) > len(prefix):
                yield name[len(prefix) :]
        _, separator, rest = name.partition("__")
        while separator and rest:  # server__tool, mcp__server__tool: every suffix counts as a hit
            yield rest
            _, separator, rest = rest.partition("__")


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """Everything a step may ask for beside the call itself.

    Attributes:
        store: the ledger.
        observer: telemetry.
        tools: registered tools.
        child: runs a child call (confirm reads, fallbacks).
        artifacts: where evidence files go.
        table: recovery plans.
        classifiers: the user's own, asked before a tool's and the built-in ones.
        approver: decides about approvals; None: nobody does, so the answer is no.
        grants: standing approvals; None: none.
        logs: keeps the log lines of a call; None: nobody does.
        lease: seconds for which a call that was sent belongs to this process.
    """

    store: Store
    observer: Observer
    tools: Toolbox
    child: Child
    artifacts: ArtifactDirectory
    table: RecoveryTable = DEFAULT_TABLE
    classifiers: tuple[Callable[[Any, Any], Any], ...] = ()
    approver: Any = None
    grants: Any = None
    logs: LogCapture | None = None
    lease: float = 60.0

    def artifacts_of(self, call: Call) -> ArtifactDirectory:
        """Answer where the evidence of a call goes: the task's own directory, or the guard's."""
        own = call.context.evidence_dir
        return self.artifacts if own is None else ArtifactDirectory(own)
