"""The one value that flows through the eight steps: a governed call and its attempts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, Generic, Literal, NamedTuple, TypeVar

from fcguard.errors import NoCurrentCallError
from fcguard.model.context import Environment, TaskContext
from fcguard.model.evidence import Evidence
from fcguard.model.failure import EffectState, Failure
from fcguard.model.frozen import FrozenDict
from fcguard.model.intent import Intent
from fcguard.model.result import OutcomeBasis, ToolResult
from fcguard.model.secrets import PLAIN_REDACTOR, Redactor
from fcguard.model.tool import Tool

__all__ = ["Abandoned", "Attempt", "Call", "CallInfo", "Late", "LateVerdict", "NotEntered", "Purpose", "current_call"]

Purpose = Literal["primary", "confirm", "fallback"]


T = TypeVar("T")


class _Unfilled:
    """What stands in a slot that no step has filled yet."""

    __slots__ = ()

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "UNFILLED"


UNFILLED: Final[Any] = _Unfilled()

if TYPE_CHECKING:

    class Once(Generic[T]):
        """What a type checker sees: a slot of one type."""

        def __init__(self, name: str) -> None: ...
        def __get__(self, instance: Any, owner: Any = None) -> T: ...
        def __set__(self, instance: Any, value: T) -> None: ...

else:

    class Once:
        """A slot that a step fills once; until then it is `UNFILLED`.

        It is a property over a plain slot, so that reading it costs no Python call.
        """

        def __class_getitem__(cls, _: Any) -> Any:
            return cls

        def __new__(cls, name: str) -> property:
            slot = "_" + name

            read = attrgetter(slot)

            def fill(self: Any, value: Any) -> None:
                if read(self) is not UNFILLED:
                    raise RuntimeError(f"the slot {name!r} of a call is filled once; it was filled already")
                setattr(self, slot, value)

            return property(read, fill, doc=f"The {name} of the call, filled once.")


class LateVerdict(NamedTuple):
    """What the end of an abandoned function proves.

    Attributes:
        effect: `applied` if it returned a success, `not_applied` if that is proved, `unknown` otherwise.
        error_type: what kind of failure it was; None for a success, and if nobody could tell.
        message: one line on the failure.
        data: what it returned, as JSON values.
    """

    effect: EffectState
    error_type: str | None = None
    message: str = ""
    data: Any = None


class Late:
    """What an abandoned function did after all: it is recorded, and confirmation consults it first.

    Attributes:
        is_running: whether the thread still runs the function.
        ended_at: monotonic seconds at its end, until which it can have sent something; None while it runs, or without a clock.
        value: what it returned, once `has_value`.
        error: what it raised; None if it returned.
        verdict: what its end proves; None until it was judged.
    """

    __slots__ = ("_listeners", "_monotonic", "ended_at", "error", "has_value", "is_running", "value", "verdict")

    def __init__(self, monotonic: Callable[[], float] | None = None) -> None:
        self._monotonic = monotonic
        self.ended_at: float | None = None
        self.verdict: LateVerdict | None = None
        self.is_running = True
        self.has_value = False
        self.value: Any = None
        self.error: BaseException | None = None
        self._listeners: list[Callable[[Late], None]] = []

    def returned(self, value: Any) -> None:
        """Take the late return value (called from the worker thread)."""
        self._end()
        self.value, self.has_value, self.is_running = value, True, False
        self._tell()

    def raised(self, error: BaseException) -> None:
        """Take the late exception (called from the worker thread)."""
        self._end()
        self.error, self.is_running = error, False
        self._tell()

    @classmethod
    def judged(cls, verdict: LateVerdict) -> Late:
        """Answer what is left of a function that another process, or an earlier part of this one, judged."""
        late = cls()
        late.verdict, late.value = verdict, verdict.data
        late.has_value, late.is_running = verdict.effect == "applied", False
        return late

    def on_end(self, listener: Callable[[Late], None]) -> None:
        """Have `listener` called once, when the function ends; at once if it has ended."""
        self._listeners.append(listener)
        if not self.is_running:
            self._tell()

    def _end(self) -> None:
        """Note the time; before `is_running` falls, so that who sees the end sees when it was."""
        if self._monotonic is not None:
            self.ended_at = self._monotonic()

    def _tell(self) -> None:
        while self._listeners:
            try:
                listener = self._listeners.pop()  # of two threads that come here at once, only one gets it
            except IndexError:
                return
            listener(self)


class Abandoned(TimeoutError):
    """The time was over and a thread still runs the function; a thread cannot be killed.

    Attributes:
        late: where the outcome will appear.
    """

    def __init__(self, timeout: float, late: Late) -> None:
        self.timeout, self.late = timeout, late
        super().__init__(f"no answer within {timeout:g} s; the function still runs")


class NotEntered(Exception):
    """The tool's function was never entered: the proof that nothing happened.

    Attributes:
        error_type: why not, in the taxonomy's words.
    """

    def __init__(self, error_type: str, message: str) -> None:
        self.error_type = error_type
        super().__init__(message)


class Attempt:
    """One dispatch of a tool.

    Attributes:
        number: from 1.
        started_at: wall clock in seconds.
        delay: pause before it in seconds.
        timeout: seconds it was given; None: no limit.
        duration: seconds it took.
        value: what the tool returned.
        error: what it raised; None if it returned.
        error_type: what happened, in the taxonomy's words (`TIMEOUT`), before proof turns it into `UNCERTAIN_RESULT`.
        failure: how it was classified; None for a success.
        effect: what is known of this attempt's effect.
        ended: monotonic seconds at its end: the last moment a request can have been sent, unless a thread still runs.
        late: set if the function was abandoned.
        was_dispatched: False if the tool's function was never entered.
        is_restored: read from the ledger: another process made it, or an earlier part of this one.
    """

    # Defaults stand on the class: most attempts end well and never set them.
    duration = 0.0
    value: Any = None
    returned = False
    error: BaseException | None = None
    error_type: str | None = None
    failure: Failure | None = None
    effect: EffectState = "none"
    late: Late | None = None
    nested = 0
    reason = ""
    was_dispatched = True
    is_restored = False
    observed: Any = None

    def __init__(self, number: int, started_at: float, started: float, timeout: float | None, delay: float) -> None:
        self.number, self.started_at, self.started, self.timeout, self.delay = (
            number,
            started_at,
            started,
            timeout,
            delay,
        )
        self.ended = started

    def summary(self) -> dict[str, Any]:
        """Answer the attempt as JSON values for the ledger."""
        out: dict[str, Any] = {
            "number": self.number,
            "started_at": self.started_at,
            "duration_ms": round(self.duration * 1000, 3),
            "effect": self.effect,
        }
        if self.delay:
            out["delay_s"] = round(self.delay, 6)
        if self.timeout is not None:
            out["timeout_s"] = self.timeout
        if self.error_type is not None:
            out["error_type"] = self.error_type
        if self.failure is not None:
            out |= {"classified": self.failure.error_type, "why": self.reason or self.failure.reason}
            if self.failure.cause:
                out["cause"] = self.failure.cause
        if self.late is not None:
            out["abandoned"] = True
        if self.is_restored:
            out["restored"] = True  # when it ended is not known from here
        return out


class Call:
    """A governed call on its way through the eight steps.

    The products of the steps are slots that are filled once: `context`, `intent`, `arguments` (frozen), `verdict`,
    `result`, `recovery`, `record`; `attempts` only grows. Everything else is bookkeeping of the pipeline.

    Attributes:
        request_id: the one id of the call.
        tool: the resolved tool; None until known.
        purpose: `primary`, `confirm` or `fallback`.
        parent: the call that caused this one.
        failure: the failure that stands now; None while all is well.
        is_in_doubt: the ledger was asked to open the call, and did not say whether it did.
        is_delegated: a write was handed to a fallback, and that one may have done it.
        is_recorded: the ledger has answered to the end of a call that it had opened.
        is_resumed: built from the ledger, to be brought to its end.
        unsendable: why it must not be sent again from here, though it may be confirmed; None: nothing speaks against it.
        due_at: wall clock at which it is to be taken up again; None: it is not put off.
    """

    context = Once[TaskContext]("context")
    intent = Once[Intent]("intent")
    arguments = Once[FrozenDict]("arguments")
    verdict = Once[Any]("verdict")
    result = Once[ToolResult[Any]]("result")
    _context = _intent = _arguments = _verdict = _result = UNFILLED

    # Defaults stand on the class: a call is made for every invocation, and most never set the greater part of them.
    started_at = started = 0.0
    tool: Tool | None = None
    prepared: Any = None
    normalized: Any = None
    task: Any = None
    step: int | None = None
    turn: str | None = None
    nested: int | None = None
    receiver: Any = None
    redactor: Redactor = PLAIN_REDACTOR
    deadline: float | None = None
    idempotency_key: str | None = None
    effect_key: str | None = None
    ledger_version: int | None = None
    ledger_attempt = 0
    ledger_state: Any = None
    blocked_by: str | None = None
    trace_id: str | None = None
    span_id: str | None = None
    observed: Any = None
    halt: Any = None
    failure: Failure | None = None
    data: Any = None
    returned: Any = None
    basis: OutcomeBasis | None = None
    effect: EffectState = "none"
    message = ""
    evidence: tuple[Evidence, ...] = ()
    flags: tuple[str, ...] = ()
    confirmations: tuple[Any, ...] = ()
    children: tuple[str, ...] = ()
    admitted: tuple[Any, ...] = ()
    answered_by: str | None = None
    pause = 0.0
    was_interrupted = False
    waits = 0
    is_in_doubt = False
    is_delegated = False
    is_recorded = False
    is_resumed = False
    unsendable: str | None = None
    due_at: float | None = None

    def __init__(
        self, request_id: str, proposal: Intent, purpose: Purpose, parent: Call | None, given: TaskContext | None
    ) -> None:
        self.request_id, self.proposal, self.purpose = request_id, proposal, purpose
        self.parent, self.given = parent, given
        self.attempts: list[Attempt] = []

    def reopen(self, *slots: str) -> None:
        """Empty slots so that their steps can run again in another environment."""
        for slot in slots:
            setattr(self, "_" + slot, UNFILLED)

    def take_result(self) -> ToolResult[Any]:
        """Answer the envelope and let go of it: a ledger that keeps the call must not keep the tool's objects alive."""
        result = self.result
        self._result = UNFILLED
        return result

    def attach(self, evidence: Evidence) -> None:
        """Add a reference to something that was kept."""
        self.evidence = (*self.evidence, evidence)

    def flag(self, word: str) -> None:
        """Mark something that a caller may want to know."""
        if word not in self.flags:
            self.flags = (*self.flags, word)

    def __repr__(self) -> str:
        name = self.tool.name if self.tool is not None else self.proposal.tool
        return f"<Call {self.request_id} {name!r} {self.purpose} attempts={len(self.attempts)}>"


def _lay_out(call: Call) -> None:
    """Set all that a plain call sets.

    CPython gives the instances of a class a common layout of at most 30 attributes, as the first instances set them. An
    attribute that the first calls of a process do not have (a span, say) would cost every later call that has it a twentieth
    of its time.
    """
    call.started_at, call.started, call.task, call.step = 0.0, 0.0, None, None
    call.prepared, call.tool, call.redactor, call.receiver = None, None, PLAIN_REDACTOR, None
    call.observed, call.trace_id, call.span_id = None, None, None
    call.normalized, call.data, call.returned, call.basis, call.effect = None, None, None, None, "none"
    call.halt, call.failure = None, None
    call.reopen("context", "intent", "arguments", "verdict", "result")


_lay_out(Call("", Intent(), "primary", None, None))


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
