"""What may leave the SQLite ledger on request: finished calls by age, and kept bytes by digest."""

from __future__ import annotations

import sqlite3
from typing import Final

from fcguard.stores.recoverable import Pruned, join_gaps

__all__ = ["erase_blob", "prune", "put_blob", "read_blob"]

_AT_ONCE: Final = 500
"""Calls removed in one transaction, so that writers do not wait long."""


def prune(connection: sqlite3.Connection, before: float) -> Pruned:
    """Remove some calls that finished before a wall clock; inside a transaction that the caller commits.

    Answers how many; zero calls means that none is left.
    """
    rows = connection.execute(
        "SELECT request_id, task, last_seq FROM fc_calls WHERE updated_at < ? AND state IN ('REJECTED','SUCCEEDED','FAILED') "
        "LIMIT ?",
        (before, _AT_ONCE),
    ).fetchall()
    removed: dict[int, list[int]] = {}
    for _, task, last in rows:
        seq = last
        while seq is not None:
            removed.setdefault(task, []).append(seq)
            (seq,) = connection.execute("SELECT back FROM fc_events WHERE task = ? AND seq = ?", (task, seq)).fetchone()
    if not rows:
        return Pruned(0, 0)
    for task, numbers in removed.items():
        _add_gaps(connection, task, sorted(numbers))
    connection.execute("INSERT OR REPLACE INTO fc_meta VALUES ('pruning', 1)")  # the trigger lets deletions pass
    connection.executemany(
        "DELETE FROM fc_events WHERE task = ? AND seq = ?",
        [(task, seq) for task, numbers in removed.items() for seq in numbers],
    )
    connection.execute("DELETE FROM fc_meta WHERE key = 'pruning'")
    connection.executemany("DELETE FROM fc_calls WHERE request_id = ?", [(row[0],) for row in rows])
    return Pruned(len(rows), sum(map(len, removed.values())))


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
