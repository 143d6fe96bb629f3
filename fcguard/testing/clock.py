"""A clock for tests: long sleeps take no time, and time can be moved on."""

from __future__ import annotations

import asyncio
import time

__all__ = ["FakeClock"]


class FakeClock:
    """Runs with the machine's clocks, but a sleep only moves it on.

    Attributes:
        slept: every sleep that was asked for, in seconds.
    """

    def __init__(self) -> None:
        self._offset = 0.0
        self.slept: list[float] = []

    def now(self) -> float:
        """Answer the wall clock in seconds since the epoch."""
        return time.time() + self._offset

    def monotonic(self) -> float:
        """Answer a clock in seconds that never jumps back."""
        return time.monotonic() + self._offset

    def advance(self, seconds: float) -> None:
        """Move the clock on."""
        self._offset += seconds

    def sleep(self, seconds: float) -> None:
        """Move the clock on instead of sleeping; other threads get a chance to run."""
        self.slept.append(seconds)
        self.advance(seconds)
        time.sleep(0)

    async def asleep(self, seconds: float) -> None:
        """Move the clock on instead of sleeping; other tasks get a chance to run."""
        self.slept.append(seconds)
        self.advance(seconds)
        await asyncio.sleep(0)
