"""The statements of the SQLite ledger, and how rows become values."""

# ruff: noqa: S608 - what is put into statements are the names of columns, written in this package
from __future__ import annotations

import itertools
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

from fcguard.errors import StoreCorrupt
from fcguard.model.states import OPEN_STATES, CallState
from fcguard.stores.base import CallQuery, Gap, Head, StoredCall, StoredEvent
from fcguard.stores.batch import Batch, Chain, Row
from fcguard.stores.chain import GENESIS
from fcguard.stores.sqlite_retention import find_tombstone, read_tombstones
from fcguard.stores.stored_rows import call_of
from fcguard.stores.tombstone import Tombstone

__all__ = [
    "SQLiteView",
    "flush",
    "pages_of_calls",
    "pages_of_events",
    "pages_of_tombstones",
    "read_call_events",
    "read_gaps",
    "read_heads",
    "read_one",
    "read_open",
]

_STEADY: Final = ("request_id", "task", "tool", "created_at", "first_seq", "is_entered")
_CURRENT: Final = (
    "state", "version", "attempt", "updated_at", "last_seq", "result_seq", "is_open", "holds_key", "owner", "lease_until",
    "next_at", "settle_until",
)  # fmt: skip
_KEYS: Final = ("idempotency_scope", "idempotency_key", "effect_key")
_OF_ENTERED: Final = (
    "request_id", "task", "tool", "created_at", "first_seq", "state", "version", "attempt", "updated_at", "last_seq",
    "result_seq",
)  # fmt: skip
"""In the order of `EnteredRow`."""
_AT_ONCE: Final = 16
"""Rows in one INSERT: a fifth cheaper than one by one, and the interpreter's lock changes hands less often."""

_CALL: Final = (
    "first.payload, c.state, c.version, c.attempt, c.created_at, c.updated_at, result.payload, c.owner, c.lease_until, "
    "c.next_at, c.settle_until, c.last_seq, c.result_seq, c.request_id, c.tool, c.is_entered, c.is_open, c.holds_key, "
    "c.idempotency_scope, c.idempotency_key, c.effect_key"
)
_SELECT_CALL: Final = (
    f"SELECT {_CALL} FROM fc_calls c JOIN fc_events first ON first.task = c.task AND first.seq = c.first_seq "
    "LEFT JOIN fc_events result ON result.task = c.task AND result.seq = c.result_seq"
)
_SELECT_ROW: Final = (
    "SELECT h.task_id, h.task, h.seq, h.hash, c.tool, c.state, c.version, c.attempt, c.created_at, c.updated_at, c.first_seq, "
    "c.last_seq, c.result_seq, c.is_entered, c.owner, c.lease_until, c.next_at, c.settle_until "
    "FROM fc_calls c JOIN fc_heads h ON h.task = c.task WHERE c.request_id = ?"
)
_UPDATE_CALL: Final = f"UPDATE fc_calls SET {', '.join(f'{name} = ?' for name in _CURRENT)} WHERE request_id = ?"
_EVENT: Final = "h.task_id, e.seq, e.request_id, e.kind, e.at, e.payload, e.hash"
_EVENTS_AFTER: Final = f"SELECT {_EVENT} FROM fc_events e JOIN fc_heads h ON h.task = e.task WHERE e.task = ? AND e.seq > ? ORDER BY e.seq LIMIT ?"


def _insert(table: str, columns: tuple[str, ...], rows: int) -> str:
    values = f"({', '.join('?' * len(columns))})"
    return f"INSERT INTO {table} ({', '.join(columns)}) VALUES {', '.join([values] * rows)}"


_EVENT_COLUMNS: Final = ("task", "seq", "request_id", "kind", "at", "back", "payload", "hash")
_INSERTS: Final[dict[tuple[str, ...], tuple[str, str]]] = {
    columns: (_insert(table, columns, 1), _insert(table, columns, _AT_ONCE))
    for table, columns in (
        ("fc_calls", _OF_ENTERED),
        ("fc_calls", (*_STEADY, *_CURRENT, *_KEYS)),
        ("fc_events", _EVENT_COLUMNS),
    )
}
_PAGE: Final = 256
"""Rows read at once: a reader that pauses must not hold a snapshot, or the log could not be folded back."""

Run: TypeAlias = Callable[[Callable[[sqlite3.Connection], list[Any]]], list[Any]]
"""Runs one query on an idle connection."""


