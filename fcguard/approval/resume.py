"""Decide a deferred request, and say what has to run now."""

from __future__ import annotations

from typing import Any

from fcguard.approval.approvers import Deferred
from fcguard.approval.request import ApprovalRequest, Decision
from fcguard.errors import UsageError

__all__ = ["decide"]


def decide(approver: Any, request_id: str, decision: Decision, now: float) -> ApprovalRequest:
    """Write a decision down, once, and answer the request it is about.

    Args:
        approver: the guard's approver; must be `Deferred`.
        request_id: id of the request: `blocked_by` of the `APPROVAL_REQUIRED` envelope.
        decision: the answer.
        now: wall clock in seconds.

    Raises:
        UsageError: requests are not deferred here; the request is unknown, expired or decided already; or its arguments hold
            a secret, so that they were not kept and the caller must send the call again.
    """
    if not isinstance(approver, Deferred):
        raise UsageError(
            "guard.resume needs a guard whose approver is Deferred(store), which keeps requests until they are decided"
        )
    stored = approver.store.get(request_id)
    if stored is None:
        raise UsageError(
            f"there is no approval request {request_id!r} in this store; give the blocked_by of the envelope that said "
            "APPROVAL_REQUIRED (a call that asked again waits for the request of the one that asked first)"
        )
    if not approver.store.decide(request_id, decision, now):
        found = approver.store.get(request_id)
        state = found.state if found is not None else "unknown"
        why = f"it is {state}" if state != "pending" else "it has expired; send the call again to ask anew"
        raise UsageError(f"the approval request {request_id!r} cannot be decided: {why}")
    if stored.request.arguments is None:
        raise UsageError(
            f"the decision about {request_id!r} is kept, but its arguments hold a secret and were not: send the call again"
        )
    return stored.request
