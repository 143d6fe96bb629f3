"""The rule that looks up who owns a resource before the tool touches it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from inspect import isawaitable
from typing import Any, ClassVar

from fcguard.model.failure import ErrorType, Problem, Violation
from fcguard.rules.base import BaseRule, EitherColour, is_async, to_rule
from fcguard.rules.identities import identity_name, same_identity
from fcguard.rules.protocols import Verdict
from fcguard.rules.selectors import Selector

__all__ = ["owned_by"]


def owned_by(lookup: Callable[[Any], Any], *, parameter: str, identity: str = "tenant") -> BaseRule:
    """Refuse a call on a resource that does not belong to the task's tenant, account or actor (`PERMISSION_DENIED`).

    A resource that does not exist and one of another owner get the same answer, so that nothing is learned by asking.

    Args:
        lookup: `(id) -> owner | collection of owners | None`, sync or async; asked for every id at the path.
        parameter: dotted path of the id (`order_id`, `items[*].id`). A call without it is refused.
        identity: `tenant`, `account`, `actor`, `agent`, `session_id` or `conversation_id` of the context.

    Returns:
        A rule that is async if `lookup` is.

    Raises:
        ConfigurationError: the path or the identity is none.
    """
    checked = to_rule(lookup, "owned_by")
    return _OwnedBy(checked, Selector(parameter, "owned_by"), identity_name(identity, "owned_by"), is_async(lookup))


@dataclass(frozen=True, slots=True, repr=False)
class _OwnedBy(EitherColour):
    name: ClassVar[str] = "owned_by"
    lookup: Callable[[Any], Any]
    parameter: Selector
    identity: str
    colour: bool = field(repr=False)

    async def _decide(self, call: Any) -> Verdict:
        found = [(path, value) for path, value in self.parameter.find(call.arguments) if value is not None]
        if not found:
            self.parameter.check(call.tool.parameters, self.name)
            return self._refuse(self.parameter.text, "is required: its owner must be known")
        own = call.context.value_of(self.identity)
        for path, value in found:
            if isinstance(value, bool) or not isinstance(value, str | int):
                return self._refuse(path, "must be one id, a text or a whole number", ErrorType.PARAM_INVALID)
            owner = self.lookup(value)
            if isawaitable(owner):
                owner = await owner
            owners = owner if isinstance(owner, set | frozenset | list | tuple) else (owner,)
            if not any(same_identity(one, own) for one in owners):
                return self._refuse(path, f"names nothing that belongs to the {self.identity} of this task")
        return None

    def check(self, parameters: Mapping[str, Any]) -> None:
        self.parameter.check(parameters, self.name)

    def _refuse(self, path: str, message: str, code: str = ErrorType.PERMISSION_DENIED) -> Violation:
        return Violation(code, f"{path} {message}", problems=(Problem(path, self.name, message),))
