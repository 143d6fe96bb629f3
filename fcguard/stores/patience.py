"""How long a process waits for another one that holds the ledger: one deadline, however many locks stand in the way."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from fcguard.jitter import pause_between

__all__ = ["Patience"]

_AFTERWARDS: Final = 0.05
"""Part of the patience that is left for a while after it ran out once."""


class Patience:
    """Counts what a process has waited already. Threads may share it; at worst, one of them waits longer.

    A write begins one deadline and spends it on everything that it has to wait for: the lock's file, the connection, the
    transaction. One call makes several writes (its intent, its refusal, the withdrawal of the intent). If the first one has
    waited in vain, whoever holds the ledger is stuck; so for as long again the next ones wait a twentieth only, and the call as a
    whole is held up once.

    Args:
        seconds: how long to wait for another process.
        monotonic: clock in seconds.
        sleep: waits some seconds.
    """

    def __init__(
        self,
        seconds: float,
        monotonic: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.seconds = seconds
        self._monotonic, self._sleep = monotonic, sleep
        self._short_until: float | None = None

    def begin(self) -> float:
        """Begin to wait, and answer the monotonic second until which to do so."""
        now = self._monotonic()
        is_short = self._short_until is not None and now < self._short_until
        return now + self.seconds * (_AFTERWARDS if is_short else 1.0)

    def left(self, until: float) -> float:
        """Answer the seconds that are left, never below zero."""
        return max(0.0, until - self._monotonic())

    def pause(self, until: float, longest: float = 0.003) -> bool:
        """Wait a short, random time; or answer False, at once, if the time is over.

        Doubling pauses, as SQLite's own, let one process starve beside busy ones; short random ones are fair.

        Args:
            until: what `begin` answered.
            longest: seconds.
        """
        now = self._monotonic()
        if now >= until:
            if self._short_until is None or now >= self._short_until:
                self._short_until = now + self.seconds
            return False
        self._sleep(pause_between(0.0002, longest))
        return True

    def succeeded(self) -> None:
        """Note that nobody held the ledger: the next wait is a whole one again."""
        self._short_until = None
