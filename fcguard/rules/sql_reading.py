"""Reads one SQL statement and says what it would do that is not allowed; the part of the `sql` rule that needs sqlglot."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, TypeAlias

from sqlglot import Token, TokenType, exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ErrorLevel

from fcguard.rules.sql_bounds import is_bounded
from fcguard.rules.sql_functions import FORBIDDEN_FUNCTIONS, HARMLESS_FUNCTIONS, SECRET_TABLES, is_listed
from fcguard.rules.sql_text import CHANGES, SqlFault, readable_tokens

__all__ = ["KINDS", "SqlLimits", "find_fault", "is_dialect", "silence_parser"]

Node: TypeAlias = Any  # sqlglot's base class changed its name between versions

_READING: Final[ContextVar[bool]] = ContextVar("fcguard_reading_sql", default=False)

_KIND_OF: Final[tuple[tuple[type[Any], str], ...]] = (
    (exp.Insert, "insert"),
    (exp.Update, "update"),
    (exp.Delete, "delete"),
    (exp.Merge, "merge"),
    (exp.Create, "create"),
    (exp.Drop, "drop"),
    (exp.Alter, "alter"),
    (exp.TruncateTable, "truncate"),
    (exp.Query, "select"),
    (exp.Values, "select"),
)
KINDS: Final = frozenset(kind for _, kind in _KIND_OF)
"""Kinds of statements that can be allowed."""

_FIRST_OF_SELECT: Final = frozenset({"SELECT", "VALUES", "FROM", "TABLE"})
_FIRST_OF_ANY: Final = frozenset({"WITH", "("})
_ACTING: Final = (
    *(
        exp.Command,
        exp.Into,
        exp.Copy,
        exp.Set,
        exp.SetItem,
        exp.Use,
        exp.Kill,
        exp.Pragma,
        exp.Attach,
        exp.Detach,
        exp.Describe,
        exp.Show,
    ),
    *(
        exp.Transaction,
        exp.Commit,
        exp.Rollback,
        exp.Grant,
        exp.Revoke,
        exp.Analyze,
        exp.LoadData,
        exp.Cache,
        exp.Uncache,
        exp.Comment,
    ),
    *(exp.QueryTransform, exp.NextValueFor, exp.Export, exp.Semicolon, exp.Block, exp.Execute, exp.Declare),
)
"""Nodes that do something, wherever they stand."""

_LOCK_HINTS: Final = frozenset({"TABLOCK", "TABLOCKX", "XLOCK", "UPDLOCK", "HOLDLOCK", "SERIALIZABLE"})
_FILE_MARKS: Final = frozenset("/\\:*")
_FILE_ENDINGS: Final = (
    ".csv",
    ".tsv",
    ".json",
    ".jsonl",
    ".ndjson",
    ".parquet",
    ".orc",
    ".avro",
    ".xlsx",
    ".db",
    ".sqlite",
    ".duckdb",
    ".txt",
    ".gz",
)


@dataclass(frozen=True, slots=True)
class SqlLimits:
    """The compiled options of the `sql` rule."""

    allow: frozenset[str]
    dialect: str | None
    require_bound: frozenset[str]
    max_limit: int
    forbid_functions: tuple[str, ...]
    allow_functions: tuple[str, ...]
    tables: frozenset[str] | None


def is_dialect(name: str) -> bool:
    """Tell whether sqlglot knows a dialect of this name."""
    return Dialect.get(name) is not None


class _Silence(logging.Filter):
    """Keeps the statements that this module reads out of the parser's log."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not _READING.get()


@lru_cache(maxsize=1)
def silence_parser() -> None:
    """Have the parser log nothing of what this module reads; its log would hold the statement's text."""
    logging.getLogger("sqlglot").addFilter(_Silence())


def find_fault(text: str, limits: SqlLimits) -> tuple[str, bool] | None:
    """Answer why a statement may not run, and whether it is only too broad; None if it may run."""
    token = _READING.set(True)
    try:
        return _find_fault(text, limits)
    finally:
        _READING.reset(token)


def _find_fault(text: str, limits: SqlLimits) -> tuple[str, bool] | None:
    try:
        statement = _parse(text, limits)
        _check_kinds(statement, limits)
        for node in statement.walk():
            _check_node(node, limits)
    except SqlFault as fault:
        return str(fault), False
    except RecursionError:
        return "is nested too deeply", False
    return _too_broad(statement, limits)


