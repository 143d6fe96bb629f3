"""Worker threads: reused, limited, left behind, and never in each other's way."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextvars import copy_context
from typing import Any

import pytest

from fcguard.model.attempt import Late
from fcguard.workers import Job, NoThread, Workers
from tests.ledger_reading import eventually


class Outcome:
    """Where a job's outcome is delivered to."""

    def __init__(self) -> None:
        self.ended = threading.Event()
        self.value: Any = None
        self.error: BaseException | None = None

    def deliver(self, value: Any, error: BaseException | None) -> None:
        self.value, self.error = value, error
        self.ended.set()

    def wait(self) -> Any:
        assert self.ended.wait(60)
        if self.error is not None:
            raise self.error
        return self.value


def start(workers: Workers, fn: Callable[[], Any], **options: Any) -> tuple[Job, Outcome]:
    outcome = Outcome()
    job = Job(fn, copy_context(), outcome.deliver)
    workers.submit(job, **options)
    return job, outcome


def run(workers: Workers, fn: Callable[[], Any]) -> Any:
    return start(workers, fn)[1].wait()


class Gate:
    """A function that waits at a gate."""

    def __init__(self, value: Any = None) -> None:
        self.value = value
        self.entered, self.open = threading.Event(), threading.Event()

    def __call__(self) -> Any:
        self.entered.set()
        assert self.open.wait(60)
        if isinstance(self.value, BaseException):
            raise self.value
        return self.value


def test_an_idle_thread_is_used_again() -> None:
    workers = Workers(4)
    first = run(workers, threading.get_ident)
    eventually(lambda: workers._idle == 1)
    assert [run_idle(workers) for _ in range(20)] == [first] * 20


def run_idle(workers: Workers) -> Any:
    eventually(lambda: workers._idle == 1)
    return run(workers, threading.get_ident)


def test_values_and_errors_come_back() -> None:
    workers = Workers()
    assert run(workers, lambda: 7) == 7
    for error in (ValueError("x"), KeyboardInterrupt(), StopIteration(1)):
        with pytest.raises(type(error)):
            run(workers, Gate_(error))


def Gate_(error: BaseException) -> Callable[[], Any]:
    def fail() -> Any:
        raise error

    return fail


def test_no_more_threads_than_the_limit() -> None:
    workers = Workers(3)
    gates = [Gate(n) for n in range(9)]
    jobs = [start(workers, gate)[1] for gate in gates]
    for gate in gates[:3]:
        assert gate.entered.wait(60)
    assert not any(gate.entered.is_set() for gate in gates[3:])
    for gate in gates:
        gate.open.set()
    assert [job.wait() for job in jobs] == list(range(9))


def test_jobs_are_taken_in_order() -> None:
    workers, order = Workers(1), []
    gate = Gate()
    first = start(workers, gate)[1]
    rest = [start(workers, lambda n=n: order.append(n))[1] for n in range(10)]
    gate.open.set()
    for job in (first, *rest):
        job.wait()
    assert order == list(range(10))


def test_an_abandoned_thread_is_not_counted_and_its_outcome_comes_late() -> None:
    workers, gate = Workers(1), Gate("late")
    job, outcome = start(workers, gate)
    assert gate.entered.wait(60)
    waiting = start(workers, lambda: "next")[1]
    late = job.abandon()
    assert waiting.wait() == "next"
    assert late is not None
    assert late.is_running
    assert job.abandon() is late
    heard: list[Late] = []
    late.on_end(heard.append)
    gate.open.set()
    eventually(lambda: bool(heard))
    assert (late.is_running, late.has_value, late.value, heard) == (False, True, "late", [late])
    assert not outcome.ended.is_set()
    late.on_end(heard.append)
    assert heard == [late, late]


def test_an_abandoned_failure_comes_late_too() -> None:
    workers, gate = Workers(1), Gate(ValueError("late"))
    job, _ = start(workers, gate)
    assert gate.entered.wait(60)
    late = job.abandon()
    gate.open.set()
    assert late is not None
    eventually(lambda: not late.is_running)
    assert isinstance(late.error, ValueError)
    assert not late.has_value


