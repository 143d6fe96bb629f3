"""Owners and leases in the PostgreSQL ledger; all times are the server's."""

# ruff: noqa: S608 - what is put into statements is written in this module
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import psycopg

from fcguard.stores.batch import Batch
from fcguard.stores.owner import REMEMBERED, Liveness, Owner, liveness_of
from fcguard.stores.postgres_rows import PostgresView, read_one
from fcguard.stores.recoverable import Claim

__all__ = ["claim", "read_clock", "read_owners", "register", "renew", "retire"]

Connection: TypeAlias = psycopg.Connection[Any]

_OF_OPEN_CALLS: Final = "SELECT owner FROM fc_calls WHERE is_open AND owner IS NOT NULL"


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
