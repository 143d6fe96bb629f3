"""One thread that takes everything waiting and commits it together."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, TypeAlias

from fcguard.errors import StoreClosed, StoreError
from fcguard.stores.base import Answer, Command, Done

__all__ = ["Commit", "Writer"]

_log = logging.getLogger("fcguard.stores")

Commit: TypeAlias = Callable[[Sequence[Command]], Sequence[Answer | BaseException]]
"""Makes commands durable in one transaction and answers each; an exception fails them all."""

Job: TypeAlias = Callable[[], Any]


class Writer:
    """A daemon thread with a queue in front of it: group commit without any artificial delay.

    While one group is being committed the next one gathers, so a lone caller waits for one commit and many callers share it.

    Args:
        commit: runs on the thread.
        on_stop: runs on the thread at its end, to close what it used.
        name: name of the thread.
        beat: runs on the thread every `interval` seconds, about.
        interval: seconds.
        max_batch: most commands in one transaction.
    """

    def __init__(
        self,
        commit: Commit,
        on_stop: Callable[[], None],
        *,
        name: str,
        beat: Callable[[], None],
        interval: float,
        max_batch: int = 1024,
    ) -> None:
        self._commit, self._on_stop, self._max_batch = commit, on_stop, max_batch
        self._beat, self._interval, self._next_beat = beat, interval, time.monotonic() + interval
        self._queue: SimpleQueue[tuple[Command | Job | None, Done]] = SimpleQueue()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def put(self, command: Command, done: Done) -> None:
        """Queue a command; `done` is called from the thread."""
        self._queue.put((command, done))
        if self._stopped:
            self.drop(StoreClosed("the ledger was closed before the command reached it"))

    def waiting(self) -> int:
        """Answer how many commands are queued, about."""
        return self._queue.qsize()

    def run(self, job: Job) -> Any:
        """Run a function on the thread, after everything queued before it, and answer what it returns or raise what it raises."""
        if threading.current_thread() is self._thread:
            return job()
        finished = threading.Event()
        outcome: list[Any] = []

        def done(answer: Any) -> None:
            outcome.append(answer)
            finished.set()

        self._queue.put((job, done))
        if self._stopped:
            self.drop(StoreClosed("the ledger was closed before the command reached it"))
        finished.wait()
        if isinstance(outcome[0], BaseException):
            raise outcome[0]
        return outcome[0]

    def stop(self, timeout: float | None = None) -> None:
        """Finish what is queued and end the thread; waits `timeout` seconds, None: until it ended."""
        self.end()
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout)

    def end(self) -> None:
        """Let the thread finish what is queued and end; does not wait."""
        self._queue.put((None, _ignore))

    def drop(self, error: BaseException) -> None:
        """Answer everything that is still queued with `error`."""
        while True:
            try:
                _, done = self._queue.get_nowait()
            except Empty:
                return
            _call(done, error)

    def _run(self) -> None:
        going = True
        while going:
            with suppress(Empty):
                going = self._step()
            if time.monotonic() >= self._next_beat:
                self._next_beat = time.monotonic() + self._interval
                _guarded(self._beat)
        self._stopped = True
        self.drop(StoreClosed("the ledger was closed before the command reached it"))
        self._on_stop()

    def _step(self) -> bool:
        """Take what is queued, up to the first job; answer whether to go on. Raises `Empty` when it is time for a beat."""
        commands: list[Command] = []
        waiting: list[Done] = []
        item, done = self._queue.get(timeout=max(0.0, self._next_beat - time.monotonic()))
        while item is not None and not callable(item):
            commands.append(item)
            waiting.append(done)
            if len(commands) >= self._max_batch:
                break
            try:
                item, done = self._queue.get_nowait()
            except Empty:
                break
        if commands:
            self._answer(commands, waiting)
        if callable(item):
            self._do(item, done)
        return item is not None

    def _answer(self, commands: list[Command], waiting: list[Done]) -> None:
        try:
            answers = self._commit(commands)
        except StoreError as error:
            answers = [_again(error) for _ in commands]
        except Exception as error:  # whatever it is, every caller gets an answer and the thread lives on
            _log.exception("the ledger's writer failed")
            answers = [
                _again(StoreError(f"the ledger's writer failed: {type(error).__name__}: {error}")) for _ in commands
            ]
        for done, answer in zip(waiting, answers, strict=True):
            _call(done, answer)

    def _do(self, job: Job, done: Done) -> None:
        try:
            answer = job()
        except BaseException as error:  # raised again in the thread that waits
            answer = error
        _call(done, answer)


def _again(error: StoreError) -> StoreError:
    # Several threads will raise it: one traceback each.
    copy = type(error)(*error.args)
    copy.__cause__ = error.__cause__
    return copy


def _guarded(beat: Callable[[], None]) -> None:
    try:
        beat()
    except Exception:  # the next beat may succeed; commands get their own errors
        _log.warning("the ledger's heartbeat failed", exc_info=True)


def _ignore(answer: Any) -> None:
    pass


def _call(done: Done, answer: Any) -> None:
    try:
        done(answer)
    except Exception:
        # The record is safe either way; a broken callback of one caller must not stop the others.
        _log.exception("a caller's callback failed; its record has been handled")
