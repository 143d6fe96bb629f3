"""The two implementations of the IO port: blocking, driven by a single send, and on asyncio."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import copy_context
from inspect import isasyncgen, isawaitable
from typing import Any, TypeVar

from fcguard.config import is_coroutine_callable
from fcguard.errors import ColourError
from fcguard.invocation import consume, cut, enter, limit_of, prepare_arguments
from fcguard.io import Clock
from fcguard.ledger_metrics import Written
from fcguard.model.attempt import Abandoned, Attempt, NotEntered
from fcguard.model.call import Call
from fcguard.model.call_info import CURRENT, CallInfo
from fcguard.model.evidence import Evidence
from fcguard.model.failure import ErrorType
from fcguard.stores.base import Command, Store
from fcguard.telemetry.propagate import with_headers
from fcguard.waking import LAST_WORD, Wakes, answered
from fcguard.workers import Job, NoThread, Workers

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
    value: list[T] = []
    running: list[Any] = []
    stopped: list[bool] = []

    def deliver(value: Any, error: BaseException | None) -> None:
        outcome[:] = value, error
        ended.set()

    async def main() -> BaseException | None:
        running[:] = asyncio.get_running_loop(), asyncio.current_task()
        try:
            if stopped:
                raise asyncio.CancelledError
            value.append(await make())
        except (
            BaseException
        ) as error:  # as a value: asyncio looks into what a task raises, and would never end over some
            return error
        return None

    def run() -> T:
        error = asyncio.run(main())
        if error is not None:
            raise error
        return value[0]

    job = Job(run, copy_context(), deliver)
    try:
        workers.submit(job, at_once=True)
        ended.wait()
    except NoThread:
        raise
    except BaseException:
        stopped.append(True)
        if running:
            loop, task = running
            with suppress(RuntimeError):  # the loop has ended meanwhile
                loop.call_soon_threadsafe(task.cancel)
        late = job.abandon()
        if late is not None:  # it was entered
            late.on_end(lambda _: ended.set())
            ended.wait(LAST_WORD)
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
    __slots__ = ("_clock", "_keep", "_workers", "_written", "monotonic", "now")

    def __init__(self, workers: Workers, keep: Keep, clock: Clock, written: Written | None = None) -> None:
        self._workers, self._keep, self._clock, self._written = workers, keep, clock, written
        self.now, self.monotonic = clock.now, clock.monotonic

    def _waited(self, answers: list[Any], heard: Callable[[Any], None] | None, began: float) -> Any:
        """Open the answer of a ledger that somebody had to wait for, and only then tell how long that was."""
        try:
            return _open_answer(answers, heard)
        finally:
            if self._written is not None:
                self._written(self.monotonic() - began, is_failed=isinstance(answers[0], BaseException))


class CancelledInside(Exception):
    """What the function awaited was cancelled, but nobody cancelled the call: a failure like any other."""

    def __init__(self) -> None:
        super().__init__("something that the function waited for was cancelled")


class BlockingIO(_Base):
    """Awaits nothing that suspends: every method does its work before it returns.

    An async tool or collaborator runs on an event loop of its own, in a worker thread.
    """

    __slots__ = ("_aio",)

    def __init__(self, workers: Workers, keep: Keep, clock: Clock, aio: AsyncioIO) -> None:
        super().__init__(workers, keep, clock, aio._written)
        self._aio = aio

    async def call(self, fn: Callable[..., Any], *args: Any) -> Any:
        """Run a collaborator here."""
        try:
            value = fn(*args)
            return drive_in_own_loop(lambda: _awaited(value), self._workers) if isawaitable(value) else value
        except asyncio.CancelledError:
            raise CancelledInside from None

    async def finish(self, work: Callable[[], None]) -> None:
        """Do the work here."""
        work()

    async def sleep(self, seconds: float) -> None:
        """Block this thread."""
        self._clock.sleep(seconds)

    async def invoke(self, call: Call, attempt: Attempt, timeout: float | None) -> Any:
        """Run the tool inline without a timeout, in a worker thread with one."""
        prepared = call.prepared
        info = CallInfo(call, attempt, self.monotonic, self._keep, with_headers)
        before, token = CURRENT.get(), None
        try:
            token = CURRENT.set(info)
            if prepared.is_async:
                return drive_in_own_loop(lambda: self._aio.invoke(call, attempt, timeout), self._workers)
            args, keywords = prepare_arguments(call, info)
            fn = prepared.tool.fn
            if timeout is None or prepared.tool.inline:
                return consume(call, enter(fn, args, keywords))
            return self._in_thread(lambda: consume(call, enter(fn, args, keywords)), attempt, timeout)
        except asyncio.CancelledError:  # nothing can cancel sync code from outside
            raise CancelledInside from None
        except NoThread as error:
            raise _no_thread(error) from error
        finally:
            if token is None:  # interrupted in this very moment
                CURRENT.set(before)
            else:
                CURRENT.reset(token)

    def _in_thread(self, fn: Callable[[], Any], attempt: Attempt, timeout: float) -> Any:
        ended = threading.Event()
        outcome: list[Any] = [None, None]

        def deliver(value: Any, error: BaseException | None) -> None:
            outcome[:] = value, error
            ended.set()

        job = Job(fn, copy_context(), deliver)
        try:
            self._workers.submit(job)
            is_over = ended.wait(timeout)
        except BaseException:
            _leave(job, attempt, self.monotonic)
            raise
        if not is_over:
            return _given_up(job, timeout, self.monotonic)
        if outcome[1] is not None:
            raise outcome[1]
        return outcome[0]

    async def commit(self, store: Store, command: Command, heard: Callable[[Any], None] | None = None) -> Any:
        """Hand a command to the ledger and block until it is durable."""
        if getattr(store, "answers_inline", False):
            return _commit_here(store, command, heard)
        answers: list[Any] = []
        began = self.monotonic()
        waiting = threading.Lock()
        waiting.acquire()

        def done(answer: Any) -> None:
            answers.append(answer)
            waiting.release()

        try:
            store.submit(command, done)
            if not answers:
                waiting.acquire()
            return self._waited(answers, heard, began)
        except BaseException as error:  # an interrupt in `submit` may have come after the ledger had the command
            if not isinstance(error, Exception) and (answers or waiting.acquire(timeout=LAST_WORD)):
                _hear(answers, heard)
            raise


async def _awaited(value: Any) -> Any:
    return await value


def _leave(job: Job, attempt: Attempt, monotonic: Callable[[], float]) -> None:
    """Leave a job behind because the caller is interrupted."""
    attempt.late = job.abandon(monotonic)
    attempt.was_dispatched = attempt.late is not None


def _given_up(job: Job, timeout: float, monotonic: Callable[[], float]) -> Any:
    """Leave a job behind because its time is over; one that has ended in this very moment has its say."""
    late = job.abandon(monotonic)
    if late is None:
        raise NotEntered(
            ErrorType.RESOURCE_EXHAUSTED,
            f"No worker thread was free within {timeout:g} s; the function was not started.",
        )
    if late.is_running:
        raise Abandoned(timeout, late)
    if late.error is not None:
        raise late.error
    return late.value


def _no_thread(error: NoThread) -> NotEntered:
    return NotEntered(
        ErrorType.RESOURCE_EXHAUSTED, f"The machine has no thread for the function; it was not started: {error}"
    )


def _commit_here(store: Store, command: Command, heard: Callable[[Any], None] | None) -> Any:
    """Hand a command to a ledger that answers before `submit` returns."""
    answers: list[Any] = []
    try:
        store.submit(command, answers.append)
        return _open_answer(answers, heard)
    except BaseException:
        _hear(answers, heard)
        raise


def _hear(answers: list[Any], heard: Callable[[Any], None] | None) -> None:
    """Take note of the ledger's answer, if there is one, for a caller that is interrupted."""
    if answers:
        with suppress(Exception):
            _open_answer(answers, heard)


