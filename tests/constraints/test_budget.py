"""Budgets of calls, attempts, seconds and cost: never exceeded, and given back when nothing was sent."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcguard.constraints import AttemptBudget, CallBudget, Constraint, TaskBudget, task_budget
from fcguard.constraints.bounds import count_call
from fcguard.errors import ConfigurationError
from fcguard.model.context import Budget
from fcguard.model.failure import FailureClass, class_of


def begin(make_call: Any, task: Any, **options: Any) -> Any:
    """Make a call as the context step does: it counts primary calls."""
    call = make_call(task=task, **options)
    count_call(call)
    return call


def test_call_budget_counts_calls_not_retries(make_call: Any, make_attempt: Any, make_task: Any) -> None:
    budget, task = CallBudget(2), make_task()
    call = make_call(task=task)
    for _ in range(3):
        assert budget.admit(call, 0) is None
        budget.settle(call, make_attempt(call, error_type="TIMEOUT"), 1)
    assert budget.admit(make_call(task=task), 2) is None
    refused = budget.admit(make_call(task=task), 3)
    assert (refused.code, refused.next_action) == ("BUDGET_EXHAUSTED", "abort")
    assert class_of(refused.code) is FailureClass.CONTROL
    assert budget.admit(make_call(task=make_task()), 4) is None


def test_a_call_that_was_not_sent_is_given_back(make_call: Any, make_attempt: Any, make_task: Any) -> None:
    for budget in (CallBudget(1), AttemptBudget(1)):
        task = make_task()
        call = make_call(task=task)
        assert budget.admit(call, 0) is None
        budget.settle(call, None, 0)
        assert budget.admit(call, 1) is None
        budget.settle(call, make_attempt(call), 1)
        assert budget.admit(make_call(task=task), 2) is not None


def test_attempt_budget_counts_retries(make_call: Any, make_attempt: Any, make_task: Any) -> None:
    budget, call = AttemptBudget(2), make_call(task=make_task())
    for _ in range(2):
        assert budget.admit(call, 0) is None
        budget.settle(call, make_attempt(call, error_type="TIMEOUT"), 1)
    assert budget.admit(call, 2).code == "BUDGET_EXHAUSTED"


def test_outside_a_task_nothing_adds_up(make_call: Any, make_attempt: Any) -> None:
    for budget in (CallBudget(1), AttemptBudget(1)):
        assert [budget.admit(make_call(), 0) for _ in range(3)] == [None] * 3
        budget.settle(make_call(), None, 0)
    retried = make_call()
    make_attempt(retried)
    assert AttemptBudget(1).admit(retried, 0) is not None
    assert CallBudget(0).admit(make_call(), 0) is not None


def test_confirmations_are_never_refused_and_never_counted(make_call: Any, make_task: Any) -> None:
    task = make_task(budget=Budget(calls=0, attempts=0, seconds=0, cost=0))
    for budget in (CallBudget(0), AttemptBudget(0), task_budget):
        confirm = make_call(task=task, purpose="confirm", cost=5.0)
        assert budget.admit(confirm, 9) is None
        budget.settle(confirm, None, 9)
        assert budget.admit(begin(make_call, task), 9) is not None
        assert isinstance(budget, Constraint)


@pytest.mark.parametrize("limit", [-1, 1.0, True, None])
def test_a_limit_is_a_whole_number(limit: Any) -> None:
    with pytest.raises(ConfigurationError, match="limit"):
        CallBudget(limit)
    with pytest.raises(ConfigurationError, match="limit"):
        AttemptBudget(limit)


def test_task_budget_of_calls(make_call: Any, make_attempt: Any, make_task: Any) -> None:
    task = make_task(budget=Budget(calls=2))
    first, second, third = (begin(make_call, task) for _ in range(3))
    assert task_budget.admit(third, 0) is not None
    assert task_budget.admit(second, 0) is None, "whoever asks first"
    make_attempt(first)
    assert task_budget.admit(first, 0) is None, "a retry of a call that fitted in still fits in"


def test_task_budget_of_seconds(make_call: Any, make_task: Any) -> None:
    task = make_task(started=100.0, budget=Budget(seconds=10))
    assert task_budget.admit(begin(make_call, task), 109.9) is None
    refused = task_budget.admit(begin(make_call, task), 110.0)
    assert refused.code == "BUDGET_EXHAUSTED" and "10 seconds" in refused.message


def test_task_budget_of_attempts_counts_those_under_way(make_call: Any, make_attempt: Any, make_task: Any) -> None:
    task = make_task(budget=Budget(attempts=2))
    calls = [begin(make_call, task) for _ in range(3)]
    assert [task_budget.admit(call, 0) is None for call in calls] == [True, True, False]
    task_budget.settle(calls[0], None, 1)
    assert task_budget.admit(calls[2], 2) is None
    task_budget.settle(calls[2], make_attempt(calls[2]), 3)
    assert task_budget.admit(calls[0], 4) is not None


def test_task_budget_believes_the_tasks_own_counters(make_call: Any, make_task: Any) -> None:
    task = make_task(budget=Budget(attempts=5, cost=1.0))
    task.attempts = 5
    assert "attempts" in task_budget.admit(begin(make_call, task), 0).message
    task.attempts, task.cost = 0, 1.0
    assert task_budget.admit(begin(make_call, task, cost=0.0), 0) is not None
    fresh = make_task(budget=Budget(cost=1.0))
    fresh.cost = 0.9
    assert task_budget.admit(begin(make_call, fresh, cost=0.2), 0) is not None
    assert task_budget.admit(begin(make_call, fresh, cost=0.1), 0) is None


def test_rounding_does_not_refuse_what_fits(make_call: Any, make_task: Any) -> None:
    task = make_task(budget=Budget(cost=0.3))
    assert [task_budget.admit(begin(make_call, task, cost=0.1), 0) is None for _ in range(4)] == [
        True,
        True,
        True,
        False,
    ]


def test_no_budget_and_no_task_admit(make_call: Any, make_task: Any) -> None:
    call = begin(make_call, make_task())
    assert task_budget.admit(call, 0) is None
    task_budget.settle(call, None, 0)
    assert TaskBudget().admit(make_call(), 0) is None


@given(limit=st.integers(0, 6), plan=st.lists(st.tuples(st.booleans(), st.booleans()), max_size=30))
def test_never_more_dispatches_than_the_budget(
    make_call: Any, make_attempt: Any, make_task: Any, limit: int, plan: list[tuple[bool, bool]]
) -> None:
    for constraint in (AttemptBudget(limit), task_budget):
        task = make_task(budget=Budget(attempts=limit))
        sent = 0
        call = begin(make_call, task)
        for is_new, is_sent in plan:
            call = begin(make_call, task) if is_new else call
            if constraint.admit(call, 0) is None:
                sent += is_sent
                constraint.settle(call, make_attempt(call) if is_sent else None, 1)
        assert sent == min(limit, sum(is_sent for _, is_sent in plan))


def test_threads_share_a_budget_exactly(make_call: Any, make_task: Any) -> None:
    for constraint in (CallBudget(50), AttemptBudget(50), task_budget):
        task = make_task(budget=Budget(attempts=50))
        calls = [begin(make_call, task) for _ in range(400)]
        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(lambda call, c=constraint: c.admit(call, 0), calls))
        assert answers.count(None) == 50
