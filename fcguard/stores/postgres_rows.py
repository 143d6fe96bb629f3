"""The statements of the PostgreSQL ledger, and how rows become values."""

# ruff: noqa: S608 - what is put into statements are the names of columns, written in this module
from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

import psycopg

from fcguard.errors import StoreCorrupt
from fcguard.model.states import OPEN_STATES, CallState
from fcguard.stores.base import CallQuery, Command, Enter, Gap, Head, Look, Open, StoredCall, StoredEvent
from fcguard.stores.batch import Batch, Chain, Row
from fcguard.stores.chain import GENESIS
from fcguard.stores.postgres_retention import read_tombstones, tombstones_of_keys
from fcguard.stores.stored_rows import call_of
from fcguard.stores.tombstone import Tombstone

__all__ = [
    "PostgresView",
    "flush",
    "pages_of_calls",
    "pages_of_events",
    "pages_of_tombstones",
    "read_call_events",
    "read_gaps",
    "read_heads",
    "read_one",
]

Connection: TypeAlias = psycopg.Connection[Any]
Run: TypeAlias = Callable[[Callable[[Connection], list[Any]]], list[Any]]
"""Runs one query on an idle connection."""

_STEADY: Final = {
    "request_id": "text", "task": "bigint", "tool": "text", "created_at": "float8", "first_seq": "bigint",
    "is_entered": "boolean", "idempotency_scope": "text", "idempotency_key": "text", "effect_key": "text",
}  # fmt: skip
_CURRENT: Final = {
    "state": "text", "version": "bigint", "attempt": "bigint", "updated_at": "float8", "last_seq": "bigint",
    "result_seq": "bigint", "is_open": "boolean", "holds_key": "boolean", "owner": "text", "lease_until": "float8",
    "next_at": "float8", "settle_until": "float8",
}  # fmt: skip
_EVENT_COLUMNS: Final = {
    "task": "bigint", "seq": "bigint", "request_id": "text", "kind": "text", "at": "float8", "back": "bigint",
    "payload": "bytea", "hash": "bytea",
}  # fmt: skip


def _arrays(columns: dict[str, str]) -> str:
    return f"unnest({', '.join(f'%b::{kind}[]' for kind in columns.values())})"


_INSERT_CALLS: Final = (
    f"INSERT INTO fc_calls ({', '.join(_STEADY | _CURRENT)}) SELECT * FROM {_arrays(_STEADY | _CURRENT)}"
)
_UPDATE_CALLS: Final = (
    f"UPDATE fc_calls c SET {', '.join(f'{name} = u.{name}' for name in _CURRENT)} "
    f"FROM {_arrays({'request_id': 'text'} | _CURRENT)} AS u (request_id, {', '.join(_CURRENT)}) "
    "WHERE c.request_id = u.request_id"
)
_INSERT_EVENTS: Final = f"INSERT INTO fc_events ({', '.join(_EVENT_COLUMNS)}) SELECT * FROM {_arrays(_EVENT_COLUMNS)}"
_UPDATE_HEADS: Final = (
    "UPDATE fc_heads h SET seq = u.seq, hash = u.hash FROM unnest(%b::bigint[], %b::bigint[], %b::bytea[]) AS u (task, seq, hash) "
    "WHERE h.task = u.task"
)
_ROW: Final = (
    "c.request_id, h.task_id, h.task, c.tool, c.state, c.version, c.attempt, c.created_at, c.updated_at, c.first_seq, "
    "c.last_seq, c.result_seq, c.is_entered, c.owner, c.lease_until, c.next_at, c.settle_until"
)
_ROWS: Final = f"SELECT {_ROW} FROM fc_calls c JOIN fc_heads h ON h.task = c.task WHERE c.request_id = ANY(%s)"
_LOCK_HEADS: Final = "SELECT task_id, task, seq, hash FROM fc_heads WHERE task_id = ANY(%s) ORDER BY task_id FOR UPDATE"
_SELECT_CALL: Final = (
    "SELECT o.payload, c.state, c.version, c.attempt, c.created_at, c.updated_at, r.payload, c.owner, c.lease_until, "
    "c.next_at, c.settle_until, c.last_seq, c.result_seq, c.request_id, c.tool, c.is_entered, c.is_open, c.holds_key, "
    "c.idempotency_scope, c.idempotency_key, c.effect_key FROM fc_calls c JOIN fc_events o ON o.task = c.task AND o.seq = c.first_seq "
    "LEFT JOIN fc_events r ON r.task = c.task AND r.seq = c.result_seq"
)
_PRUNED: Final = "SELECT 1 FROM fc_gaps WHERE task = %s AND first <= %s AND last >= %s"
_EVENT: Final = "h.task_id, e.seq, e.request_id, e.kind, e.at, e.payload, e.hash"
_PAGE: Final = 256


