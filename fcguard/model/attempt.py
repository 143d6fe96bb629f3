"""One dispatch of a tool, and what becomes of a function that nobody waits for any more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from fcguard.model.failure import EffectState, Failure

__all__ = ["Abandoned", "Attempt", "Late", "LateVerdict", "NotEntered", "Unlicensed"]


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


class Unlicensed(NotEntered):
    """A repeat whose licence ran out while the ledger took its intent; it is not one of the attempts that a policy allows."""


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
        doubt: seconds by which it may have been made before `started_at`, because another host's clock said so.
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
    doubt = 0.0
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
