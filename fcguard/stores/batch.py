"""Apply commands to a working copy of the rows they touch, so that a SQL store writes each group with a few statements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from fcguard.errors import StoreError
from fcguard.model.states import CallState
from fcguard.stores.base import Accepted, Answer, Command, Enter, Event, Identity, Move, Note, Open, Stale
from fcguard.stores.chain import GENESIS, link
from fcguard.stores.judge import Holder, check_new, guards_effect, guards_key, judge_move, judge_open, lease_after
from fcguard.stores.payload import compose, result_of

__all__ = ["Batch", "Chain", "EventRow", "Row", "View"]

_FIRST = Accepted(1)


@dataclass(slots=True)
class Chain:
    """Where the chain of a task stands in the working copy. `number` stands for the task in the tables; None: a new task."""

    task_id: str
    number: int | None = None
    seq: int = 0
    hash: bytes = GENESIS


@dataclass(slots=True)
class Row:
    """A call in the working copy.

    `last_seq` is the number of its last event, which names the one before it, and so on: the events of a call are found
    without an index over all events. `result_seq` is the event that holds the envelope.
    """

    identity: Identity
    state: CallState
    version: int
    attempt: int
    created_at: float
    updated_at: float
    chain: Chain
    entered: bool = False
    owner: str | None = None
    lease_until: float | None = None
    next_at: float | None = None
    settle_until: float | None = None
    last_seq: int = 0
    result_seq: int | None = None


@dataclass(slots=True)
class EventRow:
    """An event to be inserted. `back` is the number of the call's event before it."""

    chain: Chain
    seq: int
    request_id: str
    kind: str
    at: float
    back: int | None
    payload: bytes
    hash: bytes


class View(Protocol):
    """What a batch reads, inside the transaction that will write."""

    def row(self, request_id: str) -> Row | None:
        """Answer the row of a call, or None."""
        ...

    def holder_of_key(self, scope: str | None, key: str) -> str | None:
        """Answer the id of the call that is open or succeeded under this idempotency key."""
        ...

    def holder_of_effect(self, effect_key: str) -> str | None:
        """Answer the id of the open call with this effect key."""
        ...

    def chain(self, task_id: str) -> Chain:
        """Answer where the chain of a task stands; a fresh `Chain` for a new task."""
        ...

    def payload(self, chain: Chain, seq: int) -> bytes:
        """Answer the bytes of an event."""
        ...


