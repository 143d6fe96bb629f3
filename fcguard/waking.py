"""Tasks of an event loop that wait for the ledger: woken together, and patient for a while when they are cancelled."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, Final

__all__ = ["LAST_WORD", "Wakes", "answered"]

LAST_WORD: Final = 10.0
"""Seconds that an interrupted caller still waits for the ledger's answer, or for a cancelled coroutine to record itself."""

LAST_WORD_OF_TWO: Final = 3.0
"""The same for a caller that is cancelled again while it waits."""


class Wakes:
    """Wakes the waiting tasks of a loop together: one call into the loop for everything that ended meanwhile."""

    __slots__ = ("_due", "_lock")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._due: dict[Any, list[asyncio.Future[None]]] = {}

    def put(self, loop: asyncio.AbstractEventLoop, future: asyncio.Future[None]) -> None:
        """Let a loop resolve a future soon, together with the others that are put meanwhile. From any thread."""
        with self._lock:
            due = self._due.get(loop)
            if due is not None:
                due.append(future)
                return
            self._due[loop] = [future]
        try:
            loop.call_soon_threadsafe(self._flush, loop)
        except RuntimeError:  # the loop was closed: nobody waits any more
            with self._lock:
                self._due.pop(loop, None)

    def _flush(self, loop: asyncio.AbstractEventLoop) -> None:
        with self._lock:
            due = self._due.pop(loop, [])
        for future in due:
            if not future.done():
                future.set_result(None)


async def answered(answers: list[Any], waiting: list[Any]) -> None:
    """Suspend until there is an answer, or a word to say that there is none for long; cancellation waits for it, too."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()
    waiting[:] = loop, future
    if answers:
        return
    try:
        await future
    except asyncio.CancelledError:
        await _last_answer(answers, waiting, loop)
        raise


async def _last_answer(answers: list[Any], waiting: list[Any], loop: asyncio.AbstractEventLoop) -> None:
    """Wait for an answer although the caller is cancelled; who is cancelled again waits only a short while more.

    A scope of anyio cancels what is in it again at each turn of the loop.
    """
    began = loop.time()
    ends = began + LAST_WORD
    while loop.time() < ends:
        future: asyncio.Future[None] = loop.create_future()
        waiting[:] = loop, future
        if answers:
            return
        try:
            await asyncio.wait([future], timeout=ends - loop.time())
        except asyncio.CancelledError:
            ends = min(ends, began + LAST_WORD_OF_TWO)
