"""Look whether a SQLite ledger is whole before anything is done on the strength of it.

SQLite notices damage only where it reads a structure that cannot be, and takes a log with a bad frame for one that ends there. So
records that were acknowledged can be missing without an error. What is looked at here: how far the writers know to have come,
whether every way to the open calls finds the same ones, the bytes of these, the ends of the chains, and the structure of the file.
"""

from __future__ import annotations

import sqlite3
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final, NamedTuple

from fcguard.errors import StoreCorrupt
from fcguard.model.states import OPEN_STATES
from fcguard.stores.base import StoredEvent
from fcguard.stores.chain import GENESIS, link
from fcguard.stores.sqlite_rows import read_call_events, read_open

__all__ = ["Reached", "decode_reached", "encode_reached", "examine"]

_OPEN: Final = ", ".join(f"'{state}'" for state in sorted(OPEN_STATES))
_BY_INDEX: Final = "SELECT request_id FROM fc_calls INDEXED BY fc_calls_open WHERE is_open = 1"
_BY_TABLE: Final = f"SELECT request_id, is_open IS (state IN ({_OPEN})) FROM fc_calls NOT INDEXED WHERE is_open IS NOT 0 OR state IN ({_OPEN})"  # noqa: S608
_BAD_END: Final = (
    "SELECT h.task_id, h.seq FROM fc_heads h LEFT JOIN fc_events e ON e.task = h.task AND e.seq = h.seq "
    "WHERE h.seq > 0 AND e.hash IS NOT h.hash AND NOT EXISTS "
    "(SELECT 1 FROM fc_gaps g WHERE g.task = h.task AND g.last = h.seq AND g.hash = h.hash) LIMIT 1"
)


class Reached(NamedTuple):
    """The end of a chain as the last writer left it.

    Attributes:
        task: number of the task.
        seq: of its last event.
        hash: of that event.
    """

    task: int
    seq: int
    hash: bytes


_REACHED: Final = struct.Struct(">QQ32s")


def encode_reached(reached: Reached) -> bytes:
    """Answer the bytes that stand for it."""
    return _REACHED.pack(*reached)


def decode_reached(data: bytes) -> Reached | None:
    """Answer what bytes stand for; None if they are of another length."""
    return Reached(*_REACHED.unpack(data)) if len(data) == _REACHED.size else None


def examine(connection: sqlite3.Connection, path: str, reached: Reached | None, seconds: float | None) -> bool:
    """Look whether a ledger is whole. What the writers reached, and the open calls, are looked at in any case.

    Args:
        connection: a reader's; nobody else uses it meanwhile.
        path: the file, for messages.
        reached: what the last writer noted; None: nothing was noted.
        seconds: most time for what grows with the whole ledger; None: as long as it takes.

    Returns:
        Whether everything was looked at; False if the time was over before.

    Raises:
        StoreCorrupt: it is not whole.
        sqlite3.Error: it cannot be read.
    """
    connection.execute("BEGIN")  # one view of it, whatever others write meanwhile
    try:
        if reached is not None:
            _check_reached(connection, path, reached)
        open_calls = _check_open(connection, path)
        with _at_most(connection, seconds) as has_time:
            return has_time and _check_all(connection, path, open_calls)
    finally:
        with suppress(sqlite3.Error):
            connection.execute("ROLLBACK")


@contextmanager
def _at_most(connection: sqlite3.Connection, seconds: float | None) -> Iterator[bool]:
    """Have SQLite interrupt what it does within the block when the time is over."""
    if seconds is None or seconds <= 0:
        yield seconds is None
        return
    timer = threading.Timer(seconds, connection.interrupt)
    timer.daemon = True
    timer.start()
    try:
        yield True
    finally:
        timer.cancel()
        timer.join()  # it must not interrupt what comes after


