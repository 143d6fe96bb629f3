"""The writer's thread: groups, answers each caller once, outlives whatever happens to a group, and ends cleanly."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from fcguard.errors import StoreClosed, StoreError, StoreUnavailable
from fcguard.stores.gate import Gate
from fcguard.stores.writer import Writer
from fcguard.testing.store_contract import enter


class Commits:
    """Stands for a database: takes a group when it is let."""

    def __init__(self) -> None:
        self.groups: list[int] = []
        self.go = threading.Event()
        self.go.set()
        self.begun = threading.Event()
        self.error: BaseException | None = None
        self.stopped = 0

    def __call__(self, commands: Sequence[Any]) -> list[Any]:
        self.begun.set()
        assert self.go.wait(60)
        self.groups.append(len(commands))
        if self.error is not None:
            raise self.error
        return ["answer"] * len(commands)

    def stop(self) -> None:
        self.stopped += 1


class Waiting:
    """Collects a number of answers."""

    def __init__(self, count: int) -> None:
        self.answers: list[Any] = []
        self._left = threading.Semaphore(0)
        self._count = count

    def __call__(self, answer: Any) -> None:
        self.answers.append(answer)
        self._left.release()

    def all(self) -> list[Any]:
        for _ in range(self._count):
            assert self._left.acquire(timeout=60)
        return self.answers


@pytest.fixture
def commits() -> Commits:
    return Commits()


@pytest.fixture
def writer(commits: Commits) -> Iterator[Writer]:
    made = Writer(commits, commits.stop, name="test-writer", beat=lambda: None, interval=60.0, max_batch=8)
    yield made
    made.stop(60)


def test_what_waits_shares_one_commit(commits: Commits, writer: Writer) -> None:
    waiting = Waiting(21)
    commits.go.clear()
    writer.put(enter(0), waiting)
    assert commits.begun.wait(60)
    for number in range(1, 21):
        writer.put(enter(number), waiting)
    assert writer.waiting() == 20
    commits.go.set()
    assert waiting.all() == ["answer"] * 21
    assert commits.groups == [1, 8, 8, 4]


@pytest.mark.parametrize(
    ("error", "kind", "text"),
    [
        (StoreUnavailable("full"), StoreUnavailable, "full"),
        (ZeroDivisionError("bug"), StoreError, "ZeroDivisionError: bug"),
    ],
)
def test_a_group_that_fails_tells_each_caller(
    commits: Commits, writer: Writer, error: Exception, kind: type[StoreError], text: str
) -> None:
    commits.error = error
    waiting = Waiting(3)
    for number in range(3):
        writer.put(enter(number), waiting)
    answers = waiting.all()
    assert [type(answer) for answer in answers] == [kind] * 3
    assert len(set(map(id, answers))) == 3
    assert text in str(answers[0])
    commits.error = None
    again = Waiting(1)
    writer.put(enter(9), again)
    assert again.all() == ["answer"]


def test_jobs_run_in_their_turn_and_raise_in_the_caller(commits: Commits, writer: Writer) -> None:
    order: list[str] = []
    commits.go.clear()
    writer.put(enter(0), lambda answer: order.append("first"))
    assert commits.begun.wait(60)
    writer.put(enter(1), lambda answer: order.append("second"))
    results: list[Any] = []
    asking = threading.Thread(target=lambda: results.append(writer.run(lambda: (order.append("job"), 7)[1])))
    asking.start()
    while writer.waiting() < 2:
        pass
    commits.go.set()
    asking.join(60)
    assert (order, results) == (["first", "second", "job"], [7])
    with pytest.raises(ZeroDivisionError):
        writer.run(lambda: 1 // 0)
    assert writer.run(lambda: writer.run(lambda: 5)) == 5, "a job may run another one"


def test_after_the_end_everybody_is_told(commits: Commits) -> None:
    writer = Writer(commits, commits.stop, name="test-writer", beat=lambda: None, interval=60.0)
    waiting = Waiting(1)
    writer.put(enter(0), waiting)
    writer.stop()
    writer.stop()
    assert waiting.all() == ["answer"]
    assert commits.stopped == 1
    late = Waiting(1)
    writer.put(enter(1), late)
    assert isinstance(late.all()[0], StoreClosed)
    with pytest.raises(StoreClosed):
        writer.run(lambda: 1)


def test_a_job_may_stop_the_writer(commits: Commits) -> None:
    writer = Writer(commits, commits.stop, name="test-writer", beat=lambda: None, interval=60.0)
    writer.run(writer.stop)
    writer.stop()
    assert commits.stopped == 1


def test_beats_come_by_themselves_and_may_fail(commits: Commits, caplog: pytest.LogCaptureFixture) -> None:
    beats = threading.Semaphore(0)

    def beat() -> None:
        beats.release()
        raise RuntimeError("no pulse")

    writer = Writer(commits, commits.stop, name="test-writer", beat=beat, interval=0.01)
    for _ in range(3):
        assert beats.acquire(timeout=60)
    waiting = Waiting(1)
    writer.put(enter(0), waiting)
    assert waiting.all() == ["answer"]
    writer.stop()
    assert "heartbeat failed" in caplog.text


def test_a_shut_gate_lets_nobody_in_and_waits_for_those_inside() -> None:
    gate = Gate()
    shut, entered, leave = threading.Event(), threading.Event(), threading.Event()

    def inside() -> None:
        with gate:
            entered.set()
            leave.wait(60)

    def shutter() -> None:
        gate.shut()
        shut.set()

    first = threading.Thread(target=inside)
    first.start()
    assert entered.wait(60)
    second = threading.Thread(target=shutter)
    second.start()
    assert not shut.wait(0.05)
    leave.set()
    assert shut.wait(60)
    entered.clear()
    third = threading.Thread(target=inside)
    third.start()
    assert not entered.wait(0.05)
    gate.open()
    assert entered.wait(60)
    for thread in (first, second, third):
        thread.join()
