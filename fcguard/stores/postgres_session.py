"""What one process has open of a PostgreSQL ledger: the writer's connection and a few for readers."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar

import psycopg
from psycopg import sql

from fcguard.errors import StoreError, StoreUnavailable
from fcguard.jitter import pause_between
from fcguard.postgres_connection import connect, one_line
from fcguard.stores import postgres_owners, postgres_retention, postgres_rows
from fcguard.stores.base import Answer, CallQuery, Command, Gap, Head, StoredCall, StoredEvent
from fcguard.stores.batch import Batch
from fcguard.stores.owner import Owner
from fcguard.stores.postgres_readers import Readers
from fcguard.stores.postgres_rows import PostgresView
from fcguard.stores.postgres_schema import check, migrate, translate
from fcguard.stores.recoverable import Claim, Pruned
from fcguard.stores.session import Session, failure
from fcguard.stores.spool import Spool
from fcguard.stores.tombstone import Tombstone

__all__ = ["Options", "PostgresSession"]

T = TypeVar("T")
Connection: TypeAlias = psycopg.Connection[Any]

_RETRIES: Final = 5
_AGAIN: Final = (
    psycopg.errors.SerializationFailure,
    psycopg.errors.DeadlockDetected,
    psycopg.errors.UniqueViolation,
)
"""Another transaction was faster; after it, this one finds what it must answer."""


class _Again(Exception):
    """The connection broke, and it is known that nothing was written."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a ledger is used; see `PostgresStore`."""

    url: str
    name: str
    schema: str
    pool_size: int
    timeout: float
    lease: float
    allow_lost_commits: bool
    create: bool


