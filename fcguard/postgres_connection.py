"""Connections to PostgreSQL on which every wait ends, also if the server, or what lies between, has stopped answering."""

from __future__ import annotations

import re
from collections.abc import Generator
from time import monotonic
from typing import Any, Final

from fcguard.errors import MissingExtraError

try:
    import psycopg
    from psycopg.conninfo import conninfo_to_dict
except ImportError as error:  # pragma: no cover - the tests install it
    raise MissingExtraError("psycopg", "postgres") from error

__all__ = ["SERVER_URL", "BoundedConnection", "advice_for", "connect", "is_server_url", "one_line"]

SERVER_URL: Final = "postgresql://user@host/database (in a password, write / ? # @ as %2F %3F %23 %40)"
"""What messages tell to write; never what was written, which may hold a password."""

_GRACE_SECONDS: Final = 1.0
"""How much longer than a statement may take its answer is waited for, so that a server that can say so ends it itself."""

_ADVICE: Final[tuple[tuple[type[Exception], str], ...]] = (
    (psycopg.errors.InvalidPassword, "the password is wrong; check the URL"),
    (psycopg.errors.InvalidCatalogName, "the database does not exist; create it or check the URL"),
    (psycopg.errors.DiskFull, "the server's disk is full; free space and call again"),
    (
        psycopg.errors.InsufficientPrivilege,
        "the role lacks rights; let the owner run fcguard.stores.postgres.grant for it",
    ),
    (psycopg.errors.ReadOnlySqlTransaction, "the server is read-only; connect to the primary"),
    (psycopg.errors.UndefinedTable, "its tables are missing; connect once with a role that may create them"),
    (psycopg.errors.QueryCanceled, "the server took too long; look for a stuck transaction"),
    (psycopg.errors.LockNotAvailable, "another transaction holds it; look for a stuck one"),
    (psycopg.OperationalError, "the server cannot be reached or went away; check that it runs, then call again"),
)

_REFUSED: Final[tuple[tuple[str, str], ...]] = (
    (r'role ".*" does not exist', "there is no such role on the server; create it or check the URL"),
    (r'database ".*" does not exist', "there is no such database on the server; create it or check the URL"),
    ("authentication failed", "the server does not accept the role's password; check the URL"),
    ("no password supplied", "the server asks for a password; put it into the URL, or into a password file"),
    ("is not permitted to log in", "the role may not log in; check the URL, or ALTER ROLE ... LOGIN"),
    ("no pg_hba.conf entry", "the server lets nobody in from here as this role; check the URL, or its pg_hba.conf"),
    ("permission denied for database", "the role may not connect to the database; GRANT CONNECT to it"),
    (
        "too many (clients|connections)|connection slots",
        "the server has no connection left; close some or raise max_connections",
    ),
    ("starting up|shutting down|in recovery mode", "the server is not ready; call again in a moment"),
    ("could not translate host name|resolve host|Name or service not known", "the host is not known; check the URL"),
    ("(?s)connection failed.*FATAL:", "the server refused the connection"),
)
"""What a server, or the way to it, says of a connection that it does not open: libpq passes on its words, and no code."""


class BoundedConnection(psycopg.Connection[Any]):
    """A connection that gives itself up when an answer does not come.

    `statement_timeout` is kept by the server, and `tcp_user_timeout` by what acknowledges its packets: neither ends the wait for a
    server that is stopped, or for a proxy that holds the line and says nothing.

    Attributes:
        answer_seconds: longest wait for the answer to a statement; a connection that waited in vain is closed.
    """

    answer_seconds: float = float("inf")

    def wait(self, gen: Generator[Any, Any, Any], *args: Any, **options: Any) -> Any:
        """Wait for what psycopg does on the connection.

        Raises:
            psycopg.OperationalError: the answer did not come in time.
        """
        return super().wait(self._bounded(gen), *args, **options)

    def _bounded(self, gen: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        until = monotonic() + self.answer_seconds
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if not ready and monotonic() >= until:  # psycopg looks up ten times a second though nothing has come
                    self.pgconn.finish()
                    raise psycopg.OperationalError(f"no answer from the server within {self.answer_seconds:g} s")
                wanted = gen.send(ready)
        except StopIteration as stop:
            return stop.value


def connect(url: str, timeout: float) -> BoundedConnection:
    """Open a connection that commits each statement by itself.

    Args:
        url: `postgresql://user@host/database`.
        timeout: seconds for connecting (two at least), and for a statement; the caller tells the server the latter.

    Raises:
        psycopg.Error: the server cannot be reached, or refuses.
    """
    connection = BoundedConnection.connect(
        url,
        autocommit=True,
        application_name="fcguard",
        connect_timeout=max(2, int(timeout)),
        tcp_user_timeout=max(1, int(timeout * 1000)),
        keepalives_idle=10,
    )
    connection.answer_seconds = timeout + _GRACE_SECONDS
    return connection


def is_server_url(url: str) -> bool:
    """Answer whether a text is the URL of a PostgreSQL server that can be read.

    One whose password was not encoded is none: libpq would take a piece of it for a host or a port, and name that in its errors.
    """
    if not url.startswith(("postgresql://", "postgres://")):
        return False
    try:
        read = conninfo_to_dict(url)
    except (psycopg.Error, ValueError):
        return False
    hosts, ports = (str(read.get(key) or "").split(",") for key in ("host", "port"))
    return not any("@" in host[1:] for host in hosts) and all(not port or port.isdecimal() for port in ports)


def advice_for(error: psycopg.Error) -> str | None:
    """Answer what somebody can do about an error of the server or of the way to it; None: it is none of those known here."""
    if isinstance(error, psycopg.OperationalError) and error.sqlstate is None:
        for words, advice in _REFUSED:
            if re.search(words, str(error)):
                return advice
    return next((advice for kind, advice in _ADVICE if isinstance(error, kind)), None)


def one_line(error: BaseException) -> str:
    """Answer the words of an error, which libpq and the server spread over lines with tabs, in one line."""
    return " ".join(str(error).split())
