"""Owners, leases and retention in the PostgreSQL ledger; all times are the server's."""

# ruff: noqa: S608 - what is put into statements is written in this module
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import psycopg

from fcguard.stores.batch import Batch
from fcguard.stores.owner import REMEMBERED, Liveness, Owner, liveness_of
from fcguard.stores.postgres_rows import PostgresView, read_one
from fcguard.stores.recoverable import Claim, Pruned, join_gaps

__all__ = ["claim", "prune", "read_clock", "read_owners", "register", "renew", "retire"]

Connection: TypeAlias = psycopg.Connection[Any]

_OF_OPEN_CALLS: Final = "SELECT owner FROM fc_calls WHERE is_open AND owner IS NOT NULL"
_AT_ONCE: Final = 500
"""Calls removed in one transaction, so that writers do not wait long."""


def register(connection: Connection, owner: Owner, now: float) -> None:
    """Make a process known, and forget those that ended long ago and own nothing open."""
    connection.execute(
        "INSERT INTO fc_owners VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT (id) DO NOTHING",
        (owner.id, owner.host, owner.boot, owner.pid, owner.started, now),
    )
    old = _owners(connection, f"WHERE seen_at < %s AND id NOT IN ({_OF_OPEN_CALLS})", (now - REMEMBERED,))
    dead = [other.id for other in old if liveness_of(other, owner) is Liveness.DEAD]
    if dead:
        connection.execute("DELETE FROM fc_owners WHERE id = ANY(%s)", (dead,))


def retire(connection: Connection, owner_id: str, now: float) -> None:
    """Note that a process closed the ledger; whether it still runs is another question."""
    connection.execute("UPDATE fc_owners SET seen_at = %s, ended_at = %s WHERE id = %s", (now, now, owner_id))


def renew(connection: Connection, owner_id: str, now: float, lease: float) -> None:
    """Renew the leases of the calls that a process works on; one that is being written now gets a lease anyway."""
    connection.execute("UPDATE fc_owners SET seen_at = %s WHERE id = %s", (now, owner_id))
    connection.execute(
        "UPDATE fc_calls SET lease_until = greatest(lease_until, %s) WHERE request_id IN ("
        "SELECT request_id FROM fc_calls WHERE is_open AND owner = %s AND next_at IS NULL AND lease_until IS NOT NULL "
        "ORDER BY request_id FOR UPDATE SKIP LOCKED)",
        (now + lease, owner_id),
    )


def read_clock(connection: Connection) -> float:
    """Answer the server's wall clock in seconds."""
    row = connection.execute("SELECT extract(epoch FROM clock_timestamp())::float8").fetchone()
    assert row is not None
    return float(row[0])


def read_owners(connection: Connection) -> list[Owner]:
    """Answer the known processes."""
    return _owners(connection)


def _owners(connection: Connection, where: str = "", parameters: Sequence[Any] = ()) -> list[Owner]:
    statement = f"SELECT id, host, boot, pid, started, seen_at FROM fc_owners {where}"
    return [Owner(*row) for row in connection.execute(statement.encode(), parameters)]


def claim(
    connection: Connection,
    batch: Batch,
    view: PostgresView,
    here: Owner,
    now: float,
    *,
    limit: int,
    lease: float,
    tools: frozenset[str] | None,
) -> list[Claim]:
    """Take over calls that nobody works on, of some tools or of all; the caller writes the batch and commits.

    The condition is that of `judge.is_claimable`, in SQL; calls that another transaction writes now are passed over.
    """
    owners = {owner.id: owner for owner in _owners(connection, f"WHERE id IN ({_OF_OPEN_CALLS})")}
    liveness = {id_: liveness_of(owner, here) for id_, owner in owners.items()}
    dead = [id_ for id_, known in liveness.items() if known is Liveness.DEAD]
    found = connection.execute(
        "SELECT request_id FROM fc_calls WHERE is_open AND state <> 'PARKED' AND coalesce(next_at, %s) <= %s "
        "AND NOT (state = 'PREPARED' AND attempt = 0 AND next_at IS NULL) "
        "AND (lease_until IS NULL OR lease_until <= %s OR owner = ANY(%s)) AND (%s::text[] IS NULL OR tool = ANY(%s)) "
        "ORDER BY request_id LIMIT %s FOR UPDATE SKIP LOCKED",
        (now, now, now, dead, *[None if tools is None else sorted(tools)] * 2, limit),
    ).fetchall()
    view.prepare_ids([request_id for (request_id,) in found])
    claims: list[Claim] = []
    for (request_id,) in found:
        call = read_one(connection, request_id)
        assert call is not None, "its row is locked"
        known = liveness.get(call.owner or "", Liveness.UNKNOWN)
        claims.append(batch.claim(call, known, owners.get(call.owner or ""), lease))
    return claims


def prune(connection: Connection, before: float) -> Pruned:
    """Remove some calls that finished before a wall clock; zero calls means that none is left."""
    rows = connection.execute(
        "SELECT request_id, task FROM fc_calls WHERE updated_at < %s AND NOT is_open ORDER BY request_id LIMIT %s "
        "FOR UPDATE SKIP LOCKED",
        (before, _AT_ONCE),
    ).fetchall()
    if not rows:
        return Pruned(0, 0)
    ids, tasks = [row[0] for row in rows], sorted({row[1] for row in rows})
    connection.execute("SELECT 1 FROM fc_heads WHERE task = ANY(%s) ORDER BY task_id FOR UPDATE", (tasks,))
    connection.execute("SET LOCAL fcguard.pruning = 'on'")  # the trigger lets deletions pass
    removed = connection.execute(
        """
        WITH RECURSIVE story AS (
          SELECT e.task, e.seq, e.back FROM fc_calls c JOIN fc_events e ON e.task = c.task AND e.seq = c.last_seq
          WHERE c.request_id = ANY(%s)
          UNION ALL
          SELECT e.task, e.seq, e.back FROM story s JOIN fc_events e ON e.task = s.task AND e.seq = s.back AND s.back < s.seq
        ) DELETE FROM fc_events e USING story s WHERE e.task = s.task AND e.seq = s.seq RETURNING e.task, e.seq, e.hash
        """,
        (ids,),
    ).fetchall()
    connection.execute("DELETE FROM fc_calls WHERE request_id = ANY(%s)", (ids,))
    gaps = connection.execute(
        "DELETE FROM fc_gaps WHERE task = ANY(%s) RETURNING task, first, last, hash", (tasks,)
    ).fetchall()
    gaps += [(task, seq, seq, hash_) for task, seq, hash_ in removed]
    joined = join_gaps(gaps)
    with connection.cursor() as cursor:
        cursor.executemany("INSERT INTO fc_gaps (task, first, last, hash) VALUES (%s, %s, %s, %s)", joined)
    return Pruned(len(ids), len(removed))