class PostgresSession(Session[Connection]):
    """The connections of one process to one ledger: one that writes, and a few for readers."""

    def __init__(self, options: Options, spool: Spool) -> None:
        self._options, self._name = options, options.name
        self._connection: Connection | None = None
        self._readers = Readers(self._reader, options.pool_size, options.timeout)
        self._view: PostgresView | None = None
        self._witness: tuple[int, int, bytes] | None = None
        self._xid: str | None = None
        super().__init__(options.name.rpartition("/")[2], lease=options.lease, spool=spool, now=time.time())

    # Reading

    def read(self, reader: Callable[[Connection], T]) -> T:
        """Run a function on a connection of the pool.

        Raises:
            StoreError: the ledger cannot be read.
        """
        with self._translated(reading=True):
            if not self._is_registered and self._connection is None:
                # The tables must be there, and the writer is the one to make them if they are not.
                self.on_writer(self._writable)
            return self._readers.run(reader)

    def get(self, request_id: str) -> StoredCall | None:
        """Answer the row of a call."""
        return self.read(lambda connection: postgres_rows.read_one(connection, request_id))

    def call_events(self, request_id: str) -> list[StoredEvent]:
        """Answer the events of a call."""
        return self.read(lambda connection: postgres_rows.read_call_events(connection, request_id))

    def pages_of_events(self, task_id: str | None) -> Iterator[list[StoredEvent]]:
        """Yield pages of events in chain order."""
        return postgres_rows.pages_of_events(self.read, task_id)

    def pages_of_calls(self, query: CallQuery) -> Iterator[list[StoredCall]]:
        """Yield pages of calls, newest first."""
        return postgres_rows.pages_of_calls(self.read, query)

    def heads(self) -> list[Head]:
        """Answer the last event of every task."""
        return self.read(postgres_rows.read_heads)

    def gaps(self) -> list[Gap]:
        """Answer the ranges of events that were pruned."""
        return self.read(postgres_rows.read_gaps)

    def now(self) -> float:
        """Answer the server's clock."""
        return self.read(postgres_owners.read_clock)

    def owners(self) -> list[Owner]:
        """Answer the known processes."""
        return self.read(postgres_owners.read_owners)

    def blob(self, digest: str) -> bytes | None:
        """Answer kept bytes."""
        statement = "SELECT body FROM fc_blobs WHERE digest = %s"
        found = self.read(lambda connection: connection.execute(statement, (digest,)).fetchone())
        return None if found is None else found[0]

    def prunable(self, before: float, after: str) -> list[str]:
        """Answer the ids of some calls that finished before a wall clock."""
        return self.read(lambda connection: postgres_retention.prunable(connection, before, after))

    def tombstone(self, request_id: str) -> Tombstone | None:
        """Answer what is kept of a pruned call."""
        return self.read(lambda connection: postgres_retention.read_tombstone(connection, request_id))

    def pages_of_tombstones(self) -> Iterator[list[tuple[Tombstone, bytes]]]:
        """Yield pages of tombstones with their seals."""
        return postgres_rows.pages_of_tombstones(self.read)

    # Writing

    def transact(self, write: Callable[[Connection, float], T]) -> T:
        """Run a function in one durable transaction, again if another one was faster; see `Session.transact`."""
        with self._translated():
            for attempt in range(1, _RETRIES):
                with suppress(*_AGAIN, _Again):
                    return self._transact_once(write)
                time.sleep(pause_between(0.0, 0.01) * attempt)
            return self._transact_once(write)

    def apply(self, connection: Connection, batch: Batch, commands: Sequence[Command]) -> list[Answer | BaseException]:
        """Apply commands to a working copy and write it."""
        assert self._view is not None
        self._view.prepare(commands, careful=batch.is_careful)
        answers: list[Answer | BaseException] = [batch.apply(command) for command in commands]
        self._flush(connection, batch)
        return answers

    def make_batch(self, connection: Connection, now: float, *, careful: bool) -> Batch:
        """Make the working copy of a transaction."""
        self._view = PostgresView(connection)
        return Batch(self._view, self.owner.id, now, lease=self.lease, careful=careful)

    def claim(self, limit: int, lease: float, tools: frozenset[str] | None) -> list[Claim]:
        """Take over calls that nobody works on, of some tools or of all."""

        def write(connection: Connection, batch: Batch, now: float) -> list[Claim]:
            assert self._view is not None
            claims = postgres_owners.claim(
                connection, batch, self._view, self.owner, now, limit=limit, lease=lease, tools=tools
            )
            self._flush(connection, batch)
            return claims

        return self.write_batch(write)

    def renew(self) -> None:
        """Renew the leases of this process's calls."""
        self.transact(lambda connection, now: postgres_owners.renew(connection, self.owner.id, now, self.lease))

    def retire(self) -> None:
        """Note that this process closed the ledger."""
        self.transact(lambda connection, now: postgres_owners.retire(connection, self.owner.id, now))

    def prune(self, ids: Sequence[str], before: float, *, keys: bool) -> Pruned:
        """Remove those of some calls that still can be removed."""
        return self._remove(lambda connection, now: postgres_retention.prune(connection, ids, before, now, keys=keys))

    def forget_keys(self, before: float) -> int:
        """Remove some tombstones of calls that ended before a wall clock."""
        return self._remove(lambda connection, now: postgres_retention.forget_keys(connection, before))

    def _remove(self, write: Callable[[Connection, float], T]) -> T:
        """Run a function in a transaction, in which only the role that owns the tables may remove anything."""

        def run(connection: Connection, now: float) -> T:
            try:
                return write(connection, now)
            except psycopg.errors.InsufficientPrivilege as error:
                raise StoreUnavailable(
                    f"nothing was removed from the ledger {self._name!r}: prune it as the role that owns its tables ({one_line(error)})"
                ) from error

        return self.transact(run)

    def put_blob(self, digest: str, kind: str, body: bytes) -> None:
        """Keep bytes; the same digest again changes nothing."""
        statement = "INSERT INTO fc_blobs VALUES (%s, %s, %s, %s) ON CONFLICT (digest) DO NOTHING"
        self.transact(lambda connection, now: connection.execute(statement, (digest, kind, body, now)))

    def erase_blob(self, digest: str) -> bool:
        """Erase kept bytes. The server's own files hold them until it vacuums and recycles its log."""
        statement = "DELETE FROM fc_blobs WHERE digest = %s"
        return self.transact(lambda connection, now: connection.execute(statement, (digest,)).rowcount > 0)

    def disconnect(self) -> None:
        """Close every connection."""
        self._readers.close()
        self._drop_connection()

    def _flush(self, connection: Connection, batch: Batch) -> None:
        self._xid = postgres_rows.flush(connection, batch)
        if batch.events:
            number, seq, *_, hash_ = batch.events[0]
            self._witness = number, seq, hash_

    def _transact_once(self, write: Callable[[Connection, float], T]) -> T:
        is_used = self._connection is not None
        connection = self._writable()
        self._witness = self._xid = None
        try:
            now = _begin(connection)
        except psycopg.OperationalError:
            self._drop_connection()
            if is_used:
                raise _Again("the server had closed the connection") from None
            raise
        try:
            if not self._is_registered:
                postgres_owners.register(connection, self.owner, now)
            result = write(connection, now)
            xid = self._xid or _assigned(connection)
        except BaseException as error:
            is_lost = isinstance(error, psycopg.OperationalError) and connection.closed
            # What the server prepared within the transaction is gone with it, which the client does not know.
            self._drop_connection()
            if is_lost:
                raise _Again("the connection broke before the commit") from error
            raise
        self._commit_transaction(connection, xid)
        self._is_registered = True
        return result

    def _commit_transaction(self, connection: Connection, xid: str | None) -> None:
        try:
            cursor = connection.execute("COMMIT")
        except psycopg.OperationalError:
            self._drop_connection()
            if xid is None or not self._was_committed(xid):  # without an id nothing was written
                raise _Again("the connection broke and the server rolled the transaction back") from None
            return
        except BaseException:
            self._drop_connection()
            raise
        if cursor.statusmessage != "COMMIT":
            raise StoreError(f"the ledger {self._name!r} rolled back instead of committing; nothing was written")

    def _was_committed(self, xid: str) -> bool:
        """Ask the server what became of a transaction whose commit was sent on a connection that broke.

        The event that it wrote is the proof. Without it, only a transaction that is over is known not to have written it:
        the server may still be working on the commit.

        Raises:
            StoreUnavailable: the server could not be asked in time.
        """
        deadline = time.monotonic() + self._options.timeout
        while True:
            with suppress(psycopg.OperationalError):
                connection = self._writable()
                if self._is_written(connection):
                    return True
                status = _status(connection, xid)
                if status == "committed" and self._witness is None:
                    return True
                if status != "in progress":
                    # It may have ended between the two questions.
                    return self._is_written(connection)
            if time.monotonic() >= deadline:
                raise StoreUnavailable(
                    f"the ledger {self._name!r} went away during the commit, and it is not known whether the record was "
                    "written; ask for its request id when the server is back"
                )
            time.sleep(0.05)

    def _is_written(self, connection: Connection) -> bool:
        if self._witness is None:
            return False
        statement = "SELECT 1 FROM fc_events WHERE task = %s AND seq = %s AND hash = %s"
        return connection.execute(statement, self._witness).fetchone() is not None

    # Connections

    def _writable(self) -> Connection:
        connection = self._connection
        if connection is None or connection.closed:
            connection = connect(self._options.url, self._options.timeout)
            try:
                check(connection, self._name, allow_lost_commits=self._options.allow_lost_commits)
                self._configure(connection)
                migrate(connection, self._name, self._options.schema, create=self._options.create)
            except BaseException:
                connection.close()
                raise
            self._connection = connection
        return connection

    def _drop_connection(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with suppress(psycopg.Error):
                connection.close()

    def _reader(self) -> Connection:
        connection = connect(self._options.url, self._options.timeout)
        try:
            self._configure(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _configure(self, connection: Connection) -> None:
        milliseconds = str(max(1, int(self._options.timeout * 1000)))  # 0 would mean: for ever
        connection.execute(sql.SQL("SET search_path TO {}").format(sql.Identifier(self._options.schema)))
        for setting in ("statement_timeout", "idle_in_transaction_session_timeout"):
            connection.execute("SELECT set_config(%s, %s, false)", (setting, milliseconds))

    @contextmanager
    def _translated(self, *, reading: bool = False) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            raise translate(error, self._name, reading=reading) from error
        except _Again as error:
            raise StoreUnavailable(f"the ledger {self._name!r} did not take the record: {error}; call again") from error
        except Exception as error:
            raise failure(error, self._name) from error.__cause__


def _begin(connection: Connection) -> float:
    """Begin a transaction and answer the server's time, in one round trip."""
    cursor = connection.execute("BEGIN; SELECT extract(epoch FROM clock_timestamp())::float8")
    cursor.nextset()
    ((now,),) = cursor.fetchall()
    return float(now)


def _assigned(connection: Connection) -> str | None:
    row = connection.execute("SELECT pg_current_xact_id_if_assigned()::text").fetchone()
    return None if row is None else row[0]


def _status(connection: Connection, xid: str) -> str | None:
    try:
        row = connection.execute("SELECT pg_xact_status(%s::xid8)", (xid,)).fetchone()
    except psycopg.errors.InvalidParameterValue:
        return None  # a server that took over has never seen the transaction
    return None if row is None else row[0]
