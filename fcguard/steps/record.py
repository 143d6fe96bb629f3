"""Step 8: make the envelope and write the call, its attempts, result and evidence to the ledger. Always runs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from fcguard.config import Config
from fcguard.constraints.admission import release
from fcguard.errors import StoreError
from fcguard.io import IO
from fcguard.model.call import Call
from fcguard.model.failure import EffectState, Failure, NextAction, Problem
from fcguard.model.result import ToolResult
from fcguard.model.states import CallState
from fcguard.recovery.table import is_retryable
from fcguard.stores.journal import close_call, watch_late

__all__ = ["record_evidence"]


async def record_evidence(call: Call, config: Config, io: IO) -> None:
    """Fill `call.result` and make it durable; a store that fails after the work was done never turns it into a failure."""
    if call.admitted or (call.attempts and call.attempts[-1].failure is None and call.failure is not None):
        _finish_interrupted(call, config, io)
    result = _envelope(call, io)
    record = _redacted(result, call)
    try:
        await close_call(call, _state(call), record, config.store, io)
    except StoreError as error:
        call.flag("evidence_pending")
        result = replace(result, flags=call.flags, message=result.message or _pending(error))
    else:
        if call.flags is not result.flags:
            result = replace(result, flags=call.flags)
    call.result = result
    if call.attempts and call.attempts[-1].late is not None:
        watch_late(call, call.attempts[-1], config.store, io.now)


def _redacted(result: ToolResult[Any], call: Call) -> dict[str, Any]:
    """Answer the envelope as the ledger may hold it; the arguments are masked in the envelope already."""
    record = result.model_dump(mode="json")
    redactor = call.redactor
    if result.data is not None:
        record["data"] = redactor.value(result.data)
    if result.message:
        record["message"] = redactor.text(result.message)
    return record


def _finish_interrupted(call: Call, config: Config, io: IO) -> None:
    """Close what an interruption left open, so that constraints and spans hear of the attempt exactly once."""
    attempt = call.attempts[-1] if call.attempts and call.attempts[-1].failure is None else None
    release(call, attempt, io.monotonic())
    if attempt is not None and call.failure is not None:
        attempt.failure = call.failure
        config.observer.attempt_ended(call, attempt)


def _pending(error: StoreError) -> str:
    return f"Done, but the record of it could not be written yet ({type(error).__name__})."


def _state(call: Call) -> CallState:
    failure = call.failure
    if failure is None:
        return CallState.SUCCEEDED
    if call.ledger_version is None:
        return CallState.FAILED if call.attempts else CallState.REJECTED
    if failure.effect != "unknown":
        return CallState.FAILED
    if call.tool is not None and call.tool.effect == "idempotent_write":
        return CallState.UNCERTAIN
    return CallState.PARKED if call.confirmations or failure.layer != "execute" else CallState.UNCERTAIN


def _envelope(call: Call, io: IO) -> ToolResult[Any]:
    failure, tool, context = call.failure, call.tool, getattr(call, "context", None)
    arguments = getattr(call, "arguments", None)
    if arguments is not None:
        arguments = call.redactor.value(arguments)
    attempts = len(call.attempts)
    problems: tuple[Problem, ...] = ()
    if failure is None:
        error_type, failure_class, next_action, message = None, None, NextAction.CONTINUE.value, call.message
        is_again, effect, retry_after = False, call.effect, None
    else:
        effect = _effect(call, failure)
        error_type, failure_class, message = failure.error_type, failure.failure_class, failure.message
        next_action, retry_after, problems = failure.next_action, failure.retry_after, failure.problems
        is_again = effect != "unknown" or (tool is not None and tool.effect == "idempotent_write")
        is_again = is_again and is_retryable(failure, tool.effect if tool is not None else "read")
    return ToolResult.of(
        {
            "success": failure is None,
            "error_type": error_type,
            "retryable": is_again,
            "tool_name": tool.name if tool is not None else str(call.proposal.tool or "")[:200],
            "request_id": call.request_id,
            "normalized_args": arguments,
            "data": call.data,
            "evidence": tuple(call.evidence),
            "message": message,
            "next_action": next_action,
            "failure_class": failure_class,
            "effect": effect,
            "outcome_basis": call.basis if failure is None else None,
            "attempts": attempts,
            "duration_ms": round((io.monotonic() - call.started) * 1000, 3),
            "trace_id": call.trace_id,
            "tool_version": tool.version if tool is not None else "",
            "task_id": (context.task_id or None) if context is not None else None,
            "step": call.step,
            "retry_after": retry_after,
            "problems": problems,
            "flags": call.flags,
            "answered_by": call.answered_by,
            "returned": call.returned,
        }
    )


def _effect(call: Call, failure: Failure) -> EffectState:
    """Answer what is known of the whole call's effect: one attempt that is still unknown makes it unknown."""
    if not call.attempts or call.tool is None or call.tool.is_read:
        return failure.effect if failure.effect == "unknown" and call.attempts else "none"
    states = {attempt.effect for attempt in call.attempts}
    if "unknown" in states or failure.effect == "unknown":
        return "unknown"
    return "not_applied" if "not_applied" in states else "none"
