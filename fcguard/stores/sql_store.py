"""The public face that the SQL ledgers share: it opens a session per process and asks it."""

from __future__ import annotations

import atexit
import os
import threading
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator
from functools import partial
from typing import Any

from fcguard.errors import StoreClosed, StoreError
from fcguard.stores.base import (
    CallQuery,
    Command,
    Done,
    Enter,
    Gap,
    Head,
    Move,
    Note,
    StoredCall,
    StoredEvent,
)
from fcguard.stores.owner import Owner
from fcguard.stores.recoverable import Claim, Drained, Progress, Pruned, tools_to_claim
from fcguard.stores.session import Session
from fcguard.stores.spool import Spool
from fcguard.stores.tombstone import Tombstone

__all__ = ["SqlStore"]

_EVERYTHING = CallQuery()
_MOST_SECONDS = 5.0
"""Time that a recovery may take to look whether the ledger is whole, for what grows with the ledger."""


class SqlStore(ABC):
    """A `RecoverableStore` whose work is done by a session.

    Args:
        name: what messages call the ledger; no secrets.
        spool: where outcomes wait that could not be written.
        max_queued: how many commands that nobody waits for (`Enter(wait=False)`) may queue before `submit` blocks.
    """

    def __init__(self, name: str, *, spool: Spool, max_queued: int) -> None:
        self._name, self._spool, self._max_queued = name, spool, max_queued
        self._starting = threading.Lock()
        self._session: Session[Any] | None = None
        self._inherited: list[Session[Any]] = []
        self._is_closed = self._is_hooked = False

    @abstractmethod
    def _new_session(self) -> Session[Any]:
        """Make a session for this process; opens nothing yet."""

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
            session.on_writer(_nothing)

    def get(self, request_id: str) -> StoredCall | None:
        """Answer the row of a call, or None."""
        return self._open().get(request_id)

    def events(self, *, request_id: str | None = None, task_id: str | None = None) -> Iterator[StoredEvent]:
        """Yield events in chain order: of one call, of one task, or all. Reads in pages; later events may show."""
        session = self._open()
        if request_id is not None:
            events = session.call_events(request_id)
            yield from (event for event in events if task_id is None or event.task_id == task_id)
            return
        for page in session.pages_of_events(task_id):
            yield from page

    def calls(self, query: CallQuery = _EVERYTHING) -> Iterator[StoredCall]:
        """Yield calls that match, newest first by request id. Reads in pages; states may be as of different moments."""
        for page in self._open().pages_of_calls(query):
            yield from page

    def examine(self, *, once: bool = False) -> None:
        """Look whether the medium is whole; see `RecoverableStore.examine`."""
        session = self._open()
        if not (once and session.is_examined):
            session.examine(_MOST_SECONDS if once else None)
            session.is_examined = True

    def heads(self) -> Iterator[Head]:
        """Yield the last event of every task."""
        yield from self._open().heads()

    def gaps(self) -> Iterator[Gap]:
        """Yield the ranges of events that were pruned."""
        yield from self._open().gaps()

    @property
    def owner(self) -> Owner:
        """This process, as the ledger knows it."""
        return self._open().owner

    def now(self) -> float:
        """Answer the ledger's wall clock in seconds, on which leases count."""
        return self._open().now()

    def owners(self) -> list[Owner]:
        """Answer the processes that the ledger knows."""
        return self._open().owners()

    def claim(self, *, limit: int = 100, lease: float = 60.0, tools: Collection[str] | None = None) -> list[Claim]:
        """Take over calls that nobody works on; see `RecoverableStore.claim`."""
        wanted = tools_to_claim(tools)
        session = self._open()
        return session.on_writer(lambda: session.claim(limit, lease, wanted))

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

    def prune(self, before: float, *, keys: bool = False, progress: Progress | None = None) -> Pruned:
        """Remove calls that finished before a wall clock, with their events; see `RecoverableStore.prune`."""
        session = self._open()
        total = Pruned(0, 0)
        for ids in _parts(session, before):
            total += session.on_writer(partial(session.prune, ids, before, keys=keys))
            if progress is not None:
                progress(total)
        while keys and (forgotten := session.on_writer(partial(session.forget_keys, before))):
            total += Pruned(0, 0, forgotten=forgotten)
            if progress is not None:
                progress(total)
        return total

    def tombstone(self, request_id: str) -> Tombstone | None:
        """Answer what is kept of a pruned call, or None."""
        return self._open().tombstone(request_id)

    def tombstones(self) -> Iterator[tuple[Tombstone, bytes]]:
        """Yield the keys of pruned writes with their seals, by id. Reads in pages."""
        for page in self._open().pages_of_tombstones():
            yield from page

    def put_blob(self, digest: str, kind: str, body: bytes) -> None:
        """Keep bytes that may have to be erased later, durably, under their digest."""
        session = self._open()
        session.on_writer(lambda: session.put_blob(digest, kind, body))

    def blob(self, digest: str) -> bytes | None:
        """Answer kept bytes, or None if they were never kept or were erased."""
        return self._open().blob(digest)

    def erase_blob(self, digest: str) -> bool:
        """Erase kept bytes; the chain still verifies. Answer whether there were any."""
        session = self._open()
        return session.on_writer(lambda: session.erase_blob(digest))

    def close(self) -> None:
        """Commit what was submitted and close the ledger. Idempotent; it cannot be used afterwards."""
        with self._starting:
            self._is_closed = True
            session, self._session = self._session, None
        if session is not None and session.pid == os.getpid():
            session.stop()

    def _open(self) -> Session[Any]:
        session = self._session
        if session is not None and session.pid == os.getpid():
            return session
        with self._starting:
            session = self._session
            if session is not None and session.pid == os.getpid():
                return session
            if self._is_closed:
                raise StoreClosed(f"the ledger {self._name!r} was closed; make a new {type(self).__name__}")
            if session is not None:
                self._leave(session)
            if not self._is_hooked:
                self._hook()
            self._session = session = self._new_session()
            weakref.finalize(self, session.writer.end).atexit = False
            return session

    def _leave(self, session: Session[Any]) -> None:
        """Let go of what a parent process opened; nothing of it may be used or closed here."""
        self._inherited.append(session)
        session.writer.drop(
            StoreClosed("the process was forked; the parent still writes this record, the child does not")
        )

    def _hook(self) -> None:
        self._is_hooked = True
        reference = weakref.ref(self)
        atexit.register(_with(reference, SqlStore.close))
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(
                before=_with(reference, SqlStore._before_fork),
                after_in_parent=_with(reference, SqlStore._after_fork),
                after_in_child=_with(reference, SqlStore._after_fork_in_child),
            )

    def _before_fork(self) -> None:
        self._starting.acquire()
        if self._session is not None and self._session.pid == os.getpid():
            self._session.before_fork()

    def _after_fork(self) -> None:
        if self._session is not None:
            self._session.after_fork()
        self._starting.release()

    def _after_fork_in_child(self) -> None:
        self._starting = threading.Lock()


def _with(reference: weakref.ref[SqlStore], act: Callable[[SqlStore], None]) -> Callable[[], None]:
    # Hooks of the interpreter live as long as it does; they must not keep the store alive as well.
    def hook() -> None:
        store = reference()
        if store is not None:
            act(store)

    return hook


def _parts(session: Session[Any], before: float) -> Iterator[list[str]]:
    """Yield the ids of calls to prune, a few at a time. They are looked for by a reader, which holds no writer up."""
    after = ""
    while ids := session.prunable(before, after):
        yield ids
        after = ids[-1]


def _nothing() -> None:
    pass
