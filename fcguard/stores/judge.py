"""What a store answers to a command, decided from what it holds; the same for every store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from fcguard.errors import StoreError
from fcguard.model.states import OPEN_STATES, CallState, is_transition
from fcguard.stores.base import Blocked, Enter, Identity, Move, Open, Replayed

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
    """The call that holds a key which another one asks for."""

    request_id: str
    state: CallState
    digest: str
    result: Mapping[str, Any] | None = None


def guards_key(state: CallState) -> bool:
    """Tell whether a call in this state holds its idempotency key: open or succeeded."""
    return state in _KEY_STATES


def guards_effect(state: CallState) -> bool:
    """Tell whether a call in this state holds its effect key: open."""
    return state in OPEN_STATES


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
        key: call that holds its idempotency key, open or succeeded.
        effect: open call that holds its effect key.
    """
    if key is not None:
        if key.digest != identity.digest:
            return Blocked("conflict", key.request_id, key.state)
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
        state, attempt: what the ledger holds.
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
