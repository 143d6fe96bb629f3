"""A thread that renews what this process holds in a shared state, for as long as it holds anything."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from threading import Thread

from fcguard.constraints.state import new_lock

__all__ = ["Heartbeat"]


class Heartbeat:
    """Does a job every `interval` seconds in a daemon thread, which ends when there is nothing left to renew.

    It dies with the process, which is its purpose: what nobody renews lapses.

    Args:
        renew: the job; what it raises is taken as not reached, and it is tried again after the next pause.
        is_needed: whether there is anything to renew.
        interval: seconds between two runs.
        name: name of the thread.
    """

    __slots__ = ("_interval", "_is_needed", "_lock", "_name", "_pid", "_renew", "_thread")

    def __init__(self, renew: Callable[[], None], is_needed: Callable[[], bool], interval: float, name: str) -> None:
        self._renew, self._is_needed, self._interval, self._name = renew, is_needed, interval, name
        self._lock, self._pid = new_lock(), os.getpid()
        self._thread: Thread | None = None

    def start(self) -> None:
        """Begin, unless it runs; to be called after something was taken that has to be renewed.

        Raises:
            RuntimeError: the machine has no thread for it.
        """
        if self._pid != os.getpid():  # threads do not survive a fork, and the lock may have been held
            self._lock, self._thread, self._pid = new_lock(), None, os.getpid()
        with self._lock:
            if self._thread is None:
                thread = Thread(target=self._run, name=self._name, daemon=True)
                thread.start()
                self._thread = thread  # only now: one that could not start is tried again

    def _run(self) -> None:
        while True:
            time.sleep(self._interval)
            with self._lock:
                if not self._is_needed():
                    self._thread = None
                    return
            with suppress(Exception):
                self._renew()
