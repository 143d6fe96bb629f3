"""The two implementations of the IO port: blocking, driven by a single send, and on asyncio."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from inspect import isasyncgen, isawaitable, isgenerator
from itertools import islice
from typing import Any, TypeVar

from fcguard.config import is_coroutine_callable
from fcguard.errors import ColourError
from fcguard.io import Clock
from fcguard.model.call import CURRENT, Abandoned, Attempt, Call, CallInfo
from fcguard.model.evidence import Evidence
from fcguard.model.frozen import thaw
from fcguard.stores.base import Command, Store
from fcguard.telemetry.propagate import with_headers
from fcguard.workers import Workers

__all__ = ["AsyncioIO", "BlockingIO", "SystemClock", "drive", "drive_in_own_loop"]

T = TypeVar("T")
Keep = Callable[..., Evidence]


def drive(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine that never suspends (one driven by `BlockingIO`) to its end with a single send."""
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value  # type: ignore[no-any-return]
    coroutine.close()
    raise ColourError("something asynchronous was awaited in a blocking call; use guard.acall(...) or an async tool")


def drive_in_own_loop(make: Callable[[], Coroutine[Any, Any, T]], workers: Workers) -> T:
    """Run a coroutine on an event loop of its own in a worker thread, for an async tool that sync code calls.

    The thread gets the caller's context variables. An interrupt cancels the coroutine and waits until it has recorded itself.
    """
    ended = threading.Event()
    outcome: list[Any] = [None, None]
    running: list[Any] = []

    def deliver(value: Any, error: BaseException | None) -> None:
        outcome[:] = value, error
        ended.set()

    async def main() -> T:
        running[:] = asyncio.get_running_loop(), asyncio.current_task()
        return await make()

    workers.submit(lambda: asyncio.run(main()), copy_context(), deliver)
    try:
        ended.wait()
    except BaseException:
        if running:
            loop, task = running
            loop.call_soon_threadsafe(task.cancel)
            ended.wait(30)
        raise
    if outcome[1] is not None:
        raise outcome[1]
    return outcome[0]  # type: ignore[no-any-return]


class SystemClock:
    """The machine's clocks."""

    __slots__ = ()
    now = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic)
    sleep = staticmethod(time.sleep)
    asleep = staticmethod(asyncio.sleep)


class _Base:
    __slots__ = ("_clock", "_keep", "_workers", "monotonic", "now")

    def __init__(self, workers: Workers, keep: Keep, clock: Clock) -> None:
        self._workers, self._keep, self._clock = workers, keep, clock
        self.now, self.monotonic = clock.now, clock.monotonic

    def _info(self, call: Call, attempt: Attempt) -> CallInfo:
        return CallInfo(call, attempt, self.monotonic, self._keep, with_headers)


def _arguments(call: Call, info: CallInfo) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Build what the function receives: a deep copy of the frozen arguments, converted where annotations promise more."""
    prepared = call.prepared
    keywords = thaw(call.arguments)
    if prepared.convert is not None:
        keywords = prepared.convert(keywords)
    if prepared.info_parameter is not None:
        keywords[prepared.info_parameter] = info
    key_parameter = prepared.tool.idempotency_key
    if key_parameter.__class__ is str:
        keywords[key_parameter] = call.idempotency_key
    args = tuple(keywords.pop(name) for name in prepared.positional if name in keywords) if prepared.positional else ()
    return ((call.receiver, *args) if prepared.takes_receiver else args), keywords


def _consume(call: Call, value: Any) -> Any:
    """Read a generator up to the tool's limit; the rest is dropped, and said to be."""
    if not isgenerator(value):
        return value
    limit = call.prepared.tool.max_items
    with_one_more = list(islice(value, None if limit is None else limit + 1))
    value.close()
    return _cut(call, with_one_more, limit)


def _cut(call: Call, items: list[Any], limit: int | None) -> list[Any]:
    if limit is not None and len(items) > limit:
        call.flag("truncated")
        return items[:limit]
    return items


