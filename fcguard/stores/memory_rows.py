"""How the memory ledger holds a call, its events, and the end of each chain."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fcguard.stores.base import CallQuery, Enter, Event, Open, StoredCall, StoredEvent
from fcguard.stores.chain import link
from fcguard.stores.judge import Holder
from fcguard.stores.payload import compose

__all__ = ["ChainEnd", "Record", "Row", "holder_of", "matches"]


class Record:
    """An event, and what its bytes and hash depend on; both are made when somebody reads them."""

    __slots__ = (
        "attempt",
        "event",
        "hash",
        "identity",
        "opening",
        "payload",
        "prev",
        "result",
        "seq",
        "state",
        "version",
    )

    def __init__(self, seq: int, event: Event, row: Row, *, opening: bool, result: Mapping[str, Any] | None) -> None:
        self.seq, self.event, self.identity, self.opening, self.result = seq, event, row.identity, opening, result
        self.state, self.version, self.attempt = row.state, row.version, row.attempt
        self.payload = self.prev = self.hash = b""

    def close_link(self, prev: bytes) -> None:
        """Make bytes and hash, once."""
        if not self.hash:
            identity = self.identity
            self.payload = compose(
                self.event,
                (identity.task_id, identity.request_id),
                self.state,
                version=self.version,
                attempt=self.attempt,
                identity=identity if self.opening else None,
                result=self.result,
            )
            self.prev, self.hash = prev, link(prev, self.seq, self.payload)

    def stored(self) -> StoredEvent:
        """Answer the event as a reader sees it."""
        event, identity = self.event, self.identity
        return StoredEvent(
            identity.task_id, self.seq, identity.request_id, event.kind, event.at, self.payload, self.hash
        )


class Row:
    """The current state of a call, and its events."""

    __slots__ = (
        "attempt", "created_at", "identity", "lease_until", "next_at", "owner", "records", "result", "settle_until", "state",
        "updated_at", "version",
    )  # fmt: skip

    def __init__(
        self, command: Open | Enter, seq: int, *, owner: str | None = None, lease_until: float | None = None
    ) -> None:
        event = command.event
        self.identity, self.state, self.attempt, self.version = command.identity, command.state, command.attempt, 1
        self.created_at = self.updated_at = event.at
        self.result: Mapping[str, Any] | None = command.result if isinstance(command, Enter) else None
        self.owner, self.lease_until = owner, lease_until
        self.next_at: float | None = None
        self.settle_until: float | None = None
        self.records = [Record(seq, event, self, opening=True, result=self.result)]

    def go_back(self) -> None:
        """Take back a change whose event was not appended any more: what the last event says is true."""
        last = self.records[-1]
        if (self.state, self.version, self.attempt) != (last.state, last.version, last.attempt):
            self.state, self.version, self.attempt, self.updated_at = (
                last.state,
                last.version,
                last.attempt,
                last.event.at,
            )
            self.result = next((record.result for record in reversed(self.records) if record.result is not None), None)

    def stored(self) -> StoredCall:
        """Answer the row as a reader sees it."""
        return StoredCall(
            self.identity,
            self.state,
            self.version,
            self.attempt,
            self.created_at,
            self.updated_at,
            result=self.result,
            owner=self.owner,
            lease_until=self.lease_until,
            next_at=self.next_at,
            settle_until=self.settle_until,
            last_seq=self.records[-1].seq,
            result_seq=next((record.seq for record in reversed(self.records) if record.result is not None), None),
        )


class ChainEnd:
    """Where the chain of a task stands: the last number used, and how many of its events are still held."""

    __slots__ = ("held", "seq")

    def __init__(self) -> None:
        self.seq = self.held = 0


def holder_of(row: Row | None) -> Holder | None:
    """Answer a row as the holder of a key."""
    return None if row is None else Holder(row.identity.request_id, row.state, row.identity.digest, row.result)


def matches(row: Row, query: CallQuery) -> bool:
    """Tell whether a call is asked for."""
    identity = row.identity
    return (
        (query.task_id is None or identity.task_id == query.task_id)
        and (query.tool is None or identity.tool == query.tool)
        and (not query.states or row.state in query.states)
        and (query.since is None or row.created_at >= query.since)
        and (query.until is None or row.created_at < query.until)
    )
