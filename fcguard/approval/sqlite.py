"""Requests, decisions and grants in a SQLite file: durable, and shared by the processes of one host."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from time import time
from typing import Final

from fcguard.approval.grants import Grant
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
from fcguard.errors import ConfigurationError, StoreCorrupt, StoreTooNew, StoreUnavailable, UsageError
from fcguard.store_urls import is_url

__all__ = ["SQLiteApprovals"]

_VERSION: Final = 1
_SCHEMA: Final = (
    "CREATE TABLE IF NOT EXISTS fc_approval_version (version INTEGER NOT NULL)",
    """CREATE TABLE IF NOT EXISTS fc_approvals (
        seq INTEGER PRIMARY KEY AUTOINCREMENT, request_id TEXT NOT NULL UNIQUE, subject TEXT NOT NULL, state TEXT NOT NULL,
        request TEXT NOT NULL, decision TEXT, decided_at REAL)""",
    "CREATE INDEX IF NOT EXISTS fc_approvals_subject ON fc_approvals (subject)",
    """CREATE TABLE IF NOT EXISTS fc_grants (
        seq INTEGER PRIMARY KEY AUTOINCREMENT, grant_id TEXT NOT NULL UNIQUE, tool TEXT NOT NULL,
        uses_left INTEGER NOT NULL CHECK (uses_left >= 0), body TEXT NOT NULL)""",
    "CREATE INDEX IF NOT EXISTS fc_grants_tool ON fc_grants (tool)",
)
_SELECT: Final = "SELECT request, state, decision, decided_at FROM fc_approvals"


class SQLiteApprovals:
    """Keeps requests and grants in a file, which may also be the ledger's own.

    Every operation opens the file anew, so that it is safe over threads and forks; it takes about a millisecond, which does not
    matter where a person decides. Arguments that hold a secret are not written down: such a call can be approved and sent again,
    but not be rebuilt from the file.

    Args:
        path: the file, no URL; made, readable by its owner only, if there is none. Its directory must exist.
        timeout: longest wait in seconds for another process that writes.
        create: whether a missing file, or missing tables in it, are made; else that is `StoreUnavailable`, and nothing is touched.

    Raises:
        ConfigurationError: the path is a URL.
        StoreUnavailable: the file cannot be opened or made.
        StoreTooNew: it was written by a newer fcguard.
        StoreCorrupt: it is not a SQLite file.
    """

    def __init__(self, path: str | os.PathLike[str], *, timeout: float = 30.0, create: bool = True) -> None:
        if is_url(os.fspath(path)):  # which may hold a password
            raise ConfigurationError(
                "SQLiteApprovals takes the path of a file, and this one is a URL; write SQLiteApprovals('path'), "
                "Guard(approvals='sqlite:///path'), open_approvals('sqlite:///path') of fcguard.approval, or "
                "PostgresApprovals('postgresql://user@host/db')"
            )
        self.path, self._timeout = Path(path), timeout
        self.name = f"approvals file {str(self.path)!r}"
        if create:
            try:
                os.close(os.open(self.path, os.O_CREAT | os.O_RDWR, 0o600))
            except OSError as error:
                raise StoreUnavailable(f"{self.name}: {error.strerror}") from None
        else:
            self._look()
        with self._transaction() as connection:
            for statement in _SCHEMA:
                connection.execute(statement)
            found = connection.execute("SELECT version FROM fc_approval_version").fetchone()
            if found is None:
                connection.execute("INSERT INTO fc_approval_version VALUES (?)", (_VERSION,))
            elif found[0] > _VERSION:
                raise StoreTooNew(f"{self.name} has version {found[0]}; this fcguard knows up to {_VERSION}")

    def put(self, request: ApprovalRequest, now: float) -> StoredApproval:
        """Keep a request as pending, or answer the open one of the same subject, or the one of the same id."""
        with self._transaction() as connection:
            stored = _newest(connection, request.subject, now) or _one(connection, request.request_id)
            if stored is None:
                connection.execute(
                    "INSERT INTO fc_approvals (request_id, subject, state, request) VALUES (?, ?, 'pending', ?)",
                    (request.request_id, request.subject, json_text(request.as_json())),
                )
                stored = StoredApproval(request)
            return stored

    def get(self, request_id: str) -> StoredApproval | None:
        """Answer a request by its id, or None."""
        with self._transaction() as connection:
            return _one(connection, request_id)

    def find(self, subject: str, now: float) -> StoredApproval | None:
        """Answer the newest open request of a subject, or None."""
        with self._transaction() as connection:
            return _newest(connection, subject, now)

    def requests(self, state: ApprovalState | None = None) -> Sequence[StoredApproval]:
        """Answer all requests, or those in one state; oldest first."""
        with self._transaction() as connection:
            rows = connection.execute(f"{_SELECT} WHERE ? IS NULL OR state = ? ORDER BY seq", (state, state))
            return [stored_of(row) for row in rows]

    def decide(self, request_id: str, decision: Decision, now: float) -> bool:
        """Record the decision of a pending request; False if it does not count."""
        with self._transaction() as connection:
            decided = standing(_one(connection, request_id), decision, now)
            if decided is None:
                return False
            connection.execute(
                "UPDATE fc_approvals SET state = ?, decision = ?, decided_at = ? WHERE request_id = ? AND state = 'pending'",
                (decided.state, json_text(decision.as_json()), now, request_id),
            )
            return True

    def take(self, request_id: str, now: float) -> StoredApproval | None:
        """Use an approval; exactly one caller ever gets it."""
        with self._transaction() as connection:
            stored = _one(connection, request_id)
            if stored is None or stored.state != "approved" or not stored.is_open(now):
                return None
            taken = connection.execute(
                "UPDATE fc_approvals SET state = 'used' WHERE request_id = ? AND state = 'approved'", (request_id,)
            )
            return stored if taken.rowcount == 1 else None

    def prune(self, before: float) -> int:
        """Remove requests that expired before a moment, decided or not; grants stay.

        Args:
            before: seconds since the epoch; not in the future.

        Returns:
            How many were removed.

        Raises:
            UsageError: the moment is still to come, or is none.
        """
        before, removed, last = expired_before(before, time()), 0, 0
        while True:
            with self._transaction() as connection:
                rows = connection.execute(
                    "SELECT seq, request FROM fc_approvals WHERE seq > ? ORDER BY seq LIMIT ?", (last, PRUNED_AT_ONCE)
                ).fetchall()
                old = [(seq,) for seq, request in rows if json.loads(request)["expires_at"] < before]
                connection.executemany("DELETE FROM fc_approvals WHERE seq = ?", old)
            removed += len(old)
            if len(rows) < PRUNED_AT_ONCE:
                return removed
            last = rows[-1][0]

    def add(self, grant: Grant) -> None:
        """Keep a grant.

        Raises:
            UsageError: there is one of this id, with the uses that are left of it.
        """
        with self._transaction() as connection:
            added = connection.execute(
                "INSERT OR IGNORE INTO fc_grants (grant_id, tool, uses_left, body) VALUES (?, ?, ?, ?)",
                (grant.grant_id, grant.tool, grant.uses, json_text(grant.as_json())),
            )
        if not added.rowcount:
            raise UsageError(f"there is a grant {grant.grant_id!r} already; leave grant_id out, or revoke that one")

    def grants(self) -> Sequence[tuple[Grant, int]]:
        """Answer every grant with the uses that are left, oldest first."""
        with self._transaction() as connection:
            rows = connection.execute("SELECT body, uses_left FROM fc_grants ORDER BY seq")
            return [(Grant.from_json(json.loads(body)), left) for body, left in rows]

    def use(
        self, tool: str, version: str, arguments: Mapping[str, object], identity: Mapping[str, str], now: float
    ) -> Grant | None:
        """Take one use of the first grant that fits."""
        with self._transaction() as connection:
            rows = connection.execute(
                "SELECT body FROM fc_grants WHERE tool = ? AND uses_left > 0 ORDER BY seq", (tool,)
            )
            for (body,) in rows.fetchall():
                grant = Grant.from_json(json.loads(body))
                if grant.fits(tool, version, arguments, identity, now):
                    connection.execute(
                        "UPDATE fc_grants SET uses_left = uses_left - 1 WHERE grant_id = ?", (grant.grant_id,)
                    )
                    return grant
        return None

    def revoke(self, grant_id: str) -> bool:
        """Void a grant; False if there is none of this id."""
        with self._transaction() as connection:
            return connection.execute("DELETE FROM fc_grants WHERE grant_id = ?", (grant_id,)).rowcount == 1

    def close(self) -> None:
        """Do nothing: between two operations nothing is open."""

    def _look(self) -> None:
        if not self.path.is_file():
            raise StoreUnavailable(f"{self.name}: there is no such file")
        try:
            with closing(sqlite3.connect(f"{self.path.resolve().as_uri()}?mode=ro", uri=True)) as connection:
                known = connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'fc_approvals'").fetchone()
        except sqlite3.DatabaseError as error:
            raise StoreCorrupt(f"{self.name}: {error}") from None
        if known is None:
            raise StoreUnavailable(
                f"{self.name} holds no approvals; give the path that SQLiteApprovals(path) was given"
            )

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        try:
            with closing(sqlite3.connect(self.path, timeout=self._timeout, isolation_level=None)) as connection:
                connection.execute("PRAGMA synchronous = FULL")
                connection.execute("BEGIN IMMEDIATE")
                try:
                    yield connection
                    connection.execute("COMMIT")
                except BaseException:
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
                    raise
        except sqlite3.DatabaseError as error:
            kind = (
                StoreUnavailable
                if isinstance(error, (sqlite3.OperationalError, sqlite3.IntegrityError))
                else StoreCorrupt
            )
            raise kind(f"{self.name}: {error}") from error


def _one(connection: sqlite3.Connection, request_id: str) -> StoredApproval | None:
    row = connection.execute(f"{_SELECT} WHERE request_id = ?", (request_id,)).fetchone()
    return None if row is None else stored_of(row)


def _newest(connection: sqlite3.Connection, subject: str, now: float) -> StoredApproval | None:
    rows = connection.execute(f"{_SELECT} WHERE subject = ? AND state != 'used' ORDER BY seq DESC", (subject,))
    return next((stored for stored in map(stored_of, rows) if stored.is_open(now)), None)