class PostgresView:
    """What a batch reads; fetched with few round trips and locked against other processes before it is asked.

    Locks are taken in one order everywhere, rows of calls by id before heads by task, so that two transactions do not wait
    for each other.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._rows: dict[str, Row] = {}
        self._chains: dict[str, Chain] = {}
        self._keys: dict[tuple[str, str], str] = {}
        self._effects: dict[str, str] = {}
        self._tombstones: dict[tuple[str, str], Tombstone] = {}

    def prepare(self, commands: Sequence[Command], *, careful: bool) -> None:
        """Fetch and lock everything that the commands can touch."""
        ids, tasks, opens = set[str](), set[str](), list[Open | Look]()
        for command in commands:
            if isinstance(command, Open | Enter):
                tasks.add(command.identity.task_id)
                if careful or isinstance(command, Open):
                    ids.add(command.identity.request_id)
                if isinstance(command, Open):
                    opens.append(command)
            elif isinstance(command, Look):
                opens.append(command)
            else:
                ids.add(command.request_id)
        if ids:
            self._fetch_rows(ids, lock=True)
        self.lock_chains(tasks | {row.chain.task_id for row in self._rows.values()})
        if opens:
            self._fetch_holders(opens)

    def prepare_ids(self, ids: Sequence[str]) -> None:
        """Fetch calls whose rows are locked already, and lock their chains."""
        self._fetch_rows(ids)
        self.lock_chains({row.chain.task_id for row in self._rows.values()})

    def lock_chains(self, tasks: Iterable[str]) -> None:
        """Lock the heads of tasks; a new task gets its number here."""
        wanted = sorted(tasks)
        found = self._connection.execute(_LOCK_HEADS, (wanted,)).fetchall()
        missing = sorted(set(wanted) - {row[0] for row in found})
        if missing:
            self._connection.execute(
                "INSERT INTO fc_heads (task_id, seq, hash) SELECT task_id, 0, %s FROM unnest(%s::text[]) AS t (task_id) "
                "ORDER BY task_id ON CONFLICT DO NOTHING",
                (GENESIS, missing),
            )
            found += self._connection.execute(_LOCK_HEADS, (missing,)).fetchall()
        for task_id, number, seq, hash_ in found:
            self._chains[task_id] = Chain(task_id, number, seq, hash_)
        for row in self._rows.values():
            row.chain = self._chains.get(row.chain.task_id, row.chain)

    def _fetch_rows(self, ids: Iterable[str], *, lock: bool = False) -> None:
        statement = f"{_ROWS} ORDER BY c.request_id FOR UPDATE OF c" if lock else _ROWS
        for request_id, task_id, number, tool, state, *rest in self._connection.execute(statement, (list(ids),)):
            chain = self._chains.get(task_id) or Chain(task_id, number)
            self._rows[request_id] = Row(request_id, chain, tool, CallState(state), *rest)

    def _fetch_holders(self, opens: Sequence[Open | Look]) -> None:
        keys = {
            (command.identity.idempotency_scope or "", command.identity.idempotency_key)
            for command in opens
            if command.identity.idempotency_key is not None
        }
        effects = {command.identity.effect_key for command in opens if command.identity.effect_key is not None}
        if keys:
            found = self._connection.execute(
                "SELECT idempotency_scope, idempotency_key, request_id FROM fc_calls WHERE holds_key AND "
                "(idempotency_scope, idempotency_key) IN (SELECT * FROM unnest(%s::text[], %s::text[]))",
                ([scope for scope, _ in keys], [key for _, key in keys]),
            ).fetchall()
            self._keys = {(scope, key): request_id for scope, key, request_id in found}
            # After the calls: one that is pruned between the two questions is found by the second.
            buried = tombstones_of_keys(self._connection, *zip(*keys, strict=True))
            self._tombstones = {(one.idempotency_scope, one.idempotency_key): one for one in buried}
        if effects:
            found = self._connection.execute(
                "SELECT effect_key, request_id FROM fc_calls WHERE is_open AND effect_key = ANY(%s)", (list(effects),)
            ).fetchall()
            self._effects = dict(found)
        holders = {*self._keys.values(), *self._effects.values()} - self._rows.keys()
        if holders:
            self._fetch_rows(holders)
            if not holders <= self._rows.keys():
                raise _pruned_meanwhile()

    def row(self, request_id: str) -> Row | None:
        """Answer the row of a call, or None."""
        return self._rows.get(request_id)

    def holder_of_key(self, scope: str | None, key: str) -> str | None:
        """Answer the id of the call that is open or succeeded under this idempotency key."""
        return self._keys.get((scope or "", key))

    def tombstone_of_key(self, scope: str | None, key: str) -> Tombstone | None:
        """Answer what is left of the pruned call that succeeded under this idempotency key."""
        return self._tombstones.get((scope or "", key))

    def holder_of_effect(self, effect_key: str) -> str | None:
        """Answer the id of the open call with this effect key."""
        return self._effects.get(effect_key)

    def chain(self, task_id: str) -> Chain:
        """Answer where the chain of a task stands."""
        return self._chains[task_id]

    def payload(self, chain: Chain, seq: int) -> bytes:
        """Answer the bytes of an event."""
        found = self._connection.execute(
            "SELECT payload FROM fc_events WHERE task = %s AND seq = %s", (chain.number, seq)
        ).fetchone()
        if found is None:
            if self._connection.execute(_PRUNED, (chain.number, seq, seq)).fetchone() is not None:
                raise _pruned_meanwhile()
            raise StoreCorrupt(f"event {seq} of task {chain.task_id!r} is missing; run `fcguard verify`")
        payload: bytes = found[0]
        return payload


def _pruned_meanwhile() -> psycopg.Error:
    """Answer that a call left while it was looked at; the transaction is to begin anew, and finds its key."""
    return psycopg.errors.SerializationFailure("the call that holds the key was pruned meanwhile")


def flush(connection: Connection, batch: Batch) -> str | None:
    """Write what a batch gathered in one round trip, and answer the transaction's id; the caller commits."""
    if not batch.events:
        return None
    ((xid,),) = _piped(connection, lambda: _send(connection, batch)).fetchall()
    return str(xid)


