"""Constraint state in a SQLite file, shared by the processes of one host."""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from pathlib import Path
from time import monotonic, sleep
from typing import Final, TypeVar

from fcguard.constraints.options import check_seconds
from fcguard.constraints.state import PRUNE_EVERY, TTL_SECONDS, Change, change_text, held, new_lock, wall_clock
from fcguard.errors import ConfigurationError, StoreClosed, StoreUnavailable
from fcguard.store_urls import is_url

__all__ = ["SQLiteState"]

T = TypeVar("T")

_TABLE: Final = (
    "CREATE TABLE IF NOT EXISTS fc_state "
    "(key TEXT PRIMARY KEY, value TEXT NOT NULL, changed_at REAL NOT NULL DEFAULT 0) WITHOUT ROWID"
)
_PAUSE_SECONDS: Final = 0.01


class SQLiteState:
    """Keeps state in a file, which may also be the ledger's own; a file of its own does not wait for the ledger's commits.

    A change is atomic over threads and processes. It is not forced to the disk (`synchronous=NORMAL`): after a power loss the
    newest counts and leases may be gone, and so are the processes that held them. Usable after a fork.

    Args:
        path: the file, no URL; made, readable by its owner only, if there is none. Its directory must exist.
        timeout: longest wait in seconds for another process; threads that wait for each other wait twice that at most.
        ttl_seconds: values that nobody changed for so long are forgotten now and then; longer than every window and task.

    Raises:
        ConfigurationError: an option makes no sense, or the path is a URL.
        StoreUnavailable: the file cannot be opened, made, or is no SQLite file.
    """

    is_shared: Final = True

    def __init__(self, path: str | os.PathLike[str], *, timeout: float = 5.0, ttl_seconds: float = TTL_SECONDS) -> None:
        if is_url(os.fspath(path)):  # which may hold a password
            raise ConfigurationError(
                "SQLiteState takes the path of a file, and this one is a URL; write SQLiteState('path'), or "
                "PostgresState('postgresql://user@host/db') of fcguard.constraints.postgres_state"
            )
        self.path, self._timeout = Path(path), check_seconds("SQLiteState", "timeout", timeout)
        self._ttl, self._writes = check_seconds("SQLiteState", "ttl_seconds", ttl_seconds), 0
        self._lock = new_lock()
        self._pid = os.getpid()
        self._inherited: list[sqlite3.Connection] = []
        self._connection: sqlite3.Connection | None = self._open()

    def change(self, key: str, change: Change[T]) -> T:
        """Read, change and write the value of `key` as one atomic step.

        Raises:
            StoreUnavailable: the file cannot be written, or another process holds it for too long; nothing was changed.
            StoreClosed: after `close()`.
        """
        if self._pid != os.getpid():
            self._after_fork()
        with held(self._lock, self._timeout, f"state file {str(self.path)!r}"):
            connection = self._connection
            if connection is None:
                raise StoreClosed(f"state file {str(self.path)!r} was closed")
            try:
                return self._change(connection, key, change)
            except sqlite3.Error as error:
                raise StoreUnavailable(f"state file {str(self.path)!r}: {error}") from error
            finally:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")

    def close(self) -> None:
        """Close the file. Idempotent."""
        if self._pid != os.getpid():
            self._after_fork(is_closing=True)
        with self._lock:
            connection, self._connection = self._connection, None
            if connection is not None:
                connection.close()

    def _change(self, connection: sqlite3.Connection, key: str, change: Change[T]) -> T:
        # Many changes change nothing, such as a look at a closed circuit; those only read, and wait for no other process.
        stored = _read(connection, key)
        text, answer = change_text(stored, change)
        if text == stored:
            return answer
        connection.execute("BEGIN IMMEDIATE")
        found = _read(connection, key)
        if found != stored:
            text, answer = change_text(found, change)
        if text is None:
            connection.execute("DELETE FROM fc_state WHERE key = ?", (key,))
        elif text != found:
            connection.execute("INSERT OR REPLACE INTO fc_state VALUES (?, ?, ?)", (key, text, wall_clock()))
        if self._writes % PRUNE_EVERY == 0:
            connection.execute("DELETE FROM fc_state WHERE changed_at < ?", (wall_clock() - self._ttl,))
        connection.execute("COMMIT")
        self._writes += 1
        return answer

    def _open(self) -> sqlite3.Connection:
        until = monotonic() + self._timeout
        while True:
            try:
                return self._connect()
            except sqlite3.Error as error:
                # SQLite does not wait for others who make the same new file; so the waiting is done here.
                is_busy = getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_BUSY
                if not is_busy or monotonic() >= until:
                    raise StoreUnavailable(f"state file {str(self.path)!r}: {error}") from error
                sleep(_PAUSE_SECONDS)

    def _connect(self) -> sqlite3.Connection:
        with suppress(OSError):  # it is there, or cannot be made, which opening it will say
            os.close(os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        connection = sqlite3.connect(self.path, timeout=self._timeout, isolation_level=None, check_same_thread=False)
        try:
            if connection.execute("PRAGMA journal_mode").fetchone()[0] != "wal":
                connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute(_TABLE)
        except sqlite3.Error:
            connection.close()
            raise
        return connection

    def _after_fork(self, *, is_closing: bool = False) -> None:
        # A connection must not be used, nor even closed, in a forked child; it is kept so that nothing closes it.
        if self._connection is not None:
            self._inherited.append(self._connection)
            self._connection = None if is_closing else self._open()
        self._lock, self._pid = new_lock(), os.getpid()


def _read(connection: sqlite3.Connection, key: str) -> str | None:
    row = connection.execute("SELECT value FROM fc_state WHERE key = ?", (key,)).fetchone()
    return None if row is None else row[0]
