"""The states of a call in the ledger, and the table of every way from one to the next."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

__all__ = [
    "OPEN_STATES",
    "TERMINAL_STATES",
    "TRANSITIONS",
    "CallState",
    "Requirement",
    "Transition",
    "is_transition",
    "next_states",
]


class CallState(StrEnum):
    """Where a call stands; see the table of transitions for how it gets there."""

    REJECTED = "REJECTED"
    PREPARED = "PREPARED"
    STARTED = "STARTED"
    SUCCEEDED = "SUCCEEDED"
    FAILED = "FAILED"
    UNCERTAIN = "UNCERTAIN"
    CONFIRMING = "CONFIRMING"
    PARKED = "PARKED"


TERMINAL_STATES = frozenset({CallState.REJECTED, CallState.SUCCEEDED, CallState.FAILED})
OPEN_STATES = frozenset(CallState) - TERMINAL_STATES


class Requirement(StrEnum):
    """What must hold before a transition may be taken; the caller vouches for it, the store checks the number of the attempt."""

    NONE = "none"
    """Nothing beyond the version seen."""
    WHOLE = "whole"
    """The call is entered at its end: a read, or a call refused before anything was sent."""
    NOT_SENT = "not_sent"
    """No attempt was dispatched."""
    SENT = "sent"
    """At least one attempt was dispatched."""
    NOT_APPLIED = "not_applied"
    """It is proved that no attempt was applied, and none can still land."""
    LICENSED = "licensed"
    """The first attempt; or every earlier one is proved not applied; or the write may be sent again (server dedups, write is
    conditional, settle window over and owner dead or this process)."""
    APPLIED = "applied"
    """The effect was seen: returned, late, confirmed, or stated by a person."""
    PERSON = "person"
    """A named person decided, with a reason."""


@dataclass(frozen=True, slots=True)
class Transition:
    """One allowed way from a state to another.

    Attributes:
        source: state before; None: the call did not exist.
        event: what happened, in one word.
        target: state after.
        requirement: what must hold.
    """

    source: CallState | None
    event: str
    target: CallState
    requirement: Requirement = Requirement.NONE


_S, _R = CallState, Requirement

TRANSITIONS: Final[tuple[Transition, ...]] = (
    Transition(None, "prepared", _S.PREPARED),
    Transition(None, "started", _S.STARTED),
    Transition(None, "entered", _S.SUCCEEDED, _R.WHOLE),
    Transition(None, "entered", _S.FAILED, _R.WHOLE),
    Transition(None, "entered", _S.REJECTED, _R.WHOLE),
    Transition(_S.PREPARED, "started", _S.STARTED, _R.LICENSED),
    Transition(_S.PREPARED, "deferred", _S.PREPARED),
    Transition(_S.PREPARED, "refused", _S.REJECTED, _R.NOT_SENT),
    Transition(_S.PREPARED, "given_up", _S.FAILED, _R.NOT_APPLIED),
    Transition(_S.PREPARED, "late", _S.SUCCEEDED, _R.APPLIED),
    Transition(_S.PREPARED, "confirming", _S.CONFIRMING, _R.SENT),
    Transition(_S.PREPARED, "parked", _S.PARKED),
    Transition(_S.STARTED, "returned", _S.SUCCEEDED, _R.APPLIED),
    Transition(_S.STARTED, "failed", _S.FAILED, _R.NOT_APPLIED),
    Transition(_S.STARTED, "withdrawn", _S.REJECTED, _R.NOT_SENT),
    Transition(_S.STARTED, "not_applied", _S.PREPARED, _R.NOT_APPLIED),
    Transition(_S.STARTED, "started", _S.STARTED, _R.LICENSED),
    Transition(_S.STARTED, "uncertain", _S.UNCERTAIN),
    Transition(_S.STARTED, "confirming", _S.CONFIRMING),
    Transition(_S.STARTED, "parked", _S.PARKED),
    Transition(_S.UNCERTAIN, "confirming", _S.CONFIRMING),
    Transition(_S.UNCERTAIN, "deferred", _S.UNCERTAIN),
    Transition(_S.UNCERTAIN, "late", _S.SUCCEEDED, _R.APPLIED),
    Transition(_S.UNCERTAIN, "failed", _S.FAILED, _R.NOT_APPLIED),
    Transition(_S.UNCERTAIN, "licensed", _S.PREPARED, _R.LICENSED),
    Transition(_S.UNCERTAIN, "started", _S.STARTED, _R.LICENSED),
    Transition(_S.UNCERTAIN, "parked", _S.PARKED),
    Transition(_S.CONFIRMING, "confirmed", _S.SUCCEEDED, _R.APPLIED),
    Transition(_S.CONFIRMING, "confirming", _S.CONFIRMING),
    Transition(_S.CONFIRMING, "inconclusive", _S.UNCERTAIN),
    Transition(_S.CONFIRMING, "not_applied", _S.FAILED, _R.NOT_APPLIED),
    Transition(_S.CONFIRMING, "licensed", _S.PREPARED, _R.LICENSED),
    Transition(_S.CONFIRMING, "started", _S.STARTED, _R.LICENSED),
    Transition(_S.CONFIRMING, "parked", _S.PARKED),
    Transition(_S.PARKED, "deferred", _S.PARKED),
    Transition(_S.PARKED, "confirming", _S.CONFIRMING),
    Transition(_S.PARKED, "late", _S.SUCCEEDED, _R.APPLIED),
    Transition(_S.PARKED, "confirmed", _S.SUCCEEDED, _R.APPLIED),
    Transition(_S.PARKED, "resolved", _S.SUCCEEDED, _R.PERSON),
    Transition(_S.PARKED, "resolved", _S.FAILED, _R.PERSON),
    Transition(_S.PARKED, "resolved", _S.PREPARED, _R.PERSON),
)
"""Every allowed transition. What is not here is refused by every store; a terminal state has no way out."""

_NEXT: Final[dict[CallState | None, frozenset[CallState]]] = {
    source: frozenset(row.target for row in TRANSITIONS if row.source is source) for source in (None, *CallState)
}


def is_transition(source: CallState | None, target: CallState) -> bool:
    """Tell whether the table has a way from `source` (None: no call yet) to `target`."""
    return target in _NEXT[source]


def next_states(source: CallState | None) -> frozenset[CallState]:
    """Answer the states that can follow `source`; empty after a terminal state."""
    return _NEXT[source]
