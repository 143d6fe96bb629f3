"""A ledger in memory, for tests and for processes that need no evidence after their end."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from fcguard.errors import ConfigurationError, StoreClosed, StoreError
from fcguard.model.states import OPEN_STATES, CallState
from fcguard.stores.base import (
    Accepted,
    Answer,
    CallQuery,
    Command,
    Done,
    Enter,
    Event,
    Gap,
    Head,
    Identity,
    Move,
    Note,
    Open,
    Stale,
    StoredCall,
    StoredEvent,
)
from fcguard.stores.chain import GENESIS, link
from fcguard.stores.judge import Holder, check_new, guards_effect, guards_key, judge_move, judge_open
from fcguard.stores.payload import STORE_KEY, compose

__all__ = ["MemoryStore"]

_ACCEPTED = Accepted(1)
_SUCCEEDED, _FAILED, _REJECTED = CallState.SUCCEEDED, CallState.FAILED, CallState.REJECTED


class _Record:
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

    def __init__(self, seq: int, event: Event, row: _Row, *, opening: bool, result: Mapping[str, Any] | None) -> None:
        self.seq, self.event, self.identity, self.opening, self.result = seq, event, row.identity, opening, result
        self.state, self.version, self.attempt = row.state, row.version, row.attempt
        self.payload = self.prev = self.hash = b""

    def close_link(self, prev: bytes) -> None:
        if not self.hash:
            self.payload = compose(
                self.event,
                self.identity,
                self.state,
                self.version,
                self.attempt,
                opening=self.opening,
                result=self.result,
            )
            self.prev, self.hash = prev, link(prev, self.seq, self.payload)

    def stored(self) -> StoredEvent:
        event, identity = self.event, self.identity
        return StoredEvent(
            identity.task_id, self.seq, identity.request_id, event.kind, event.at, self.payload, self.hash
        )


class _Row:
    """The current state of a call, and its events."""

    __slots__ = (
        "attempt", "created_at", "identity", "lease_until", "next_at", "records", "result", "settle_until", "state", "updated_at",
        "version",
    )  # fmt: skip

    def __init__(self, command: Open | Enter, seq: int, *, lease_until: float | None = None) -> None:
        event = command.event
        self.identity, self.state, self.attempt, self.version = command.identity, command.state, command.attempt, 1
        self.created_at = self.updated_at = event.at
        self.result: Mapping[str, Any] | None = command.result if isinstance(command, Enter) else None
        self.lease_until = lease_until
        self.next_at: float | None = None
        self.settle_until: float | None = None
        self.records = [_Record(seq, event, self, opening=True, result=self.result)]

    def stored(self) -> StoredCall:
        return StoredCall(
            self.identity,
            self.state,
            self.version,
            self.attempt,
            self.created_at,
            self.updated_at,
            result=self.result,
            lease_until=self.lease_until,
            next_at=self.next_at,
            settle_until=self.settle_until,
        )


class _Chain:
    """Where the chain of a task stands: the last number used, and how many of its events are still held."""

    __slots__ = ("held", "seq")

    def __init__(self) -> None:
        self.seq = self.held = 0


# A read is kept as it came, with its number in the chain, until somebody looks at it: half the cost of a row.
_Finished: TypeAlias = "_Row | tuple[int, Enter]"


class MemoryStore:
    """Keep the ledger in this process. Answers before `submit` returns; nothing survives the process.

    Bounded: when more than `max_calls` calls are finished, the oldest of them leaves with its events and its keys (so a
    write older than that is not replayed any more). Open calls never leave. Bytes and hashes are those that `SQLiteStore`
    would write, made when they are read; a payload that cannot be written as JSON is therefore found at reading only.

    Args:
        max_calls: how many finished calls to keep.
        clock: wall clock in seconds, for leases.
    """

    def __init__(self, max_calls: int = 10_000, *, clock: Callable[[], float] = time.time) -> None:
        if max_calls < 1:
            raise ConfigurationError(f"max_calls={max_calls!r}: keep at least one call")
        self._max_calls, self._clock = max_calls, clock
        self._lock = threading.Lock()
        self._open: dict[str, _Row] = {}
        self._finished: dict[str, _Finished] = {}
        self._order: deque[str] = deque()
        self._chains: dict[str, _Chain] = {}
        self._keys: dict[tuple[str | None, str], _Row] = {}
        self._effects: dict[str, _Row] = {}
        self._closed = False

    def submit(self, command: Command, done: Done) -> None:
        """Take a command and answer it at once; see `Store.submit`."""
        try:
            with self._lock:
                answer: Answer | BaseException = (
                    self._enter(command) if type(command) is Enter else self._apply(command)
                )
        except StoreError as error:
            answer = error
        done(answer)

    def get(self, request_id: str) -> StoredCall | None:
        """Answer the row of a call, or None."""
        with self._lock:
            row = self._find(request_id)
            return None if row is None else row.stored()

    def events(self, *, request_id: str | None = None, task_id: str | None = None) -> Iterator[StoredEvent]:
        """Yield events in chain order: of one call, of one task, or all. They are those held when it is called."""
        with self._lock:
            if request_id is not None:
                row = self._find(request_id)
                if row is None or (task_id is not None and row.identity.task_id != task_id):
                    return iter(())
                self._linked(row.identity.task_id)
                return iter([record.stored() for record in row.records])
            tasks = list(self._chains) if task_id is None else [task_id]
            return iter([record.stored() for task in tasks for record in self._linked(task)])

    def calls(self, query: CallQuery = CallQuery()) -> Iterator[StoredCall]:  # noqa: B008 - frozen
        """Yield calls that match, newest first. They are those held when it is called."""
        with self._lock:
            rows = [self._find(request_id) for request_id in (*self._finished, *self._open)]
            found = [row.stored() for row in rows if row is not None and _matches(row, query)]
        found.sort(key=lambda call: (call.created_at, call.identity.request_id), reverse=True)
        return iter(found if query.limit is None else found[: query.limit])

    def heads(self) -> Iterator[Head]:
        """Yield the last event of every task."""
        with self._lock:
            last = [(task, self._linked(task)[-1]) for task in self._chains]
            return iter([Head(task, record.seq, record.hash) for task, record in last])

    def gaps(self) -> Iterator[Gap]:
        """Yield the ranges of events that have left."""
        with self._lock:
            found: list[Gap] = []
            for task in self._chains:
                expected = 1
                for record in self._linked(task):
                    if record.seq > expected:
                        found.append(Gap(task, expected, record.seq - 1, record.prev))
                    expected = record.seq + 1
            return iter(found)

    def close(self) -> None:
        """Refuse further commands; what is held can still be read."""
        self._closed = True

    def _enter(self, command: Enter) -> Answer | StoreError:
        identity, state = command.identity, command.state
        request_id, finished = identity.request_id, self._finished
        if state is not _SUCCEEDED and state is not _FAILED and state is not _REJECTED:
            return self._refusal(command)
        if request_id in finished or request_id in self._open or STORE_KEY in command.event.payload or self._closed:
            return self._refusal(command)
        chain = self._chains.get(identity.task_id)
        if chain is None:
            chain = self._chains[identity.task_id] = _Chain()
        chain.seq += 1
        chain.held += 1
        finished[request_id] = (chain.seq, command)
        self._order.append(request_id)
        if len(self._order) > self._max_calls:
            self._evict()
        return _ACCEPTED

    def _refusal(self, command: Command) -> StoreError:
        if self._closed:
            return StoreClosed("the ledger was closed; make a new MemoryStore")
        if STORE_KEY in command.event.payload:
            return StoreError(f"the key {STORE_KEY!r} of an event's payload belongs to the store; use another name")
        assert isinstance(command, Enter)
        error = check_new(command, exists=self._find(command.identity.request_id) is not None)
        assert error is not None
        return error

    def _apply(self, command: Command) -> Answer | StoreError:
        if self._closed or STORE_KEY in command.event.payload:
            return self._refusal(command)
        if isinstance(command, Open):
            return self._open_call(command)
        assert isinstance(command, Move | Note)
        row = self._find(command.request_id)
        if row is None:
            return StoreError(f"the call {command.request_id!r} is not in the ledger; open it first")
        if isinstance(command, Note):
            self._append(row, command.event)
            return Accepted(row.version)
        return self._move(command, row)

    def _open_call(self, command: Open) -> Answer | StoreError:
        identity = command.identity
        error = check_new(command, exists=self._find(identity.request_id) is not None)
        if error is not None:
            return error
        key = None if identity.idempotency_key is None else (identity.idempotency_scope, identity.idempotency_key)
        by_key = None if key is None else self._keys.get(key)
        by_effect = None if identity.effect_key is None else self._effects.get(identity.effect_key)
        answer = judge_open(identity, _holder(by_key), _holder(by_effect))
        if answer is not None:
            return answer
        row = _Row(command, self._next_seq(identity), lease_until=self._clock() + command.lease)
        self._open[identity.request_id] = row
        if key is not None:
            self._keys[key] = row
        if identity.effect_key is not None:
            self._effects[identity.effect_key] = row
        return _ACCEPTED

    def _move(self, move: Move, row: _Row) -> Answer | StoreError:
        if move.version != row.version:
            return Stale(row.version, row.state, row.result)
        error = judge_move(move, row.state, row.attempt)
        if error is not None:
            return error
        row.state, row.attempt, row.updated_at, row.next_at = move.state, move.attempt, move.event.at, move.next_at
        row.version += 1
        if move.settle_until is not None:
            row.settle_until = move.settle_until
        row.result = move.result
        self._append(row, move.event, move.result)
        if move.state not in OPEN_STATES:
            self._finish(row)
        return Accepted(row.version)

    def _finish(self, row: _Row) -> None:
        request_id = row.identity.request_id
        row.lease_until = None
        del self._open[request_id]
        self._release(row)
        self._finished[request_id] = row
        self._order.append(request_id)
        if len(self._order) > self._max_calls:
            self._evict()

    def _release(self, row: _Row, *, leaving: bool = False) -> None:
        identity = row.identity
        effect, key = identity.effect_key, (identity.idempotency_scope, identity.idempotency_key or "")
        if effect is not None and not guards_effect(row.state) and self._effects.get(effect) is row:
            del self._effects[effect]
        if (leaving or not guards_key(row.state)) and self._keys.get(key) is row:
            del self._keys[key]

    def _append(self, row: _Row, event: Event, result: Mapping[str, Any] | None = None) -> None:
        row.records.append(_Record(self._next_seq(row.identity), event, row, opening=False, result=result))

    def _next_seq(self, identity: Identity) -> int:
        chain = self._chains.get(identity.task_id)
        if chain is None:
            chain = self._chains[identity.task_id] = _Chain()
        chain.seq += 1
        chain.held += 1
        return chain.seq

    def _evict(self) -> None:
        kept = self._finished.pop(self._order.popleft())
        if isinstance(kept, _Row):
            self._release(kept, leaving=True)
            task_id, leaving = kept.identity.task_id, len(kept.records)
        else:
            task_id, leaving = kept[1].identity.task_id, 1
        chain = self._chains[task_id]
        chain.held -= leaving
        if not chain.held:
            del self._chains[task_id]

    def _find(self, request_id: str) -> _Row | None:
        row = self._open.get(request_id)
        if row is not None:
            return row
        kept = self._finished.get(request_id)
        if isinstance(kept, tuple):
            kept = self._finished[request_id] = _Row(kept[1], kept[0])
        return kept

    def _linked(self, task_id: str) -> list[_Record]:
        """Answer the events of a task in order, with bytes and hashes made."""
        rows = [self._find(request_id) for request_id in (*self._finished, *self._open)]
        records = [
            record for row in rows if row is not None and row.identity.task_id == task_id for record in row.records
        ]
        records.sort(key=lambda record: record.seq)
        before, prev = 0, GENESIS
        for record in records:
            record.close_link(prev if record.seq == before + 1 else GENESIS)
            before, prev = record.seq, record.hash
        return records


def _holder(row: _Row | None) -> Holder | None:
    return None if row is None else Holder(row.identity.request_id, row.state, row.identity.digest, row.result)


def _matches(row: _Row, query: CallQuery) -> bool:
    identity = row.identity
    return (
        (query.task_id is None or identity.task_id == query.task_id)
        and (query.tool is None or identity.tool == query.tool)
        and (not query.states or row.state in query.states)
        and (query.since is None or row.created_at >= query.since)
        and (query.until is None or row.created_at < query.until)
    )
