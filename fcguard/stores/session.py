"""What one process has open of a SQL ledger: the writer that commits in groups, and everything that runs on it."""

from __future__ import annotations

import logging
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from typing import Generic, TypeVar

from fcguard.errors import StoreCorrupt, StoreError, StoreUnavailable
from fcguard.stores.base import Answer, CallQuery, Command, Gap, Head, StoredCall, StoredEvent
from fcguard.stores.batch import Batch
from fcguard.stores.judge import is_in_flight
from fcguard.stores.owner import Owner, this_owner
from fcguard.stores.recoverable import Claim, Drained, Pruned
from fcguard.stores.spool import Spool
from fcguard.stores.tombstone import Tombstone
from fcguard.stores.writer import Writer

__all__ = ["Session", "failure"]

C = TypeVar("C")
T = TypeVar("T")

_log = logging.getLogger("fcguard.stores")


class Session(ABC, Generic[C]):
    """One process at one ledger; `C` is the database's connection. What a store is asked, its session does.

    Methods that write run on the writer's thread (`on_writer`); reading methods run anywhere.

    Args:
        name: short name of the ledger, for the thread.
        lease: seconds for which a call belongs to the process that moved it.
        spool: where outcomes wait that could not be written.
        now: the clock of this process, until the ledger's own is known.
    """

    def __init__(self, name: str, *, lease: float, spool: Spool, now: float) -> None:
        self.pid = os.getpid()
        self.owner: Owner = this_owner(now)
        self.lease = lease
        self._spool = spool
        self._is_registered = False
        self._must_drain = True
        self.is_examined = False
        self._in_flight: set[str] = set()
        self.writer = Writer(self._commit, self._end, name=f"fcguard-ledger-{name}", beat=self.beat, interval=lease / 3)

    # To be provided for a database

    @abstractmethod
    def transact(self, write: Callable[[C, float], T]) -> T:
        """Run a function in one durable transaction, on the writer's thread; it gets the connection and the ledger's time.

        Makes this process known as an owner first. The function may run again if the database asks for it.

        Raises:
            StoreError: nothing was written.
        """

    @abstractmethod
    def apply(self, connection: C, batch: Batch, commands: Sequence[Command]) -> list[Answer | BaseException]:
        """Apply commands to a working copy and write it, inside the transaction."""

    @abstractmethod
    def make_batch(self, connection: C, now: float, *, careful: bool) -> Batch:
        """Make the working copy of a transaction."""

    @abstractmethod
    def get(self, request_id: str) -> StoredCall | None:
        """Answer the row of a call."""

    @abstractmethod
    def call_events(self, request_id: str) -> list[StoredEvent]:
        """Answer the events of a call."""

    @abstractmethod
    def pages_of_events(self, task_id: str | None) -> Iterator[list[StoredEvent]]:
        """Yield pages of events in chain order."""

    @abstractmethod
    def pages_of_calls(self, query: CallQuery) -> Iterator[list[StoredCall]]:
        """Yield pages of calls, newest first."""

    @abstractmethod
    def heads(self) -> list[Head]:
        """Answer the last event of every task."""

    @abstractmethod
    def gaps(self) -> list[Gap]:
        """Answer the ranges of events that were pruned."""

    @abstractmethod
    def now(self) -> float:
        """Answer the ledger's wall clock in seconds."""

    @abstractmethod
    def owners(self) -> list[Owner]:
        """Answer the known processes."""

    @abstractmethod
    def claim(self, limit: int, lease: float, tools: frozenset[str] | None) -> list[Claim]:
        """Take over calls that nobody works on, of some tools or of all (on the writer's thread)."""

    @abstractmethod
    def renew(self) -> None:
        """Renew the leases of this process's calls (on the writer's thread)."""

    @abstractmethod
    def retire(self) -> None:
        """Note that this process closed the ledger (on the writer's thread)."""

    @abstractmethod
    def prunable(self, before: float, after: str) -> list[str]:
        """Answer the ids of some calls that finished before a wall clock, in order, beyond an id; none: there are no more."""

    @abstractmethod
    def prune(self, ids: Sequence[str], before: float, *, keys: bool) -> Pruned:
        """Remove those of some calls that still can be removed (on the writer's thread)."""

    @abstractmethod
    def forget_keys(self, before: float) -> int:
        """Remove some tombstones of calls that ended before a wall clock; answer how many (on the writer's thread)."""

    @abstractmethod
    def tombstone(self, request_id: str) -> Tombstone | None:
        """Answer what is kept of a pruned call."""

    @abstractmethod
    def pages_of_tombstones(self) -> Iterator[list[tuple[Tombstone, bytes]]]:
        """Yield pages of tombstones with their seals."""

    @abstractmethod
    def put_blob(self, digest: str, kind: str, body: bytes) -> None:
        """Keep bytes (on the writer's thread)."""

    @abstractmethod
    def blob(self, digest: str) -> bytes | None:
        """Answer kept bytes."""

    @abstractmethod
    def erase_blob(self, digest: str) -> bool:
        """Erase kept bytes (on the writer's thread)."""

    @abstractmethod
    def disconnect(self) -> None:
        """Close every connection."""

    def examine(self, seconds: float | None) -> None:
        """Look whether the medium is whole, in about so many seconds (None: as long as it takes), where it is no server's task.

        Raises:
            StoreCorrupt: it is not.
        """

    def before_fork(self) -> None:
        """Make the connections safe for a fork."""

    def after_fork(self) -> None:
        """Go on in the parent."""

    # The same for every database

    def on_writer(self, job: Callable[[], T]) -> T:
        """Run a job on the writer's thread, after what is queued, and answer what it returns or raise what it raises."""
        result: T = self.writer.run(job)
        return result

    def stop(self) -> None:
        """Commit what is queued and close everything."""
        self.writer.stop()
        self.disconnect()

    def spooled(self) -> None:
        """Have the spool drained after the next commit that succeeds."""
        self._must_drain = True

    def drain(self) -> Drained:
        """Write what is spooled (on the writer's thread)."""
        self._must_drain = False
        outcome = self._spool.drain(self._alone, self.call_events)
        for name, reason in outcome.failed.items():
            self._must_drain = True
            _log.warning("the spooled outcome %r was not written: %s", name, reason)
        return outcome

    def beat(self) -> None:
        """Say that this process lives, if it works on anything (on the writer's thread)."""
        if self._in_flight:
            self.renew()

    def write_batch(self, write: Callable[[C, Batch, float], T], *, careful: bool = True) -> T:
        """Run a function in one durable transaction, with a working copy that it fills and writes."""
        batches: list[Batch] = []

        def run(connection: C, now: float) -> T:
            batches.append(self.make_batch(connection, now, careful=careful))
            return write(connection, batches[-1], now)

        result = self.transact(run)
        self._note_in_flight(batches[-1])
        return result

    def _commit(self, commands: Sequence[Command]) -> Sequence[Answer | BaseException]:
        if self._must_drain and not self._is_registered:
            self.drain()  # outcomes of earlier processes come before any question of this one
        answers = self._commit_together(commands)
        if self._must_drain:
            self.drain()
        return answers

    def _commit_together(self, commands: Sequence[Command]) -> Sequence[Answer | BaseException]:
        try:
            return self._apply_all(commands, careful=False)
        except (StoreUnavailable, StoreCorrupt):
            raise
        except StoreError:
            # One command is at fault (an id that exists, a value no column takes): each on its own, so that only it fails.
            return [self._alone(command) for command in commands]

    def _alone(self, command: Command) -> Answer | BaseException:
        try:
            return self._apply_all([command], careful=True)[0]
        except StoreError as error:
            return error

    def _apply_all(self, commands: Sequence[Command], *, careful: bool) -> Sequence[Answer | BaseException]:
        return self.write_batch(lambda connection, batch, now: self.apply(connection, batch, commands), careful=careful)

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

    def _end(self) -> None:
        try:
            if self._is_registered:
                self.retire()
        except StoreError as error:
            _log.warning("the ledger was not told that this process ends: %s", error)
        self.disconnect()


def failure(error: Exception, name: str) -> StoreError:
    """Turn what is no error of the database (too large an integer, a lone surrogate, a foreign object) into a refusal."""
    if isinstance(error, StoreError):
        return error
    refusal = StoreError(f"the ledger {name!r} cannot hold the record: {type(error).__name__}: {error}")
    refusal.__cause__ = error
    return refusal
