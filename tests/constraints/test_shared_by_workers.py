"""What several workers share is shared exactly: four processes together get what one would get alone, in every place."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fcguard.constraints import (
    AttemptBudget,
    CallBudget,
    CircuitBreaker,
    Concurrency,
    MemoryState,
    RateLimit,
    ResourcePool,
    RetryTokenBucket,
    SharedState,
    TaskBudget,
)
from fcguard.model.context import Budget, TaskContext
from fcguard.model.task import Task
from tests.constraints.backends import close, open_state
from tests.constraints.conftest import build_attempt, build_call

CONTEXT = TaskContext(task_id="t-1", budget=Budget(calls=7, cost=70.0))

MAKE = {
    "rate": lambda state: RateLimit(7, 3600, state=state),
    "places": lambda state: Concurrency(7, state=state),
    "accounts": lambda state: ResourcePool("qa", [f"m{n}" for n in range(7)], state=state),
    "retries": lambda state: RetryTokenBucket(7, refund=0.0, state=state),
    "calls": lambda state: CallBudget(7, state=state),
    "attempts": lambda state: AttemptBudget(7, state=state),
    "task": lambda state: TaskBudget(state=state),
}
"""Constraints that let seven through, of all that ask."""


def _ask(place: str, kind: str, worker: int, number: int) -> list[str]:
    state = open_state(place)
    constraint, task = MAKE[kind](state), Task(CONTEXT, 0.0)
    admitted = []
    for n in range(number):
        call = build_call(task=task, cost=10.0)
        call.request_id = f"{worker}-{n}"
        if kind == "retries":
            build_attempt(call, error_type="TIMEOUT")
        if constraint.admit(call, 0.0) is None:
            admitted.append(call.request_id)
    close(state)
    return admitted


@pytest.mark.parametrize("kind", MAKE)
def test_four_processes_get_no_more_than_one_would(processes: Any, place: str, kind: str) -> None:
    admitted = processes.starmap(_ask, [(place, kind, worker, 5) for worker in range(4)], chunksize=1)
    assert sum(map(len, admitted)) == 7


@pytest.fixture
def state(place: str) -> Any:
    made = open_state(place)
    yield made
    close(made)


@pytest.mark.parametrize("kind", MAKE)
def test_what_was_not_sent_is_given_back_for_all(state: SharedState, kind: str) -> None:
    first, second = MAKE[kind](state), MAKE[kind](state)
    tasks = [Task(CONTEXT, 0.0) for _ in range(2)]

    def ask(constraint: Any, task: Task) -> Any:
        call = build_call(task=task, cost=10.0)
        if kind == "retries":
            build_attempt(call, error_type="TIMEOUT")
        return call if constraint.admit(call, 0.0) is None else None

    admitted = [ask(first, tasks[0]) for _ in range(7)]
    assert None not in admitted and ask(second, tasks[1]) is None
    first.settle(admitted[3], None, 1.0)
    assert ask(second, tasks[1]) is not None and ask(first, tasks[0]) is None


class TestBudgets:
    def test_tasks_count_apart_and_nothing_counts_outside_one(self) -> None:
        state = MemoryState()
        for budget in (CallBudget(1, state=state), AttemptBudget(1, state=state), TaskBudget(state=state)):
            tasks = [Task(TaskContext(task_id=name, budget=Budget(calls=1)), 0.0) for name in ("a", "b", "a")]
            answers = [budget.admit(build_call(task=task), 0.0) for task in tasks]
            assert [answer is None for answer in answers] == [True, True, False]
            assert [budget.admit(build_call(), 0.0) for _ in range(3)] == [None] * 3
            budget.settle(build_call(), None, 0.0)

    def test_confirmations_and_retries_count_as_they_do_in_one_process(self) -> None:
        state, task = MemoryState(), Task(TaskContext(task_id="t", budget=Budget(calls=1, attempts=3)), 0.0)
        calls, attempts, both = CallBudget(1, state=state), AttemptBudget(2, state=state), TaskBudget(state=state)
        call = build_call(task=task)
        for budget in (calls, attempts, both):
            assert budget.admit(call, 0.0) is None
        build_attempt(call, error_type="TIMEOUT")
        for budget in (calls, attempts, both):
            assert budget.admit(call, 1.0) is None
            assert budget.admit(build_call(task=task, purpose="confirm"), 1.0) is None
            budget.settle(build_call(task=task, purpose="confirm"), None, 1.0)
        build_attempt(call, error_type="TIMEOUT")
        assert calls.admit(call, 2.0) is None
        assert attempts.admit(call, 2.0).code == "BUDGET_EXHAUSTED"
        assert both.admit(call, 2.0) is None
        both.settle(call, None, 2.0)
        assert both.admit(call, 2.0) is None
        assert "3 attempts" in both.admit(call, 2.0).message
        assert "1 calls" in both.admit(build_call(task=task), 2.0).message

    def test_time_runs_from_the_first_worker_that_entered_the_task(self, state: SharedState) -> None:
        wall = [1000.0]
        first, second = (TaskBudget(state=state, wall=lambda: wall[0]) for _ in range(2))
        context = TaskContext(task_id="t", budget=Budget(seconds=60))
        assert first.admit(build_call(task=Task(context, 500.0)), 510.0) is None
        wall[0] += 49
        late = Task(context, 7.0)
        assert second.admit(build_call(task=late), 7.0) is None
        wall[0] += 1
        assert "60 seconds" in second.admit(build_call(task=late), 8.0).message

    def test_cost_adds_up_over_workers(self, state: SharedState) -> None:
        budgets = [TaskBudget(state=state) for _ in range(2)]
        context = TaskContext(task_id="t", budget=Budget(cost=0.3))
        for n in range(3):
            assert budgets[n % 2].admit(build_call(task=Task(context, 0.0), cost=0.1), 0.0) is None
        assert "0.3 cost" in budgets[1].admit(build_call(task=Task(context, 0.0), cost=0.1), 0.0).message

    def test_a_task_without_a_budget_is_not_written_down(self) -> None:
        state, task = MemoryState(), Task(TaskContext(task_id="t"), 0.0)
        budget, call = TaskBudget(state=state), build_call(task=task)
        assert budget.admit(call, 0.0) is None
        budget.settle(call, None, 0.0)
        assert state._values == {}


class Breaking(MemoryState):
    """A state whose server goes away while the tool runs."""

    is_shared, is_down = True, False

    def change(self, key: str, change: Any) -> Any:
        if self.is_down:
            raise ConnectionError("gone")
        return super().change(key, change)


@pytest.mark.parametrize("is_async", [False, True])
def test_a_state_that_goes_away_meanwhile_does_not_spoil_what_was_done(tmp_path: Any, is_async: bool) -> None:
    from fcguard import Guard, MemoryStore

    state = Breaking()
    guard = Guard(store=MemoryStore(), evidence_dir=tmp_path)

    def work() -> int:
        state.is_down = True
        return 1

    async def awork() -> int:
        return work()

    constraints = [CircuitBreaker("orders", state=state), ResourcePool("qa", ["a"], state=state)]
    guard.tool(awork if is_async else work, name="work", effect="write", constraints=constraints)
    with guard.task("work"):
        result = asyncio.run(guard.acall("work", {})) if is_async else guard.call("work", {})
    assert (result.data, result.flags) == (1, ("constraint_failed:orders", "constraint_failed:qa"))
    guard.close()


class Unreachable:
    """A state whose server is gone."""

    is_shared = True

    def change(self, key: str, change: Any) -> Any:
        raise ConnectionError("gone")


@pytest.mark.parametrize("kind", [*MAKE, "circuit"])
def test_a_state_that_cannot_be_reached_refuses(tmp_path: Any, kind: str) -> None:
    from fcguard import Guard, MemoryStore

    make = {**MAKE, "circuit": lambda state: CircuitBreaker(state=state)}[kind]
    guard, ran = Guard(store=MemoryStore(), evidence_dir=tmp_path), []

    def work() -> None:
        ran.append(1)
        raise ConnectionRefusedError

    guard.tool(work, effect="read", retry=2, constraints=[make(Unreachable())])
    with guard.task("work", budget=Budget(calls=7)):
        result = guard.call("work", {})
    if kind == "retries":  # a first attempt needs no token
        assert (result.error_type, len(ran)) == ("CONNECTION_FAILED", 1)
    else:
        assert (result.error_type, result.attempts, ran) == ("RULE_FAILED", 0, [])
    guard.close()
