"""Proof by path: an exception that passed a function which only makes connections happened before anything was sent."""

from __future__ import annotations

from typing import Final

from fcguard.recovery.chain import frames_of

__all__ = ["CONNECTING", "passed_connect", "passed_exec"]

CONNECTING: Final[frozenset[tuple[str, str]]] = frozenset(
    {
        ("socket", "create_connection"),
        ("ssl", "do_handshake"),
        ("http.client", "connect"),
        ("http.client", "_tunnel"),
        ("urllib3.util.connection", "create_connection"),
        ("urllib3.connection", "connect"),
        ("urllib3.connection", "_tunnel"),
        ("urllib3.connection", "_new_conn"),
        ("asyncio.base_events", "create_connection"),
        ("asyncio.unix_events", "create_unix_connection"),
        ("smtplib", "connect"),
        ("ftplib", "connect"),
        ("psycopg.connection", "connect"),
        ("psycopg.connection_async", "connect"),
        ("psycopg2", "connect"),
        ("asyncpg.connect_utils", "_connect"),
        ("pymysql.connections", "connect"),
        ("sqlalchemy.engine.default", "connect"),
        ("redis.connection", "connect_check_health"),
        ("redis.asyncio.connection", "connect_check_health"),
    }
)
"""(module, function): nothing but making a connection, the handshake included, happens inside."""


def passed_connect(error: BaseException) -> bool:
    """Answer whether an exception was raised while a connection was being made."""
    return any((frame.f_globals.get("__name__"), frame.f_code.co_name) in CONNECTING for frame in frames_of(error))


def passed_exec(error: BaseException) -> bool:
    """Answer whether an exception says that a program could not be started at all."""
    functions = [(frame.f_globals.get("__name__"), frame.f_code.co_name) for frame in frames_of(error)]
    return functions[-1:] == [("subprocess", "_execute_child")]
