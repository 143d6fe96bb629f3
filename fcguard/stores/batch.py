"""Apply commands to a working copy of the rows they touch, so that a SQL store writes each group with a few statements."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias

from fcguard.errors import StoreCorrupt, StoreError
from fcguard.model.states import OPEN_STATES, CallState
from fcguard.stores.base import (
    Accepted,
    Answer,
    Command,
    Enter,
    Event,
    Identity,
    Look,
    Move,
    Note,
    Open,
    Stale,
    StoredCall,
)
from fcguard.stores.chain import GENESIS, link
from fcguard.stores.judge import Holder, check_new, guards_effect, guards_key, judge_move, judge_open, lease_after
from fcguard.stores.owner import Liveness, Owner
from fcguard.stores.payload import compose, identity_in, result_in
from fcguard.stores.recoverable import Claim
from fcguard.stores.tombstone import Tombstone

__all__ = ["Batch", "Chain", "EnteredRow", "EventRow", "Row", "View"]

_NOTHING, _FIRST = Accepted(0), Accepted(1)
_SUCCEEDED, _FAILED, _REJECTED = CallState.SUCCEEDED, CallState.FAILED, CallState.REJECTED


class Chain:
    """Where the chain of a task stands in the working copy.

    Attributes:
        task_id: the task.
        number: stands for the task in the tables.
        seq: number of its last event; 0: none yet.
        hash: of its last event.
    """

    __slots__ = ("hash", "number", "seq", "task_id")

    def __init__(self, task_id: str, number: int, seq: int = 0, hash_: bytes = GENESIS) -> None:
        self.task_id, self.number, self.seq, self.hash = task_id, number, seq, hash_


@dataclass(slots=True)
class Row:
    """A call in the working copy; what is not here is read from its first event.

    Attributes:
        first_seq: number of its first event, which holds the identity.
        last_seq: number of its last event. Each event names the call's event before it, so that the events of a call are
            found without an index over all events.
        result_seq: number of the event that holds the envelope.
        is_entered: whether it was written whole, at its end.
        idempotency, effect_key: keys to insert; known for new calls only.
    """

    request_id: str
    chain: Chain
    tool: str
    state: CallState
    version: int
    attempt: int
    created_at: float
    updated_at: float
    first_seq: int
    last_seq: int
    result_seq: int | None = None
    is_entered: bool = False
    owner: str | None = None
    lease_until: float | None = None
    next_at: float | None = None
    settle_until: float | None = None
    idempotency: tuple[str | None, str] | None = None
    effect_key: str | None = None

    @property
    def is_open(self) -> bool:
        """Whether the call has not ended."""
        return self.state in OPEN_STATES

    @property
    def holds_key(self) -> bool:
        """Whether the call keeps others from its idempotency key."""
        return not self.is_entered and guards_key(self.state)


EventRow: TypeAlias = tuple[int, int, str, str, float, int | None, bytes, bytes]
"""Number of the task, seq, request id, kind, at, seq of the call's event before it, payload, hash."""


EnteredRow: TypeAlias = tuple[str, int, str, float, int, CallState, int, int, float, int, int | None]
"""Request id, number of the task, tool, created at, seq of its first event, state, version, attempt, updated at, seq of its
last event, seq of the event that holds the envelope. A tuple, because most calls are of this kind and need no more."""


