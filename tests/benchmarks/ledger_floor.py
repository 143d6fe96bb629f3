"""What the ledger is timed beside: plain inserts, a bare group commit, and the ledger's own rows without the ledger."""

from __future__ import annotations

import queue
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from fcguard.stores.base import Enter
from fcguard.stores.batch import Batch
from fcguard.stores.sqlite import SQLiteStore
from fcguard.stores.sqlite_rows import SQLiteView, flush

__all__ = ["BareGroupCommit", "SameRows", "insert_plain", "open_plain"]


def open_plain(path: Path) -> sqlite3.Connection:
    """Open a database of one plain table, as durable as the ledger."""
    connection = _connect(path)
    connection.execute("CREATE TABLE plain (id INTEGER PRIMARY KEY, request_id, kind, hash, payload)")
    return connection


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    return connection


def insert_plain(connection: sqlite3.Connection, size: int, width: int, total: int) -> float:
    """Insert rows of `size` bytes in transactions of `width`; answer seconds a row."""
    rows = [("fc-20260130-000000000001", "call", b"h" * 32, b"p" * size)] * width
    started = time.perf_counter()
    for _ in range(total // width):
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany("INSERT INTO plain (request_id, kind, hash, payload) VALUES (?, ?, ?, ?)", rows)
        connection.execute("COMMIT")
    return (time.perf_counter() - started) / (total // width * width)


class BareGroupCommit:
    """The least that waiting callers can cost: a thread that inserts one row made before for each.

    It has `submit` as a ledger has, but encodes, hashes, checks and remembers nothing; one row a call, in one table.
    """

    def __init__(self, path: Path, size: int) -> None:
        self._path, self._row = path, ("fc-20260130-000000000001", "call", b"h" * 32, b"p" * size)
        self._queue: queue.SimpleQueue[Callable[[Any], None] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def submit(self, command: Any, done: Callable[[Any], None]) -> None:
        """Queue a row."""
        self._queue.put(done)

    def close(self) -> None:
        """End the thread."""
        self._queue.put(None)
        self._thread.join()

    def _run(self) -> None:
        connection = open_plain(self._path)
        while (first := self._queue.get()) is not None:
            waiting = [first]
            with suppress(queue.Empty):
                while (more := self._queue.get_nowait()) is not None:
                    waiting.append(more)
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(
                "INSERT INTO plain (request_id, kind, hash, payload) VALUES (?, ?, ?, ?)", [self._row] * len(waiting)
            )
            connection.execute("COMMIT")
            for done in waiting:
                done(True)
        connection.close()


class SameRows:
    """Writes the ledger's own rows, made before, with the ledger's own statements: what its tables cost by themselves."""

    def __init__(self, path: Path, make: Callable[[], Enter]) -> None:
        store = SQLiteStore(path)
        list(store.heads())  # makes the tables
        store.close()
        self._connection, self._make = _connect(path), make

    def run(self, width: int, total: int) -> float:
        """Answer seconds a call."""
        spent = 0.0
        for _ in range(total // width):
            self._connection.execute("BEGIN IMMEDIATE")
            batch = Batch(SQLiteView(self._connection), "bench", 0.0, lease=60.0, careful=False)
            for _ in range(width):
                batch.apply(self._make())
            started = time.perf_counter()
            flush(self._connection, batch)
            self._connection.execute("COMMIT")
            spent += time.perf_counter() - started
        return spent / (total // width * width)
