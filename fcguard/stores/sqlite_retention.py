"""What may leave the SQLite ledger on request: finished calls by age, keys of pruned writes, and kept bytes by digest."""

# ruff: noqa: S608 - what is put into statements is written in this module
from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from fcguard.errors import StoreCorrupt
from fcguard.model.states import CallState
from fcguard.stores.payload import identity_in
from fcguard.stores.recoverable import Pruned, join_gaps
from fcguard.stores.tombstone import Tombstone, seal_of, tombstone_in

__all__ = [
    "erase_blob",
    "find_tombstone",
    "forget_keys",
    "prunable",
    "prune",
    "put_blob",
    "read_blob",
    "read_tombstones",
]

_AT_ONCE: Final = 500
"""Calls removed in one transaction, so that writers do not wait long."""
_ENDED: Final = "updated_at < ? AND state IN ('REJECTED', 'SUCCEEDED', 'FAILED')"
_TOMBSTONES: Final = (
    "SELECT t.idempotency_scope, t.idempotency_key, t.digest, t.request_id, h.task_id, t.tool, t.state, t.ended_at, "
    "t.pruned_at, t.seal FROM fc_tombstones t LEFT JOIN fc_heads h ON h.task = t.task"
)


def prunable(connection: sqlite3.Connection, before: float, after: str) -> list[str]:
    """Answer the ids of some calls that finished before a wall clock, in order, beyond an id."""
    statement = f"SELECT request_id FROM fc_calls WHERE request_id > ? AND {_ENDED} ORDER BY request_id LIMIT ?"
    return [request_id for (request_id,) in connection.execute(statement, (after, before, _AT_ONCE))]


def prune(connection: sqlite3.Connection, ids: Sequence[str], before: float, now: float, *, keys: bool) -> Pruned:
    """Remove those of some calls that still finished before a wall clock; inside a transaction that the caller commits."""
    rows: list[tuple[str, int, int]] = []
    removed: dict[int, list[int]] = {}
    kept = forgotten = 0
    with _deleting(connection):
        for request_id in ids:
            found = connection.execute(
                "SELECT task, last_seq, holds_key = 1 AND idempotency_key IS NOT NULL FROM fc_calls "
                f"WHERE request_id = ? AND {_ENDED}",
                (request_id, before),
            ).fetchone()
            if found is None:
                continue
            task, last, holds_key = found
            rows.append((request_id, task, last))
            removed.setdefault(task, []).extend(_numbers(connection, request_id, task, last))
            if holds_key and keys:
                forgotten += 1
            elif holds_key:
                kept += _bury(connection, request_id, now)
        for task, numbers in removed.items():
            _add_gaps(connection, task, sorted(numbers))
        connection.executemany(
            "DELETE FROM fc_events WHERE task = ? AND seq = ?",
            [(task, seq) for task, numbers in removed.items() for seq in numbers],
        )
    connection.executemany("DELETE FROM fc_calls WHERE request_id = ?", [(row[0],) for row in rows])
    return Pruned(len(rows), sum(map(len, removed.values())), kept, forgotten)


@contextmanager
def _deleting(connection: sqlite3.Connection) -> Iterator[None]:
    """Have the triggers let deletions pass; if it fails, the whole transaction is rolled back."""
    connection.execute("INSERT OR REPLACE INTO fc_meta VALUES ('pruning', 1)")
    yield
    connection.execute("DELETE FROM fc_meta WHERE key = 'pruning'")


def _numbers(connection: sqlite3.Connection, request_id: str, task: int, last: int) -> list[int]:
    """Answer the numbers of the events of a call, from its last one back.

    Raises:
        StoreCorrupt: one of them is missing.
    """
    numbers: list[int] = []
    seq: int | None = last
    while seq is not None:
        numbers.append(seq)
        found = connection.execute("SELECT back FROM fc_events WHERE task = ? AND seq = ?", (task, seq)).fetchone()
        if found is None:
            raise StoreCorrupt(f"event {seq} of {request_id!r} is missing; run `fcguard verify`")
        (seq,) = found
    return numbers


