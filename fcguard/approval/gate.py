"""The one place where a call meets its approval: whether it needs one, whether it has one, and what to say if not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from inspect import isawaitable
from typing import Any, Final

from fcguard.approval.approvers import Deferred
from fcguard.approval.request import ApprovalRequest, Decision, make_request
from fcguard.approval.store import ApprovalStore, GrantStore, StoredApproval, time_of
from fcguard.io import IO
from fcguard.model.call import Call
from fcguard.model.failure import ErrorType, Violation
from fcguard.model.frozen import thaw
from fcguard.model.secrets import MASK
from fcguard.model.tool import Tool

__all__ = ["Approved", "Modified", "consult", "needs_approval", "review"]

_TTL_SECONDS: Final = 900.0
_STOP: Final = "Nothing was sent. Do not send it again, in these or other words, and do not look for a way around: stop and report."


@dataclass(frozen=True, slots=True)
class Approved:
    """How a call came to its approval.

    Attributes:
        by: who approved.
        source: `decision` of a person, or a `grant` given in advance.
        reference: id of the request or of the grant.
        digest: digest that the approval is bound to; empty for a grant.
        reason: why, if given.
        arguments: arguments to run instead; None: as proposed.
    """

    by: str
    source: str
    reference: str
    digest: str = ""
    reason: str = ""
    arguments: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Modified:
    """An approval of other arguments than proposed; they have to be validated like any others.

    Attributes:
        arguments: all arguments that the model could have sent (without those that the host fills in).
        approval: who approved, and how.
    """

    arguments: Mapping[str, Any]
    approval: Approved


def needs_approval(tool: Tool, call: Call) -> bool | Any:
    """Answer whether a call needs approval.

    Args:
        tool: its `approval` is `required`, `never`, a rule `(call) -> truthy`, or None: destructive tools only.
        call: the call, its arguments normalized. Confirmations need none: they are reads that the platform runs.

    Returns:
        A bool, or what an async rule answers: an awaitable.
    """
    if call.purpose == "confirm" or tool.approval == "never":
        return False
    if tool.approval is None:
        return tool.effect == "destructive"
    return True if isinstance(tool.approval, str) else tool.approval(call)


async def consult(
    call: Call, approver: Any, grants: GrantStore | None, io: IO, now: float, *, policy_version: str = "1"
) -> Violation | Modified | None:
    """Ask whether a call is approved.

    Args:
        call: the call; tool, context and arguments are filled.
        approver: who is asked; None: nobody, so only a grant lets the call pass.
        grants: approvals given in advance; None: none.
        io: runs the approver and the stores.
        now: wall clock in seconds.
        policy_version: version of the policy that asks; part of what an approval is bound to.

    Returns:
        None: approved as it is, or no approval needed. `Modified`: approved with other arguments. `Violation`: refused.
    """
    answer = await review(call, approver, grants, io, now, policy_version=policy_version)
    if not isinstance(answer, Approved):
        return answer
    return None if answer.arguments is None else Modified(answer.arguments, answer)


async def review(
    call: Call, approver: Any, grants: GrantStore | None, io: IO, now: float, *, policy_version: str = "1"
) -> Violation | Approved | None:
    """Do what `consult` does, and answer who approved and how; None: no approval was needed."""
    tool = call.tool
    assert tool is not None, "approval comes after the tool is known"
    try:
        needed = await _ask(io, needs_approval, tool, call) if callable(tool.approval) else needs_approval(tool, call)
    except Exception as error:
        return _failed("approval rule", error)
    if not needed:
        return None
    reason = needed.message if isinstance(needed, Violation) else ""
    ttl = getattr(approver, "ttl_seconds", _TTL_SECONDS)
    try:
        if isinstance(approver, Deferred):
            now = await io.call(time_of, approver.store, now)
        request = make_request(call, tool, now=now, ttl=ttl, policy_version=policy_version, reason=reason)
        if grants is not None:
            grant = await io.call(grants.use, request.tool, request.version, call.arguments, request.identity, now)
            if grant is not None:
                return Approved(grant.by, "grant", grant.grant_id)
        if isinstance(approver, Deferred):
            return await _look_up(call, approver.store, request, io, now)
        if approver is None:
            return _required(request, "Nobody can be asked here.")
        decision = await _ask(io, approver, request)
    except Exception as error:
        return _failed("approver", error)
    return _judge(call, request, decision, io.now())


async def _ask(io: IO, fn: Any, *args: Any) -> Any:
    answer = await io.call(fn, *args)
    return await answer if isawaitable(answer) else answer


async def _look_up(
    call: Call, store: ApprovalStore, request: ApprovalRequest, io: IO, now: float
) -> Violation | Approved:
    stored: StoredApproval = await io.call(store.put, request, now)
    if stored.request.subject != request.subject:
        # The call asked before, for another environment; this is a question of its own.
        request = replace(request, request_id=f"{request.request_id}.{request.subject[:8]}")
        stored = await io.call(store.put, request, now)
    if stored.state == "approved" and stored.is_open(now):
        taken: StoredApproval | None = await io.call(store.take, stored.request.request_id, now)
        if taken is not None and taken.decision is not None:
            return _approved(call, taken.request, taken.decision, request.shown)
        # Another call used it in this very moment, or its time was over: what waits now is another request.
        stored = await io.call(store.put, request, now)
    if not stored.is_open(now):
        return _required(stored.request, "Its approval was used or has expired, and is good for one call only.")
    if stored.state == "denied" and stored.decision is not None:
        return _denied(call, stored.decision)
    if stored.state == "approved":
        return _pending(call, stored.request, "It was approved in this very moment; send the same call again.")
    return _pending(call, stored.request, "The request waits for a decision.")


def _judge(call: Call, request: ApprovalRequest, decision: Any, now: float) -> Violation | Approved:
    if decision is None:
        return _pending(call, request, "Nobody has decided yet.")
    if not isinstance(decision, Decision):
        return _failed("approver", TypeError(f"answered {type(decision).__name__} instead of a Decision"))
    if decision.digest is not None and decision.digest != request.digest:
        return _required(
            request, "The decision at hand is about another call; an approval covers exactly what was shown."
        )
    if not decision.approved:
        return _denied(call, decision)
    if now >= request.expires_at or (decision.expires_at is not None and now >= decision.expires_at):
        return _required(request, "The approval has expired.")
    return _approved(call, request, decision, request.shown)


def _approved(
    call: Call, request: ApprovalRequest, decision: Decision, shown: Mapping[str, Any]
) -> Violation | Approved:
    arguments = None
    if decision.modified_arguments is not None:
        arguments = _modified(call, decision.modified_arguments, shown)
        if arguments is None:
            return Violation(
                ErrorType.APPROVAL_DENIED,
                f"The approver changed what only the host may set, or left a masked value that stands for nothing. {_STOP}",
            )
    return Approved(decision.by, "decision", request.request_id, request.digest, decision.reason, arguments)


def _modified(call: Call, modified: Mapping[str, Any], shown: Mapping[str, Any]) -> dict[str, Any] | None:
    """Put secrets back where their masks were left, and leave out what the host fills in; None if that is not possible."""
    hidden = call.tool.hidden if call.tool is not None else frozenset()
    out: dict[str, Any] = {}
    for name, value in modified.items():
        if name in hidden:
            if value != shown.get(name):
                return None
            continue
        out[name] = thaw(_unmask(value, call.arguments.get(name), shown.get(name)))
    return None if _holds_mask(out, call.arguments) else out


def _unmask(value: Any, original: Any, shown: Any) -> Any:
    if value == shown:
        return original
    if isinstance(value, dict) and isinstance(original, dict) and isinstance(shown, dict):
        return {name: _unmask(item, original.get(name), shown.get(name)) for name, item in value.items()}
    return value


def _holds_mask(value: Any, original: Any) -> bool:
    if isinstance(value, str):
        return MASK in value and value != original
    if isinstance(value, dict):
        return any(
            _holds_mask(item, original.get(name) if isinstance(original, dict) else None)
            for name, item in value.items()
        )
    if isinstance(value, list):
        return value != original and any(_holds_mask(item, None) for item in value)
    return False


def _pending(call: Call, request: ApprovalRequest, why: str) -> Violation:
    # The same question asked again is the request of the call that asked first, so the host is told which one to decide.
    call.blocked_by = request.request_id
    return _required(request, why)


def _required(request: ApprovalRequest, why: str) -> Violation:
    return Violation(
        ErrorType.APPROVAL_REQUIRED,
        f"{request.tool!r} with these arguments needs the approval of a person (request {request.request_id}). {why} "
        "Nothing was sent; ask for the approval, and do not change the call meanwhile.",
    )


def _denied(call: Call, decision: Decision) -> Violation:
    if decision.is_timeout:
        said = "timed out: nobody approved this call in time, and no answer means no"
    else:
        reason = call.redactor.text(decision.reason) if call.redactor is not None else decision.reason
        said = f"this call was not approved{f' ({reason})' if reason else ''}; the answer is about the action, not its wording"
    return Violation(ErrorType.APPROVAL_DENIED, f"Approval {said}. {_STOP}")


def _failed(what: str, error: Exception) -> Violation:
    return Violation(
        ErrorType.RULE_FAILED,
        f"The {what} failed ({type(error).__name__}), so the call was refused. This is a fault of the platform, not of the call.",
    )
