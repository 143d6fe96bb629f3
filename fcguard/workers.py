"""Daemon threads for tools that may have to be left behind; a thread that is abandoned never blocks the next call."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context
from typing import Any

from fcguard.model.attempt import Late

__all__ = ["Job", "NoThread", "Workers"]

Deliver = Callable[[Any, BaseException | None], None]


class NoThread(RuntimeError):
    """The machine has no thread for a job; it was not entered and will not be."""


class Job:
    """One function call on a worker thread.

    Its outcome goes to `deliver`, or, once `abandon` was called, to the `Late` that `abandon` answered.

    Args:
        fn: the function.
        context: a copied context to run it in.
        deliver: gets `(value, error)`, in the worker's thread.
    """

    __slots__ = ("_context", "_deliver", "_fn", "_late", "_lock", "_outcome", "_state", "submitter", "worker")

    def __init__(self, fn: Callable[[], Any], context: Context, deliver: Deliver) -> None:
        self._fn, self._context, self._deliver = fn, context, deliver
        self.submitter: _Worker | None = None
        self.worker: _Worker | None = None
        self._lock = threading.Lock()
        self._state = "queued"
        self._outcome: tuple[Any, BaseException | None] = (None, None)
        self._late: Late | None = None

    def run(self, worker: _Worker) -> None:
        """Run the function, unless the job was abandoned before."""
        with self._lock:
            if self._state != "queued":
                return
            self._state, self.worker = "running", worker
        value, error = None, None
        try:
            value = self._context.run(self._fn)
        except BaseException as raised:
            error = raised
        with self._lock:
            is_abandoned = self._state == "abandoned"
            self._state, self._outcome = "done", (value, error)
        if is_abandoned:
            assert self._late is not None
            _end(self._late, value, error)
        else:
            self._end_wait()
            self._deliver(value, error)

    def abandon(self, monotonic: Callable[[], float] | None = None) -> Late | None:
        """Give up waiting.

        Args:
            monotonic: the clock that the caller measures by, for the moment at which the function ends; None: not wanted.

        Returns:
            Where the outcome will appear, or has appeared if it ended in this very moment; None if the function was never
            entered, and now never will be.
        """
        late = Late(monotonic)
        with self._lock:
            state = self._state
            if state == "queued":
                self._state = "dropped"
            elif state == "running":
                self._state, self._late = "abandoned", late
        if state == "done":
            _end(late, *self._outcome)
            return late
        if state != "running":  # not entered, or given up before
            self._end_wait()
            return self._late
        self._end_wait()
        assert self.worker is not None
        self.worker.leave_behind()
        return late

    def _end_wait(self) -> None:
        submitter, self.submitter = self.submitter, None
        if submitter is not None:
            submitter.wait(-1)


def _end(late: Late, value: Any, error: BaseException | None) -> None:
    late.returned(value) if error is None else late.raised(error)


class _Worker:
    """One thread of a pool.

    Attributes:
        pool: the pool it belongs to.
        waits_for: jobs that its own job submitted, to any pool, and that have not ended.
        is_outside: whether it is not counted whatever it does: left behind, or made for one job.
    """

    __slots__ = ("is_outside", "pool", "waits_for")

    def __init__(self, pool: Workers, *, is_outside: bool = False) -> None:
        self.pool, self.is_outside, self.waits_for = pool, is_outside, 0

    @property
    def is_counted(self) -> bool:
        return not self.is_outside and not self.waits_for

    def wait(self, jobs: int) -> None:
        """Wait for so many jobs more, or fewer."""
        self.pool.count(self, waits=jobs)

    def leave_behind(self) -> None:
        """Stop counting the thread, so that another can take its place."""
        self.pool.count(self, is_left=True)


class _Here(threading.local):
    worker: _Worker | None = None


_here = _Here()


class Workers:
    """A pool of daemon threads that grows on demand.

    A thread whose job waits for other jobs is not counted meanwhile, so jobs that wait for each other never wait for ever.

    Args:
        limit: most threads that may run at once, abandoned and waiting ones not counted; further jobs queue.
        idle_seconds: how long an idle thread is kept.
    """

    def __init__(self, limit: int = 128, idle_seconds: float = 30.0) -> None:
        self._limit, self._idle_seconds = limit, idle_seconds
        self._reset()

    def _reset(self) -> None:
        self._is_closing = False
        self._pid = os.getpid()
        self._changed = threading.Condition()
        self._queue: deque[Job] = deque()
        self._idle = 0
        self._live = 0

    def release(self) -> None:
        """End the threads that are idle; a later job starts new ones."""
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()

    def submit(self, job: Job, *, at_once: bool = False) -> None:
        """Have a job run in a thread.

        Args:
            job: a job that was not submitted yet.
            at_once: run it in a thread of its own that is not counted, instead of queueing.

        Raises:
            NoThread: the machine has no thread for it; the function was not entered and will not be.
        """
        if os.getpid() != self._pid:  # threads do not survive a fork
            self._reset()
            _here.worker = None
        submitter = _here.worker
        if submitter is not None:
            job.submitter = submitter
            submitter.wait(1)
        try:
            if at_once:
                self._start(job, _Worker(self, is_outside=True))
            else:
                self._enqueue(job)
        except RuntimeError as error:
            job.abandon()
            raise NoThread(str(error)) from error

    def _enqueue(self, job: Job) -> None:
        with self._changed:
            self._queue.append(job)
            if self._idle >= len(self._queue):
                self._changed.notify()
                return
            try:
                self._grow()
            except RuntimeError:
                if self._live == 0:  # else it waits for the next thread that becomes free
                    self._queue.remove(job)
                    raise

    def count(self, worker: _Worker, *, waits: int = 0, is_left: bool = False) -> None:
        """Take note of what a thread does; if that makes room, another one takes the next job of the queue."""
        if os.getpid() != self._pid:
            return
        with self._changed:
            before = worker.is_counted
            worker.waits_for += waits
            worker.is_outside = worker.is_outside or is_left
            self._live += worker.is_counted - before
            if self._idle < len(self._queue):
                with suppress(RuntimeError):
                    self._grow()

    def _grow(self) -> None:
        """Start a thread for the first job in the queue, if the limit allows it."""
        if not self._queue or self._live >= self._limit:
            return
        self._start(self._queue[0], _Worker(self))
        self._queue.popleft()
        self._live += 1

    def _start(self, job: Job, worker: _Worker) -> None:
        threading.Thread(target=self._work, args=(job, worker), name="fcguard-tool", daemon=True).start()

    def _work(self, first: Job, worker: _Worker) -> None:
        _here.worker = worker
        job: Job | None = first
        del first
        while job is not None:
            job.run(worker)
            job = None  # an idle thread holds on to nothing
            job = self._next(worker)

    def _next(self, worker: _Worker) -> Job | None:
        """Wait for a job; None: this thread is not counted, one too many, or has been idle for long, and ends."""
        with self._changed:
            if worker.is_counted and self._live <= self._limit and not self._queue:
                self._idle += 1
                self._changed.wait_for(lambda: self._queue or self._is_closing, self._idle_seconds)
                self._idle -= 1
            if worker.is_counted and self._live <= self._limit and self._queue:
                return self._queue.popleft()
            self._live -= worker.is_counted
            worker.is_outside = True
            return None
