"""What a business rule is made of: its name, its colour, its operators, and the combinators over rules."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from inspect import isawaitable, iscoroutinefunction
from typing import Any, ClassVar

from fcguard.errors import ColourError, ConfigurationError
from fcguard.model.failure import ErrorType, Violation
from fcguard.rules.protocols import Rule, Verdict

__all__ = [
    "BaseRule",
    "EitherColour",
    "all_of",
    "any_of",
    "check_rule",
    "drive",
    "is_async",
    "not_",
    "rule_name",
    "to_rule",
    "when",
]


class BaseRule:
    """A frozen rule with a name, a readable repr and the operators `&` (both), `|` (either) and `~` (not).

    Subclasses are frozen dataclasses with slots; they define `name` and `__call__`.
    """

    __slots__ = ()
    name: ClassVar[str] = "rule"

    @property
    def is_async(self) -> bool:
        """Whether calling the rule answers an awaitable."""
        return False

    def __call__(self, call: Any) -> Verdict | Awaitable[Verdict]:
        """Answer None to let the call pass, or why not."""
        raise NotImplementedError

    def check(self, parameters: Mapping[str, Any]) -> None:
        """Compare the rule with the JSON Schema of the tool it is given to.

        Raises:
            ConfigurationError: the rule looks at a parameter that the tool does not have.
        """

    def __and__(self, other: Rule) -> BaseRule:
        return all_of(self, other)

    def __rand__(self, other: Rule) -> BaseRule:
        return all_of(other, self)

    def __or__(self, other: Rule) -> BaseRule:
        return any_of(self, other)

    def __ror__(self, other: Rule) -> BaseRule:
        return any_of(other, self)

    def __invert__(self) -> BaseRule:
        return not_(self)

    def __repr__(self) -> str:
        shown = [f"{option.name}={_show(getattr(self, option.name))}" for option in fields(self) if option.repr]  # type: ignore[arg-type]
        return f"{self.name}({', '.join(shown)})"


def _show(value: Any) -> str:
    """Show an option in a rule's repr: functions by name, so that the text is the same in every process."""
    if isinstance(value, tuple):
        inner = ", ".join(map(_show, value))
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if isinstance(value, frozenset):
        return "{" + ", ".join(sorted(map(_show, value))) + "}"
    return rule_name(value) if callable(value) and not isinstance(value, BaseRule) else repr(value)


def rule_name(rule: Any) -> str:
    """Answer the name of a rule for the evidence: its `name`, else the name of its function or class."""
    while isinstance(rule, partial):
        rule = rule.func
    name = getattr(rule, "name", None) or getattr(rule, "__qualname__", None)
    if not isinstance(name, str):
        name = type(rule).__qualname__
    return name.rsplit("<locals>.", 1)[-1]


def is_async(rule: Any) -> bool:
    """Tell whether a rule (or another one-argument collaborator) is async, so that it cannot serve a sync tool."""
    if isinstance(rule, BaseRule):
        return rule.is_async
    while isinstance(rule, partial):
        rule = rule.func
    return iscoroutinefunction(rule) or iscoroutinefunction(getattr(rule, "__call__", None))  # noqa: B004 - not a callable test


def check_rule(rule: Any, parameters: Mapping[str, Any]) -> None:
    """Compare a rule with the tool it is given to; call it at decoration.

    Args:
        rule: any rule; only the shipped ones know which parameters they look at.
        parameters: JSON Schema of the tool.

    Raises:
        ConfigurationError: it is not callable, or looks at a parameter that the tool does not have.
    """
    to_rule(rule, "rules")
    if isinstance(rule, BaseRule):
        rule.check(parameters)


def to_rule(value: Any, owner: str) -> Rule:
    """Answer `value` if it can be a rule.

    Args:
        value: what the user gave.
        owner: who asks, for the message.

    Raises:
        ConfigurationError: it is not a callable, or it is a class or a rule factory that was not called.
    """
    if isinstance(value, type) or not callable(value):
        raise ConfigurationError(f"{owner}: {value!r} is not a rule; give a callable (call) -> None | Violation")
    is_ours = str(getattr(value, "__module__", "")).startswith("fcguard.rules.")
    if is_ours and getattr(value, "__annotations__", {}).get("return") == "BaseRule":
        raise ConfigurationError(f"{owner}: {value.__name__!r} makes a rule; call it: {value.__name__}(...)")
    checked: Rule = value
    return checked


def drive(coro: Coroutine[Any, Any, Any]) -> Any:
    """Run a coroutine that awaits nothing that suspends, and answer its result.

    Raises:
        ColourError: it did suspend: an async rule was given where only sync ones serve.
    """
    try:
        coro.send(None)
    except StopIteration as stop:
        return stop.value
    coro.close()
    raise ColourError("a rule that is not async answered an awaitable; declare it with 'async def'")


def all_of(*rules: Rule) -> BaseRule:
    """Pass if every rule passes; the first refusal wins and the rest is not asked. `a & b` is the same.

    Args:
        rules: asked in order; none at all: always passes (the identity of `&`).

    Returns:
        A rule that is async if any of its rules is.
    """
    return _AllOf(_flat(_AllOf, "all_of", rules))


def any_of(*rules: Rule) -> BaseRule:
    """Pass if one rule passes; else refuse with every reason. `a | b` is the same.

    The refusal has the code, class and next action of the first rule's, the messages of all joined with " -- or -- ",
    and all problems. A rule that raises still refuses the call.

    Args:
        rules: asked in order until one passes; at least one.

    Returns:
        A rule that is async if any of its rules is.

    Raises:
        ConfigurationError: no rule was given.
    """
    if not rules:
        raise ConfigurationError("any_of() has no rule that could pass; give at least one")
    return _AnyOf(_flat(_AnyOf, "any_of", rules))


