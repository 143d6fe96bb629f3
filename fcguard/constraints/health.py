"""Do not call what is known to be down: ask a dependency for its health, and remember the answer for a while."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable
from inspect import isawaitable
from typing import Any, TypeAlias

from fcguard.constraints.options import check_seconds, is_async_callable, takes_call
from fcguard.errors import ConfigurationError
from fcguard.model.attempt import Attempt
from fcguard.model.call import Call
from fcguard.model.failure import ErrorType, Violation

__all__ = ["DependencyHealth"]

Verdict: TypeAlias = Violation | None
_MOST_KEYS = 1000


class DependencyHealth:
    """Admits attempts while a check says that a dependency is healthy; the answer is kept for `cache_seconds`.

    In async calls a sync check runs in a worker thread. A check that raises, or answers anything but True, None, False or a `Violation`, is taken as unhealthy. Confirmations pass.

    Args:
        check: `()` or `(call)` -> True or None if healthy, False or a `Violation` if not; sync or async.
        cache_seconds: how long an answer counts.
        name: name of the dependency, for the evidence and the message.
        code: error type of the refusal.
        key: `(call) -> key` to keep answers apart; None: by environment if the check takes the call, else one answer.
    """

    def __init__(
        self,
        check: Callable[..., Any],
        *,
        cache_seconds: float = 5.0,
        name: str = "dependency",
        code: ErrorType = ErrorType.DEPENDENCY_ERROR,
        key: Callable[[Call], Hashable] | None = None,
    ) -> None:
        if not callable(check):
            raise ConfigurationError(
                f"DependencyHealth: check={check!r} cannot be called; give a function that answers True or False"
            )
        self.name, self.code = name, code
        self.cache_seconds = check_seconds(name, "cache_seconds", cache_seconds)
        self._check, self._takes_call = check, takes_call(check)
        self._key = key or (_environment_of if self._takes_call else None)
        self._known: dict[Hashable, tuple[float, Verdict]] = {}

    @property
    def is_async(self) -> bool:
        """Whether admission has to be awaited."""
        return is_async_callable(self._check)

    def is_blocking(self, call: Call, now: float) -> bool:
        """Answer whether the check has to be asked for this call and may keep its thread waiting."""
        return not self.is_async and call.purpose != "confirm" and self._fresh(self._key_of(call), now) is None

    def admit(self, call: Call, now: float) -> Verdict | Awaitable[Verdict]:
        """Admit while the dependency is healthy."""
        if call.purpose == "confirm":
            return None
        key = self._key_of(call)
        known = self._fresh(key, now)
        if known is not None:
            return _with_rest(known[1], known[0] - now)
        try:
            answer = self._check(call) if self._takes_call else self._check()
        except Exception as error:
            return self._keep(key, now, self._unhealthy(f"its check raised {type(error).__name__}"))
        if isawaitable(answer):
            return self._later(key, now, answer)
        return self._keep(key, now, self._read(answer))

    def settle(self, call: Call, attempt: Attempt | None, now: float) -> None:
        """Nothing to give back."""

    def _key_of(self, call: Call) -> Hashable:
        return None if self._key is None else self._key(call)

    def _fresh(self, key: Hashable, now: float) -> tuple[float, Verdict] | None:
        known = self._known.get(key)
        return known if known is not None and known[0] > now else None

    async def _later(self, key: Hashable, now: float, answer: Awaitable[Any]) -> Verdict:
        try:
            verdict = self._read(await answer)
        except Exception as error:
            verdict = self._unhealthy(f"its check raised {type(error).__name__}")
        return self._keep(key, now, verdict)

    def _keep(self, key: Hashable, now: float, verdict: Verdict) -> Verdict:
        if len(self._known) >= _MOST_KEYS:
            self._known.clear()
        self._known[key] = now + self.cache_seconds, verdict
        return _with_rest(verdict, self.cache_seconds)

    def _read(self, answer: Any) -> Verdict:
        if answer is True or answer is None:
            return None
        if isinstance(answer, Violation):
            return answer
        return self._unhealthy(
            "its check says so" if answer is False else f"its check answered {type(answer).__name__} instead of a bool"
        )

    def _unhealthy(self, why: str) -> Violation:
        return Violation(self.code, f"The dependency {self.name!r} is not healthy: {why}. Nothing was sent.")


def _with_rest(verdict: Verdict, left: float) -> Verdict:
    if verdict is None or verdict.retry_after is not None:
        return verdict
    return Violation(
        verdict.code,
        verdict.message,
        verdict.next_action,
        verdict.failure_class,
        retry_after=left,
        problems=verdict.problems,
    )


def _environment_of(call: Call) -> Hashable:
    environment = call.context.environment
    return None if environment is None else (environment.name, environment.tenant)
