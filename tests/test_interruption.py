"""Cancellation, interrupts and exits: they pass, and leave evidence of what may have happened."""

from __future__ import annotations

import asyncio
import linecache
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from fcguard import Guard, MemoryStore, SQLiteStore
from fcguard.model.states import OPEN_STATES, CallState
from fcguard.stores.base import Enter, Move, Open
from fcguard.waking import LAST_WORD
from tests.conftest import Hang, Mode, Script, add
from tests.ledger_reading import eventually, only_call, payloads

# -- odd exceptions -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("timeout", [None, 5.0])
@pytest.mark.parametrize("error", [StopIteration("x"), StopAsyncIteration("x"), asyncio.CancelledError("x")])
def test_exceptions_that_mean_something_to_python_are_failures(
    guard: Guard, mode: Mode, error: BaseException, timeout: float | None
) -> None:
    add(guard, mode, Script(error), timeout=timeout)
    add(guard, mode, Script(error), "read", effect="read", timeout=timeout, retry=1)
    with guard.task("write"):
        assert mode.call(guard, "tool", {}).effect == "unknown"
        assert mode.call(guard, "read", {}).error_type == "TOOL_ERROR"


class Unreadable(Exception):
    """Raises whatever is asked of it, its class too."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(name)


@pytest.mark.parametrize("timeout", [None, 5.0])
def test_an_exception_that_cannot_even_be_looked_at_is_a_failure(
    guard: Guard, mode: Mode, timeout: float | None
) -> None:
    add(guard, mode, Script(Unreadable()), timeout=timeout)
    add(guard, mode, Script(Unreadable()), "read", effect="read", timeout=timeout, retry=1)
    with guard.task("write"):
        assert mode.call(guard, "tool", {}).effect == "unknown"
        assert mode.call(guard, "read", {}).error_type == "TOOL_ERROR"


def test_a_done_write_that_returns_what_cannot_be_looked_at_is_done(guard: Guard, mode: Mode) -> None:
    class Answer:
        def __getattribute__(self, name: str) -> Any:
            raise RuntimeError(name)

    def tool() -> Any:
        return Answer()

    async def atool() -> Any:
        return Answer()

    guard.tool(name="tool", effect="write")(atool if mode.is_async_tool else tool)
    with guard.task("write"):
        result = mode.call(guard, "tool", {})
    assert (result.success, result.effect) == (True, "applied")
    assert list(result.data) == ["$object"]


@pytest.mark.parametrize("timeout", [None, 5.0])
@pytest.mark.parametrize("kind", [SystemExit, GeneratorExit, KeyboardInterrupt])
def test_exits_pass_and_leave_evidence(
    tmp_path: Path, mode: Mode, kind: type[BaseException], timeout: float | None
) -> None:
    with Guard(store=SQLiteStore(tmp_path / "ledger.db"), evidence_dir=tmp_path) as guard:
        add(guard, mode, Script(kind("x")), timeout=timeout)
        add(guard, mode, Script(kind("x")), "read", effect="read", timeout=timeout)
        with guard.task("exit", task_id="t"):
            for name in ("tool", "read"):
                with pytest.raises(kind):
                    mode.call(guard, name, {})
        eventually(lambda: [call.state in OPEN_STATES for call in guard.store.calls()].count(False) == 1)
        read, write = sorted(guard.store.calls(), key=lambda call: call.identity.tool)
        assert (write.state, read.state) == (CallState.UNCERTAIN, CallState.FAILED)
        assert (write.result or {})["error_type"] == "UNCERTAIN_RESULT"
        assert (read.result or {})["error_type"] == "CANCELLED"


def test_a_confirmation_whose_own_wait_was_cancelled_could_not_tell(guard: Guard, mode: Mode) -> None:
    def confirm(call: Any) -> Any:
        raise asyncio.CancelledError

    async def aconfirm(call: Any) -> Any:
        raise asyncio.CancelledError

    add(guard, mode, Script(TimeoutError()), confirm=aconfirm if mode.is_async_tool else confirm, settle=1.0)
    with guard.task("write"):
        result = mode.call(guard, "tool", {})
    assert (result.effect, result.next_action) == ("unknown", "confirm_state")


# -- cancellation ----------------------------------------------------------------------------------------------------------


async def cancelled(call: Any, is_running: Callable[[], bool]) -> BaseException | None:
    task = asyncio.ensure_future(call)
    while not is_running():
        await asyncio.sleep(0.001)
    task.cancel()
    try:
        await task
    except asyncio.CancelledError as error:
        return error
    return None


@pytest.mark.parametrize("timeout", [None, 30.0])
@pytest.mark.parametrize("colour", ["async", "sync_from_async"])
@pytest.mark.parametrize("store", ["memory", "sqlite"])
@pytest.mark.parametrize(("effect", "state"), [("write", CallState.UNCERTAIN), ("read", CallState.FAILED)])
def test_cancelling_leaves_evidence_and_is_raised_again(
    tmp_path: Path, colour: str, store: str, effect: Any, state: CallState, timeout: float | None
) -> None:
    script = Script(Hang("late"))
    ledger = MemoryStore() if store == "memory" else SQLiteStore(tmp_path / "ledger.db")
    with Guard(store=ledger, evidence_dir=tmp_path) as guard:
        add(guard, Mode(colour), script, effect=effect, timeout=timeout)

        async def play() -> None:
            with guard.task("cancel"):
                assert await cancelled(guard.acall("tool", {}), lambda: bool(script.calls)) is not None

        asyncio.run(play())
        call = only_call(guard)
        assert call.state is state
        assert call.result["error_type"] == ("UNCERTAIN_RESULT" if effect == "write" else "CANCELLED")
        assert call.result["effect"] == ("unknown" if effect == "write" else "none")
        script.release.set()
        if effect == "write" and colour == "sync_from_async":
            eventually(lambda: bool(payloads(guard, "late")))


def test_cancelling_a_pause_between_attempts_sends_nothing_more(tmp_path: Path) -> None:
    script = Script(ConnectionResetError(), "second")
    with Guard(store=MemoryStore(), evidence_dir=tmp_path) as guard:
        from tenacity import wait_fixed

        from fcguard import Retry

        add(guard, Mode("async"), script, effect="read", retry=Retry(wait=wait_fixed(30)))

        async def play() -> None:
            assert await cancelled(guard.acall("tool", {}), lambda: bool(script.calls)) is not None

        asyncio.run(play())
        assert len(script.calls) == 1
        assert only_call(guard).result["error_type"] == "CANCELLED"


class SlowStore(MemoryStore):
    """Answers when it is told to; meanwhile its commands count as being written."""

    answers_inline = False

    def __init__(self, slow: type) -> None:
        super().__init__()
        self.slow, self.arrived, self.go = slow, threading.Event(), threading.Event()

    def submit(self, command: Any, done: Callable[[Any], None]) -> None:
        if not isinstance(command, self.slow):
            super().submit(command, done)
            return
        answers: list[Any] = []
        super().submit(command, answers.append)

        def later() -> None:
            self.arrived.set()
            self.go.wait(60)
            done(answers[0])

        threading.Thread(target=later, daemon=True).start()


@pytest.mark.parametrize("slow", [Open, Move, Enter])
def test_cancelling_while_the_ledger_writes_waits_for_its_answer(tmp_path: Path, slow: type) -> None:
    script, store = Script("done"), SlowStore(slow)
    with Guard(store=store, evidence_dir=tmp_path) as guard:
        add(guard, Mode("async"), script, effect="read" if slow is Enter else "write")

        async def play() -> None:
            task = asyncio.ensure_future(guard.acall("tool", {}))
            while not store.arrived.is_set():
                await asyncio.sleep(0.001)
            task.cancel()
            await asyncio.sleep(0.01)
            assert not task.done()
            store.go.set()
            with pytest.raises(asyncio.CancelledError):
                await task

        with guard.task("cancel"):
            asyncio.run(play())
        call = only_call(guard)
        if slow is Open:  # the intent is durable, nothing was sent: the effect must not stay blocked
            assert (call.state, script.calls) == (CallState.REJECTED, [])
            with guard.task("again"):
                assert asyncio.run(guard.acall("tool", {})).success
        else:
            assert call.state is CallState.SUCCEEDED


@pytest.mark.parametrize("slow", [Open, Move, Enter])
def test_a_scope_that_cancels_at_every_turn_of_the_loop_waits_for_the_ledger(
    tmp_path: Path, slow: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fcguard.waking.LAST_WORD", 60.0)
    monkeypatch.setattr("fcguard.waking.LAST_WORD_OF_TWO", 60.0)
    script, store = Script("done"), SlowStore(slow)
    with Guard(store=store, evidence_dir=tmp_path) as guard:
        add(guard, Mode("async"), script, effect="read" if slow is Enter else "write")

        async def play() -> None:
            async with anyio.create_task_group() as group:
                scope = anyio.CancelScope()

                async def within() -> None:
                    with scope:
                        await guard.acall("tool", {})

                group.start_soon(within)
                while not store.arrived.is_set():
                    await anyio.sleep(0.001)
                scope.cancel()
                await anyio.sleep(0.01)
                assert not scope.cancelled_caught
                store.go.set()
            assert scope.cancelled_caught

        with guard.task("cancel"):
            asyncio.run(play())
        call = only_call(guard)
        if slow is Open:
            assert (call.state, script.calls) == (CallState.REJECTED, [])
        else:
            assert call.state is CallState.SUCCEEDED


def test_a_second_cancellation_does_not_wait_long_for_the_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fcguard.waking.LAST_WORD_OF_TWO", 0.05)
    store = SlowStore(Enter)
    with Guard(store=store, evidence_dir=tmp_path) as guard:
        add(guard, Mode("async"), Script("done"), effect="read")

        async def play() -> None:
            task = asyncio.ensure_future(guard.acall("tool", {}))
            while not store.arrived.is_set():
                await asyncio.sleep(0.001)
            task.cancel()
            await asyncio.sleep(0.01)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asyncio.wait_for(task, LAST_WORD - 1.0)

        asyncio.run(play())
        store.go.set()


def test_a_coroutine_that_its_loop_throws_away_leaves_evidence(tmp_path: Path) -> None:
    script = Script(Hang("late"))
    with Guard(store=SQLiteStore(tmp_path / "ledger.db"), evidence_dir=tmp_path) as guard:
        add(guard, Mode("async"), script)
        loop = asyncio.new_event_loop()
        loop.set_exception_handler(lambda *_: None)  # it says that a task was destroyed, which is the point

        async def until_running() -> None:
            while not script.calls:
                await asyncio.sleep(0.001)

        with guard.task("closed"):
            task = loop.create_task(guard.acall("tool", {}))
            loop.run_until_complete(until_running())
        loop.close()
        coroutine = task.get_coro()
        del task
        coroutine.close()
        eventually(lambda: only_call(guard).state is CallState.UNCERTAIN)


# -- interrupts ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("colour", ["sync", "async_from_sync"])
@pytest.mark.parametrize("effect", ["write", "read"])
def test_an_interrupt_of_the_waiting_thread_leaves_evidence(tmp_path: Path, colour: str, effect: Any) -> None:
    script = Script(Hang("late"))
    with Guard(store=SQLiteStore(tmp_path / "ledger.db"), evidence_dir=tmp_path) as guard:
        add(guard, Mode(colour), script, effect=effect, timeout=30.0)

        def interrupt() -> None:
            eventually(lambda: bool(script.calls))
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

        threading.Thread(target=interrupt, daemon=True).start()
        with guard.task("interrupted"), pytest.raises(KeyboardInterrupt):
            guard.call("tool", {})
        call = only_call(guard)
        assert call.state is (CallState.UNCERTAIN if effect == "write" else CallState.FAILED)
        assert (call.result or {})["error_type"] == ("UNCERTAIN_RESULT" if effect == "write" else "CANCELLED")
        script.release.set()
        if (colour, effect) == ("sync", "write"):
            eventually(lambda: bool(payloads(guard, "late")))


def test_an_interrupt_inside_a_tool_leaves_evidence(guard: Guard) -> None:
    guard.tool(lambda: signal.raise_signal(signal.SIGINT), name="tool")
    with guard.task("interrupted"), pytest.raises(KeyboardInterrupt):
        guard.call("tool")
    assert only_call(guard).state is CallState.UNCERTAIN


def main_thread_waits_for_the_ledger() -> bool:
    frame = sys._current_frames()[threading.main_thread().ident or 0]
    return frame.f_code.co_name == "commit" and "waiting.acquire()" in linecache.getline(
        frame.f_code.co_filename, frame.f_lineno
    )


@pytest.mark.parametrize("slow", [Open, Move, Enter])
def test_an_interrupt_while_the_ledger_writes_waits_for_its_answer(
    tmp_path: Path, slow: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fcguard.runtime.LAST_WORD", 60.0)
    script, store = Script("done"), SlowStore(slow)
    with Guard(store=store, evidence_dir=tmp_path) as guard:
        add(guard, Mode("sync"), script, effect="read" if slow is Enter else "write")

        def interrupt() -> None:
            store.arrived.wait(60)
            eventually(main_thread_waits_for_the_ledger)
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            threading.Timer(0.05, store.go.set).start()

        threading.Thread(target=interrupt, daemon=True).start()
        with guard.task("interrupted"), pytest.raises(KeyboardInterrupt):
            guard.call("tool", {})
        call = only_call(guard)
        if slow is Open:
            assert (call.state, script.calls) == (CallState.REJECTED, [])
            with guard.task("again"):
                assert guard.call("tool", {}).success
        else:
            assert call.state is CallState.SUCCEEDED
