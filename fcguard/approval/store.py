"""Where requests, decisions and grants are kept: the protocol, and an implementation in memory."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite
from threading import Lock
from time import time
from typing import Any, Final, Literal, Protocol, runtime_checkable

from fcguard.approval.grants import Grant
from fcguard.approval.request import ApprovalRequest, Decision, check_modified
from fcguard.errors import UsageError

__all__ = [
    "PRUNED_AT_ONCE",
    "ApprovalState",
    "ApprovalStore",
    "GrantStore",
    "MemoryApprovals",
    "StoredApproval",
    "expired_before",
    "json_text",
    "standing",
    "stored_of",
    "time_of",
]

ApprovalState = Literal["pending", "approved", "denied", "used"]

PRUNED_AT_ONCE: Final = 500
"""How many requests are looked at, or leave, in one transaction; others write in between."""


@dataclass(frozen=True, slots=True)
class StoredApproval:
    """A request and what became of it.

    Attributes:
        request: what was asked.
        state: `pending`, `approved` (not used yet), `denied`, or `used` (its one call was let through).
        decision: the answer; None while pending.
        decided_at: wall clock in seconds.
    """

    request: ApprovalRequest
    state: ApprovalState = "pending"
    decision: Decision | None = None
    decided_at: float | None = None

    def is_open(self, now: float) -> bool:
        """Answer whether it still matters at `now` (wall clock in seconds): in time, genuine, and not used."""
        until = self.request.expires_at
        if self.decision is not None and self.decision.approved and self.decision.expires_at is not None:
            until = min(until, self.decision.expires_at)
        return self.state != "used" and now < until and self.request.is_genuine


@runtime_checkable
class ApprovalStore(Protocol):
    """Keeps approval requests; every method is atomic, for all threads and processes that share the store.

    `now` is the caller's wall clock in seconds. A store that hosts share may have a method `now()` that answers a clock which is the same
    for all of them: then requests are made and judged on that one.
    """

    def put(self, request: ApprovalRequest, now: float) -> StoredApproval:
        """Keep a request as pending, or answer the open one of the same subject, or the one of the same id."""
        ...

    def get(self, request_id: str) -> StoredApproval | None:
        """Answer a request by its id, or None."""
        ...

    def find(self, subject: str, now: float) -> StoredApproval | None:
        """Answer the newest open request of a subject, or None."""
        ...

    def requests(self, state: ApprovalState | None = None) -> Sequence[StoredApproval]:
        """Answer all requests, or those in one state; oldest first. A pending one may have expired."""
        ...

    def decide(self, request_id: str, decision: Decision, now: float) -> bool:
        """Record the decision of a pending request.

        Returns:
            False if there is no such request, it was decided before, it has expired, or the decision is about another digest.

        Raises:
            UsageError: its modified arguments are no JSON, or hold a secret; one that is left as its mask stays what it was.
        """
        ...

    def take(self, request_id: str, now: float) -> StoredApproval | None:
        """Use an approval; exactly one caller ever gets it.

        Returns:
            The approval; None if it is not approved, has expired, or was taken.
        """
        ...


@runtime_checkable
class GrantStore(Protocol):
    """Keeps grants and counts their uses, exactly, for all threads and processes that share the store."""

    def add(self, grant: Grant) -> None:
        """Keep a grant.

        Raises:
            UsageError: there is one of this id, with the uses that are left of it.
        """
        ...

    def grants(self) -> Sequence[tuple[Grant, int]]:
        """Answer every grant with the uses that are left, oldest first."""
        ...

    def use(
        self, tool: str, version: str, arguments: Mapping[str, object], identity: Mapping[str, str], now: float
    ) -> Grant | None:
        """Take one use of the first grant that fits; None if none fits or none has uses left."""
        ...

    def revoke(self, grant_id: str) -> bool:
        """Void a grant; False if there is none of this id."""
        ...


def stored_of(row: tuple[Any, ...]) -> StoredApproval:
    """Read what a database keeps of a request: its JSON, its state, the JSON of its decision, and when it was decided."""
    request, state, decision, decided_at = row
    known = None if decision is None else Decision(**json.loads(decision))
    return StoredApproval(ApprovalRequest.from_json(json.loads(request)), state, known, decided_at)


def json_text(value: Mapping[str, Any]) -> str:
    """Answer JSON as databases keep it: escaped, since they keep no text with half a surrogate pair."""
    return json.dumps(value, sort_keys=True, default=repr)


def standing(stored: StoredApproval | None, decision: Decision, now: float) -> StoredApproval | None:
    """Answer a stored request with a decision put on it; None if the decision does not count any more, or is not about it.

    Raises:
        UsageError: its modified arguments cannot be written down.
    """
    if stored is None or stored.state != "pending" or not stored.is_open(now):
        return None
    if decision.digest is not None and decision.digest != stored.request.digest:
        return None
    if decision.modified_arguments is not None:
        check_modified(stored.request, decision.modified_arguments)
    return replace(stored, state="approved" if decision.approved else "denied", decision=decision, decided_at=now)


def time_of(store: Any, now: float) -> float:
    """Answer the wall clock in seconds on which a store's requests expire: its own if it has one, else `now`."""
    own = getattr(store, "now", None)
    return now if own is None else float(own())


