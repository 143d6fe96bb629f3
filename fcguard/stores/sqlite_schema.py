"""The tables of the SQLite ledger, its numbered migrations, and the pragmas that make a commit durable."""

from __future__ import annotations

import contextlib
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeAlias

from fcguard.errors import StoreCorrupt, StoreError, StoreTooNew, StoreUnavailable
from fcguard.stores.patience import Patience

__all__ = ["APPLICATION_ID", "MIGRATIONS", "SCHEMA_VERSION", "Connector", "begin", "connect", "translate"]

APPLICATION_ID: Final = 0x66636C67
"""`fclg`: how a SQLite file says that it is a ledger."""

_V1: Final = """
CREATE TABLE fc_meta (key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE fc_heads (
  task INTEGER PRIMARY KEY, task_id TEXT NOT NULL UNIQUE, seq INTEGER NOT NULL, hash BLOB NOT NULL
);
CREATE TABLE fc_gaps (
  task INTEGER NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL, hash BLOB NOT NULL, PRIMARY KEY (task, first)
) WITHOUT ROWID;
CREATE TABLE fc_calls (
  request_id TEXT PRIMARY KEY, task INTEGER NOT NULL, tool TEXT NOT NULL, state TEXT NOT NULL, version INTEGER NOT NULL,
  attempt INTEGER NOT NULL, created_at REAL NOT NULL, updated_at REAL NOT NULL, first_seq INTEGER NOT NULL,
  last_seq INTEGER NOT NULL, result_seq INTEGER, is_entered INTEGER NOT NULL DEFAULT 1, is_open INTEGER NOT NULL DEFAULT 0,
  holds_key INTEGER NOT NULL DEFAULT 0, owner TEXT, lease_until REAL, next_at REAL, settle_until REAL,
  idempotency_scope TEXT, idempotency_key TEXT, effect_key TEXT
) WITHOUT ROWID;
CREATE INDEX fc_calls_open ON fc_calls (request_id) WHERE is_open = 1;
CREATE UNIQUE INDEX fc_calls_key ON fc_calls (idempotency_scope, idempotency_key) WHERE holds_key = 1 AND idempotency_key IS NOT NULL;
CREATE UNIQUE INDEX fc_calls_effect ON fc_calls (effect_key) WHERE is_open = 1 AND effect_key IS NOT NULL;
CREATE TABLE fc_events (
  id INTEGER PRIMARY KEY, task INTEGER NOT NULL, seq INTEGER NOT NULL, request_id TEXT NOT NULL, kind TEXT NOT NULL,
  at REAL NOT NULL, back INTEGER, payload BLOB NOT NULL, hash BLOB NOT NULL, UNIQUE (task, seq)
);
CREATE TABLE fc_blobs (
  digest TEXT PRIMARY KEY, kind TEXT NOT NULL, body BLOB NOT NULL, created_at REAL NOT NULL
) WITHOUT ROWID;
CREATE TABLE fc_owners (
  id TEXT PRIMARY KEY, host TEXT NOT NULL, boot TEXT NOT NULL, pid INTEGER NOT NULL, started INTEGER NOT NULL,
  seen_at REAL NOT NULL, ended_at REAL
) WITHOUT ROWID;
CREATE TRIGGER fc_events_no_update BEFORE UPDATE ON fc_events
BEGIN SELECT RAISE(ABORT, 'fcguard: events are append-only'); END;
CREATE TRIGGER fc_events_no_delete BEFORE DELETE ON fc_events
WHEN NOT EXISTS (SELECT 1 FROM fc_meta WHERE key = 'pruning')
BEGIN SELECT RAISE(ABORT, 'fcguard: events are append-only'); END;
"""

_V2: Final = """
CREATE TABLE fc_tombstones (
  idempotency_scope TEXT NOT NULL, idempotency_key TEXT NOT NULL, digest TEXT NOT NULL, request_id TEXT NOT NULL,
  task INTEGER NOT NULL, tool TEXT NOT NULL, state TEXT NOT NULL, ended_at REAL NOT NULL, pruned_at REAL NOT NULL,
  seal BLOB NOT NULL, PRIMARY KEY (idempotency_scope, idempotency_key)
) WITHOUT ROWID;
CREATE UNIQUE INDEX fc_tombstones_id ON fc_tombstones (request_id);
CREATE TRIGGER fc_tombstones_no_update BEFORE UPDATE ON fc_tombstones
BEGIN SELECT RAISE(ABORT, 'fcguard: keys of pruned writes stay as they are'); END;
CREATE TRIGGER fc_tombstones_no_delete BEFORE DELETE ON fc_tombstones
WHEN NOT EXISTS (SELECT 1 FROM fc_meta WHERE key = 'pruning')
BEGIN SELECT RAISE(ABORT, 'fcguard: keys of pruned writes stay as they are'); END;
"""

