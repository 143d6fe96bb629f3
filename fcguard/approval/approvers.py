"""Who is asked: a person at the terminal, a callback of the host, or a store in which somebody decides later."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import copy_context
from inspect import isawaitable, iscoroutine, iscoroutinefunction
from math import isfinite
from threading import Event, Thread
from typing import Any, Final, Protocol, TypeAlias

from fcguard.approval.request import ApprovalRequest, Decision
from fcguard.approval.store import ApprovalStore
from fcguard.errors import ConfigurationError

__all__ = ["Approver", "CallbackApprover", "ConsoleApprover", "Deferred"]

Answer: TypeAlias = Decision | None


class Approver(Protocol):
    """Decides about a request: any callable `(request) -> Decision | None`, sync or async.

    None means that nobody decided yet: the call is refused with `APPROVAL_REQUIRED`. An approver may have `ttl_seconds`: how long a request stands.
    """

    def __call__(self, request: ApprovalRequest) -> Answer | Awaitable[Answer]:
        """Answer a decision, or None."""
        ...


_YES: Final = frozenset({"y", "yes"})


class ConsoleApprover:
    """Asks a person at the terminal. Only `y` or `yes` approves; end of input means no. Waits without limit.

    Args:
        by: name of the person, for the record.
        ask: reads a line after showing a prompt.
        ttl_seconds: how long a yes stands.
    """

    def __init__(self, by: str = "console", *, ask: Callable[[str], str] = input, ttl_seconds: float = 900.0) -> None:
        self.by, self._ask, self.ttl_seconds = by, ask, _seconds("ConsoleApprover", "ttl_seconds", ttl_seconds)

    def __call__(self, request: ApprovalRequest) -> Decision:
        """Show the request and read the answer."""
        try:
            answer = self._ask(f"{request.describe()}\nApprove? [y/N] ")
        except EOFError:
            return request.deny(self.by, reason="nobody is at the terminal")
        return request.approve(self.by) if answer.strip().lower() in _YES else request.deny(self.by)


class CallbackApprover:
    """Asks a function of the host; no answer in time, or none at all, means no, recorded as timed out.

    A sync callback runs in a thread of its own, with the caller's context variables; if it answers too late, nobody listens. It
    blocks the caller meanwhile. An async callback is cancelled at the timeout.

    Args:
        callback: `(request) -> Decision | None`, sync or async.
        timeout: seconds to wait.
        ttl_seconds: how long a yes stands; None: as long as `timeout`, at least 900.
    """

    def __init__(
        self, callback: Callable[[ApprovalRequest], Any], *, timeout: float = 300.0, ttl_seconds: float | None = None
    ) -> None:
        self._callback, self.timeout = callback, _seconds("CallbackApprover", "timeout", timeout)
        self.ttl_seconds = (
            max(timeout, 900.0) if ttl_seconds is None else _seconds("CallbackApprover", "ttl_seconds", ttl_seconds)
        )

    @property
    def is_async(self) -> bool:
        """Whether the callback has to be awaited."""
        return iscoroutinefunction(self._callback) or iscoroutinefunction(type(self._callback).__call__)

    def __call__(self, request: ApprovalRequest) -> Any:
        """Ask, and answer the decision or the timeout."""
        return self._wait(request) if self.is_async else self._block(request)

    async def _wait(self, request: ApprovalRequest) -> Any:
        try:
            async with asyncio.timeout(self.timeout) as limit:
                answer = await self._callback(request)
                return self._too_late() if answer is None else answer
        except TimeoutError:
            if not limit.expired():
                raise
            return self._too_late()

    def _block(self, request: ApprovalRequest) -> Any:
        ended, outcome, errors = Event(), [], []

        def ask() -> None:
            try:
                outcome.append(self._callback(request))
            except BaseException as error:
                errors.append(error)
            ended.set()

        Thread(target=copy_context().run, args=(ask,), name="fcguard-approval", daemon=True).start()
        if not ended.wait(self.timeout):
            return self._too_late()
        if errors:
            raise errors[0]
        answer = outcome[0]
        if isawaitable(answer):
            if iscoroutine(answer):
                answer.close()
            raise ConfigurationError(
                "CallbackApprover: the callback answered an awaitable; declare it with 'async def'"
            )
        return self._too_late() if answer is None else answer

    def _too_late(self) -> Decision:
        return Decision(False, reason=f"nobody decided within {self.timeout:g} s", is_timeout=True)


class Deferred:
    """Puts the question into a store and does not wait: the call is refused with `APPROVAL_REQUIRED` and the request's id.

    Somebody decides later, perhaps in another process; then the same call passes, exactly once.

    Args:
        store: where requests are kept; a durable one for other processes.
        ttl_seconds: how long a request can be decided and its approval be used.
    """

    def __init__(self, store: ApprovalStore, *, ttl_seconds: float = 86_400.0) -> None:
        self.store, self.ttl_seconds = store, _seconds("Deferred", "ttl_seconds", ttl_seconds)

    def __call__(self, request: ApprovalRequest) -> None:
        """Keep the request; the answer comes later."""
        self.store.put(request, request.created_at)


def _seconds(owner: str, name: str, value: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not isfinite(value) or value <= 0:
        raise ConfigurationError(f"{owner}: {name}={value!r}; give a number of seconds above 0")
    return float(value)
