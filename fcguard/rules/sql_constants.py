"""Constants in SQL predicates: whether two of them make a narrow range, whether one end of a time range bounds."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final, TypeAlias

from sqlglot import exp

__all__ = [
    "LOWER",
    "UPPER",
    "bounding_end",
    "is_constant",
    "is_narrow_range",
    "is_telling_pattern",
    "may_equal_any_text",
    "whole_number",
]

Node: TypeAlias = Any  # sqlglot's base class changed its name between versions

LOWER: Final = "lower"
UPPER: Final = "upper"

MAX_DAYS: Final = 3660
"""Longest range of days that counts as bounded (ten years); one that begins earlier is taken for one that holds everything."""
_EPOCH: Final = range(946_684_800, 4_102_444_800)
"""Seconds of the years 2000 to 2099."""

_DATE: Final = re.compile(r"\s*(\d{4})-?(\d{2})-?(\d{2})(?:[T ].*)?")
_NOT_FIXED: Final = (exp.Column, exp.Query, exp.Star, exp.Rand, exp.Randn, exp.Command)
_NOW: Final = frozenset(
    {"now", "sysdate", "getdate", "getutcdate", "sysdatetime", "curdate", "date", "datetime", "clock_timestamp"}
)
_NOW_NODES: Final = (exp.CurrentDate, exp.CurrentTimestamp, exp.CurrentDatetime, exp.CurrentTime)
_AMOUNT: Final = re.compile(r"\s*([+-]?)\s*(\d{1,7}(?:\.\d+)?)\s*([A-Za-z]*)\s*")
_TEXTUAL: Final = (
    exp.Lower,
    exp.Upper,
    exp.Concat,
    exp.ConcatWs,
    exp.MD5,
    exp.SHA,
    exp.SHA2,
    exp.Uuid,
    exp.Unhex,
    exp.Hex,
)
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


def is_narrow_range(low: Node, high: Node, *, max_rows: int, of_times: bool) -> bool:
    """Tell whether two ends are close enough to bound.

    Args:
        low: the lower end.
        high: the upper end.
        max_rows: how many whole numbers may lie between them.
        of_times: whether the column holds times, so that numbers may be seconds, milliseconds or days.
    """
    if not (is_constant(low) and is_constant(high)):
        return False
    first, last = whole_number(low), whole_number(high)
    if first is not None and last is not None:
        return _days_between(first, last) <= MAX_DAYS if of_times else last - first <= max_rows
    days = _day(low), _day(high)
    if days[0] is not None and days[1] is not None:
        return (days[1] - days[0]).days <= MAX_DAYS
    if _is_point(low) and (_is_point(high) or _is_parameter(high)):
        return bounding_end(LOWER, low)
    return _is_parameter(low) and _is_parameter(high)


def _days_between(low: int, high: int) -> float:
    """Answer the days between two numbers that stand for times; infinite if they do not."""
    for unit in (1, 1000, 1_000_000):
        if low // unit in _EPOCH and high // unit in _EPOCH:
            return (high - low) / unit / 86_400
    first, last = (_calendar_day(str(number)) for number in (low, high))
    return (last - first).days if first is not None and last is not None else float("inf")


def bounding_end(end: str, value: Node) -> bool:
    """Tell whether one end of a range bounds on its own: it does only as a point in time that leaves something out."""
    today = datetime.now(UTC).date()
    back = _days_back(value)
    if back is not None:
        return 0 <= back <= MAX_DAYS if end == LOWER else back >= 1
    day = _day(value)
    if day is None:
        return False
    return day >= today - timedelta(days=MAX_DAYS) if end == LOWER else day < today


def is_telling_pattern(node: Node) -> bool:
    """Tell whether a LIKE pattern holds two letters or digits side by side; wildcards and signs alone fit everything."""
    if not (isinstance(node, exp.Literal) and node.is_string):
        return False
    plain = re.sub(r"\[[^\]]*\]", "%", node.name)  # T-SQL: one letter of these
    return re.search(r"[^\W_]{2}", plain) is not None


def may_equal_any_text(node: Node) -> bool:
    """Tell whether a value may be the number 0, which MySQL takes for equal to every text that is no number."""
    node = node.unnest()
    while isinstance(node, exp.Neg | exp.Paren):
        node = node.this
    if isinstance(node, exp.Literal):
        return not node.is_string and re.fullmatch(r"[0.]+(?:[eE].*)?", node.name) is not None
    if isinstance(node, exp.HexString | exp.BitString):
        return not str(node.name).strip("0")
    if isinstance(node, exp.Tuple | exp.Array):
        return any(map(may_equal_any_text, node.expressions))
    if _is_parameter(node) or _is_point(node) or isinstance(node, _TEXTUAL):
        return False
    return not (isinstance(node, exp.Cast) and node.to.is_type(*exp.DataType.TEXT_TYPES, *exp.DataType.TEMPORAL_TYPES))


def _is_parameter(node: Node) -> bool:
    return isinstance(node.unnest(), exp.Placeholder | exp.Parameter)


def _day(node: Node) -> date | None:
    """Answer the day of a date literal, cast or not."""
    literal = node.unnest()
    while isinstance(literal, exp.Cast | exp.Date | exp.Timestamp | exp.TsOrDsToDate | exp.StrToDate | exp.StrToTime):
        literal = literal.this
    return _calendar_day(literal.name) if isinstance(literal, exp.Literal) and literal.is_string else None


def _calendar_day(text: str) -> date | None:
    match = _DATE.fullmatch(text)
    if match is None:
        return None
    try:
        return date(int(match[1]), int(match[2]), int(match[3]))
    except ValueError:
        return None


def _is_point(node: Node) -> bool:
    """Tell whether a node is a day, or a time counted from now."""
    return _day(node) is not None or _days_back(node) is not None


def _days_back(node: Node) -> float | None:
    """Answer how many days before now a point in time lies (negative: after now); None if it is not counted from now."""
    node = node.unnest()
    if _is_now(node):
        return 0.0
    if isinstance(node, exp.Sub | exp.DateSub | exp.TimestampSub | exp.DatetimeSub):
        return _amount(node.expression, node.args.get("unit"), 1) if _is_now(node.this) else None
    if isinstance(node, exp.Add | exp.DateAdd | exp.TsOrDsAdd):
        return _amount(node.expression, node.args.get("unit"), -1) if _is_now(node.this) else None
    if isinstance(node, exp.DateTrunc | exp.TimestampTrunc):  # the start of this month
        return _UNIT_DAYS.get(node.text("unit").upper()) if _is_now(node.this) else None
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
