"""Events of a ledger to the plain records that the `ledger` importer reads: one a call, in the order the calls began."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from fcguard.evaluation.canonical import digest
from fcguard.evaluation.importers.fields import task_and_trial, validation_of
from fcguard.model.failure import ErrorType

__all__ = ["LedgerEvent", "records_of"]

_STORE_KEY: Final = "fc"
_ENDED: Final = frozenset({"REJECTED", "SUCCEEDED", "FAILED"})
_OUTSIDE: Final = "-"


@dataclass(frozen=True, slots=True)
class LedgerEvent:
    """One event as a ledger holds it.

    Attributes:
        task_id: task of the call; `-` outside one.
        request_id: the call.
        kind: what happened.
        payload: the stored JSON, with the store's own facts under `fc`.
    """

    task_id: str
    request_id: str
    kind: str
    payload: Mapping[str, Any]


@dataclass(slots=True)
class _Story:
    """What the events of one call told so far."""

    payload: dict[str, Any] = field(default_factory=dict)
    columns: Mapping[str, Any] = field(default_factory=dict)
    state: str = ""
    dispatched: int = 0

    def hear(self, event: LedgerEvent) -> None:
        facts = event.payload.get(_STORE_KEY)
        facts = facts if isinstance(facts, Mapping) else {}
        self.columns = facts.get("call") or self.columns
        self.state = str(facts.get("state") or self.state)
        self.dispatched = max(self.dispatched, _whole_number(facts.get("attempt")))
        self.payload.update({name: value for name, value in event.payload.items() if name != _STORE_KEY})
        if isinstance(facts.get("result"), Mapping):  # an envelope that its event does not show itself
            self.payload["result"] = facts["result"]


def records_of(events: Iterable[LedgerEvent]) -> Iterator[dict[str, Any]]:
    """Turn events into records, one for each call that an agent made.

    Calls that belong to another call (its confirmation, its fallback, what a tool called itself) are left out. A task id
    `name#2` is read as trial 2 of the task `name`, which is how suites name their sessions.

    Args:
        events: those of one task next to each other, each task's in the order of its chain.

    Yields:
        Dicts as `fcguard.evaluation.importers.ledger` documents them. Memory holds the calls of one task that have begun
        before the oldest of them that has not ended.
    """
    task_id: str | None = None
    open_calls: dict[str, _Story] = {}
    for event in events:
        if event.task_id != task_id:
            yield from _finished(open_calls, task_id, everything=True)
            task_id, open_calls = event.task_id, {}
        story = open_calls.get(event.request_id)
        if story is None:
            if event.kind not in ("call", "opened"):  # a word about a call that has ended already
                continue
            story = open_calls[event.request_id] = _Story()
        story.hear(event)
        yield from _finished(open_calls, task_id)
    yield from _finished(open_calls, task_id, everything=True)


def _finished(
    open_calls: dict[str, _Story], task_id: str | None, *, everything: bool = False
) -> Iterator[dict[str, Any]]:
    while open_calls:
        request_id, story = next(iter(open_calls.items()))
        if not everything and story.state not in _ENDED:
            return
        del open_calls[request_id]
        if story.columns.get("purpose", "primary") == "primary" and not story.columns.get("parent_id"):
            yield _record(request_id, task_id or _OUTSIDE, story)


def _record(request_id: str, task_id: str, story: _Story) -> dict[str, Any]:
    payload, columns = story.payload, story.columns
    result = payload.get("result")
    result = result if isinstance(result, Mapping) else {}
    task, trial = task_and_trial(task_id)
    record: dict[str, Any] = {
        "request_id": request_id,
        "session_id": task_id,
        "task_id": task,
        "trial": trial,
        "step": columns.get("step"),
        "tool": payload.get("asked_for") or result.get("tool_name") or columns.get("tool") or "",
        "tool_effect": None if "asked_for" in payload else columns.get("effect"),
        "state": story.state,
        "purpose": "primary",
        "idempotency_key": columns.get("idempotency_key"),
        "attempts": _attempts(story),
    }
    for name in ("error_type", "effect", "outcome_basis", "duration_ms", "next_action", "message"):
        if result.get(name) is not None:
            record[name] = result[name]
    record.update(_arguments(payload, result))
    if result.get("success"):
        record["result_digest"] = digest(result.get("data"))
    if isinstance(payload.get("approval"), str):
        record["approved"] = True
    if result.get("evidence"):
        record["evidence"] = list(result["evidence"])
    record["validation"] = _validation(payload, result)
    return {name: value for name, value in record.items() if value is not None}


def _arguments(payload: Mapping[str, Any], result: Mapping[str, Any]) -> dict[str, Any]:
    """Answer the arguments as sent and, where they may differ, as executed; without what the host filled."""
    executed = result.get("normalized_args", payload.get("arguments"))
    hidden = payload.get("hidden")
    if isinstance(executed, Mapping) and isinstance(hidden, list):
        executed = {name: value for name, value in executed.items() if name not in hidden}
    if "raw" not in payload:
        return {} if executed is None else {"raw_arguments": executed}
    if not isinstance(executed, Mapping):
        return {"raw_arguments": payload["raw"]}
    folds = payload.get("folds")
    rows = [row for row in folds if isinstance(row, Mapping)] if isinstance(folds, list) else []
    filled = [str(row.get("path")) for row in rows if row.get("rule") == "default"]
    return {"raw_arguments": payload["raw"], "executed_arguments": executed, "defaults": filled}


def _validation(payload: Mapping[str, Any], result: Mapping[str, Any]) -> list[dict[str, str]] | None:
    """Answer what the guard found wrong with the arguments; None if it did not come to say."""
    found = validation_of(result.get("error_type"), payload.get("layer"), str(result.get("message") or ""))
    return None if found is None else [{"path": found.path, "rule": found.rule, "message": found.message}]


def _attempts(story: _Story) -> list[dict[str, Any]]:
    rows = story.payload.get("attempts")
    if isinstance(rows, list):
        return [_attempt(row) for row in rows if isinstance(row, Mapping)]
    millis = story.payload.get("attempt_ms")
    if millis is not None:
        return [{"status": "succeeded", "seconds": millis / 1000}]
    return [{"status": "uncertain"}] * story.dispatched  # its process ended before it could tell


def _attempt(row: Mapping[str, Any]) -> dict[str, Any]:
    error_type, millis = row.get("error_type"), row.get("duration_ms")
    status = "succeeded"
    if error_type is not None:
        is_open = row.get("classified") == ErrorType.UNCERTAIN_RESULT or row.get("effect") == "unknown"
        status = "uncertain" if is_open else "failed"
    answer: dict[str, Any] = {"status": status, "error_type": error_type, "delay_s": row.get("delay_s")}
    if isinstance(millis, (int, float)):
        answer["seconds"] = millis / 1000
    return {name: value for name, value in answer.items() if value is not None}


def _whole_number(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
