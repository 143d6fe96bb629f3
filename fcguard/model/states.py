"""The states of a call in the ledger."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["OPEN_STATES", "TERMINAL_STATES", "CallState"]


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
