"""A slow shared state stalls no event loop, and a caller that is cancelled meanwhile leaves nothing taken behind."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fcguard import Guard, MemoryStore
from fcguard.constraints import (
    AttemptBudget,
    CallBudget,
    CircuitBreaker,
    Concurrency,
    DependencyHealth,
    Freeze,
    MemoryState,
    RateLimit,
    ResourcePool,
    RetryTokenBucket,
    SharedState,
    TaskBudget,
)
from fcguard.model.context import Budget
from fcguard.model.states import CallState
from fcguard.stores.base import CallQuery
from fcguard.workers import Workers

MAKE: dict[str, Callable[[SharedState], Any]] = {
    "circuit": lambda state: CircuitBreaker("orders", minimum_calls=1, open_seconds=0.001, state=state),
    "rate": lambda state: RateLimit(1, 3600, state=state),
    "places": lambda state: Concurrency(1, state=state),
    "accounts": lambda state: ResourcePool("qa", ["ann"], state=state),
    "retries": lambda state: RetryTokenBucket(1, state=state),
    "calls": lambda state: CallBudget(1, state=state),
    "attempts": lambda state: AttemptBudget(1, state=state),
    "task": lambda state: TaskBudget(state=state),
}
LONG = 120.0


class Turn:
    """Waits in whatever thread it is called until a loop has turned; on the loop's own thread that never happens."""

    def __init__(self) -> None:
        self.loop: asyncio.AbstractEventLoop | None = None
        self.turns = 0

    def __call__(self, *_: Any) -> None:
        assert self.loop is not None
        turned = threading.Event()
        self.loop.call_soon_threadsafe(turned.set)
        assert turned.wait(LONG), "the loop does not turn"
        self.turns += 1


class Slow(MemoryState):
    """A shared state that answers after what it is told to wait for; `seen` are the threads that changed it."""

    is_shared = True

    def __init__(self, wait: Callable[[], None] = lambda: None) -> None:
        super().__init__()
        self.wait, self.seen = wait, []
        self._changed = threading.Condition()

    def change(self, key: str, change: Any) -> Any:
        self.seen.append(threading.current_thread())
        self.wait()
        try:
            return super().change(key, change)
        finally:
            with self._changed:
                self._changed.notify_all()

    def becomes(self, is_as_wanted: Callable[[dict[str, Any]], bool]) -> bool:
        """Wait until its values are as wanted."""
        with self._changed:
            return self._changed.wait_for(lambda: is_as_wanted(self._values), LONG)


class Hold:
    """Stops whoever asks for the n-th time, until it is opened."""

    def __init__(self, number: int) -> None:
        self.left = number
        self.is_reached, self.is_open = threading.Event(), threading.Event()

    def __call__(self) -> None:
        self.left -= 1
        if self.left == 0:
            self.is_reached.set()
            assert self.is_open.wait(LONG)


@pytest.fixture
def guard(tmp_path: Path) -> Iterator[Guard]:
    made = Guard(store=MemoryStore(), evidence_dir=tmp_path / "evidence")
    yield made
    made.close()


def add(guard: Guard, is_async: bool, constraints: list[Any], effect: str = "read") -> list[int]:
    """Register a tool `work`; answers where it notes that it ran."""
    ran: list[int] = []

    def work() -> int:
        ran.append(1)
        return len(ran)

    async def awork() -> int:
        return work()

    guard.tool(awork if is_async else work, name="work", effect=effect, retry=1, constraints=constraints)
    return ran


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("kind", MAKE)
def test_the_loop_turns_while_the_state_is_asked(guard: Guard, kind: str, is_async: bool) -> None:
    turn = Turn()
    state = Slow(turn)
    add(guard, is_async, [MAKE[kind](state)])

    async def main() -> Any:
        turn.loop = asyncio.get_running_loop()
        with guard.task("work", budget=Budget(calls=9)):
            return await guard.acall("work", {})

    result = asyncio.run(main())
    assert (result.data, result.flags) == (1, ())
    assert turn.turns >= 1 and len(state.seen) == turn.turns
    assert threading.main_thread() not in state.seen


@pytest.mark.parametrize("kind", MAKE)
def test_a_refusal_and_what_it_gives_back_go_the_same_way(guard: Guard, kind: str) -> None:
    turn = Turn()
    state = Slow(turn)
    taken = Concurrency(1, name="taken", state=state)
    never = CallBudget(0, name="never", state=state)
    add(guard, True, [MAKE[kind](state), taken, never])

    async def main() -> Any:
        turn.loop = asyncio.get_running_loop()
        with guard.task("work", budget=Budget(calls=9)):
            return await guard.acall("work", {})

    result = asyncio.run(main())
    assert (result.error_type, result.attempts, result.flags) == ("BUDGET_EXHAUSTED", 0, ())
    assert "places:taken" not in state._values and threading.main_thread() not in state.seen


@pytest.mark.parametrize("kind", MAKE)
def test_a_blocking_call_stays_in_its_thread(guard: Guard, kind: str) -> None:
    state = Slow()
    add(guard, False, [MAKE[kind](state)])
    with guard.task("work", budget=Budget(calls=9)):
        assert guard.call("work", {}).success
    assert {*state.seen} == {threading.main_thread()}


