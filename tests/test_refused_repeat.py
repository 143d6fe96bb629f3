"""A repeat that a constraint refuses: the answer names the refusal, and never tells to try what will always be refused."""

from __future__ import annotations

from typing import Any

import pytest

from fcguard import Guard, Inconclusive, NotApplied, Retry, Violation
from fcguard.constraints import AttemptBudget, CircuitBreaker, RateLimit, RetryTokenBucket
from tests.conftest import Mode, Script, add
from tests.test_rules_and_constraints_seam import counting

LOST = {"confirm": lambda call: NotApplied(), "settle": 5.0}


def lose(guard: Guard, mode: Mode, constraint: Any, **options: Any) -> Any:
    script = Script(TimeoutError())
    add(guard, mode, script, constraints=(constraint,), **options)
    with guard.task("write"):
        result = mode.call(guard, "tool", {})
    assert (result.success, result.attempts, len(script.calls)) == (False, 1, 1)
    return result


def test_a_spent_budget_ends_a_write_that_was_not_applied(guard: Guard, mode: Mode) -> None:
    result = lose(guard, mode, AttemptBudget(1), **LOST)
    assert (result.error_type, result.effect, result.flags) == (
        "TIMEOUT",
        "not_applied",
        ("stopped_by:BUDGET_EXHAUSTED",),
    )
    assert (result.retryable, result.next_action, result.retry_after) == (False, "abort", None)
    assert "it was confirmed that nothing was applied. The repeat was refused (BUDGET_EXHAUSTED):" in result.message
    assert "of 1 attempts for this task is used up" in result.message


def test_an_open_circuit_says_when_the_write_may_be_repeated(guard: Guard, mode: Mode) -> None:
    result = lose(guard, mode, CircuitBreaker("orders", minimum_calls=1, open_seconds=30), **LOST)
    assert (result.error_type, result.retryable, result.next_action) == ("TIMEOUT", True, "retry_later")
    assert 24 < result.retry_after < 26, "5 of the 30 seconds went by while the write settled"
    assert "The repeat was refused (CIRCUIT_OPEN): The circuit 'orders' is open" in result.message


def test_an_uncertain_write_stays_to_be_confirmed(guard: Guard, mode: Mode) -> None:
    result = lose(guard, mode, AttemptBudget(1), conditional=True)
    assert (result.error_type, result.effect, result.retryable) == ("UNCERTAIN_RESULT", "unknown", False)
    assert result.next_action == "confirm_state" and "The repeat was refused (BUDGET_EXHAUSTED)" in result.message


def test_an_idempotent_write_that_nothing_repeats_any_more_is_to_be_confirmed(guard: Guard, mode: Mode) -> None:
    result = lose(
        guard, mode, AttemptBudget(1), effect="idempotent_write", confirm=lambda call: Inconclusive("no answer")
    )
    assert (result.effect, result.retryable, result.next_action) == ("unknown", False, "confirm_state")


def test_a_read_is_not_told_to_retry_what_its_budget_refuses(guard: Guard, mode: Mode) -> None:
    result = lose(guard, mode, AttemptBudget(1), effect="read")
    assert (result.error_type, result.retryable, result.next_action) == ("TIMEOUT", False, "abort")
    assert "The repeat was refused (BUDGET_EXHAUSTED): The budget" in result.message


def test_a_read_waits_as_long_as_the_rate_asks(guard: Guard, mode: Mode) -> None:
    result = lose(guard, mode, RateLimit(1, 100.0), effect="read")
    assert (result.error_type, result.retryable, result.next_action) == ("TIMEOUT", True, "retry_later")
    assert 90 < result.retry_after <= 100 and "(RATE_LIMITED)" in result.message


def test_a_spent_retry_budget_only_stops_this_retry(guard: Guard, mode: Mode) -> None:
    result = lose(guard, mode, RetryTokenBucket(capacity=0.0), effect="read")
    assert (result.retryable, result.next_action) == (True, "retry_later")
    assert "(BUDGET_EXHAUSTED): Too many calls needed retries lately" in result.message


@pytest.mark.parametrize(
    ("refusal", "expected"),
    [
        (Violation("NOT_TODAY", "the shop is closed"), (False, "ask_user", None)),
        (Violation("TENANT_FROZEN", "frozen"), (False, "abort", None)),
        (Violation("ENVIRONMENT_NOT_READY", "it starts", retry_after=7.0), (True, "wait_environment", 7.0)),
        (Violation("RATE_LIMITED", "wait", retry_after=9.0), (True, "retry_later", 9.0)),
    ],
)
def test_the_refusal_says_what_to_do_now(guard: Guard, mode: Mode, refusal: Violation, expected: Any) -> None:
    result = lose(guard, mode, counting(mode, None, refusal), effect="read", retry=Retry(attempts=2))
    assert (result.retryable, result.next_action, result.retry_after) == expected
    assert f"The repeat was refused ({refusal.code}): {refusal.message}" in result.message
