"""The budget of a task bounds everything that is done in it, also in the tasks inside it."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from contextvars import copy_context
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcguard import Budget, Guard, MemoryStore, TaskContext, current_call
from fcguard.approval import ApprovalRequest, Decision
from fcguard.constraints import CallBudget, MemoryState, TaskBudget, task_budget
from fcguard.errors import StoreUnavailable
from fcguard.model.context import TaskContext as Context
from fcguard.model.task import Task
from fcguard.testing.clock import FakeClock
from tests.conftest import Mode, Script, add
from tests.constraints.conftest import build_attempt, build_call

BUDGETS = {"calls": Budget(calls=2), "attempts": Budget(attempts=2), "cost": Budget(cost=0.6)}
"""Each lets two calls of 0.3 through."""


@pytest.fixture
def script(guard: Guard, mode: Mode) -> Script:
    made = Script(*["done"] * 20)
    add(guard, mode, made, "work", effect="read", cost=0.3, retry=1)
    return made


@pytest.mark.parametrize("may_widen", [False, True])
@pytest.mark.parametrize("unit", BUDGETS)
def test_calls_of_inner_tasks_count_for_the_outer_one(
    guard: Guard, script: Script, mode: Mode, unit: str, may_widen: bool
) -> None:
    with guard.task("outer", task_id="outer-1", budget=BUDGETS[unit]) as outer:
        with guard.task("first", may_widen=may_widen):
            first = mode.call(guard, "work", {})
        with guard.task("second", may_widen=may_widen), guard.task("in it", may_widen=may_widen):
            results = [first, *(mode.call(guard, "work", {}) for _ in range(2))]
        results.append(mode.call(guard, "work", {}))
    assert [result.error_type for result in results] == [None, None, "BUDGET_EXHAUSTED", "BUDGET_EXHAUSTED"]
    assert f"{unit} for the task 'outer-1' around this one is used up" in results[2].message
    assert f"{unit} for this task is used up" in results[3].message
    assert (results[2].next_action, len(script.calls)) == ("abort", 2)
    assert (outer.calls, outer.attempts, outer.cost) == (4, 2, 0.6)


@pytest.mark.parametrize("unit", BUDGETS)
def test_the_nearest_task_that_cannot_afford_it_is_named(guard: Guard, script: Script, mode: Mode, unit: str) -> None:
    wide = Budget(calls=9, attempts=9, cost=9.0)
    with guard.task("1", task_id="t-1", budget=wide), guard.task("2", task_id="t-2", budget=BUDGETS[unit]):
        with guard.task("3", task_id="t-3", budget=wide):
            results = [mode.call(guard, "work", {}) for _ in range(3)]
        with guard.task("3", task_id="t-3", budget=BUDGETS[unit]):
            results += [mode.call(guard, "work", {})]
    assert "for the task 't-2' around" in results[2].message and "for the task 't-2' around" in results[3].message
    with guard.task("2", task_id="t-2", budget=wide), guard.task("3", budget=BUDGETS[unit]):
        assert "for this task is" in [mode.call(guard, "work", {}) for _ in range(3)][2].message


def test_a_tool_whose_code_opens_tasks_gains_nothing(guard: Guard, script: Script, mode: Mode) -> None:
    @guard.tool(effect="read")
    def sync_helper() -> list[Any]:
        seen = []
        for _ in range(3):
            with guard.task("inside", budget=Budget(calls=9), may_widen=True):
                seen.append(mode.call(guard, "work", {}).error_type if not mode.is_async_tool else _own_loop(guard))
        return seen

    with guard.task("outer", budget=Budget(calls=3)):
        assert sync_helper().data == [None, None, "BUDGET_EXHAUSTED"]
    assert len(script.calls) == 2


def _own_loop(guard: Guard) -> Any:
    return asyncio.run(guard.acall("work", {})).error_type


def test_a_task_of_another_guard_counts_too(guard: Guard, script: Script, mode: Mode, tmp_path: Path) -> None:
    with Guard(store=MemoryStore(), evidence_dir=tmp_path) as other:
        other.tool(lambda: 1, name="look", effect="read")
        with guard.task("outer", task_id="o", budget=Budget(attempts=2)):
            with other.task("inside"):
                assert [other.call("look").error_type for _ in range(2)] == [None, None]
                assert "for the task 'o' around" in other.call("look").message
            assert mode.call(guard, "work", {}).error_type == "BUDGET_EXHAUSTED"


def test_a_context_for_one_call_is_no_task_inside(guard: Guard, script: Script, mode: Mode) -> None:
    with guard.task("outer", budget=Budget(calls=1)) as outer:
        for _ in range(3):
            assert mode.call(guard, "work", {}, context=TaskContext(task_id="other")).success
    assert outer.calls == 0


def test_a_limit_of_a_tool_holds_for_each_task_apart(guard: Guard) -> None:
    guard.tool(lambda: 1, name="look", effect="read", constraints=[CallBudget(1)])
    with guard.task("outer"):
        assert guard.call("look").success
        with guard.task("inner"):
            assert [guard.call("look").error_type for _ in range(2)] == [None, "BUDGET_EXHAUSTED"]


def test_threads_and_asyncio_tasks_inside_share_it_exactly(tmp_path: Path) -> None:
    ran: list[int] = []
    with Guard(store=MemoryStore(), evidence_dir=tmp_path) as guard:

        @guard.tool(effect="read", retry=1)
        async def look() -> None:
            ran.append(1)

        guard.tool(lambda: ran.append(1), name="glance", effect="read", retry=1)

        def in_thread() -> None:
            for _ in range(5):
                with guard.task("thread"):
                    guard.call("glance")

        async def one() -> None:
            with guard.task("asyncio"):
                await guard.acall("look")
                await guard.acall("glance")

        async def many() -> None:
            await asyncio.gather(*(one() for _ in range(10)))

        with guard.task("outer", budget=Budget(attempts=30)) as outer:
            threads = [threading.Thread(target=copy_context().run, args=(in_thread,)) for _ in range(4)]
            for thread in threads:
                thread.start()
            asyncio.run(many())
            for thread in threads:
                thread.join(60)
    assert (len(ran), outer.attempts, outer.calls) == (30, 30, 40)


@pytest.mark.parametrize("is_nested", [False, True])
def test_threads_that_are_all_counted_before_one_is_asked_use_it_up_exactly(tmp_path: Path, is_nested: bool) -> None:
    ran: list[int] = []
    together = threading.Barrier(5)
    with Guard(store=MemoryStore(), evidence_dir=tmp_path) as guard:

        def counted(call: Any) -> None:
            together.wait(60)

        guard.tool(lambda: ran.append(1), name="look", effect="read", retry=1, rules=[counted])

        def in_thread() -> Any:
            with ExitStack() as inside:
                if is_nested:
                    inside.enter_context(guard.task("inside", budget=Budget(calls=9)))
                return guard.call("look").error_type

        with guard.task("outer", budget=Budget(calls=2)) as outer, ThreadPoolExecutor(5) as pool:
            contexts = [copy_context() for _ in range(5)]
            ended = list(pool.map(lambda context: context.run(in_thread), contexts))
    assert (ended.count(None), ended.count("BUDGET_EXHAUSTED"), len(ran), outer.calls) == (2, 3, 2, 5)


@pytest.mark.parametrize("is_async_tool", [False, True])
def test_asyncio_tasks_that_are_all_counted_before_one_is_asked_use_it_up_exactly(
    tmp_path: Path, is_async_tool: bool
) -> None:
    ran: list[int] = []

    async def main(guard: Guard) -> list[Any]:
        async def alook() -> None:
            ran.append(1)

        tool: Any = alook if is_async_tool else lambda: ran.append(1)
        guard.tool(tool, name="look", effect="read", retry=1, approval="required")
        with guard.task("outer", budget=Budget(calls=2)) as outer:
            ended = await asyncio.wait_for(asyncio.gather(*(guard.acall("look") for _ in range(5))), 60)
        assert outer.calls == 5
        return sorted(result.error_type or "" for result in ended)

    together = asyncio.Barrier(5)

    async def counted(request: ApprovalRequest) -> Decision:
        await together.wait()
        return request.approve("ann")

    with Guard(store=MemoryStore(), evidence_dir=tmp_path, approver=counted) as guard:
        assert asyncio.run(main(guard)) == ["", "", *["BUDGET_EXHAUSTED"] * 3]
    assert len(ran) == 2


# -- time ----------------------------------------------------------------------------------------------------------------


def test_the_first_task_to_run_out_of_time_bounds_the_call(guard: Guard, mode: Mode, clock: FakeClock) -> None:
    def left() -> float | None:
        return current_call().remaining

    async def aleft() -> float | None:
        return left()

    guard.tool(aleft if mode.is_async_tool else left, name="left", effect="read")
    with guard.task("1", budget=Budget(seconds=100)):
        clock.advance(10)
        with guard.task("2", budget=Budget(seconds=50)), guard.task("3"):
            assert mode.call(guard, "left", {}).data == pytest.approx(50, abs=8)
        with guard.task("2", budget=Budget(seconds=500)):
            assert mode.call(guard, "left", {}).data == pytest.approx(90, abs=8)
        with guard.task("2"):
            assert mode.call(guard, "left", {}).data == pytest.approx(90, abs=8)
    with guard.task("none"), guard.task("either"):
        assert mode.call(guard, "left", {}).data is None


def test_time_of_the_outer_task_refuses_by_its_name(guard: Guard, script: Script, mode: Mode, clock: FakeClock) -> None:
    with guard.task("outer", task_id="o", budget=Budget(seconds=10)), guard.task("in", budget=Budget(seconds=60)):
        assert mode.call(guard, "work", {}).success
        clock.advance(10)
        refused = mode.call(guard, "work", {})
    assert (refused.error_type, len(script.calls)) == ("BUDGET_EXHAUSTED", 1)
    assert "10 seconds for the task 'o' around this one is used up" in refused.message


@pytest.mark.parametrize(
    ("outer", "inner", "whose"), [(10, 60, "the task 'o' around this one"), (60, 10, "this task"), (60, None, "")]
)
def test_time_that_ends_after_the_call_was_admitted(
    guard: Guard, clock: FakeClock, outer: float, inner: float | None, whose: str
) -> None:
    def slow_check(call: Any) -> None:
        clock.advance(20)

    ran: list[int] = []
    guard.tool(lambda: ran.append(1), name="work", effect="read", constraints=[slow_check])
    with guard.task("out", task_id="o", budget=Budget(seconds=outer)), guard.task("in", budget=Budget(seconds=inner)):
        result = guard.call("work", {})
    if whose:
        assert (result.error_type, ran) == (
            "BUDGET_EXHAUSTED",
            [],
        ) and f"The time of {whose} is used up" in result.message
    else:
        assert result.success and ran == [1]


# -- giving back ---------------------------------------------------------------------------------------------------------


def nest(*budgets: Budget | None, ids: tuple[str, ...] = ()) -> list[Task]:
    """Tasks in each other, the outermost first."""
    tasks: list[Task] = []
    for number, budget in enumerate(budgets):
        task_id = ids[number] if ids else f"t-{number}"
        tasks.append(Task(Context(task_id=task_id, budget=budget), 0.0, outer=tasks[-1] if tasks else None))
    return tasks


@pytest.mark.parametrize("state", [None, MemoryState()])
def test_what_was_not_sent_is_given_back_to_all(state: Any) -> None:
    constraint = task_budget if state is None else TaskBudget(state=state)
    outer, inner = nest(Budget(attempts=1), Budget(attempts=2))
    first, second, third = (build_call(task=task) for task in (inner, inner, outer))
    assert constraint.admit(first, 0) is None
    assert "'t-0' around" in constraint.admit(second, 0).message
    constraint.settle(first, None, 0)
    assert constraint.admit(third, 0) is None
    constraint.settle(third, None, 0)
    assert constraint.admit(second, 0) is None and constraint.admit(third, 0) is not None


class Flaky(MemoryState):
    """Out of reach for one key."""

    is_shared = True
    lost = ""

    def change(self, key: str, change: Any) -> Any:
        if key == self.lost:
            raise StoreUnavailable("out of reach")
        return super().change(key, change)


def test_shared_budgets_are_spent_in_all_tasks_or_in_none() -> None:
    state = Flaky()
    constraint = TaskBudget(state=state)
    outer, inner = nest(Budget(calls=2), Budget(calls=5, cost=1.0))
    calls = [build_call(task=inner, cost=0.1) for _ in range(3)]
    assert [constraint.admit(call, 0) is None for call in calls] == [True, True, False]
    assert "2 calls for the task 't-0' around" in constraint.admit(calls[2], 0).message
    key = "budget_task:task_budget:'t-1'"
    assert (state._values[key]["calls"], state._values[key]["attempts"]) == (2, 2)
    state.lost = "budget_task:task_budget:'t-0'"
    with pytest.raises(StoreUnavailable):
        constraint.admit(calls[2], 0)
    assert (state._values[key]["calls"], state._values[key]["attempts"]) == (2, 2)
    assert state._values[key]["cost"] == pytest.approx(0.2)
    assert outer.bounds == () and inner.bounds == (outer,)


def test_a_task_inside_one_of_the_same_id_is_counted_once_and_held_to_both() -> None:
    constraint = TaskBudget(state=MemoryState())
    _, inner = nest(Budget(attempts=2), Budget(attempts=9), ids=("t", "t"))
    assert [constraint.admit(build_call(task=inner), 0) is None for _ in range(3)] == [True, True, False]


# -- laws ----------------------------------------------------------------------------------------------------------------

limits = st.none() | st.integers(0, 5)


@given(
    chain=st.lists(st.tuples(limits, limits), min_size=1, max_size=4),
    plan=st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=25),
    is_shared=st.booleans(),
)
def test_no_task_ever_sends_more_than_any_around_it_allows(
    chain: list[tuple[int | None, int | None]], plan: list[tuple[int, bool]], is_shared: bool
) -> None:
    constraint = TaskBudget(state=MemoryState() if is_shared else None)
    tasks = nest(*(Budget(attempts=attempts, cost=cost) for attempts, cost in chain))
    for depth, is_sent in plan:
        task = tasks[depth % len(tasks)]
        call = build_call(task=task, cost=1.0)
        around = (task, *task.around)
        affordable = all(one.attempts < min(_limits(one), default=99) for one in around)
        assert (constraint.admit(call, 0) is None) == affordable
        if affordable:
            for one in around if is_sent else ():
                one.attempts, one.cost = one.attempts + 1, one.cost + 1.0
            constraint.settle(call, build_attempt(call) if is_sent else None, 0)
    assert all(one.attempts <= min(_limits(one), default=99) for one in tasks)


def _limits(task: Task) -> list[float]:
    budget = task.context.budget
    assert budget is not None
    return [limit for limit in (budget.attempts, budget.cost) if limit is not None]


@given(depth=st.integers(1, 6), inside=st.lists(st.integers(0, 5), max_size=20))
def test_counters_of_a_task_are_those_of_all_that_is_inside(depth: int, inside: list[int]) -> None:
    with Guard(store=MemoryStore()) as guard:
        guard.tool(lambda: 1, name="look", effect="read")
        entered = []
        with ExitStack() as stack:
            for _ in range(depth):
                entered.append(stack.enter_context(guard.task("t")))
                for _ in range(inside.count(len(entered) - 1)):
                    assert guard.call("look").success
    for number, task in enumerate(entered):
        expected = sum(number <= level < depth for level in inside)
        assert (task.calls, task.attempts) == (expected, expected)
