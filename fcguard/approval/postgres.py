"""Requests, decisions and grants in PostgreSQL, shared by the workers of many hosts (extra `postgres`)."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from typing import Final, LiteralString, TypeVar

from psycopg.errors import InsufficientPrivilege

from fcguard.approval.grants import Grant
from fcguard.approval.postgres_session import Connection, PostgresSession, clock
from fcguard.approval.request import ApprovalRequest, Decision
from fcguard.approval.store import (
    PRUNED_AT_ONCE,
    ApprovalState,
    StoredApproval,
    expired_before,
    json_text,
    standing,
    stored_of,
)
from fcguard.errors import ConfigurationError, StoreUnavailable, UsageError
from fcguard.postgres_connection import SERVER_URL, is_server_url, one_line
from fcguard.store_urls import without_password

__all__ = ["PostgresApprovals"]

T = TypeVar("T")

_SELECT: Final = "SELECT request, state, decision, decided_at FROM fc_approvals"
_NEWEST: Final = f"{_SELECT} WHERE subject = %s AND state <> 'used' AND expires_at > %s ORDER BY seq DESC"
_LONGEST_SECONDS: Final = 86_400.0


class PostgresApprovals:
    """Keeps requests and grants in tables that may lie beside those of the ledger, for every process that reaches the server.

    One connection per process, made at the first use, and so are the tables, by a role that may make them; for others see
    `fcguard.stores.postgres.grant`. Usable after a fork. Whether something has expired is decided by the server's clock; the `now`
    that the methods take does not count. If the connection breaks while a change is on its way, it may have been made: then an
    approval or a use of a grant may be spent, never given twice. Arguments that hold a secret are not written down: such a call
    can be approved and sent again, but not be rebuilt from the tables.

    Args:
        url: `postgresql://user@host/database`.
        schema: schema of the tables; the default is that of the ledger.
        timeout: longest wait in seconds for connecting (two at least), for each statement, and for other threads of this process;
            at most a day. A connection on which no answer comes is given up a second after it.
        create: whether missing tables are made; else that is `StoreUnavailable`.

    Raises:
        ConfigurationError: an option makes no sense.
    """

    def __init__(self, url: str, *, schema: str = "fcguard", timeout: float = 30.0, create: bool = True) -> None:
        if not schema or not is_server_url(url):
            raise ConfigurationError(
                f"PostgresApprovals: give {SERVER_URL} and the name of a schema; for a SQLite file there is SQLiteApprovals('path')"
            )
        if not isinstance(timeout, (int, float)) or not isfinite(timeout) or not 0 < timeout <= _LONGEST_SECONDS:
            raise ConfigurationError(f"PostgresApprovals: timeout={timeout!r}; give seconds above 0, at most a day")
        self.name = without_password(url)
        self._schema = schema
        self._session = PostgresSession(url, f"approvals in {self.name}", schema, float(timeout), create=create)

    def now(self) -> float:
        """Answer the server's wall clock in seconds, on which requests and grants expire."""
        return self._session.run(clock)

    def put(self, request: ApprovalRequest, now: float) -> StoredApproval:
        """Keep a request as pending, or answer the open one of the same subject, or the one of the same id."""

        def write(connection: Connection) -> StoredApproval:
            # Two hosts that ask the same question at once are to get one request.
            lock = f"fcguard.approval.{self._schema}.{request.subject}"
            connection.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", (lock,))
            stored = _newest(connection, request.subject)
            if stored is None:
                values = (request.request_id, request.subject, request.expires_at, json_text(request.as_json()))
                connection.execute(
                    "INSERT INTO fc_approvals (request_id, subject, expires_at, request) VALUES (%s, %s, %s, %s) "
                    "ON CONFLICT (request_id) DO NOTHING",
                    values,
                )
                stored = _one(connection, request.request_id)
            assert stored is not None, "it was just put, or was there"
            return stored

        return self._session.run(write)

    def get(self, request_id: str) -> StoredApproval | None:
        """Answer a request by its id, or None."""
        return self._session.run(lambda connection: _one(connection, request_id))

    def find(self, subject: str, now: float) -> StoredApproval | None:
        """Answer the newest open request of a subject, or None."""
        return self._session.run(lambda connection: _newest(connection, subject))

    def requests(self, state: ApprovalState | None = None) -> Sequence[StoredApproval]:
        """Answer all requests, or those in one state; oldest first."""

        def read(connection: Connection) -> list[StoredApproval]:
            if state is None:
                return [stored_of(row) for row in connection.execute(f"{_SELECT} ORDER BY seq")]
            return [stored_of(row) for row in connection.execute(f"{_SELECT} WHERE state = %s ORDER BY seq", (state,))]

        return self._session.run(read)

    def decide(self, request_id: str, decision: Decision, now: float) -> bool:
        """Record the decision of a pending request; False if it does not count."""

        def write(connection: Connection) -> bool:
            stored = _locked(connection, request_id)
            at = clock(connection)
            decided = standing(stored, decision, at)
            if decided is None:
                return False
            connection.execute(
                "UPDATE fc_approvals SET state = %s, decision = %s, decided_at = %s WHERE request_id = %s",
                (decided.state, json_text(decision.as_json()), at, request_id),
            )
            return True

        return self._deciding(write)

    def take(self, request_id: str, now: float) -> StoredApproval | None:
        """Use an approval; exactly one caller ever gets it."""

        def write(connection: Connection) -> StoredApproval | None:
            stored = _locked(connection, request_id)
            if stored is None or stored.state != "approved" or not stored.is_open(clock(connection)):
                return None
            connection.execute("UPDATE fc_approvals SET state = 'used' WHERE request_id = %s", (request_id,))
            return stored

        return self._session.run(write)

    def prune(self, before: float) -> int:
        """Remove requests that expired before a moment; see `SQLiteApprovals.prune`. The role needs `DELETE`."""
        values = (expired_before(before, self.now()), PRUNED_AT_ONCE)
        statement = (
            "DELETE FROM fc_approvals WHERE seq IN "
            "(SELECT seq FROM fc_approvals WHERE expires_at < %s ORDER BY seq LIMIT %s)"
        )
        removed = 0
        while True:
            part = self._deciding(lambda connection: connection.execute(statement, values).rowcount)
            removed += part
            if not part:
                return removed

    def add(self, grant: Grant) -> None:
        """Keep a grant.

        Raises:
            UsageError: there is one of this id, with the uses that are left of it.
        """
        statement = (
            "INSERT INTO fc_grants (grant_id, tool, uses_left, body) VALUES (%s, %s, %s, %s) ON CONFLICT DO NOTHING"
        )
        values = (grant.grant_id, grant.tool, grant.uses, json_text(grant.as_json()))
        if not self._deciding(lambda connection: connection.execute(statement, values).rowcount):
            raise UsageError(f"there is a grant {grant.grant_id!r} already; leave grant_id out, or revoke that one")

    def grants(self) -> Sequence[tuple[Grant, int]]:
        """Answer every grant with the uses that are left, oldest first."""

        def read(connection: Connection) -> list[tuple[Grant, int]]:
            rows = connection.execute("SELECT body, uses_left FROM fc_grants ORDER BY seq")
            return [(Grant.from_json(json.loads(body)), left) for body, left in rows]

        return self._session.run(read)

    def use(
        self, tool: str, version: str, arguments: Mapping[str, object], identity: Mapping[str, str], now: float
    ) -> Grant | None:
        """Take one use of the first grant that fits."""

        def write(connection: Connection) -> Grant | None:
            rows = connection.execute(
                "SELECT body FROM fc_grants WHERE tool = %s AND uses_left > 0 ORDER BY seq", (tool,)
            )
            for (body,) in rows.fetchall():
                grant = Grant.from_json(json.loads(body))
                # Asked for each: the one before may have been waited for, and lost to another process.
                if grant.fits(tool, version, arguments, identity, clock(connection)) and _use(connection, grant):
                    return grant
            return None

        return self._session.run(write)

    def revoke(self, grant_id: str) -> bool:
        """Void a grant; False if there is none of this id."""
        statement = "DELETE FROM fc_grants WHERE grant_id = %s"
        return self._deciding(lambda connection: connection.execute(statement, (grant_id,)).rowcount == 1)

    def close(self) -> None:
        """Close the connection. Idempotent; afterwards everything else is `StoreClosed`."""
        self._session.close()

    def _deciding(self, work: Callable[[Connection], T]) -> T:
        """Run what only a role may do that decides, and tell another one who may; more rights would make who asks its own approver."""

        def run(connection: Connection) -> T:
            try:
                return work(connection)
            except InsufficientPrivilege as error:
                raise StoreUnavailable(
                    f"approvals in {self.name}: this role may ask, but not decide, add or revoke grants, or prune; let somebody "
                    "do it whose role may: the owner of the tables, or a role that was granted decides=True "
                    f"({one_line(error)})"
                ) from error

        return self._session.run(run)


def _use(connection: Connection, grant: Grant) -> bool:
    statement = "UPDATE fc_grants SET uses_left = uses_left - 1 WHERE grant_id = %s AND uses_left > 0"
    return connection.execute(statement, (grant.grant_id,)).rowcount == 1


def _one(connection: Connection, request_id: str, suffix: LiteralString = "") -> StoredApproval | None:
    row = connection.execute(f"{_SELECT} WHERE request_id = %s" + suffix, (request_id,)).fetchone()
    return None if row is None else stored_of(row)


def _locked(connection: Connection, request_id: str) -> StoredApproval | None:
    return _one(connection, request_id, " FOR UPDATE")


def _newest(connection: Connection, subject: str) -> StoredApproval | None:
    now = clock(connection)
    rows = connection.execute(_NEWEST, (subject, now))
    return next((stored for stored in map(stored_of, rows) if stored.is_open(now)), None)