def test_a_state_of_this_process_needs_no_thread(guard: Guard, monkeypatch: pytest.MonkeyPatch) -> None:
    submitted: list[Any] = []
    submit = Workers.submit
    monkeypatch.setattr(Workers, "submit", lambda *args, **options: submitted.append(args) or submit(*args, **options))
    add(guard, True, [make(MemoryState()) for make in MAKE.values()])

    async def main() -> Any:
        with guard.task("work", budget=Budget(calls=9)):
            return await guard.acall("work", {})

    assert asyncio.run(main()).success and submitted == []


def test_a_constraint_of_ones_own_may_say_that_it_is_blocking(guard: Guard) -> None:
    turn, heard = Turn(), []

    class Remote:
        name, is_blocking = "remote", True

        def admit(self, call: Any, now: float) -> None:
            turn()

        def settle(self, call: Any, attempt: Any, now: float) -> None:
            turn()
            heard.append(attempt.number)
            raise ConnectionError("gone")

    add(guard, True, [Remote()])

    async def main() -> Any:
        turn.loop = asyncio.get_running_loop()
        return await guard.acall("work", {})

    result = asyncio.run(main())
    assert (result.data, result.flags, heard) == (1, ("constraint_failed:remote",), [1])


CHECKS: dict[str, Callable[[Callable[[], Any]], Any]] = {
    "health": lambda wait: DependencyHealth(lambda: wait() is None, cache_seconds=3600),
    "health of the call": lambda wait: DependencyHealth(lambda call: wait() is None, cache_seconds=3600),
    "freeze": lambda wait: Freeze(lambda: wait() is not None),
}


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("kind", CHECKS)
def test_the_loop_turns_while_a_check_is_asked(guard: Guard, kind: str, is_async: bool) -> None:
    turn = Turn()
    add(guard, is_async, [CHECKS[kind](turn)], "write")

    async def main() -> Any:
        turn.loop = asyncio.get_running_loop()
        with guard.task("work"):
            return [await guard.acall("work", {}), await guard.acall("work", {})]

    results = asyncio.run(main())
    assert [(result.data, result.flags) for result in results] == [(1, ()), (2, ())]
    assert turn.turns == (2 if kind == "freeze" else 1), "an answer is kept"


