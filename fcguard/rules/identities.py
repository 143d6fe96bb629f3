"""Rules that compare an argument with the identity the host bound to the task: tenant and account."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from fcguard.errors import ConfigurationError
from fcguard.model.failure import ErrorType, Problem, Violation
from fcguard.rules.base import BaseRule
from fcguard.rules.protocols import Verdict
from fcguard.rules.selectors import Selector

__all__ = ["account_matches", "same_identity", "tenant_matches"]


def tenant_matches(parameter: str = "tenant_id", *, optional: bool = False) -> BaseRule:
    """Refuse a call whose tenant is not the task's own (`PERMISSION_DENIED`).

    Better still is a parameter that the model never sees: `Bound("tenant")`.

    Args:
        parameter: dotted path of the parameter.
        optional: whether it may be left out; default: no, for "no tenant" often means "all tenants".
    """
    return _TenantMatches(Selector(parameter, "tenant_matches"), optional)


def account_matches(parameter: str = "account", *, optional: bool = False) -> BaseRule:
    """Refuse a call whose account is not the task's own (`PERMISSION_DENIED`).

    Args:
        parameter: dotted path of the parameter.
        optional: whether it may be left out; default: no.
    """
    return _AccountMatches(Selector(parameter, "account_matches"), optional)


def same_identity(value: Any, own: str | None) -> bool:
    """Tell whether a value is the identity, as text or as a whole number of the same digits; nothing is folded."""
    if own is None or isinstance(value, bool) or not isinstance(value, str | int):
        return False
    return str(value) == own


@dataclass(frozen=True, slots=True, repr=False)
class _Matches(BaseRule):
    identity: ClassVar[str]
    parameter: Selector
    optional: bool

    def __call__(self, call: Any) -> Verdict:
        found = self.parameter.find(call.arguments)
        if not found:
            self.parameter.check(call.tool.parameters, self.name)
        own = call.context.value_of(self.identity)
        sent = [(path, value) for path, value in found if value is not None]
        if not sent:
            return (
                None
                if self.optional
                else self._refuse(self.parameter.text, f"is required: send the task's own {self.identity}")
            )
        for path, value in sent:
            if own is None:
                return self._refuse(
                    path, f"cannot be compared: the task has no {self.identity}; set it in the environment"
                )
            if not same_identity(value, own):
                return self._refuse(
                    path, f"is not the {self.identity} of this task; only its own {self.identity} may be used"
                )
        return None

    def check(self, parameters: Any) -> None:
        self.parameter.check(parameters, self.name)

    def _refuse(self, path: str, message: str) -> Violation:
        return Violation(
            ErrorType.PERMISSION_DENIED, f"{path} {message}", problems=(Problem(path, self.name, message),)
        )


class _TenantMatches(_Matches):
    __slots__ = ()
    name = "tenant_matches"
    identity = "tenant"


class _AccountMatches(_Matches):
    __slots__ = ()
    name = "account_matches"
    identity = "account"


def identity_name(name: str, owner: str) -> str:
    """Answer the name of an identity that the context can hold.

    Raises:
        ConfigurationError: the context has no such identity.
    """
    known = ("tenant", "account", "actor", "agent", "session_id", "conversation_id")
    if name not in known:
        raise ConfigurationError(f"{owner}: the context holds no identity {name!r}; use one of {', '.join(known)}")
    return name