class SQLiteView:
    """What a batch reads through the writer's connection, inside its transaction."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection, self._execute = connection, connection.execute
        self._has_tombstones: bool | None = None  # asked once a transaction, in which nobody else writes

    def row(self, request_id: str) -> Row | None:
        """Answer the row of a call, or None."""
        found = self._execute(_SELECT_ROW, (request_id,)).fetchone()
        if found is None:
            return None
        task_id, number, seq, hash_, tool, state, *rest = found
        return Row(request_id, Chain(task_id, number, seq, hash_), tool, CallState(state), *rest)

    def holder_of_key(self, scope: str | None, key: str) -> str | None:
        """Answer the id of the call that is open or succeeded under this idempotency key."""
        return self._one(
            "SELECT request_id FROM fc_calls WHERE idempotency_scope = ? AND idempotency_key = ? AND holds_key = 1",
            (scope or "", key),
        )

    def tombstone_of_key(self, scope: str | None, key: str) -> Tombstone | None:
        """Answer what is left of the pruned call that succeeded under this idempotency key."""
        if self._has_tombstones is None:
            self._has_tombstones = self._one("SELECT request_id FROM fc_tombstones LIMIT 1", ()) is not None
        if not self._has_tombstones:
            return None
        return find_tombstone(self._connection, "t.idempotency_scope = ? AND t.idempotency_key = ?", (scope or "", key))

    def holder_of_effect(self, effect_key: str) -> str | None:
        """Answer the id of the open call with this effect key."""
        return self._one("SELECT request_id FROM fc_calls WHERE effect_key = ? AND is_open = 1", (effect_key,))

    def chain(self, task_id: str) -> Chain:
        """Answer where the chain of a task stands; a new task gets its number here."""
        found = self._execute("SELECT task, seq, hash FROM fc_heads WHERE task_id = ?", (task_id,)).fetchone()
        if found is not None:
            return Chain(task_id, *found)
        cursor = self._execute("INSERT INTO fc_heads (task_id, seq, hash) VALUES (?, 0, ?)", (task_id, GENESIS))
        return Chain(task_id, cursor.lastrowid or 0)

    def payload(self, chain: Chain, seq: int) -> bytes:
        """Answer the bytes of an event."""
        found = self._execute(
            "SELECT payload FROM fc_events WHERE task = ? AND seq = ?", (chain.number, seq)
        ).fetchone()
        if found is None:
            raise StoreCorrupt(f"event {seq} of task {chain.task_id!r} is missing; run `fcguard verify`")
        payload: bytes = found[0]
        return payload

    def _one(self, statement: str, parameters: Sequence[Any]) -> str | None:
        found = self._execute(statement, parameters).fetchone()
        return None if found is None else found[0]


def flush(connection: sqlite3.Connection, batch: Batch) -> None:
    """Write what a batch gathered; the caller commits."""
    _insert_all(connection, _OF_ENTERED, list(batch.entered.values()))
    _insert_all(
        connection,
        (*_STEADY, *_CURRENT, *_KEYS),
        [(*_steady(row), *_current(row), *_keys(row)) for row in batch.created.values()],
    )
    if batch.changed:
        connection.executemany(_UPDATE_CALL, [(*_current(row), row.request_id) for row in batch.changed.values()])
    _insert_all(connection, _EVENT_COLUMNS, batch.events)
    for chain in batch.chains.values():
        connection.execute(
            "UPDATE fc_heads SET seq = ?, hash = ? WHERE task = ?", (chain.seq, chain.hash, chain.number)
        )


def _insert_all(connection: sqlite3.Connection, columns: tuple[str, ...], rows: Sequence[tuple[Any, ...]]) -> None:
    one, many = _INSERTS[columns]
    whole = len(rows) - len(rows) % _AT_ONCE
    for start in range(0, whole, _AT_ONCE):
        connection.execute(many, tuple(itertools.chain.from_iterable(rows[start : start + _AT_ONCE])))
    for row in rows[whole:]:
        connection.execute(one, row)


def _steady(row: Row) -> tuple[Any, ...]:
    return row.request_id, row.chain.number, row.tool, row.created_at, row.first_seq, row.is_entered


def _current(row: Row) -> tuple[Any, ...]:
    return (
        row.state, row.version, row.attempt, row.updated_at, row.last_seq, row.result_seq, row.is_open, row.holds_key,
        row.owner, row.lease_until, row.next_at, row.settle_until,
    )  # fmt: skip


def _keys(row: Row) -> tuple[Any, ...]:
    scope, key = row.idempotency or (None, None)
    return (scope or "") if key is not None else None, key, row.effect_key


def read_one(connection: sqlite3.Connection, request_id: str) -> StoredCall | None:
    """Answer the row of a call, or None."""
    found = connection.execute(f"{_SELECT_CALL} WHERE c.request_id = ?", (request_id,)).fetchone()
    return None if found is None else call_of(found)


def read_open(connection: sqlite3.Connection) -> list[StoredCall]:
    """Answer every open call, oldest first."""
    return [call_of(found) for found in connection.execute(f"{_SELECT_CALL} WHERE c.is_open = 1 ORDER BY c.request_id")]


def pages_of_calls(run: Run, query: CallQuery) -> Iterator[list[StoredCall]]:
    """Yield pages of calls, newest first; request ids sort by time."""
    conditions, parameters = ["c.request_id < ?"], list[Any]()
    if query.states:
        states = sorted(query.states)
        if query.states <= OPEN_STATES:
            conditions.append("c.is_open = 1")  # as in the index over open calls, which is then used
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
    statement = f"{_SELECT_CALL} WHERE {' AND '.join(conditions)} ORDER BY c.request_id DESC LIMIT ?"
    before, left = "\U0010ffff", query.limit
    while left is None or left > 0:
        size = _PAGE if left is None else min(left, _PAGE)
        page = [call_of(found) for found in _fetch(run, statement, (before, *parameters, size))]
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


def pages_of_tombstones(run: Run) -> Iterator[list[tuple[Tombstone, bytes]]]:
    """Yield pages of tombstones with their seals, by request id."""
    after, size = "", _PAGE
    while size == _PAGE:
        page: list[tuple[Tombstone, bytes]] = run(partial(read_tombstones, after=after, limit=_PAGE))
        size = len(page)
        if page:
            yield page
            after = page[-1][0].request_id


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
    return [
        Head(*row) for row in connection.execute("SELECT task_id, seq, hash FROM fc_heads WHERE seq > 0 ORDER BY task")
    ]


def read_gaps(connection: sqlite3.Connection) -> list[Gap]:
    """Answer the ranges of events that were pruned."""
    return [
        Gap(*row)
        for row in connection.execute(
            "SELECT h.task_id, g.first, g.last, g.hash FROM fc_gaps g JOIN fc_heads h ON h.task = g.task ORDER BY g.task, g.first"
        )
    ]