class Batch:
    """The working copy of one transaction.

    Args:
        view: what is stored.
        owner: id of this process; it owns the calls it opens and moves.
        now: wall clock of the store, for leases.
        lease: seconds that a move extends the lease of an open call by.
        careful: look whether an entered call exists already. Off at first: the database's own uniqueness tells, and the
            store then applies the group again with care.

    Attributes:
        created, changed: rows to insert, rows to update.
        events: events to insert.
        chains: chains that grew.
    """

    def __init__(self, view: View, owner: str, now: float, *, lease: float, careful: bool) -> None:
        self._view, self._owner, self._now, self._lease, self._careful = view, owner, now, lease, careful
        self._rows: dict[str, Row] = {}
        self._keys: dict[tuple[str | None, str], Row] = {}
        self._effects: dict[str, Row] = {}
        self._known: dict[str, Chain] = {}
        self._payloads: dict[tuple[str, int], bytes] = {}
        self.created: dict[str, Row] = {}
        self.changed: dict[str, Row] = {}
        self.events: list[EventRow] = []
        self.chains: dict[str, Chain] = {}

    def apply(self, command: Command) -> Answer | StoreError:
        """Apply one command to the working copy, or answer why not; a refused command leaves no trace in it."""
        try:
            if isinstance(command, Enter):
                return self._enter(command)
            if isinstance(command, Open):
                return self._open(command)
            row = self._row(command.request_id)
            if row is None:
                return StoreError(f"the call {command.request_id!r} is not in the ledger; open it first")
            return self._note(command, row) if isinstance(command, Note) else self._move(command, row)
        except StoreError as error:
            return error

    def _enter(self, command: Enter) -> Answer | StoreError:
        request_id = command.identity.request_id
        exists = request_id in self._rows or (self._careful and self._row(request_id) is not None)
        error = check_new(command, exists=exists)
        if error is not None:
            return error
        return self._create(command, command.result)

    def _open(self, command: Open) -> Answer | StoreError:
        identity = command.identity
        error = check_new(command, exists=self._row(identity.request_id) is not None)
        if error is not None:
            return error
        answer = judge_open(identity, self._key_holder(identity), self._effect_holder(identity))
        return self._create(command, None) if answer is None else answer

    def _create(self, command: Open | Enter, result: Any) -> Answer:
        identity, event = command.identity, command.event
        chain = self._chain(identity.task_id)
        row = Row(identity, command.state, 1, command.attempt, event.at, event.at, chain)
        self._append(row, event, opening=True, result=result)
        request_id = identity.request_id
        self._rows[request_id] = self.created[request_id] = row
        if isinstance(command, Enter):
            row.entered = True
            return _FIRST
        row.owner, row.lease_until = self._owner, self._now + command.lease
        if identity.idempotency_key is not None:
            self._keys[identity.idempotency_scope, identity.idempotency_key] = row
        if identity.effect_key is not None:
            self._effects[identity.effect_key] = row
        return _FIRST

    def _move(self, move: Move, row: Row) -> Answer | StoreError:
        if move.version != row.version:
            return Stale(row.version, row.state, self._result(row))
        error = judge_move(move, row.state, row.attempt)
        if error is not None:
            return error
        before = row.state, row.attempt
        row.state, row.attempt = move.state, move.attempt
        row.version += 1
        try:
            self._append(row, move.event, result=move.result)
        except StoreError:
            row.state, row.attempt = before
            row.version -= 1
            raise
        row.updated_at, row.next_at, row.owner = move.event.at, move.next_at, self._owner
        if move.settle_until is not None:
            row.settle_until = move.settle_until
        row.lease_until = lease_after(move, self._now + self._lease)
        self._touch(row)
        return Accepted(row.version)

    def claim(self, request_id: str, event: Event, lease: float) -> Row:
        """Make this process the owner of a call that the view holds."""
        row = self._row(request_id)
        assert row is not None
        row.version += 1
        row.owner, row.lease_until = self._owner, self._now + lease
        self._append(row, event)
        self._touch(row)
        return row

    def _note(self, note: Note, row: Row) -> Answer:
        self._append(row, note.event)
        self._touch(row)
        return Accepted(row.version)

    def _append(self, row: Row, event: Event, *, opening: bool = False, result: Any = None) -> None:
        chain = row.chain
        payload = compose(event, row.identity, row.state, row.version, row.attempt, opening=opening, result=result)
        chain.seq += 1
        chain.hash = link(chain.hash, chain.seq, payload)
        self.chains[chain.task_id] = chain
        self.events.append(
            EventRow(
                chain,
                chain.seq,
                row.identity.request_id,
                event.kind,
                event.at,
                row.last_seq or None,
                payload,
                chain.hash,
            )
        )
        row.last_seq = chain.seq
        if result is not None:
            row.result_seq = chain.seq
            self._payloads[chain.task_id, chain.seq] = payload

    def _touch(self, row: Row) -> None:
        request_id = row.identity.request_id
        if request_id not in self.created:
            self.changed[request_id] = row

    def _row(self, request_id: str) -> Row | None:
        row = self._rows.get(request_id)
        if row is None:
            row = self._view.row(request_id)
            if row is not None:
                # One chain object per task, however many of its calls are touched.
                row.chain = self._chain(row.identity.task_id)
                self._rows[request_id] = row
        return row

    def _chain(self, task_id: str) -> Chain:
        chain = self._known.get(task_id)
        if chain is None:
            chain = self._known[task_id] = self._view.chain(task_id)
        return chain

    def _key_holder(self, identity: Identity) -> Holder | None:
        key = identity.idempotency_key
        if key is None:
            return None
        row = self._keys.get((identity.idempotency_scope, key))
        if row is None or not guards_key(row.state):
            found = self._view.holder_of_key(identity.idempotency_scope, key)
            row = None if found is None else self._row(found)
        return self._holder(row) if row is not None and guards_key(row.state) else None

    def _effect_holder(self, identity: Identity) -> Holder | None:
        if identity.effect_key is None:
            return None
        row = self._effects.get(identity.effect_key)
        if row is None or not guards_effect(row.state):
            found = self._view.holder_of_effect(identity.effect_key)
            row = None if found is None else self._row(found)
        return self._holder(row) if row is not None and guards_effect(row.state) else None

    def _holder(self, row: Row) -> Holder:
        return Holder(row.identity.request_id, row.state, row.identity.digest, self._result(row))

    def _result(self, row: Row) -> Any:
        if row.result_seq is None:
            return None
        payload = self._payloads.get((row.identity.task_id, row.result_seq))
        return result_of(payload if payload is not None else self._view.payload(row.chain, row.result_seq))
