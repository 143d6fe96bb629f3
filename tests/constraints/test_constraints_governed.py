"""Constraints on a real guard: what a caller sees when the world says no."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from fcguard import Guard, MemoryStore
from fcguard.constraints import (
    AttemptBudget,
    CircuitBreaker,
    Concurrency,
    ConflictsWith,
    DependencyHealth,
    Freeze,
    LoopDetection,
    NoProgressRepeat,
    RateLimit,
    ResourcePool,
    RetryTokenBucket,
    StepOrder,
    task_budget,
    task_history,
)
from fcguard.model.context import Budget
from fcguard.model.outcome import Applied, NotApplied
from tests.ledger_reading import LIMIT


@pytest.fixture
def make_guard(tmp_path: Path) -> Any:
    made: list[Guard] = []

    def make(**options: Any) -> Guard:
        made.append(Guard(store=MemoryStore(), evidence_dir=tmp_path / "evidence", **options))
        return made[-1]

    yield make
    for guard in made:
        guard.close()


def test_more_than_220_identical_calls(make_guard: Any) -> None:
    """Field case F130: after three identical calls with identical results nothing runs any more."""
    guard, ran = make_guard(constraints=[NoProgressRepeat(warn=2, block=3)]), []

    @guard.tool(effect="read")
    def bash(command: str) -> str:
        ran.append(command)
        return ""

    with guard.task("look around"):
        results = [bash(command="echo noop") for _ in range(220)]
    assert len(ran) == 3
    assert [result.success for result in results[:4]] == [True, True, True, False]
    assert "no_progress_repeat" in results[1].flags and "change course" in results[1].for_model()
    last = results[-1]
    assert (last.error_type, last.next_action, last.retryable, last.attempts) == (
        "NO_PROGRESS_REPEAT",
        "abort",
        False,
        0,
    )


def test_polling_with_a_changing_result(make_guard: Any) -> None:
    """Field case F131: identical calls, changing results."""
    guard, ran = make_guard(constraints=[NoProgressRepeat(), LoopDetection()]), []

    @guard.tool(effect="read")
    def job_status(id: str) -> dict[str, int]:
        ran.append(id)
        return {"percent": 20 * len(ran)}

    with guard.task("wait"):
        assert all(job_status(id="j1").success for _ in range(5))
    assert len(ran) == 5


def test_a_freeze_outside_the_prompt(make_guard: Any) -> None:
    """Field case F152: no write while the freeze is on, and checked again when it runs."""
    frozen = [True]
    guard, ran = make_guard(constraints=[Freeze(lambda: frozen[0])]), []

    @guard.tool(effect="write")
    def execute_sql(sql: str) -> int:
        ran.append(sql)
        return 1

    with guard.task("clean up"):
        refused = execute_sql(sql="DELETE FROM contacts WHERE id > 0")
        frozen[0] = False
        done = execute_sql(sql="DELETE FROM contacts WHERE id > 0")
    assert (refused.error_type, refused.failure_class, refused.next_action) == ("TENANT_FROZEN", "ENVIRONMENT", "abort")
    assert refused.attempts == 0 and done.success and len(ran) == 1


def test_an_async_tool_with_an_async_check(make_guard: Any) -> None:
    async def healthy() -> bool:
        await asyncio.sleep(0)
        return False

    guard = make_guard()

    @guard.tool(effect="read", constraints=[DependencyHealth(healthy, name="orders")])
    async def query() -> int:
        return 1

    result = asyncio.run(query())
    assert result.error_type == "DEPENDENCY_ERROR" and result.attempts == 0 and result.retry_after is not None


def test_a_breaker_opens_over_calls_and_says_when(make_guard: Any) -> None:
    breaker = CircuitBreaker("orders", minimum_calls=2, failure_rate=1.0)
    guard, ran = make_guard(), []

    @guard.tool(effect="read", retry=1, constraints=[breaker])
    def query() -> int:
        ran.append(1)
        raise ConnectionRefusedError

    assert [query().error_type for _ in range(4)] == ["CONNECTION_FAILED"] * 2 + ["CIRCUIT_OPEN"] * 2
    assert len(ran) == 2 and query().retry_after > 0


def test_wrong_parameters_do_not_open_a_breaker(make_guard: Any) -> None:
    breaker = CircuitBreaker("orders", minimum_calls=1, failure_rate=0.1)
    guard = make_guard()

    @guard.tool(effect="read", constraints=[breaker])
    def query(order_id: str) -> str:
        return order_id

    for _ in range(20):
        assert guard.call("query", {"order": 1}).failure_class == "PARAMETER"
    assert guard.call("query", {"order_id": "A"}).success


def test_budgets_hold_over_retries(make_guard: Any) -> None:
    guard, ran = make_guard(constraints=[task_budget]), []

    @guard.tool(effect="read", retry=3, constraints=[AttemptBudget(50)])
    def query() -> int:
        ran.append(1)
        raise ConnectionRefusedError

    with guard.task("ask", budget=Budget(attempts=4)):
        results = [query() for _ in range(3)]
    assert len(ran) == 4
    assert [result.attempts for result in results] == [3, 1, 0] and results[-1].error_type == "BUDGET_EXHAUSTED"


def test_calls_beyond_the_budget_are_refused(make_guard: Any) -> None:
    guard = make_guard(constraints=[task_budget])

    @guard.tool(effect="read")
    def query() -> int:
        return 1

    with guard.task("ask", budget=Budget(calls=2)):
        assert [query().error_type for _ in range(3)] == [None, None, "BUDGET_EXHAUSTED"]


def test_retries_need_tokens(make_guard: Any) -> None:
    guard, ran = make_guard(), []

    @guard.tool(effect="read", retry=5, constraints=[RetryTokenBucket(1)])
    def query() -> int:
        ran.append(1)
        raise ConnectionRefusedError

    assert query().error_type == "CONNECTION_FAILED" and len(ran) == 2


def test_a_rate_and_a_pool(make_guard: Any) -> None:
    pool = ResourcePool("qa", ["ann", "bob"])
    guard = make_guard()

    @guard.tool(effect="read", retry=1, constraints=[RateLimit(2, 3600), pool])
    def who() -> str:
        return pool.leased()

    results = [who() for _ in range(3)]
    assert [result.data for result in results] == ["ann", "ann", None]
    assert results[2].error_type == "RATE_LIMITED" and results[2].retry_after > 3000


def test_an_abandoned_thread_keeps_its_place(make_guard: Any) -> None:
    guard, release, ended = make_guard(), threading.Event(), threading.Event()

    @guard.tool(effect="read", timeout=LIMIT, retry=1, constraints=[Concurrency(1)])
    def slow(wait: bool) -> int:
        if wait:
            release.wait(60)
            ended.set()
        return 1

    assert slow(wait=True).error_type == "TIMEOUT"
    refused = slow(wait=False)
    assert refused.error_type == "RESOURCE_EXHAUSTED" and "abandoned" in refused.message
    release.set()
    ended.wait(60)
    result, until = slow(wait=False), time.monotonic() + 60
    while not result.success and time.monotonic() < until:
        result = slow(wait=False)
    assert result.success


def test_order_and_conflicts_over_whole_calls(make_guard: Any) -> None:
    guard, world = make_guard(constraints=[task_history]), []

    def there(call: Any) -> Any:
        return Applied({"order_id": "A1"}) if world else NotApplied()

    @guard.tool(effect="write", confirm=there, retry=1, constraints=[ConflictsWith("cancel", earlier=True)])
    def create(order_id: str) -> str:
        world.append(order_id)
        raise TimeoutError

    @guard.tool(effect="write", constraints=[StepOrder(["create"], same=["order_id"])])
    def cancel(order_id: str) -> str:
        return order_id

    with guard.task("order"):
        early = cancel(order_id="A1")
        assert (early.error_type, early.next_action, early.attempts) == ("PRECONDITION_FAILED", "choose_tool", 0)
        assert create(order_id="A1").outcome_basis == "confirmed"
        assert cancel(order_id="A1").success
        assert create(order_id="A2").error_type == "CONFLICT"
