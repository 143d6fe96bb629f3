"""A tool as the guard knows it: a callable, its parameters, and everything declared about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, TypedDict

from fcguard.model.failure import Effect

__all__ = ["Action", "ConfirmBy", "Fallback", "Plan", "Retry", "Tool", "ToolOptions"]

Rule: TypeAlias = Callable[[Any], Any]
Check: TypeAlias = Any

Action = Literal["retry", "confirm", "wait", "switch", "fallback", "stop"]
"""retry: the same arguments again · confirm: read the state first · wait: until the environment is ready · switch: to the
next environment · fallback: another tool answers · stop: report reason, evidence and next action."""

Plan: TypeAlias = tuple[Action, ...]
"""Actions in the order they are tried; the last is always `stop`."""


@dataclass(frozen=True, slots=True)
class Retry:
    """How often and how patiently a tool is tried again, where trying again is safe at all.

    Attributes:
        attempts: most dispatches of one call, the first included.
        wait: a tenacity wait strategy (`wait_exponential(...) + wait_random(...)`); None: exponential from 0.2 s to 5 s with jitter.
        stop: a tenacity stop strategy in addition to `attempts`; None: none.
        max_wait: longest single pause in seconds; a server that asks for more ends the call with `retry_later`.
    """

    attempts: int = 3
    wait: Callable[[Any], float] | None = None
    stop: Callable[[Any], bool] | None = None
    max_wait: float = 60.0


@dataclass(frozen=True, slots=True)
class Fallback:
    """A tool that answers in place of another one that is not available.

    Attributes:
        tool: name of the tool to call.
        arguments: maps the original arguments to its own; None: the same arguments.
    """

    tool: str
    arguments: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None


@dataclass(frozen=True, slots=True)
class ConfirmBy:
    """A confirmation by a read tool: call it, and let a predicate say whether the effect is there.

    Attributes:
        tool: name of a registered tool with `effect="read"`.
        applied: is told the data; True: ours is applied, False: it is not, None: cannot tell.
        arguments: maps the write's arguments to the read's; None: those of the same name.
    """

    tool: str
    applied: Callable[[Any], bool | None]
    arguments: Callable[[Mapping[str, Any]], Mapping[str, Any]] | None = None


class ToolOptions(TypedDict, total=False):
    """The options of `@guard.tool(...)`; see `Tool` for what each means."""

    name: str
    description: str | None
    title: str | None
    version: str
    effect: Effect
    tags: frozenset[str] | set[str] | Sequence[str]
    timeout: float | None
    retry: Retry | int | None
    confirm: Callable[[Any], Any] | ConfirmBy | None
    settle: float | None
    business_key: Sequence[str] | None
    idempotency_key: bool | str
    idempotency_lifetime: float | None
    conditional: bool
    fallback: Sequence[str | Fallback]
    recovery: Mapping[str, Sequence[Action]]
    rules: Sequence[Rule]
    constraints: Sequence[Check]
    classifiers: Sequence[Callable[[Any, Any], Any]]
    failed_when: Callable[[Any], Any] | None
    output: Mapping[str, Any] | None
    approval: Literal["required", "never"] | Rule | None
    bound: Mapping[str, str]
    aliases: Mapping[str, Sequence[str]]
    normalize: Mapping[str, Callable[[Any], Any]]
    redact: Sequence[str]
    max_result_chars: int
    max_items: int | None
    inline: bool
    ready: Callable[[Any], Any] | None
    cost: float
    polling: bool
    untrusted: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Tool:
    """A callable with its JSON Schema and its rules; what `guard.register` takes.

    Attributes:
        name: exact name; calls match it exactly.
        parameters: JSON Schema of the arguments, used as it is, never a simplified copy.
        fn: the callable; gets the arguments by keyword.
        description, title: for the model.
        version: version of the tool's behaviour; part of keys and evidence.
        effect: `read`, `idempotent_write`, `write` (default: not idempotent) or `destructive`.
        tags: free labels; for your rules, the guard does not act on them.
        timeout: seconds for one attempt; None: no limit. An async tool is cancelled then, and waited for: one that cleans up
            slowly, or ignores it, takes longer.
        retry: a `Retry`, a number of attempts, or None for the default (3; 2 for a non-idempotent write).
        confirm: says whether the effect of an uncertain write is in the system; `(call) -> Applied | AppliedByOther | NotApplied
            | Inconclusive`, or a `ConfirmBy`.
        settle: longest time in seconds in which a sent request can still land, read lag included; licenses a retry after it.
        business_key: the parameters that identify the effect; None: all of them.
        idempotency_key: the server removes duplicates by key: True (the tool reads it from `CallInfo`), or the name of the
            parameter that receives it (hidden from the model).
        idempotency_lifetime: seconds for which the server remembers a key, counted from the first attempt; a call that is older
            is not sent again on the strength of its key, also after a crash. None: for ever.
        conditional: the write has a condition that makes a second one harmless (If-Match, compare and set).
        fallback: tools that answer when this one cannot.
        recovery: plans of this tool that go before the guard's recovery table, by failure class or error type,
            `{"TIMEOUT": ("fallback", "stop")}`.
        rules: business rules `(call) -> None | Violation`.
        constraints: execution constraints, asked before every attempt.
        classifiers: `(exception_or_result, call) -> ErrorType | Classified | None`, asked before the built-in ones.
        failed_when: `(result) -> falsy | True | str | Violation`: a returned value that means refusal (not applied).
        output: JSON Schema of the data (checked after the call; a write that breaks it stays done, and is flagged).
        approval: `required`, `never`, a rule that says when, or None: required for destructive tools only.
        bound: parameters that the host fills from the task context, `{"tenant_id": "tenant"}`.
        aliases: other names for parameters, `{"order_id": ["id", "orderNo"]}`.
        normalize: own normalizers by parameter.
        redact: parameter and field names that are secret.
        max_result_chars: largest result kept inline; the rest goes to an artifact.
        max_items: most items read from a generator; required for generator tools.
        inline: a sync tool that must stay on the event loop's thread.
        ready: `(call) -> bool`: whether the environment is ready again.
        cost: cost of one attempt, counted against the task's budget.
        polling: identical calls in a row are normal.
        untrusted: the result may hold instructions of strangers; it is marked so for the model.
    """

    name: str
    parameters: Mapping[str, Any]
    fn: Callable[..., Any]
    description: str | None = None
    title: str | None = None
    version: str = "1"
    effect: Effect = "write"
    tags: frozenset[str] = frozenset()
    timeout: float | None = None
    retry: Retry | int | None = None
    confirm: Callable[[Any], Any] | ConfirmBy | None = None
    settle: float | None = None
    business_key: tuple[str, ...] | None = None
    idempotency_key: bool | str = False
    idempotency_lifetime: float | None = 86_400.0
    conditional: bool = False
    fallback: tuple[str | Fallback, ...] = ()
    recovery: Mapping[str, Plan] = field(default_factory=dict)
    rules: tuple[Rule, ...] = ()
    constraints: tuple[Check, ...] = ()
    classifiers: tuple[Callable[[Any, Any], Any], ...] = ()
    failed_when: Callable[[Any], Any] | None = None
    output: Mapping[str, Any] | None = None
    approval: Literal["required", "never"] | Rule | None = None
    bound: Mapping[str, str] = field(default_factory=dict)
    aliases: Mapping[str, Sequence[str]] = field(default_factory=dict)
    normalize: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    redact: tuple[str, ...] = ()
    max_result_chars: int = 100_000
    max_items: int | None = None
    inline: bool = False
    ready: Callable[[Any], Any] | None = None
    cost: float = 0.0
    polling: bool = False
    untrusted: bool = False

    @property
    def is_read(self) -> bool:
        """Whether the tool leaves the world as it is."""
        return self.effect == "read"

    @property
    def hidden(self) -> frozenset[str]:
        """Names of the parameters that the host fills: bound ones and the idempotency key's."""
        names = frozenset(self.bound)
        return names | {self.idempotency_key} if isinstance(self.idempotency_key, str) else names

    @property
    def model_schema(self) -> dict[str, Any]:
        """The JSON Schema that the model sees: the parameters without the hidden ones."""
        return without(self.parameters, self.hidden)


def without(schema: Mapping[str, Any], hidden: frozenset[str]) -> dict[str, Any]:
    """Answer a schema without some top-level properties."""
    shown = dict(schema)
    if hidden:
        properties = schema.get("properties") or {}
        shown["properties"] = {name: sub for name, sub in properties.items() if name not in hidden}
        if "required" in schema:
            shown["required"] = [name for name in schema["required"] if name not in hidden]
    return shown