def _bury(connection: sqlite3.Connection, request_id: str, now: float) -> int:
    """Keep the key of a call that leaves; answer how many that are: none if it is kept already.

    A process of a version without tombstones does not look at them, and may have sent a pruned write again.
    """
    scope, key, task, task_id, tool, state, ended_at, first = connection.execute(
        "SELECT c.idempotency_scope, c.idempotency_key, c.task, h.task_id, c.tool, c.state, c.updated_at, e.payload "
        "FROM fc_calls c JOIN fc_heads h ON h.task = c.task JOIN fc_events e ON e.task = c.task AND e.seq = c.first_seq "
        "WHERE c.request_id = ?",
        (request_id,),
    ).fetchone()
    digest = identity_in(first).digest
    seal = seal_of(Tombstone(scope, key, digest, request_id, task_id, tool, CallState(state), ended_at, now))
    return connection.execute(
        "INSERT INTO fc_tombstones VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
        "ON CONFLICT (idempotency_scope, idempotency_key) DO NOTHING",
        (scope, key, digest, request_id, task, tool, state, ended_at, now, seal),
    ).rowcount


def _add_gaps(connection: sqlite3.Connection, task: int, numbers: list[int]) -> None:
    """Record the ranges that leave, joined with those that left before."""
    gaps = [
        (first, last, hash_)
        for first, last, hash_ in connection.execute("SELECT first, last, hash FROM fc_gaps WHERE task = ?", (task,))
    ]
    for number in numbers:
        (hash_,) = connection.execute(
            "SELECT hash FROM fc_events WHERE task = ? AND seq = ?", (task, number)
        ).fetchone()
        gaps.append((number, number, hash_))
    joined = join_gaps([(task, *gap) for gap in gaps])
    connection.execute("DELETE FROM fc_gaps WHERE task = ?", (task,))
    connection.executemany("INSERT INTO fc_gaps VALUES (?, ?, ?, ?)", joined)


def forget_keys(connection: sqlite3.Connection, before: float) -> int:
    """Remove some tombstones of calls that ended before a wall clock; none removed means none left."""
    with _deleting(connection):
        return connection.execute(
            "DELETE FROM fc_tombstones WHERE request_id IN (SELECT request_id FROM fc_tombstones WHERE ended_at < ? LIMIT ?)",
            (before, _AT_ONCE),
        ).rowcount


def find_tombstone(connection: sqlite3.Connection, where: str, parameters: Sequence[Any]) -> Tombstone | None:
    """Answer the tombstone that a condition on the table `t` names, or None."""
    found = connection.execute(f"{_TOMBSTONES} WHERE {where}", parameters).fetchone()
    return None if found is None else tombstone_in(found)[0]


def read_tombstones(connection: sqlite3.Connection, after: str, limit: int) -> list[tuple[Tombstone, bytes]]:
    """Answer some tombstones with their seals, by request id, beyond an id."""
    statement = f"{_TOMBSTONES} WHERE t.request_id > ? ORDER BY t.request_id LIMIT ?"
    return [tombstone_in(found) for found in connection.execute(statement, (after, limit))]


def put_blob(connection: sqlite3.Connection, digest: str, kind: str, body: bytes, now: float) -> None:
    """Keep bytes under their digest; the same digest again changes nothing."""
    connection.execute("INSERT OR IGNORE INTO fc_blobs VALUES (?, ?, ?, ?)", (digest, kind, body, now))


def read_blob(connection: sqlite3.Connection, digest: str) -> bytes | None:
    """Answer kept bytes, or None."""
    found = connection.execute("SELECT body FROM fc_blobs WHERE digest = ?", (digest,)).fetchone()
    return None if found is None else found[0]


def erase_blob(connection: sqlite3.Connection, digest: str) -> bool:
    """Erase kept bytes; answer whether there were any."""
    return connection.execute("DELETE FROM fc_blobs WHERE digest = ?", (digest,)).rowcount > 0