def _send(connection: Connection, batch: Batch) -> psycopg.Cursor[Any]:
    rows = [(*_steady(row), *_current(row)) for row in batch.new_rows()]
    if rows:
        connection.execute(_INSERT_CALLS.encode(), _columns(rows))
    if batch.changed:
        rows = [(row.request_id, *_current(row)) for row in batch.changed.values()]
        connection.execute(_UPDATE_CALLS.encode(), _columns(rows))
    rows = [(*event[:4], float(event[4]), *event[5:]) for event in batch.events]
    connection.execute(_INSERT_EVENTS.encode(), _columns(rows))
    heads = [(chain.number, chain.seq, chain.hash) for chain in batch.chains.values()]
    connection.execute(_UPDATE_HEADS.encode(), _columns(heads))
    return connection.execute("SELECT pg_current_xact_id()::text")


def _piped(connection: Connection, send: Callable[[], psycopg.Cursor[Any]]) -> psycopg.Cursor[Any]:
    """Send statements in a pipeline and raise the first error.

    The error of a statement can come up while a later one is sent. If it left the block, psycopg would find the rest of the
    pipeline aborted and log that, which a program without logging sees on stderr; so it is raised when the pipeline has ended.
    """
    first: Exception | None = None
    try:
        with connection.pipeline():
            try:
                cursor = send()
            except Exception as error:
                first = error
    except psycopg.Error as error:
        raise first or error from None
    if first is not None:
        raise first
    return cursor


def _columns(rows: Sequence[tuple[Any, ...]]) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)]


def _steady(row: Row) -> tuple[Any, ...]:
    scope, key = row.idempotency or (None, None)
    return (
        row.request_id, row.chain.number, row.tool, float(row.created_at), row.first_seq, row.is_entered,
        (scope or "") if key is not None else None, key, row.effect_key,
    )  # fmt: skip


