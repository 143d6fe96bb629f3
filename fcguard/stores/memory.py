"""A ledger in memory, for tests and for processes that need no evidence after their end."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
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
    Look,
    Move,
    Note,
    Open,
    Stale,
    StoredCall,
    StoredEvent,
)
from fcguard.stores.chain import GENESIS
from fcguard.stores.judge import (
    Holder,
    check_new,
    guards_effect,
    guards_key,
    is_claimable,
    is_in_flight,
    judge_move,
    judge_open,
    lease_after,
)
from fcguard.stores.memory_keys import Tombstones, key_of
from fcguard.stores.memory_rows import ChainEnd, Record, Row, holder_of, matches
from fcguard.stores.owner import Liveness, Owner, this_owner
from fcguard.stores.payload import STORE_KEY
from fcguard.stores.recoverable import Claim, Drained, Progress, Pruned, tools_to_claim
from fcguard.stores.tombstone import Tombstone, seal_of

__all__ = ["MemoryStore"]

_ACCEPTED = Accepted(1)
_EVERYTHING = CallQuery()
_SUCCEEDED, _FAILED, _REJECTED = CallState.SUCCEEDED, CallState.FAILED, CallState.REJECTED


# A read is kept as it came, with its number in the chain, until somebody looks at it: half the cost of a row.
_Finished: TypeAlias = "Row | tuple[int, Enter]"


class MemoryStore:
    """Keep the ledger in this process. Answers before `submit` returns; nothing survives the process.

    Bounded: when more than `max_calls` calls are finished, the oldest of them leaves with its events. Of a write that took
    effect the key stays, as after `prune`, so that its repetition is not sent; but no more than `max_keys` of them: **a write
    older than that is sent again**. Open calls never leave. Bytes and hashes are those that `SQLiteStore` would write, made
    when they are read; a payload that cannot be written as JSON is therefore found at reading only.

    Args:
        max_calls: how many finished calls to keep.
        max_keys: how many keys of writes that have left to keep; about 600 bytes each.
        lease: seconds for which a call belongs to whoever moved it.
        clock: wall clock in seconds, for leases.

    Raises:
        ConfigurationError: an option has no meaning.
    """

    answers_inline = True

    def __init__(
        self,
        max_calls: int = 10_000,
        *,
        max_keys: int = 100_000,
        lease: float = 60.0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        if max_calls < 1:
            raise ConfigurationError(f"max_calls={max_calls!r}: keep at least one call")
        if max_keys < 0:
            raise ConfigurationError(
                f"max_keys={max_keys!r}: how many keys of writes that have left to keep; 0 keeps none"
            )
        self._max_calls, self._lease, self._clock = max_calls, lease, clock
        self._lock = threading.Lock()
        self._open: dict[str, Row] = {}
        self._finished: dict[str, _Finished] = {}
        self._order: deque[str] = deque()
        self._chains: dict[str, ChainEnd] = {}
        self._keys: dict[tuple[str | None, str], Row] = {}
        self._effects: dict[str, Row] = {}
        self._tombstones = Tombstones(max_keys)
        self._spooled: list[Move | Note | Enter] = []
        self._blobs: dict[str, bytes] = {}
        self._owner: Owner | None = None
        self._closed = self._is_torn = False

    def submit(self, command: Command, done: Done) -> None:
        """Take a command and answer it at once; see `Store.submit`."""
        try:
            with self._lock:
                if self._is_torn:
                    self._mend()
                self._is_torn = True
                answer: Answer | BaseException = (
                    self._enter(command) if type(command) is Enter else self._apply(command)
                )
                self._is_torn = False
        except StoreError as error:
            answer = error
        done(answer)

    def get(self, request_id: str) -> StoredCall | None:
        """Answer the row of a call, or None."""
        with self._whole():
            row = self._find(request_id)
            return None if row is None else row.stored()

    def events(self, *, request_id: str | None = None, task_id: str | None = None) -> Iterator[StoredEvent]:
        """Yield events in chain order: of one call, of one task, or all. They are those held when it is called."""
        with self._whole():
            if request_id is not None:
                row = self._find(request_id)
                if row is None or (task_id is not None and row.identity.task_id != task_id):
                    return iter(())
                self._linked(row.identity.task_id)
                return iter([record.stored() for record in row.records])
            tasks = list(self._chains) if task_id is None else [task_id]
            return iter([record.stored() for task in tasks for record in self._linked(task)])

    def calls(self, query: CallQuery = _EVERYTHING) -> Iterator[StoredCall]:
        """Yield calls that match, newest first. They are those held when it is called."""
        with self._whole():
            rows = [self._find(request_id) for request_id in {**self._finished, **self._open}]
            found = [row.stored() for row in rows if row is not None and matches(row, query)]
        found.sort(key=lambda call: (call.created_at, call.identity.request_id), reverse=True)
        return iter(found if query.limit is None else found[: query.limit])

    def heads(self) -> Iterator[Head]:
        """Yield the last event of every task."""
        with self._whole():
            last = [(task, self._linked(task)[-1]) for task in self._chains]
            return iter([Head(task, record.seq, record.hash) for task, record in last])

    def gaps(self) -> Iterator[Gap]:
        """Yield the ranges of events that have left."""
        with self._whole():
            found: list[Gap] = []
            for task in self._chains:
                expected = 1
                for record in self._linked(task):
                    if record.seq > expected:
                        found.append(Gap(task, expected, record.seq - 1, record.prev))
                    expected = record.seq + 1
            return iter(found)

    @property
    def owner(self) -> Owner:
        """This process."""
        if self._owner is None:
            self._owner = this_owner(self._clock())
        return self._owner

    def now(self) -> float:
        """Answer the wall clock on which leases count."""
        return self._clock()

    def owners(self) -> list[Owner]:
        """Answer this process: the only one that can own anything here."""
        return [self.owner]

    def claim(self, *, limit: int = 100, lease: float = 60.0, tools: Collection[str] | None = None) -> list[Claim]:
        """Take over calls whose lease lapsed or whose next action is due; see `RecoverableStore.claim`."""
        here, now, wanted = self.owner, self._clock(), tools_to_claim(tools)
        claims: list[Claim] = []
        with self._changing():
            for row in list(self._open.values()):
                is_wanted = wanted is None or row.identity.tool in wanted
                if len(claims) < limit and is_wanted and is_claimable(row, Liveness.SELF, now):
                    silent = now - row.updated_at
                    row.version += 1
                    row.owner, row.lease_until = here.id, now + lease
                    self._append(
                        row, Event("claimed", now, {"by": here.id, "from": here.id, "liveness": Liveness.SELF})
                    )
                    claims.append(Claim(row.stored(), Liveness.SELF, here, silent))
        return claims

    def heartbeat(self) -> None:
        """Renew the leases of the calls that are being worked on."""
        until = self._clock() + self._lease
        with self._whole():
            for row in self._open.values():
                if is_in_flight(row.state, row.next_at) and row.lease_until is not None:
                    row.lease_until = max(row.lease_until, until)

    def spool(self, command: Move | Note | Enter) -> None:
        """Keep a command until `drain`; in memory, as everything here."""
        with self._lock:
            self._spooled.append(command)

    def drain(self) -> Drained:
        """Write what is spooled; a call that moved on gets it as a note."""
        applied = noted = 0
        failed: dict[str, str] = {}
        commands = list(self._spooled)
        for number, command in enumerate(commands, start=1):
            answers: list[Answer | BaseException] = []
            self.submit(command, answers.append)
            if isinstance(answers[0], Stale) and isinstance(command, Move):
                self.submit(Note(command.request_id, command.event), answers.append)
                noted += 1
            elif isinstance(answers[0], BaseException):
                failed[f"{number}"] = str(answers[0])
                continue
            else:
                applied += 1
            self._unspool(command)  # only now: an interrupt must not lose it
        return Drained(applied=applied, noted=noted, failed=failed)

    def _unspool(self, command: Move | Note | Enter) -> None:
        with self._lock:
            self._spooled.remove(command)

    def prune(self, before: float, *, keys: bool = False, progress: Progress | None = None) -> Pruned:
        """Remove calls that finished before a wall clock, with their events; see `RecoverableStore.prune`."""
        done, now = Pruned(0, 0), self._clock()
        with self._changing():
            staying: deque[str] = deque()
            for request_id in self._order:
                row = self._find(request_id)
                if row is None or row.updated_at >= before:
                    staying.append(request_id)
                    continue
                holds_key = key_of(row) is not None
                done += Pruned(1, len(row.records), holds_key and not keys, holds_key and keys)
                self._forget(request_id, now, keys=keys)
            self._order = staying
            if keys:
                done += Pruned(0, 0, forgotten=self._tombstones.forget(before))
        if progress is not None:
            progress(done)
        return done

    def tombstone(self, request_id: str) -> Tombstone | None:
        """Answer what is kept of a pruned call, or None."""
        with self._whole():
            return self._tombstones.of_call(request_id)

    def tombstones(self) -> Iterator[tuple[Tombstone, bytes]]:
        """Yield the keys of writes that have left, with their seals. They are those held when it is called."""
        with self._whole():
            return iter([(tombstone, seal_of(tombstone)) for tombstone in self._tombstones])

    def examine(self, *, once: bool = False) -> None:
        """Do nothing: there is no medium that could be damaged."""

    def put_blob(self, digest: str, kind: str, body: bytes) -> None:
        """Keep bytes that may have to be erased later under their digest."""
        with self._lock:
            self._blobs.setdefault(digest, body)

    def blob(self, digest: str) -> bytes | None:
        """Answer kept bytes, or None."""
        return self._blobs.get(digest)

    def erase_blob(self, digest: str) -> bool:
        """Erase kept bytes; answer whether there were any."""
        with self._lock:
            return self._blobs.pop(digest, None) is not None

    def close(self) -> None:
        """Refuse further commands; what is held can still be read."""
        self._closed = True

    @contextmanager
    def _whole(self) -> Iterator[None]:
        """Hold the lock, with everything as it should be."""
        with self._lock:
            if self._is_torn:
                self._mend()
            yield

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Hold the lock for a change. An interrupt in its middle leaves word, and whoever comes next mends what it left."""
        with self._whole():
            self._is_torn = True
            yield
            self._is_torn = False

    def _mend(self) -> None:
        """Make everything anew that follows from the calls and their events, after an interrupt between two lines."""
        for row in [*self._open.values(), *self._finished.values()]:
            if isinstance(row, Row):
                row.go_back()
        for request_id, row in list(self._open.items()):
            if row.state not in OPEN_STATES:
                self._finished.setdefault(request_id, row)
            if request_id in self._finished:
                del self._open[request_id]
        self._order = deque(self._finished)
        self._keys, self._effects, held = {}, {}, dict.fromkeys(self._chains, 0)
        for kept in [*self._finished.values(), *self._open.values()]:
            if isinstance(kept, Row):
                held[kept.identity.task_id] += len(kept.records)
                self._guard(kept)
            else:
                held[kept[1].task_id] += 1
        for task_id, count in held.items():
            self._chains[task_id].held = count
            if not count:
                del self._chains[task_id]
        self._tombstones.mend(self._finished.keys() | self._open.keys())
        while len(self._order) > self._max_calls:
            self._forget(self._order.popleft())
        self._is_torn = False

    def _guard(self, row: Row) -> None:
        """Let a call hold its keys, as far as its state does. One that was entered whole has no owner, and holds none."""
        identity = row.identity
        if row.owner is None:
            return
        if identity.idempotency_key is not None and guards_key(row.state):
            self._keys[identity.idempotency_scope, identity.idempotency_key] = row
        if identity.effect_key is not None and guards_effect(row.state):
            self._effects[identity.effect_key] = row

    def _enter(self, command: Enter) -> Answer | StoreError:
        state = command.state
        request_id, finished = command.request_id, self._finished
        if state is not _SUCCEEDED and state is not _FAILED and state is not _REJECTED:
            return self._refusal(command)
        if request_id in finished or request_id in self._open or self._closed:
            return self._refusal(command)
        if command._parts is not None and STORE_KEY in command.event.payload:
            return self._refusal(command)
        chain = self._chains.get(command.task_id)
        if chain is None:
            chain = self._chains[command.task_id] = ChainEnd()
        chain.seq += 1
        chain.held += 1
        finished[request_id] = (chain.seq, command)
        self._order.append(request_id)
        if len(self._order) > self._max_calls:
            self._forget(self._order.popleft())
        return _ACCEPTED

    def _refusal(self, command: Open | Move | Enter | Note) -> StoreError:
        if self._closed:
            return StoreClosed("the ledger was closed; make a new MemoryStore")
        if STORE_KEY in command.event.payload:
            return StoreError(f"the key {STORE_KEY!r} of an event's payload belongs to the store; use another name")
        assert isinstance(command, Enter)
        error = check_new(command, exists=self._find(command.identity.request_id) is not None)
        assert error is not None
        return error

    def _apply(self, command: Command) -> Answer | StoreError:
        if isinstance(command, Look):
            return self._in_the_way(command.identity) or Accepted(0)
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
        answer = self._in_the_way(identity)
        if answer is not None:
            return answer
        row = Row(command, self._next_seq(identity), owner=self.owner.id, lease_until=self._clock() + command.lease)
        self._open[identity.request_id] = row
        self._guard(row)
        return _ACCEPTED

    def _in_the_way(self, identity: Identity) -> Answer | None:
        key = None if identity.idempotency_key is None else (identity.idempotency_scope, identity.idempotency_key)
        by_key = None if key is None else self._keys.get(key)
        by_effect = None if identity.effect_key is None else self._effects.get(identity.effect_key)
        holder = holder_of(by_key)
        if key is not None and holder is None:
            buried = self._tombstones.of_key(*key)
            holder = None if buried is None else Holder.of(buried)
        return judge_open(identity, holder, holder_of(by_effect))

    def _move(self, move: Move, row: Row) -> Answer | StoreError:
        if move.version != row.version:
            return Stale(row.version, row.state, row.result)
        error = judge_move(move, row.state, row.attempt)
        if error is not None:
            return error
        row.state, row.attempt, row.updated_at, row.next_at = move.state, move.attempt, move.event.at, move.next_at
        row.version += 1
        if move.settle_until is not None:
            row.settle_until = move.settle_until
        if move.result is not None:
            row.result = move.result
        row.owner, row.lease_until = self.owner.id, lease_after(move, self._clock() + self._lease)
        self._append(row, move.event, move.result)
        if move.state not in OPEN_STATES:
            self._finish(row)
        return Accepted(row.version)

    def _finish(self, row: Row) -> None:
        request_id = row.identity.request_id
        self._finished[request_id] = row
        self._release(row)
        self._open.pop(request_id, None)
        self._order.append(request_id)
        if len(self._order) > self._max_calls:
            self._forget(self._order.popleft())

    def _release(self, row: Row, *, leaving: bool = False) -> None:
        identity = row.identity
        effect, key = identity.effect_key, (identity.idempotency_scope, identity.idempotency_key or "")
        if effect is not None and not guards_effect(row.state) and self._effects.get(effect) is row:
            del self._effects[effect]
        if (leaving or not guards_key(row.state)) and self._keys.get(key) is row:
            del self._keys[key]

    def _append(self, row: Row, event: Event, result: Mapping[str, Any] | None = None) -> None:
        row.records.append(Record(self._next_seq(row.identity), event, row, opening=False, result=result))

    def _next_seq(self, identity: Identity) -> int:
        chain = self._chains.get(identity.task_id)
        if chain is None:
            chain = self._chains[identity.task_id] = ChainEnd()
        chain.seq += 1
        chain.held += 1
        return chain.seq

    def _forget(self, request_id: str, now: float | None = None, *, keys: bool = False) -> None:
        """Let a finished call leave. Its key is kept first, unless it is to leave as well: an interrupt leaves one of the two."""
        kept = self._finished[request_id]
        if isinstance(kept, Row) and not keys:
            self._tombstones.bury(kept, self._clock() if now is None else now)
        del self._finished[request_id]
        if isinstance(kept, Row):
            self._release(kept, leaving=True)
            task_id, leaving = kept.identity.task_id, len(kept.records)
        else:
            task_id, leaving = kept[1].task_id, 1
        chain = self._chains[task_id]
        chain.held -= leaving
        if not chain.held:
            del self._chains[task_id]

    def _find(self, request_id: str) -> Row | None:
        row = self._open.get(request_id)
        if row is not None:
            return row
        kept = self._finished.get(request_id)
        if isinstance(kept, tuple):
            kept = self._finished[request_id] = Row(kept[1], kept[0])
        return kept

    def _linked(self, task_id: str) -> list[Record]:
        """Answer the events of a task in order, with bytes and hashes made."""
        rows = [self._find(request_id) for request_id in {**self._finished, **self._open}]
        records = [
            record for row in rows if row is not None and row.identity.task_id == task_id for record in row.records
        ]
        records.sort(key=lambda record: record.seq)
        before, prev = 0, GENESIS
        for record in records:
            record.close_link(prev if record.seq == before + 1 else GENESIS)
            before, prev = record.seq, record.hash
        return records
