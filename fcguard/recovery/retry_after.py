"""How long the other side asked to wait."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from typing import Final

__all__ = ["parse_retry_after", "retry_after_in"]

_NUMBER: Final = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?", re.ASCII)


def parse_retry_after(text: str | None, *, now: float) -> float | None:
    """Read a `Retry-After` header (RFC 9110, 10.2.3): seconds, or an HTTP date.

    Args:
        text: value of the header; None: not sent.
        now: wall clock in seconds since 1970.

    Returns:
        Seconds from now, never negative; None if there is no readable value.
    """
    if text is None:
        return None
    text = text.strip()
    if _NUMBER.fullmatch(text):
        return float(text)
    try:
        seconds = parsedate_to_datetime(text).timestamp() - now
    except (ValueError, TypeError, OverflowError):
        return None
    return max(0.0, seconds) if math.isfinite(seconds) else None


def retry_after_in(headers: Mapping[str, str], *, now: float) -> float | None:
    """Answer the seconds that response headers ask to wait; `retry-after-ms` goes before `retry-after`.

    Args:
        headers: names in lower case.
        now: wall clock in seconds since 1970.
    """
    milliseconds = headers.get("retry-after-ms", "").strip()
    if _NUMBER.fullmatch(milliseconds):
        return float(milliseconds) / 1000
    return parse_retry_after(headers.get("retry-after"), now=now)
