"""The guard's own records, as plain dicts: one a call, calls of one session next to each other.

This reader is on purpose thin. `ledger_events.records_of` makes dicts of this shape of a ledger's events; anybody may (all
but `tool` is optional)::

    {"request_id": "fc-20260130-00128", "task_id": "t-1", "session_id": "t-1#0", "trial": 0, "step": 3,
     "tool": "create_order", "server": null, "tool_effect": "write",
     "raw_arguments": "{...}", "executed_arguments": {}, "defaults": ["limit"], "state": "SUCCEEDED", "error_type": null, "effect": "applied",
     "validation": [{"path": "", "rule": "", "message": ""}],
     "attempts": [{"status": "failed", "error_type": "TIMEOUT", "seconds": 2.0}, {"status": "succeeded"}],
     "outcome_basis": "returned",
     "result_digest": "...", "idempotency_key": "...", "approved": true, "purpose": "primary",
     "tokens": 12, "cost": 0.1, "duration_ms": 20.5, "evidence": [{"type": "log", "ref": "logs/..."}],
     "outcome": "passed", "reason_told": true}

`tool_effect` is what the tool does, `effect` what is known of this call's effect. `raw_arguments` is what the model sent,
`executed_arguments` what it was folded to, without what the host filled, and `defaults` the places (dotted) that a default
filled; both may be left out where nothing was changed. An empty list of `attempts`, or the `outcome_basis` `replayed`, says
that nothing was sent; a record without `attempts` does not say. Calls whose `purpose` is `confirm` or
`fallback` belong to another call's recovery and are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fcguard.evaluation.importers.options import ImportOptions
from fcguard.evaluation.importers.records import call_from_record, session_from_record
from fcguard.evaluation.trace import CallRecord, Session, UnreadLog

__all__ = ["read", "recognises"]


def recognises(value: Any) -> bool:
    """Whether a value is a record of one governed call."""
    if not isinstance(value, Mapping) or "request_id" not in value:
        return False
    return ("tool" in value or "tool_name" in value) and any(name in value for name in ("state", "status", "success"))


def read(values: Iterable[tuple[str, Any]], unread: UnreadLog, options: ImportOptions) -> Iterator[Session]:
    """Yield a session each time the session id (else the task id and trial) changes.

    Args:
        values: (place, record); records of one session must be next to each other.
        unread: where records that cannot be read, and sessions that come twice, are noted.
        options: `task_id` is the task of records that name none.
    """
    current: tuple[str, ...] | None = None
    last: Mapping[str, Any] = {}
    calls: list[CallRecord] = []
    done: set[tuple[str, ...]] = set()
    number = 0
    for where, value in values:
        if not recognises(value):
            unread.add(where, "not a record of a governed call: request_id, tool and state are needed")
            continue
        if value.get("purpose") in ("confirm", "fallback"):
            continue
        key = _session_key(value)
        if key != current:
            if current is not None:
                yield session_from_record(last, tuple(calls), number, options.task_id)
                number += 1
                done.add(current)
            if key in done:
                unread.add(where, f"session {key[0]!r} goes on after another one began; it is counted as a new session")
            current, calls = key, []
        last = {**last, **value} if calls else value
        calls.append(call_from_record(value, len(calls)))
    if current is not None:
        yield session_from_record(last, tuple(calls), number, options.task_id)


def _session_key(value: Mapping[str, Any]) -> tuple[str, ...]:
    session = value.get("session_id")
    return (str(session),) if session is not None else (str(value.get("task_id", "")), str(value.get("trial", 0)))
