"""Leave the world alone at certain times."""

from __future__ import annotations

from collections.abc import Callable, Collection
from datetime import datetime
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from fcguard.constraints.options import WRITES, check_effects
from fcguard.constraints.schedule import Window
from fcguard.constraints.state import wall_clock
from fcguard.errors import ConfigurationError
from fcguard.model.attempt import Attempt
from fcguard.model.call import Call
from fcguard.model.failure import ErrorType, Violation

__all__ = ["QuietWindow"]

_MOST_JOINED: Final = 100


class QuietWindow:
    """Refuses attempts during quiet windows (`QUIET_WINDOW`, with `retry_after` until the last of joined windows ends).

    Times of `Daily` and `Cron` are local times of `tz`; on the days when clocks change they mean what the wall clock shows (a
    time that is there twice means the first, one that is skipped is moved on).

    Args:
        windows: `Daily`, `Cron` or `Between`.
        tz: IANA name of the time zone, `Asia/Shanghai`.
        effects: kinds of tools that are refused; by default all that change the world.
        name: name for the evidence.
        wall: wall clock in seconds.

    Raises:
        ConfigurationError: no window, or an unknown time zone.
    """

    def __init__(
        self,
        *windows: Window,
        tz: str = "UTC",
        effects: Collection[str] = WRITES,
        name: str = "quiet_window",
        wall: Callable[[], float] = wall_clock,
    ) -> None:
        if not windows or not all(hasattr(window, "active_until") for window in windows):
            raise ConfigurationError(f"QuietWindow: got {windows!r}; give windows such as Daily('22:00', '06:00')")
        try:
            self._zone = ZoneInfo(tz)
        except (ZoneInfoNotFoundError, ValueError, OSError) as error:
            raise ConfigurationError(
                f"QuietWindow: unknown time zone {tz!r}; give an IANA name such as 'Asia/Shanghai'"
            ) from error
        self.name, self.windows, self.effects = name, windows, check_effects(name, effects)
        self._wall = wall
        self._known: tuple[float, float, float | None] = (0.0, 0.0, None)

    def admit(self, call: Call, now: float) -> Violation | None:
        """Admit outside the windows, and tools of other kinds always."""
        if call.tool is not None and call.tool.effect not in self.effects:
            return None
        at = self._wall()
        since, until, end = self._known
        if not since <= at < until:
            end = self.quiet_until(at)
            self._known = at, end or self._next_look(at), end
        if end is None:
            return None
        local = datetime.fromtimestamp(end, self._zone).isoformat(timespec="minutes")
        return Violation(
            ErrorType.QUIET_WINDOW,
            f"It is quiet time ({self.name!r}) until {local}. Nothing was sent; send it after that, or report that it waits.",
            retry_after=end - at,
        )

    def settle(self, call: Call, attempt: Attempt | None, now: float) -> None:
        """Nothing to give back."""

    def quiet_until(self, at: float) -> float | None:
        """Answer when the quiet time that contains `at` ends, joined windows taken together; None if `at` is not quiet.

        Args:
            at: seconds since the epoch.
        """
        end: float | None = None
        for _ in range(_MOST_JOINED):
            moment = at if end is None else end
            ends = [until for window in self.windows if (until := window.active_until(moment, self._zone)) is not None]
            if not ends:
                break
            end = max(ends)
        return end

    def _next_look(self, at: float) -> float:
        starts = [start for window in self.windows if (start := window.next_exact_start(at)) is not None]
        return min([at // 60 * 60 + 60, *starts])
