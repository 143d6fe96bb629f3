"""A daemon thread that does one job every so often, until it is told to stop."""

from __future__ import annotations

import threading
from collections.abc import Callable

__all__ = ["Background"]


class Background:
    """Runs a job at once and then again after each pause.

    Args:
        job: must not raise.
        interval: seconds between the end of one run and the begin of the next.
        name: name of the thread.
    """

    def __init__(self, job: Callable[[], None], interval: float, name: str) -> None:
        self._job, self._interval, self._name = job, interval, name
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._ending = threading.Event()

    def start(self) -> None:
        """Begin; does nothing if it runs already. A forked child has to start its own."""
        with self._lock:
            if self._thread is not None and self._thread.is_alive() and not self._ending.is_set():
                return
            self._ending = threading.Event()
            self._thread = threading.Thread(target=self._run, args=(self._ending,), name=self._name, daemon=True)
            self._thread.start()

    def stop(self, timeout: float | None) -> bool:
        """End it after the run that is going on; answer whether it has ended within `timeout` seconds (None: wait for it)."""
        with self._lock:
            thread = self._thread
            self._ending.set()
        if thread is None or thread is threading.current_thread():
            return thread is None
        thread.join(timeout)
        return not thread.is_alive()

    def _run(self, ending: threading.Event) -> None:
        while not ending.is_set():
            self._job()
            ending.wait(self._interval)
