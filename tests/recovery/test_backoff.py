"""How long to wait before the next attempt, and when there is none."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tenacity import (
    stop_after_attempt,
    stop_after_delay,
    stop_never,
    wait_chain,
    wait_exception,
    wait_exponential,
    wait_fixed,
    wait_random,
)

from fcguard import Retry, Tool
from fcguard.model.attempt import Attempt
from fcguard.model.call import Call
from fcguard.model.intent import Intent
from fcguard.recovery.backoff import next_pause, retry_policy

NOW = 100.0


def call_with(*attempts: Any, deadline: float | None = None, delay: float = 0.0) -> Call:
    call = Call("fc-1", Intent("tool", {}), "primary", None, None)
    call.started, call.deadline = NOW - 10, deadline
    for number, outcome in enumerate(attempts, start=1):
        attempt = Attempt(number, 0.0, NOW, None, delay)
        if isinstance(outcome, BaseException):
            attempt.error = outcome
        else:
            attempt.value, attempt.returned = outcome, True
        call.attempts.append(attempt)
    return call


def tool(**options: Any) -> Tool:
    return Tool(name="tool", parameters={}, fn=print, **options)


@pytest.mark.parametrize(
    ("options", "attempts"),
    [
        ({"effect": "read"}, 3),
        ({"effect": "idempotent_write"}, 3),
        ({}, 2),
        ({"effect": "destructive"}, 1),
        ({"retry": 7}, 7),
        ({"retry": Retry(attempts=4)}, 4),
    ],
)
def test_attempts_by_effect_unless_declared(options: dict[str, Any], attempts: int) -> None:
    assert retry_policy(tool(**options)).attempts == attempts


def test_a_declared_policy_is_used_as_it_is() -> None:
    policy = Retry(attempts=2, wait=wait_fixed(1))
    assert retry_policy(tool(retry=policy)) is policy


@given(st.integers(1, 12))
def test_the_default_grows_with_jitter_and_is_bounded(tried: int) -> None:
    pause = next_pause(call_with(*["x"] * tried), Retry(attempts=100), NOW, None)
    assert pause is not None
    base = min(5.0, 0.2 * 2 ** (tried - 1))
    assert base <= pause <= base + 0.2


@pytest.mark.parametrize(("tried", "pause"), [(1, 0.0), (2, 0.0), (3, None), (4, None)])
def test_the_limit_of_attempts(tried: int, pause: float | None) -> None:
    assert next_pause(call_with(*["x"] * tried), Retry(attempts=3, wait=wait_fixed(0)), NOW, None) == pause


@pytest.mark.parametrize(
    ("wait", "pauses"),
    [
        (wait_fixed(2), [2, 2, 2]),
        (wait_exponential(multiplier=1, max=3), [1, 2, 3]),
        (wait_chain(wait_fixed(1), wait_fixed(5)), [1, 5, 5]),
        (lambda state: state.attempt_number * 10, [10, 20, 30]),
        (wait_fixed(2) + wait_fixed(1), [3, 3, 3]),
        (wait_exception(lambda error: float(str(error))), [7, 7, 7]),
    ],
)
def test_strategies_of_tenacity(wait: Any, pauses: list[float]) -> None:
    policy = Retry(attempts=10, wait=wait)
    error = ValueError("7")
    assert [next_pause(call_with(*[error] * tried), policy, NOW, None) for tried in (1, 2, 3)] == pauses


def test_a_random_strategy_stays_in_its_bounds() -> None:
    pause = next_pause(call_with("x"), Retry(wait=wait_random(1, 2)), NOW, None)
    assert pause is not None
    assert 1 <= pause <= 2


@pytest.mark.parametrize(
    ("stop", "is_over"),
    [
        (stop_never, False),
        (stop_after_attempt(2), True),
        (stop_after_attempt(3), False),
        (stop_after_delay(10), True),
        (stop_after_delay(11), False),
        (stop_after_delay(100) | stop_after_attempt(2), True),
        (lambda state: isinstance(state.outcome.exception(), ValueError), True),
        (lambda state: state.idle_for >= 2.0, True),
    ],
)
def test_stop_strategies_end_it_earlier(stop: Any, is_over: bool) -> None:
    policy = Retry(attempts=10, wait=wait_fixed(0), stop=stop)
    pause = next_pause(call_with(ValueError(), ValueError(), delay=1.0), policy, NOW, None)
    assert (pause is None) is is_over


def test_a_strategy_sees_what_was_returned() -> None:
    seen: list[Any] = []
    policy = Retry(wait=lambda state: seen.append(state.outcome.result()) or 0.0)
    assert next_pause(call_with({"busy": True}), policy, NOW, None) == 0.0
    assert seen == [{"busy": True}]


def test_before_any_attempt_a_strategy_may_be_asked_too() -> None:
    assert next_pause(call_with(), Retry(wait=wait_fixed(1)), NOW, None) == 1.0


@pytest.mark.parametrize(
    ("wait", "retry_after", "pause"),
    [(1, None, 1), (1, 5.0, 5.0), (8, 5.0, 8), (1, 60.0, 60.0), (1, 61.0, None), (100, None, 60.0), (1, 0.0, 1)],
)
def test_what_the_other_side_asks_for(wait: float, retry_after: float | None, pause: float | None) -> None:
    assert next_pause(call_with("x"), Retry(wait=wait_fixed(wait)), NOW, retry_after) == pause


@pytest.mark.parametrize(
    ("deadline", "pause"), [(None, 5), (NOW + 5.1, 5), (NOW + 5, None), (NOW + 1, None), (NOW - 1, None)]
)
def test_a_pause_that_would_outlast_the_deadline(deadline: float | None, pause: float | None) -> None:
    assert next_pause(call_with("x", deadline=deadline), Retry(wait=wait_fixed(5)), NOW, None) == pause
