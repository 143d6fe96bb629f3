"""What a running tool may know about its own call, and where it finds it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any, Final

from fcguard.errors import NoCurrentCallError
from fcguard.model.attempt import Attempt
from fcguard.model.call import Call, Purpose
from fcguard.model.context import Environment, TaskContext
from fcguard.model.evidence import Evidence

__all__ = ["CURRENT", "CallInfo", "current_call"]

CURRENT: Final[ContextVar[CallInfo | None]] = ContextVar("fcguard_current_call", default=None)


class CallInfo:
    """What a running tool may know about its own call; read-only.

    Get it with `current_call()` or as a parameter annotated `CallInfo`.
    """

    __slots__ = ("_attempt", "_call", "_headers", "_keep", "_monotonic")

    def __init__(
        self,
        call: Call,
        attempt: Attempt,
        monotonic: Callable[[], float],
        keep: Callable[..., Evidence],
        headers: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        self._call, self._attempt, self._monotonic = call, attempt, monotonic
        self._keep, self._headers = keep, headers

    @property
    def call(self) -> Call:
        """The call itself."""
        return self._call

    def count_nested(self) -> int:
        """Answer the number of the call that this attempt makes now, from 1; the next attempt counts anew."""
        self._attempt.nested += 1
        return self._attempt.nested

    @property
    def request_id(self) -> str:
        """The id that ties envelope, ledger, log file, artifacts and span."""
        return self._call.request_id

    @property
    def tool_name(self) -> str:
        """Name of the running tool."""
        tool = self._call.tool
        return tool.name if tool is not None else ""

    @property
    def tool_version(self) -> str:
        """Version of the running tool."""
        tool = self._call.tool
        return tool.version if tool is not None else ""

    @property
    def attempt(self) -> int:
        """Number of this attempt, from 1."""
        return self._attempt.number

    @property
    def idempotency_key(self) -> str | None:
        """The key to send to a server that removes duplicates: the same on every attempt; None for reads."""
        return self._call.idempotency_key

    @property
    def deadline(self) -> float | None:
        """Wall clock in seconds at which this attempt is over; None: no limit."""
        timeout = self._attempt.timeout
        return None if timeout is None else self._attempt.started_at + timeout

    @property
    def remaining(self) -> float | None:
        """Seconds left for this attempt, never negative; None: no limit."""
        timeout = self._attempt.timeout
        return None if timeout is None else max(0.0, self._attempt.started + timeout - self._monotonic())

    @property
    def environment(self) -> Environment | None:
        """The environment that the task is bound to."""
        return self._call.context.environment

    @property
    def context(self) -> TaskContext:
        """The task's context."""
        return self._call.context

    @property
    def arguments(self) -> Mapping[str, Any]:
        """The frozen arguments of the call."""
        return self._call.arguments

    @property
    def purpose(self) -> Purpose:
        """`primary`, or what the platform runs the tool for."""
        return self._call.purpose

    def is_kept_by(self, keep: Callable[..., Evidence] | None) -> bool:
        """Whether `attach` hands files to `keep`: calls of one guard share it."""
        return self._keep == keep

    @property
    def trace_id(self) -> str | None:
        """Trace of the call, 32 hex digits; None without tracing."""
        return self._call.trace_id

    @property
    def traceparent(self) -> str | None:
        """W3C `traceparent` header for a tool that sends requests itself; None without tracing."""
        return self._headers().get("traceparent")

    def attach(
        self, data: bytes | str, name: str, *, media_type: str = "application/octet-stream", type: str = "artifact"
    ) -> Evidence:
        """Keep a file as evidence of this call.

        Args:
            data: content; text is stored as UTF-8.
            name: file name; anything that could leave the evidence directory is refused.
            media_type: MIME type.
            type: word for the evidence list (`screenshot`, `log`, `body`, ...).

        Returns:
            The reference that will stand in the envelope.
        """
        content = data.encode("utf-8", "backslashreplace") if isinstance(data, str) else data
        evidence = self._keep(self._call, content, name, media_type, type)
        self._call.attach(evidence)
        return evidence


def current_call() -> CallInfo:
    """Answer the call that this code runs in.

    Raises:
        NoCurrentCallError: outside a governed call.
    """
    info = CURRENT.get()
    if info is None:
        raise NoCurrentCallError("current_call() was called outside a governed call; call the tool through its guard")
    return info