MIGRATIONS: Final[tuple[str, ...]] = (_V1, _V2)
"""Script `n` brings a ledger from version `n` to `n + 1`. Only ever appended to."""

SCHEMA_VERSION: Final = len(MIGRATIONS)

Connector: TypeAlias = Callable[..., sqlite3.Connection]
"""Opens a connection like `sqlite3.connect`; another build of SQLite can be used through it."""

_UNAVAILABLE: Final = {
    sqlite3.SQLITE_FULL: "the disk is full; free space and call again",
    sqlite3.SQLITE_IOERR: "the disk failed to read or write; check it, then call again",
    sqlite3.SQLITE_READONLY: "it is read-only; make the file and its directory writable",
    sqlite3.SQLITE_CANTOPEN: "it cannot be opened; check the path, its permissions and free file handles",
    sqlite3.SQLITE_PERM: "access is denied; check permissions",
    sqlite3.SQLITE_AUTH: "access is denied; check permissions",
    sqlite3.SQLITE_BUSY: "another process holds it; raise busy_timeout or look for a stuck writer",
    sqlite3.SQLITE_LOCKED: "another connection holds it; raise busy_timeout or look for a stuck writer",
    sqlite3.SQLITE_PROTOCOL: "another process holds its lock; look for a stuck writer",
    sqlite3.SQLITE_NOMEM: "memory ran out",
    sqlite3.SQLITE_NOLFS: "the file system cannot hold so large a file",
    sqlite3.SQLITE_INTERRUPT: "the operation was interrupted; call again",
}


_GUESTS: Final = frozenset({"fc_state", "fc_approvals", "fc_approval_version", "fc_grants", "sqlite_sequence"})
"""Tables of constraints and approvals, which may lie in the ledger's file, and be there before the ledger is."""


def translate(error: sqlite3.Error, path: str) -> StoreError:
    """Turn an error of SQLite into one of the library's, that says what to do."""
    code = getattr(error, "sqlite_errorcode", None)
    primary = None if code is None else code & 0xFF
    result: StoreError
    if primary in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}:
        result = StoreCorrupt(
            f"{path!r} is not a whole ledger ({error}); keep the file, restore a copy, run `fcguard verify`"
        )
    elif primary in _UNAVAILABLE:
        result = StoreUnavailable(f"the ledger {path!r} did not take the record: {_UNAVAILABLE[primary]} ({error})")
    else:
        result = StoreError(f"the ledger {path!r} failed: {type(error).__name__}: {error}")
    result.__cause__ = error
    return result


def connect(
    path: str,
    *,
    synchronous: str,
    patience: Patience,
    until: float,
    create: bool,
    connector: Connector = sqlite3.connect,
) -> sqlite3.Connection:
    """Open a ledger, create or migrate it where needed, and check that the pragmas took hold.

    Args:
        path: the file.
        synchronous: see `SQLiteStore`.
        patience: how long to wait for other processes.
        until: what `Patience.begin` answered.
        create: whether to make a missing file.
        connector: opens a connection like `sqlite3.connect`.

    Raises:
        StoreError: see `translate`; also `StoreTooNew`, and `StoreCorrupt` for a database of another program.
        sqlite3.Error: the medium failed.
    """
    if not create and not Path(path).exists():
        raise StoreUnavailable(f"there is no ledger at {path!r}; check the path")
    _make_parent(path)
    _make_private(path)
    while True:
        try:
            return _connect_once(path, synchronous, patience, until, connector)
        except sqlite3.OperationalError as error:
            # Turning WAL on does not wait for other processes that are opening the same new file.
            if not _is_busy(error) or not patience.pause(until, 0.02):
                raise


def _is_busy(error: sqlite3.OperationalError) -> bool:
    return error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY


