"""How long to wait before the next attempt: tenacity's strategies, asked (and imported) only after a failure."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from fcguard.jitter import pause_between
from fcguard.model.attempt import Unlicensed
from fcguard.model.call import Call
from fcguard.model.failure import Effect
from fcguard.model.tool import Retry, Tool

if TYPE_CHECKING:
    from tenacity import RetryCallState

__all__ = ["next_pause", "retry_policy"]

_DEFAULT_ATTEMPTS: Final[dict[Effect, int]] = {"read": 3, "idempotent_write": 3, "write": 2, "destructive": 1}


def retry_policy(tool: Tool) -> Retry:
    """Answer the tool's retry policy, with the default of its effect where it declares none."""
    retry = tool.retry
    if isinstance(retry, Retry):
        return retry
    return Retry(attempts=_DEFAULT_ATTEMPTS[tool.effect] if retry is None else retry)


def next_pause(call: Call, policy: Retry, now: float, retry_after: float | None) -> float | None:
    """Answer the seconds to wait before the next attempt, or None if there must be none.

    Args:
        call: the call; its attempts count.
        policy: how often and how patiently.
        now: monotonic seconds.
        retry_after: what the other side asked for; honoured if it fits `policy.max_wait` and the call's deadline.

    Returns:
        Seconds; None when the attempts are used up, `policy.stop` says so, the pause would be longer than `policy.max_wait`,
        or the pause would end after the call's deadline.
    """
    was_withheld = any(type(attempt.error) is Unlicensed for attempt in call.attempts)
    if len(call.attempts) - was_withheld >= policy.attempts:  # one is forgiven, since time may run backwards
        return None
    state = _state(call, now)
    if policy.stop is not None and policy.stop(state):
        return None
    pause = float((policy.wait or _default_wait())(state))
    if retry_after is not None:
        if retry_after > policy.max_wait:
            return None
        pause = max(pause, retry_after)
    pause = min(pause, policy.max_wait)
    if call.deadline is not None and now + pause >= call.deadline:
        return None
    return pause


@cache
def _default_wait() -> Callable[[Any], float]:
    from tenacity import wait_exponential

    growing = wait_exponential(multiplier=0.2, max=5.0)
    return lambda state: growing(state) + pause_between(0.0, 0.2)


def _state(call: Call, now: float) -> RetryCallState:
    from tenacity import RetryCallState, Retrying

    state: Any = RetryCallState(retry_object=Retrying(), fn=None, args=(), kwargs={})
    state.attempt_number = len(call.attempts)
    state.start_time, state.outcome_timestamp = call.started, now
    state.idle_for = sum(attempt.delay for attempt in call.attempts)
    last = call.attempts[-1] if call.attempts else None
    if last is not None and last.error is not None:
        state.set_exception((type(last.error), last.error, None))
        state.outcome_timestamp = now
    elif last is not None:
        state.set_result(last.value)
        state.outcome_timestamp = now
    return state  # type: ignore[no-any-return]
