"""Whether a parsed SQL statement really bounds what it reads or changes.

Only forms that are known to bound count: a column compared with a constant, a list, a range with two ends, a pattern with
letters in it, a time range, a small LIMIT. `1 = 1`, `id = id`, `id > 0`, `name LIKE '%'`, `id IS NOT NULL` and the like do not,
nor does a condition on one table bound another one that no equal columns hold to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Final, TypeAlias

from sqlglot import exp

from fcguard.rules.sql_columns import MYSQL_FAMILY, Scope, is_outer, reads_itself_only, scope_of, tells_time
from fcguard.rules.sql_constants import (
    LOWER,
    UPPER,
    bounding_end,
    is_constant,
    is_narrow_range,
    is_telling_pattern,
    may_equal_any_text,
    whole_number,
)
from fcguard.rules.sql_sources import Part, Source, components, conditions, parts_of, reached
from fcguard.rules.sql_volume import collects, folds_to_one_row, is_gathered, is_short_series, series_of

__all__ = ["is_bounded"]

Node: TypeAlias = Any  # sqlglot's base class changed its name between versions

_FLIPPED: Final = {exp.GT: exp.LT, exp.GTE: exp.LTE, exp.LT: exp.GT, exp.LTE: exp.GTE}
_UNDERSTOOD: Final = frozenset({"this", "expression", "expressions", "query", "low", "high"})
"""Parts of a comparison that are judged; one with more of them (a negation) says something else."""
_TARGET_MAY_BE_WITH: Final = frozenset({None, "tsql", "fabric"})


def is_bounded(statement: Node, max_limit: int, dialect: str | None, texts: frozenset[str] = frozenset()) -> bool:
    """Tell whether a statement reads or changes a bounded number of rows.

    Args:
        statement: a parsed SELECT, set operation, VALUES, INSERT, UPDATE or DELETE.
        max_limit: largest LIMIT (or TOP, FETCH FIRST, ROWNUM) that counts, and widest range of whole numbers.
        dialect: name of the dialect; None: not known.
        texts: names that stand in double quotes, which some databases take for texts.
    """
    bounds = _Bounds(max_limit, dialect, texts)
    if not bounds.statement(statement):
        return False
    return not isinstance(statement, exp.Query) or all(map(bounds.inner, statement.find_all(exp.Select)))


class _Bounds:
    """Judges statements under one limit."""

    def __init__(self, max_limit: int, dialect: str | None, texts: frozenset[str]) -> None:
        self._max_limit, self._dialect = max_limit, dialect
        self._marks = Scope((), True, texts, dialect)
        self._zero_is_any = dialect is None or dialect in MYSQL_FAMILY
        self._known: dict[tuple[int, bool], bool] = {}

    def statement(self, node: Node, *, is_inner: bool = False) -> bool:
        if isinstance(node, exp.Update | exp.Delete):
            return self._limited(node) or self._change(node)
        if isinstance(node, exp.Insert):
            return self.statement(node.expression) if node.expression is not None else True
        if isinstance(node, exp.Values):
            return True
        if self._limited(node):
            return True
        if isinstance(node, exp.SetOperation):
            return self.statement(node.this, is_inner=is_inner) and self.statement(node.expression, is_inner=is_inner)
        if isinstance(node, exp.Subquery):
            return self.statement(node.this, is_inner=is_inner)
        if not isinstance(node, exp.Select):
            return False
        key = id(node), is_inner
        if key not in self._known:
            self._known[key] = self._select(node, is_inner)
        return self._known[key]

    def inner(self, select: Node) -> bool:
        """Tell whether a SELECT whose rows become one value is bounded before they do."""
        if collects(select):
            return self._select(select, is_inner=True)
        return not is_gathered(select) or self.statement(select, is_inner=True)

    def _limited(self, node: Node) -> bool:
        limit = node.args.get("limit")
        if limit is None or (isinstance(limit, exp.Limit) and limit.expressions):  # LIMIT 1 BY id: one for each id
            return False
        options = limit.args.get("limit_options")
        if options is not None and (options.args.get("percent") or options.args.get("with_ties")):
            return False
        number = whole_number(limit.args.get("count") if isinstance(limit, exp.Fetch) else limit.expression)
        return number is not None and 0 <= number <= self._max_limit

    def _select(self, select: Node, is_inner: bool) -> bool:
        if folds_to_one_row(select):
            return True
        if not all(is_short_series(series, self._max_limit) for series in series_of(select)):
            return False
        parts, where = parts_of(select), select.args.get("where")
        few = {index for index, part in enumerate(parts) if self._source(part)}
        start = {index for index in few if not isinstance(parts[index].source.node, exp.Lateral)}
        groups = components(parts, where) if where is not None else []
        whole = replace(scope_of(select, parts, self._marks), is_inner=is_inner, is_alone=len(groups) == 1)
        for group in groups:
            if self._predicate(where.this, replace(whole, sources=tuple(parts[index].source for index in group))):
                start |= group
        return len(few | reached(parts, where, start)) == len(parts)

    def _source(self, part: Part) -> bool:
        source = part.source
        if isinstance(source.node, exp.Values):
            return True
        if source.query is not None:
            return self.statement(source.query, is_inner=isinstance(source.node, exp.Lateral))
        if source.is_table:
            return False
        made = source.node.this if isinstance(source.node, exp.Table) else source.node
        return isinstance(made, exp.Func) and is_short_series(made, self._max_limit)

    def _change(self, change: Node) -> bool:
        where = change.args.get("where")
        if where is None:
            return False
        targets, alone = _targets(change, self._dialect)
        return bool(targets) and all(
            self._predicate(where.this, replace(self._marks, sources=(target,), is_alone=alone)) for target in targets
        )

    def _predicate(self, node: Node, scope: Scope) -> bool:
        node = node.unnest()
        if isinstance(node, exp.Or):
            return all(self._predicate(part, scope) for part in node.flatten())
        if isinstance(node, exp.And):
            parts = conditions(node)
            return any(self._predicate(part, scope) for part in parts) or self._two_ends(parts, scope)
        return self._comparison(node, scope)

    def _comparison(self, node: Node, scope: Scope) -> bool:
        if isinstance(node, exp.Escape):
            node = node.this
        if any(value for key, value in node.args.items() if key not in _UNDERSTOOD):
            return False
        if isinstance(node, exp.EQ | exp.NullSafeEQ):
            pairs = ((node.this, node.expression), (node.expression, node.this))
            return any(scope.has(left) and self._one_value(right, scope) for left, right in pairs)
        if isinstance(node, exp.In):
            return scope.has(node.this) and self._listed(node, scope)
        if isinstance(node, exp.Between):
            return scope.has(node.this) and self._narrow(node.this, node.args["low"], node.args["high"])
        if isinstance(node, exp.Like | exp.ILike):
            return scope.has(node.this) and is_telling_pattern(node.expression)
        return any(
            (tells_time(column, self._dialect) and bounding_end(end, value)) or self._is_row_number(column, end, value)
            for column, end, value in _ends(node, scope)
        )

    def _narrow(self, column: Node, low: Node, high: Node) -> bool:
        numbers = whole_number(low), whole_number(high)
        if self._zero_is_any and numbers[0] is not None and numbers[1] is not None and numbers[0] <= 0 <= numbers[1]:
            return False
        return is_narrow_range(low, high, max_rows=self._max_limit, of_times=tells_time(column, self._dialect))

    def _one_value(self, node: Node, scope: Scope) -> bool:
        if isinstance(node, exp.Subquery):
            return self.statement(node) and reads_itself_only(node, scope)
        if isinstance(node, exp.Any):
            inner = node.this.unnest()
            if isinstance(inner, exp.Query):
                return self.statement(inner) and reads_itself_only(inner, scope)
            return self._is_fixed(inner)
        return self._is_fixed(node) or is_outer(node, scope)

    def _listed(self, node: Node, scope: Scope) -> bool:
        query = node.args.get("query")
        if query is not None:
            return self.statement(query) and reads_itself_only(query, scope)
        values = node.expressions
        return bool(values) and all(map(self._is_fixed, values))

    def _is_fixed(self, node: Node) -> bool:
        return is_constant(node) and not (self._zero_is_any and may_equal_any_text(node))

    def _is_row_number(self, column: Node, end: str, value: Node) -> bool:
        """Tell whether a comparison is Oracle's way to write a limit."""
        if self._dialect != "oracle" or end != UPPER or column.name.upper() != "ROWNUM" or column.table:
            return False
        number = whole_number(value)
        return number is not None and number <= self._max_limit

    def _two_ends(self, parts: Iterable[Node], scope: Scope) -> bool:
        """Tell whether a lower and an upper end on one column make a range."""
        found: dict[tuple[str, str], tuple[Node, Node]] = {}
        for part in parts:
            for column, end, value in _ends(part, scope):
                found[column.sql().lower(), end] = column, value
        return any(
            self._narrow(node, low, found[name, UPPER][1])
            for (name, end), (node, low) in found.items()
            if end == LOWER and (name, UPPER) in found
        )


