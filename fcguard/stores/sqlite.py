"""The default ledger: one SQLite file, durable before it is answered, shared by threads and processes."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

from fcguard.errors import ConfigurationError
from fcguard.store_urls import is_url
from fcguard.stores.patience import Patience
from fcguard.stores.spool import Spool
from fcguard.stores.sql_store import SqlStore
from fcguard.stores.sqlite_schema import Connector
from fcguard.stores.sqlite_session import Options, SQLiteSession, Synchronous

__all__ = ["SQLiteStore"]


class SQLiteStore(SqlStore):
    """Keep the ledger in a SQLite file.

    Constructing touches nothing; the file and its directory are made at first use. An answer means that the record is on
    the disk (WAL, `synchronous=FULL`). One daemon thread per process writes; whatever waits for it shares one commit.
    Several processes may use one file on a local file system; a network file system is not supported. After a fork the
    child opens the file again by itself.

    Args:
        path: the ledger's file; no URL.
        synchronous: `FULL`; `EXTRA`; or `NORMAL`, which may lose the last answered records at a power cut (not at a crash
            of the process).
        busy_timeout: seconds to wait for another process that writes, for all that one write has to wait for. After a wait in
            vain, for as long again, the next ones are a twentieth of it: a call that makes several writes is held up once.
        create: whether to make the file if it is missing; else that is `StoreUnavailable`.
        lease: seconds for which a call belongs to the process that moved it; renewed at a third of it while the call is open.
        spool: directory for outcomes that could not be written; default: the path with `-spool` appended.
        max_queued: how many commands that nobody waits for (`Enter(wait=False)`) may queue before `submit` blocks.
        clock: wall clock in seconds, for leases.
        connector: opens a connection like `sqlite3.connect`, for another build of SQLite (`pysqlite3.connect`).

    Raises:
        ConfigurationError: an option has no meaning.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        synchronous: Synchronous = "FULL",
        busy_timeout: float = 30.0,
        create: bool = True,
        lease: float = 60.0,
        spool: str | os.PathLike[str] | None = None,
        max_queued: int = 10_000,
        clock: Callable[[], float] = time.time,
        connector: Connector = sqlite3.connect,
    ) -> None:
        name = os.fspath(path)
        if synchronous not in {"FULL", "EXTRA", "NORMAL"}:
            raise ConfigurationError(f"synchronous={synchronous!r}: use 'FULL', 'EXTRA' or 'NORMAL'")
        if not name or name.startswith(":memory:"):
            raise ConfigurationError(f"SQLiteStore({name!r}) keeps nothing; give a path, or use MemoryStore()")
        if is_url(name):
            raise ConfigurationError(
                "SQLiteStore takes the path of a file, and this one is a URL; write "
                "SQLiteStore('path'), Guard(store='sqlite:///path') or PostgresStore('postgresql://user@host/db')"
            )
        if lease <= 0 or busy_timeout < 0:
            raise ConfigurationError(
                f"lease={lease!r}, busy_timeout={busy_timeout!r}: both are seconds, the lease above zero"
            )
        self.path = str(Path(name).absolute())
        super().__init__(
            self.path, spool=Spool(f"{self.path}-spool" if spool is None else spool), max_queued=max_queued
        )
        self._options = Options(
            path=self.path,
            synchronous=synchronous,
            patience=Patience(busy_timeout),
            create=create,
            lease=lease,
            clock=clock,
            connector=connector,
        )

    def _new_session(self) -> SQLiteSession:
        return SQLiteSession(self._options, self._spool)
