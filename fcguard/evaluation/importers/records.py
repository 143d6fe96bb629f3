"""Flat call records (one object a call) to `CallRecord`, for the list formats and the ledger."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fcguard.evaluation.importers.fields import (
    REPLAYS,
    arguments_of,
    attempts_of,
    effect_of,
    effect_state_of,
    first_of,
    number_of,
    outcome_of,
    result_hash_of,
    status_of,
    words_of,
)
from fcguard.evaluation.trace import Attempt, CallRecord, CallStatus, Session
from fcguard.model.failure import Problem

__all__ = ["call_from_record", "session_from_record"]

_ARGUMENTS = ("raw_arguments", "arguments", "args", "params", "parameters", "input", "normalized_args")


def call_from_record(record: Mapping[str, Any], position: int) -> CallRecord:
    """Read one call from a flat object; fields that are not there stay not recorded.

    Args:
        record: the object. `tool` (or `tool_name`, `name`) is the only field that is needed.
        position: its position in the session, from 0.
    """
    status = _status(record)
    sent = _sent(record, status)
    step = record.get("step")
    confirmed = first_of(record, "confirmed_by_human", "approved")
    consumed = record.get("consumed")
    tokens = record.get("tokens")
    millis = number_of(record.get("duration_ms"))
    server = first_of(record, "server", "server_name")
    subtask = record.get("subtask_id")
    key = record.get("idempotency_key")
    error_type = record.get("error_type")
    return CallRecord(
        call_id=str(first_of(record, "call_id", "request_id", "id") or f"call-{position + 1}"),
        tool=str(first_of(record, "tool", "tool_name", "name") or ""),
        server=None if server is None else str(server),
        step=step if isinstance(step, int) else position + 1,
        **arguments_of(record, *_ARGUMENTS),
        executed_arguments=_executed(record),
        defaults=words_of(record.get("defaults")),
        validation=_problems(record.get("validation")),
        attempts=_attempts(record, status),
        status=status,
        sent=sent,
        error_type=None if error_type is None else str(error_type),
        effect=effect_of(record.get("effect")) or effect_of(record.get("tool_effect")),
        effect_state=effect_state_of(first_of(record, "effect_state", "effect")),
        result_hash=result_hash_of(record),
        idempotency_key=None if key is None else str(key),
        confirmed_by_human=confirmed if isinstance(confirmed, bool) else None,
        consumed=consumed if isinstance(consumed, bool) else None,
        cost=number_of(record.get("cost")),
        tokens=tokens if isinstance(tokens, int) and not isinstance(tokens, bool) and tokens >= 0 else None,
        seconds=number_of(first_of(record, "seconds", "latency")) if millis is None else millis / 1000,
        depends_on=words_of(record.get("depends_on")),
        subtask_id=None if subtask is None else str(subtask),
        evidence=_references(record.get("evidence")),
    )


def session_from_record(
    record: Mapping[str, Any], calls: tuple[CallRecord, ...], number: int, task_id: str | None
) -> Session:
    """Make a session from the fields that lie beside its calls."""
    trial = record.get("trial")
    trial = trial if isinstance(trial, int) else 0
    task = str(first_of(record, "task_id", "id") or task_id or number)
    told = record.get("reason_told")
    return Session(
        session_id=str(record.get("session_id") or f"{task}#{trial}"),
        task_id=task,
        trial=trial,
        slice=str(first_of(record, "slice", "category") or ""),
        outcome=outcome_of(first_of(record, "outcome", "passed", "reward")),
        calls=calls,
        reason_told=told if isinstance(told, bool) else None,
    )


def _executed(record: Mapping[str, Any]) -> dict[str, Any] | None:
    executed = record.get("executed_arguments")
    return dict(executed) if isinstance(executed, Mapping) else None


def _status(record: Mapping[str, Any]) -> CallStatus:
    word = first_of(record, "status", "state")
    if word is not None:
        return status_of(word)
    if isinstance(record.get("success"), bool):
        if not record["success"] and record.get("attempts") == 0:
            return "refused"
        return status_of(record["success"])
    flag = first_of(record, "is_error", "isError")
    if isinstance(flag, bool):
        return "failed" if flag else "succeeded"
    return "failed" if record.get("error") else "unknown"


def _sent(record: Mapping[str, Any], status: CallStatus) -> bool | None:
    """Answer whether anything was dispatched; None if the record does not say."""
    said = [record.get(name) for name in ("outcome_basis", "status", "state")]
    if status == "refused" or any(isinstance(word, str) and word.strip().lower() in REPLAYS for word in said):
        return False
    rows = record.get("attempts")
    return bool(rows) if isinstance(rows, list) else None


def _attempts(record: Mapping[str, Any], status: CallStatus) -> tuple[Attempt, ...]:
    rows = record.get("attempts")
    if isinstance(rows, list):
        return tuple(
            Attempt(_status(row), row.get("error_type"), number_of(row.get("seconds")))
            for row in rows
            if isinstance(row, Mapping)
        )
    if isinstance(rows, int) and not isinstance(rows, bool) and rows > 0:
        return attempts_of(status, rows - 1)
    return attempts_of(status, first_of(record, "retry_count", "retries"))


def _problems(value: Any) -> tuple[Problem, ...] | None:
    if not isinstance(value, list):
        return None
    return tuple(
        Problem(str(row.get("path", "")), str(row.get("rule", "")), str(row.get("message", "")))
        for row in value
        if isinstance(row, Mapping)
    )


def _references(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        return words_of(value)
    return tuple(str(first_of(item, "ref", "path") if isinstance(item, Mapping) else item) for item in value)
