"""The rule for a team's own preconditions: is the order paid, is the release frozen."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from inspect import isawaitable
from typing import Any, ClassVar, Final

from fcguard.errors import ConfigurationError
from fcguard.model.failure import TAXONOMY, ErrorType, FailureClass, Violation
from fcguard.rules.base import BaseRule, EitherColour, is_async, rule_name, to_rule
from fcguard.rules.protocols import Verdict

__all__ = ["requires"]

_CODE: Final = re.compile(r"[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*")
_ACTION: Final = re.compile(r"[a-z][a-z0-9]*(?:_[a-z0-9]+)*")


def requires(
    predicate: Callable[[Any], Any],
    *,
    code: str = ErrorType.PRECONDITION_FAILED,
    message: str | None = None,
    next_action: str | None = None,
    failure_class: FailureClass | None = None,
) -> BaseRule:
    """Refuse a call whose precondition does not hold.

    Args:
        predicate: `(call) -> bool`, sync or async; may run read tools. It may also answer a `Violation` of its own. Any
            other answer (None included) is an error of the predicate, which refuses the call.
        code: error type: a built-in one, or an upper-case word of your own (`ORDER_NOT_PAID`).
        message: why, for the model; default: names the predicate.
        next_action: a word of the vocabulary or a snake_case word of your own; default: what the taxonomy says for `code`,
            `ask_user` for an own code.
        failure_class: class of an own code; default `PARAMETER`. Built-in codes have their class.

    Returns:
        A rule that is async if the predicate is.

    Raises:
        ConfigurationError: the code or the next action is not a word of that form, or a built-in code is given another class.
    """
    checked = to_rule(predicate, "requires")
    if not isinstance(code, str) or not _CODE.fullmatch(code):
        raise ConfigurationError(f"requires: code {code!r} is not an upper-case word such as 'ORDER_NOT_PAID'")
    if next_action is not None and not (isinstance(next_action, str) and _ACTION.fullmatch(next_action)):
        raise ConfigurationError(f"requires: next_action {next_action!r} is not a snake_case word such as 'ask_user'")
    row = TAXONOMY.get(code)  # type: ignore[call-overload]
    if row is not None and failure_class not in (None, row[0]):
        raise ConfigurationError(f"requires: {code} belongs to {row[0]}; use a code of your own for {failure_class}")
    action = next_action or ("ask_user" if row is None else None)
    text = message or f"the precondition {rule_name(predicate)} does not hold"
    return _Requires(checked, Violation(str(code), text, action, failure_class), is_async(predicate))


@dataclass(frozen=True, slots=True, repr=False)
class _Requires(EitherColour):
    name: ClassVar[str] = "requires"
    predicate: Callable[[Any], Any]
    violation: Violation
    colour: bool = field(repr=False)

    async def _decide(self, call: Any) -> Verdict:
        answer = self.predicate(call)
        if isawaitable(answer):
            answer = await answer
        if answer is True:
            return None
        if answer is False:
            return self.violation
        if isinstance(answer, Violation):
            return answer
        raise TypeError(
            f"the predicate {rule_name(self.predicate)!r} answered {type(answer).__name__}; answer True or False"
        )
