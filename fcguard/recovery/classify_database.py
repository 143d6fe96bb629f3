"""Databases: what SQLSTATE codes, SQLite result codes and driver exceptions mean, and what they prove about a write."""

from __future__ import annotations

import dis
import re
from typing import Any, Final

from fcguard.model.failure import ErrorType
from fcguard.recovery.chain import names_of, read
from fcguard.recovery.connecting import passed_connect
from fcguard.recovery.proof import Answer

__all__ = ["DRIVER_ERRORS", "SQLITE_CODES", "SQLSTATES", "database_answer"]

_E = ErrorType

_NO_CONNECTION: Final = Answer(_E.CONNECTION_FAILED, "not_sent", "the connection to the database was never made")
_NO_FREE_CONNECTION: Final = Answer(_E.TIMEOUT, "not_sent", "no connection of the pool became free in time")
_LOST: Final = Answer(_E.CONNECTION_FAILED, "unknown", "the connection was lost; a commit may have been under way")
_ROLLED_BACK: Final = Answer(_E.DEPENDENCY_ERROR, "refused", "the database rolled the transaction back")
_BROKE_RULE: Final = Answer(_E.PRECONDITION_FAILED, "refused", "the data breaks a constraint of the database")
_BAD_VALUE: Final = Answer(_E.PARAM_INVALID, "refused", "the database found a value wrong")
_BAD_STATEMENT: Final = Answer(_E.TOOL_ERROR, "refused", "the database found the statement wrong")
_NOT_ALLOWED: Final = Answer(_E.PERMISSION_DENIED, "refused", "the database does not allow it")
_BUSY: Final = Answer(_E.DEPENDENCY_ERROR, "refused", "the database was locked when the statement began")
_BUSY_SOMEWHERE: Final = Answer(_E.DEPENDENCY_ERROR, "unknown", "the database was locked, perhaps at the commit")
_TROUBLE: Final = Answer(_E.DEPENDENCY_ERROR, "unknown", "the database is in trouble")
_MISUSED: Final = Answer(_E.TOOL_ERROR, "unknown", "the database driver was misused")

SQLSTATES: Final[dict[str, Answer]] = {
    "08001": _NO_CONNECTION,
    "08004": _NO_CONNECTION,
    "08": _LOST,
    "0A": _BAD_STATEMENT,
    "21": _BAD_STATEMENT,
    "22": _BAD_VALUE,
    "23502": _BAD_VALUE,
    "23514": _BAD_VALUE,
    "23": _BROKE_RULE,
    "25006": _NOT_ALLOWED,
    "28": Answer(_E.PERMISSION_DENIED, "not_sent", "the database does not know who is asking"),
    "3D": _BAD_STATEMENT,
    "3F": _BAD_STATEMENT,
    "40003": Answer(_E.DEPENDENCY_ERROR, "unknown", "the database cannot say whether the statement was done"),
    "40": _ROLLED_BACK,
    "42501": _NOT_ALLOWED,
    "42": _BAD_STATEMENT,
    "44": _BROKE_RULE,
    "53300": Answer(_E.RESOURCE_EXHAUSTED, "not_sent", "the database has no connection left"),
    "53": Answer(_E.RESOURCE_EXHAUSTED, "unknown", "the database has run out of something"),
    "54": _BAD_STATEMENT,
    "55P03": Answer(_E.DEPENDENCY_ERROR, "refused", "a lock was not to be had in time"),
    "55": Answer(_E.PRECONDITION_FAILED, "refused", "the object is not in the state that this needs"),
    "57014": Answer(_E.TIMEOUT, "refused", "the database cancelled the statement and rolled it back"),
    "57P03": Answer(_E.CONNECTION_FAILED, "not_sent", "the database does not take connections yet"),
    "57": _LOST,
    "58": _TROUBLE,
    "P0": Answer(_E.PRECONDITION_FAILED, "refused", "a rule written in the database refused it"),
    "XX": _TROUBLE,
}
"""SQLSTATE, or its class of two characters -> meaning (PostgreSQL, appendix A). An error that the server itself reports ends its
transaction, so it proves a refusal; a lost connection or a shutdown proves nothing, for the commit may have been done."""

