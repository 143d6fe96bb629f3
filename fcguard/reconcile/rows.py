"""Tell in a row of the report how an open call was found, and what was done with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from fcguard.config import Prepared
from fcguard.model.call import Call
from fcguard.model.states import OPEN_STATES, CallState
from fcguard.reconcile.report import Deed, Recovered
from fcguard.reconcile.takeover import Witness
from fcguard.stores.base import StoredCall

__all__ = ["Advanced", "done_with", "reason_of", "row_of", "why_unknown"]


@dataclass(slots=True)
class Advanced:
    """What became of one call: the report's row, and the envelope if the call was taken through the steps."""

    row: Recovered
    result: Any = None


def row_of(row: StoredCall, witness: Witness, did: Deed, message: str, **fields: Any) -> Recovered:
    """Answer the report's row of a call; `fields` are those that differ from how it was found."""
    identity = row.identity
    fields = {"state": row.state, "attempts": row.attempt, **fields}
    return Recovered(
        identity.request_id, identity.tool, identity.task_id, row.state, str(witness.liveness(row.owner)), did,
        message=message, **fields,
    )  # fmt: skip


def done_with(row: StoredCall, call: Call, witness: Witness) -> Recovered:
    """Answer the report's row of a call that was taken through the steps."""
    result, state = call.result, call.ledger_state
    did: Deed
    if "taken_over" in call.flags:
        did = "taken_over"
    elif state in OPEN_STATES and state is not CallState.PARKED:
        did = "deferred" if call.due_at is not None else "unrecorded"
    else:
        did = _ENDS[state](result)
    return row_of(row, witness, did, result.message, state=state, attempts=result.attempts, due_at=call.due_at)


_ENDS: Final[Mapping[CallState, Callable[[Any], Deed]]] = {
    CallState.SUCCEEDED: lambda result: result.outcome_basis if result.outcome_basis != "replayed" else "confirmed",
    CallState.FAILED: lambda result: "failed",
    CallState.REJECTED: lambda result: "rejected",
    CallState.PARKED: lambda result: "unrecorded" if result.success else "parked",
}


def reason_of(row: StoredCall) -> str:
    """Answer what the record says of why a call is open; empty if nothing."""
    return str((row.result or {}).get("message") or "")


def why_unknown(prepared: Prepared | None, row: StoredCall) -> str | None:
    """Answer why a guard cannot act on a call, as far as its tool goes; None if it can."""
    identity = row.identity
    if prepared is None:
        return f"no tool {identity.tool!r} is registered with this guard"
    if prepared.tool.version != identity.tool_version:
        return (
            f"it was made with version {identity.tool_version!r} of the tool; this guard has {prepared.tool.version!r}"
        )
    return None
