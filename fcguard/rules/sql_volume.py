"""SQL that makes much out of few rows: aggregates that collect all rows into one value, series, repeated text."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any, Final, TypeAlias

from sqlglot import exp

from fcguard.rules.globs import word_set
from fcguard.rules.sql_constants import whole_number

__all__ = ["collects", "folds_to_one_row", "is_gathered", "is_short_series", "makes_long_text", "series_of"]

Node: TypeAlias = Any  # sqlglot's base class changed its name between versions

_COLLECTING: Final = (
    *(
        "json*agg",
        "json_group_*",
        "xml*agg",
        "array*agg",
        "object*agg",
        "map*agg",
        "string_agg",
        "stragg",
        "list*agg",
        "list",
    ),
    *(
        "group_concat*",
        "groupconcat*",
        "grouparray*",
        "groupuniqarray*",
        "collect_*",
        "topk*",
        "histogram*",
        "wm_concat",
    ),
)
"""Names and globs of aggregates whose one value grows with the rows, in lower case."""
_SERIES: Final = word_set(
    "generate_series generate_subscripts range numbers numbers_mt zeros zeros_mt sequence generate_array generator"
)
_SERIES_NODES: Final = (exp.GenerateSeries, exp.GenerateDateArray, exp.GenerateTimestampArray)
_GROWING: Final = (exp.Mul, exp.Pow, exp.BitwiseLeftShift)
_LONGEST: Final = 10_000
"""Characters of the longest text that a statement may make out of nothing."""
_REPEATING: Final = frozenset({"repeat", "replicate", "space", "lpad", "rpad", "pad", "format", "printf"})
_WIDE_FORMAT: Final = re.compile(r"%[^%a-zA-Z]*(?:\*|\d{5,})")


def _names(node: Node) -> list[str]:
    if isinstance(node, exp.Anonymous | exp.AnonymousAggFunc):
        return [str(node.name).lower()]
    return (
        [*(name.lower() for name in node.sql_names()), type(node).__name__.lower()]
        if isinstance(node, exp.Func)
        else []
    )


def _of(node: Node, kind: Any) -> Iterator[Node]:
    """Yield a node and those below it that belong to the same query, if they are of a kind."""
    waiting = [node]
    while waiting:
        one = waiting.pop()
        if isinstance(one, kind):
            yield one
        waiting += [child for child in one.iter_expressions() if not isinstance(child, exp.Query)]


def collects(select: Node) -> bool:
    """Tell whether a SELECT has an aggregate that collects its rows, so that a LIMIT after it bounds nothing."""
    return any(fnmatchcase(name, glob) for one in _of(select, exp.Func) for name in _names(one) for glob in _COLLECTING)


def is_gathered(select: Node) -> bool:
    """Tell whether the rows of an inner query become one value: `ARRAY(SELECT ...)`, `(SELECT ... FOR JSON)`."""
    parent = select.parent
    while isinstance(parent, exp.Subquery | exp.Paren | exp.SetOperation):
        parent = parent.parent
    return isinstance(parent, exp.Array) or (parent is not None and select.args.get("for_") is not None)


def folds_to_one_row(select: Node) -> bool:
    """Tell whether a SELECT without GROUP BY answers one row of small values, however many rows it reads."""
    if select.args.get("group") is not None or collects(select) or series_of(select):
        return False
    found = False
    for shown in select.expressions:
        aggregates = [one for one in _of(shown, exp.AggFunc) if not isinstance(one.parent, exp.Window)]
        if next(_of(shown, exp.Window), None) is not None:
            return False
        if not aggregates and next(_of(shown, (exp.Column, exp.Star)), None) is not None:
            return False
        found = found or bool(aggregates)
    return found


def series_of(select: Node) -> list[Node]:
    """Answer the functions of a SELECT, itself, that make rows out of nothing."""
    return [
        one for one in _of(select, exp.Func) if isinstance(one, _SERIES_NODES) or not _SERIES.isdisjoint(_names(one))
    ]


def is_short_series(node: Node, max_rows: int) -> bool:
    """Tell whether a series has few members: small whole numbers, or days."""
    if node.find(*_GROWING, exp.Column, exp.Query) is not None:
        return False
    texts = [one for one in node.find_all(exp.Literal) if one.is_string]
    numbers = [whole_number(one) for one in node.find_all(exp.Literal) if not one.is_string]
    is_fine = any(re.search(r"second|minute|milli|micro", one.name, re.IGNORECASE) for one in texts)
    return not is_fine and all(number is not None and number <= max_rows for number in numbers)


def makes_long_text(function: Node) -> bool:
    """Tell whether a function would make a long text out of a short one (`repeat('a', 1000000000)`)."""
    names = _names(function)
    if _REPEATING.isdisjoint(names):
        return False
    if not {"format", "printf"}.isdisjoint(names):
        return any(_WIDE_FORMAT.search(one.name) for one in function.find_all(exp.Literal) if one.is_string)
    if function.find(*_GROWING) is not None or _is_nested(function):
        return True
    counts = [function.args.get(key) for key in ("times", "expression")] + [
        function.this if isinstance(function, exp.Space) else None,
        *(function.expressions[1:2] if isinstance(function, exp.Anonymous) else ()),
    ]
    numbers = [whole_number(count) for count in counts if isinstance(count, exp.Literal)]
    return any(number is None or number > _LONGEST for number in numbers)


def _is_nested(function: Node) -> bool:
    return any(
        inner is not function and not _REPEATING.isdisjoint(_names(inner)) for inner in function.find_all(exp.Func)
    )
