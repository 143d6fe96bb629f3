"""Tell telemetry how the ledger is doing: how many calls it holds open, and how long each write took."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Protocol

from fcguard.model.states import CallState
from fcguard.stores.base import CallQuery, Store
from fcguard.telemetry.observer import LedgerObserver, Observer

__all__ = ["Written", "watch_ledger"]

_UNRESOLVED: Final = CallQuery(
    states=frozenset({CallState.UNCERTAIN, CallState.CONFIRMING, CallState.PARKED}), limit=10_000
)
"""Calls that were sent and whose effect nobody knows; more than the limit need not be counted exactly."""


class Written(Protocol):
    """Hears of each write to a ledger that somebody had to wait for. Must not raise."""

    def __call__(self, seconds: float, *, is_failed: bool) -> None:
        """Take note of a write that took `seconds`, and whether the ledger refused it."""
        ...


def watch_ledger(observer: Observer, store: Store) -> Written | None:
    """Have an observer report the unresolved calls of a ledger, if it wants to.

    The ledger is asked on the thread that collects metrics, so that calls pay nothing for it. A ledger in a file that is
    not there yet holds nothing, and is not made by the question.

    Args:
        observer: a guard's; only a `LedgerObserver` hears anything.
        store: the ledger.

    Returns:
        What wants to hear of each write; None: nobody does.
    """
    if not isinstance(observer, LedgerObserver):
        return None
    path = getattr(store, "path", None)
    file = path if isinstance(path, str) else None

    def count() -> int:
        if file is not None and not Path(file).exists():
            return 0
        return sum(1 for _ in store.calls(_UNRESOLVED))

    observer.watch_unresolved(count, ledger=file or id(store))
    return observer.evidence_written
