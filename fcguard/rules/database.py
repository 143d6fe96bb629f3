"""The rule that reads SQL with a parser and lets one statement of an allowed kind through."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from fcguard.errors import ConfigurationError, MissingExtraError
from fcguard.model.failure import ErrorType
from fcguard.rules.base import BaseRule
from fcguard.rules.parameters import ParameterRule, refusal
from fcguard.rules.protocols import RuleCall, Verdict
from fcguard.rules.selectors import Selector, selectors

if TYPE_CHECKING:
    from fcguard.rules.sql_names import SqlLimits

__all__ = ["sql"]

_BOUNDABLE = frozenset({"select", "insert", "update", "delete"})
_MAX_TEXT = 20_000
_MAX_LIMIT = 1000


def sql(
    *parameters: str,
    allow: Iterable[str] = ("select",),
    dialect: str | None = None,
    require_bound: bool | Iterable[str] = ("update", "delete"),
    max_limit: int | None = None,
    forbid_functions: Iterable[str] = (),
    allow_functions: Iterable[str] = (),
    tables: Iterable[str] | None = None,
) -> BaseRule:
    """Let one SQL statement of an allowed kind through, as a parser reads it (needs the extra `sql`).

    What the parser does not understand is refused, and so are several statements, nested changes, SELECT INTO, locks,
    files and other servers as tables, comments that some databases execute, and functions that act, wait or are unknown.
    `PARAM_INVALID`, or `PARAM_TOO_BROAD` where only a bound is missing. Not promised: what views, triggers and functions
    of the database do, and how long a statement runs; give the tool a database user with few rights and a time limit as well.

    Args:
        parameters: dotted paths; default: `sql`.
        allow: kinds of statements: select, insert, update, delete, merge, create, drop, alter, truncate. An INSERT that
            may change rows (ON CONFLICT DO UPDATE) needs `update` too.
        dialect: sqlglot's name of the dialect (`postgres`, `mysql`, `tsql`, `sqlite` ...). None: not known; then a text
            must mean the same in all common dialects.
        require_bound: kinds that need a WHERE or LIMIT that really bounds (select, insert, update, delete); True: all of
            these, False: none. A MERGE is not judged.
        max_limit: largest LIMIT (TOP, FETCH FIRST) that counts as a bound, and widest range of whole numbers. Where it is
            given, every SELECT that is a statement needs a bound, too. None: 1000, and only what `require_bound` names needs one.
        forbid_functions: names or globs, in lower case, in addition to the built-in list.
        allow_functions: names or globs, in lower case, that may be called although they are unknown or on the built-in list.
        tables: the only tables that may be named (`orders`, `public.orders`); None: any but those with credentials.

    Raises:
        ConfigurationError: an option is none of these.
        MissingExtraError: sqlglot is not installed.
    """
    reading = _reading()
    if dialect is not None and not reading.is_dialect(dialect):
        raise ConfigurationError(
            f"sql: sqlglot knows no dialect {dialect!r}; 'postgres', 'mysql', 'tsql', 'sqlite' are some that it knows"
        )
    must_bound = _boundable(require_bound)
    if max_limit is not None:
        if isinstance(max_limit, bool) or not isinstance(max_limit, int) or max_limit < 1:
            raise ConfigurationError(f"sql: max_limit must be a whole number of at least 1, got {max_limit!r}")
        if not must_bound:
            raise ConfigurationError(
                f"sql: max_limit={max_limit!r} bounds nothing with require_bound={require_bound!r}; leave one of them out"
            )
        must_bound |= {"select"}
    limits = reading.SqlLimits(
        _kinds(allow, reading.KINDS),
        dialect.lower() if dialect else None,
        must_bound,
        _MAX_LIMIT if max_limit is None else max_limit,
        tuple(sorted(_words(forbid_functions, "forbid_functions"))),
        tuple(sorted(_words(allow_functions, "allow_functions"))),
        None if tables is None else _words(tables, "tables") | frozenset(map(str, tables)),
    )
    return _Sql(selectors(parameters or ("sql",), "sql"), limits)


def _reading() -> Any:
    try:
        from fcguard.rules import sql_reading  # imported here, for it needs the extra
    except ImportError:
        raise MissingExtraError("sqlglot", "sql") from None
    sql_reading.silence_parser()
    return sql_reading


def _kinds(allow: Iterable[str], known: frozenset[str]) -> frozenset[str]:
    kinds = _words(allow, "allow")
    if not kinds or not kinds <= known:
        raise ConfigurationError(f"sql: allow={sorted(kinds)!r}: use {', '.join(sorted(known))}")
    return kinds


def _boundable(given: bool | Iterable[str]) -> frozenset[str]:
    if isinstance(given, bool):
        return _BOUNDABLE if given else frozenset()
    kinds = _words(given, "require_bound")
    if not kinds <= _BOUNDABLE:
        raise ConfigurationError(
            f"sql: require_bound={sorted(kinds)!r}: use True, False or {', '.join(sorted(_BOUNDABLE))}"
        )
    return kinds


def _words(given: Iterable[str], option: str) -> frozenset[str]:
    if isinstance(given, str):
        raise ConfigurationError(f"sql: {option}={given!r} is one text; write {{{given!r}}}")
    return frozenset(str(word).lower() for word in given)


@dataclass(frozen=True, slots=True, repr=False)
class _Sql(ParameterRule):
    name: ClassVar[str] = "sql"
    selectors: tuple[Selector, ...]
    limits: SqlLimits

    def examine(self, path: str, value: Any, call: RuleCall) -> Verdict:
        from fcguard.rules.sql_reading import find_fault  # imported here, for it needs the extra

        if not isinstance(value, str):
            return refusal(self.name, path, "must be one SQL statement, a text")
        if len(value) > _MAX_TEXT:
            return refusal(self.name, path, f"is longer than {_MAX_TEXT} characters")
        fault = find_fault(value, self.limits)
        if fault is None:
            return None
        message, is_broad = fault
        return refusal(
            self.name, path, message, code=ErrorType.PARAM_TOO_BROAD if is_broad else ErrorType.PARAM_INVALID
        )
