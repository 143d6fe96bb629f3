"""The whole story of one call, put together from its events."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from fcguard.cli.moments import when
from fcguard.guard import Guard
from fcguard.reconcile.resolve import find_call
from fcguard.stores.base import CallQuery, StoredCall, StoredEvent
from fcguard.stores.payload import body_of

__all__ = ["read_story", "render_story", "story_of"]

_CONTEXT: Final = (
    "goal", "entry", "success_criteria", "risk", "environment", "tenant", "account", "account_pool", "actor", "agent", "roles", "base_urls", "data_sources", "allow",
    "forbidden", "session_id", "conversation_id",
)  # fmt: skip
_SAID: Final = ("blocked_by", "why", "layer", "flags")


def read_story(guard: Guard, request_id: str) -> dict[str, Any]:
    """Read the story of one call from the ledger of a guard; see `story_of`.

    Raises:
        UsageError: the ledger does not hold the call.
        StoreError: the ledger cannot be read.
    """
    row = find_call(guard.store, request_id)
    children = [
        other
        for other in guard.store.calls(CallQuery(task_id=row.identity.task_id, since=row.created_at))
        if other.identity.parent_id == request_id
    ]
    return story_of(row, list(guard.store.events(request_id=request_id)), children, guard.evidence_dir)


def story_of(
    row: StoredCall, events: Sequence[StoredEvent], children: Sequence[StoredCall], evidence_dir: Path
) -> dict[str, Any]:
    """Answer the story as JSON values.

    Args:
        row: the call as it stands.
        events: its events, in order.
        children: calls that it caused.
        evidence_dir: where evidence lies, for its paths.

    Raises:
        StoreError: bytes are not an event's.
    """
    result = row.result or {}
    bodies = [(event, body_of(event)) for event in events]
    opening: Mapping[str, Any] = bodies[0][1] if bodies else {}
    last: Mapping[str, Any] = next((body for _, body in reversed(bodies) if "result" in body), {})
    return {
        **_standing(row),
        "trace_id": opening.get("trace_id") or result.get("trace_id"),
        "span_id": opening.get("span_id"),
        "context": {name: opening[name] for name in _CONTEXT if name in opening},
        "model_call_id": opening.get("model_call_id"),
        "asked": opening.get("asked_for") or opening.get("asked_as"),
        "raw": opening.get("raw"),
        "arguments": opening.get("arguments", result.get("normalized_args")),
        "folds": opening.get("folds", []),
        "rules": {"passed": opening.get("passed", []), "refused_by": opening.get("refused_by")},
        "approval": opening.get("approval"),
        "attempts": _attempts(bodies, row),
        **_later(bodies),
        **{name: last[name] for name in _SAID if name in last},
        "result": row.result,
        "evidence": [
            {**item, "path": str(evidence_dir / str(item["ref"]))} if _is_file(item) else item
            for item in result.get("evidence", ())
        ],
        "calls": [
            {"request_id": made.identity.request_id, "tool": made.identity.tool, "purpose": made.identity.purpose, "state": str(made.state)}
            for made in sorted(children, key=lambda made: made.created_at)
        ],
        "events": [{"seq": event.seq, "at": event.at, "kind": event.kind, "hash": event.hash.hex()} for event in events],
    }  # fmt: skip


def _standing(row: StoredCall) -> dict[str, Any]:
    """Answer which call it is, and how it stands."""
    identity = row.identity
    return {
        "request_id": identity.request_id,
        "tool": identity.tool,
        "version": identity.tool_version,
        "effect": identity.effect,
        "purpose": identity.purpose,
        "state": str(row.state),
        "basis": (row.result or {}).get("outcome_basis"),
        "task_id": identity.task_id,
        "step": identity.step,
        "parent_id": identity.parent_id,
        "made_at": row.created_at,
        "changed_at": row.updated_at,
        "owner": row.owner,
        "next_at": row.next_at,
        "settle_until": row.settle_until,
        "keys": {
            "idempotency_key": identity.idempotency_key,
            "effect_key": identity.effect_key,
            "digest": identity.digest or None,
        },
    }


def _later(bodies: Sequence[tuple[StoredEvent, Mapping[str, Any]]]) -> dict[str, Any]:
    """Answer what happened to a call after it was sent."""
    return {
        "takeovers": [
            {"at": event.at, **{name: body.get(name) for name in ("by", "from", "liveness", "sent_until")}}
            for event, body in bodies
            if event.kind == "claimed"
        ],
        "confirmations": [item for _, body in bodies for item in body.get("confirmations", ())],
        "late": [{"at": event.at, **_without_id(body)} for event, body in bodies if event.kind == "late"],
        "later_traces": [
            {"at": event.at, "trace_id": body["trace_id"], "span_id": body["span_id"]}
            for event, body in bodies[1:]
            if "span_id" in body
        ],
        "resolution": next(
            (_without_id(body, "result", "trace_id", "span_id") for event, body in bodies if event.kind == "resolved"),
            None,
        ),
    }


def _is_file(item: Mapping[str, Any]) -> bool:
    return item.get("type") != "call" and "://" not in str(item.get("ref"))


def _without_id(body: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in body.items() if name not in ("request_id", *names)}


def _attempts(bodies: Sequence[tuple[StoredEvent, Mapping[str, Any]]], row: StoredCall) -> list[dict[str, Any]]:
    """Answer what is known of each attempt; the latest word about it counts."""
    known: dict[int, dict[str, Any]] = {}
    for event, body in bodies:
        if event.kind == "opened" and row.attempt:
            known[1] = {"number": 1, "started_at": event.at}
        elif event.kind == "attempt":
            known[int(body["number"])] = {
                "number": int(body["number"]),
                "started_at": event.at,
                "delay_s": body.get("delay_s"),
            }
        elif event.kind == "uncertain":
            known[int(body["number"])] = {**known.get(int(body["number"]), {}), **_without_id(body)}
        for summary in body.get("attempts", ()):
            number = int(summary["number"])
            known[number] = {
                **known.get(number, {}),
                **{name: value for name, value in summary.items() if value or name not in known.get(number, {})},
            }
        if "attempt_ms" in body:
            known[1] = {
                "number": 1,
                "started_at": body.get("started_at"),
                **known.get(1, {}),
                "duration_ms": body["attempt_ms"],
            }
    return [known[number] for number in sorted(known)]


def render_story(story: Mapping[str, Any]) -> str:
    """Answer the story as text for people."""
    lines = [
        f"{story['request_id']}  {story['tool']} (version {story['version']}, {story['effect']})  "
        + story["state"]
        + (f", {story['basis']}" if story["basis"] else "")
    ]
    task = story["task_id"] + (f", step {story['step']}" if story["step"] is not None else "")
    _add(lines, "task", task if story["task_id"] != "-" else "none")
    _add(lines, "made", f"{when(story['made_at'])} UTC, changed {when(story['changed_at'])} UTC")
    _add(lines, "purpose", None if story["purpose"] == "primary" else f"{story['purpose']} for {story['parent_id']}")
    _add(lines, "trace", story["trace_id"] and f"{story['trace_id']}, span {story['span_id']}")
    for later in story["later_traces"]:
        _add(lines, "later trace", f"{later['trace_id']}, span {later['span_id']}, {when(later['at'])}")
    for name, value in story["context"].items():
        _add(lines, name.replace("_", " "), ", ".join(map(str, value)) if isinstance(value, list) else value)
    _add(lines, "asked for", story["asked"])
    _add(lines, "raw", story["raw"])
    _add(lines, "arguments", None if story["arguments"] is None else _json(story["arguments"]))
    for fold in story["folds"]:
        _add(
            lines,
            "fold",
            f"{fold['path'] or 'whole'}: {fold['rule']}: {_json(fold['before'])} -> {_json(fold['after'])}",
        )
    _add(lines, "rules passed", ", ".join(story["rules"]["passed"]))
    _add(lines, "refused by", story["rules"]["refused_by"])
    _add(lines, "approval", story["approval"])
    for attempt in story["attempts"]:
        _add(lines, f"attempt {attempt['number']}", _attempt(attempt))
    for taken in story["takeovers"]:
        _add(lines, "taken over", f"{when(taken['at'])} by {taken['by']} from {taken['from']} ({taken['liveness']})")
    for said in story["confirmations"]:
        _add(
            lines, "confirmation", f"{said['answer']} ({said['source']}, {when(said['at'])})" + _why(said.get("reason"))
        )
    for late in story["late"]:
        _add(lines, "late", f"{when(late['at'])}: attempt {late['attempt']} " + _late(late))
    _end(lines, story)
    return "\n".join(lines)


def _end(lines: list[str], story: Mapping[str, Any]) -> None:
    result = story["result"] or {}
    if story["resolution"] is not None:
        said = story["resolution"]
        _add(lines, "resolved", f"{'applied' if said['applied'] else 'not applied'}, by {said['by']}: {said['reason']}")
    _add(lines, "classified", story.get("why") and f"{story['why']} ({story.get('layer')})")
    _add(lines, "flags", ", ".join(story.get("flags", ())))
    _add(lines, "blocked by", story.get("blocked_by"))
    if story["result"] is None:
        _add(lines, "outcome", "open: no outcome is recorded")
    else:
        outcome = "success" if result["success"] else f"{result['error_type']}, next_action {result['next_action']}"
        _add(lines, "outcome", f"{outcome}, effect {result['effect']}")
        _add(lines, "message", result["message"])
        _add(lines, "data", None if result["data"] is None else _json(result["data"]))
    _add(lines, "due", story["next_at"] and f"{when(story['next_at'])} UTC")
    for item in story["evidence"]:
        _add(lines, "evidence", f"{item['type']}: {item.get('path', item['ref'])}" + _why(item.get("digest")))
    for child in story["calls"]:
        _add(lines, "caused", f"{child['request_id']}  {child['tool']}, {child['purpose']}, {child['state']}")
    for event in story["events"]:
        _add(lines, "event", f"{event['seq']:4} {when(event['at'])} {event['kind']:10} {event['hash'][:16]}")


def _add(lines: list[str], label: str, value: Any) -> None:
    if value not in (None, "", False):
        lines.append(f"  {label:13} {value}")


def _attempt(attempt: Mapping[str, Any]) -> str:
    parts = [when(attempt.get("started_at"))]
    if attempt.get("duration_ms"):
        parts.append(f"{attempt['duration_ms']:g} ms")
    if attempt.get("delay_s"):
        parts.append(f"after a pause of {attempt['delay_s']:g} s")
    if attempt.get("error_type"):
        parts.append(str(attempt["error_type"]))
    if attempt.get("classified"):
        parts.append(f"classified {attempt['classified']}")
    if attempt.get("effect"):
        parts.append(f"effect {attempt['effect']}")
    if attempt.get("abandoned"):
        parts.append("abandoned")
    return ", ".join(parts) + _why(attempt.get("why"))


def _late(late: Mapping[str, Any]) -> str:
    if not late["returned"]:
        return f"raised {late.get('error')}"
    return f"returned {_json(late['value'])}" if "value" in late else "returned"


def _why(reason: Any) -> str:
    return f": {reason}" if reason else ""


def _json(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 2000 else f"{text[:2000]}... ({len(text)} characters; --json shows all)"