SQLITE_CODES: Final[dict[str, Answer]] = {
    "SQLITE_CONSTRAINT_NOTNULL": _BAD_VALUE,
    "SQLITE_CONSTRAINT_CHECK": _BAD_VALUE,
    "SQLITE_CONSTRAINT_DATATYPE": _BAD_VALUE,
    "SQLITE_CONSTRAINT": _BROKE_RULE,
    "SQLITE_MISMATCH": _BAD_VALUE,
    "SQLITE_TOOBIG": _BAD_VALUE,
    "SQLITE_BUSY": _BUSY_SOMEWHERE,
    "SQLITE_LOCKED": _BUSY_SOMEWHERE,
    "SQLITE_READONLY": _NOT_ALLOWED,
    "SQLITE_PERM": _NOT_ALLOWED,
    "SQLITE_AUTH": _NOT_ALLOWED,
    "SQLITE_FULL": Answer(_E.RESOURCE_EXHAUSTED, "unknown", "the disk is full"),
    "SQLITE_NOMEM": Answer(_E.RESOURCE_EXHAUSTED, "unknown", "there is no memory left"),
    "SQLITE_INTERRUPT": Answer(_E.TIMEOUT, "unknown", "the statement was interrupted"),
    "SQLITE_IOERR": Answer(_E.DEPENDENCY_ERROR, "unknown", "the disk failed, perhaps at the commit"),
    "SQLITE_CANTOPEN": _TROUBLE,
    "SQLITE_CORRUPT": _TROUBLE,
    "SQLITE_NOTADB": _TROUBLE,
    "SQLITE_PROTOCOL": _TROUBLE,
    "SQLITE_ERROR": Answer(_E.TOOL_ERROR, "unknown", "the database found a statement wrong"),
}
"""SQLite result code, extended or primary -> meaning."""

_STANDARD_ROOTS: Final = (
    "sqlite3",
    "psycopg",
    "psycopg2",
    "asyncpg",
    "pymysql",
    "MySQLdb",
    "oracledb",
    "pyodbc",
    "sqlalchemy",
)
_STANDARD: Final[dict[str, Answer]] = {
    "IntegrityError": _BROKE_RULE,
    "DataError": _BAD_VALUE,
    "ProgrammingError": _MISUSED,
    "NotSupportedError": _MISUSED,
    "InterfaceError": _LOST,
    "OperationalError": _LOST,
    "InternalError": _TROUBLE,
    "DatabaseError": _TROUBLE,
}

DRIVER_ERRORS: Final[dict[tuple[str, str], Answer]] = {
    ("sqlite3", "OperationalError"): _TROUBLE,
    ("psycopg", "ConnectionTimeout"): Answer(_E.TIMEOUT, "not_sent", "the connection was not made in time"),
    ("psycopg_pool", "PoolTimeout"): _NO_FREE_CONNECTION,
    ("psycopg_pool", "TooManyRequests"): _NO_FREE_CONNECTION,
    ("psycopg_pool", "PoolClosed"): _NO_FREE_CONNECTION,
    ("sqlalchemy", "TimeoutError"): _NO_FREE_CONNECTION,
    ("sqlalchemy", "NoResultFound"): Answer(_E.PRECONDITION_FAILED, "unknown", "there is no such row"),
    ("sqlalchemy", "StaleDataError"): Answer(_E.PRECONDITION_FAILED, "unknown", "the row was changed meanwhile"),
    ("redis", "MaxConnectionsError"): _NO_FREE_CONNECTION,
    ("redis", "AuthenticationError"): Answer(_E.PERMISSION_DENIED, "not_sent", "the store does not know who is asking"),
    ("redis", "AuthorizationError"): Answer(_E.PERMISSION_DENIED, "unknown", "the store does not allow it"),
    ("redis", "NoPermissionError"): Answer(
        _E.PERMISSION_DENIED, "unknown", "the store does not allow one of the commands"
    ),
    ("redis", "BusyLoadingError"): Answer(_E.DEPENDENCY_ERROR, "unknown", "the store is still loading"),
    ("redis", "ReadOnlyError"): Answer(_E.PERMISSION_DENIED, "refused", "the store is a read-only replica"),
    ("redis", "ExecAbortError"): Answer(_E.TOOL_ERROR, "refused", "the transaction was discarded"),
    ("redis", "WatchError"): Answer(
        _E.DEPENDENCY_ERROR, "refused", "a watched key changed, so the transaction was not done"
    ),
    ("redis", "OutOfMemoryError"): Answer(_E.RESOURCE_EXHAUSTED, "unknown", "the store has no memory left"),
    ("redis", "TimeoutError"): Answer(_E.TIMEOUT, "unknown", "the command may have arrived; no answer came in time"),
    ("redis", "ConnectionError"): _LOST,
    ("redis", "DataError"): Answer(_E.TOOL_ERROR, "unknown", "the client could not write one of the commands"),
    ("redis", "RedisError"): Answer(_E.TOOL_ERROR, "unknown", "the store answered with an error"),
    **{
        (root, name): answer
        for root in _STANDARD_ROOTS
        for name, answer in _STANDARD.items()
        if (root, name) != ("sqlite3", "OperationalError")
    },
}
"""(package, class name) -> meaning, where no code says more. The standard names are those of PEP 249."""

