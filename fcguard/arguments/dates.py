"""Dates and times in other forms than RFC 3339: every possible reading, so that only a single one is ever used."""

from __future__ import annotations

import datetime as dt
import re
from typing import Final

__all__ = ["DATE_FORMATS", "readings"]

DATE_FORMATS: Final = frozenset({"date", "time", "date-time"})
"""JSON Schema formats that are folded."""

_MONTHS: Final = {
    name: number
    for number, names in enumerate(
        (
            "jan january",
            "feb february",
            "mar march",
            "apr april",
            "may",
            "jun june",
            "jul july",
            "aug august",
            "sep sept september",
            "oct october",
            "nov november",
            "dec december",
        ),
        start=1,
    )
    for name in names.split()
}
_DAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_LONGEST: Final = 64
_YEARS: Final = range(1900, 2101)
"""Years that a date without separators may lie in; narrows its readings."""

_F: Final = re.ASCII | re.IGNORECASE
_WEEKDAY: Final = re.compile(r"([a-z]{3,9}),?\s+(?=\S)", _F)
_YEAR_FIRST: Final = re.compile(r"(\d{4})([-/.])(\d{1,2})\2(\d{1,2})", _F)
_YEAR_LAST: Final = re.compile(r"(\d{1,2})([-/. ])(\d{1,2})\2(\d{4})", _F)
_DIGITS: Final = re.compile(r"\d{8}", _F)
_DAY_MONTH: Final = re.compile(r"(\d{1,2})(?:st|nd|rd|th)?[ -]([a-z]{3,9})\.?,?[ -](\d{4})", _F)
_MONTH_DAY: Final = re.compile(r"([a-z]{3,9})\.? (\d{1,2})(?:st|nd|rd|th)?,? (\d{4})", _F)
_YEAR_MONTH: Final = re.compile(r"(\d{4})[ -]([a-z]{3,9})[ -](\d{1,2})", _F)
_TIME: Final = re.compile(
    r"(\d{1,2}):(\d{2})(?::(\d{2})(?:[.,](\d{1,9}))?)?\s*(?:([ap])\.?m\.?)?\s*(z|utc|gmt|[+-]\d{2}(?::?\d{2})?)", _F
)
_SPLIT: Final = re.compile(r"(?:t|,?\s+)(?=\d{1,2}:\d{2})", _F)
_MIDNIGHT: Final = re.compile(r"[t ]00:00(?::00(?:\.0{1,9})?)?", _F)


def readings(text: str, form: str) -> tuple[str, ...]:
    """Answer every RFC 3339 text that a date or time can mean.

    Nothing is invented: a missing offset, a missing time or a two-digit year gives no reading. Offsets are kept.

    Args:
        text: what the model sent.
        form: one of `DATE_FORMATS`.

    Returns:
        No item: no reading; one: the meaning; several: ambiguous. Sorted, without repeats.
    """
    text = text.strip()
    if not text or len(text) > _LONGEST or form not in DATE_FORMATS:
        return ()
    if form == "time":
        time = _time(text)
        return () if time is None else (time,)
    if form == "date":
        return _dates(text)
    split = _SPLIT.search(text)
    if split is None:
        return ()
    time = _time(text[split.end() :])
    return () if time is None else tuple(f"{date}T{time}" for date in _dates(text[: split.start()]))


def _dates(text: str) -> tuple[str, ...]:
    midnight = _MIDNIGHT.search(text)
    if midnight is not None and midnight.end() == len(text):
        text = text[: midnight.start()]
    weekday = _WEEKDAY.match(text)
    named = next((n for n, day in enumerate(_DAYS) if weekday and day.startswith(weekday[1].lower())), None)
    if weekday is not None and named is not None:
        text = text[weekday.end() :]
    found = {made for parts in _candidates(text) if (made := _date(*parts)) is not None}
    return tuple(sorted(date.isoformat() for date in found if named is None or date.weekday() == named))


def _candidates(text: str) -> list[tuple[int, int, int]]:
    """Every (year, month, day) that a text may mean, valid or not."""
    if found := _YEAR_FIRST.fullmatch(text):
        return [(int(found[1]), int(found[3]), int(found[4]))]
    if found := _YEAR_LAST.fullmatch(text):
        first, second, year = int(found[1]), int(found[3]), int(found[4])
        return [(year, second, first), (year, first, second)]
    if _DIGITS.fullmatch(text):
        head, tail = (int(text[:2]), int(text[2:4]), int(text[4:])), (int(text[:4]), int(text[4:6]), int(text[6:]))
        options = [tail, (head[2], head[1], head[0]), (head[2], head[0], head[1])]
        return [option for option in options if option[0] in _YEARS]
    if found := _DAY_MONTH.fullmatch(text):
        return [(int(found[3]), _MONTHS.get(found[2].lower(), 0), int(found[1]))]
    if found := _MONTH_DAY.fullmatch(text):
        return [(int(found[3]), _MONTHS.get(found[1].lower(), 0), int(found[2]))]
    if found := _YEAR_MONTH.fullmatch(text):
        return [(int(found[1]), _MONTHS.get(found[2].lower(), 0), int(found[3]))]
    return []


def _date(year: int, month: int, day: int) -> dt.date | None:
    try:
        return dt.date(year, month, day)
    except ValueError:
        return None


def _time(text: str) -> str | None:
    found = _TIME.fullmatch(text)
    if found is None:
        return None
    hour, minute, second = int(found[1]), int(found[2]), int(found[3] or 0)
    if found[5]:
        if not 1 <= hour <= 12:
            return None
        hour = hour % 12 + (12 if found[5].lower() == "p" else 0)
    offset = found[6].upper()
    if offset in ("UTC", "GMT"):
        offset = "Z"
    elif offset != "Z":
        digits = offset[1:].replace(":", "").ljust(4, "0")
        offset = f"{offset[0]}{digits[:2]}:{digits[2:]}"
    fraction = f".{found[4]}" if found[4] else ""
    return f"{hour:02d}:{minute:02d}:{second:02d}{fraction}{offset}"
