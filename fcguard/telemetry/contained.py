"""An observer that cannot hurt a call: what the host's own observer raises is logged by its type, and goes no further."""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable
from typing import Any, Final

from fcguard.errors import ConfigurationError
from fcguard.model.attempt import Attempt
from fcguard.model.call import Call
from fcguard.telemetry.observer import LedgerObserver, Observer, SilentObserver
from fcguard.telemetry.standard import StandardObserver

__all__ = ["contained"]

_log: Final = logging.getLogger("fcguard.telemetry")
_METHODS: Final = (
    "call_started",
    "call_ended",
    "attempt_started",
    "attempt_ended",
    "recovery_started",
    "recovery_ended",
    "stage",
)


def contained(observer: Any) -> Observer:
    """Answer an observer that never raises; those of fcguard do not need it and are answered as they are.

    Raises:
        ConfigurationError: it lacks a method of `Observer`.
    """
    if observer.__class__ in (StandardObserver, SilentObserver):
        return observer
    missing = [name for name in _METHODS if not callable(getattr(observer, name, None))]
    if missing or isinstance(observer, type):
        lacking = f"it lacks {', '.join(missing)}" if missing else "it is a class"
        raise ConfigurationError(
            f"observer={observer!r} is no Observer: {lacking}; give an object with all its methods"
        )
    return _ContainedOfLedger(observer) if isinstance(observer, LedgerObserver) else _Contained(observer)


class _Contained:
    """Passes everything on to one observer."""

    __slots__ = ("_observer",)

    def __init__(self, observer: Any) -> None:
        self._observer = observer

    def _tell(self, method: str, *args: Any, **options: Any) -> None:
        try:
            getattr(self._observer, method)(*args, **options)
        except Exception as error:
            self._report(method, error)

    def _report(self, method: str, error: Exception) -> None:
        kind, failure = type(self._observer).__name__, type(error).__name__
        _log.warning("the observer %s failed in %s with %s; the call goes on", kind, method, failure)

    @property
    def wants_stages(self) -> bool:
        """Whether the observer wants stages; one that cannot say does not."""
        try:
            return bool(getattr(self._observer, "wants_stages", False))
        except Exception as error:
            self._report("wants_stages", error)
            return False

    def call_started(self, call: Call) -> None:
        """Pass it on."""
        self._tell("call_started", call)

    def call_ended(self, call: Call) -> None:
        """Pass it on."""
        self._tell("call_ended", call)

    def attempt_started(self, call: Call, attempt: Attempt) -> None:
        """Pass it on."""
        self._tell("attempt_started", call, attempt)

    def attempt_ended(self, call: Call, attempt: Attempt) -> None:
        """Pass it on."""
        self._tell("attempt_ended", call, attempt)

    def recovery_started(self, call: Call, action: str) -> None:
        """Pass it on."""
        self._tell("recovery_started", call, action)

    def recovery_ended(self, call: Call, action: str, outcome: str) -> None:
        """Pass it on."""
        self._tell("recovery_ended", call, action, outcome)

    def stage(self, call: Call, name: str, started: float, ended: float) -> None:
        """Pass it on."""
        self._tell("stage", call, name, started, ended)


class _ContainedOfLedger(_Contained):
    """Passes on what an observer wants to hear of the ledger, too."""

    __slots__ = ()

    def watch_unresolved(self, ask: Callable[[], int | None], *, ledger: Hashable = None) -> None:
        """Pass it on."""
        self._tell("watch_unresolved", ask, ledger=ledger)

    def evidence_written(self, seconds: float, *, is_failed: bool = False) -> None:
        """Pass it on."""
        self._tell("evidence_written", seconds, is_failed=is_failed)