class View(Protocol):
    """What a batch reads, inside the transaction that will write."""

    def row(self, request_id: str) -> Row | None:
        """Answer the row of a call, or None."""
        ...

    def holder_of_key(self, scope: str | None, key: str) -> str | None:
        """Answer the id of the call that is open or succeeded under this idempotency key."""
        ...

    def tombstone_of_key(self, scope: str | None, key: str) -> Tombstone | None:
        """Answer what is left of the pruned call that succeeded under this idempotency key; asked after `holder_of_key`."""
        ...

    def holder_of_effect(self, effect_key: str) -> str | None:
        """Answer the id of the open call with this effect key."""
        ...

    def chain(self, task_id: str) -> Chain:
        """Answer where the chain of a task stands; a new task gets its number here."""
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
        is_careful: as given.
        created: rows to insert, by request id.
        entered: rows to insert of calls that were written whole, by request id.
        changed: rows to update, by request id.
        events: events to insert.
        chains: chains that grew.
    """

    def __init__(self, view: View, owner: str, now: float, *, lease: float, careful: bool) -> None:
        self._view, self._owner, self._now, self._lease = view, owner, now, lease
        self.is_careful = careful
        self._loaded: dict[str, Row] = {}
        self._keys: dict[tuple[str | None, str], Row] = {}
        self._effects: dict[str, Row] = {}
        self._known: dict[str, Chain] = {}
        self.created: dict[str, Row] = {}
        self.entered: dict[str, EnteredRow] = {}
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
            if isinstance(command, Look):
                return self._in_the_way(command.identity) or _NOTHING
            row = self._row(command.request_id)
            if row is None:
                return StoreError(f"the call {command.request_id!r} is not in the ledger; open it first")
            return self._note(command, row) if isinstance(command, Note) else self._move(command, row)
        except StoreError as error:
            return error

    def new_rows(self) -> list[Row]:
        """Answer the rows to insert, those of entered calls too."""
        chains = {chain.number: chain for chain in self.chains.values()}
        return [*self.created.values(), *(_row_of(columns, chains) for columns in self.entered.values())]

    def claim(self, call: StoredCall, known: Liveness, previous: Owner | None, lease: float) -> Claim:
        """Make this process the owner of a call that nobody works on.

        Args:
            call: as the view holds it.
            known: what is known of its owner.
            previous: its owner, as far as the ledger knows it.
            lease: seconds that this process asks for.
        """
        row = self._row(call.identity.request_id)
        assert row is not None
        row.version += 1
        row.owner, row.lease_until = self._owner, self._now + lease
        self._append(row, Event("claimed", self._now, {"by": self._owner, "from": call.owner, "liveness": known}))
        self._touch(row)
        taken = replace(call, version=row.version, owner=row.owner, lease_until=row.lease_until)
        return Claim(taken, known, previous, self._now - (call.updated_at if previous is None else previous.seen_at))

    def _enter(self, command: Enter) -> Answer | StoreError:
        request_id, state, attempt = command.request_id, command.state, command.attempt
        is_terminal = state is _SUCCEEDED or state is _FAILED or state is _REJECTED
        exists = (
            request_id in self.entered
            or request_id in self.created
            or (self.is_careful and self._row(request_id) is not None)
        )
        if exists or not is_terminal:
            error = check_new(command, exists=exists)
            if error is not None:
                return error
        identity, event, result = command.parts
        chain, seq = self._begin(identity, state, attempt, event, result)
        at, result_seq = event.at, None if result is None else seq
        number = chain.number
        self.entered[request_id] = (request_id, number, identity.tool, at, seq, state, 1, attempt, at, seq, result_seq)
        return _FIRST

    def _open(self, command: Open) -> Answer | StoreError:
        identity = command.identity
        error = check_new(command, exists=self._row(identity.request_id) is not None)
        if error is not None:
            return error
        answer = self._in_the_way(identity)
        if answer is not None:
            return answer
        chain, seq = self._begin(identity, command.state, command.attempt, command.event, None)
        at = command.event.at
        row = Row(identity.request_id, chain, identity.tool, command.state, 1, command.attempt, at, at, seq, seq)
        self.created[row.request_id] = row
        row.owner, row.lease_until, row.effect_key = self._owner, self._now + command.lease, identity.effect_key
        if identity.idempotency_key is not None:
            row.idempotency = identity.idempotency_scope, identity.idempotency_key
            self._keys[row.idempotency] = row
        if identity.effect_key is not None:
            self._effects[identity.effect_key] = row
        return _FIRST

    def _in_the_way(self, identity: Identity) -> Answer | None:
        return judge_open(identity, self._key_holder(identity), self._effect_holder(identity))

    def _begin(
        self, identity: Identity, state: CallState, attempt: int, event: Event, result: Mapping[str, Any] | None
    ) -> tuple[Chain, int]:
        """Append the first event of a call; answer its chain and number."""
        task_id, request_id = identity.task_id, identity.request_id
        payload = compose(
            event, (task_id, request_id), state, version=1, attempt=attempt, identity=identity, result=result
        )
        chain = self._known.get(task_id) or self._chain(task_id)
        return chain, self._extend(chain, request_id, event, None, payload)

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
            self._append(row, move.event, move.result)
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

    def _note(self, note: Note, row: Row) -> Answer:
        self._append(row, note.event)
        self._touch(row)
        return Accepted(row.version)

    def _append(self, row: Row, event: Event, result: Mapping[str, Any] | None = None) -> None:
        chain = row.chain
        call = chain.task_id, row.request_id
        payload = compose(event, call, row.state, version=row.version, attempt=row.attempt, result=result)
        row.last_seq = self._extend(chain, row.request_id, event, row.last_seq, payload)
        if result is not None:
            row.result_seq = row.last_seq

    def _extend(self, chain: Chain, request_id: str, event: Event, back: int | None, payload: bytes) -> int:
        seq = chain.seq + 1
        hash_ = link(chain.hash, seq, payload)
        self.events.append((chain.number, seq, request_id, event.kind, event.at, back, payload, hash_))
        chain.seq, chain.hash = seq, hash_
        self.chains[chain.task_id] = chain
        return seq

    def _touch(self, row: Row) -> None:
        if row.request_id not in self.created:
            self.changed[row.request_id] = row

    def _row(self, request_id: str) -> Row | None:
        row = self.created.get(request_id) or self._loaded.get(request_id) or self._reopened(request_id)
        if row is None:
            row = self._view.row(request_id)
            if row is not None:
                # One chain object per task, however many of its calls are touched.
                row.chain = self._known.setdefault(row.chain.task_id, row.chain)
                self._loaded[request_id] = row
        return row

    def _reopened(self, request_id: str) -> Row | None:
        """Answer the row of a call that this very group entered; from now on it may change."""
        columns = self.entered.pop(request_id, None)
        if columns is None:
            return None
        row = self.created[request_id] = _row_of(columns, {chain.number: chain for chain in self.chains.values()})
        return row

    def _chain(self, task_id: str) -> Chain:
        chain = self._known[task_id] = self._view.chain(task_id)
        return chain

    def _key_holder(self, identity: Identity) -> Holder | None:
        key = identity.idempotency_key
        if key is None:
            return None
        row = self._keys.get((identity.idempotency_scope, key))
        if row is None or not row.holds_key:
            found = self._view.holder_of_key(identity.idempotency_scope, key)
            row = None if found is None else self._row(found)
            if found is not None and row is None:
                raise StoreCorrupt(f"the call {found!r}, which holds the key, is missing; run `fcguard verify`")
        if row is not None and row.holds_key:
            return self._holder(row)
        buried = self._view.tombstone_of_key(identity.idempotency_scope, key)
        return None if buried is None else Holder.of(buried)

    def _effect_holder(self, identity: Identity) -> Holder | None:
        if identity.effect_key is None:
            return None
        row = self._effects.get(identity.effect_key)
        if row is None or not guards_effect(row.state):
            found = self._view.holder_of_effect(identity.effect_key)
            row = None if found is None else self._row(found)
        return self._holder(row) if row is not None and guards_effect(row.state) else None

    def _holder(self, row: Row) -> Holder:
        return Holder(
            row.request_id, row.state, identity_in(self._payload(row, row.first_seq)).digest, self._result(row)
        )

    def _result(self, row: Row) -> Mapping[str, Any] | None:
        return None if row.result_seq is None else result_in(self._payload(row, row.result_seq))

    def _payload(self, row: Row, seq: int) -> bytes:
        for number, at, _, _, _, _, payload, _ in reversed(self.events):
            if number == row.chain.number and at == seq:
                return payload
        return self._view.payload(row.chain, seq)


def _row_of(columns: EnteredRow, chains: Mapping[int, Chain]) -> Row:
    request_id, number, tool, at, seq, state, version, attempt, _, last_seq, result_seq = columns
    chain = chains[number]
    return Row(request_id, chain, tool, state, version, attempt, at, at, seq, last_seq, result_seq, is_entered=True)
