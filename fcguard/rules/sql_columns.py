"""Which names in an SQL predicate are columns of a table, so that a comparison with them leaves rows out."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from sqlglot import exp

from fcguard.rules.globs import word_set
from fcguard.rules.sql_sources import Part, Source, components, is_known, leaves, parts_of

__all__ = ["MYSQL_FAMILY", "Scope", "is_outer", "reads_itself_only", "scope_of", "tells_time"]

Node: TypeAlias = Any  # sqlglot's base class changed its name between versions

MYSQL_FAMILY: Final = frozenset({"mysql", "doris", "starrocks", "singlestore"})

_SAME_BREADTH: Final = (exp.Lower, exp.Upper, exp.Date, exp.TsOrDsToDate, exp.JSONExtract, exp.JSONExtractScalar)
_DAYS: Final = frozenset({"DATE", "DATE32", "DATETIME", "DATETIME2", "DATETIME64", "SMALLDATETIME"})
_CHARACTERS: Final = frozenset({"CHAR", "NCHAR", "BPCHAR"})
_NO_COLUMNS: Final = word_set(
    "tableoid current_role current_user session_user system_user current_catalog current_schema current_database "
    "sysdate systimestamp localtime localtimestamp dbtimezone sessiontimezone ora_rowscn connect_by_isleaf "
    "connect_by_iscycle ora_database_name"
)
"""Names that some database reads as something that is the same for every row."""
_USER_IS_A_FUNCTION: Final = frozenset(
    {None, "postgres", "redshift", "materialize", "risingwave", "duckdb", "oracle", "tsql", "fabric", "teradata"}
)
_ORACLE_ONLY: Final = frozenset({"uid", "level"})
_TEXT_OR_NAME: Final = frozenset({None, "sqlite", *MYSQL_FAMILY})
"""Dialects in which a name in double quotes can be a text."""

_TIME_WORDS: Final = word_set(
    "at on d dt ts date dates datetime time times timestamp day days month week year hour when since until start started end "
    "ended begin finished created updated modified changed deleted expire expires expired expiry expiration deadline due dob "
    "birthday utc seen sent received paid shipped published posted opened closed registered joined scheduled visited occurred "
    "recorded logged"
)
_TIME_ENDINGS: Final = re.compile(r"(?:date|time|timestamp|day|日期?|时间?|时刻|年|月)$")
_WORD_BOUNDS: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[_\W]+")


@dataclass(frozen=True, slots=True)
class Scope:
    """Which columns count as those of the rows in question.

    Attributes:
        sources: whose columns count.
        is_alone: whether a column without the name of its table is one of them.
        named: names that the SELECT gives to something else than a column; some databases know them in WHERE.
        texts: names that stand in double quotes in the statement.
        dialect: name of the dialect; None: not known.
        own: names of all sources of the query, these and others.
        doubled: names that more than one of them has, so that which is meant cannot be told.
        is_inner: whether columns of an outer query count as fixed values.
        memo: what is known of the outputs of queries already.
    """

    sources: tuple[Source, ...]
    is_alone: bool
    texts: frozenset[str]
    dialect: str | None
    named: frozenset[str] = frozenset()
    own: frozenset[str] = frozenset()
    doubled: frozenset[str] = frozenset()
    is_inner: bool = False
    memo: dict[tuple[int, str], bool | None] = field(default_factory=dict, compare=False)

    def has(self, node: Node) -> bool:
        """Tell whether a node is a column that counts, perhaps under a function that keeps its breadth."""
        node = node.unnest()
        if isinstance(node, exp.Tuple):
            return bool(node.expressions) and all(map(self.has, node.expressions))
        column = bare_column(node, self.dialect)
        if column is None or _is_no_column(column, self.dialect):
            return False
        name, table = column.name.lower(), column.table.lower()
        if table:
            sources = [source for source in self.sources if source.name == table]
            return len(sources) == 1 and table not in self.doubled and _has_column(sources[0], name, self) is True
        if not self.is_alone or name in self.named:
            return False
        if self.dialect in _TEXT_OR_NAME and column.this.quoted and column.name in self.texts:
            return False
        answers = [_has_column(source, name, self) for source in self.sources]
        return any(answers) and False not in answers


def scope_of(select: Node, parts: list[Part], like: Scope) -> Scope:
    """Answer the scope of all sources of a SELECT, with the marks of `like`."""
    shown = [one for one in select.expressions if isinstance(one, exp.Alias) and not isinstance(one.this, exp.Column)]
    named = frozenset(one.alias.lower() for one in shown)
    sources = tuple(part.source for part in parts)
    own = Counter(source.name for source in sources)
    doubled = frozenset(name for name, count in own.items() if count > 1)
    return Scope(sources, True, like.texts, like.dialect, named, frozenset(own), doubled, like.is_inner, like.memo)


def bare_column(node: Node, dialect: str | None) -> Node | None:
    """Answer the column under functions and casts that keep its breadth; None if it is none."""
    node = node.unnest()
    while _keeps_breadth(node, dialect):
        node = node.this
    return node if isinstance(node, exp.Column) and not isinstance(node.this, exp.Star) else None


def _keeps_breadth(node: Node, dialect: str | None) -> bool:
    """Tell whether a function or cast answers as many values as it is given: not the first letter, not the time of the day."""
    if isinstance(node, exp.Trim):
        return node.args.get("expression") is None
    if not isinstance(node, exp.Cast) or isinstance(node, exp.TryCast):
        return isinstance(node, _SAME_BREADTH)
    if not isinstance(node.to, exp.DataType):
        return False
    kind = getattr(node.to.this, "name", str(node.to.this))
    if kind in _DAYS or kind.startswith("TIMESTAMP"):
        return True
    if kind in _CHARACTERS and dialect not in MYSQL_FAMILY:
        return False  # one character, where no length is written
    return bool(node.to.is_type(*exp.DataType.TEXT_TYPES)) and not node.to.expressions


def _is_no_column(column: Node, dialect: str | None) -> bool:
    """Tell whether a database reads the name as something that is the same for every row."""
    name = column.name.lower()
    if column.this.quoted:
        return False
    if name == "tableoid":
        return True
    return not column.table and (
        name in _NO_COLUMNS
        or (name == "user" and dialect in _USER_IS_A_FUNCTION)
        or (name in _ORACLE_ONLY and dialect == "oracle")
    )


def _has_column(source: Source, name: str, scope: Scope) -> bool | None:
    """Tell whether a name is a column of a table behind a source; None if the source says nothing about the name."""
    if source.is_table:
        return True
    if source.query is None or source.columns:
        return False if name in source.columns or name == source.name else None
    key = id(source.query), name
    if key not in scope.memo:
        answers = [_outputs(leaf, name, scope) for leaf in leaves(source.query)]
        scope.memo[key] = None if all(answer is None for answer in answers) else all(answers)
    return scope.memo[key]


def _outputs(select: Node, name: str, scope: Scope) -> bool | None:
    """Tell whether an output of a query is a column of a table, all the way down; None if it has none of that name."""
    if not isinstance(select, exp.Select):
        return False
    parts = parts_of(select)
    inner = scope_of(select, parts, scope)
    is_one = len(components(parts, select.args.get("where"))) == 1
    shown = [one for one in select.expressions if one.alias_or_name.lower() == name and not one.is_star]
    if shown:
        column = bare_column(shown[0].unalias(), scope.dialect)
        return is_one and column is not None and inner.has(column)
    stars = [star for shown in select.expressions for star in shown.find_all(exp.Star)]
    if not select.is_star or any(star.args.get("replace") or star.args.get("rename") for star in stars):
        return False if select.is_star else None
    answers = [_has_column(part.source, name, scope) for part in parts]
    return is_one and any(answers) and False not in answers


def reads_itself_only(query: Node, scope: Scope) -> bool:
    """Tell whether a subquery answers values of its own, whatever row of the outer query it is asked for.

    `id IN (SELECT id FROM u)` holds for every row if `u` has no column `id`, for the name then means the outer table's. So
    what an inner SELECT answers is written with its table, or comes from the table of the outer query itself.
    """
    if any(column.table and not is_known(column, query) for column in query.find_all(exp.Column)):
        return False
    return all(_is_self_contained(leaf, scope) for leaf in leaves(query))


def _is_self_contained(leaf: Node, scope: Scope) -> bool:
    if not isinstance(leaf, exp.Select):
        return next(leaf.find_all(exp.Column), None) is None
    bare = {
        column.name.lower() for shown in leaf.expressions for column in shown.find_all(exp.Column) if not column.table
    }
    sources = [part.source for part in parts_of(leaf)]
    one = sources[0] if len(sources) == len(scope.sources) == 1 and scope.is_alone else None
    if one is not None and one.is_table and one.node.name.lower() == scope.sources[0].node.name.lower():
        return True
    aggregated = {
        column.name.lower()
        for shown in leaf.expressions
        for aggregate in shown.find_all(exp.AggFunc)
        for column in aggregate.find_all(exp.Column)
    }
    if aggregated == bare and any(source.is_table for source in sources):
        return True  # databases refuse an aggregate over columns of the outer query in WHERE
    return all(any(_has_column(source, name, scope) for source in sources if not source.is_table) for name in bare)


def is_outer(node: Node, scope: Scope) -> bool:
    """Tell whether a node is a column of a query around this one, which is fixed while this one runs."""
    column = bare_column(node, scope.dialect)
    return bool(scope.is_inner and column is not None and column.table and column.table.lower() not in scope.own)


def tells_time(node: Node, dialect: str | None) -> bool:
    """Tell whether the name of a column says that it holds times: only there one end of a range leaves rows out."""
    column = bare_column(node, dialect)
    if column is None:
        return False
    words = [word.lower() for word in _WORD_BOUNDS.split(column.name) if word] or [""]
    return words[-1] in _TIME_WORDS or words[0] == "gmt" or _TIME_ENDINGS.search(words[-1]) is not None
