"""The rule that ties a tool to environments by name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from fcguard.model.failure import ErrorType, Violation
from fcguard.rules.base import BaseRule
from fcguard.rules.globs import matches, name_patterns
from fcguard.rules.protocols import Verdict

__all__ = ["only_in"]


def only_in(*names: str) -> BaseRule:
    """Let a tool run in the named environments only; `ENVIRONMENT_FORBIDDEN` elsewhere and where no environment is known.

    Args:
        names: names of environments, exact, or explicit globs (`sandbox-*`); case counts.

    Raises:
        ConfigurationError: no name was given.
    """
    return _OnlyIn(name_patterns(names, "only_in"))


@dataclass(frozen=True, slots=True, repr=False)
class _OnlyIn(BaseRule):
    name: ClassVar[str] = "only_in"
    names: frozenset[str]

    def __call__(self, call: Any) -> Verdict:
        environment = call.context.environment
        if environment is not None and matches(environment.name, self.names):
            return None
        here = f"this is {environment.name!r}" if environment is not None else "the task names no environment"
        allowed = ", ".join(sorted(self.names))
        return Violation(ErrorType.ENVIRONMENT_FORBIDDEN, f"{call.tool.name!r} runs only in {allowed}; {here}")
