"""What one process has open of a SQLite ledger."""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

from fcguard.errors import StoreUnavailable
from fcguard.stores import sqlite_owners, sqlite_retention, sqlite_rows
from fcguard.stores.base import Answer, CallQuery, Command, Gap, Head, StoredCall, StoredEvent
from fcguard.stores.batch import Batch
from fcguard.stores.gate import Gate
from fcguard.stores.owner import Owner
from fcguard.stores.patience import Patience
from fcguard.stores.recoverable import Claim, Pruned
from fcguard.stores.session import Session, failure
from fcguard.stores.spool import Spool
from fcguard.stores.sqlite_check import Reached, decode_reached, encode_reached, examine
from fcguard.stores.sqlite_lock import FileLock
from fcguard.stores.sqlite_schema import Connector, begin, connect, translate
from fcguard.stores.tombstone import Tombstone

__all__ = ["Options", "SQLiteSession", "Synchronous"]

T = TypeVar("T")

_log = logging.getLogger("fcguard.stores")

Synchronous = Literal["FULL", "EXTRA", "NORMAL"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a ledger is used; see `SQLiteStore`."""

    path: str
    synchronous: Synchronous
    patience: Patience
    create: bool
    lease: float
    clock: Callable[[], float]
    connector: Connector


class SQLiteSession(Session[sqlite3.Connection]):
    """The connections of one process to one ledger: one that writes, and idle ones for readers.

    Everything that touches a connection goes through the gate: SQLite keeps its file locks per process, so a connection
    that is open while the process forks makes the child believe in locks that only the parent holds. Before a fork the gate
    is shut and every connection closed; both sides open new ones.
    """

    def __init__(self, options: Options, spool: Spool) -> None:
        self._options, self._path = options, options.path
        self._gate = Gate()
        self._lock = FileLock(options.path, options.patience)
        self._readers: list[sqlite3.Connection] = []
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None
        self._batch: Batch | None = None
        super().__init__(Path(options.path).name, lease=options.lease, spool=spool, now=options.clock())

    def read(self, reader: Callable[[sqlite3.Connection], T]) -> T:
        """Run a function on an idle connection.

        Raises:
            StoreError: the ledger cannot be read.
        """
        with self._gate:
            connection = self._reader()
            try:
                result = reader(connection)
            except sqlite3.Error as error:
                connection.close()
                raise translate(error, self._path) from error
            except BaseException:
                connection.close()
                raise
            self._readers.append(connection)
            return result

    def transact(self, write: Callable[[sqlite3.Connection, float], T]) -> T:
        """Run a function in one durable transaction; see `Session.transact`."""
        with self._gate, self._translated(), self._writing() as until:
            connection = self._writable()
            begin(connection, self._options.patience, until)
            self._batch = None
            try:
                now = self._options.clock()
                if not self._is_registered:
                    sqlite_owners.register(connection, self.owner, now)
                result = write(connection, now)
                connection.execute("COMMIT")
            except BaseException:
                self._undo(connection)
                raise
            self._is_registered = True
            self._note_reached()
            return result

    def _note_reached(self) -> None:
        """Note beside the ledger how far it has come, so that a log that SQLite cuts off at a bad frame is noticed."""
        chains = self._batch.chains if self._batch is not None else None
        if chains and self._options.synchronous != "NORMAL":
            chain = next(iter(chains.values()))
            self._lock.note(encode_reached(Reached(chain.number, chain.seq, chain.hash)))

    def examine(self, seconds: float | None) -> None:
        """Look whether the file is whole, and holds what its writers know to have reached."""
        noted = self._lock.noted()  # first: what it says is committed, so a later look at the file must find it
        reached = None if noted is None else decode_reached(noted)
        if not self.read(lambda connection: examine(connection, self._path, reached, seconds)):
            _log.info(
                "the ledger %r was looked at for %g s and no damage was seen; `fcguard verify` looks at all of it",
                self._path,
                seconds,
            )

    def make_batch(self, connection: sqlite3.Connection, now: float, *, careful: bool) -> Batch:
        """Make the working copy of a transaction."""
        view = sqlite_rows.SQLiteView(connection)
        self._batch = Batch(view, self.owner.id, now, lease=self.lease, careful=careful)
        return self._batch

    def apply(
        self, connection: sqlite3.Connection, batch: Batch, commands: Sequence[Command]
    ) -> list[Answer | BaseException]:
        """Apply commands to a working copy and write it."""
        answers: list[Answer | BaseException] = [batch.apply(command) for command in commands]
        sqlite_rows.flush(connection, batch)
        return answers

    def get(self, request_id: str) -> StoredCall | None:
        """Answer the row of a call."""
        return self.read(lambda connection: sqlite_rows.read_one(connection, request_id))

    def call_events(self, request_id: str) -> list[StoredEvent]:
        """Answer the events of a call."""
        return self.read(lambda connection: sqlite_rows.read_call_events(connection, request_id))

    def pages_of_events(self, task_id: str | None) -> Iterator[list[StoredEvent]]:
        """Yield pages of events in chain order."""
        return sqlite_rows.pages_of_events(self.read, task_id)

    def pages_of_calls(self, query: CallQuery) -> Iterator[list[StoredCall]]:
        """Yield pages of calls, newest first."""
        return sqlite_rows.pages_of_calls(self.read, query)

    def heads(self) -> list[Head]:
        """Answer the last event of every task."""
        return self.read(sqlite_rows.read_heads)

    def gaps(self) -> list[Gap]:
        """Answer the ranges of events that were pruned."""
        return self.read(sqlite_rows.read_gaps)

    def now(self) -> float:
        """Answer the clock of this host: a file is not shared by others."""
        return self._options.clock()

    def owners(self) -> list[Owner]:
        """Answer the known processes."""
        return self.read(sqlite_owners.read_owners)

    def claim(self, limit: int, lease: float, tools: frozenset[str] | None) -> list[Claim]:
        """Take over calls that nobody works on, of some tools or of all."""
        return self.write_batch(
            lambda connection, batch, now: sqlite_owners.claim(
                connection, batch, self.owner, now, limit=limit, lease=lease, tools=tools
            )
        )

    def renew(self) -> None:
        """Renew the leases of this process's calls."""
        self.transact(lambda connection, now: sqlite_owners.renew(connection, self.owner.id, now, self.lease))

    def retire(self) -> None:
        """Note that this process closed the ledger."""
        if self._connection is not None:
            self.transact(lambda connection, now: sqlite_owners.retire(connection, self.owner.id, now))

    def prunable(self, before: float, after: str) -> list[str]:
        """Answer the ids of some calls that finished before a wall clock."""
        return self.read(lambda connection: sqlite_retention.prunable(connection, before, after))

    def prune(self, ids: Sequence[str], before: float, *, keys: bool) -> Pruned:
        """Remove those of some calls that still can be removed."""
        return self.transact(lambda connection, now: sqlite_retention.prune(connection, ids, before, now, keys=keys))

    def forget_keys(self, before: float) -> int:
        """Remove some tombstones of calls that ended before a wall clock."""
        return self.transact(lambda connection, now: sqlite_retention.forget_keys(connection, before))

    def tombstone(self, request_id: str) -> Tombstone | None:
        """Answer what is kept of a pruned call."""
        return self.read(
            lambda connection: sqlite_retention.find_tombstone(connection, "t.request_id = ?", (request_id,))
        )

    def pages_of_tombstones(self) -> Iterator[list[tuple[Tombstone, bytes]]]:
        """Yield pages of tombstones with their seals."""
        return sqlite_rows.pages_of_tombstones(self.read)

    def put_blob(self, digest: str, kind: str, body: bytes) -> None:
        """Keep bytes."""
        self.transact(lambda connection, now: sqlite_retention.put_blob(connection, digest, kind, body, now))

    def blob(self, digest: str) -> bytes | None:
        """Answer kept bytes."""
        return self.read(lambda connection: sqlite_retention.read_blob(connection, digest))

    def erase_blob(self, digest: str) -> bool:
        """Erase kept bytes, so that neither the file nor its log holds them any more."""
        with self._gate, self._translated(), self._writing():
            self._writable().execute("PRAGMA secure_delete=ON")
        erased = self.transact(lambda connection, now: sqlite_retention.erase_blob(connection, digest))
        with self._gate, self._translated(), self._writing():
            connection = self._writable()
            connection.execute("PRAGMA secure_delete=OFF")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return erased

    def disconnect(self) -> None:
        """Close every connection."""
        self._gate.shut()
        if self._connection is not None or self._readers:
            until = self._options.patience.begin()
            with suppress(StoreUnavailable), self._lock.held(until):  # the last connection of all folds the log
                self._close_all()
            self._close_all()
        self._lock.close()
        self._gate.open()

    def before_fork(self) -> None:
        """Close every connection and let nobody open another one."""
        self.disconnect()
        self._gate.shut()

    def after_fork(self) -> None:
        """Let connections be opened again."""
        self._gate.open()

    def _close_all(self) -> None:
        self._disconnect_writer()
        while self._readers:
            self._readers.pop().close()

    def _reader(self) -> sqlite3.Connection:
        try:
            return self._readers.pop()
        except IndexError:
            return self._connect(self._options.patience.begin())

    def _connect(self, until: float) -> sqlite3.Connection:
        options = self._options
        try:
            return connect(
                self._path,
                synchronous=options.synchronous,
                patience=options.patience,
                until=until,
                create=options.create,
                connector=options.connector,
            )
        except sqlite3.Error as error:
            raise translate(error, self._path) from error

    def _disconnect_writer(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise translate(error, self._path) from error
        except Exception as error:
            raise failure(error, self._path) from error.__cause__

    def _undo(self, connection: sqlite3.Connection) -> None:
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        except sqlite3.Error:
            self._disconnect_writer()  # which rolls back as well

    @contextmanager
    def _writing(self) -> Iterator[float]:
        until = self._options.patience.begin()  # one deadline for whatever this write has to wait for
        if self._connection is None:
            self._connection = self._connect_writer(until)  # makes the directory that the lock's file needs
        with self._lock.held(until):
            yield until

    def _connect_writer(self, until: float) -> sqlite3.Connection:
        connection = self._connect(until)
        connection.execute("PRAGMA busy_timeout=0")  # `begin` waits, and more fairly
        return connection

    def _writable(self) -> sqlite3.Connection:
        connection = self._connection
        if connection is None:
            connection = self._connection = self._connect_writer(self._options.patience.begin())
        self._check_file()
        return connection

    def _check_file(self) -> None:
        """Refuse to write to a file that is no longer the one at the path: those records could not be found again."""
        path = self._path
        try:
            status = os.stat(path)  # noqa: PTH116 - once a commit, and a Path costs ten times the call
        except OSError as error:
            raise StoreUnavailable(
                f"the ledger {path!r} was removed while open ({error.strerror}); put it back, or restart to begin a new one"
            ) from error
        if self._file is None:
            self._file = (status.st_dev, status.st_ino)
        elif self._file != (status.st_dev, status.st_ino):
            raise StoreUnavailable(
                f"the ledger {path!r} was replaced while open; restart to use the file that is there now"
            )