def _connect_once(
    path: str, synchronous: str, patience: Patience, until: float, connector: Connector
) -> sqlite3.Connection:
    connection = connector(path, timeout=patience.left(until), isolation_level=None, check_same_thread=False)
    try:
        _identify(connection, path)
        _set_pragmas(connection, path, synchronous)
        _migrate(connection, path, patience, until)
        connection.execute(
            f"PRAGMA busy_timeout={int(patience.seconds * 1000)}"
        )  # it is kept, and will wait for others
    except BaseException:
        connection.close()
        raise
    return connection


def _make_private(path: str) -> None:
    """Make a new ledger readable by its owner only: it holds arguments and results. SQLite gives its side files the same mode."""
    with contextlib.suppress(OSError):  # it exists, or cannot be made, which opening it will say
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def _make_parent(path: str) -> None:
    parent = Path(path).absolute().parent
    if parent.is_dir():
        return
    try:
        parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(parent.parent, os.O_RDONLY)
        try:
            os.fsync(handle)  # or a power cut takes the new directory, and the ledger in it
        finally:
            os.close(handle)
    except OSError as error:
        raise StoreUnavailable(f"the directory of the ledger {path!r} cannot be made: {error}") from error


def _identify(connection: sqlite3.Connection, path: str) -> None:
    connection.execute("BEGIN")
    (application,) = connection.execute("PRAGMA application_id").fetchone()
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    tables = {name for (name,) in connection.execute("SELECT tbl_name FROM sqlite_master")} - _GUESTS
    connection.execute("COMMIT")
    if application == APPLICATION_ID:
        _check_version(version, path)
        return
    if application or version or tables:
        raise StoreCorrupt(f"{path!r} is a database of another program; give the ledger a file of its own")


def _check_version(version: int, path: str) -> None:
    if version > SCHEMA_VERSION:
        raise StoreTooNew(
            f"the ledger {path!r} has schema {version}, this fcguard knows {SCHEMA_VERSION}; upgrade fcguard to read it"
        )


def _set_pragmas(connection: sqlite3.Connection, path: str, synchronous: str) -> None:
    wanted = {"NORMAL": 1, "FULL": 2, "EXTRA": 3}[synchronous]
    connection.execute(f"PRAGMA synchronous={synchronous}")
    (mode,) = connection.execute("PRAGMA journal_mode=WAL").fetchone()
    connection.execute("PRAGMA mmap_size=0")
    connection.execute("PRAGMA foreign_keys=OFF")
    (got,) = connection.execute("PRAGMA synchronous").fetchone()
    mapped = connection.execute("PRAGMA mmap_size").fetchone()
    if mode != "wal" or got != wanted or (mapped is not None and mapped[0]):
        raise StoreUnavailable(
            f"the ledger {path!r} cannot be made durable here: journal_mode={mode!r}, synchronous={got}; "
            "use a local file system that supports WAL"
        )


def _migrate(connection: sqlite3.Connection, path: str, patience: Patience, until: float) -> None:
    if connection.execute("PRAGMA user_version").fetchone()[0] >= SCHEMA_VERSION:
        return
    begin(connection, patience, until)
    try:
        # Read again: another process may have been faster, and be of a newer version.
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        _check_version(version, path)
        for number, script in enumerate(MIGRATIONS[version:], start=version + 1):
            for statement in _statements(script):
                connection.execute(statement)
            connection.execute("INSERT OR REPLACE INTO fc_meta VALUES ('schema', ?)", (number,))
            connection.execute(f"PRAGMA user_version={number}")
        connection.execute(f"PRAGMA application_id={APPLICATION_ID}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _statements(script: str) -> list[str]:
    statements, current = [], ""
    for line in script.splitlines():
        current += line + "\n"
        if sqlite3.complete_statement(current):
            statements.append(current)
            current = ""
    return statements


def begin(connection: sqlite3.Connection, patience: Patience, until: float) -> None:
    """Begin a transaction that may write, waiting for other processes.

    Args:
        connection: does not wait by itself.
        patience: how long to wait.
        until: what `Patience.begin` answered.

    Raises:
        sqlite3.OperationalError: another process held the ledger until then.
    """
    while True:
        try:
            connection.execute("BEGIN IMMEDIATE")
            patience.succeeded()
            return
        except sqlite3.OperationalError as error:
            if not _is_busy(error) or not patience.pause(until):
                raise
