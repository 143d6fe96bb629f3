"""What one process has open of approvals in PostgreSQL: one connection, on which one thread at a time runs a transaction."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from threading import Lock
from typing import Any, Final, TypeAlias, TypeVar

from fcguard.errors import MissingExtraError, StoreClosed, StoreError, StoreUnavailable
from fcguard.postgres_connection import advice_for, connect, one_line
from fcguard.postgres_tables import migrate_approvals

try:
    import psycopg
    from psycopg import sql
except ImportError as error:  # pragma: no cover - the tests install it
    raise MissingExtraError("psycopg", "postgres") from error

__all__ = ["Connection", "PostgresSession", "clock"]

T = TypeVar("T")
Connection: TypeAlias = psycopg.Connection[Any]

_BEGIN: Final = "BEGIN ISOLATION LEVEL READ COMMITTED"


def clock(connection: Connection) -> float:
    """Answer the server's wall clock in seconds, as it is now and not when the transaction began."""
    row = connection.execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchone()
    assert row is not None
    return float(row[0])


class PostgresSession:
    """Runs transactions on one connection per process, made at the first. Usable after a fork.

    Args:
        url: `postgresql://user@host/database`.
        name: what messages call the database; holds no password.
        schema: schema of the tables.
        timeout: seconds for connecting, for a statement, and for other threads of this process.
        create: whether missing tables are made.
    """

    def __init__(self, url: str, name: str, schema: str, timeout: float, *, create: bool) -> None:
        self._url, self._name, self._schema, self._timeout, self._create = url, name, schema, timeout, create
        self._lock, self._pid = Lock(), os.getpid()
        self._connection: Connection | None = None
        self._inherited: list[Connection] = []
        self._is_closed = False

    def run(self, work: Callable[[Connection], T]) -> T:
        """Run a function in one transaction and commit it.

        Raises:
            StoreUnavailable: the server cannot be reached or refuses. If the connection broke meanwhile, it may have been done.
            StoreTooNew: a newer fcguard made the tables.
            StoreClosed: after `close()`.
            StoreError: PostgreSQL cannot do it.
        """
        if self._pid != os.getpid():
            self._after_fork()
        if not self._lock.acquire(timeout=self._timeout):
            raise StoreUnavailable(
                f"{self._name}: other threads of this process have been waiting for it for too long already"
            )
        try:
            return self._transact(work)
        except (psycopg.Error, UnicodeEncodeError) as error:
            raise self._translated(error) from error
        finally:
            self._lock.release()

    def close(self) -> None:
        """Close the connection. Idempotent."""
        if self._pid != os.getpid():
            self._after_fork()
        with self._lock:
            self._is_closed = True
            self._drop()

    def _transact(self, work: Callable[[Connection], T]) -> T:
        if self._is_closed:
            raise StoreClosed(f"{self._name} was closed")
        try:
            connection = self._begun()
            answer = work(connection)
            said = connection.execute("COMMIT").statusmessage
        except BaseException:
            self._drop()  # also at an interrupt, which leaves the connection in the middle of a statement
            raise
        if said != "COMMIT":
            raise StoreError(f"{self._name} rolled back instead of committing; nothing was written")
        return answer

    def _begun(self) -> Connection:
        is_used = self._connection is not None
        connection = self._connected()
        try:
            connection.execute(_BEGIN)
        except psycopg.OperationalError:
            if not is_used:
                raise
            self._drop()  # the server closed a connection that lay idle; nothing was done yet
            connection = self._connected()
            connection.execute(_BEGIN)
        return connection

    def _connected(self) -> Connection:
        if self._connection is None:
            connection = connect(self._url, self._timeout)
            try:
                self._prepare(connection)
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return self._connection

    def _prepare(self, connection: Connection) -> None:
        milliseconds = str(max(1, int(self._timeout * 1000)))  # 0 would mean: for ever
        connection.execute(sql.SQL("SET search_path TO {}").format(sql.Identifier(self._schema)))
        for setting in ("statement_timeout", "idle_in_transaction_session_timeout"):
            connection.execute("SELECT set_config(%s, %s, false)", (setting, milliseconds))
        # A use that a crash of the server takes back could be used again.
        durable = (
            "SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off'"
        )
        connection.execute(durable)
        migrate_approvals(connection, self._name, self._schema, create=self._create)

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(psycopg.Error):
                connection.close()

    def _after_fork(self) -> None:
        # A connection must not be used, nor even closed, in a forked child; it is kept so that nothing closes it.
        if self._connection is not None:
            self._inherited.append(self._connection)
            self._connection = None
        self._lock, self._pid = Lock(), os.getpid()

    def _translated(self, error: psycopg.Error | UnicodeEncodeError) -> StoreError:
        text = one_line(error)
        advice = advice_for(error) if isinstance(error, psycopg.Error) else None
        if advice is None:
            return StoreError(f"{self._name} failed: {type(error).__name__}: {text}")
        return StoreUnavailable(f"{self._name}: {advice} ({text})")