class BlockingIO(_Base):
    """Awaits nothing that suspends: every method does its work before it returns.

    An async tool or collaborator runs on an event loop of its own, in a worker thread.
    """

    __slots__ = ("_aio",)

    def __init__(self, workers: Workers, keep: Keep, clock: Clock, aio: AsyncioIO) -> None:
        super().__init__(workers, keep, clock)
        self._aio = aio

    async def call(self, fn: Callable[..., Any], *args: Any) -> Any:
        """Run a collaborator here."""
        value = fn(*args)
        return drive_in_own_loop(lambda: _awaited(value), self._workers) if isawaitable(value) else value

    async def sleep(self, seconds: float) -> None:
        """Block this thread."""
        self._clock.sleep(seconds)

    async def invoke(self, call: Call, attempt: Attempt, timeout: float | None) -> Any:
        """Run the tool inline without a timeout, in a worker thread with one."""
        if call.prepared.is_async:
            return drive_in_own_loop(lambda: self._aio.invoke(call, attempt, timeout), self._workers)
        info = self._info(call, attempt)
        fn = call.prepared.tool.fn
        token = CURRENT.set(info)
        try:
            args, keywords = _arguments(call, info)
            if timeout is None:
                value = fn(*args, **keywords)
                return _consume(call, value) if call.prepared.is_generator else value
            return self._in_thread(lambda: _consume(call, fn(*args, **keywords)), attempt, timeout)
        finally:
            CURRENT.reset(token)

    def _in_thread(self, fn: Callable[[], Any], attempt: Attempt, timeout: float) -> Any:
        ended = threading.Event()
        outcome: list[Any] = [None, None]

        def deliver(value: Any, error: BaseException | None) -> None:
            outcome[:] = value, error
            ended.set()

        job = self._workers.submit(fn, copy_context(), deliver)
        try:
            is_over = ended.wait(timeout)
        except BaseException:
            attempt.late = job.abandon()
            attempt.was_dispatched = attempt.late is not None
            raise
        if not is_over and not ended.is_set():
            late = job.abandon()
            if not ended.is_set():
                raise _gave_up(attempt, timeout, late)
        if outcome[1] is not None:
            raise outcome[1]
        return outcome[0]

    async def commit(self, store: Store, command: Command) -> Any:
        """Hand a command to the ledger and block until it is durable."""
        answers: list[Any] = []
        if getattr(store, "answers_inline", False):
            store.submit(command, answers.append)
            return _open_answer(answers[0])
        waiting = threading.Lock()
        waiting.acquire()

        def done(answer: Any) -> None:
            answers.append(answer)
            waiting.release()

        store.submit(command, done)
        if not answers:
            waiting.acquire()
        return _open_answer(answers[0])


async def _awaited(value: Any) -> Any:
    return await value


def _gave_up(attempt: Attempt, timeout: float, late: Any) -> BaseException:
    if late is None:
        attempt.was_dispatched = False
        return NeverStarted(timeout)
    return Abandoned(timeout, late)


class NeverStarted(TimeoutError):
    """The time was over before a worker thread was free: the function was never entered."""

    def __init__(self, timeout: float) -> None:
        super().__init__(f"no worker thread was free within {timeout:g} s; the function was not started")


def _open_answer(answer: Any) -> Any:
    if isinstance(answer, BaseException):
        raise answer
    return answer


