"""OpenTelemetry GenAI spans as OTLP-JSON: each `execute_tool` span is a call, each conversation or trace a session."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from fcguard.evaluation.canonical import digest, parse_arguments
from fcguard.evaluation.importers.fields import effect_of, effect_state_of, status_of, task_and_trial, words_of
from fcguard.evaluation.importers.options import ImportOptions
from fcguard.evaluation.trace import Attempt, CallRecord, CallStatus, Session, UnreadLog

__all__ = ["read", "recognises"]


@dataclass(slots=True)
class _Span:
    start: int
    call: CallRecord
    task_id: str


@dataclass(slots=True)
class _Conversation:
    spans: list[_Span] = field(default_factory=list)


def recognises(value: Any) -> bool:
    """Whether a value is an OTLP-JSON export of spans."""
    return isinstance(value, Mapping) and ("resourceSpans" in value or "resource_spans" in value)


def read(values: Iterable[tuple[str, Any]], unread: UnreadLog, options: ImportOptions) -> Iterator[Session]:
    """Yield a session for each task of a guard (`fcguard.task.id`), else each conversation, else each trace.

    A task id `name#2` is read as trial 2 of the task `name`, as in a ledger. The conversation is `gen_ai.conversation.id`.
    Spans of one session may lie anywhere, so the calls of the whole file are held in memory, without their results.
    Arguments are only there if the instrumentation was told to record content.
    """
    found: dict[tuple[bool, str], _Conversation] = {}
    attempts: dict[str, list[tuple[int, Attempt]]] = {}
    for where, value in values:
        if not recognises(value):
            unread.add(where, "not an OTLP-JSON export: resourceSpans is needed")
            continue
        for span in _spans(value):
            _take(span, where, found, attempts, unread)
    for name, conversation in found.items():
        spans = sorted(conversation.spans, key=lambda span: span.start)
        task_id, trial = task_and_trial(spans[0].task_id) if spans[0].task_id else (name[1], 0)
        calls = tuple(_with_attempts(span.call, attempts) for span in spans)
        yield Session(session_id=name[1], task_id=options.task_id or task_id, trial=trial, calls=calls)


def _spans(value: Mapping[str, Any]) -> Iterator[Any]:
    for resource in _listed(value, "resourceSpans", "resource_spans"):
        for scope in _listed(resource, "scopeSpans", "scope_spans"):
            yield from _listed(scope, "spans")


def _listed(value: Any, *names: str) -> list[Any]:
    """Answer a list by one of its names; none if the value is not what OTLP says."""
    if not isinstance(value, Mapping):
        return []
    return next((value[name] for name in names if isinstance(value.get(name), list)), [])


def _take(
    span: Any,
    where: str,
    found: dict[tuple[bool, str], _Conversation],
    attempts: dict[str, list[tuple[int, Attempt]]],
    unread: UnreadLog,
) -> None:
    if not isinstance(span, Mapping):
        unread.add(where, f"a span is a {type(span).__name__}, not an object")
        return
    facts = dict(_pairs(span, "attributes"))
    name, start = str(span.get("name", "")), _nanos(span.get("startTimeUnixNano"))
    if name.startswith("fcguard.attempt"):
        status: CallStatus = "failed" if facts.get("error.type") else "succeeded"
        attempt = Attempt(status, facts.get("error.type"), _seconds(span))
        attempts.setdefault(str(span.get("parentSpanId", "")), []).append((start, attempt))
        return
    if facts.get("gen_ai.operation.name") != "execute_tool" and not name.startswith("execute_tool "):
        return
    if facts.get("fcguard.call.purpose") in ("confirm", "fallback"):
        return
    tool = facts.get("gen_ai.tool.name") or name.removeprefix("execute_tool ")
    task_id = str(facts.get("fcguard.task.id") or "")
    session = task_id or str(facts.get("gen_ai.conversation.id") or span.get("traceId") or where)
    call = _call(span, facts, str(tool))
    found.setdefault((bool(task_id), session), _Conversation()).spans.append(_Span(start, call, task_id))


def _call(span: Mapping[str, Any], facts: Mapping[str, Any], tool: str) -> CallRecord:
    raw = facts.get("gen_ai.tool.call.arguments")
    arguments, error = parse_arguments(raw) if raw is not None else (None, None)
    result = facts.get("gen_ai.tool.call.result")
    step = facts.get("fcguard.step")
    server = facts.get("mcp.server.name")
    return CallRecord(
        call_id=str(span.get("spanId") or facts.get("gen_ai.tool.call.id") or ""),
        tool=tool,
        server=None if server is None else str(server),
        step=step if isinstance(step, int) else 0,
        raw_arguments=raw,
        arguments=arguments,
        parse_error=error,
        status=_status(span, facts),
        error_type=None if facts.get("error.type") is None else str(facts["error.type"]),
        effect=effect_of(facts.get("fcguard.tool.effect")),
        effect_state=effect_state_of(facts.get("fcguard.effect")),
        result_hash=None if result is None else digest(result),
        seconds=_seconds(span),
        evidence=words_of(facts.get("fcguard.request.id")),
    )


def _status(span: Mapping[str, Any], facts: Mapping[str, Any]) -> CallStatus:
    outcome = facts.get("fcguard.outcome")
    if outcome is not None:
        return status_of(outcome)
    status = span.get("status")
    code = status.get("code") if isinstance(status, Mapping) else None
    if facts.get("error.type") is not None or code in (2, "STATUS_CODE_ERROR"):
        return "failed"
    return "succeeded"


def _with_attempts(call: CallRecord, attempts: Mapping[str, list[tuple[int, Attempt]]]) -> CallRecord:
    rows = attempts.get(call.call_id)
    if not rows:
        return call
    ordered = tuple(attempt for _, attempt in sorted(rows, key=lambda row: row[0]))
    return CallRecord(**{**{name: getattr(call, name) for name in call.__slots__}, "attempts": ordered})


def _pairs(value: Any, name: str) -> Iterator[tuple[str, Any]]:
    """Answer the keys and decoded values of a list of OTLP attributes."""
    for row in _listed(value, name):
        if isinstance(row, Mapping):
            yield str(row.get("key")), _decoded(row.get("value"))


def _decoded(value: Any) -> Any:
    """Decode an OTLP AnyValue; 64-bit integers come as texts in OTLP-JSON."""
    if not isinstance(value, Mapping):
        return None
    if "intValue" in value:
        return _nanos(value["intValue"])
    if "arrayValue" in value:
        return [_decoded(item) for item in _listed(value["arrayValue"], "values")]
    if "kvlistValue" in value:
        return dict(_pairs(value["kvlistValue"], "values"))
    return next((value[key] for key in ("stringValue", "boolValue", "doubleValue", "bytesValue") if key in value), None)


def _nanos(value: Any) -> int:
    try:
        return int(value)
    except (TypeError, ValueError):
        return 0


def _seconds(span: Mapping[str, Any]) -> float | None:
    start, end = (_nanos(span.get("startTimeUnixNano")), _nanos(span.get("endTimeUnixNano")))
    return (end - start) / 1e9 if 0 < start <= end else None
