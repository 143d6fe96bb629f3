"""Decide who may take an open call over, and whether everybody who had it before is proved to be gone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, TypeGuard

from fcguard.errors import UsageError
from fcguard.model.states import CallState
from fcguard.reconcile.history import SKEW, History
from fcguard.stores.base import Event, Move, Store, StoredCall
from fcguard.stores.judge import is_claimable
from fcguard.stores.owner import Liveness, Owner, liveness_of
from fcguard.stores.recoverable import RecoverableStore

__all__ = ["Witness", "recoverable", "take_over"]

_AFTER: Final = {CallState.STARTED: CallState.UNCERTAIN}
"""State after a takeover, where it is not the same."""


def recoverable(store: Store) -> RecoverableStore:
    """Answer the store as one that calls can be recovered from.

    Raises:
        UsageError: it cannot say who owns a call.
    """
    if not _is_recoverable(store):
        raise UsageError(
            f"{type(store).__name__} does not say who owns a call; recovery needs a RecoverableStore, such as SQLiteStore"
        )
    return store


def _is_recoverable(store: Store) -> TypeGuard[RecoverableStore]:
    return all(hasattr(store, name) for name in ("owner", "owners", "drain", "heartbeat"))


@dataclass(frozen=True, slots=True)
class Witness:
    """What this process knows of the owners of calls.

    Attributes:
        here: this process.
        owners: the processes that the ledger knows, by id.
        assume_dead_after: seconds of silence after which an owner that cannot be proved dead counts as dead; None: never.
            This accepts the risk that it lives and sends after all.
        ahead: seconds by which the ledger's clock is ahead of this host's; None: the ledger has none, and what other hosts wrote
            down is compared with the clock of this one.
    """

    here: Owner
    owners: Mapping[str, Owner]
    assume_dead_after: float | None = None
    ahead: float | None = None

    def liveness(self, owner_id: str | None) -> Liveness:
        """Answer what is known of an owner."""
        if owner_id == self.here.id:
            return Liveness.SELF
        owner = self.owners.get(owner_id or "")
        return Liveness.UNKNOWN if owner is None else liveness_of(owner, self.here)

    def may_take(self, call: StoredCall, now: float) -> bool:
        """Tell whether nobody works on an open call: owner proved dead, lease lapsed, or its next action due.

        Args:
            call: the row.
            now: wall clock in seconds, of the ledger if it has one.
        """
        known = self.liveness(call.owner)
        if known is not Liveness.UNKNOWN:
            return is_claimable(call, known, now)
        is_silent = self._is_silent(call.owner, call.updated_at, now)
        # A ledger without a clock: one host must not take from another what is being worked on there.
        margin = SKEW if self.ahead is None else 0.0
        return is_claimable(call, Liveness.DEAD if is_silent else known, now - margin)

    def ahead_of(self, owner_id: str | None) -> float | None:
        """Answer by how many seconds the ledger's clock is ahead of an owner's; None if that is not known: it is on another host."""
        if self.ahead is None:
            return 0.0
        owner = self.here if owner_id == self.here.id else self.owners.get(owner_id or "")
        return self.ahead if owner is not None and owner.host == self.here.host else None

    def why_not_quiet(self, call: StoredCall, history: History, now: float) -> str | None:
        """Answer why a sent request of a call may still be on its way after its settle window; None if none can be.

        Whoever started an attempt must be proved dead, or be this process and have let go of it. Workers that had the call
        and only looked do not matter.
        """
        for number, started_at in history.started.items():
            sender = history.sender(number, call.owner)
            if self._is_proved_dead(sender, history) or self._is_silent(sender, started_at, now):
                continue
            if sender != self.here.id:
                return f"the process {sender or 'that sent it'} is not proved dead"
            if call.owner == sender and call.state is not CallState.PARKED and call.next_at is None:
                return "this process still works on it"
            if history.is_running(number):
                return "a function of this process that was given up still runs"
        return None

    def _is_proved_dead(self, owner_id: str | None, history: History) -> bool:
        was_dead = any(taken.owner == owner_id and taken.liveness == Liveness.DEAD for taken in history.takeovers)
        return was_dead or self.liveness(owner_id) is Liveness.DEAD

    def _is_silent(self, owner_id: str | None, at: float, now: float) -> bool:
        if self.assume_dead_after is None or self.liveness(owner_id) is not Liveness.UNKNOWN:
            return False
        owner = self.owners.get(owner_id or "")
        return now - (at if owner is None else owner.seen_at) >= self.assume_dead_after


def take_over(call: StoredCall, liveness: Liveness, here: Owner, now: float, sent_until: float | None) -> Move:
    """Build the command that makes this process the owner of an open call, if nobody moved it meanwhile.

    Args:
        call: the row as it was seen.
        liveness: what is known of its owner.
        here: this process.
        now: wall clock in seconds.
        sent_until: last moment at which its last attempt can have sent something; None: not proved, or nothing was sent.
    """
    body = {"by": here.id, "from": call.owner, "liveness": str(liveness)}
    settle = call.identity.settle
    return Move(
        call.identity.request_id,
        call.version,
        _AFTER.get(call.state, call.state),
        call.attempt,
        Event("claimed", now, body if sent_until is None else {**body, "sent_until": sent_until}),
        settle_until=None if settle is None or sent_until is None else sent_until + settle,
    )