def _ends(node: Node, scope: Scope) -> Iterator[tuple[Node, str, Node]]:
    """Answer (column, LOWER or UPPER, constant) of a comparison, with the column brought to the left."""
    kind = type(node)
    if kind not in _FLIPPED:
        return
    column, value = node.this, node.expression
    if not scope.has(column):
        column, value, kind = value, column, _FLIPPED[kind]
    if scope.has(column) and is_constant(value):
        yield column, LOWER if kind in (exp.GT, exp.GTE) else UPPER, value


def _targets(change: Node, dialect: str | None) -> tuple[list[Source], bool]:
    """Answer the tables that a change touches, and whether the statement names no other table; none: it cannot be told."""
    table = change.this
    others = [change.args.get(key) for key in ("using", "from_", "from")]
    joins = table.args.get("joins") if isinstance(table, exp.Table) else None
    alone = not joins and not any(others)
    if dialect in _TARGET_MAY_BE_WITH and _names_a_with(change):
        return [], False
    if change.args.get("tables"):
        names = {one.alias_or_name.lower() for one in change.args["tables"]}
    elif isinstance(change, exp.Delete):
        names = {one.alias_or_name.lower() for one in (table, *(join.this for join in joins or ()))}
    elif joins:
        names = {item.this.table.lower() for item in change.expressions if isinstance(item.this, exp.Column)}
    else:
        names = {table.alias_or_name.lower()}
    if "" in names or _are_doubled(change):
        return [], False  # which of the tables is meant cannot be told
    nodes = {one.alias_or_name.lower(): one for one in change.find_all(exp.Table)}
    return [Source(nodes.get(name, table), name, True, None, ()) for name in sorted(names)], alone


def _are_doubled(change: Node) -> bool:
    """Tell whether two tables of one clause have the same name (`UPDATE a.t, b.t`)."""
    starts = [
        change.this,
        *(change.args.get("using") or ()),
        *filter(None, (change.args.get("from_"), change.args.get("from"))),
    ]
    for start in starts:
        names = [
            one.alias_or_name.lower() for one in start.find_all(exp.Table) if one.find_ancestor(exp.Select) is None
        ]
        if len(set(names)) < len(names):
            return True
    return False


def _names_a_with(change: Node) -> bool:
    """Tell whether a WITH has the name of what is changed: T-SQL then changes the tables behind it."""
    clause = change.args.get("with_") or change.args.get("with")
    names = {
        one.name.lower() for one in (change.this, *(change.args.get("tables") or ())) if isinstance(one, exp.Table)
    }
    return clause is not None and any(cte.alias.lower() in names for cte in clause.expressions)
