"""Constants in SQL predicates: whether two of them make a narrow range, whether one end of a time range bounds."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from typing import Any, Final, TypeAlias

from sqlglot import exp

__all__ = ["LOWER", "UPPER", "bounding_end", "is_constant", "is_narrow_range", "is_telling_pattern", "whole_number"]

Node: TypeAlias = Any  # sqlglot's base class changed its name between versions

LOWER: Final = "lower"
UPPER: Final = "upper"

MAX_SPAN: Final = 1_000_000
"""Widest range of whole numbers that counts as bounded."""
MAX_DAYS: Final = 3660
"""Longest range of days that counts as bounded (ten years)."""
EARLIEST: Final = date(2000, 1, 1)
"""A time range that begins before this day is taken for one that holds everything."""

_DATE: Final = re.compile(r"\s*(\d{4})-?(\d{2})-?(\d{2})(?:[T ].*)?")
_NOT_FIXED: Final = (exp.Column, exp.Query, exp.Star, exp.Rand, exp.Randn, exp.Command)
_NOW: Final = frozenset(
    {"now", "sysdate", "getdate", "getutcdate", "sysdatetime", "curdate", "date", "datetime", "clock_timestamp"}
)
_NOW_NODES: Final = (exp.CurrentDate, exp.CurrentTimestamp, exp.CurrentDatetime, exp.CurrentTime)
_AMOUNT: Final = re.compile(r"\s*([+-]?)\s*(\d{1,7}(?:\.\d+)?)\s*([A-Za-z]*)\s*")
_UNIT_DAYS: Final = {
    "SECOND": 1 / 86400,
    "MINUTE": 1 / 1440,
    "HOUR": 1 / 24,
    "DAY": 1,
    "WEEK": 7,
    "MONTH": 31,
    "QUARTER": 92,
    "YEAR": 366,
}


def is_constant(node: Node) -> bool:
    """Tell whether a node is one fixed value: not a column, a query, NULL or a truth value, which would match half of everything."""
    if node is None:
        return False
    bare = node.unnest()
    if isinstance(bare, exp.Null | exp.Boolean | exp.Predicate | exp.Connector | exp.Not):
        return False
    if isinstance(bare, exp.Tuple | exp.Array):
        return bool(bare.expressions) and all(map(is_constant, bare.expressions))
    return bare.find(*_NOT_FIXED) is None


def whole_number(node: Node) -> int | None:
    """Answer the value of a plain whole number; None for everything else, parameters included."""
    sign = 1
    while isinstance(node, exp.Paren | exp.Neg):
        sign = -sign if isinstance(node, exp.Neg) else sign
        node = node.this
    if not isinstance(node, exp.Literal) or node.is_string or not re.fullmatch(r"\d{1,18}", node.name):
        return None
    return sign * int(node.name)


def is_narrow_range(low: Node, high: Node) -> bool:
    """Tell whether two ends are close enough to bound: whole numbers, days, or at least one parameter that the host fills."""
    if not (is_constant(low) and is_constant(high)):
        return False
    numbers = whole_number(low), whole_number(high)
    if numbers[0] is not None and numbers[1] is not None:
        return numbers[1] - numbers[0] <= MAX_SPAN
    days = _day(low), _day(high)
    if days[0] is not None and days[1] is not None:
        return (days[1] - days[0]).days <= MAX_DAYS
    if days[0] is not None or _days_back(low) is not None:
        return bounding_end(LOWER, low)
    return _is_parameter(low) and _is_parameter(high)


def bounding_end(end: str, value: Node) -> bool:
    """Tell whether one end of a range bounds on its own: it does only as a point in time that leaves something out."""
    back = _days_back(value)
    if back is not None:
        return 0 <= back <= MAX_DAYS if end == LOWER else back > 0
    day = _day(value)
    if day is None:
        return False
    return day >= EARLIEST if end == LOWER else day <= datetime.now(UTC).date()


def is_telling_pattern(node: Node) -> bool:
    """Tell whether a LIKE pattern holds at least two characters that are not wildcards."""
    return isinstance(node, exp.Literal) and node.is_string and len(re.sub(r"[%_*\s\\]", "", node.name)) >= 2


def _is_parameter(node: Node) -> bool:
    return isinstance(node.unnest(), exp.Placeholder | exp.Parameter)


def _day(node: Node) -> date | None:
    """Answer the day of a date literal, cast or not."""
    literal = node.unnest()
    while isinstance(literal, exp.Cast | exp.Date | exp.Timestamp | exp.TsOrDsToDate | exp.StrToDate | exp.StrToTime):
        literal = literal.this
    match = _DATE.fullmatch(literal.name) if isinstance(literal, exp.Literal) and literal.is_string else None
    if match is None:
        return None
    try:
        return date(int(match[1]), int(match[2]), int(match[3]))
    except ValueError:
        return None


def _days_back(node: Node) -> float | None:
    """Answer how many days before now a point in time lies (negative: after now); None if it is not counted from now."""
    node = node.unnest()
    if _is_now(node):
        return 0.0
    if isinstance(node, exp.Sub | exp.DateSub | exp.TimestampSub | exp.DatetimeSub):
        return _amount(node.expression, node.args.get("unit"), 1) if _is_now(node.this) else None
    if isinstance(node, exp.Add | exp.DateAdd | exp.TsOrDsAdd):
        return _amount(node.expression, node.args.get("unit"), -1) if _is_now(node.this) else None
    if isinstance(node, exp.Date | exp.Datetime):  # date('now', '-7 days')
        return _amount(node.expression, None, -1) if _is_now_text(node.this) and node.expression else None
    if isinstance(node, exp.Anonymous) and node.name.lower() in ("date", "datetime") and len(node.expressions) == 2:
        return _amount(node.expressions[1], None, -1) if _is_now_text(node.expressions[0]) else None
    return None


def _amount(node: Node, unit: Node, sign: int) -> float | None:
    """Answer a length of time in days, times `sign`."""
    while isinstance(node, exp.Neg | exp.Interval | exp.Cast | exp.Paren):
        sign = -sign if isinstance(node, exp.Neg) else sign
        unit = node.args.get("unit") or unit
        node = node.this
    match = _AMOUNT.fullmatch(node.name) if isinstance(node, exp.Literal) else None
    if match is None:
        return None
    word = (match[3] or (unit.name if unit is not None else "DAY")).upper().removesuffix("S")
    days = _UNIT_DAYS.get(word)
    return None if days is None else float(match[2]) * days * (-sign if match[1] == "-" else sign)


def _is_now(node: Node) -> bool:
    if isinstance(node, exp.Anonymous):
        return node.name.lower() in _NOW and not node.expressions
    if isinstance(node, exp.Date | exp.Datetime) and node.args.get("expression") is None:
        return node.this is None or _is_now_text(node.this) or _is_now(node.this)
    return isinstance(node, _NOW_NODES)


def _is_now_text(node: Node) -> bool:
    return isinstance(node, exp.Literal) and node.is_string and node.name.lower() == "now"
