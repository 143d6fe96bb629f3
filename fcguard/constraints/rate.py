"""Limit how often something is called, and how much of it may be retries."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Callable, Hashable
from math import isfinite
from typing import Any

from fcguard.constraints.options import check_count, check_seconds
from fcguard.constraints.state import MemoryState, SharedState, clock_of, is_blocking, state_key
from fcguard.errors import ConfigurationError
from fcguard.model.attempt import Attempt
from fcguard.model.call import Call
from fcguard.model.failure import ErrorType, NextAction, Violation

__all__ = ["RateLimit", "RetryTokenBucket"]


class RateLimit:
    """Admits at most `limit` attempts in any `seconds` (a sliding window, exact), else `RATE_LIMITED` with `retry_after`.

    Confirmations count and wait like others: the limit is the other side's. An attempt that was not sent is given back.

    Args:
        limit: most attempts in the window; each is remembered, so thousands are better said as a smaller window.
        seconds: length of the window.
        name: name for the evidence, and of the state.
        key: `(call) -> key` to count apart, e.g. by host or tenant; None: one count for the instance.
        state: where the count is kept; None: in this process.
        wall: clock for times in a shared state, in seconds; None: the state's own, or this machine's if it has none.
    """

    def __init__(
        self,
        limit: int,
        seconds: float,
        *,
        name: str = "rate_limit",
        key: Callable[[Call], Hashable] | None = None,
        state: SharedState | None = None,
        wall: Callable[[], float] | None = None,
    ) -> None:
        self.name = name
        self.limit, self.seconds = check_count(name, "limit", limit), check_seconds(name, "seconds", seconds)
        self._key, self._wall = key, clock_of(state, wall)
        self._state: SharedState = MemoryState() if state is None else state
        self.is_blocking = is_blocking(state)
        self._taken: dict[str, tuple[str, float]] = {}

    def admit(self, call: Call, now: float) -> Violation | None:
        """Count the attempt, or refuse it until the oldest one leaves the window."""
        at = self._wall() if self._state.is_shared else now
        key = state_key("rate", self.name, None if self._key is None else self._key(call))

        def take(stored: list[float] | None) -> tuple[list[float], float | None]:
            if not stored:
                return [at], None
            gone = bisect_right(stored, at - self.seconds)
            recent = stored[gone:] if gone else stored.copy()
            if len(recent) >= self.limit:
                return recent, recent[-self.limit] + self.seconds - at
            insort(recent, at)  # the clocks of processes may differ a little; the list stays sorted
            return recent, None

        left = self._state.change(key, take)
        if left is None:
            self._taken[call.request_id] = key, at
            return None
        return Violation(
            ErrorType.RATE_LIMITED,
            f"The limit {self.name!r} of {self.limit} in {self.seconds:g} s is reached. Nothing was sent; wait {left:.3g} s.",
            retry_after=left,
        )

    def settle(self, call: Call, attempt: Attempt | None, now: float) -> None:
        """Give the attempt back if it was not sent."""
        taken = self._taken.pop(call.request_id, None)
        if attempt is None and taken is not None:
            key, at = taken
            self._state.change(key, lambda stored: (_without(stored or [], at) or None, None))


def _without(times: list[float], at: float) -> list[float]:
    index = bisect_right(times, at)
    return times[: index - 1] + times[index:] if index and times[index - 1] == at else times


class RetryTokenBucket:
    """Lets retries pass only as long as enough of what is called succeeds, so that retries cannot add up to a storm.

    First attempts always pass. A retry takes `retry_cost` tokens from a bucket of `capacity`, every success puts `refund` back.
    Without tokens a retry is refused (`BUDGET_EXHAUSTED`) and the failure of the attempt before stands. Give one instance to all
    tools of one dependency.

    Args:
        capacity: tokens of a full bucket.
        retry_cost: tokens of one retry.
        refund: tokens that a success puts back.
        name: name for the evidence, and of the state.
        key: `(call) -> key` of the bucket; None: one for the instance.
        state: where the tokens are kept; None: in this process.
    """

    def __init__(
        self,
        capacity: float = 10.0,
        *,
        retry_cost: float = 1.0,
        refund: float = 0.1,
        name: str = "retry_budget",
        key: Callable[[Call], Hashable] | None = None,
        state: SharedState | None = None,
    ) -> None:
        for option, value in (("capacity", capacity), ("retry_cost", retry_cost), ("refund", refund)):
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not isfinite(value) or value < 0:
                raise ConfigurationError(f"{name}: {option}={value!r}; give a number of tokens of at least 0")
        self.name, self.capacity, self.retry_cost, self.refund = name, float(capacity), float(retry_cost), float(refund)
        self._key = key
        self._state: SharedState = MemoryState() if state is None else state
        self.is_blocking = is_blocking(state)

    def admit(self, call: Call, now: float) -> Violation | None:
        """Admit a first attempt; take tokens for a retry, or refuse it."""
        if not call.attempts:
            return None

        def take(stored: float | None) -> tuple[float | None, bool]:
            tokens = self.capacity if stored is None else stored
            return (tokens - self.retry_cost, True) if tokens >= self.retry_cost else (stored, False)

        if self._state.change(self._bucket(call), take):
            return None
        return Violation(
            ErrorType.BUDGET_EXHAUSTED,
            f"Too many calls needed retries lately ({self.name!r}), so this one is not retried. Do not keep trying; report the failure.",
            next_action=NextAction.RETRY_LATER,
        )

    def settle(self, call: Call, attempt: Attempt | None, now: float) -> None:
        """Put tokens back for a success, or for a retry that was not sent."""
        if attempt is None:
            back = self.retry_cost if call.attempts else 0.0
        else:
            back = self.refund if attempt.failure is None else 0.0
        if back:
            self._state.change(self._bucket(call), lambda stored: (self._filled(stored, back), None))

    def _filled(self, stored: float | None, back: float) -> float | None:
        # None is a full bucket, so that a bucket nobody drew from is not kept.
        return None if stored is None or stored + back >= self.capacity else stored + back

    def _bucket(self, call: Call) -> str:
        key: Any = None if self._key is None else self._key(call)
        return state_key("retries", self.name, key)
