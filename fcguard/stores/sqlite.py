"""The default ledger: one SQLite file, durable before it is answered, shared by threads and processes."""

from __future__ import annotations

import atexit
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, Literal, TypeVar

from fcguard.errors import ConfigurationError, StoreClosed, StoreCorrupt, StoreError, StoreUnavailable
from fcguard.stores.base import Answer, CallQuery, Command, Done, Enter, Gap, Head, StoredCall, StoredEvent
from fcguard.stores.batch import Batch
from fcguard.stores.owner import Owner, this_owner
from fcguard.stores.sqlite_rows import (
    SQLiteView,
    flush,
    read_call_events,
    read_calls,
    read_events,
    read_gaps,
    read_heads,
    read_one,
)
from fcguard.stores.sqlite_schema import begin, connect, translate
from fcguard.stores.writer import Writer

__all__ = ["SQLiteStore"]

T = TypeVar("T")

_LEASE: Final = 60.0


class SQLiteStore:
    """Keep the ledger in a SQLite file.

    Constructing touches nothing; the file and its directory are made at first use. An answer means that the record is on
    the disk (WAL, `synchronous=FULL`). One daemon thread per process writes; whatever waits for it shares one commit.
    Several processes may use one file on a local file system; a network file system is not supported. After a fork the
    child opens the file again by itself.

    Args:
        path: the ledger's file.
        synchronous: `FULL`; `EXTRA`; or `NORMAL`, which may lose the last answered records at a power cut (not at a crash
            of the process).
        busy_timeout: seconds to wait for another process that writes.
        create: whether to make the file if it is missing; else that is `StoreUnavailable`.
        max_queued: how many commands that nobody waits for (`Enter(wait=False)`) may queue before `submit` blocks.
        clock: wall clock in seconds, for leases.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        synchronous: Literal["FULL", "EXTRA", "NORMAL"] = "FULL",
        busy_timeout: float = 30.0,
        create: bool = True,
        max_queued: int = 10_000,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.path = os.path.abspath(os.fspath(path))
        if synchronous not in {"FULL", "EXTRA", "NORMAL"}:
            raise ConfigurationError(f"synchronous={synchronous!r}: use 'FULL', 'EXTRA' or 'NORMAL'")
        if ":memory:" in os.fspath(path):
            raise ConfigurationError(f"SQLiteStore({os.fspath(path)!r}) keeps nothing; use MemoryStore()")
        self._options = {"synchronous": synchronous, "busy_timeout": busy_timeout, "create": create}
        self._busy_timeout, self._max_queued, self._clock = busy_timeout, max_queued, clock
        self._starting = threading.Lock()
        self._session: _Session | None = None
        self._left: list[_Session] = []
        self._closed = False
        self._hooked = False

    def submit(self, command: Command, done: Done) -> None:
        """Queue a command for the next commit; see `Store.submit`."""
        session = self._session
        if session is None or session.pid != os.getpid():
            try:
                session = self._start()
            except StoreError as error:
                done(error)
                return
        session.writer.put(command, done)
        if type(command) is Enter and not command.wait and session.writer.waiting() > self._max_queued:
            session.writer.run(_nothing)

    def get(self, request_id: str) -> StoredCall | None:
        """Answer the row of a call, or None."""
        return self._read(lambda connection: read_one(connection, request_id))

    def events(self, *, request_id: str | None = None, task_id: str | None = None) -> Iterator[StoredEvent]:
        """Yield events in chain order: of one call, of one task, or all. Reads in pages; later events may show."""
        if request_id is not None:
            events = self._read(lambda connection: read_call_events(connection, request_id))
            yield from (event for event in events if task_id is None or event.task_id == task_id)
            return
        yield from self._pages(lambda connection: read_events(connection, task_id))

    def calls(self, query: CallQuery = CallQuery()) -> Iterator[StoredCall]:  # noqa: B008 - frozen
        """Yield calls that match, newest first by request id. Reads in pages; states may be as of different moments."""
        yield from self._pages(lambda connection: read_calls(connection, query))

    def heads(self) -> Iterator[Head]:
        """Yield the last event of every task."""
        yield from self._read(read_heads)

    def gaps(self) -> Iterator[Gap]:
        """Yield the ranges of events that were pruned."""
        yield from self._read(read_gaps)

    def close(self) -> None:
        """Commit what was submitted and close the file. Idempotent; the ledger cannot be used afterwards."""
        with self._starting:
            self._closed = True
            session, self._session = self._session, None
        if session is not None and session.pid == os.getpid():
            session.stop()

    def _start(self) -> _Session:
        with self._starting:
            session = self._session
            if session is not None and session.pid == os.getpid():
                return session
            if self._closed:
                raise StoreClosed(f"the ledger {self.path!r} was closed; make a new SQLiteStore")
            if session is not None:
                self._leave(session)
            if not self._hooked:
                self._hooked = True
                atexit.register(_close, weakref.ref(self))
                os.register_at_fork(after_in_child=_lock_again(weakref.ref(self)))
            self._session = session = _Session(self)
            weakref.finalize(self, session.writer.end).atexit = False
            return session

    def _leave(self, session: _Session) -> None:
        """Let go of what a parent process opened; its connections must be neither used nor closed here."""
        self._left.append(session)
        session.writer.drop(
            StoreClosed("the process was forked; the parent still writes this record, the child does not")
        )

    def _read(self, read: Callable[[sqlite3.Connection], T]) -> T:
        with self._reader() as connection:
            return read(connection)

    def _pages(self, read: Callable[[sqlite3.Connection], Iterator[list[T]]]) -> Iterator[T]:
        with self._reader() as connection:
            for page in read(connection):
                yield from page

    @contextmanager
    def _reader(self) -> Iterator[sqlite3.Connection]:
        session = self._session
        if session is None or session.pid != os.getpid():
            session = self._start()
        try:
            connection = session.readers.pop() if session.readers else session.connect()
        except IndexError:
            connection = session.connect()
        try:
            yield connection
        except sqlite3.Error as error:
            connection.close()
            raise translate(error, self.path) from error
        except BaseException:
            connection.close()
            raise
        else:
            session.readers.append(connection)


class _Session:
    """What one process has open: the writer with its connection, and idle connections for readers."""

    def __init__(self, store: SQLiteStore) -> None:
        self.pid = os.getpid()
        self.path, self._options, self._busy_timeout = store.path, store._options, store._busy_timeout
        self._clock = store._clock
        self.owner: Owner = this_owner(self._clock())
        self.readers: list[sqlite3.Connection] = []
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None
        self.writer = Writer(self._commit, self._disconnect, name=f"fcguard-ledger-{os.path.basename(self.path)}")

    def connect(self) -> sqlite3.Connection:
        try:
            return connect(self.path, **self._options)  # type: ignore[arg-type]
        except sqlite3.Error as error:
            raise translate(error, self.path) from error

    def stop(self) -> None:
        self.writer.stop()
        while self.readers:
            self.readers.pop().close()

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _writable(self) -> sqlite3.Connection:
        connection = self._connection
        if connection is None:
            connection = self.connect()
            connection.execute("PRAGMA busy_timeout=0")  # `begin` waits, and more fairly
            self._connection = connection
        self._check_file()
        return connection

    def _check_file(self) -> None:
        """Refuse to write to a file that is no longer the one at the path: those records could not be found again."""
        try:
            status = os.stat(self.path)
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

    def _commit(self, commands: Sequence[Command]) -> Sequence[Answer | BaseException]:
        """Make commands durable in one transaction; runs on the writer's thread."""
        try:
            return self._transact(commands, careful=False)
        except Exception as error:
            failure = error if isinstance(error, StoreError) else self._failure(error)
            if isinstance(failure, StoreUnavailable | StoreCorrupt):
                raise failure from error
        # One command is at fault (an id that exists, a value no column takes): each on its own, so that only that one fails.
        return [self._alone(command) for command in commands]

    def _alone(self, command: Command) -> Answer | BaseException:
        try:
            return self._transact([command], careful=True)[0]
        except Exception as error:  # noqa: BLE001 - this is the answer
            return error if isinstance(error, StoreError) else self._failure(error)

    def _failure(self, error: Exception) -> StoreError:
        if isinstance(error, sqlite3.Error):
            return translate(error, self.path)
        failure = StoreError(f"the ledger {self.path!r} cannot hold the record: {type(error).__name__}: {error}")
        failure.__cause__ = error
        return failure

    def _transact(self, commands: Sequence[Command], *, careful: bool) -> list[Answer | BaseException]:
        connection = self._writable()
        begin(connection, self._busy_timeout)
        try:
            batch = Batch(SQLiteView(connection), self.owner.id, self._clock(), lease=_LEASE, careful=careful)
            answers: list[Answer | BaseException] = [batch.apply(command) for command in commands]
            flush(connection, batch)
            connection.execute("COMMIT")
        except BaseException as error:
            self._undo(connection, error)
            raise
        return answers

    def _undo(self, connection: sqlite3.Connection, error: BaseException) -> None:
        try:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
        except sqlite3.Error:
            pass  # the medium failed; the connection is closed next, which rolls back as well
        if isinstance(error, sqlite3.Error) and not isinstance(error, sqlite3.IntegrityError):
            self._disconnect()


def _close(reference: weakref.ref[SQLiteStore]) -> None:
    store = reference()
    if store is not None:
        store.close()


def _nothing() -> None:
    pass


def _lock_again(reference: weakref.ref[SQLiteStore]) -> Callable[[], None]:
    # Another thread of the parent may have held the lock at the fork; in the child nobody would ever release it.
    def after_fork() -> None:
        store = reference()
        if store is not None:
            store._starting = threading.Lock()

    return after_fork