def _check_all(connection: sqlite3.Connection, path: str, open_calls: set[str]) -> bool:
    try:
        _check_listing(connection, path, open_calls)
        bad = connection.execute(_BAD_END).fetchone()
        if bad is not None:
            raise _broken(path, f"the end of task {bad[0]!r}, event {bad[1]}, is missing or is another one")
        (found,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        if found != "ok":
            raise _broken(path, str(found))
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_INTERRUPT:
            return False
        raise
    return True


def _check_reached(connection: sqlite3.Connection, path: str, reached: Reached) -> None:
    found = connection.execute("SELECT task_id, seq FROM fc_heads WHERE task = ?", (reached.task,)).fetchone()
    task_id, seq = found if found is not None else (f"number {reached.task}", 0)
    if seq < reached.seq:
        raise StoreCorrupt(
            f"the ledger {path!r} lacks records that were acknowledged: task {task_id!r} had reached event {reached.seq}, and now "
            f"ends at {seq}. Its log (-wal) was damaged, cut off or left behind, or an older copy was put in its place. Keep the "
            f"files and restore what is missing; to go on with this one all the same, remove {f'{path}-lock'!r}"
        )
    known = connection.execute(
        "SELECT hash FROM fc_events WHERE task = ? AND seq = ?", (reached.task, reached.seq)
    ).fetchone()
    pruned = "SELECT 1 FROM fc_gaps WHERE task = ? AND first <= ? AND last >= ?"
    if known is None and connection.execute(pruned, (reached.task, reached.seq, reached.seq)).fetchone() is not None:
        return
    if known is None or known[0] != reached.hash:
        raise _broken(path, f"event {reached.seq} of task {task_id!r} is not the one that was acknowledged")


def _check_open(connection: sqlite3.Connection, path: str) -> set[str]:
    """Check that the open calls that are listed can be read, with the bytes that were hashed; answer their ids."""
    read = {call.identity.request_id for call in read_open(connection)}
    listed = {request_id for (request_id,) in connection.execute(_BY_INDEX)}
    if read != listed:
        raise _broken(path, f"the open call {min(map(str, read ^ listed))!r} is listed, but cannot be read")
    for request_id in sorted(read):
        _check_story(connection, path, request_id)
    return read


def _check_listing(connection: sqlite3.Connection, path: str, listed: set[str]) -> None:
    """Check that the list of open calls holds those that are open by their rows, and no others."""
    by_table = dict(connection.execute(_BY_TABLE).fetchall())
    differing = by_table.keys() ^ listed or {request_id for request_id, holds in by_table.items() if not holds}
    if differing:
        raise _broken(path, f"whether the call {min(map(str, differing))!r} is open depends on where one looks")


def _check_story(connection: sqlite3.Connection, path: str, request_id: str) -> None:
    (task,) = connection.execute("SELECT task FROM fc_calls WHERE request_id = ?", (request_id,)).fetchone()
    events = read_call_events(connection, request_id)
    if not events:
        raise _broken(path, f"the call {request_id!r} has no events")
    for event in events:
        before = _hash_before(connection, task, event)
        if (
            before is None
            or not isinstance(event.payload, bytes)
            or link(before, event.seq, event.payload) != event.hash
        ):
            raise _broken(path, f"event {event.seq} of the call {request_id!r} was changed, or the one before it")


def _hash_before(connection: sqlite3.Connection, task: int, event: StoredEvent) -> bytes | None:
    if event.seq == 1:
        return GENESIS
    for statement in (
        "SELECT hash FROM fc_events WHERE task = ? AND seq = ?",
        "SELECT hash FROM fc_gaps WHERE task = ? AND last = ?",
    ):
        found = connection.execute(statement, (task, event.seq - 1)).fetchone()
        if found is not None:
            return found[0] if isinstance(found[0], bytes) else None
    return None


def _broken(path: str, reason: str) -> StoreCorrupt:
    return StoreCorrupt(
        f"the ledger {path!r} is damaged: {reason}. Keep the files, run `fcguard verify`, and restore a copy; nothing was done"
    )
