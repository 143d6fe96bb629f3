"""Reads one SQL statement and says what it would do that is not allowed; the part of the `sql` rule that needs sqlglot."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextvars import ContextVar
from functools import lru_cache
from typing import Any, Final, TypeAlias

from sqlglot import Token, TokenType, exp
from sqlglot.dialects.dialect import Dialect
from sqlglot.errors import ErrorLevel

from fcguard.rules.sql_bounds import is_bounded
from fcguard.rules.sql_names import SqlLimits, check_node
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
        statement, texts = _parse(text, limits)
        _check_kinds(statement, limits)
        for node in statement.walk():
            check_node(node, limits)
        return _too_broad(statement, limits, texts)
    except SqlFault as fault:
        return str(fault), False
    except RecursionError:
        return "is nested too deeply", False


def _parse(text: str, limits: SqlLimits) -> tuple[Node, frozenset[str]]:
    """Answer the parsed statement, and the names that stand in double quotes in it."""
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
    return parsed[0], frozenset(token.text for token in tokens if text[token.start : token.start + 1] == '"')


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


def _too_broad(statement: Node, limits: SqlLimits, texts: frozenset[str]) -> tuple[str, bool] | None:
    for node in _judged(statement, limits):
        if not is_bounded(node, limits.max_limit, limits.dialect, texts):
            changes = isinstance(node, exp.Update | exp.Delete)
            limit = "" if changes else f", or a LIMIT of at most {limits.max_limit}"
            message = (
                f"is not bounded: add a WHERE that names rows (id = ..., IN (...), a narrow range with two ends, a time range){limit};"
                " with several tables or an inner SELECT, write columns with their table (t.id) and join by equal columns"
            )
            return message, True
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
