"""Single values that JSON does not know, and the text or number that stands for each."""

from __future__ import annotations

import datetime as dt
import ipaddress
import re
import zoneinfo
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import PurePath
from typing import Any, Final
from uuid import UUID

from fcguard.model.secrets import MASK
from fcguard.results.reading import kind_names

__all__ = ["LONGEST_INTEGER_BITS", "NOT_SCALAR", "clean_text", "integer", "scalar"]

LONGEST_INTEGER_BITS: Final = 2048
"""Longer integers become `{"$int": "0x..."}`: Python refuses to write them in decimal, depending on a process-wide setting."""

NOT_SCALAR: Final = object()


def clean_text(text: str) -> str:
    """Answer a text with each lone surrogate written as its escape, so that UTF-8 can hold it."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def integer(value: int) -> Any:
    """Answer an integer as it is, or tagged in hexadecimal if it is longer than JSON writers allow."""
    return value if value.bit_length() <= LONGEST_INTEGER_BITS else {"$int": hex(value)}


def _duration(value: dt.timedelta) -> str:
    """Write a duration as ISO 8601 does: `P1DT0.5S`, `-PT90S`."""
    sign, value = ("-", -value) if value < dt.timedelta(0) else ("", value)
    days = f"{value.days}D" if value.days else ""
    seconds = (
        f"{value.seconds}.{value.microseconds:06d}".rstrip("0").rstrip(".") if value.microseconds else value.seconds
    )
    return f"{sign}P{days}T{seconds}S" if seconds or not days else f"{sign}P{days}"


_TEXTS: Final[tuple[tuple[type, Callable[[Any], str]], ...]] = (
    (Decimal, str),
    (dt.datetime, lambda value: str(value.isoformat())),
    (dt.date, lambda value: str(value.isoformat())),
    (dt.time, lambda value: str(value.isoformat())),
    (dt.timedelta, _duration),
    (UUID, str),
    (PurePath, str),
    (Fraction, str),
    (complex, str),
    (zoneinfo.ZoneInfo, str),
    (re.Pattern, lambda value: str(value.pattern)),
    (ipaddress.IPv4Address, str),
    (ipaddress.IPv6Address, str),
    (ipaddress.IPv4Network, str),
    (ipaddress.IPv6Network, str),
    (ipaddress.IPv4Interface, str),
    (ipaddress.IPv6Interface, str),
)
"""Type -> how its values are written. A subclass counts as the first base in the table."""

_BY_TYPE: Final = dict(_TEXTS)

_SECRETS: Final = frozenset({("pydantic", "SecretStr"), ("pydantic", "SecretBytes"), ("pydantic", "Secret")})


def scalar(value: Any, cls: type) -> Any:
    """Answer the text of a single value, None for `NaT`, or `NOT_SCALAR`.

    Args:
        value: not of a builtin JSON type.
        cls: its type.

    Raises:
        Exception: whatever a subclass's own methods raise.
    """
    write = _BY_TYPE.get(cls)
    if write is not None:
        return write(value)
    for base, write in _TEXTS:
        if issubclass(cls, base):
            return None if value != value else write(value)  # noqa: PLR0124 - NaT is a datetime that is not itself
    if not _SECRETS.isdisjoint(kind_names(cls)):
        return MASK
    return NOT_SCALAR
