"""Whether a parsed SQL statement really bounds what it reads or changes.

Only forms that are known to bound count: a column compared with a constant, a list, a range with two ends, a pattern with
letters in it, a time range, a small LIMIT. `1 = 1`, `id = id`, `id > 0`, `name LIKE '%'`, `id IS NOT NULL` and the like do not.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final, TypeAlias

from sqlglot import exp

from fcguard.rules.sql_constants import (
    LOWER,
    UPPER,
    bounding_end,
    is_constant,
    is_narrow_range,
    is_telling_pattern,
    whole_number,
)

__all__ = ["is_bounded"]

Node: TypeAlias = Any  # sqlglot's base class changed its name between versions

_FLIPPED: Final = {exp.GT: exp.LT, exp.GTE: exp.LTE, exp.LT: exp.GT, exp.LTE: exp.GTE}
_SAME_BREADTH: Final = (
    exp.Lower,
    exp.Upper,
    exp.Trim,
    exp.Date,
    exp.TsOrDsToDate,
    exp.JSONExtract,
    exp.JSONExtractScalar,
)
_ONE_ROW: Final = (exp.Count, exp.Sum, exp.Avg, exp.Min, exp.Max, exp.Stddev, exp.Variance)


def is_bounded(statement: Node, max_limit: int, dialect: str | None) -> bool:
    """Tell whether a statement reads or changes a bounded number of rows.

    Args:
        statement: a parsed SELECT, set operation, VALUES, INSERT, UPDATE or DELETE.
        max_limit: largest LIMIT (or TOP, FETCH FIRST, ROWNUM) that counts.
        dialect: name of the dialect; None: not known.
    """
    return _Bounds(max_limit, dialect).statement(statement)


class _Bounds:
    """Judges statements under one limit."""

    def __init__(self, max_limit: int, dialect: str | None) -> None:
        self._max_limit, self._dialect = max_limit, dialect

    def statement(self, node: Node) -> bool:
        if isinstance(node, exp.Update | exp.Delete):
            return self._limited(node) or self._change(node)
        if isinstance(node, exp.Insert):
            return self.statement(node.expression) if node.expression is not None else True
        if isinstance(node, exp.Values):
            return True
        if self._limited(node):
            return True
        if isinstance(node, exp.SetOperation):
            return self.statement(node.this) and self.statement(node.expression)
        if isinstance(node, exp.Subquery):
            return self.statement(node.this)
        return isinstance(node, exp.Select) and self._select(node)

    def _limited(self, node: Node) -> bool:
        limit = node.args.get("limit")
        if limit is None:
            return False
        options = limit.args.get("limit_options")
        if options is not None and (options.args.get("percent") or options.args.get("with_ties")):
            return False
        number = whole_number(limit.args.get("count") if isinstance(limit, exp.Fetch) else limit.expression)
        return number is not None and 0 <= number <= self._max_limit

    def _select(self, select: exp.Select) -> bool:
        sources = list(_sources(select))
        if not sources or all(isinstance(source, exp.Values) or self._bounded_source(source) for source in sources):
            return True
        if select.args.get("group") is None and all(map(_is_one_row, select.expressions)):
            return True
        where = select.args.get("where")
        return where is not None and self._predicate(where.this, None)

    def _bounded_source(self, source: Node) -> bool:
        return isinstance(source, exp.Subquery) and self.statement(source)

    def _change(self, change: Node) -> bool:
        where = change.args.get("where")
        if where is None:
            return False
        targets, alone = _targets(change)
        return bool(targets) and all(self._predicate(where.this, (target, alone)) for target in targets)

    def _predicate(self, node: Node, target: tuple[str, bool] | None) -> bool:
        node = node.unnest()
        if isinstance(node, exp.Or):
            return all(self._predicate(part, target) for part in node.flatten())
        if isinstance(node, exp.And):
            parts = [part.unnest() for part in node.flatten()]
            return any(self._predicate(part, target) for part in parts) or self._two_ends(parts, target)
        return self._comparison(node, target)

    def _comparison(self, node: Node, target: tuple[str, bool] | None) -> bool:
        if isinstance(node, exp.Escape):
            node = node.this
        if isinstance(node, exp.EQ | exp.NullSafeEQ):
            pairs = ((node.this, node.expression), (node.expression, node.this))
            return any(_is_column(left, target) and self._one_value(right) for left, right in pairs)
        if isinstance(node, exp.In):
            return _is_column(node.this, target) and self._listed(node)
        if isinstance(node, exp.Between):
            return _is_column(node.this, target) and is_narrow_range(node.args["low"], node.args["high"])
        if isinstance(node, exp.Like | exp.ILike):
            return _is_column(node.this, target) and is_telling_pattern(node.expression)
        ends = list(_ends(node, target))
        return any(bounding_end(end, value) or self._is_row_number(column, end, value) for column, end, value in ends)

    def _one_value(self, node: Node) -> bool:
        if isinstance(node, exp.Subquery):
            return self.statement(node)
        return is_constant(node)

    def _listed(self, node: Node) -> bool:
        query = node.args.get("query")
        if query is not None:
            return self.statement(query)
        values = node.expressions
        return bool(values) and all(map(is_constant, values))

    def _is_row_number(self, column: Node, end: str, value: Node) -> bool:
        """Tell whether a comparison is Oracle's way to write a limit."""
        if self._dialect != "oracle" or end != UPPER or column.name.upper() != "ROWNUM" or column.table:
            return False
        number = whole_number(value)
        return number is not None and number <= self._max_limit

    def _two_ends(self, parts: Iterable[Node], target: tuple[str, bool] | None) -> bool:
        """Tell whether a lower and an upper end on one column make a range."""
        found: dict[tuple[str, str], Node] = {}
        for part in parts:
            for column, end, value in _ends(part, target):
                found[column.sql().lower(), end] = value
        return any(
            is_narrow_range(low, found[column, UPPER])
            for (column, end), low in found.items()
            if end == LOWER and (column, UPPER) in found
        )