def not_(
    rule: Rule, *, code: str = ErrorType.PRECONDITION_FAILED, message: str | None = None, next_action: str | None = None
) -> BaseRule:
    """Pass if the rule refuses, refuse if it passes. `~rule` is the same. A rule that raises still refuses the call.

    Args:
        rule: the rule to turn round.
        code: error type of the refusal.
        message: why; default: that the rule must not hold.
        next_action: what to do; default: what the taxonomy says for `code`.
    """
    inner = to_rule(rule, "not_")
    return _Not(inner, str(code), message or f"refused because {rule_name(inner)} holds", next_action)


def when(condition: Callable[[Any], Any], rule: Rule) -> BaseRule:
    """Ask the rule only when a condition holds.

    Args:
        condition: `(call) -> bool`, sync or async; or a rule, which holds when it passes. Anything else that it answers
            is an error, which refuses the call.
        rule: asked when the condition holds.

    Returns:
        A rule that is async if the condition or the rule is.
    """
    return _When(to_rule(condition, "when"), to_rule(rule, "when"))


def _flat(kind: type[_Composed], owner: str, rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
    """Flatten directly nested combinators of one kind, so that grouping does not matter."""
    out: list[Rule] = []
    for rule in rules:
        out.extend(rule.rules if isinstance(rule, kind) else (to_rule(rule, owner),))
    return tuple(out)


class EitherColour(BaseRule):
    """A rule that asks something sync or async; one coroutine serves both.

    Attributes:
        colour: whether what it asks is async.
    """

    __slots__ = ()
    colour: bool

    @property
    def is_async(self) -> bool:
        """Whether calling the rule answers an awaitable."""
        return self.colour

    def __call__(self, call: Any) -> Verdict | Awaitable[Verdict]:
        """Answer None to let the call pass, or why not."""
        decision = self._decide(call)
        if self.colour:
            return decision
        verdict: Verdict = drive(decision)
        return verdict

    async def _decide(self, call: Any) -> Verdict:
        raise NotImplementedError


class _Composed(EitherColour):
    """A rule that asks others."""

    __slots__ = ()
    rules: tuple[Rule, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "colour", any(map(is_async, self._parts())))

    def _parts(self) -> tuple[Any, ...]:
        return self.rules

    def check(self, parameters: Mapping[str, Any]) -> None:
        for part in self._parts():
            check_rule(part, parameters)


async def _ask(rule: Rule, call: Any) -> Verdict:
    verdict = rule(call)
    if verdict is not None and not isinstance(verdict, Violation) and isawaitable(verdict):
        verdict = await verdict
    if verdict is not None and not isinstance(verdict, Violation):
        raise TypeError(f"rule {rule_name(rule)!r} answered {type(verdict).__name__}; answer None or a Violation")
    return verdict


@dataclass(frozen=True, slots=True, repr=False)
class _AllOf(_Composed):
    name: ClassVar[str] = "all_of"
    rules: tuple[Rule, ...]
    colour: bool = field(init=False, repr=False, compare=False)

    async def _decide(self, call: Any) -> Verdict:
        for rule in self.rules:
            violation = await _ask(rule, call)
            if violation is not None:
                return violation
        return None


@dataclass(frozen=True, slots=True, repr=False)
class _AnyOf(_Composed):
    name: ClassVar[str] = "any_of"
    rules: tuple[Rule, ...]
    colour: bool = field(init=False, repr=False, compare=False)

    async def _decide(self, call: Any) -> Verdict:
        refusals: list[Violation] = []
        for rule in self.rules:
            violation = await _ask(rule, call)
            if violation is None:
                return None
            refusals.append(violation)
        return _merge(refusals)


def _merge(refusals: list[Violation]) -> Violation:
    first = refusals[0]
    waits = [violation.retry_after for violation in refusals if violation.retry_after is not None]
    return Violation(
        first.code,
        " -- or -- ".join(violation.message for violation in refusals),
        first.next_action,
        first.failure_class,
        min(waits, default=None),
        tuple(problem for violation in refusals for problem in violation.problems),
    )


@dataclass(frozen=True, slots=True, repr=False)
class _Not(_Composed):
    name: ClassVar[str] = "not_"
    rule: Rule
    code: str
    message: str
    next_action: str | None
    colour: bool = field(init=False, repr=False, compare=False)

    def _parts(self) -> tuple[Any, ...]:
        return (self.rule,)

    async def _decide(self, call: Any) -> Verdict:
        violation = await _ask(self.rule, call)
        return Violation(self.code, self.message, self.next_action) if violation is None else None


@dataclass(frozen=True, slots=True, repr=False)
class _When(_Composed):
    name: ClassVar[str] = "when"
    condition: Callable[[Any], Any]
    rule: Rule
    colour: bool = field(init=False, repr=False, compare=False)

    def _parts(self) -> tuple[Any, ...]:
        return (self.condition, self.rule)

    async def _decide(self, call: Any) -> Verdict:
        return await _ask(self.rule, call) if await self._holds(call) else None

    async def _holds(self, call: Any) -> bool:
        answer = self.condition(call)
        if isawaitable(answer):
            answer = await answer
        if isinstance(answer, bool):
            return answer
        if isinstance(self.condition, BaseRule) and (answer is None or isinstance(answer, Violation)):
            return answer is None
        raise TypeError(
            f"the condition {rule_name(self.condition)!r} answered {type(answer).__name__}; answer True or False"
        )
