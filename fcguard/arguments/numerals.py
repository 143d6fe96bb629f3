"""Numbers from text, only where nothing is lost."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Final

__all__ = ["MAX_EXACT", "integer_from", "integral", "number_from"]

MAX_EXACT: Final = 1 << 53
"""Largest size of a float at which every integer has a float of its own."""

_NUMBER: Final = re.compile(r"-?(?:0|[1-9]\d*)(\.\d+)?([eE][+-]?\d{1,3})?", re.ASCII)
_MAX_DIGITS: Final = 4000


def integer_from(text: str) -> int | None:
    """Read a plain JSON number that is a whole one (`100`, `2.0`, `1e3`); None for anything else."""
    found = _NUMBER.fullmatch(text) if len(text) <= _MAX_DIGITS else None
    if found is None:
        return None
    if found[1] is None and found[2] is None:
        return int(text)
    exact = Decimal(text)
    return int(exact) if exact == exact.to_integral_value() and abs(exact) <= MAX_EXACT else None


def number_from(text: str) -> int | float | None:
    """Read a plain JSON number without loss, a whole one exactly, another as the float written so; else None."""
    found = _NUMBER.fullmatch(text) if len(text) <= _MAX_DIGITS else None
    if found is None:
        return None
    if found[1] is None and found[2] is None:
        return int(text)
    number = float(text)
    return number if math.isfinite(number) and Decimal(repr(number)) == Decimal(text) else None


def integral(number: float) -> int | None:
    """Answer the integer that a float is; None if it is none, or so large that neighbouring integers share it."""
    return int(number) if number.is_integer() and abs(number) <= MAX_EXACT else None
