"""Enforce a freeze outside the model: no writes while a flag is on."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from inspect import isawaitable
from typing import Any, TypeAlias

from fcguard.constraints.options import WRITES, check_effects, is_async_callable, takes_call
from fcguard.errors import ConfigurationError
from fcguard.model.attempt import Attempt
from fcguard.model.call import Call
from fcguard.model.failure import ErrorType, NextAction, Violation

__all__ = ["Freeze"]

Verdict: TypeAlias = Violation | None


class Freeze:
    """Refuses writes while a freeze is on (`TENANT_FROZEN`, abort); asked before every attempt, so it also stops a retry.

    In async calls a sync flag is read in a worker thread. A flag that cannot be read counts as on: a freeze that exists only as a sentence in a prompt protects nothing.

    Args:
        is_active: `()` or `(call)` -> whether the freeze is on; sync or async. Only False lets writes pass.
        effects: kinds of tools that are stopped.
        name: name of the freeze, for the evidence and the message.
        code: error type of the refusal.
    """

    def __init__(
        self,
        is_active: Callable[..., Any],
        *,
        effects: Collection[str] = WRITES,
        name: str = "freeze",
        code: ErrorType = ErrorType.TENANT_FROZEN,
    ) -> None:
        if not callable(is_active):
            raise ConfigurationError(
                f"Freeze: is_active={is_active!r} cannot be called; give a function, so that it is asked every time"
            )
        self.name, self.code, self.effects = name, code, check_effects(name, effects)
        self._is_active, self._takes_call = is_active, takes_call(is_active)

    @property
    def is_async(self) -> bool:
        """Whether admission has to be awaited."""
        return is_async_callable(self._is_active)

    def is_blocking(self, call: Call, now: float) -> bool:
        """Answer whether the flag has to be read for this call and may keep its thread waiting."""
        return not self.is_async and self._stops(call)

    def admit(self, call: Call, now: float) -> Verdict | Awaitable[Verdict]:
        """Admit if the call is not of a stopped kind, or the freeze is off."""
        if not self._stops(call):
            return None
        try:
            answer = self._is_active(call) if self._takes_call else self._is_active()
        except Exception as error:
            return self._refuse(f" (its flag could not be read: {type(error).__name__})")
        if isawaitable(answer):
            return self._later(answer)
        return self._read(answer)

    def settle(self, call: Call, attempt: Attempt | None, now: float) -> None:
        """Nothing to give back."""

    def _stops(self, call: Call) -> bool:
        return call.tool is None or call.tool.effect in self.effects

    async def _later(self, answer: Awaitable[Any]) -> Verdict:
        try:
            return self._read(await answer)
        except Exception as error:
            return self._refuse(f" (its flag could not be read: {type(error).__name__})")

    def _read(self, answer: Any) -> Verdict:
        return (
            None
            if answer is False
            else self._refuse("" if answer is True else f" (its flag says {type(answer).__name__}, not False)")
        )

    def _refuse(self, why: str) -> Violation:
        return Violation(
            self.code,
            f"The freeze {self.name!r} is active{why}: nothing may be changed. Nothing was sent. Stop, and report that it was not done.",
            next_action=NextAction.ABORT,
        )