def _ends(node: Node, target: tuple[str, bool] | None) -> Iterator[tuple[Node, str, Node]]:
    """Answer (column, LOWER or UPPER, constant) of a comparison, with the column brought to the left."""
    kind = type(node)
    if kind not in _FLIPPED:
        return
    column, value = node.this, node.expression
    if not _is_column(column, target):
        column, value, kind = value, column, _FLIPPED[kind]
    if _is_column(column, target) and is_constant(value):
        yield column, LOWER if kind in (exp.GT, exp.GTE) else UPPER, value


def _is_column(node: Node, target: tuple[str, bool] | None) -> bool:
    """Tell whether a node is a column (of the changed table, where one is), perhaps under a function that keeps its breadth."""
    node = node.unnest()
    if isinstance(node, exp.Tuple):
        return bool(node.expressions) and all(_is_column(part, target) for part in node.expressions)
    while isinstance(node, _SAME_BREADTH) or (isinstance(node, exp.Cast) and not isinstance(node, exp.TryCast)):
        if isinstance(node, exp.Cast) and not node.to.is_type(*exp.DataType.TEXT_TYPES, *exp.DataType.TEMPORAL_TYPES):
            return False
        node = node.this
    if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
        return False
    if target is None:
        return True
    name, alone = target
    return node.table.lower() == name or (alone and not node.table)


def _sources(select: Node) -> Iterator[Node]:
    start = select.args.get("from_") or select.args.get("from")
    if start is not None:
        yield start.this
        yield from (join.this for join in start.this.args.get("joins") or ())
    yield from (join.this for join in select.args.get("joins") or ())
    yield from select.args.get("laterals") or ()


def _is_one_row(projection: Node) -> bool:
    """Tell whether a projection is an aggregate that folds all rows into one small value."""
    aggregates = list(projection.find_all(exp.AggFunc))
    if projection.find(exp.Window) is not None or not all(isinstance(one, _ONE_ROW) for one in aggregates):
        return False
    return bool(aggregates) or projection.find(exp.Column, exp.Star) is None


def _targets(change: Node) -> tuple[set[str], bool]:
    """Answer the names of the tables that a change touches, and whether the statement names no other table."""
    table = change.this
    others = [change.args.get(key) for key in ("using", "from_", "from")]
    joins = table.args.get("joins") if isinstance(table, exp.Table) else None
    alone = not joins and not any(others)
    named = change.args.get("tables") or ()
    if named:
        return {one.alias_or_name.lower() for one in named}, alone
    if isinstance(change, exp.Update) and not alone:
        changed = {item.this.table.lower() for item in change.expressions if isinstance(item.this, exp.Column)}
        changed.discard("") if joins is None else None
        return changed or {table.alias_or_name.lower()}, alone
    return {table.alias_or_name.lower()}, alone
