"""A ledger in PostgreSQL, for many workers on many hosts."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from fcguard.errors import ConfigurationError
from fcguard.postgres_connection import SERVER_URL, is_server_url
from fcguard.store_urls import without_password
from fcguard.stores.postgres_schema import grant
from fcguard.stores.postgres_session import Options, PostgresSession
from fcguard.stores.spool import Spool
from fcguard.stores.sql_store import SqlStore

__all__ = ["PostgresStore", "grant"]


class PostgresStore(SqlStore):
    """Keep the ledger in a PostgreSQL database (version 13 or newer). Needs the extra `postgres`.

    Constructing touches nothing; the tables are made at first use by a role that may make them. An answer means that the
    server has committed. One daemon thread per process writes; whatever waits for it shares one commit. Leases use the
    server's clock. If the connection breaks while a commit is on its way, the server is asked what became of it.

    Args:
        url: `postgresql://user@host/database`.
        schema: schema of the tables.
        pool_size: most connections for reading; writing has one more.
        timeout: seconds for connecting (two at least), for a statement, and for finding out what became of a broken commit. A
            connection on which no answer comes is given up a second after it.
        lease: seconds for which a call belongs to the process that moved it; renewed at a third of it while the call is open.
        spool: directory on this machine for outcomes that could not be written; default: `.fcguard/spool-` and a digest of
            the URL, in the current directory.
        max_queued: how many commands that nobody waits for (`Enter(wait=False)`) may queue before `submit` blocks.
        allow_lost_commits: accept a server with `synchronous_commit` or `fsync` off, which may lose answered records.
        create: whether missing tables are made, and those of an older fcguard brought up to date, if the role may; else that is
            `StoreUnavailable`.

    Raises:
        ConfigurationError: an option has no meaning.
    """

    def __init__(
        self,
        url: str,
        *,
        schema: str = "fcguard",
        pool_size: int = 4,
        timeout: float = 30.0,
        lease: float = 60.0,
        spool: str | os.PathLike[str] | None = None,
        max_queued: int = 10_000,
        allow_lost_commits: bool = False,
        create: bool = True,
    ) -> None:
        if not is_server_url(url):
            raise ConfigurationError(f"PostgresStore: give {SERVER_URL}")
        if lease <= 0 or timeout <= 0 or pool_size < 1 or not schema:
            raise ConfigurationError(
                f"lease={lease!r}, timeout={timeout!r}, pool_size={pool_size!r}, schema={schema!r}: the first two are seconds "
                "above zero, the pool holds at least one connection, the schema has a name"
            )
        self.name = without_password(url)
        directory = Path(".fcguard", f"spool-{hashlib.sha256(url.encode()).hexdigest()[:12]}").absolute()
        super().__init__(self.name, spool=Spool(directory if spool is None else spool), max_queued=max_queued)
        self._options = Options(
            url=url,
            name=self.name,
            schema=schema,
            pool_size=pool_size,
            timeout=timeout,
            lease=lease,
            allow_lost_commits=allow_lost_commits,
            create=create,
        )

    def _new_session(self) -> PostgresSession:
        return PostgresSession(self._options, self._spool)
