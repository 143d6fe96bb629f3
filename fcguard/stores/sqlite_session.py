"""What one process has open of a SQLite ledger: the writer with its connection, and idle connections for readers."""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeVar

from fcguard.errors import StoreCorrupt, StoreError, StoreUnavailable
from fcguard.stores.base import Answer, Command
from fcguard.stores.batch import Batch
from fcguard.stores.gate import Gate
from fcguard.stores.judge import is_in_flight
from fcguard.stores.owner import Owner, this_owner
from fcguard.stores.recoverable import Drained
from fcguard.stores.spool import Spool
from fcguard.stores.sqlite_owners import register, renew, retire
from fcguard.stores.sqlite_rows import SQLiteView, flush, read_call_events
from fcguard.stores.sqlite_schema import Connector, begin, connect, translate
from fcguard.stores.writer import Writer

__all__ = ["Options", "Session", "Synchronous"]

T = TypeVar("T")

Synchronous = Literal["FULL", "EXTRA", "NORMAL"]

_log = logging.getLogger("fcguard.stores")


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How a ledger is used; see `SQLiteStore`."""

    path: str
    synchronous: Synchronous
    busy_timeout: float
    create: bool
    lease: float
    clock: Callable[[], float]
    connector: Connector


class Session:
    """The connections of one process to one ledger.

    Everything that touches a connection goes through the gate: SQLite keeps its file locks per process, so a connection
    that is open while the process forks makes the child believe in locks that only the parent holds. Before a fork the gate
    is shut and every connection closed; both sides open new ones.
    """

    def __init__(self, options: Options, spool: Spool) -> None:
        self.pid = os.getpid()
        self.options, self.path, self.spool = options, options.path, spool
        self.owner: Owner = this_owner(options.clock())
        self.gate = Gate()
        self._readers: list[sqlite3.Connection] = []
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None
        self._is_registered = False
        self._must_drain = True
        self._in_flight: set[str] = set()
        name = f"fcguard-ledger-{Path(self.path).name}"
        self.writer = Writer(self._commit, self._end, name=name, beat=self.beat, interval=options.lease / 3)

    # Reading

    def read(self, reader: Callable[[sqlite3.Connection], T]) -> T:
        """Run a function on an idle connection.

        Raises:
            StoreError: the ledger cannot be read.
        """
        with self.gate:
            connection = self._reader()
            try:
                result = reader(connection)
            except sqlite3.Error as error:
                connection.close()
                raise translate(error, self.path) from error
            except BaseException:
                connection.close()
                raise
            self._readers.append(connection)
            return result

    def _reader(self) -> sqlite3.Connection:
        try:
            return self._readers.pop()
        except IndexError:
            return self._connect()

    def _connect(self) -> sqlite3.Connection:
        options = self.options
        try:
            return connect(
                self.path,
                synchronous=options.synchronous,
                busy_timeout=options.busy_timeout,
                create=options.create,
                connector=options.connector,
            )
        except sqlite3.Error as error:
            raise translate(error, self.path) from error

    # Life

    def stop(self) -> None:
        """Commit what is queued and close everything."""
        self.writer.stop()
        self.pause()
        self.gate.open()

    def pause(self) -> None:
        """Shut the gate and close every connection."""
        self.gate.shut()
        self._disconnect()
        while self._readers:
            self._readers.pop().close()

    def spooled(self) -> None:
        """Have the spool drained after the next commit that succeeds."""
        self._must_drain = True

    def drain(self) -> Drained:
        """Write what is spooled (on the writer's thread)."""
        self._must_drain = False
        outcome = self.spool.drain(
            self._alone,
            lambda request_id: self.read(lambda c: read_call_events(c, request_id)),
        )
        for name, reason in outcome.failed.items():
            self._must_drain = True
            _log.warning("the spooled outcome %r was not written: %s", name, reason)
        return outcome

    def on_writer(self, job: Callable[[], T]) -> T:
        """Run a job on the writer's thread, after what is queued, and answer what it returns or raise what it raises."""
        result: T = self.writer.run(job)
        return result

    def erase(self, write: Callable[[sqlite3.Connection, float], T]) -> T:
        """Run a function that deletes, so that neither the file nor its log keeps the bytes (on the writer's thread)."""
        with self.gate, self._translated():
            self._writable().execute("PRAGMA secure_delete=ON")
        result = self.transact(write)
        with self.gate, self._translated():
            connection = self._writable()
            connection.execute("PRAGMA secure_delete=OFF")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return result

    def beat(self) -> None:
        """Say that this process lives, and renew the leases of the calls it works on."""
        if self._in_flight:
            self.transact(lambda connection, now: renew(connection, self.owner.id, now, self.options.lease))

    def _end(self) -> None:
        try:
            if self._is_registered and self._connection is not None:
                self.transact(lambda connection, now: retire(connection, self.owner.id, now))
        except StoreError as error:
            _log.warning("the ledger was not told that this process ends: %s", error)
        with self.gate:
            self._disconnect()

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    # Writing, on the writer's thread

    def _commit(self, commands: Sequence[Command]) -> Sequence[Answer | BaseException]:
        if self._must_drain and not self._is_registered:
            self.drain()  # outcomes of earlier processes come before any question of this one
        answers = self._commit_together(commands)
        if self._must_drain:
            self.drain()
        return answers

    def _commit_together(self, commands: Sequence[Command]) -> Sequence[Answer | BaseException]:
        try:
            return self._apply(commands, careful=False)
        except (StoreUnavailable, StoreCorrupt):
            raise
        except StoreError:
            # One command is at fault (an id that exists, a value no column takes): each on its own, so that only it fails.
            return [self._alone(command) for command in commands]

    def _alone(self, command: Command) -> Answer | BaseException:
        try:
            return self._apply([command], careful=True)[0]
        except StoreError as error:
            return error

    def _apply(self, commands: Sequence[Command], *, careful: bool) -> list[Answer | BaseException]:
        def write(connection: sqlite3.Connection, batch: Batch, now: float) -> list[Answer | BaseException]:
            answers: list[Answer | BaseException] = [batch.apply(command) for command in commands]
            flush(connection, batch)
            return answers

        return self.write_batch(write, careful=careful)

    def write_batch(self, write: Callable[[sqlite3.Connection, Batch, float], T], *, careful: bool = True) -> T:
        """Run a function inside one durable transaction, with a working copy that it fills and flushes."""
        batches: list[Batch] = []

        def run(connection: sqlite3.Connection, now: float) -> T:
            batches.append(Batch(SQLiteView(connection), self.owner.id, now, lease=self.options.lease, careful=careful))
            return write(connection, batches[0], now)

        result = self.transact(run)
        self._note_in_flight(batches[0])
        return result

    def _note_in_flight(self, batch: Batch) -> None:
        """Remember which calls this process works on, once their transaction is committed."""
        for rows in (batch.created, batch.changed):
            for request_id, row in rows.items():
                if row.is_entered:
                    continue
                if is_in_flight(row.state, row.next_at) and row.owner == self.owner.id:
                    self._in_flight.add(request_id)
                else:
                    self._in_flight.discard(request_id)

    def transact(self, write: Callable[[sqlite3.Connection, float], T]) -> T:
        """Run a function inside one durable transaction, on the writer's thread; it gets the connection and the time.

        Raises:
            StoreError: nothing was written.
        """
        with self.gate, self._translated():
            connection = self._writable()
            begin(connection, self.options.busy_timeout)
            try:
                now = self.options.clock()
                if not self._is_registered:
                    register(connection, self.owner, now)
                result = write(connection, now)
                connection.execute("COMMIT")
            except BaseException:
                self._undo(connection)
                raise
            self._is_registered = True
            return result

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except StoreError:
            raise
        except sqlite3.Error as error:
            raise translate(error, self.path) from error
        except Exception as error:  # a value that no column takes: too large an integer, a lone surrogate
            raise StoreError(
                f"the ledger {self.path!r} cannot hold the record: {type(error).__name__}: {error}"
            ) from error

    def _undo(self, connection: sqlite3.Connection) -> None:
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        except sqlite3.Error:
            self._disconnect()  # which rolls back as well

    def _writable(self) -> sqlite3.Connection:
        connection = self._connection
        if connection is None:
            connection = self._connect()
            connection.execute("PRAGMA busy_timeout=0")  # `begin` waits, and more fairly
            self._connection = connection
        self._check_file()
        return connection

    def _check_file(self) -> None:
        """Refuse to write to a file that is no longer the one at the path: those records could not be found again."""
        try:
            status = Path(self.path).stat()
        except OSError as error:
            raise StoreUnavailable(
                f"the ledger {self.path!r} was removed while open ({error.strerror}); put it back, or restart to begin a new one"
            ) from error
        if self._file is None:
            self._file = (status.st_dev, status.st_ino)
        elif self._file != (status.st_dev, status.st_ino):
            raise StoreUnavailable(
                f"the ledger {self.path!r} was replaced while open; restart to use the file that is there now"
            )
