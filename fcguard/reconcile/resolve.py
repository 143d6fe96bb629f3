"""Let a person decide about a call that no machine can, and read envelopes back from the ledger."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fcguard.config import Config
from fcguard.errors import StoreError, UsageError
from fcguard.io import IO
from fcguard.model.call import Call
from fcguard.model.context import TaskContext
from fcguard.model.evidence import Evidence
from fcguard.model.failure import ErrorType, Failure, FailureClass, NextAction
from fcguard.model.intent import Intent
from fcguard.model.result import ENVELOPE_FIELDS, ToolResult
from fcguard.model.secrets import PLAIN_REDACTOR
from fcguard.model.states import OPEN_STATES, CallState
from fcguard.model.tool import Tool
from fcguard.reconcile.history import origin_of
from fcguard.reconcile.takeover import Witness, take_over
from fcguard.stores.base import Accepted, Event, Move, Store, StoredCall
from fcguard.stores.tombstone import tombstone_of

__all__ = ["envelope_of", "find_call", "resolve_call"]


def find_call(store: Store, request_id: str) -> StoredCall:
    """Answer the row of a call.

    Raises:
        UsageError: the ledger does not hold it.
    """
    row = store.get(request_id)
    if row is None:
        buried = tombstone_of(store, request_id)
        if buried is not None:
            raise UsageError(f"the call {buried}. Look the effect up where it took place")
        raise UsageError(f"the ledger holds no call {request_id!r}; `fcguard list` shows those it holds")
    return row


def envelope_of(row: StoredCall) -> ToolResult[Any]:
    """Answer the envelope of a call as the ledger holds it; of an open call without one, that it is pending."""
    stored = row.result
    if stored is None:
        return _pending(row)
    fields = {name: stored.get(name) for name in ENVELOPE_FIELDS}
    failure_class = fields["failure_class"]
    fields["failure_class"] = None if failure_class is None else FailureClass(failure_class)
    fields["evidence"] = tuple(Evidence(**item) for item in fields["evidence"] or ())
    return ToolResult(**fields)  # type: ignore[arg-type]


def _pending(row: StoredCall) -> ToolResult[Any]:
    identity = row.identity
    failure = Failure.of(
        ErrorType.UNCERTAIN_RESULT,
        f"The call is still open ({row.state}): it is pending, do not repeat it. Ask for {identity.request_id} again later.",
        "record",
        effect="unknown" if row.attempt else "none",
    )
    return ToolResult(**_fields(row, failure))


def _fields(row: StoredCall, failure: Failure | None) -> dict[str, Any]:
    """Answer the fields of an envelope for a call that has none."""
    identity = row.identity
    return {
        "success": failure is None,
        "error_type": None if failure is None else failure.error_type,
        "retryable": False,
        "tool_name": identity.tool,
        "request_id": identity.request_id,
        "normalized_args": None,
        "data": None,
        "evidence": (),
        "message": "" if failure is None else failure.message,
        "next_action": "continue" if failure is None else failure.next_action,
        "failure_class": None if failure is None else failure.failure_class,
        "effect": "applied" if failure is None else failure.effect,
        "outcome_basis": None,
        "attempts": row.attempt,
        "duration_ms": round((row.updated_at - row.created_at) * 1000, 3),
        "trace_id": None,
        "tool_version": identity.tool_version,
        "task_id": None if identity.task_id == "-" else identity.task_id,
        "step": identity.step,
    }


async def resolve_call(
    config: Config, io: IO, witness: Witness, request_id: str, *, applied: bool, by: str, reason: str
) -> ToolResult[Any]:
    """Close an open call as a person decides; see `Guard.resolve`. It is traced as a later part of the call."""
    if not by.strip() or not reason.strip():
        raise UsageError("resolve needs by= and reason=: who decides, and how they know")
    store, observer = config.store, config.observer
    row = await io.call(find_call, store, request_id)
    row = await _parked(row, store, io, witness)
    call = _later_part(row, config)
    call.observed = await io.call(origin_of, store, request_id)
    observer.call_started(call)
    try:
        result = _decided(row, applied=applied, by=by, reason=reason)
        if call.trace_id is not None:
            result = replace(result, trace_id=call.trace_id)
        await _close(
            row, call, result, {"applied": applied, "by": by, "reason": PLAIN_REDACTOR.text(reason)}, store, io
        )
        call.result = result
    finally:
        observer.call_ended(call)
    return result


async def _close(
    row: StoredCall, call: Call, result: ToolResult[Any], decision: dict[str, Any], store: Store, io: IO
) -> None:
    published = result.model_dump(mode="json")
    body = {"request_id": call.request_id, **decision, "result": published}
    if call.span_id is not None:
        body |= {"trace_id": call.trace_id, "span_id": call.span_id}
    state = CallState.SUCCEEDED if result.success else CallState.FAILED
    event = Event("resolved", io.now(), body)
    answer = await io.commit(store, Move(call.request_id, row.version, state, row.attempt, event, published))
    if not isinstance(answer, Accepted):
        raise StoreError(
            f"{call.request_id!r} was moved by somebody else while it was resolved (now {answer.state}); look at it again"
        )


def _later_part(row: StoredCall, config: Config) -> Call:
    """Answer the call as far as telemetry wants to know it; the guard need not have its tool."""
    identity = row.identity
    call = Call(identity.request_id, Intent(identity.tool), identity.purpose, None, None)  # type: ignore[arg-type]
    prepared = config.tools.get(identity.tool)
    if prepared is not None and prepared.tool.version == identity.tool_version:
        call.tool = prepared.tool
    else:
        call.tool = Tool(
            name=identity.tool, parameters={}, fn=_elsewhere, version=identity.tool_version, effect=identity.effect
        )
    call.context = TaskContext(task_id="" if identity.task_id == "-" else identity.task_id)
    call.step, call.is_resumed = identity.step, True
    return call


def _elsewhere(**_: Any) -> None:
    """Stand for the function of a tool that only another process has."""


async def _parked(row: StoredCall, store: Store, io: IO, witness: Witness) -> StoredCall:
    """Answer the call parked; one that waits for a machine is taken over and parked first.

    Raises:
        UsageError: it has ended, was never sent, or a living process works on it.
    """
    request_id, now = row.identity.request_id, io.now()
    if row.state is CallState.PARKED:
        return row
    if row.state not in OPEN_STATES:
        raise UsageError(f"{request_id!r} has ended already ({row.state}); only open calls can be resolved")
    if not row.attempt:
        raise UsageError(f"{request_id!r} was never sent ({row.state}); there is no effect to decide about")
    if not (witness.may_take(row, now) or row.next_at is not None):
        raise UsageError(f"{request_id!r} is being worked on by the process {row.owner}; wait until it ends, or end it")
    taken = take_over(row, witness.liveness(row.owner), witness.here, now, None)
    body = {**taken.event.payload, "why": "a person decides"}
    parked = replace(taken, state=CallState.PARKED, event=Event("claimed", now, body))
    answer = await io.commit(store, parked)
    if not isinstance(answer, Accepted):
        raise StoreError(
            f"{request_id!r} was moved by somebody else while it was resolved (now {answer.state}); look at it again"
        )
    return replace(row, state=CallState.PARKED, version=answer.version)


def _decided(row: StoredCall, *, applied: bool, by: str, reason: str) -> ToolResult[Any]:
    said = PLAIN_REDACTOR.text(f"{by} resolved it as {'applied' if applied else 'not applied'}: {reason}")
    known = envelope_of(row)
    if applied:
        decided: Mapping[str, Any] = {
            "success": True, "error_type": None, "retryable": False, "message": said, "next_action": "continue",
            "failure_class": None, "effect": "applied", "outcome_basis": "operator",
        }  # fmt: skip
    else:
        decided = {
            "success": False, "error_type": ErrorType.CANCELLED.value, "retryable": True, "message": said,
            "next_action": NextAction.RETRY_LATER.value, "failure_class": FailureClass.CONTROL, "effect": "not_applied",
            "outcome_basis": None,
        }  # fmt: skip
    return replace(known, **decided)
