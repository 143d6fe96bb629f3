"""A repeat that is refused is no reason to leave out the tools that may answer instead, unless the refusal is about the call."""

from __future__ import annotations

from typing import Any

import pytest

from fcguard import Budget, Guard, NotApplied, Violation
from fcguard.constraints import AttemptBudget, CircuitBreaker, RateLimit, RetryTokenBucket
from fcguard.model.states import CallState
from tests.conftest import Effect, Mode, Script, add
from tests.test_rules_and_constraints_seam import counting

REPEATS_END: list[Any] = [
    lambda mode: AttemptBudget(1),
    lambda mode: CircuitBreaker("orders", minimum_calls=1),
    lambda mode: RateLimit(1, 100.0),
    lambda mode: RetryTokenBucket(capacity=0.0),
    lambda mode: counting(mode, None, Violation("BUDGET_EXHAUSTED", "enough")),
]
ABOUT_THE_CALL: list[Violation] = [
    Violation("PERMISSION_DENIED", "not you"),
    Violation("DANGEROUS_OPERATION", "not this"),
    Violation("TENANT_FROZEN", "frozen"),
    Violation("QUIET_WINDOW", "not now"),
    Violation("CONFLICT", "somebody else does it"),
    Violation("NO_PROGRESS_REPEAT", "again"),
    Violation("PARAM_INVALID", "no"),
    Violation("RULE_FAILED", "the check is broken"),
]


def ask(guard: Guard, mode: Mode, script: Script, replica: Script, effect: str = "read", **options: Any) -> Any:
    add(guard, mode, replica, "replica", effect=effect, retry=1)
    add(guard, mode, script, effect=effect, fallback=("replica",), **options)
    with guard.task("look"):
        return mode.call(guard, "tool", {})


@pytest.mark.parametrize("make", REPEATS_END)
def test_a_read_whose_repeat_is_refused_falls_back(guard: Guard, mode: Mode, make: Any) -> None:
    script, replica = Script(TimeoutError()), Script("from the replica")
    result = ask(guard, mode, script, replica, constraints=(make(mode),))
    assert (result.success, result.data, result.answered_by) == (True, "from the replica", "replica")
    assert (result.attempts, len(script.calls), len(replica.calls)) == (1, 1, 1)
    assert any(flag.startswith("stopped_by:") for flag in result.flags)


@pytest.mark.parametrize("refusal", ABOUT_THE_CALL)
def test_a_refusal_about_the_call_is_not_tried_around(guard: Guard, mode: Mode, refusal: Violation) -> None:
    script, replica = Script(TimeoutError()), Script("from the replica")
    result = ask(guard, mode, script, replica, constraints=(counting(mode, None, refusal),))
    assert (result.success, len(replica.calls)) == (False, 0)
    assert f"The repeat was refused ({refusal.code})" in result.message


def test_a_fallback_that_fails_too_leaves_the_refused_repeat_as_the_answer(guard: Guard, mode: Mode) -> None:
    result = ask(guard, mode, Script(TimeoutError()), Script(TimeoutError()), constraints=(AttemptBudget(1),))
    assert (result.success, result.error_type, result.next_action) == (False, "TIMEOUT", "abort")
    assert "The repeat was refused (BUDGET_EXHAUSTED)" in result.message


def test_the_plan_of_the_failure_decides(guard: Guard, mode: Mode) -> None:
    options = {"constraints": (AttemptBudget(1),), "recovery": {"TIMEOUT": ("retry", "stop")}}
    replica = Script("from the replica")
    result = ask(guard, mode, Script(TimeoutError()), replica, **options)
    assert (result.success, len(replica.calls)) == (False, 0)


def test_the_fallback_is_bound_by_the_budget_of_the_task(guard: Guard, mode: Mode) -> None:
    script, replica = Script(TimeoutError()), Script("from the replica")
    add(guard, mode, replica, "replica", effect="read")
    add(guard, mode, script, effect="read", fallback=("replica",))
    with guard.task("look", budget=Budget(attempts=1)):
        result = mode.call(guard, "tool", {})
    assert (result.success, len(script.calls), len(replica.calls)) == (False, 1, 0)
    assert result.next_action == "abort"


def test_a_write_that_is_proved_not_applied_falls_back_too(guard: Guard, mode: Mode) -> None:
    script, other = Script(NotApplied("no stock was taken")), Script(Effect("written there"))
    result = ask(guard, mode, script, other, effect="write", constraints=(AttemptBudget(1),))
    assert (result.success, result.answered_by, result.effect) == (True, "replica", "applied")
    assert len(other.effects) == 1


@pytest.mark.parametrize("options", [{}, {"conditional": True}, {"idempotency_key": True}])
def test_a_write_that_may_be_applied_does_not(guard: Guard, mode: Mode, options: dict[str, Any]) -> None:
    """Not even after a repeat that was not applied: the first attempt may have been."""
    script, other = Script(Effect(TimeoutError()), NotApplied()), Script(Effect("written there"))
    result = ask(guard, mode, script, other, effect="write", constraints=(AttemptBudget(2),), retry=5, **options)
    assert (result.success, result.effect, len(other.calls)) == (False, "unknown", 0)
    stored = guard.store.get(result.request_id)
    assert stored is not None and stored.state is CallState.PARKED or result.next_action == "confirm_state"