def _current(row: Row) -> tuple[Any, ...]:
    return (
        str(row.state), row.version, row.attempt, float(row.updated_at), row.last_seq, row.result_seq, row.is_open,
        row.holds_key, row.owner, _float(row.lease_until), _float(row.next_at), _float(row.settle_until),
    )  # fmt: skip


def _float(value: float | None) -> float | None:
    return None if value is None else float(value)  # an array holds one type, and a caller may give a whole number


def read_one(connection: Connection, request_id: str) -> StoredCall | None:
    """Answer the row of a call, or None."""
    found = connection.execute(f"{_SELECT_CALL} WHERE c.request_id = %s".encode(), (request_id,)).fetchone()
    return None if found is None else call_of(found)


def pages_of_calls(run: Run, query: CallQuery) -> Iterator[list[StoredCall]]:
    """Yield pages of calls, newest first; request ids sort by time."""
    conditions, parameters = ["(%s::text IS NULL OR c.request_id < %s)"], list[Any]()
    for value, condition in (
        (sorted(map(str, query.states)) or None, "c.state = ANY(%s)"),
        (
            query.task_id,
            "c.request_id IN (SELECT request_id FROM fc_events WHERE task = (SELECT task FROM fc_heads WHERE task_id = %s))",
        ),
        (query.tool, "c.tool = %s"),
        (query.since, "c.created_at >= %s"),
        (query.until, "c.created_at < %s"),
    ):
        if value is not None:
            conditions.append(condition)
            parameters.append(value)
    if query.states and query.states <= OPEN_STATES:
        conditions.append("c.is_open")
    before: str | None = None
    left = query.limit
    while left is None or left > 0:
        size = _PAGE if left is None else min(left, _PAGE)
        statement = f"{_SELECT_CALL} WHERE {' AND '.join(conditions)} "
        page = [
            call_of(found)
            for found in _fetch(
                run, statement + "ORDER BY c.request_id DESC LIMIT %s", (before, before, *parameters, size)
            )
        ]
        if page:
            yield page
            before = page[-1].identity.request_id
        if len(page) < size:
            return
        left = None if left is None else left - size


def pages_of_events(run: Run, task_id: str | None) -> Iterator[list[StoredEvent]]:
    """Yield pages of events in chain order: of one task, or of all."""
    condition = "WHERE task_id = %s " if task_id is not None else ""
    parameters = () if task_id is None else (task_id,)
    for (task,) in _fetch(run, f"SELECT task FROM fc_heads {condition}ORDER BY task", parameters):
        after, size = 0, _PAGE
        while size == _PAGE:
            statement = (
                f"SELECT {_EVENT} FROM fc_events e JOIN fc_heads h ON h.task = e.task WHERE e.task = %s AND e.seq > %s "
                "ORDER BY e.seq LIMIT %s"
            )
            page = [StoredEvent(*found) for found in _fetch(run, statement, (task, after, _PAGE))]
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
    return run(lambda connection: connection.execute(statement.encode(), parameters).fetchall())


def read_call_events(connection: Connection, request_id: str) -> list[StoredEvent]:
    """Answer the events of a call in chain order, by walking back from its last one."""
    found = connection.execute(
        f"""
        WITH RECURSIVE story AS (
          SELECT e.* FROM fc_calls c JOIN fc_events e ON e.task = c.task AND e.seq = c.last_seq WHERE c.request_id = %s
          UNION ALL SELECT e.* FROM story s JOIN fc_events e ON e.task = s.task AND e.seq = s.back AND s.back < s.seq
        ) SELECT {_EVENT} FROM story e JOIN fc_heads h ON h.task = e.task ORDER BY e.seq
        """.encode(),
        (request_id,),
    )
    return [StoredEvent(*row) for row in found]


def read_heads(connection: Connection) -> list[Head]:
    """Answer the last event of every task."""
    return [
        Head(*row) for row in connection.execute("SELECT task_id, seq, hash FROM fc_heads WHERE seq > 0 ORDER BY task")
    ]


def read_gaps(connection: Connection) -> list[Gap]:
    """Answer the ranges of events that were pruned."""
    return [
        Gap(*row)
        for row in connection.execute(
            "SELECT h.task_id, g.first, g.last, g.hash FROM fc_gaps g JOIN fc_heads h ON h.task = g.task ORDER BY g.task, g.first"
        )
    ]
