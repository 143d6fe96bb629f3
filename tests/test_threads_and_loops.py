"""Threads and loops: who runs where, how many at once, and that nobody waits for ever."""

from __future__ import annotations

import asyncio
import concurrent.futures
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fcguard import Applied, Guard, MemoryStore, SQLiteStore, Tool
from fcguard.model.states import CallState
from tests.conftest import ANY_OBJECT, Hang, Script
from tests.ledger_reading import LIMIT, run_python

# -- worker threads -----------------------------------------------------------------------------------------------------


@pytest.fixture
def narrow(tmp_path: Path) -> Iterator[Guard]:
    with Guard(store=MemoryStore(), evidence_dir=tmp_path, worker_threads=1) as guard:
        yield guard


@pytest.mark.parametrize("caller", ["call", "acall"])
def test_an_abandoned_thread_does_not_block_the_next_call(narrow: Guard, caller: str) -> None:
    script = Script(Hang("late"), "fine", "fine")
    narrow.register(Tool(name="tool", parameters=ANY_OBJECT, fn=script.sync, timeout=30.0, effect="read", retry=1))
    narrow.register(Tool(name="slow", parameters=ANY_OBJECT, fn=script.sync, timeout=LIMIT, effect="read", retry=1))

    def call(name: str) -> Any:
        return narrow.call(name, {}) if caller == "call" else asyncio.run(narrow.acall(name, {}))

    assert call("slow").error_type == "TIMEOUT"
    assert call("tool").data == "fine"
    script.release.set()
    assert call("tool").data == "fine"


@pytest.mark.parametrize("caller", ["call", "acall"])
def test_a_call_that_finds_no_thread_in_time_was_never_started(narrow: Guard, caller: str) -> None:
    busy, entered = Script(Hang("slow")), threading.Event()
    waiting = Script("never")

    def occupy() -> Any:
        entered.set()
        return busy.sync()

    narrow.tool(occupy, effect="read", timeout=30.0)
    narrow.register(Tool(name="write", parameters=ANY_OBJECT, fn=waiting.sync, timeout=LIMIT))
    other = threading.Thread(target=lambda: narrow.call("occupy"))
    other.start()
    assert entered.wait(60)
    with narrow.task("write"):
        result = narrow.call("write", {}) if caller == "call" else asyncio.run(narrow.acall("write", {}))
    busy.release.set()
    other.join(60)
    assert (result.error_type, result.effect, result.retryable) == ("RESOURCE_EXHAUSTED", "not_applied", True)
    assert "not started" in result.message
    assert waiting.calls == []
    stored = narrow.store.get(result.request_id)
    assert stored is not None and stored.state is CallState.FAILED


def test_calls_within_calls_do_not_wait_for_each_others_threads(narrow: Guard) -> None:
    narrow.tool(lambda: "leaf", name="leaf", effect="read", timeout=30.0)
    narrow.tool(lambda: narrow.call("leaf").unwrap(), name="middle", effect="read", timeout=30.0)
    narrow.tool(lambda: narrow.call("middle").unwrap(), name="top", effect="read", timeout=30.0)
    assert narrow.call("top").data == "leaf"
    assert asyncio.run(narrow.acall("top")).data == "leaf"
    assert narrow.call("leaf").data == "leaf"


def test_loops_within_threads_within_loops_do_not_wait_for_each_other(narrow: Guard) -> None:
    narrow.tool(lambda: "leaf", name="leaf", effect="read", timeout=30.0)

    @narrow.tool(effect="read", timeout=30.0)
    async def many() -> list[Any]:
        return [one.unwrap() for one in await asyncio.gather(*(narrow.acall("leaf") for _ in range(20)))]

    narrow.tool(lambda: narrow.call("many").unwrap(), name="top", effect="read", timeout=30.0)
    assert narrow.call("top").data == ["leaf"] * 20
    assert asyncio.run(narrow.acall("top")).data == ["leaf"] * 20


def test_many_confirmations_at_once_find_threads_for_their_reads(tmp_path: Path) -> None:
    with Guard(store=MemoryStore(), evidence_dir=tmp_path, worker_threads=2) as guard:
        guard.tool(lambda: True, name="look", effect="read", timeout=30.0)
        barrier = threading.Barrier(2, timeout=60)

        def confirm(call: Any) -> Any:
            barrier.wait()
            return Applied(guard.call("look").unwrap())

        def write(number: int) -> None:
            raise TimeoutError

        guard.tool(write, confirm=confirm)

        async def play() -> list[Any]:
            return await asyncio.gather(*(guard.acall("write", {"number": number}) for number in range(2)))

        with guard.task("write"):
            assert [one.outcome_basis for one in asyncio.run(play())] == ["confirmed", "confirmed"]


def test_two_guards_that_call_each_other_do_not_wait_for_ever(tmp_path: Path) -> None:
    first = Guard(store=MemoryStore(), evidence_dir=tmp_path, worker_threads=1)
    second = Guard(store=MemoryStore(), evidence_dir=tmp_path, worker_threads=1)
    first.tool(lambda: "leaf", name="leaf", effect="read", timeout=30.0)
    second.tool(lambda: first.call("leaf").unwrap(), name="middle", effect="read", timeout=30.0)
    first.tool(lambda: second.call("middle").unwrap(), name="top", effect="read", timeout=30.0)
    assert first.call("top").data == "leaf"