_SQLSTATE: Final = re.compile(r"[0-9A-Z]{5}", re.ASCII)
_CONNECTING: Final[dict[str, Answer]] = {
    _E.CONNECTION_FAILED: _NO_CONNECTION,
    _E.TIMEOUT: Answer(_E.TIMEOUT, "not_sent", "the connection to the database was not made in time"),
}


def database_answer(error: BaseException) -> Answer | None:
    """Look a database's exception up: by SQLSTATE, by SQLite's result code, then by class.

    A failure to connect is told from a lost connection by the functions that the exception passed.
    """
    names = names_of(error)
    driver = next((DRIVER_ERRORS[name] for name in names if name in DRIVER_ERRORS), None)
    original = read(error, "orig")
    if ("sqlalchemy", "DBAPIError") in names and isinstance(original, BaseException):
        inner = database_answer(original)
        statement = read(error, "statement")
        if inner is _BUSY and isinstance(statement, str) and _ends_transaction(statement.lower()):
            return _BUSY_SOMEWHERE
        answer = inner or driver
    else:
        answer = _by_code(error, names) or driver
    if answer is not None and answer.proof == "unknown" and passed_connect(error):
        return _CONNECTING.get(answer.error_type, _NO_CONNECTION)
    return answer


def _by_code(error: BaseException, names: list[tuple[str, str]]) -> Answer | None:
    for field in ("sqlstate", "pgcode"):
        code = read(error, field)
        if isinstance(code, str) and _SQLSTATE.fullmatch(code):
            return SQLSTATES.get(code) or SQLSTATES.get(code[:2]) or _TROUBLE
    if ("sqlite3", "Error") in names:
        return _by_sqlite_code(error)
    return None


def _by_sqlite_code(error: BaseException) -> Answer | None:
    name = read(error, "sqlite_errorname")
    if not isinstance(name, str):
        return None
    primary = "_".join(name.split("_")[:2])
    answer = SQLITE_CODES.get(name) or SQLITE_CODES.get(primary)
    if answer is _BUSY_SOMEWHERE and _failed_in_one_statement(error, proved_by_silence=False):
        return _BUSY
    if answer is not None and answer.proof == "refused" and not _failed_in_one_statement(error, proved_by_silence=True):
        return answer._replace(proof="unknown", reason=f"{answer.reason}; statements before it may stand")
    return answer


def _failed_in_one_statement(error: BaseException, *, proved_by_silence: bool) -> bool:
    """Answer whether the line that failed executes one statement, which is no commit.

    A commit that finds the database locked leaves its transaction open: the next commit on that connection applies it. Scripts
    and `executemany` may have applied a part. SQLite's driver is written in C, so the innermost frame is its caller, and its line
    tells which of them it was. Where a thread makes the call for somebody (aiosqlite), nothing tells.

    Args:
        error: what the driver raised.
        proved_by_silence: the answer for an exception that never was raised, or that another thread raised for a caller.
    """
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    words = _words_on_line(trace.tb_frame.f_code, trace.tb_lineno) if trace is not None else set()
    if any(map(_ends_transaction, words)) or "executemany" in words:
        return False
    return "execute" in words or (proved_by_silence and trace is None)


def _ends_transaction(text: str) -> bool:
    return "commit" in text or "script" in text or text.split(maxsplit=1)[:1] in (["end"], ["end;"], ["release"])


def _words_on_line(code: Any, line: int) -> set[str]:
    words: set[str] = set()
    current = -1
    for instruction in dis.get_instructions(code):
        position = getattr(instruction, "positions", None)
        current = position.lineno if position is not None and position.lineno is not None else current
        last = position.end_lineno if position is not None and position.end_lineno is not None else current
        if current <= line <= last and isinstance(instruction.argval, str):
            words.add(instruction.argval.lower())
    return words
