"""Where the rows of an SQL query come from: tables, queries and functions, and which of them equal columns hold together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias

from sqlglot import exp

__all__ = [
    "Part",
    "Source",
    "components",
    "conditions",
    "cte_of",
    "is_known",
    "leaves",
    "parts_of",
    "reached",
    "source_of",
]

Node: TypeAlias = Any  # sqlglot's base class changed its name between versions


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """Something that rows come from.

    Attributes:
        node: the parsed table, query or function.
        name: by which its columns are qualified, in lower case; empty: none.
        is_table: whether it is a table of the database.
        query: the query whose rows it holds (a subquery, a WITH); None: a table, a function or constants.
        columns: names that its alias gives to its columns, in lower case.
    """

    node: Node
    name: str
    is_table: bool
    query: Node | None
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """One source of a query, with the join that brought it in; None for the first, and for a comma."""

    source: Source
    join: Node | None


def source_of(node: Node) -> Source:
    """Answer what a node in FROM stands for."""
    alias = node.args.get("alias")
    columns = tuple(column.name.lower() for column in (alias.args.get("columns") or () if alias is not None else ()))
    pivots = node.args.get("pivots") or ()
    name = str((pivots[-1].alias if pivots else "") or node.alias_or_name).lower()
    query: Node | None = None
    is_table = False
    if isinstance(node, exp.Subquery):
        query = node.this
    elif isinstance(node, exp.Lateral):
        query = node.this.this if isinstance(node.this, exp.Subquery) else None
    elif isinstance(node, exp.Table) and isinstance(node.this, exp.Identifier | exp.Dot):
        cte = cte_of(node)
        is_table, query = cte is None, None if cte is None or _is_within(node, cte) else cte.this
    return Source(node, name, is_table, query, columns)


def parts_of(select: Node) -> list[Part]:
    """Answer the sources of a SELECT in their order, joins in parentheses taken apart."""
    found: list[Part] = []
    start = select.args.get("from_") or select.args.get("from")
    if start is not None:
        found += _flat(start.this, None)
    for join in select.args.get("joins") or ():
        found += _flat(join.this, join)
    found += [Part(source_of(lateral), None) for lateral in select.args.get("laterals") or ()]
    return found


def _flat(node: Node, join: Node | None) -> Iterator[Part]:
    is_group = isinstance(node, exp.Subquery) and isinstance(node.this, exp.Table | exp.Subquery) and not node.alias
    if is_group:
        yield from _flat(node.this, join)
    else:
        yield Part(source_of(node), join)
    for inner in node.args.get("joins") or ():
        yield from _flat(inner.this, inner)


def leaves(query: Node) -> Iterator[Node]:
    """Answer the SELECTs and VALUES that a query unites."""
    if isinstance(query, exp.SetOperation):
        yield from leaves(query.this)
        yield from leaves(query.expression)
    elif isinstance(query, exp.Subquery):
        yield from leaves(query.this)
    else:
        yield query


def conditions(node: Node) -> list[Node]:
    """Answer the parts of a condition that all have to hold."""
    node = node.unnest()
    return [part.unnest() for part in node.flatten()] if isinstance(node, exp.And) else [node]


def components(parts: list[Part], where: Node | None) -> list[frozenset[int]]:
    """Answer the groups of sources that equal columns hold together; rows of different groups are all combined."""
    groups = [{index} for index in range(len(parts))]
    for left, right in _edges(parts, where, is_directed=False):
        one = next(group for group in groups if left in group)
        other = next(group for group in groups if right in group)
        if one is not other:
            one |= other
            groups.remove(other)
    return [frozenset(group) for group in groups]


def reached(parts: list[Part], where: Node | None, start: Iterable[int]) -> frozenset[int]:
    """Answer the sources that give few rows if those of `start` do.

    An outer join passes that on in one direction; a function over columns gives few rows for each row that it is asked for.
    """
    edges = [*_edges(parts, where, is_directed=True), *_applied(parts)]
    found = set(start)
    before = -1
    while before != len(found):
        before = len(found)
        found |= {right for left, right in edges if left in found}
    return frozenset(found)


def _edges(parts: list[Part], where: Node | None, *, is_directed: bool) -> Iterator[tuple[int, int]]:
    index = {part.source.name: number for number, part in enumerate(parts)}
    if len(index) < len(parts):
        return  # two sources of one name: which is meant cannot be told
    for left, right in _equalities(where, index):
        yield from ((left, right), (right, left))
    for number, part in enumerate(parts):
        if part.join is not None:
            yield from _joined(part.join, number, index, is_directed)


def _joined(join: Node, number: int, index: dict[str, int], is_directed: bool) -> Iterator[tuple[int, int]]:
    side = (join.side or join.kind or "").upper()
    pairs = list(_equalities(join.args.get("on"), index))
    if join.args.get("using") and number == 1:  # with more sources before it, whose column it is cannot be told
        pairs.append((0, 1))
    for pair in pairs:
        earlier, later = sorted(pair)
        if later != number and side in ("LEFT", "RIGHT", "FULL"):
            continue  # the condition of an outer join does not leave out what stands before it
        if not is_directed or side not in ("RIGHT", "FULL"):
            yield earlier, later
        if not is_directed or side not in ("LEFT", "FULL", "ANTI"):
            yield later, earlier


def _equalities(condition: Node | None, index: dict[str, int]) -> Iterator[tuple[int, int]]:
    if condition is None:
        return
    for part in conditions(condition.this if isinstance(condition, exp.Where) else condition):
        if isinstance(part, exp.EQ) and isinstance(part.this, exp.Column) and isinstance(part.expression, exp.Column):
            left, right = (index.get(side.table.lower(), -1) for side in (part.this, part.expression))
            if left != right and min(left, right) >= 0:
                yield left, right


def _applied(parts: list[Part]) -> Iterator[tuple[int, int]]:
    """Answer (source, function) for each function that takes columns of a source (`unnest(t.tags)`)."""
    for number, part in enumerate(parts):
        source = part.source
        if source.is_table or source.query is not None or isinstance(source.node, exp.Subquery | exp.Values):
            continue
        columns = list(source.node.find_all(exp.Column))
        for other, before in enumerate(parts):
            if other != number and any(
                column.table.lower() == before.source.name if column.table else len(parts) == 2 for column in columns
            ):
                yield other, number


def is_known(column: Node, query: Node) -> bool:
    """Tell whether the table of a column is one of the query, seen from where the column stands."""
    node, name = column.parent, column.table.lower()
    while node is not None:
        if isinstance(node, exp.Select) and any(part.source.name == name for part in parts_of(node)):
            return True
        if node is query:
            return False
        node = node.parent
    return False


def cte_of(table: Node) -> Node | None:
    """Answer the WITH whose name a table is, if one is in scope there; None if it is a table of the database."""
    changes = isinstance(table.parent, exp.Insert | exp.Update | exp.Delete | exp.Merge) and table.arg_key in (
        "this",
        "tables",
    )
    if table.db or changes or isinstance(table.parent, exp.Schema):
        return None  # what is changed is a real table, whatever a WITH calls itself
    node, within = table.parent, None
    while node is not None:
        within = node if isinstance(node, exp.CTE) else within
        clause = node.args.get("with_") or node.args.get("with")
        for cte in clause.expressions if clause is not None else ():
            if cte is within and not clause.args.get("recursive"):
                break  # without RECURSIVE a name is known after its own definition only
            if _is_same_name(table.this, cte.args["alias"].this):
                return cte
            if cte is within:
                break
        node = node.parent
    return None


def _is_same_name(left: Node, right: Node) -> bool:
    if left.quoted or right.quoted:
        return bool(left.quoted and right.quoted and left.name == right.name)
    return bool(left.name.lower() == right.name.lower())


def _is_within(node: Node, ancestor: Node) -> bool:
    while node is not None and node is not ancestor:
        node = node.parent
    return node is ancestor