def test_a_machine_without_threads_refuses_before_anything_is_sent(guard: Guard, monkeypatch: Any) -> None:
    script = Script("never")
    guard.register(Tool(name="tool", parameters=ANY_OBJECT, fn=script.sync, timeout=30.0, retry=1))

    def start(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with guard.task("write"):
        monkeypatch.setattr(threading.Thread, "start", start)
        result = guard.call("tool", {})
        monkeypatch.undo()
    assert (result.error_type, result.effect, script.calls) == ("RESOURCE_EXHAUSTED", "not_applied", [])
    with guard.task("write"):
        assert guard.call("tool", {}).success


# -- loops and threads -----------------------------------------------------------------------------------------------------


def test_a_sync_tool_on_the_loops_own_thread_uses_no_thread_and_no_loop(guard: Guard) -> None:
    seen: list[Any] = []

    @guard.tool(effect="read")
    def here() -> None:
        seen.append((threading.current_thread(), asyncio.get_running_loop()))

    async def play() -> Any:
        return here(), threading.current_thread(), asyncio.get_running_loop()

    result, thread, loop = asyncio.run(play())
    assert result.success
    assert seen == [(thread, loop)]


def test_the_loop_keeps_beating_while_a_sync_tool_runs(guard: Guard) -> None:
    release = threading.Event()
    guard.tool(lambda: release.wait(60), name="slow", effect="read")

    async def play() -> tuple[Any, int]:
        call = asyncio.create_task(guard.acall("slow"))
        beats = 0
        while beats < 50:
            await asyncio.sleep(0.001)
            beats += 1
        assert not call.done()
        release.set()
        return await call, beats

    result, beats = asyncio.run(play())
    assert (result.data, beats) == (True, 50)


@pytest.mark.parametrize("seconds", [None, 100.0])
def test_an_inline_tool_stays_on_the_loops_thread(guard: Guard, seconds: float | None) -> None:
    from fcguard import Budget

    seen: list[threading.Thread] = []

    @guard.tool(effect="read", inline=True)
    def here() -> None:
        seen.append(threading.current_thread())

    with guard.task("inline", budget=Budget(seconds=seconds)):
        assert asyncio.run(guard.acall("here")).success
        assert guard.call("here").success
    assert seen == [threading.current_thread()] * 2


def test_a_sync_tool_from_async_code_runs_in_a_thread(guard: Guard) -> None:
    seen: list[threading.Thread] = []
    guard.tool(lambda: seen.append(threading.current_thread()), name="there", effect="read")
    assert asyncio.run(guard.acall("there")).success
    assert seen[0] is not threading.current_thread()
    assert seen[0].daemon


def test_an_async_tool_from_sync_code_inside_a_running_loop(guard: Guard) -> None:
    @guard.tool(effect="read")
    async def tool() -> str:
        await asyncio.sleep(0)
        return "fine"

    async def play() -> Any:
        return guard.call("tool")

    assert asyncio.run(play()).data == "fine"


def test_four_threads_use_one_guard_at_once(tmp_path: Path) -> None:
    start = threading.Barrier(4)
    with Guard(store=SQLiteStore(tmp_path / "ledger.db"), evidence_dir=tmp_path) as guard:
        guard.tool(lambda n: n, name="read", effect="read")
        guard.tool(lambda n, who: n, name="write", timeout=30.0)

        def play(number: int) -> list[Any]:
            start.wait(60)
            with guard.task("thread", task_id=f"task-{number}"):
                calls = [
                    ("read", {"n": n}) if is_read else ("write", {"n": n, "who": number})
                    for n in range(25)
                    for is_read in (1, 0)
                ]
                return [guard.call(name, arguments) for name, arguments in calls]

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            results = [result for part in pool.map(play, range(4)) for result in part]
        assert all(result.success for result in results)
        assert len({result.request_id for result in results}) == 200
        for number in range(4):
            mine = [result for result in results if result.task_id == f"task-{number}"]
            assert [result.data for result in mine] == [n for n in range(25) for _ in range(2)]
            assert [result.step for result in mine] == list(range(1, 51))
        assert sum(1 for _ in guard.store.calls()) == 200


def test_two_hundred_calls_in_flight(tmp_path: Path) -> None:
    with Guard(store=SQLiteStore(tmp_path / "ledger.db"), evidence_dir=tmp_path) as guard:

        @guard.tool()
        async def write(n: int) -> int:
            await asyncio.sleep(0)
            return n

        guard.tool(lambda n: n, name="read", effect="read")

        async def play() -> list[Any]:
            calls = [guard.acall(name, {"n": n}) for n in range(100) for name in ("read", "write")]
            return await asyncio.gather(*calls)

        with guard.task("many"):
            results = asyncio.run(play())
        assert [result.data for result in results] == [n for n in range(100) for _ in range(2)]
        assert sum(1 for _ in guard.store.calls()) == 200


def test_a_guard_used_after_a_fork(tmp_path: Path) -> None:
    code = f"""
        import os, sys
        from fcguard import Guard, SQLiteStore
        guard = Guard(store=SQLiteStore({str(tmp_path / "ledger.db")!r}), evidence_dir={str(tmp_path)!r})
        guard.tool(lambda n: n, name="read", effect="read", timeout=60.0)
        @guard.tool()
        async def write(n: int) -> int:
            return n
        def play(n):
            with guard.task("t", task_id="t" + str(n)):
                return guard.call("read", {{"n": n}}).data == n and guard.call("write", {{"n": n}}).data == n
        assert play(1)
        pid = os.fork()
        if pid == 0:
            os._exit(0 if play(2) and play(3) else 3)
        _, status = os.waitpid(pid, 0)
        assert play(4)
        print(os.waitstatus_to_exitcode(status), sum(1 for _ in guard.store.calls()))
        guard.close()
    """
    out = run_python(code)
    assert out.stdout.split() == ["0", "8"], out.stderr
