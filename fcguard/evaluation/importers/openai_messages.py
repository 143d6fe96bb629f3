"""OpenAI message lists: one conversation a file, or one a line, with or without `task_id`, `trial` and `outcome` beside."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fcguard.evaluation.importers.fields import first_of, outcome_of
from fcguard.evaluation.importers.messages import MessageReader, read_messages
from fcguard.evaluation.importers.options import ImportOptions
from fcguard.evaluation.trace import Session, UnreadLog

__all__ = ["read", "recognises"]


def recognises(value: Any) -> bool:
    """Whether a value is a message, a list of messages, or an object that holds a list of messages."""
    if isinstance(value, list):
        return bool(value) and _is_message(value[0])
    return isinstance(value, Mapping) and (isinstance(value.get("messages"), list) or _is_message(value))


def read(values: Iterable[tuple[str, Any]], unread: UnreadLog, options: ImportOptions) -> Iterator[Session]:
    """Yield a session for each conversation; loose messages on the top level together are one conversation."""
    loose: MessageReader | None = None
    for number, (where, value) in enumerate(values):
        if isinstance(value, list):
            yield _session({}, value, number, where, unread, options)
        elif isinstance(value, Mapping) and isinstance(value.get("messages"), list):
            yield _session(value, value["messages"], number, where, unread, options)
        elif _is_message(value):
            loose = loose or MessageReader(unread, where, results_by=options.results_by)
            loose.add(value)
        else:
            unread.add(where, "neither a message nor a list of messages")
    if loose is not None:
        task_id = options.task_id or "0"
        yield Session(task_id, task_id, calls=tuple(loose.calls), reason_told=bool(loose.reason_told))


def _is_message(value: Any) -> bool:
    return isinstance(value, Mapping) and (
        "role" in value or value.get("type") in ("function_call", "function_call_output")
    )


def _session(
    record: Mapping[str, Any], messages: list[Any], number: int, where: str, unread: UnreadLog, options: ImportOptions
) -> Session:
    reader = read_messages(messages, unread, where, results_by=options.results_by)
    task_id = str(first_of(record, "task_id", "id") if record else options.task_id or number)
    trial = record.get("trial")
    return Session(
        session_id=str(first_of(record, "session_id", "id") or f"{task_id}#{trial or 0}@{number}"),
        task_id=task_id,
        trial=trial if isinstance(trial, int) else 0,
        slice=str(record.get("slice") or ""),
        outcome=outcome_of(first_of(record, "outcome", "passed", "reward")),
        calls=tuple(reader.calls),
        reason_told=bool(reader.reason_told),
    )
