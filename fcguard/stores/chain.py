"""The hash chain of a task's events, and the check of it that trusts nothing it reads."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Final

from fcguard.errors import StoreError
from fcguard.stores.base import Gap, Head, StoredEvent
from fcguard.stores.payload import facts_of

__all__ = ["GENESIS", "Broken", "ChainCheck", "Fault", "Verification", "link", "verify"]

GENESIS: Final = bytes(32)
"""The hash before the first event of a task."""

_DOMAIN: Final = b"fcguard.event.v1\n"
_SEQ: Final = struct.Struct(">Q")


def link(prev: bytes, seq: int, payload: bytes) -> bytes:
    r"""Answer the hash of an event: `SHA256("fcguard.event.v1\n" || prev || seq || SHA256(payload))`.

    Args:
        prev: hash of the event before it in the task, 32 bytes; `GENESIS` before the first.
        seq: number of the event in its task, from 1; hashed as 8 bytes, big end first.
        payload: the exact bytes of the event.
    """
    return hashlib.sha256(_DOMAIN + prev + _SEQ.pack(seq) + hashlib.sha256(payload).digest()).digest()


@dataclass(frozen=True, slots=True)
class Fault:
    """The first record that does not hold.

    Attributes:
        task_id, seq: which event.
        request_id: its call, as far as the event tells; None if the event is missing.
        reason: what is wrong with it.
    """

    task_id: str
    seq: int
    request_id: str | None
    reason: str

    def __str__(self) -> str:
        call = "" if self.request_id is None else f" of call {self.request_id!r}"
        return f"task {self.task_id!r}, event {self.seq}{call}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Verification:
    """The outcome of a check.

    Attributes:
        events, tasks: how many were read and held.
        pruned: how many events are missing by declared pruning.
        fault: the first bad record; None if all hold.
        tombstones: how many keys of pruned writes are kept, and held; 0 where only chains were checked.
    """

    events: int
    tasks: int
    pruned: int = 0
    fault: Fault | None = None
    tombstones: int = 0

    @property
    def ok(self) -> bool:
        """Whether everything that was read holds."""
        return self.fault is None


class Broken(Exception):
    """Ends a check at the first bad record."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        super().__init__(str(fault))


def verify(events: Iterable[StoredEvent], *, heads: Iterable[Head] = (), gaps: Iterable[Gap] = ()) -> Verification:
    """Check whole chains, and name the first record that was flipped, removed, added, swapped or moved.

    Args:
        events: every event of each task in question, task by task, in order of `seq`.
        heads: how far chains were known to reach: of the ledger itself, or better of checkpoints kept elsewhere, because
            whoever can cut the end off a chain can also change the ledger's own heads. Chains may have grown since, and a
            task may have several.
        gaps: ranges that were pruned on purpose; believed, and counted in the answer.
    """
    check = ChainCheck(heads, gaps)
    try:
        for event in events:
            check.take(event)
        check.finish()
    except Broken as broken:
        return check.verification(broken.fault)
    return check.verification()


class ChainCheck:
    """Where a check stands: the task being read, and what must come next."""

    def __init__(self, heads: Iterable[Head], gaps: Iterable[Gap]) -> None:
        self._known: dict[tuple[str, int], bytes] = {}
        self._reach: dict[str, int] = {}
        self._conflict: Fault | None = None
        for head in heads:
            if self._known.setdefault((head.task_id, head.seq), head.hash) != head.hash and self._conflict is None:
                self._conflict = Fault(head.task_id, head.seq, None, "two known heads contradict each other")
            self._reach[head.task_id] = max(head.seq, self._reach.get(head.task_id, 0))
        self._gaps = {(gap.task_id, gap.first): gap for gap in gaps}
        self._events = self._pruned = self.tombstones = 0
        self._seen: set[str] = set()
        self._task = ""
        self._seq, self._prev = 0, GENESIS

    def take(self, event: StoredEvent) -> dict[str, Any]:
        """Check the next event and answer the store's facts in it.

        Raises:
            Broken: it does not hold.
        """
        if self._conflict is not None:
            raise Broken(self._conflict)
        if not (isinstance(event.payload, bytes) and isinstance(event.hash, bytes) and isinstance(event.seq, int)):
            raise Broken(Fault(event.task_id, self._seq + 1, event.request_id, "its columns are of the wrong kind"))
        if event.task_id != self._task or not self._seen:
            self._begin(event)
        self._skip_gaps()
        if event.seq != self._seq + 1:
            is_missing = event.seq > self._seq + 1
            reason = (
                f"is missing; event {event.seq} follows" if is_missing else f"event {event.seq} stands in its place"
            )
            raise Broken(Fault(event.task_id, self._seq + 1, None if is_missing else event.request_id, reason))
        if link(self._prev, event.seq, event.payload) != event.hash:
            raise Broken(_fault(event, "its bytes or its hash were changed, or an event before it was exchanged"))
        facts = _checked_facts(event)
        self._seq, self._prev = event.seq, event.hash
        self._check_head()
        self._events += 1
        return facts

    def finish(self) -> None:
        """Check that no chain ends too early.

        Raises:
            Broken: one does.
        """
        if self._conflict is not None:
            raise Broken(self._conflict)
        self._end()
        for task_id in self._reach:
            if task_id not in self._seen:
                self._task, self._seq, self._prev = task_id, 0, GENESIS
                self._end()

    def verification(self, fault: Fault | None = None) -> Verification:
        """Answer what was checked."""
        return Verification(self._events, len(self._seen), self._pruned, fault, self.tombstones)

    def _begin(self, event: StoredEvent) -> None:
        if self._seen:
            self._end()
        if event.task_id in self._seen:
            raise Broken(_fault(event, "its task was read before; events must come task by task"))
        self._seen.add(event.task_id)
        self._task, self._seq, self._prev = event.task_id, 0, GENESIS

    def _end(self) -> None:
        self._skip_gaps()
        reach = self._reach.get(self._task, 0)
        if self._seq < reach:
            raise Broken(Fault(self._task, self._seq + 1, None, f"is missing; the chain is known to reach {reach}"))

    def _skip_gaps(self) -> None:
        while (gap := self._gaps.get((self._task, self._seq + 1))) is not None:
            self._seq, self._prev = gap.last, gap.hash
            self._pruned += gap.last - gap.first + 1
            self._check_head()

    def _check_head(self) -> None:
        known = self._known.get((self._task, self._seq))
        if known is not None and known != self._prev:
            raise Broken(Fault(self._task, self._seq, None, "the chain was written anew: another hash was known here"))


def _checked_facts(event: StoredEvent) -> dict[str, Any]:
    try:
        facts = facts_of(event)
    except StoreError as error:
        raise Broken(_fault(event, str(error))) from error
    columns = {"task_id": event.task_id, "request_id": event.request_id, "kind": event.kind, "at": event.at}
    for name, value in columns.items():
        if facts.get(name) != value:
            raise Broken(_fault(event, f"column {name} says {value!r}, the hashed bytes say {facts.get(name)!r}"))
    return facts


def _fault(event: StoredEvent, reason: str) -> Fault:
    return Fault(event.task_id, event.seq, event.request_id, reason)
