"""Step 8: make the envelope and write the call, its attempts, result and evidence to the ledger. Always runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from fcguard.config import Config
from fcguard.constraints.admission import release
from fcguard.io import IO
from fcguard.model.call import UNFILLED, Call
from fcguard.model.context import OUTSIDE
from fcguard.model.failure import EffectState, Failure
from fcguard.model.frozen import thaw
from fcguard.model.result import ENVELOPE_FIELDS, ToolResult
from fcguard.model.secrets import Redactor, writable
from fcguard.model.states import CallState
from fcguard.recovery.confirm import note_reading
from fcguard.recovery.table import is_retryable
from fcguard.results.contract import flag_incomplete
from fcguard.steps.late import record_late_results
from fcguard.stores.journal import close_call

__all__ = ["record_evidence"]


async def record_evidence(call: Call, config: Config, io: IO) -> None:
    """Fill `call.result` and make it durable; a store that fails after the work was done never turns it into a failure."""
    try:
        await _record(call, config, io)
    except (
        KeyboardInterrupt,
        SystemExit,
    ):  # by a signal, at any line: once more, or a row stays open that nobody works on
        if call.ledger_version is not None and not call.is_recorded:
            await _record(call, config, io)
        raise


async def _record(call: Call, config: Config, io: IO) -> None:
    if call.admitted or (call.attempts and call.attempts[-1].failure is None and call.failure is not None):
        try:
            await _finish_interrupted(call, config, io)
        finally:  # also if the caller is cancelled once more
            await _write(call, config, io)
    else:
        await _write(call, config, io)


async def _write(call: Call, config: Config, io: IO) -> None:
    if call.context is UNFILLED:  # interrupted before the first step
        call.context = OUTSIDE
    if config.logs is not None:
        log = config.logs.take(call)
        if log is not None:
            call.attach(log)
    if call.failure is not None:
        call.failure = _masked(call.failure, call.redactor)
    published = _published(call, io)
    if call.failure is not None and call.context.output is not None:
        flag_incomplete(call, published)
    record = _Record(call, published)
    try:
        await close_call(call, _state(call), record, config.store, io)
    except Exception as error:  # a third-party store's mistakes included: the work is done, only its record is not
        call.flag("evidence_pending")
        published["message"] = published["message"] or _pending(error)
    finally:  # also if the caller is interrupted meanwhile
        _conclude(call, published, config, io)


def _conclude(call: Call, published: dict[str, Any], config: Config, io: IO) -> None:
    _add_unpublished(published, call)
    if call.result is UNFILLED:
        call.result = ToolResult.of(published)
    if call.purpose == "confirm":
        note_reading(call)
    attempts = call.attempts
    if attempts:
        last = attempts[-1]
        if last.late is not None or len(attempts) > 1:
            record_late_results(call, config, io)
        last.value = None  # the ledger may hold on to the call; it need not hold on to the tool's objects
    call.returned = None


class _Record:
    """Makes the envelope as the ledger may hold it, when the ledger looks at it: with the secrets masked.

    The envelope gets a copy of the data at once, because that one is the caller's to change. A ledger in memory holds many
    records that nobody looks at, so a record is small: the bare values, in the order of the published fields.
    """

    __slots__ = ("_redactor", "_values")

    def __init__(self, call: Call, published: dict[str, Any]) -> None:
        self._redactor, self._values = call.redactor, (*published.values(),)
        published["data"] = thaw(call.data)

    def __call__(self) -> dict[str, Any]:
        redactor = self._redactor
        record = dict(zip(ENVELOPE_FIELDS, self._values, strict=True))
        record["data"] = redactor.value(record["data"])
        record["normalized_args"] = redactor.value(record["normalized_args"])
        record["evidence"] = [item.model_dump() for item in record["evidence"]]
        if record["failure_class"] is not None:
            record["failure_class"] = record["failure_class"].value
        return record


async def _finish_interrupted(call: Call, config: Config, io: IO) -> None:
    """Close what an interruption left open, so that constraints and spans hear of the attempt exactly once."""
    attempt = call.attempts[-1] if call.attempts and call.attempts[-1].failure is None else None
    rest = release(call, attempt, io)
    if attempt is not None and call.failure is not None:
        attempt.failure = call.failure
        config.observer.attempt_ended(call, attempt)
    if rest is not None:
        await rest


_OWN_WORDS: Final = frozenset({"normalize", "schema"})
"""Layers whose messages are built here and name fields as prose does (`password: too short`); only known values are masked."""


_LONGEST_MESSAGE: Final = 10_000
"""Characters; a model reads less, and the ledger keeps every one."""


def _masked(failure: Failure, redactor: Redactor) -> Failure:
    """Answer a failure whose words hold no secret, whoever wrote them: tools, rules, constraints, confirmations."""
    mask = redactor.known if failure.layer in _OWN_WORDS else redactor.text
    message = writable(mask(failure.message))
    if len(message) > _LONGEST_MESSAGE:
        message = message[:_LONGEST_MESSAGE] + "…"
    problems = tuple(replace(problem, message=writable(mask(problem.message))) for problem in failure.problems)
    if message is failure.message and problems == failure.problems:
        return failure
    return replace(failure, message=message, problems=problems)


def _pending(error: Exception) -> str:
    return f"Done, but the record of it could not be written yet ({type(error).__name__})."


def _state(call: Call) -> CallState:
    failure = call.failure
    if failure is None:
        return CallState.SUCCEEDED
    if call.ledger_version is None:
        return CallState.FAILED if call.attempts else CallState.REJECTED
    if _effect(call, failure) != "unknown":
        return CallState.FAILED if call.attempts else CallState.REJECTED
    if call.was_interrupted:  # nobody judged it: recovery goes on where this process stopped, as after a crash
        return CallState.UNCERTAIN if call.attempts else CallState.PARKED  # it was handed to a fallback
    if call.is_resumed:
        return CallState.PARKED if call.due_at is None else CallState.UNCERTAIN
    if call.tool is not None and call.tool.effect == "idempotent_write":
        return CallState.UNCERTAIN
    return CallState.PARKED if call.confirmations or failure.layer != "execute" else CallState.UNCERTAIN


def _published(call: Call, io: IO) -> dict[str, Any]:
    """Answer the published fields of the envelope, in their order."""
    failure, tool = call.failure, call.tool
    arguments: Mapping[str, Any] | None = call.arguments
    if arguments is UNFILLED:
        arguments = None
    elif (
        failure is not None or call.prepared.may_hold_secrets
    ):  # what a closed schema without one admits holds no secret
        arguments = call.redactor.value(arguments)
    if failure is None:
        error_type, failure_class, next_action = None, None, "continue"
        message = call.redactor.words(call.message) if call.message else ""
        is_again, effect = False, call.effect
    else:
        effect = _effect(call, failure)
        error_type, failure_class = failure.error_type, failure.failure_class
        message, next_action = failure.message, failure.next_action
        is_again = effect != "unknown" or (tool is not None and tool.effect == "idempotent_write")
        is_again = is_again and is_retryable(failure, tool.effect if tool is not None else "read")
    return {
        "success": failure is None,
        "error_type": error_type,
        "retryable": is_again,
        "tool_name": tool.name if tool is not None else call.redactor.words(call.proposal.tool_text),
        "request_id": call.request_id,
        "normalized_args": arguments,
        "data": call.data,
        "evidence": call.evidence,
        "message": message,
        "next_action": next_action,
        "failure_class": failure_class,
        "effect": effect,
        "outcome_basis": call.basis if failure is None else None,
        "attempts": len(call.attempts),
        "duration_ms": int((io.monotonic() - call.started) * 1e6 + 0.5) / 1000,  # half the time of round(..., 3)
        "trace_id": call.trace_id,
        "tool_version": tool.version if tool is not None else "",
        "task_id": call.context.task_id or None,
        "step": call.step,
    }


def _add_unpublished(fields: dict[str, Any], call: Call) -> None:
    """Add the fields outside the JSON form that are not at their default."""
    fields["returned"] = call.returned
    failure = call.failure
    if failure is not None:
        fields["retry_after"], fields["problems"] = failure.retry_after, failure.problems
        if call.attempts:
            fields["raised"] = call.attempts[-1].error
    if call.flags:
        fields["flags"] = call.flags
    tool = call.tool
    if tool is not None:
        if tool.untrusted:
            fields["is_untrusted"] = True
        if call.prepared.secrets:
            fields["secret_names"] = call.prepared.secrets
    if call.answered_by is not None:
        fields["answered_by"] = call.answered_by
    if call.blocked_by is not None:
        fields["blocked_by"] = call.blocked_by


def _effect(call: Call, failure: Failure) -> EffectState:
    """Answer what is known of the whole call's effect: one attempt that is still unknown makes it unknown."""
    if call.tool is None or call.tool.is_read:
        return "none"
    states = {attempt.effect for attempt in call.attempts}
    if "unknown" in states or failure.effect == "unknown":
        return "unknown"
    if failure.effect == "applied":  # by an earlier call, of which only the key is left
        return "applied"
    return "not_applied" if "not_applied" in states else "none"
