"""The default ledger: one SQLite file, durable before it is answered, shared by threads and processes."""

from __future__ import annotations

import atexit
import os
import sqlite3
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path

from fcguard.errors import ConfigurationError, StoreClosed, StoreError
from fcguard.stores.base import CallQuery, Command, Done, Enter, Gap, Head, Move, Note, StoredCall, StoredEvent
from fcguard.stores.owner import Owner
from fcguard.stores.recoverable import Claim, Drained, Pruned
from fcguard.stores.spool import Spool
from fcguard.stores.sqlite_owners import claim, read_owners
from fcguard.stores.sqlite_retention import erase_blob, prune, put_blob, read_blob
from fcguard.stores.sqlite_rows import (
    pages_of_calls,
    pages_of_events,
    read_call_events,
    read_gaps,
    read_heads,
    read_one,
)
from fcguard.stores.sqlite_schema import Connector
from fcguard.stores.sqlite_session import Options, Session, Synchronous

__all__ = ["SQLiteStore"]

_EVERYTHING = CallQuery()


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
        lease: seconds for which a call belongs to the process that moved it; renewed at a third of it while the call is open.
        spool: directory for outcomes that could not be written; default: the path with `-spool` appended.
        max_queued: how many commands that nobody waits for (`Enter(wait=False)`) may queue before `submit` blocks.
        clock: wall clock in seconds, for leases.
        connector: opens a connection like `sqlite3.connect`, for another build of SQLite (`pysqlite3.connect`).

    Raises:
        ConfigurationError: an option has no meaning.
    """

    answers_inline = False

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        synchronous: Synchronous = "FULL",
        busy_timeout: float = 30.0,
        create: bool = True,
        lease: float = 60.0,
        spool: str | os.PathLike[str] | None = None,
        max_queued: int = 10_000,
        clock: Callable[[], float] = time.time,
        connector: Connector = sqlite3.connect,
    ) -> None:
        name = os.fspath(path)
        if synchronous not in {"FULL", "EXTRA", "NORMAL"}:
            raise ConfigurationError(f"synchronous={synchronous!r}: use 'FULL', 'EXTRA' or 'NORMAL'")
        if not name or name.startswith(":memory:"):
            raise ConfigurationError(f"SQLiteStore({name!r}) keeps nothing; give a path, or use MemoryStore()")
        if lease <= 0 or busy_timeout < 0:
            raise ConfigurationError(
                f"lease={lease!r}, busy_timeout={busy_timeout!r}: both are seconds, the lease above zero"
            )
        self.path = str(Path(name).absolute())
        self._options = Options(
            path=self.path,
            synchronous=synchronous,
            busy_timeout=busy_timeout,
            create=create,
            lease=lease,
            clock=clock,
            connector=connector,
        )
        self._spool = Spool(f"{self.path}-spool" if spool is None else spool)
        self._max_queued = max_queued
        self._starting = threading.Lock()
        self._session: Session | None = None
        self._inherited: list[Session] = []
        self._is_closed = self._is_hooked = False

    def submit(self, command: Command, done: Done) -> None:
        """Queue a command for the next commit; see `Store.submit`."""
        session = self._session
        if session is None or session.pid != os.getpid():
            try:
                session = self._open()
            except StoreError as error:
                done(error)
                return
        session.writer.put(command, done)
        if type(command) is Enter and not command.wait and session.writer.waiting() > self._max_queued:
            session.writer.run(_nothing)

    def get(self, request_id: str) -> StoredCall | None:
        """Answer the row of a call, or None."""
        return self._open().read(lambda connection: read_one(connection, request_id))

    def events(self, *, request_id: str | None = None, task_id: str | None = None) -> Iterator[StoredEvent]:
        """Yield events in chain order: of one call, of one task, or all. Reads in pages; later events may show."""
        session = self._open()
        if request_id is not None:
            events = session.read(lambda connection: read_call_events(connection, request_id))
            yield from (event for event in events if task_id is None or event.task_id == task_id)
            return
        for page in pages_of_events(session.read, task_id):
            yield from page

    def calls(self, query: CallQuery = _EVERYTHING) -> Iterator[StoredCall]:
        """Yield calls that match, newest first by request id. Reads in pages; states may be as of different moments."""
        for page in pages_of_calls(self._open().read, query):
            yield from page

    def heads(self) -> Iterator[Head]:
        """Yield the last event of every task."""
        yield from self._open().read(read_heads)

    def gaps(self) -> Iterator[Gap]:
        """Yield the ranges of events that were pruned."""
        yield from self._open().read(read_gaps)

    @property
    def owner(self) -> Owner:
        """This process, as the ledger knows it."""
        return self._open().owner

    def owners(self) -> list[Owner]:
        """Answer the processes that the ledger knows."""
        return self._open().read(read_owners)

    def claim(self, *, limit: int = 100, lease: float = 60.0) -> list[Claim]:
        """Take over calls that nobody works on; see `RecoverableStore.claim`."""
        session = self._open()
        return session.on_writer(lambda: session.write_batch(
            lambda connection, batch, now: claim(connection, batch, session.owner, now, limit=limit, lease=lease)
        ))  # fmt: skip

    def heartbeat(self) -> None:
        """Renew the leases of this process's calls now; the writer does it by itself at a third of the lease."""
        session = self._open()
        session.on_writer(session.beat)

    def spool(self, command: Move | Note | Enter) -> None:
        """Keep an outcome that `submit` could not write in a synced file; see `RecoverableStore.spool`."""
        self._spool.keep(command)
        session = self._session
        if session is not None:
            session.spooled()

    def drain(self) -> Drained:
        """Write what is spooled; see `RecoverableStore.drain`."""
        session = self._open()
        return session.on_writer(session.drain)

    def prune(self, before: float) -> Pruned:
        """Remove calls that finished before a wall clock, with their events; see `RecoverableStore.prune`."""
        session = self._open()
        calls = events = 0
        while True:
            part = session.on_writer(lambda: session.transact(lambda connection, now: prune(connection, before)))
            calls, events = calls + part.calls, events + part.events
            if not part.calls:
                return Pruned(calls, events)

    def put_blob(self, digest: str, kind: str, body: bytes) -> None:
        """Keep bytes that may have to be erased later, durably, under their digest."""
        session = self._open()
        session.on_writer(
            lambda: session.transact(lambda connection, now: put_blob(connection, digest, kind, body, now))
        )

    def blob(self, digest: str) -> bytes | None:
        """Answer kept bytes, or None if they were never kept or were erased."""
        return self._open().read(lambda connection: read_blob(connection, digest))

    def erase_blob(self, digest: str) -> bool:
        """Erase kept bytes, in the file and in its log; the chain still verifies. Answer whether there were any."""
        session = self._open()
        return session.on_writer(lambda: session.erase(lambda connection, now: erase_blob(connection, digest)))

    def close(self) -> None:
        """Commit what was submitted and close the file. Idempotent; the ledger cannot be used afterwards."""
        with self._starting:
            self._is_closed = True
            session, self._session = self._session, None
        if session is not None and session.pid == os.getpid():
            session.stop()

    def _open(self) -> Session:
        session = self._session
        if session is not None and session.pid == os.getpid():
            return session
        with self._starting:
            session = self._session
            if session is not None and session.pid == os.getpid():
                return session
            if self._is_closed:
                raise StoreClosed(f"the ledger {self.path!r} was closed; make a new SQLiteStore")
            if session is not None:
                self._leave(session)
            if not self._is_hooked:
                self._hook()
            self._session = session = Session(self._options, self._spool)
            weakref.finalize(self, session.writer.end).atexit = False
            return session

    def _leave(self, session: Session) -> None:
        """Let go of what a parent process opened; nothing of it may be used or closed here."""
        self._inherited.append(session)
        session.writer.drop(
            StoreClosed("the process was forked; the parent still writes this record, the child does not")
        )

    def _hook(self) -> None:
        self._is_hooked = True
        reference = weakref.ref(self)
        atexit.register(_with(reference, SQLiteStore.close))
        os.register_at_fork(
            before=_with(reference, SQLiteStore._before_fork),
            after_in_parent=_with(reference, SQLiteStore._after_fork),
            after_in_child=_with(reference, SQLiteStore._after_fork_in_child),
        )

    def _before_fork(self) -> None:
        self._starting.acquire()
        if self._session is not None and self._session.pid == os.getpid():
            self._session.pause()

    def _after_fork(self) -> None:
        if self._session is not None:
            self._session.gate.open()
        self._starting.release()

    def _after_fork_in_child(self) -> None:
        self._starting = threading.Lock()


def _with(reference: weakref.ref[SQLiteStore], act: Callable[[SQLiteStore], None]) -> Callable[[], None]:
    # Hooks of the interpreter live as long as it does; they must not keep the store alive as well.
    def hook() -> None:
        store = reference()
        if store is not None:
            act(store)

    return hook


def _nothing() -> None:
    pass
