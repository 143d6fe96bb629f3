"""The seam between the pipeline and telemetry: six moments of a call, told to whoever watches."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import NamedTuple, Protocol, runtime_checkable

from fcguard.model.attempt import Attempt
from fcguard.model.call import Call

__all__ = ["LedgerObserver", "Observer", "Observers", "Origin", "SilentObserver"]


class Origin(NamedTuple):
    """Where an earlier part of a call was traced.

    Whoever resumes or reconciles a call puts this into `call.observed` before `call_started`; the new span is linked
    to it.

    Attributes:
        trace_id: 32 hexadecimal digits, from the ledger.
        span_id: 16 hexadecimal digits, from the ledger.
    """

    trace_id: str
    span_id: str


class Observer(Protocol):
    """Watches governed calls. Must never raise and never change a call, but for its trace and span id."""

    def call_started(self, call: Call) -> None:
        """Called before step 1. Sets `call.trace_id` and `call.span_id`; may keep its own state in `call.observed`.

        `call.tool` is set if the name is registered exactly; a name that has to be folded is resolved later.
        """
        ...

    def call_ended(self, call: Call) -> None:
        """Called once per started call, after the envelope is made (`call.result`) and recorded.

        Also for refused, cancelled and interrupted calls; those have `call.result` too.
        """
        ...

    def attempt_started(self, call: Call, attempt: Attempt) -> None:
        """Called before the tool is entered, in the context that the tool will inherit. May use `attempt.observed`."""
        ...

    def attempt_ended(self, call: Call, attempt: Attempt) -> None:
        """Called after the attempt was classified (`attempt.error_type`, `attempt.effect`), in the same context."""
        ...

    def recovery_started(self, call: Call, action: str) -> None:
        """Called before a recovery action (`retry`, `confirm`, `wait`, `switch`, `fallback`) begins."""
        ...

    def recovery_ended(self, call: Call, action: str, outcome: str) -> None:
        """Called when it ended (`applied`, `not_applied`, `inconclusive`, `again`, `answered`, `gave_up`, ...)."""
        ...

    def stage(self, call: Call, name: str, started: float, ended: float) -> None:
        """Called after each step but execute and recover, and only if `wants_stages`.

        A step that refuses the call is told while its `Halt` is on its way (from a `finally`).
        `started` and `ended` are wall clock seconds.
        """
        ...

    @property
    def wants_stages(self) -> bool:
        """Whether `stage` should be called."""
        ...


@runtime_checkable
class LedgerObserver(Protocol):
    """What an observer has beside the others' methods if it wants to hear of the ledger, too. Must never raise."""

    def watch_unresolved(self, ask: Callable[[], int | None], *, ledger: Hashable = None) -> None:
        """Called once, when a guard is made.

        `ask` answers how many calls of the ledger are unresolved, or None; it may raise. `ledger` tells ledgers apart.
        """
        ...

    def evidence_written(self, seconds: float, *, is_failed: bool = False) -> None:
        """Called after each write that a call had to wait for, from the call's thread."""
        ...


class SilentObserver:
    """Watches nothing."""

    __slots__ = ()
    wants_stages = False

    def call_started(self, call: Call) -> None:
        """Do nothing."""

    def call_ended(self, call: Call) -> None:
        """Do nothing."""

    def attempt_started(self, call: Call, attempt: Attempt) -> None:
        """Do nothing."""

    def attempt_ended(self, call: Call, attempt: Attempt) -> None:
        """Do nothing."""

    def recovery_started(self, call: Call, action: str) -> None:
        """Do nothing."""

    def recovery_ended(self, call: Call, action: str, outcome: str) -> None:
        """Do nothing."""

    def stage(self, call: Call, name: str, started: float, ended: float) -> None:
        """Do nothing."""


class Observers:
    """Tells several observers, in order; on `..._ended` in reverse, so that the first one encloses the others.

    At most one of them, the first, may keep state in `call.observed` and `attempt.observed`.

    Args:
        observers: at least one. Like every observer they must not raise.
    """

    __slots__ = ("_observers", "_of_ledger", "_reversed")

    def __init__(self, *observers: Observer) -> None:
        self._observers, self._reversed = observers, observers[::-1]
        self._of_ledger = [observer for observer in observers if isinstance(observer, LedgerObserver)]

    @property
    def wants_stages(self) -> bool:
        """Whether one of them wants the stages."""
        for observer in self._observers:  # noqa: SIM110 - any(...) takes five times as long, on every call
            if observer.wants_stages:
                return True
        return False

    def call_started(self, call: Call) -> None:
        """Tell all of them."""
        for observer in self._observers:
            observer.call_started(call)

    def call_ended(self, call: Call) -> None:
        """Tell all of them, the first one last."""
        for observer in self._reversed:
            observer.call_ended(call)

    def attempt_started(self, call: Call, attempt: Attempt) -> None:
        """Tell all of them."""
        for observer in self._observers:
            observer.attempt_started(call, attempt)

    def attempt_ended(self, call: Call, attempt: Attempt) -> None:
        """Tell all of them, the first one last."""
        for observer in self._reversed:
            observer.attempt_ended(call, attempt)

    def recovery_started(self, call: Call, action: str) -> None:
        """Tell all of them."""
        for observer in self._observers:
            observer.recovery_started(call, action)

    def recovery_ended(self, call: Call, action: str, outcome: str) -> None:
        """Tell all of them, the first one last."""
        for observer in self._reversed:
            observer.recovery_ended(call, action, outcome)

    def stage(self, call: Call, name: str, started: float, ended: float) -> None:
        """Tell those that want stages."""
        for observer in self._observers:
            if observer.wants_stages:
                observer.stage(call, name, started, ended)

    def watch_unresolved(self, ask: Callable[[], int | None], *, ledger: Hashable = None) -> None:
        """Tell those that want to hear of the ledger."""
        for observer in self._of_ledger:
            observer.watch_unresolved(ask, ledger=ledger)

    def evidence_written(self, seconds: float, *, is_failed: bool = False) -> None:
        """Tell those that want to hear of the ledger."""
        for observer in self._of_ledger:
            observer.evidence_written(seconds, is_failed=is_failed)
