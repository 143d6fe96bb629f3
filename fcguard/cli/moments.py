"""Moments and spans of time, as commands read and print them."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Mapping
from typing import Final

from fcguard.errors import UsageError

__all__ = ["moment", "seconds_of", "when"]


def when(at: float | None) -> str:
    """Answer a wall clock as UTC text."""
    return "" if at is None else dt.datetime.fromtimestamp(at, dt.UTC).strftime("%Y-%m-%d %H:%M:%S")


_UNITS: Final[Mapping[str, float]] = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_SPAN: Final = re.compile(r"(\d+(?:\.\d+)?)([smhdw])")


def seconds_of(text: str) -> float:
    """Read a span of time: `90s`, `15m`, `2h`, `30d`, `4w`.

    Raises:
        UsageError: it is something else.
    """
    match = _SPAN.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"{text!r} is no span of time; write a number and s, m, h, d or w, as in 30d")
    return float(match[1]) * _UNITS[match[2]]


def moment(text: str | None, now: float) -> float | None:
    """Read a moment: an ISO date or time (UTC unless it says otherwise), or a span of time before now.

    Raises:
        UsageError: it is neither.
    """
    if text is None:
        return None
    if _SPAN.fullmatch(text.strip()):
        return now - seconds_of(text)
    try:
        read = dt.datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{text!r} is no moment; write 2026-01-30, 2026-01-30T12:00, or a span such as 2h") from None
    return (read if read.tzinfo is not None else read.replace(tzinfo=dt.UTC)).timestamp()