def _parse(text: str, limits: SqlLimits) -> Node:
    dialect = Dialect.get_or_raise(limits.dialect)
    tokens = readable_tokens(text, dialect, limits.dialect)
    first = next((token.text.upper() for token in tokens if token.token_type != TokenType.L_PAREN), "(")
    if first not in _first_words(limits.allow):  # a parser that does not know a word may log the text; it never sees it
        raise SqlFault(f"begins with {first[:20]!r}; allowed are statements of the kinds: {_listed(limits.allow)}")
    try:
        parsed = dialect.parser(error_level=ErrorLevel.RAISE).parse(tokens, text)
    except RecursionError:
        raise
    except Exception:  # whatever a parser raises on a stranger's text means that it is not understood
        of = f" of the dialect {limits.dialect!r}" if limits.dialect else ""
        raise SqlFault(f"is not understood as one statement{of}; write one plain statement") from None
    if len(parsed) != 1 or parsed[0] is None:
        raise SqlFault("holds more than one statement, or none; send one")
    _check_aliases(parsed[0], tokens, limits)
    return parsed[0]


def _first_words(kinds: frozenset[str]) -> frozenset[str]:
    words = frozenset(kind.upper() for kind in kinds) | _FIRST_OF_ANY
    return words | _FIRST_OF_SELECT if "select" in kinds else words


def _check_aliases(statement: Node, tokens: list[Token], limits: SqlLimits) -> None:
    """Refuse a name that is a statement's first word: a database may see a second statement where the parser sees a name."""
    if limits.dialect not in (None, "tsql", "fabric"):
        return
    for name in statement.find_all(exp.Identifier):
        if not name.quoted and name.name.upper() in CHANGES:
            raise SqlFault(f"uses {name.name!r} as a name; quote it")


def _check_kinds(statement: Node, limits: SqlLimits) -> None:
    for node in statement.walk():
        if isinstance(node, _ACTING):
            raise SqlFault(f"does more than read or change rows ({type(node).__name__}); leave that out")
        kinds = _kinds(node)
        if not kinds <= limits.allow and not (kinds == {"select"} and node is not statement):
            missing = min(kinds - limits.allow)
            raise SqlFault(f"holds a statement of the kind {missing!r}; allowed: {_listed(limits.allow)}")
    if not _kinds(statement):
        raise SqlFault(f"is a statement of an unknown kind; allowed: {_listed(limits.allow)}")


def _kinds(node: Node) -> frozenset[str]:
    if isinstance(node, exp.Drop) and isinstance(node.parent, exp.Alter):
        return frozenset({"alter"})  # DROP COLUMN
    for kind, name in _KIND_OF:
        if isinstance(node, kind):
            return frozenset({name, "update"}) if name == "insert" and _replaces(node) else frozenset({name})
    return frozenset()


def _replaces(insert: Node) -> bool:
    """Tell whether an INSERT may change rows that are there already."""
    conflict = insert.args.get("conflict")
    replaces = insert.args.get("overwrite") or (insert.args.get("alternative") or "").upper() in ("REPLACE", "UPDATE")
    return bool(replaces or (conflict is not None and conflict.expressions) or insert.args.get("is_replace"))


def _check_node(node: Node, limits: SqlLimits) -> None:
    if isinstance(node, exp.Lock) and "update" not in limits.allow:
        raise SqlFault("locks rows (FOR UPDATE or SHARE); leave that out")
    if isinstance(node, exp.WithTableHint):
        words = {part.name.upper() for part in node.expressions}
        if words & _LOCK_HINTS and "update" not in limits.allow:
            raise SqlFault("asks for locks in a table hint; leave that out")
    if isinstance(node, exp.Table):
        _check_table(node, limits)
    elif isinstance(node, exp.Func):
        _check_function(node, limits)
    elif isinstance(node, exp.Column) and node.table:
        # Some databases call a function without arguments like a column: package.function
        name = f"{node.table}.{node.name}".lower()
        if is_listed(node.table.lower() + ".", tuple(f"{glob}." for glob in _PACKAGES)) or is_listed(
            name, limits.forbid_functions
        ):
            raise SqlFault(f"calls {name!r}, which is forbidden")


_PACKAGES: Final = ("utl_*", "dbms_*", "owa_*", "ctxsys")


