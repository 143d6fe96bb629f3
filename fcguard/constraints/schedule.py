"""When quiet windows are: every day at a time, at the times of a cron expression, or once between two moments."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta, tzinfo
from typing import Final, Protocol

from fcguard.constraints.options import check_count
from fcguard.errors import ConfigurationError

__all__ = ["Between", "Cron", "Daily", "Window"]

_MINUTES_A_DAY: Final = 1440
_WEEKDAYS: Final = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_MONTHS: Final = ("", "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_TIME: Final = re.compile(r"([01]?\d|2[0-3]):([0-5]\d)|24:00")


class Window(Protocol):
    """A recurring or single stretch of time."""

    def active_until(self, at: float, zone: tzinfo) -> float | None:
        """Answer when the stretch that contains `at` ends; None if none does. Seconds since the epoch, the end excluded."""
        ...

    def next_exact_start(self, at: float) -> float | None:
        """Answer the next start after `at`, if starts do not fall on whole minutes; None otherwise."""
        ...


@dataclass(frozen=True, slots=True)
class Daily:
    """Every day, or on some weekdays, from one local time to another; over midnight if the end is not after the start.

    Attributes:
        start, end: local times, `22:00`; the end may be `24:00`.
        days: weekdays on which it starts: `mon-fri`, `sat,sun`, `*`.
    """

    start: str
    end: str
    days: str = "*"
    _minutes: tuple[int, int] = field(init=False, repr=False, compare=False)
    _weekdays: frozenset[int] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        start, end = _minute(self.start), _minute(self.end)
        if start in (end, _MINUTES_A_DAY):
            raise ConfigurationError(
                f"Daily({self.start!r}, {self.end!r}): start and end must differ; a whole day is '00:00' to '24:00'"
            )
        object.__setattr__(self, "_minutes", (start, end))
        object.__setattr__(self, "_weekdays", _weekdays(self.days))

    def active_until(self, at: float, zone: tzinfo) -> float | None:
        """Answer when the stretch that contains `at` ends; None if none does."""
        start, end = self._minutes
        today = datetime.fromtimestamp(at, zone).date()
        for day in (today, today - timedelta(days=1)):
            if day.isoweekday() % 7 in self._weekdays:
                last = _moment(day, end if end > start else end + _MINUTES_A_DAY, zone)
                if _moment(day, start, zone) <= at < last:
                    return last
        return None

    def next_exact_start(self, at: float) -> float | None:
        """Answer None: starts fall on whole minutes."""
        return None


@dataclass(frozen=True, slots=True)
class Cron:
    """For a number of minutes from every time of a cron expression.

    Attributes:
        expression: five fields, minute hour day month weekday: `*`, lists, ranges, steps and English names of months and
            weekdays. As usual, if both day and weekday are restricted, either is enough. No `@daily`, `L`, `W` or `#`.
        minutes: how long it lasts; up to a week.
    """

    expression: str
    minutes: int
    _times: tuple[tuple[int, ...], ...] = field(init=False, repr=False, compare=False)
    _days: tuple[frozenset[int], frozenset[int], frozenset[int], bool] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if check_count("Cron", "minutes", self.minutes) > 7 * _MINUTES_A_DAY:
            raise ConfigurationError(f"Cron: minutes={self.minutes!r}; at most a week (10080)")
        parts = self.expression.split()
        if len(parts) != 5:
            raise ConfigurationError(f"Cron({self.expression!r}): give five fields: minute hour day month weekday")
        minutes, hours = (_numbers(parts[n], 0, top, ()) for n, top in ((0, 59), (1, 23)))
        months = _numbers(parts[3], 1, 12, _MONTHS)
        is_either = not parts[2].startswith("*") and not parts[4].startswith("*")
        times = tuple(sorted((hour * 60 + minute for hour in hours for minute in minutes), reverse=True))
        object.__setattr__(self, "_times", (times,))
        object.__setattr__(self, "_days", (_numbers(parts[2], 1, 31, ()), months, _weekdays(parts[4]), is_either))

    def active_until(self, at: float, zone: tzinfo) -> float | None:
        """Answer when the stretch that contains `at` ends; None if none does."""
        length = self.minutes * 60
        day = datetime.fromtimestamp(at, zone).date()
        first = datetime.fromtimestamp(at - length, zone).date()
        while day >= first:
            if self._fits(day):
                for minute in self._times[0]:
                    begin = _moment(day, minute, zone)
                    if begin <= at:
                        return begin + length if at < begin + length else None
            day -= timedelta(days=1)
        return None

    def next_exact_start(self, at: float) -> float | None:
        """Answer None: starts fall on whole minutes."""
        return None

    def _fits(self, day: date) -> bool:
        days, months, weekdays, is_either = self._days
        if day.month not in months:
            return False
        by_day, by_weekday = day.day in days, day.isoweekday() % 7 in weekdays
        return (by_day or by_weekday) if is_either else (by_day and by_weekday)


@dataclass(frozen=True, slots=True)
class Between:
    """Once, from one moment up to another.

    Attributes:
        start, end: moments with a time zone.
    """

    start: datetime
    end: datetime

    def __post_init__(self) -> None:
        if self.start.utcoffset() is None or self.end.utcoffset() is None or self.end <= self.start:
            raise ConfigurationError(
                f"Between({self.start!s}, {self.end!s}): give two moments with a time zone, the end after the start"
            )

    def active_until(self, at: float, zone: tzinfo) -> float | None:
        """Answer the end if `at` lies between; None otherwise."""
        return self.end.timestamp() if self.start.timestamp() <= at < self.end.timestamp() else None

    def next_exact_start(self, at: float) -> float | None:
        """Answer the start, if it is still to come."""
        start = self.start.timestamp()
        return start if start > at else None


def _minute(text: str) -> int:
    match = _TIME.fullmatch(text)
    if match is None:
        raise ConfigurationError(f"{text!r} is not a time of day; write it as '22:00'")
    return _MINUTES_A_DAY if match[1] is None else int(match[1]) * 60 + int(match[2])


def _moment(day: date, minute: int, zone: tzinfo) -> float:
    extra, rest = divmod(minute, _MINUTES_A_DAY)
    return datetime.combine(day + timedelta(days=extra), time(rest // 60, rest % 60), zone).timestamp()


def _weekdays(text: str) -> frozenset[int]:
    return frozenset(number % 7 for number in _numbers(text, 0, 7, _WEEKDAYS))


def _numbers(text: str, lowest: int, highest: int, names: tuple[str, ...]) -> frozenset[int]:
    found: set[int] = set()
    for part in text.split(","):
        span, _, step_text = part.partition("/")
        first_text, dash, last_text = span.partition("-")
        try:
            step = int(step_text) if "/" in part else 1
            if span == "*":
                first, last = lowest, highest
            else:
                first = _number(first_text, names)
                last = _number(last_text, names) if dash else highest if "/" in part else first
        except ValueError:
            step, first, last = 0, 0, -1
        if step < 1 or not lowest <= first <= last <= highest:
            raise ConfigurationError(
                f"{text!r}: {part!r} is not understood; use {lowest} to {highest}, '*', lists, ranges and steps"
            )
        found.update(range(first, last + 1, step))
    return frozenset(found)


def _number(text: str, names: tuple[str, ...]) -> int:
    lower = text.lower()
    if lower and lower in names:
        return names.index(lower)
    if not (text.isascii() and text.isdigit()):
        raise ValueError(text)
    return int(text)
