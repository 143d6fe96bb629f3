"""The clock of a server that workers share, read now and then: their own clocks may be off."""

from __future__ import annotations

from collections.abc import Callable
from time import monotonic, time
from typing import Final

__all__ = ["ServerClock"]

_FRESH_SECONDS: Final = 60.0
_JUMP_SECONDS: Final = 0.5


class ServerClock:
    """Counts on from the time that a server told, and asks again every minute, or when this machine slept or its clock was set.

    It is right to half of the round trip in which the server was asked.

    Args:
        ask: asks the server; answers its seconds since the epoch, and the monotonic second of this process at which it told them.
        monotonic: monotonic seconds of this process.
        wall: wall clock of this process; however wrong it is, a jump of it shows that time passed unseen.
    """

    __slots__ = ("_ask", "_known", "_monotonic", "_wall")

    def __init__(
        self,
        ask: Callable[[], tuple[float, float]],
        monotonic: Callable[[], float] = monotonic,
        wall: Callable[[], float] = time,
    ) -> None:
        self._ask, self._monotonic, self._wall = ask, monotonic, wall
        self._known: tuple[float, float, float] | None = None

    def now(self) -> float:
        """Answer the server's seconds since the epoch.

        Raises:
            StoreUnavailable: it had to be asked, and cannot be reached.
        """
        known = self._known
        at, wall = self._monotonic(), self._wall()
        if known is not None:
            ahead, asked, gap = known
            if at - asked < _FRESH_SECONDS and abs(wall - at - gap) < _JUMP_SECONDS:
                return at + ahead
        told, then = self._ask()
        at = self._monotonic()
        self._known = told - then, at, self._wall() - at
        return at + told - then
