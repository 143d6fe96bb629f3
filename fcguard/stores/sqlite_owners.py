"""Owners and leases in the SQLite ledger: who writes, who lives, and whose calls may be taken over."""

# ruff: noqa: S608 - what is put into statements are the names of columns, written in this package
from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any, Final

from fcguard.stores.batch import Batch
from fcguard.stores.judge import is_claimable
from fcguard.stores.owner import REMEMBERED, Liveness, Owner, liveness_of
from fcguard.stores.recoverable import Claim
from fcguard.stores.sqlite_rows import flush, read_open

__all__ = ["claim", "read_owners", "register", "renew", "retire"]

_OF_OPEN_CALLS: Final = "SELECT owner FROM fc_calls WHERE is_open = 1 AND owner IS NOT NULL"


def register(connection: sqlite3.Connection, owner: Owner, now: float) -> None:
    """Make a process known, and forget those that ended long ago and own nothing open."""
    connection.execute(
        "INSERT OR IGNORE INTO fc_owners (id, host, boot, pid, started, seen_at) VALUES (?, ?, ?, ?, ?, ?)",
        (owner.id, owner.host, owner.boot, owner.pid, owner.started, now),
    )
    old = read_owners(connection, f"WHERE seen_at < ? AND id NOT IN ({_OF_OPEN_CALLS})", (now - REMEMBERED,))
    dead = [(other.id,) for other in old if liveness_of(other, owner) is Liveness.DEAD]
    connection.executemany("DELETE FROM fc_owners WHERE id = ?", dead)


def retire(connection: sqlite3.Connection, owner_id: str, now: float) -> None:
    """Note that a process closed the ledger; whether it still runs is another question."""
    connection.execute("UPDATE fc_owners SET seen_at = ?, ended_at = ? WHERE id = ?", (now, now, owner_id))


def renew(connection: sqlite3.Connection, owner_id: str, now: float, lease: float) -> None:
    """Renew the leases of the calls that a process works on."""
    connection.execute("UPDATE fc_owners SET seen_at = ? WHERE id = ?", (now, owner_id))
    connection.execute(
        "UPDATE fc_calls SET lease_until = max(lease_until, ?) WHERE is_open = 1 "
        "AND owner = ? AND next_at IS NULL AND lease_until IS NOT NULL",
        (now + lease, owner_id),
    )


def read_owners(connection: sqlite3.Connection, where: str = "", parameters: Sequence[Any] = ()) -> list[Owner]:
    """Answer the known processes."""
    rows = connection.execute(f"SELECT id, host, boot, pid, started, seen_at FROM fc_owners {where}", parameters)
    return [Owner(*row) for row in rows]


def claim(
    connection: sqlite3.Connection,
    batch: Batch,
    here: Owner,
    now: float,
    *,
    limit: int,
    lease: float,
    tools: frozenset[str] | None,
) -> list[Claim]:
    """Take over calls that nobody works on, of some tools or of all; inside a transaction that the caller commits."""
    owners = {owner.id: owner for owner in read_owners(connection, f"WHERE id IN ({_OF_OPEN_CALLS})")}
    liveness = {id_: liveness_of(owner, here) for id_, owner in owners.items()}
    claims: list[Claim] = []
    for call in read_open(connection):
        if len(claims) >= limit:
            break
        known = liveness.get(call.owner or "", Liveness.UNKNOWN)
        if (tools is not None and call.identity.tool not in tools) or not is_claimable(call, known, now):
            continue
        claims.append(batch.claim(call, known, owners.get(call.owner or ""), lease))
    flush(connection, batch)
    return claims
