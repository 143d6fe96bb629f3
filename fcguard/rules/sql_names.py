"""What an SQL statement names: functions that act, tables that are files, other servers or hold credentials."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from sqlglot import exp

from fcguard.rules.sql_functions import FORBIDDEN_FUNCTIONS, HARMLESS_FUNCTIONS, SECRET_TABLES, is_listed
from fcguard.rules.sql_sources import cte_of
from fcguard.rules.sql_text import SqlFault
from fcguard.rules.sql_volume import makes_long_text

__all__ = ["SqlLimits", "check_node"]

Node: TypeAlias = Any  # sqlglot's base class changed its name between versions

_LOCK_HINTS: Final = frozenset({"TABLOCK", "TABLOCKX", "XLOCK", "UPDLOCK", "HOLDLOCK", "SERIALIZABLE"})
_PACKAGES: Final = ("utl_*.", "dbms_*.", "owa_*.", "ctxsys.")
_FILE_MARKS: Final = frozenset("/\\:*")
_FILE_ENDING: Final = re.compile(
    r"\.(?:[ct]sv|jsonl?|ndjson|geojson|parquet|pq|orc|avro|arrow|feather|ipc|xlsx?|ods|db|sqlite3?|duckdb|gpkg|shp|txt|log|xml"
    r"|ya?ml|toml|ini|conf|env|key|pem|html?|gz|zst|bz2|xz|lz4|zip|7z|tar)$",
    re.IGNORECASE,
)
_CASE_COUNTS: Final = frozenset(
    {"postgres", "redshift", "materialize", "risingwave", "oracle", "snowflake", "teradata"}
)
"""Dialects in which a quoted name of another case is another table."""


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
    """As they were written, and in lower case."""


def check_node(node: Node, limits: SqlLimits) -> None:
    """Check one node of a statement.

    Raises:
        SqlFault: it locks, sets, draws from a sequence, calls a function or names a table that is not allowed.
    """
    if isinstance(node, exp.Lock) and "update" not in limits.allow:
        raise SqlFault("locks rows (FOR UPDATE or SHARE); leave that out")
    if isinstance(node, exp.WithTableHint):
        words = {part.name.upper() for part in node.expressions}
        if words & _LOCK_HINTS and "update" not in limits.allow:
            raise SqlFault("asks for locks in a table hint; leave that out")
    if isinstance(node, exp.PropertyEQ) and isinstance(node.this, exp.Parameter | exp.SessionParameter):
        raise SqlFault("assigns a variable of the session; leave that out")
    if isinstance(node, exp.Select) and node.args.get("settings"):
        raise SqlFault("changes settings of the server; leave that out")
    if isinstance(node, exp.Table):
        _check_table(node, limits)
    elif isinstance(node, exp.Func):
        _check_function(node, limits)
    elif isinstance(node, exp.Column) and node.table:
        _check_qualified(node, limits)


def _check_qualified(column: Node, limits: SqlLimits) -> None:
    """Refuse what some databases call without arguments like a column: package.function, sequence.nextval."""
    name = f"{column.table}.{column.name}".lower()
    is_package = is_listed(column.table.lower() + ".", _PACKAGES) and not is_listed(name, limits.allow_functions)
    if is_package or is_listed(name, limits.forbid_functions):
        raise SqlFault(f"calls {name!r}, which is forbidden")
    if column.name.lower() == "nextval" and not column.this.quoted and not is_listed("nextval", limits.allow_functions):
        raise SqlFault(f"draws from a sequence ({name!r}), which is forbidden")


def _check_function(node: Node, limits: SqlLimits) -> None:
    if makes_long_text(node):
        raise SqlFault("makes a long text out of a short one; repeat and pad to at most 10000 characters")
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
    is_file = not _FILE_MARKS.isdisjoint(name) or _FILE_ENDING.search(name) is not None
    if is_file or (limits.dialect == "duckdb" and "." in name):
        raise SqlFault(f"reads from a file or address ({name[:40]!r}); name a table")
    full = ".".join(part.name.lower() for part in table.parts)
    tails = {full, *(full.split(".", count)[-1] for count in range(1, full.count(".") + 1))}
    is_elsewhere = "@" in name or (limits.dialect in ("tsql", "fabric") and len(table.parts) > 3)
    if not tails.isdisjoint(SECRET_TABLES) or is_elsewhere:
        raise SqlFault(f"reads {full!r}, which holds credentials or lies on another server")
    if limits.tables is not None and not _is_allowed(table, full, limits) and cte_of(table) is None:
        raise SqlFault(f"touches the table {full!r}; allowed: {', '.join(sorted(limits.tables)) or 'none'}")


def _is_allowed(table: Node, full: str, limits: SqlLimits) -> bool:
    tables = limits.tables or frozenset()
    written = ".".join(part.name if part.quoted else part.name.lower() for part in table.parts)
    if limits.dialect in _CASE_COUNTS and written != full:
        return written in tables or (written.upper() == written and full in tables)
    return full in tables
