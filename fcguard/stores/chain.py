"""The hash chain of a task's events, and the check of it that trusts nothing it reads."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from fcguard.errors import StoreError
from fcguard.stores.base import Gap, Head, StoredEvent
from fcguard.stores.payload import facts_of

__all__ = ["GENESIS", "Fault", "Verification", "link", "verify"]

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
    """

    events: int
    tasks: int
    pruned: int = 0
    fault: Fault | None = None

    @property
    def ok(self) -> bool:
        """Whether everything that was read holds."""
        return self.fault is None


class _Broken(Exception):
    def __init__(self, fault: Fault) -> None:
        self.fault = fault


def verify(events: Iterable[StoredEvent], *, heads: Iterable[Head] = (), gaps: Iterable[Gap] = ()) -> Verification:
    """Check whole chains, and name the first record that was flipped, removed, added, swapped or moved.

    Args:
        events: every event of each task in question, task by task, in order of `seq`.
        heads: how far chains were known to reach: of the ledger itself, or better of a checkpoint kept elsewhere, because
            whoever can cut the end off a chain can also change the ledger's own heads. Chains may have grown since.
        gaps: ranges that were pruned on purpose; believed, and counted in the answer.
    """
    check = _Check(heads, gaps)
    try:
        for event in events:
            check.take(event)
        check.finish()
    except _Broken as broken:
        return Verification(check.events, len(check.seen), check.pruned, broken.fault)
    return Verification(check.events, len(check.seen), check.pruned)


class _Check:
    """Where the check stands: the task being read, and what must come next."""

    def __init__(self, heads: Iterable[Head], gaps: Iterable[Gap]) -> None:
        self.heads = {head.task_id: head for head in heads}
        self.gaps = {(gap.task_id, gap.first): gap for gap in gaps}
        self.events = self.pruned = 0
        self.seen: set[str] = set()
        self._task: str | None = None
        self._seq, self._prev = 0, GENESIS

    def take(self, event: StoredEvent) -> None:
        if event.task_id != self._task:
            self._begin(event)
        self._skip_gaps()
        if event.seq != self._seq + 1:
            missing = event.seq > self._seq + 1
            reason = f"is missing; event {event.seq} follows" if missing else f"event {event.seq} stands in its place"
            raise _Broken(Fault(event.task_id, self._seq + 1, None if missing else event.request_id, reason))
        expected = link(self._prev, event.seq, event.payload)
        if expected != event.hash:
            raise _Broken(_fault(event, "its bytes or its hash were changed, or an event before it was exchanged"))
        _check_columns(event)
        self._seq, self._prev = event.seq, event.hash
        self._check_head()
        self.events += 1

    def finish(self) -> None:
        self._end()
        for task_id, head in self.heads.items():
            if task_id not in self.seen:
                self._task, self._seq, self._prev = task_id, 0, GENESIS
                self._skip_gaps()
                if self._seq < head.seq:
                    raise _Broken(Fault(task_id, self._seq + 1, None, f"is missing, as all up to {head.seq}"))

    def _begin(self, event: StoredEvent) -> None:
        self._end()
        if event.task_id in self.seen:
            raise _Broken(_fault(event, "its task was read before; events must come task by task"))
        self.seen.add(event.task_id)
        self._task, self._seq, self._prev = event.task_id, 0, GENESIS

    def _end(self) -> None:
        if self._task is None:
            return
        self._skip_gaps()
        head = self.heads.get(self._task)
        if head is not None and self._seq < head.seq:
            raise _Broken(Fault(self._task, self._seq + 1, None, f"is missing; the chain is known to reach {head.seq}"))

    def _skip_gaps(self) -> None:
        while (gap := self.gaps.get((self._task or "", self._seq + 1))) is not None:
            self._seq, self._prev = gap.last, gap.hash
            self.pruned += gap.last - gap.first + 1
            self._check_head()

    def _check_head(self) -> None:
        head = self.heads.get(self._task or "")
        if head is not None and head.seq == self._seq and head.hash != self._prev:
            raise _Broken(
                Fault(head.task_id, head.seq, None, "the chain was written anew: another hash was known here")
            )


def _check_columns(event: StoredEvent) -> None:
    try:
        facts = facts_of(event)
    except StoreError as error:
        raise _Broken(_fault(event, str(error))) from error
    columns = {"task_id": event.task_id, "request_id": event.request_id, "kind": event.kind, "at": event.at}
    for name, value in columns.items():
        if facts.get(name) != value:
            raise _Broken(_fault(event, f"column {name} says {value!r}, the hashed bytes say {facts.get(name)!r}"))


def _fault(event: StoredEvent, reason: str) -> Fault:
    return Fault(event.task_id, event.seq, event.request_id, reason)