def test_a_job_that_is_dropped_before_it_began_never_begins() -> None:
    workers, gate, ran = Workers(1), Gate(), []
    first = start(workers, gate)[1]
    job, outcome = start(workers, lambda: ran.append(1))
    assert job.abandon() is None
    assert job.abandon() is None
    gate.open.set()
    first.wait()
    assert run(workers, lambda: "after") == "after"
    assert (ran, outcome.ended.is_set()) == ([], False)


@pytest.mark.parametrize("error", [None, ValueError("x")])
def test_a_job_that_has_just_ended_has_its_say(error: BaseException | None) -> None:
    workers = Workers(1)
    job, outcome = start(workers, (lambda: "in time") if error is None else Gate_(error))
    assert outcome.ended.wait(60)
    late = job.abandon()
    assert late is not None
    assert (late.is_running, late.value, late.error) == (False, None if error else "in time", error)


def test_jobs_that_wait_for_jobs_do_not_wait_for_ever() -> None:
    workers = Workers(1)

    def nested(depth: int) -> Any:
        return "leaf" if depth == 0 else run(workers, lambda: nested(depth - 1))

    assert run(workers, lambda: nested(20)) == "leaf"
    eventually(lambda: 0 <= workers._live <= 1)
    assert run(workers, lambda: "after") == "after"


def test_a_waiting_job_makes_room_for_one_thread_only() -> None:
    workers = Workers(1)
    gates = [Gate(n) for n in range(3)]

    def parent() -> list[Any]:
        jobs = [start(workers, gate)[1] for gate in gates]
        assert gates[0].entered.wait(60)
        assert not gates[1].entered.is_set()
        for gate in gates:
            gate.open.set()
        return [job.wait() for job in jobs]

    assert run(workers, parent) == [0, 1, 2]


def test_a_job_that_leaves_its_own_job_behind_is_counted_right() -> None:
    workers, gate = Workers(1), Gate()

    def parent() -> str:
        job, _ = start(workers, gate)
        assert gate.entered.wait(60)
        assert job.abandon() is not None
        return "left"

    assert run(workers, parent) == "left"
    assert run(workers, lambda: "after") == "after"
    gate.open.set()
    eventually(lambda: 0 <= workers._live <= 1)


def test_a_job_at_once_does_not_count() -> None:
    workers, gate, busy = Workers(1), Gate("own"), Gate("busy")
    first = start(workers, busy)[1]
    assert busy.entered.wait(60)
    own = start(workers, gate, at_once=True)[1]
    assert gate.entered.wait(60)
    busy.open.set()
    assert first.wait() == "busy"
    assert run(workers, lambda: "counted") == "counted"
    gate.open.set()
    assert own.wait() == "own"


def test_an_idle_thread_ends_after_a_while() -> None:
    workers = Workers(2, idle_seconds=0.01)
    thread = run(workers, threading.current_thread)
    thread.join(60)
    assert (thread.is_alive(), workers._live, workers._idle) == (False, 0, 0)
    assert run(workers, lambda: "again") == "again"


def test_without_a_thread_nothing_is_entered(monkeypatch: Any) -> None:
    workers, ran = Workers(2), []

    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        for at_once in (False, True):
            with pytest.raises(NoThread, match="can't start"):
                start(workers, lambda: ran.append(1), at_once=at_once)
    assert run(workers, lambda: "again") == "again"
    assert (ran, workers._live) == ([], 1)


def test_without_a_second_thread_a_job_waits_for_the_first(monkeypatch: Any) -> None:
    workers, gate = Workers(2), Gate("first")
    first = start(workers, gate)[1]
    assert gate.entered.wait(60)

    def refuse(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        second = start(workers, lambda: "second")[1]
    gate.open.set()
    assert (first.wait(), second.wait()) == ("first", "second")


def test_threads_are_daemons_so_that_the_program_can_end() -> None:
    assert run(Workers(), lambda: threading.current_thread().daemon)