def _check_function(node: Node, limits: SqlLimits) -> None:
    names = _function_names(node)
    if any(is_listed(name, limits.allow_functions) for name in names):
        return
    for name in names:
        if is_listed(name, limits.forbid_functions) or is_listed(name, FORBIDDEN_FUNCTIONS):
            raise SqlFault(f"calls the function {name!r}, which is forbidden")
    if isinstance(node, exp.Anonymous | exp.AnonymousAggFunc) and not any(
        name.rsplit(".", 1)[-1] in HARMLESS_FUNCTIONS for name in names
    ):
        raise SqlFault(
            f"calls the function {names[0]!r}, which is not known to be harmless; allow it in the rule if it is"
        )


def _function_names(node: Node) -> list[str]:
    if isinstance(node, exp.Anonymous | exp.AnonymousAggFunc):
        names = [str(node.name).lower()]
    else:
        names = [name.lower() for name in node.sql_names()] + [str(node.meta.get("name") or "").lower()]
    prefix: list[str] = []
    parent = node.parent
    while isinstance(parent, exp.Dot):
        prefix = [part.name.lower() for part in parent.this.walk() if isinstance(part, exp.Identifier)] + prefix
        parent = parent.parent
    if isinstance(parent, exp.Table):
        prefix = [part for part in (parent.catalog.lower(), parent.db.lower()) if part] + prefix
    return [".".join((*prefix, name)) for name in names if name]


def _check_table(table: Node, limits: SqlLimits) -> None:
    if table.args.get("rows_from") or isinstance(table.this, exp.Func):
        return
    if not isinstance(table.this, exp.Identifier | exp.Dot):
        raise SqlFault("reads from something that is not a plain table; name a table")
    name = table.name
    if not _FILE_MARKS.isdisjoint(name) or name.lower().endswith(_FILE_ENDINGS):
        raise SqlFault(f"reads from a file or address ({name[:40]!r}); name a table")
    full = ".".join(part.name.lower() for part in table.parts)
    tails = {full, *(full.split(".", count)[-1] for count in range(1, full.count(".") + 1))}
    if not tails.isdisjoint(SECRET_TABLES) or "@" in name:
        raise SqlFault(f"reads {full!r}, which holds credentials or lies on another server")
    if limits.tables is not None and full not in limits.tables and not _is_cte(table):
        raise SqlFault(f"touches the table {full!r}; allowed: {_listed(limits.tables)}")


def _is_cte(table: Node) -> bool:
    """Tell whether a table's name is that of a common table expression that is in scope there."""
    changes = isinstance(table.parent, exp.Insert | exp.Update | exp.Delete | exp.Merge) and table.arg_key in (
        "this",
        "tables",
    )
    if table.db or changes or isinstance(table.parent, exp.Schema):
        return False  # what is changed is a real table, whatever a WITH calls itself
    node, within = table.parent, None
    while node is not None:
        within = node if isinstance(node, exp.CTE) else within
        clause = node.args.get("with_") or node.args.get("with")
        for cte in clause.expressions if clause is not None else ():
            if cte is within and not clause.args.get("recursive"):
                break  # without RECURSIVE a name is known after its own definition only
            if _same_name(table.this, cte.args["alias"].this):
                return True
            if cte is within:
                break
        node = node.parent
    return False


def _same_name(left: Node, right: Node) -> bool:
    if left.quoted or right.quoted:
        return bool(left.quoted and right.quoted and left.name == right.name)
    return bool(left.name.lower() == right.name.lower())


def _too_broad(statement: Node, limits: SqlLimits) -> tuple[str, bool] | None:
    for node in _judged(statement, limits):
        if not is_bounded(node, limits.max_limit, limits.dialect):
            changes = isinstance(node, exp.Update | exp.Delete)
            limit = "" if changes else f", or a LIMIT of at most {limits.max_limit}"
            return (
                f"is not bounded: add a WHERE that names rows (id = ..., IN (...), a range with two ends, a time range){limit}",
                True,
            )
    return None


def _judged(statement: Node, limits: SqlLimits) -> Iterator[Node]:
    """Answer the statements that have to be bounded: the outer one, and every change inside it."""
    if next(iter(_kinds(statement) & limits.require_bound), None) is not None:
        yield statement
    for node in statement.find_all(exp.Update, exp.Delete):
        of_merge = isinstance(node.parent, exp.When)  # a MERGE is bounded by its ON, which is not judged
        if node is not statement and not of_merge and not _kinds(node).isdisjoint(limits.require_bound):
            yield node


def _listed(words: frozenset[str]) -> str:
    return ", ".join(sorted(words)) or "none"