def expired_before(before: float, now: float) -> float:
    """Answer the moment before which requests have to have expired to be pruned.

    Args:
        before: the moment, in seconds since the epoch.
        now: the store's wall clock.

    Raises:
        UsageError: it is none, or is still to come, so that open requests would go.
    """
    is_number = isinstance(before, (int, float)) and not isinstance(before, bool) and isfinite(before)
    if not is_number or before > now:
        raise UsageError(
            f"prune(before={before!r}): give a moment that is over, in seconds since the epoch; what can still be decided or "
            "used stays"
        )
    return float(before)


class MemoryApprovals:
    """Keeps requests and grants in this process; gone when it ends.

    Args:
        most_requests: once there are this many, those that are over are forgotten.
    """

    def __init__(self, *, most_requests: int = 10_000) -> None:
        self._lock, self._most = Lock(), most_requests
        self._requests: dict[str, StoredApproval] = {}
        self._grants: dict[str, tuple[Grant, int]] = {}

    def put(self, request: ApprovalRequest, now: float) -> StoredApproval:
        """Keep a request as pending, or answer the open one of the same subject, or the one of the same id."""
        with self._lock:
            stored = self._newest(request.subject, now) or self._requests.get(request.request_id)
            if stored is None:
                if len(self._requests) >= self._most:
                    self._requests = {name: kept for name, kept in self._requests.items() if kept.is_open(now)}
                stored = self._requests[request.request_id] = StoredApproval(request)
            return stored

    def get(self, request_id: str) -> StoredApproval | None:
        """Answer a request by its id, or None."""
        return self._requests.get(request_id)

    def find(self, subject: str, now: float) -> StoredApproval | None:
        """Answer the newest open request of a subject, or None."""
        with self._lock:
            return self._newest(subject, now)

    def requests(self, state: ApprovalState | None = None) -> Sequence[StoredApproval]:
        """Answer all requests, or those in one state; oldest first."""
        with self._lock:
            return [stored for stored in self._requests.values() if state is None or stored.state == state]

    def decide(self, request_id: str, decision: Decision, now: float) -> bool:
        """Record the decision of a pending request; False if it does not count."""
        with self._lock:
            decided = standing(self._requests.get(request_id), decision, now)
            if decided is not None:
                self._requests[request_id] = decided
            return decided is not None

    def take(self, request_id: str, now: float) -> StoredApproval | None:
        """Use an approval; exactly one caller ever gets it."""
        with self._lock:
            stored = self._requests.get(request_id)
            if stored is None or stored.state != "approved" or not stored.is_open(now):
                return None
            self._requests[request_id] = replace(stored, state="used")
            return stored

    def prune(self, before: float) -> int:
        """Remove requests that expired before a moment; see `SQLiteApprovals.prune`."""
        before = expired_before(before, time())
        with self._lock:
            old = [name for name, stored in self._requests.items() if stored.request.expires_at < before]
            for name in old:
                del self._requests[name]
        return len(old)

    def add(self, grant: Grant) -> None:
        """Keep a grant.

        Raises:
            UsageError: there is one of this id, with the uses that are left of it.
        """
        with self._lock:
            if grant.grant_id in self._grants:
                raise UsageError(f"there is a grant {grant.grant_id!r} already; leave grant_id out, or revoke that one")
            self._grants[grant.grant_id] = (grant, grant.uses)

    def grants(self) -> Sequence[tuple[Grant, int]]:
        """Answer every grant with the uses that are left, oldest first."""
        with self._lock:
            return list(self._grants.values())

    def use(
        self, tool: str, version: str, arguments: Mapping[str, object], identity: Mapping[str, str], now: float
    ) -> Grant | None:
        """Take one use of the first grant that fits."""
        with self._lock:
            for grant, left in self._grants.values():
                if left > 0 and grant.fits(tool, version, arguments, identity, now):
                    self._grants[grant.grant_id] = (grant, left - 1)
                    return grant
        return None

    def revoke(self, grant_id: str) -> bool:
        """Void a grant; False if there is none of this id."""
        with self._lock:
            return self._grants.pop(grant_id, None) is not None

    def _newest(self, subject: str, now: float) -> StoredApproval | None:
        fitting = [
            stored for stored in self._requests.values() if stored.request.subject == subject and stored.is_open(now)
        ]
        return fitting[-1] if fitting else None
