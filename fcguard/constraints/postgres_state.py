"""Constraint state in PostgreSQL, shared by the workers of many hosts (extra `postgres`)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from time import monotonic, sleep
from typing import Any, Final, TypeAlias, TypeVar

from fcguard.constraints.options import check_seconds
from fcguard.constraints.server_clock import ServerClock
from fcguard.constraints.state import PRUNE_EVERY, TTL_SECONDS, Change, change_text, held, new_lock
from fcguard.errors import ConfigurationError, MissingExtraError, StoreClosed, StoreUnavailable
from fcguard.jitter import pause_between
from fcguard.postgres_connection import SERVER_URL, connect, is_server_url
from fcguard.postgres_tables import make_state

try:
    import psycopg
    from psycopg import sql
    from psycopg.pq import TransactionStatus
except ImportError as error:  # pragma: no cover - the tests install it
    raise MissingExtraError("psycopg", "postgres") from error

__all__ = ["PostgresState"]

T = TypeVar("T")
Connection: TypeAlias = psycopg.Connection[Any]

_LONGEST_PAUSE: Final = 0.02
_READ: Final = "SELECT value FROM {table} WHERE key = %(key)s"
_TIME: Final = "SELECT extract(epoch FROM clock_timestamp())::float8"
_INSERT: Final = "INSERT INTO {table} (key, value) VALUES (%(key)s, %(new)s) ON CONFLICT (key) DO NOTHING"
_UPDATE: Final = """
UPDATE {table} SET value = %(new)s, changed_at = clock_timestamp() WHERE key = %(key)s AND value = %(stored)s
"""
_DELETE: Final = "DELETE FROM {table} WHERE key = %(key)s AND value = %(stored)s"
_PRUNE: Final = "DELETE FROM {table} WHERE changed_at < clock_timestamp() - make_interval(secs => %(ttl)s)"


class PostgresState:
    """Keeps state in a table `fc_state`, which may lie beside those of the ledger, by comparing and swapping.

    A change that changes nothing costs one round trip, others two, and again two if somebody else was faster; no lock is held
    between them, so a worker that stops keeps nobody waiting. One connection per process, made at the first change. Usable after a
    fork. Times are those of the server, which is asked every minute, so the clocks of the hosts do not matter.

    The table is made at the first change by a role that may make it (and its schema); others need SELECT, INSERT, UPDATE and
    DELETE on it and USAGE of the schema. A standby that takes over without the newest commits can forget a lease.

    Args:
        url: `postgresql://user@host/database`.
        schema: schema of the table; the default is that of the ledger.
        timeout: longest wait in seconds for connecting (two at least), for each statement, and for others who change the same
            value. A connection on which no answer comes is given up a second after it.
        ttl_seconds: values that nobody changed for so long are forgotten now and then; longer than every window and task.
        durable: whether a change waits until the server has it on the disk, which leases need. False is faster by that wait, and
            a crash of the server may lose the newest changes: enough for circuits, rates and counts.

    Raises:
        ConfigurationError: an option makes no sense.
    """

    is_shared: Final = True

    def __init__(
        self,
        url: str,
        *,
        schema: str = "fcguard",
        timeout: float = 5.0,
        ttl_seconds: float = TTL_SECONDS,
        durable: bool = True,
    ) -> None:
        if not schema or not is_server_url(url):
            raise ConfigurationError(f"PostgresState: give {SERVER_URL} and the name of a schema")
        self._url, self._schema, self._durable = url, schema, durable
        self._timeout = check_seconds("PostgresState", "timeout", timeout)
        self._ttl = check_seconds("PostgresState", "ttl_seconds", ttl_seconds)
        self._table = sql.Identifier(schema, "fc_state").as_string(None)
        self._lock, self._pid = new_lock(), os.getpid()
        self._connection: Connection | None = None
        self._inherited: list[Connection] = []
        self._is_closed = False
        self._writes = 0
        self._clock = ServerClock(self._ask_time)

    def now(self) -> float:
        """Answer the server's seconds since the epoch.

        Raises:
            StoreUnavailable: the server cannot be reached or refuses.
            StoreClosed: after `close()`.
        """
        return self._clock.now()

    def change(self, key: str, change: Change[T]) -> T:
        """Read, change and write the value of `key` as one atomic step.

        Raises:
            StoreUnavailable: the server cannot be reached or refuses, or others change the value faster than this can. If the
                connection broke meanwhile, the change may have been made.
            StoreClosed: after `close()`.
        """
        if self._pid != os.getpid():
            self._after_fork()
        until, pause = monotonic() + self._timeout, 0.0
        while monotonic() < until:
            with held(self._lock, until - monotonic(), "state in PostgreSQL"):
                done, answer = self._try(key, change)
            if done:
                return answer
            pause = min(pause + 0.0005, _LONGEST_PAUSE)
            sleep(pause_between(0, pause))  # so that those who are in each other's way part
        raise StoreUnavailable(f"state in PostgreSQL: {key!r} is changed by too many at once")

    def close(self) -> None:
        """Close the connection. Idempotent."""
        if self._pid != os.getpid():
            self._after_fork()
        with self._lock:
            self._is_closed = True
            self._drop()

    def _ask_time(self) -> tuple[float, float]:
        if self._pid != os.getpid():
            self._after_fork()
        with held(self._lock, self._timeout, "state in PostgreSQL"), self._open():
            self._connected()
            began = monotonic()
            row = self._fetch(_TIME)
            return row[0], (began + monotonic()) / 2

    @contextmanager
    def _open(self) -> Iterator[None]:
        """Tell what goes wrong with the connection in this library's words, and leave none behind that cannot be used."""
        if self._is_closed:
            raise StoreClosed("state in PostgreSQL was closed")
        try:
            yield
        except psycopg.Error as error:
            self._drop()
            raise _translated(error) from error
        except BaseException:
            # An interrupt leaves the connection in the middle of a statement.
            if self._connection is not None and self._connection.info.transaction_status != TransactionStatus.IDLE:
                self._drop()
            raise

    def _try(self, key: str, change: Change[T]) -> tuple[bool, T]:
        with self._open():
            row = self._fetch(_READ, key=key)
            stored = None if row is None else row[0]
            text, answer = change_text(stored, change)
            if text is stored:
                return True, answer
            connection = self._connected()
            statement = _INSERT if stored is None else _DELETE if text is None else _UPDATE
            if self._writes % PRUNE_EVERY == 0:
                self._run(connection, _PRUNE, ttl=self._ttl)
            self._writes += 1
            done = self._run(connection, statement, key=key, stored=stored, new=text).rowcount == 1
            return done, answer

    def _fetch(self, statement: str, **values: Any) -> Any:
        is_used = self._connection is not None
        try:
            return self._run(self._connected(), statement, **values).fetchone()
        except psycopg.OperationalError:
            if not is_used or self._connection is None or not self._connection.closed:
                raise
            # The server closed a connection that lay idle; nothing was changed yet.
            self._drop()
            return self._run(self._connected(), statement, **values).fetchone()

    def _run(self, connection: Connection, statement: str, **values: Any) -> psycopg.Cursor[Any]:
        return connection.execute(statement.replace("{table}", self._table.replace("%", "%%")).encode(), values)

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
        settings = {
            "statement_timeout": str(max(1, int(self._timeout * 1000))),  # 0 would mean: for ever
            "default_transaction_isolation": "read committed",
        }
        if not self._durable:
            settings["synchronous_commit"] = "off"
        for setting, value in settings.items():
            connection.execute("SELECT set_config(%s, %s, false)", (setting, value))
        make_state(connection, self._schema)

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
        self._lock, self._pid = new_lock(), os.getpid()


def _translated(error: psycopg.Error) -> StoreUnavailable:
    text = str(error).strip().replace("\n", " ")
    if isinstance(error, psycopg.errors.InsufficientPrivilege):
        text += "; let a role that may create it make the table once, and grant SELECT, INSERT, UPDATE, DELETE on it"
    return StoreUnavailable(f"state in PostgreSQL: {text or type(error).__name__}")
