"""What a store answers to a command, decided from what it holds; the same for every store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from fcguard.errors import StoreError
from fcguard.model.states import OPEN_STATES, CallState, is_transition
from fcguard.stores.base import Blocked, Enter, Identity, Move, Open, Replayed
from fcguard.stores.owner import Liveness
from fcguard.stores.tombstone import Tombstone

__all__ = [
    "Holder",
    "check_new",
    "guards_effect",
    "guards_key",
    "judge_move",
    "judge_open",
]

_KEY_STATES: Final = OPEN_STATES | {CallState.SUCCEEDED}


@dataclass(frozen=True, slots=True)
class Holder:
    """The call that holds a key which another one asks for.

    Attributes:
        pruned_at: wall clock in seconds when its record was pruned, and only its key stayed; None: it is there.
    """

    request_id: str
    state: CallState
    digest: str
    result: Mapping[str, Any] | None = None
    pruned_at: float | None = None

    @classmethod
    def of(cls, tombstone: Tombstone) -> Holder:
        """Answer a pruned call as the holder of its key."""
        return cls(tombstone.request_id, tombstone.state, tombstone.digest, pruned_at=tombstone.pruned_at)


def guards_key(state: CallState) -> bool:
    """Tell whether a call in this state holds its idempotency key: open or succeeded."""
    return state in _KEY_STATES


def guards_effect(state: CallState) -> bool:
    """Tell whether a call in this state holds its effect key: open."""
    return state in OPEN_STATES


class Claimable(Protocol):
    """The columns that decide whether a call may be taken over."""

    @property
    def state(self) -> CallState:
        """Current state."""
        ...

    @property
    def attempt(self) -> int:
        """Attempts dispatched."""
        ...

    @property
    def next_at(self) -> float | None:
        """Wall clock when the next automatic action is due."""
        ...

    @property
    def lease_until(self) -> float | None:
        """Wall clock until which the owner holds it."""
        ...


def check_new(command: Open | Enter, *, exists: bool) -> StoreError | None:
    """Answer why a new call cannot be written, or None."""
    request_id, state = command.identity.request_id, command.state
    if exists:
        return StoreError(f"the request id {request_id!r} is already in the ledger; make a new one")
    if not is_transition(None, state) or (state in OPEN_STATES) is not isinstance(command, Open):
        wanted = "PREPARED or STARTED" if isinstance(command, Open) else "REJECTED, SUCCEEDED or FAILED"
        return StoreError(f"{type(command).__name__} of {request_id!r} in state {state}: must be {wanted}")
    return None


def judge_open(identity: Identity, key: Holder | None, effect: Holder | None) -> Replayed | Blocked | None:
    """Answer why a write must not be sent, or None if it may.

    Args:
        identity: call that asks.
        key: call that holds its idempotency key: open, succeeded, or succeeded and pruned.
        effect: open call that holds its effect key.
    """
    if key is not None:
        if key.digest != identity.digest:
            return Blocked("conflict", key.request_id, key.state, key.pruned_at)
        if key.pruned_at is not None:
            return Blocked("pruned", key.request_id, key.state, key.pruned_at)
        if key.state is CallState.SUCCEEDED:
            return Replayed(key.request_id, key.result or {})
        return Blocked("pending", key.request_id, key.state)
    if effect is not None:
        return Blocked("pending", effect.request_id, effect.state)
    return None


def judge_move(move: Move, state: CallState, attempt: int) -> StoreError | None:
    """Answer why the transition is not allowed, or None. The version was compared before.

    Args:
        move: what is asked.
        state: what the ledger holds.
        attempt: number of the last attempt that the ledger holds.
    """
    target = move.state
    if not is_transition(state, target):
        return StoreError(
            f"call {move.request_id!r}: {state} -> {target} is not a transition; see fcguard.model.states"
        )
    lowest = attempt + 1 if target is CallState.STARTED and state is not CallState.PREPARED else attempt
    if move.attempt < lowest:
        return StoreError(f"call {move.request_id!r}: attempt {move.attempt} is behind; it must be at least {lowest}")
    return None


def is_claimable(call: Claimable, liveness: Liveness, now: float) -> bool:
    """Tell whether another worker may take an open call over.

    A lapsed lease lets a call be looked at; it does not prove that its owner is dead, so it is no licence to send again.

    Args:
        call: the row.
        liveness: what is known of its owner.
        now: the store's wall clock, in seconds.
    """
    if call.state not in OPEN_STATES or call.state is CallState.PARKED:
        return False
    if call.next_at is None:
        if call.state is CallState.PREPARED and call.attempt == 0:
            return False  # nothing was sent, and nothing is due: it waits for a person or a queue
    elif call.next_at > now:
        return False
    return liveness is Liveness.DEAD or call.lease_until is None or call.lease_until <= now


def is_in_flight(state: CallState, next_at: float | None) -> bool:
    """Tell whether a call's owner is working on it, so that its lease is to be renewed."""
    return next_at is None and state in OPEN_STATES and state is not CallState.PARKED


def lease_after(move: Move, lease_until: float) -> float | None:
    """Answer until when the mover holds the call: its full lease while it works, until the next action is due, or not at all."""
    if is_in_flight(move.state, None):
        return lease_until if move.next_at is None else move.next_at
    return None