def _open_answer(answers: list[Any], heard: Callable[[Any], None] | None) -> Any:
    answer = answers[0]
    if isinstance(answer, BaseException):
        raise answer
    if heard is not None:
        heard(answer)
    return answer


class AsyncioIO(_Base):
    """Runs on the running event loop; sync tools go to worker threads unless they are declared inline."""

    __slots__ = ("_wakes",)

    def __init__(self, workers: Workers, keep: Keep, clock: Clock, written: Written | None = None) -> None:
        super().__init__(workers, keep, clock, written)
        self._wakes = Wakes()

    async def call(self, fn: Callable[..., Any], *args: Any) -> Any:
        """Run a collaborator: an async one here, a sync one in a worker thread."""
        try:
            if not is_coroutine_callable(fn):
                return await self._thread(lambda: fn(*args), None, None)
            value = fn(*args)
            return await value if isawaitable(value) else value
        except asyncio.CancelledError:
            if _is_cancelled():
                raise
            raise CancelledInside from None

    async def finish(self, work: Callable[[], None]) -> None:
        """Do the work in a worker thread."""
        errors: list[BaseException | None] = []
        waiting: list[Any] = []

        def deliver(_: Any, error: BaseException | None) -> None:
            errors.append(error)
            if waiting:
                self._wakes.put(*waiting)

        try:
            self._workers.submit(Job(work, copy_context(), deliver))
        except NoThread:
            work()
            return
        if not errors:
            if isinstance(sys.exc_info()[1], GeneratorExit):
                return  # the coroutine is being closed and must not suspend; the thread has the work
            await answered(errors, waiting)
        if errors[0] is not None:
            raise errors[0]

    async def sleep(self, seconds: float) -> None:
        """Suspend this task."""
        await self._clock.asleep(seconds)

    async def invoke(self, call: Call, attempt: Attempt, timeout: float | None) -> Any:
        """Await an async tool, cancelling it at its timeout; run a sync one in a worker thread."""
        prepared = call.prepared
        info = CallInfo(call, attempt, self.monotonic, self._keep, with_headers)
        fn = prepared.tool.fn
        before, token = CURRENT.get(), None
        try:
            token = CURRENT.set(info)
            args, keywords = prepare_arguments(call, info)
            if prepared.is_async:
                value = enter(fn, args, keywords)
                return await (self._await(call, value) if timeout is None else self._within(call, value, timeout))
            if prepared.tool.inline:
                return consume(call, enter(fn, args, keywords))
            return await self._thread(lambda: consume(call, enter(fn, args, keywords)), attempt, timeout)
        except asyncio.CancelledError:
            if _is_cancelled():
                raise
            raise CancelledInside from None
        except NoThread as error:
            raise _no_thread(error) from error
        finally:
            try:
                if token is None:  # interrupted in this very moment
                    CURRENT.set(before)
                else:
                    CURRENT.reset(token)
            except ValueError:  # a coroutine that is closed by the garbage collector is closed in another context
                pass

    async def _await(self, call: Call, value: Any) -> Any:
        if not isasyncgen(value):
            return consume(call, await value if isawaitable(value) else value)
        limit = limit_of(call)
        items: list[Any] = []
        try:
            async for item in value:
                items.append(item)
                if len(items) > limit:
                    break
        finally:
            await value.aclose()
        return cut(call, items)

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

        job = Job(fn, copy_context(), deliver)
        self._workers.submit(job)
        try:
            if timeout is None:
                ended = await future
            else:
                async with asyncio.timeout(timeout):
                    ended = await future
        except TimeoutError:
            assert timeout is not None
            return _given_up(job, timeout, self.monotonic)
        except (asyncio.CancelledError, GeneratorExit):
            if attempt is not None:
                _leave(job, attempt, self.monotonic)
            else:
                job.abandon()
            raise
        return _opened(ended)

    async def commit(self, store: Store, command: Command, heard: Callable[[Any], None] | None = None) -> Any:
        """Hand a command to the ledger and suspend until it is durable."""
        if getattr(store, "answers_inline", False):
            return _commit_here(store, command, heard)
        answers: list[Any] = []
        began = self.monotonic()
        waiting: list[Any] = []

        def done(answer: Any) -> None:
            answers.append(answer)
            if waiting:
                self._wakes.put(*waiting)

        store.submit(command, done)
        if not answers:
            if isinstance(sys.exc_info()[1], GeneratorExit):
                return None  # the coroutine is being closed and must not suspend; the ledger has the command
            try:
                await answered(answers, waiting)
            except asyncio.CancelledError:
                _hear(answers, heard)
                raise
        return self._waited(answers, heard, began)


def _is_cancelled() -> bool:
    """Answer whether somebody cancelled the running task, not just something that it awaits."""
    task = asyncio.current_task()
    return task is None or task.cancelling() > 0


class TimedOut(TimeoutError):
    """The time was over and the async tool was cancelled."""

    def __init__(self, timeout: float) -> None:
        super().__init__(f"no answer within {timeout:g} s; the function was cancelled")


def _resolve(future: asyncio.Future[Any], value: Any, error: BaseException | None) -> None:
    if not future.done():
        future.set_result((value, error))  # as a value: a future looks into an exception, and refuses some


def _opened(ended: tuple[Any, BaseException | None]) -> Any:
    value, error = ended
    if error is None:
        return value
    kind = type(error)
    if issubclass(kind, asyncio.CancelledError):  # it would pass for a cancellation of the call
        raise CancelledInside
    if issubclass(kind, StopIteration):  # a coroutine cannot raise it
        raise RuntimeError("the function raised StopIteration")  # noqa: TRY004
    raise error
