"""The two runtimes at their edges: what never suspends, loops that end too early, functions that end too late."""

from __future__ import annotations

import asyncio
import threading
import time
from contextvars import copy_context
from pathlib import Path
from typing import Any

import pytest

from fcguard import Applied, Guard, MemoryStore
from fcguard.errors import ColourError
from fcguard.model.attempt import Abandoned, NotEntered
from fcguard.runtime import _given_up, drive, drive_in_own_loop
from fcguard.waking import LAST_WORD
from fcguard.workers import Job, Workers
from tests.conftest import Hang, Mode, Script, add
from tests.ledger_reading import eventually, only_call


def test_a_coroutine_that_never_suspends_is_driven_to_its_end() -> None:
    async def answer() -> int:
        return 7

    async def fail() -> None:
        raise ValueError("x")

    assert drive(answer()) == 7
    with pytest.raises(ValueError, match="x"):
        drive(fail())


def test_a_coroutine_that_suspends_is_refused_and_closed() -> None:
    closed: list[bool] = []

    async def suspend() -> None:
        try:
            await asyncio.sleep(0)
        finally:
            closed.append(True)

    with pytest.raises(ColourError, match="acall"):
        drive(suspend())
    assert closed == [True]


class Interrupted(Workers):
    """Workers whose submitter is interrupted before the thread has begun."""

    def submit(self, job: Job, *, at_once: bool = False) -> None:
        self.job = job
        raise KeyboardInterrupt


def test_an_interrupt_before_the_loop_has_begun_keeps_it_from_beginning() -> None:
    ran: list[int] = []

    async def play() -> None:
        ran.append(1)

    workers = Interrupted()
    began = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        drive_in_own_loop(play, workers)
    assert time.monotonic() - began < LAST_WORD, "nothing runs that would have to record itself"
    one = Workers(1)
    one.submit(workers.job)
    ended_job(lambda: None, one)  # and so has the thread done with the one before
    assert ran == []


def ended_job(fn: Any, workers: Workers | None = None) -> Job:
    ended = threading.Event()
    job = Job(fn, copy_context(), lambda value, error: ended.set())
    (workers or Workers(1)).submit(job)
    assert ended.wait(60)
    return job


def test_a_job_that_ends_in_the_moment_it_is_given_up_has_its_say() -> None:
    def fail() -> None:
        raise KeyError("x")

    assert _given_up(ended_job(lambda: "in time"), 1.0, time.monotonic) == "in time"
    with pytest.raises(KeyError):
        _given_up(ended_job(fail), 1.0, time.monotonic)


def test_a_job_that_runs_is_abandoned_and_one_that_waits_was_never_entered() -> None:
    workers, release, entered = Workers(1), threading.Event(), threading.Event()

    def hold() -> None:
        entered.set()
        release.wait(60)

    jobs = [Job(hold, copy_context(), lambda value, error: None) for _ in range(2)]
    for job in jobs:
        workers.submit(job)
    assert entered.wait(60)
    with pytest.raises(NotEntered, match="not started"):
        _given_up(jobs[1], 1.0, time.monotonic)
    with pytest.raises(Abandoned, match="still runs"):
        _given_up(jobs[0], 1.0, time.monotonic)
    release.set()


@pytest.mark.parametrize("colour", ["async_from_sync", "sync_from_async"])
def test_a_machine_without_threads_refuses_in_every_colour(guard: Guard, monkeypatch: Any, colour: str) -> None:
    script = Script("never")
    add(guard, Mode(colour), script, retry=1)

    def start(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with guard.task("write"):
        monkeypatch.setattr(threading.Thread, "start", start)
        result = Mode(colour).call(guard, "tool", {})
        monkeypatch.undo()
    assert (result.error_type, result.effect, script.calls) == ("RESOURCE_EXHAUSTED", "not_applied", [])


def test_a_function_whose_loop_is_gone_ends_in_peace(tmp_path: Path) -> None:
    script = Script(Hang("late"), "next")
    with Guard(store=MemoryStore(), evidence_dir=tmp_path, worker_threads=1) as guard:
        add(guard, Mode("sync"), script)
        loop = asyncio.new_event_loop()
        loop.set_exception_handler(lambda *_: None)

        async def until_running() -> None:
            while not script.calls:
                await asyncio.sleep(0.001)

        with guard.task("gone"):
            task = loop.create_task(guard.acall("tool", {}))
            loop.run_until_complete(until_running())
        loop.close()
        script.release.set()
        with guard.task("next"):
            assert asyncio.run(guard.acall("tool", {"n": 2})).data == "next"
        coroutine = task.get_coro()
        del task
        coroutine.close()


def test_cancelling_while_a_confirmation_looks_leaves_the_write_uncertain(guard: Guard) -> None:
    looking, release = threading.Event(), threading.Event()

    def confirm(call: Any) -> Any:
        looking.set()
        release.wait(60)
        return Applied()

    add(guard, Mode("sync"), Script(TimeoutError()), confirm=confirm)

    async def play() -> None:
        task = asyncio.ensure_future(guard.acall("tool", {}))
        while not looking.is_set():
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with guard.task("cancel"):
        asyncio.run(play())
    release.set()
    call = only_call(guard)
    assert call.result["error_type"] == "UNCERTAIN_RESULT"
    assert call.state in ("UNCERTAIN", "PARKED")


def test_answers_of_the_ledger_wake_every_waiter_of_every_loop(tmp_path: Path) -> None:
    from fcguard import SQLiteStore

    with Guard(store=SQLiteStore(tmp_path / "ledger.db"), evidence_dir=tmp_path) as guard:
        add(guard, Mode("async"), Script("x"), effect="read")
        results: list[Any] = []

        async def play() -> None:
            calls = [asyncio.ensure_future(guard.acall("tool", {"n": n})) for n in range(60)]
            for call in calls[::3]:
                await asyncio.sleep(0)
                call.cancel()
            results.extend(await asyncio.gather(*calls, return_exceptions=True))

        threads = [threading.Thread(target=asyncio.run, args=(play(),)) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(120)
        assert len(results) == 180
        assert sum(not isinstance(result, BaseException) for result in results) >= 120
        eventually(lambda: sum(1 for _ in guard.store.calls()) >= 120)
