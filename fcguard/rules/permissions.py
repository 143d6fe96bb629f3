"""The rule that asks for a role of the actor."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from fcguard.errors import ConfigurationError
from fcguard.model.failure import ErrorType, Violation
from fcguard.rules.base import BaseRule
from fcguard.rules.protocols import Verdict

__all__ = ["requires_role"]


def requires_role(*roles: str, every: bool = False) -> BaseRule:
    """Refuse an actor without the role (`PERMISSION_DENIED`); roles come from the context, never from the model.

    Args:
        roles: exact names; one of them is enough.
        every: whether the actor needs all of them.

    Raises:
        ConfigurationError: no role was given.
    """
    if not roles or not all(isinstance(role, str) and role for role in roles):
        raise ConfigurationError(f"requires_role: give one or more names of roles; got {roles!r}")
    return _RequiresRole(frozenset(roles), every)


@dataclass(frozen=True, slots=True, repr=False)
class _RequiresRole(BaseRule):
    name: ClassVar[str] = "requires_role"
    roles: frozenset[str]
    every: bool

    def __call__(self, call: Any) -> Verdict:
        held = call.context.roles
        if self.roles <= held if self.every else not self.roles.isdisjoint(held):
            return None
        needed = (" and " if self.every else " or ").join(sorted(self.roles))
        return Violation(
            ErrorType.PERMISSION_DENIED, f"{call.tool.name!r} needs the role {needed}, which the actor does not have"
        )
