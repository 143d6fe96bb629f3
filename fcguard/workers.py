"""Daemon threads for tools that may have to be left behind; a thread that is abandoned never blocks the next call."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from contextvars import Context
from typing import Any

from fcguard.model.call import Late

__all__ = ["Job", "Workers"]

Deliver = Callable[[Any, BaseException | None], None]


class Job:
    """One function call on a worker thread.

    Its outcome goes to `deliver`, or, once `abandon` was called, to the `Late` that `abandon` answered.
    """

    __slots__ = ("_context", "_deliver", "_fn", "_late", "_lock", "_state", "workers")

    def __init__(self, fn: Callable[[], Any], context: Context, deliver: Deliver, workers: Workers) -> None:
        self._fn, self._context, self._deliver, self.workers = fn, context, deliver, workers
        self._lock = threading.Lock()
        self._state = "queued"
        self._late: Late | None = None

    def run(self) -> bool:
        """Run the function; answer whether the job was abandoned meanwhile."""
        with self._lock:
            if self._state != "queued":
                return False
            self._state = "running"
        value, error = None, None
        try:
            value = self._context.run(self._fn)
        except BaseException as raised:
            error = raised
        with self._lock:
            is_abandoned = self._state == "abandoned"
            self._state = "done"
        if not is_abandoned:
            self._deliver(value, error)
        elif self._late is not None:
            self._late.returned(value) if error is None else self._late.raised(error)
        return is_abandoned

    def abandon(self) -> Late | None:
        """Give up waiting.

        Returns:
            Where the outcome will appear; None if the function was never entered, and now never will be.
        """
        with self._lock:
            if self._state == "queued":
                self._state = "dropped"
                return None
            if self._state == "done":  # it ended in this very moment: the outcome is known, only nobody waited for it
                self._late = self._late or Late()
                return self._late
            self._state = "abandoned"
            self._late = Late()
        self.workers.leave_behind()
        return self._late


class Workers:
    """A pool of daemon threads that grows on demand.

    Args:
        limit: most threads that may run at once, abandoned ones not counted; further jobs queue.
        idle_seconds: how long an idle thread is kept.
    """

    def __init__(self, limit: int = 128, idle_seconds: float = 30.0) -> None:
        self._limit, self._idle_seconds = limit, idle_seconds
        self._reset()

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._changed = threading.Condition()
        self._queue: deque[Job] = deque()
        self._idle = 0
        self._live = 0

    def submit(self, fn: Callable[[], Any], context: Context, deliver: Deliver) -> Job:
        """Have a function run in a thread under a copied context; `deliver(value, error)` is called in that thread."""
        if os.getpid() != self._pid:
            self._reset()  # threads do not survive a fork
        job = Job(fn, context, deliver, self)
        with self._changed:
            self._queue.append(job)
            if self._idle >= len(self._queue):
                self._changed.notify()
            elif self._live < self._limit:
                self._spawn()
        return job

    def leave_behind(self) -> None:
        """Stop counting a thread that runs an abandoned function, so that another can take its place."""
        with self._changed:
            self._live -= 1
            if self._queue and self._live < self._limit:
                self._spawn()

    def _spawn(self) -> None:
        self._live += 1
        threading.Thread(target=self._work, name="fcguard-tool", daemon=True).start()

    def _work(self) -> None:
        while True:
            with self._changed:
                if not self._queue:
                    self._idle += 1
                    self._changed.wait(self._idle_seconds)
                    self._idle -= 1
                    if not self._queue:
                        self._live -= 1
                        return
                job = self._queue.popleft()
            if job.run():
                return  # this thread was left behind and is not counted any more
            del job
