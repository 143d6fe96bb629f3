"""The base of rules that judge the values of parameters, found by dotted paths."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fcguard.model.failure import ErrorType, Problem, Violation
from fcguard.rules.base import BaseRule
from fcguard.rules.protocols import RuleCall, Verdict
from fcguard.rules.selectors import Selector

__all__ = ["ParameterRule", "refusal"]


class ParameterRule(BaseRule):
    """A rule about the values of one or more parameters, each found by a dotted path (`filter.url`, `urls[*]`).

    A parameter that was not sent, or is null, holds nothing to check and passes; a path that leads nowhere in the tool's
    schema is a mistake in the declaration and raises, which refuses the call.
    """

    __slots__ = ()
    selectors: tuple[Selector, ...]

    def __call__(self, call: Any) -> Verdict:
        """Judge every value at the paths; the first refusal wins."""
        arguments = call.arguments
        for selector in self.selectors:
            found = selector.find(arguments)
            if not found:
                selector.check(call.tool.parameters, self.name)
            for path, value in found:
                if value is not None and (violation := self.examine(path, value, call)) is not None:
                    return violation
        return None

    def examine(self, path: str, value: Any, call: RuleCall) -> Verdict:
        """Judge one value; what is not of the expected type is refused here."""
        raise NotImplementedError

    def check(self, parameters: Mapping[str, Any]) -> None:
        """Compare the paths with the tool's schema; see `BaseRule.check`."""
        for selector in self.selectors:
            selector.check(parameters, self.name)


def refusal(
    rule: str,
    path: str,
    message: str,
    *,
    code: str = ErrorType.PARAM_INVALID,
    next_action: str | None = "fix_arguments",
) -> Violation:
    """Build the violation of a rule about one parameter.

    Args:
        rule: name of the rule, for the evidence.
        path: the parameter.
        message: what is wrong and what would be accepted; no secrets.
        code: error type.
        next_action: what to do now; None: what the taxonomy says for `code`.
    """
    return Violation(code, f"{path}: {message}", next_action, problems=(Problem(path, rule, message),))