def test_what_need_not_be_asked_needs_no_thread(guard: Guard, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer that is kept, a kind of tool that no freeze stops, and checks that are awaited."""
    submitted: list[Any] = []
    submit = Workers.submit
    monkeypatch.setattr(Workers, "submit", lambda *args, **options: submitted.append(args) or submit(*args, **options))

    async def is_up() -> bool:
        return True

    checks = [DependencyHealth(lambda: True, cache_seconds=3600), DependencyHealth(is_up), Freeze(lambda: True)]
    add(guard, True, checks)

    async def main() -> list[Any]:
        return [(await guard.acall("work", {})).error_type for _ in range(3)]

    assert asyncio.run(main()) == [None] * 3 and len(submitted) == 1


@pytest.mark.parametrize("kind", CHECKS)
def test_a_blocking_call_checks_in_its_own_thread(guard: Guard, kind: str) -> None:
    seen: list[threading.Thread] = []
    add(guard, False, [CHECKS[kind](lambda: seen.append(threading.current_thread()))], "write")
    with guard.task("work"):
        assert guard.call("work", {}).success
    assert seen == [threading.main_thread()]


def test_a_caller_that_is_cancelled_while_a_check_hangs_ends_at_once(guard: Guard) -> None:
    hold = Hold(1)
    ran = add(guard, True, [DependencyHealth(lambda: hold() is None)])

    async def main() -> None:
        call = await begun(guard, hold)
        call.cancel()
        await end(call)
        hold.is_open.set()

    asyncio.run(main())
    assert ran == []


def test_a_state_that_breaks_in_the_thread_refuses(guard: Guard) -> None:
    def breaks() -> None:
        raise ConnectionError("gone")

    ran = add(guard, True, [RateLimit(1, 60, state=Slow(breaks))])
    result = asyncio.run(guard.acall("work", {}))
    assert (result.error_type, result.attempts, ran) == ("RULE_FAILED", 0, [])


# -- cancellation --------------------------------------------------------------------------------------------------------

KINDS = ("rate", "places", "accounts", "calls", "attempts", "task")
"""Constraints that change their state when they admit."""


def nothing_is_taken(values: dict[str, Any]) -> bool:
    spent = values.get("budget_task:task_budget:'t'")
    return values.keys() <= {"budget_task:task_budget:'t'"} and (spent is None or spent["attempts"] == 0)


def only_what_was_sent(values: dict[str, Any]) -> bool:
    return {key.partition(":")[0] for key in values} == {"rate", "budget_calls", "budget_attempts", "budget_task"}


async def begun(guard: Guard, hold: Hold) -> asyncio.Task[Any]:
    """Answer a call that waits for what is held."""
    with guard.task("work", task_id="t", budget=Budget(calls=9)):
        call = asyncio.create_task(guard.acall("work", {}))
    assert await asyncio.to_thread(hold.is_reached.wait, LONG)
    return call


async def end(call: asyncio.Task[Any]) -> None:
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(call, LONG)


@pytest.mark.parametrize("when", ["before it answers", "while it answers", "when it has answered"])
@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("place", range(1, len(KINDS) + 1))
def test_who_is_cancelled_while_it_is_admitted_takes_nothing(
    guard: Guard, place: int, is_async: bool, when: str
) -> None:
    hold = Hold(place)
    state = Slow(hold)
    ran = add(guard, is_async, [MAKE[kind](state) for kind in KINDS])

    async def main() -> None:
        call = await begun(guard, hold)
        if when != "before it answers":
            hold.is_open.set()
        if when == "when it has answered":
            assert state.becomes(lambda values: len(values) == place)  # the loop stands still meanwhile
        call.cancel()
        await end(call)
        hold.is_open.set()

    asyncio.run(main())
    assert state.becomes(nothing_is_taken), state._values
    assert ran == []
    with guard.task("work", task_id="t", budget=Budget(calls=9)):
        assert guard.call("work", {}).success, "all of it is free again"


def rows(guard: Guard) -> list[Any]:
    return list(guard.store.calls(CallQuery()))


@pytest.mark.parametrize("times", [1, 5])
@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("place", [len(KINDS) + 1, len(KINDS) + 2])
def test_who_is_cancelled_while_it_gives_back_has_done_it(guard: Guard, place: int, is_async: bool, times: int) -> None:
    """As while its end is recorded: the write was done, and that is what the ledger says."""
    hold = Hold(place)
    state = Slow(hold)
    ran = add(guard, is_async, [MAKE[kind](state) for kind in KINDS], "write")

    async def main() -> None:
        call = await begun(guard, hold)
        for _ in range(times):
            call.cancel()
            await asyncio.sleep(0)
        assert not call.done(), "it waits for the answer, so that what it had is free when it ends"
        hold.is_open.set()
        await end(call)
        assert only_what_was_sent(state._values)

    asyncio.run(main())
    assert [row.state for row in rows(guard)] == [CallState.SUCCEEDED] and ran == [1]


@pytest.mark.parametrize("times", [1, 5])
def test_who_is_cancelled_in_the_tool_and_again_while_it_gives_back(guard: Guard, times: int) -> None:
    hold = Hold(2)
    state = Slow(hold)
    entered = asyncio.Event()

    async def work() -> None:
        entered.set()
        await asyncio.Event().wait()

    guard.tool(work, effect="write", constraints=[MAKE["places"](state)])

    async def main() -> None:
        with guard.task("work"):
            call = asyncio.create_task(guard.acall("work", {}))
        await asyncio.wait_for(entered.wait(), LONG)
        call.cancel()
        assert await asyncio.to_thread(hold.is_reached.wait, LONG)
        for _ in range(times):
            call.cancel()
            await asyncio.sleep(0)
        hold.is_open.set()
        await end(call)
        assert state._values == {}

    asyncio.run(main())
    assert [row.state for row in rows(guard)] == [CallState.UNCERTAIN]


def test_a_probe_of_a_cancelled_caller_is_free_for_the_next(guard: Guard) -> None:
    now = [1000.0]
    hold = Hold(3)
    state = Slow(hold)
    breaker = CircuitBreaker("orders", minimum_calls=1, open_seconds=5, state=state, wall=lambda: now[0])
    works: list[int] = []

    async def work() -> None:
        if not works:
            raise ConnectionRefusedError

    guard.tool(work, effect="read", retry=1, constraints=[breaker])

    async def main() -> None:
        assert (await guard.acall("work", {})).error_type == "CONNECTION_FAILED"
        now[0] += 5
        works.append(1)
        call = await begun(guard, hold)
        call.cancel()
        await end(call)
        hold.is_open.set()
        assert await asyncio.to_thread(state.becomes, lambda values: "probes" not in values["circuit:orders"])
        assert breaker.snapshot(0).state == "half_open"
        assert (await guard.acall("work", {})).success and breaker.snapshot(0).state == "closed"

    asyncio.run(main())


@pytest.mark.parametrize("place", range(1, len(KINDS) + 3))
def test_a_coroutine_that_is_closed_takes_nothing_with_it(guard: Guard, place: int) -> None:
    hold = Hold(place)
    state = Slow(hold)
    add(guard, True, [MAKE[kind](state) for kind in KINDS])

    async def main() -> None:
        with guard.task("work", task_id="t", budget=Budget(calls=9)):
            call = guard.acall("work", {})
            while not hold.is_reached.is_set():
                future = call.send(None)
                await asyncio.to_thread(lambda: hold.is_reached.wait(0.01) or future.done())
                if not hold.is_reached.is_set():
                    await asyncio.wait([future])
            call.close()
        hold.is_open.set()

    asyncio.run(main())
    assert state.becomes(nothing_is_taken if place <= len(KINDS) else only_what_was_sent), state._values