class AsyncioIO(_Base):
    """Runs on the running event loop; sync tools go to worker threads unless they are declared inline."""

    __slots__ = ("_wakes",)

    def __init__(self, workers: Workers, keep: Keep, clock: Clock) -> None:
        super().__init__(workers, keep, clock)
        self._wakes = _Wakes()

    async def call(self, fn: Callable[..., Any], *args: Any) -> Any:
        """Run a collaborator: an async one here, a sync one in a worker thread."""
        if not is_coroutine_callable(fn):
            return await self._thread(lambda: fn(*args), None, None)
        value = fn(*args)
        return await value if isawaitable(value) else value

    async def sleep(self, seconds: float) -> None:
        """Suspend this task."""
        await self._clock.asleep(seconds)

    async def invoke(self, call: Call, attempt: Attempt, timeout: float | None) -> Any:
        """Await an async tool, cancelling it at its timeout; run a sync one in a worker thread."""
        prepared = call.prepared
        info = self._info(call, attempt)
        fn = prepared.tool.fn
        token = CURRENT.set(info)
        try:
            args, keywords = _arguments(call, info)
            if prepared.is_async:
                if timeout is None:
                    return await self._await(call, fn(*args, **keywords))
                return await self._within(call, fn(*args, **keywords), timeout)
            if prepared.tool.inline and timeout is None:
                return _consume(call, fn(*args, **keywords))
            return await self._thread(lambda: _consume(call, fn(*args, **keywords)), attempt, timeout)
        finally:
            CURRENT.reset(token)

    async def _await(self, call: Call, value: Any) -> Any:
        if not isasyncgen(value):
            return await value if isawaitable(value) else _consume(call, value)
        limit = call.prepared.tool.max_items
        items: list[Any] = []
        try:
            async for item in value:
                items.append(item)
                if limit is not None and len(items) > limit:
                    break
        finally:
            await value.aclose()
        return _cut(call, items, limit)

    async def _within(self, call: Call, value: Any, timeout: float) -> Any:
        try:
            async with asyncio.timeout(timeout) as scope:
                return await self._await(call, value)
        except TimeoutError:
            if scope.expired():
                raise TimedOut(timeout) from None
            raise

    async def _thread(self, fn: Callable[[], Any], attempt: Attempt | None, timeout: float | None) -> Any:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Any] = loop.create_future()

        def deliver(value: Any, error: BaseException | None) -> None:
            try:
                loop.call_soon_threadsafe(_resolve, future, value, error)
            except RuntimeError:  # the loop was closed while the function ran: nobody waits any more
                return

        job = self._workers.submit(fn, copy_context(), deliver)
        try:
            if timeout is None:
                return await future
            async with asyncio.timeout(timeout) as scope:
                return await future
        except TimeoutError:
            if timeout is None or not scope.expired():
                raise
            late = job.abandon()
            if attempt is None:
                raise
            raise _gave_up(attempt, timeout, late) from None
        except asyncio.CancelledError:
            late = job.abandon()
            if attempt is not None:
                attempt.late, attempt.was_dispatched = late, late is not None
            raise

    async def commit(self, store: Store, command: Command) -> Any:
        """Hand a command to the ledger and suspend until it is durable."""
        answers: list[Any] = []
        if getattr(store, "answers_inline", False):
            store.submit(command, answers.append)
            return _open_answer(answers[0])
        waiting: list[Any] = []

        def done(answer: Any) -> None:
            answers.append(answer)
            if waiting:
                self._wakes.put(*waiting)

        store.submit(command, done)
        if not answers:
            loop = asyncio.get_running_loop()
            future: asyncio.Future[None] = loop.create_future()
            waiting[:] = loop, future
            if not answers:
                await future
        return _open_answer(answers[0])


class _Wakes:
    """Wakes the waiting tasks of a loop together: one call into the loop for everything that ended meanwhile."""

    __slots__ = ("_due", "_lock")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._due: dict[Any, list[asyncio.Future[None]]] = {}

    def put(self, loop: asyncio.AbstractEventLoop, future: asyncio.Future[None]) -> None:
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


class TimedOut(TimeoutError):
    """The time was over and the async tool was cancelled."""

    def __init__(self, timeout: float) -> None:
        super().__init__(f"no answer within {timeout:g} s; the function was cancelled")


def _resolve(future: asyncio.Future[Any], value: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(value)
    elif isinstance(error, StopIteration):  # a future refuses it
        future.set_exception(RuntimeError("the function raised StopIteration"))
    else:
        future.set_exception(error)
