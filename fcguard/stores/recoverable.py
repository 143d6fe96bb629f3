"""What a ledger must do beyond `Store`, so that calls survive their process: owners, leases, claims, spool, retention."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from fcguard.errors import UsageError
from fcguard.stores.base import Enter, Gap, Head, Move, Note, Store, StoredCall
from fcguard.stores.owner import Liveness, Owner
from fcguard.stores.tombstone import Tombstone

__all__ = ["Claim", "Drained", "GapRow", "Progress", "Pruned", "RecoverableStore", "join_gaps", "tools_to_claim"]


@dataclass(frozen=True, slots=True)
class Claim:
    """An open call that this process took over.

    Attributes:
        call: the row after the claim: owned by this process, version raised, so that the earlier owner's commands are `Stale`.
        liveness: what is known of the earlier owner. Only `self` and `dead` prove that nobody else works on the call.
        previous: the earlier owner, as far as the ledger knows it.
        silent: seconds since the earlier owner's last sign of life, on the store's clock; proves nothing by itself.
    """

    call: StoredCall
    liveness: Liveness
    previous: Owner | None
    silent: float


@dataclass(frozen=True, slots=True)
class Drained:
    """What became of the spooled commands.

    Attributes:
        applied: written as they were.
        known: in the ledger already; nothing was written.
        noted: the call had moved on; what they say was appended as notes.
        failed: kept in the spool, with the reason for each, by file name.
    """

    applied: int = 0
    known: int = 0
    noted: int = 0
    failed: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Pruned:
    """What pruning did.

    Attributes:
        calls, events: how many finished calls, and events of theirs, were removed.
        kept: how many of these calls left a tombstone: their key stays, and with it the protection against their repetition.
        forgotten: how many keys were removed, old tombstones included; such writes are sent again if somebody repeats them.
    """

    calls: int
    events: int
    kept: int = 0
    forgotten: int = 0

    def __add__(self, other: Pruned) -> Pruned:
        return Pruned(
            self.calls + other.calls,
            self.events + other.events,
            self.kept + other.kept,
            self.forgotten + other.forgotten,
        )


Progress: TypeAlias = Callable[[Pruned], None]
"""Called between the parts of a pruning, with what was done so far."""


GapRow: TypeAlias = tuple[int, int, int, bytes]
"""Number of a task, first and last event that left, hash of the last."""


def join_gaps(gaps: Iterable[GapRow]) -> list[GapRow]:
    """Join ranges that follow one another without a kept event between them."""
    joined: list[GapRow] = []
    for task, first, last, hash_ in sorted(gaps):
        if joined and joined[-1][0] == task and joined[-1][2] + 1 == first:
            joined[-1] = (task, joined[-1][1], last, hash_)
        else:
            joined.append((task, first, last, hash_))
    return joined


def tools_to_claim(tools: Collection[str] | None) -> frozenset[str] | None:
    """Answer the names of the tools whose calls are to be claimed; None: of every tool.

    Raises:
        UsageError: one name was given instead of several; its letters would be taken for names, and nothing claimed.
    """
    if isinstance(tools, str):
        raise UsageError(f"claim(tools={tools!r}): give the names in a list, as in tools=[{tools!r}]")
    return None if tools is None else frozenset(tools)


class RecoverableStore(Store, Protocol):
    """A ledger from which calls can be taken over after their process died."""

    @property
    def owner(self) -> Owner:
        """This process, as the ledger knows it."""
        ...

    def now(self) -> float:
        """Answer the ledger's wall clock in seconds, on which leases count; a store of several hosts has one clock for all."""
        ...

    def owners(self) -> list[Owner]:
        """Answer the processes that the ledger knows."""
        ...

    def claim(self, *, limit: int = 100, lease: float = 60.0, tools: Collection[str] | None = None) -> list[Claim]:
        """Take over calls that nobody works on: owner proved dead, lease lapsed, or next action due.

        Never claimed: PARKED calls, and PREPARED ones that were never sent and wait for somebody (`next_at` is None).

        Args:
            limit: most calls to take.
            lease: seconds this process asks for.
            tools: names of the tools whose calls to take, so that a service leaves alone what only another one can act on;
                None: of every tool.

        Raises:
            UsageError: `tools` is one name, not several.
            StoreError: the ledger cannot be read or written.
        """
        ...

    def heartbeat(self) -> None:
        """Renew the leases of this process's calls. SQL stores do it by themselves."""
        ...

    def spool(self, command: Move | Note | Enter) -> None:
        """Keep an outcome that `submit` could not write in a synced file, to be written later by `drain`.

        Raises:
            StoreError: it could not be kept there either; it exists in memory only.
        """
        ...

    def drain(self) -> Drained:
        """Write what is spooled; done at opening too. Nothing is removed from the spool before it is in the ledger."""
        ...

    def examine(self, *, once: bool = False) -> None:
        """Look whether the medium is whole, before anything is done on the strength of it. A store without files does nothing.

        Args:
            once: for a recovery: in a few seconds, however large the ledger is, and not again by this opening of it.

        Raises:
            StoreCorrupt: it is damaged, or records that were acknowledged are missing.
        """
        ...

    def heads(self) -> Iterator[Head]:
        """Yield the last event of every task."""
        ...

    def gaps(self) -> Iterator[Gap]:
        """Yield the ranges of events that were pruned."""
        ...

    def prune(self, before: float, *, keys: bool = False, progress: Progress | None = None) -> Pruned:
        """Remove calls that finished before a wall clock, with their events; heads and gaps keep the chains checkable.

        The key of a write that took effect stays as a tombstone, in the same transaction, so that its repetition is
        `Blocked("pruned")` and not sent. Open calls never leave. Calls leave in parts, each in a transaction of its own:
        who interrupts it loses nothing, and goes on by calling it again.

        Args:
            before: wall clock in seconds.
            keys: remove the keys as well, and the tombstones of calls that ended before. **A write whose key is gone is sent
                again** by whoever repeats it.
            progress: called after each part.

        Raises:
            StoreError: the ledger cannot be read or written; earlier parts are done.
        """
        ...

    def tombstone(self, request_id: str) -> Tombstone | None:
        """Answer what is kept of a pruned call, or None."""
        ...

    def tombstones(self) -> Iterator[tuple[Tombstone, bytes]]:
        """Yield the keys of pruned writes, each with its seal (`seal_of`), to be checked."""
        ...

    def put_blob(self, digest: str, kind: str, body: bytes) -> None:
        """Keep bytes that may have to be erased later (the value and salt of a secret), durably, under their digest."""
        ...

    def blob(self, digest: str) -> bytes | None:
        """Answer kept bytes, or None if they were never kept or were erased."""
        ...

    def erase_blob(self, digest: str) -> bool:
        """Erase kept bytes; the chain still verifies. Answer whether there were any."""
        ...
