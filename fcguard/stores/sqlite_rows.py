"""The statements of the SQLite ledger, and how rows become values."""

# ruff: noqa: S608 - what is put into statements are the names of columns, written in this package
from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypeAlias

from fcguard.model.states import OPEN_STATES, CallState
from fcguard.stores.base import CallQuery, Gap, Head, Identity, StoredCall, StoredEvent
from fcguard.stores.batch import Batch, Chain, Row
from fcguard.stores.payload import result_of

__all__ = [
    "SQLiteView",
    "flush",
    "pages_of_calls",
    "pages_of_events",
    "read_call_events",
    "read_gaps",
    "read_heads",
    "read_one",
    "read_open",
]

_OPEN: Final = "c.state IN ('PREPARED','STARTED','UNCERTAIN','CONFIRMING','PARKED')"
_IDENTITY: Final = (
    "request_id", "tool", "tool_version", "effect", "purpose", "step", "parent_id", "tenant", "digest", "idempotency_scope",
    "idempotency_key", "effect_key", "settle",
)  # fmt: skip
_CURRENT: Final = (
    "entered", "state", "version", "attempt", "created_at", "updated_at", "owner", "lease_until", "next_at", "settle_until",
    "last_seq", "result_seq",
)  # fmt: skip
_COLUMNS: Final = ", ".join(f"c.{name}" for name in (*_IDENTITY, *_CURRENT))
_SELECT: Final = f"SELECT {_COLUMNS}, h.task_id, c.task FROM fc_calls c JOIN fc_heads h ON h.task = c.task"
_SELECT_WITH_RESULT: Final = (
    f"SELECT {_COLUMNS}, h.task_id, e.payload FROM fc_calls c JOIN fc_heads h ON h.task = c.task "
    "LEFT JOIN fc_events e ON e.task = c.task AND e.seq = c.result_seq"
)
_INSERT_CALL: Final = (
    f"INSERT INTO fc_calls (task, {', '.join((*_IDENTITY, *_CURRENT))}) "
    f"VALUES ({', '.join('?' * (1 + len(_IDENTITY) + len(_CURRENT)))})"
)
_CHANGED: Final = tuple(name for name in _CURRENT if name not in {"entered", "created_at"})
_UPDATE_CALL: Final = f"UPDATE fc_calls SET {', '.join(f'{name} = ?' for name in _CHANGED)} WHERE request_id = ?"
_INSERT_EVENT: Final = (
    "INSERT INTO fc_events (task, seq, request_id, kind, at, back, payload, hash) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)
_EVENT: Final = "h.task_id, e.seq, e.request_id, e.kind, e.at, e.payload, e.hash"
_EVENTS_AFTER: Final = f"SELECT {_EVENT} FROM fc_events e JOIN fc_heads h ON h.task = e.task WHERE e.task = ? AND e.seq > ? ORDER BY e.seq LIMIT ?"
_PAGE: Final = 256
"""Rows read at once: a reader that pauses must not hold a snapshot, or the log could not be folded back."""

Run: TypeAlias = Callable[[Callable[[sqlite3.Connection], list[Any]]], list[Any]]
"""Runs one query on an idle connection."""


class SQLiteView:
    """What a batch reads through the writer's connection, inside its transaction."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._execute = connection.execute

    def row(self, request_id: str) -> Row | None:
        """Answer the row of a call, or None."""
        found = self._execute(f"{_SELECT} WHERE c.request_id = ?", (request_id,)).fetchone()
        if found is None:
            return None
        chain = Chain(found[-2], found[-1])
        entered, state, *rest = found[len(_IDENTITY) : -2]
        version, attempt, created_at, updated_at, owner, lease_until, next_at, settle_until, last_seq, result_seq = rest
        return Row(
            _identity(found, chain.task_id), CallState(state), version, attempt, created_at, updated_at, chain, bool(entered),
            owner, lease_until, next_at, settle_until, last_seq, result_seq,
        )  # fmt: skip

    def holder_of_key(self, scope: str | None, key: str) -> str | None:
        """Answer the id of the call that is open or succeeded under this idempotency key."""
        return self._one(
            "SELECT request_id FROM fc_calls WHERE ifnull(idempotency_scope, '') = ? AND idempotency_key = ? "
            "AND entered = 0 AND state NOT IN ('REJECTED','FAILED')",
            (scope or "", key),
        )

    def holder_of_effect(self, effect_key: str) -> str | None:
        """Answer the id of the open call with this effect key."""
        return self._one(f"SELECT request_id FROM fc_calls c WHERE effect_key = ? AND {_OPEN}", (effect_key,))

    def chain(self, task_id: str) -> Chain:
        """Answer where the chain of a task stands; a fresh one for a new task."""
        found = self._execute("SELECT task, seq, hash FROM fc_heads WHERE task_id = ?", (task_id,)).fetchone()
        return Chain(task_id) if found is None else Chain(task_id, *found)

    def payload(self, chain: Chain, seq: int) -> bytes:
        """Answer the bytes of an event."""
        found = self._execute(
            "SELECT payload FROM fc_events WHERE task = ? AND seq = ?", (chain.number, seq)
        ).fetchone()
        payload: bytes = found[0]
        return payload

    def _one(self, statement: str, parameters: Sequence[Any]) -> str | None:
        found = self._execute(statement, parameters).fetchone()
        return None if found is None else found[0]


def flush(connection: sqlite3.Connection, batch: Batch) -> None:
    """Write what a batch gathered; the caller commits."""
    for chain in batch.chains.values():
        if chain.number is None:
            if chain.seq:
                cursor = connection.execute(
                    "INSERT INTO fc_heads (task_id, seq, hash) VALUES (?, ?, ?)", (chain.task_id, chain.seq, chain.hash)
                )
                chain.number = cursor.lastrowid
        else:
            connection.execute(
                "UPDATE fc_heads SET seq = ?, hash = ? WHERE task = ?", (chain.seq, chain.hash, chain.number)
            )
    if batch.created:
        connection.executemany(_INSERT_CALL, [_created(row) for row in batch.created.values()])
    if batch.changed:
        connection.executemany(_UPDATE_CALL, [_changed(row) for row in batch.changed.values()])
    connection.executemany(
        _INSERT_EVENT,
        [
            (
                event.chain.number,
                event.seq,
                event.request_id,
                event.kind,
                event.at,
                event.back,
                event.payload,
                event.hash,
            )
            for event in batch.events
        ],
    )


def _created(row: Row) -> tuple[Any, ...]:
    identity = row.identity
    return (
        row.chain.number, identity.request_id, identity.tool, identity.tool_version, identity.effect, identity.purpose,
        identity.step, identity.parent_id, identity.tenant, identity.digest, identity.idempotency_scope,
        identity.idempotency_key, identity.effect_key, identity.settle, row.entered, row.state, row.version, row.attempt,
        row.created_at, row.updated_at, row.owner, row.lease_until, row.next_at, row.settle_until, row.last_seq,
        row.result_seq,
    )  # fmt: skip


def _changed(row: Row) -> tuple[Any, ...]:
    return (
        row.state, row.version, row.attempt, row.updated_at, row.owner, row.lease_until, row.next_at, row.settle_until,
        row.last_seq, row.result_seq, row.identity.request_id,
    )  # fmt: skip


def _identity(found: Sequence[Any], task_id: str) -> Identity:
    request_id, tool, tool_version, effect, *rest = found[: len(_IDENTITY)]
    return Identity(request_id, task_id, tool, tool_version, effect, *rest)


def _call(found: Sequence[Any]) -> StoredCall:
    task_id, payload = found[-2:]
    _, state, version, attempt, created_at, updated_at, owner, lease_until, next_at, settle_until = found[13:23]
    return StoredCall(
        _identity(found, task_id), CallState(state), version, attempt, created_at, updated_at, result_of(payload), owner,
        lease_until, next_at, settle_until,
    )  # fmt: skip


def read_one(connection: sqlite3.Connection, request_id: str) -> StoredCall | None:
    """Answer the row of a call, or None."""
    found = connection.execute(f"{_SELECT_WITH_RESULT} WHERE c.request_id = ?", (request_id,)).fetchone()
    return None if found is None else _call(found)


def read_open(connection: sqlite3.Connection) -> list[StoredCall]:
    """Answer every open call, oldest first."""
    return [_call(found) for found in connection.execute(f"{_SELECT_WITH_RESULT} WHERE {_OPEN} ORDER BY c.request_id")]


def pages_of_calls(run: Run, query: CallQuery) -> Iterator[list[StoredCall]]:
    """Yield pages of calls, newest first; request ids sort by time."""
    conditions, parameters = ["c.request_id < ?"], list[Any]()
    if query.states:
        states = sorted(query.states)
        if query.states <= OPEN_STATES:
            conditions.append(_OPEN)  # word for word as in the index over open calls, which is then used
        conditions.append(f"c.state IN ({', '.join('?' * len(states))})")
        parameters += states
    if query.task_id is not None:
        conditions.append(
            "c.request_id IN (SELECT request_id FROM fc_events WHERE task = (SELECT task FROM fc_heads WHERE task_id = ?))"
        )
        parameters.append(query.task_id)
    for value, condition in (
        (query.tool, "c.tool = ?"),
        (query.since, "c.created_at >= ?"),
        (query.until, "c.created_at < ?"),
    ):
        if value is not None:
            conditions.append(condition)
            parameters.append(value)
    statement = f"{_SELECT_WITH_RESULT} WHERE {' AND '.join(conditions)} ORDER BY c.request_id DESC LIMIT ?"
    before, left = "\U0010ffff", query.limit
    while left is None or left > 0:
        size = _PAGE if left is None else min(left, _PAGE)
        page = [_call(found) for found in _fetch(run, statement, (before, *parameters, size))]
        if page:
            yield page
            before = page[-1].identity.request_id
        if len(page) < size:
            return
        left = None if left is None else left - size


def pages_of_events(run: Run, task_id: str | None) -> Iterator[list[StoredEvent]]:
    """Yield pages of events in chain order: of one task, or of all."""
    condition = "WHERE task_id = ? " if task_id is not None else ""
    parameters = () if task_id is None else (task_id,)
    for (task,) in _fetch(run, f"SELECT task FROM fc_heads {condition}ORDER BY task", parameters):
        after, size = 0, _PAGE
        while size == _PAGE:
            page = [StoredEvent(*found) for found in _fetch(run, _EVENTS_AFTER, (task, after, _PAGE))]
            size = len(page)
            if page:
                yield page
                after = page[-1].seq


def _fetch(run: Run, statement: str, parameters: Sequence[Any]) -> list[Any]:
    return run(lambda connection: connection.execute(statement, parameters).fetchall())


def read_call_events(connection: sqlite3.Connection, request_id: str) -> list[StoredEvent]:
    """Answer the events of a call in chain order, by walking back from its last one."""
    found = connection.execute("SELECT task, last_seq FROM fc_calls WHERE request_id = ?", (request_id,)).fetchone()
    events: list[StoredEvent] = []
    if found is None:
        return events
    task, seq = found
    while seq is not None:
        row = connection.execute(
            f"SELECT e.back, {_EVENT} FROM fc_events e JOIN fc_heads h ON h.task = e.task WHERE e.task = ? AND e.seq = ?",
            (task, seq),
        ).fetchone()
        if row is None:
            break
        events.append(StoredEvent(*row[1:]))
        seq = row[0] if row[0] is None or row[0] < seq else None
    events.reverse()
    return events


def read_heads(connection: sqlite3.Connection) -> list[Head]:
    """Answer the last event of every task."""
    return [Head(*row) for row in connection.execute("SELECT task_id, seq, hash FROM fc_heads ORDER BY task")]


def read_gaps(connection: sqlite3.Connection) -> list[Gap]:
    """Answer the ranges of events that were pruned."""
    return [
        Gap(*row)
        for row in connection.execute(
            "SELECT h.task_id, g.first, g.last, g.hash FROM fc_gaps g JOIN fc_heads h ON h.task = g.task ORDER BY g.task, g.first"
        )
    ]
