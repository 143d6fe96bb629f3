"""What may leave the PostgreSQL ledger on request: finished calls by age, and keys of pruned writes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import psycopg

from fcguard.errors import StoreCorrupt
from fcguard.model.states import CallState
from fcguard.stores.payload import identity_in
from fcguard.stores.recoverable import Pruned, join_gaps
from fcguard.stores.tombstone import Tombstone, seal_of, tombstone_in

__all__ = ["forget_keys", "prunable", "prune", "read_tombstone", "read_tombstones", "tombstones_of_keys"]

Connection: TypeAlias = psycopg.Connection[Any]

_AT_ONCE: Final = 500
"""Calls removed in one transaction, so that writers do not wait long."""
_TOMBSTONES: Final = (
    "SELECT t.idempotency_scope, t.idempotency_key, t.digest, t.request_id, h.task_id, t.tool, t.state, t.ended_at, "
    "t.pruned_at, t.seal FROM fc_tombstones t LEFT JOIN fc_heads h ON h.task = t.task"
)


def prunable(connection: Connection, before: float, after: str) -> list[str]:
    """Answer the ids of some calls that finished before a wall clock, in order, beyond an id."""
    statement = "SELECT request_id FROM fc_calls WHERE request_id > %s AND updated_at < %s AND NOT is_open ORDER BY request_id LIMIT %s"
    return [request_id for (request_id,) in connection.execute(statement, (after, before, _AT_ONCE))]


def prune(connection: Connection, ids: Sequence[str], before: float, now: float, *, keys: bool) -> Pruned:
    """Remove those of some calls that still finished before a wall clock.

    A call that another transaction writes now (a note) is waited for, in the order in which everybody locks.
    """
    rows = connection.execute(
        "SELECT request_id, task, last_seq, holds_key AND idempotency_key IS NOT NULL FROM fc_calls "
        "WHERE request_id = ANY(%s) AND updated_at < %s AND NOT is_open ORDER BY request_id FOR UPDATE",
        (list(ids), before),
    ).fetchall()
    if not rows:
        return Pruned(0, 0)
    leaving, tasks = [row[0] for row in rows], sorted({row[1] for row in rows})
    holders = [request_id for request_id, _, _, holds_key in rows if holds_key]
    connection.execute("SELECT 1 FROM fc_heads WHERE task = ANY(%s) ORDER BY task_id FOR UPDATE", (tasks,))
    kept = _bury(connection, holders, now) if holders and not keys else 0
    connection.execute("SET LOCAL fcguard.pruning = 'on'")  # the trigger lets deletions pass
    events = _remove_events(connection, {row[:3] for row in rows}, tasks)
    connection.execute("DELETE FROM fc_calls WHERE request_id = ANY(%s)", (leaving,))
    return Pruned(len(leaving), events, kept, len(holders) if keys else 0)


def _bury(connection: Connection, holders: Sequence[str], now: float) -> int:
    """Keep the keys of calls that leave; answer how many, without those that are kept already.

    A process of a version without tombstones does not look at them, and may have sent a pruned write again.
    """
    found = connection.execute(
        "SELECT c.idempotency_scope, c.idempotency_key, c.request_id, c.task, h.task_id, c.tool, c.state, c.updated_at, e.payload "
        "FROM fc_calls c JOIN fc_heads h ON h.task = c.task JOIN fc_events e ON e.task = c.task AND e.seq = c.first_seq "
        "WHERE c.request_id = ANY(%s)",
        (list(holders),),
    ).fetchall()
    if len(found) < len(holders):
        lost = min({*holders} - {row[2] for row in found})
        raise StoreCorrupt(f"the first event of {lost!r} is missing; run `fcguard verify`")
    buried: list[tuple[Any, ...]] = []
    for scope, key, request_id, task, task_id, tool, state, ended_at, first in found:
        digest = identity_in(first).digest
        seal = seal_of(Tombstone(scope, key, digest, request_id, task_id, tool, CallState(state), ended_at, now))
        buried.append((scope, key, digest, request_id, task, tool, state, ended_at, now, seal))
    with connection.cursor() as cursor:
        # Asked first: refused in the pipeline of `executemany`, psycopg would log a warning of its own beside the error.
        cursor.execute("INSERT INTO fc_tombstones SELECT * FROM fc_tombstones WHERE false")
        cursor.executemany(
            "INSERT INTO fc_tombstones VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s) "
            "ON CONFLICT (idempotency_scope, idempotency_key) DO NOTHING",
            buried,
        )
        return cursor.rowcount


def _remove_events(connection: Connection, ends: set[tuple[str, int, int]], tasks: Sequence[int]) -> int:
    """Remove the events of calls, and record the ranges that leave, joined with those that left before; answer how many.

    Args:
        connection: in a transaction.
        ends: id, number of the task and number of the last event of each call.
        tasks: numbers of their tasks.

    Raises:
        StoreCorrupt: an event of theirs is missing.
    """
    removed = connection.execute(
        """
        WITH RECURSIVE story AS (
          SELECT e.task, e.seq, e.back FROM fc_calls c JOIN fc_events e ON e.task = c.task AND e.seq = c.last_seq
          WHERE c.request_id = ANY(%s)
          UNION ALL
          SELECT e.task, e.seq, e.back FROM story s JOIN fc_events e ON e.task = s.task AND e.seq = s.back AND s.back < s.seq
        ) DELETE FROM fc_events e USING story s WHERE e.task = s.task AND e.seq = s.seq
        RETURNING e.request_id, e.task, e.back, e.seq, e.hash
        """,
        ([request_id for request_id, _, _ in ends],),
    ).fetchall()
    wanted = ends | {(request_id, task, back) for request_id, task, back, _, _ in removed if back is not None}
    missing = wanted - {(request_id, task, seq) for request_id, task, _, seq, _ in removed}
    if missing:
        request_id, _, seq = min(missing)
        raise StoreCorrupt(f"event {seq} of {request_id!r} is missing; run `fcguard verify`")
    gaps = connection.execute(
        "DELETE FROM fc_gaps WHERE task = ANY(%s) RETURNING task, first, last, hash", (list(tasks),)
    ).fetchall()
    gaps += [(task, seq, seq, hash_) for _, task, _, seq, hash_ in removed]
    with connection.cursor() as cursor:
        cursor.executemany("INSERT INTO fc_gaps (task, first, last, hash) VALUES (%s, %s, %s, %s)", join_gaps(gaps))
    return len(removed)


def forget_keys(connection: Connection, before: float) -> int:
    """Remove some tombstones of calls that ended before a wall clock; none removed means none left."""
    connection.execute("SET LOCAL fcguard.pruning = 'on'")
    return connection.execute(
        "DELETE FROM fc_tombstones WHERE request_id IN "
        "(SELECT request_id FROM fc_tombstones WHERE ended_at < %s ORDER BY request_id LIMIT %s)",
        (before, _AT_ONCE),
    ).rowcount


def tombstones_of_keys(connection: Connection, scopes: Sequence[str], keys: Sequence[str]) -> list[Tombstone]:
    """Answer the tombstones of some keys, each with the scope at its place."""
    where = "(t.idempotency_scope, t.idempotency_key) IN (SELECT * FROM unnest(%s::text[], %s::text[]))"
    return [tombstone for tombstone, _ in _read(connection, where, (list(scopes), list(keys)))]


def read_tombstone(connection: Connection, request_id: str) -> Tombstone | None:
    """Answer what is kept of a pruned call, or None."""
    found = _read(connection, "t.request_id = %s", (request_id,))
    return found[0][0] if found else None


def read_tombstones(connection: Connection, after: str, limit: int) -> list[tuple[Tombstone, bytes]]:
    """Answer some tombstones with their seals, by request id, beyond an id."""
    return _read(connection, "t.request_id > %s ORDER BY t.request_id LIMIT %s", (after, limit))


def _read(connection: Connection, where: str, parameters: Sequence[Any]) -> list[tuple[Tombstone, bytes]]:
    statement = f"{_TOMBSTONES} WHERE {where}"
    return [tombstone_in(found) for found in connection.execute(statement.encode(), parameters)]
