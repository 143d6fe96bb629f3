"""OpenTelemetry GenAI spans as OTLP-JSON: each `execute_tool` span is a call, each conversation or trace a session."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from fcguard.evaluation.canonical import digest, parse_arguments
from fcguard.evaluation.importers.fields import effect_of, task_and_trial, words_of
from fcguard.evaluation.importers.guard_spans import Below, attempt_of, completed_by, last_of, span_status
from fcguard.evaluation.importers.options import ImportOptions
from fcguard.evaluation.trace import Attempt, CallRecord, CallStatus, Session, UnreadLog

__all__ = ["read", "recognises"]


@dataclass(slots=True)
class _Span:
    start: int
    call: CallRecord
    task_id: str
    session: str
    facts: dict[str, Any]


@dataclass(slots=True)
class _Trace:
    """What was taken from the spans so far: calls, what lies below them, and which span lies below which."""

    calls: list[_Span] = field(default_factory=list)
    below: list[tuple[str, dict[str, Any], int, Attempt | None]] = field(default_factory=list)
    parents: dict[str, str] = field(default_factory=dict)
    governed: set[str] = field(default_factory=set)

    def owner(self, span_id: str) -> str | None:
        """Answer the call of a guard that a span lies below; None if it lies below none."""
        seen = {span_id}
        parent = self.parents.get(span_id, "")
        while parent and parent not in self.governed and parent not in seen:
            seen.add(parent)
            parent = self.parents.get(parent, "")
        return parent if parent in self.governed else None


def recognises(value: Any) -> bool:
    """Whether a value is an OTLP-JSON export of spans."""
    return isinstance(value, Mapping) and ("resourceSpans" in value or "resource_spans" in value)


def read(values: Iterable[tuple[str, Any]], unread: UnreadLog, options: ImportOptions) -> Iterator[Session]:
    """Yield a session for each task of a guard (`fcguard.task.id`), else each conversation, else each trace.

    A task id `name#2` is read as trial 2 of the task `name`, as in a ledger. The conversation is `gen_ai.conversation.id`.
    Spans of one session may lie anywhere, so the calls of the whole file are held in memory, without their results.
    Arguments are only there if the instrumentation was told to record content. Calls that a governed call made itself belong
    to it, and several spans of one request (one that waited and was taken up later) are one call, as in a ledger.
    """
    trace = _Trace()
    for where, value in values:
        if not recognises(value):
            unread.add(where, "not an OTLP-JSON export: resourceSpans is needed")
            continue
        for span in _spans(value):
            _take(span, where, trace, unread)
    found: dict[tuple[bool, str], list[_Span]] = {}
    for span in _calls(trace):
        found.setdefault((bool(span.task_id), span.session), []).append(span)
    for name, spans in found.items():
        spans.sort(key=lambda span: span.start)
        task_id, trial = task_and_trial(spans[0].task_id) if spans[0].task_id else (name[1], 0)
        calls = tuple(span.call for span in spans)
        yield Session(session_id=name[1], task_id=options.task_id or task_id, trial=trial, calls=calls)


def _calls(trace: _Trace) -> Iterator[_Span]:
    """Answer each call once, with what lies below its spans."""
    below: dict[str, Below] = {}
    for span_id, facts, start, attempt in trace.below:
        here = below.setdefault(trace.owner(span_id) or trace.parents[span_id], Below())
        here.effects.add(str(facts.get("fcguard.attempt.effect") or facts.get("fcguard.recovery.outcome")))
        if attempt is not None:
            here.attempts.append((start, attempt))
    requests: dict[str, list[_Span]] = {}
    for number, span in enumerate(trace.calls):
        request = span.facts.get("fcguard.request.id")
        if request is None:
            requests[f"span {number}"] = [span]
        elif trace.owner(span.call.call_id) is None:
            requests.setdefault(f"request {request}", []).append(span)
    for spans in requests.values():
        spans.sort(key=lambda span: span.start)
        first, last, joined = spans[0], spans[-1], Below()
        for span_id in dict.fromkeys(span.call.call_id for span in spans):
            here = below.get(span_id, Below())
            joined.attempts += here.attempts
            joined.effects |= here.effects
        call = completed_by(last_of([span.call for span in spans]), last.facts, joined)
        yield replace(first, call=call)


def _spans(value: Mapping[str, Any]) -> Iterator[Any]:
    for resource in _listed(value, "resourceSpans", "resource_spans"):
        for scope in _listed(resource, "scopeSpans", "scope_spans"):
            yield from _listed(scope, "spans")


def _listed(value: Any, *names: str) -> list[Any]:
    """Answer a list by one of its names; none if the value is not what OTLP says."""
    if not isinstance(value, Mapping):
        return []
    return next((value[name] for name in names if isinstance(value.get(name), list)), [])


def _take(span: Any, where: str, trace: _Trace, unread: UnreadLog) -> None:
    if not isinstance(span, Mapping):
        unread.add(where, f"a span is a {type(span).__name__}, not an object")
        return
    facts = dict(_pairs(span, "attributes"))
    name, start = str(span.get("name", "")), _nanos(span.get("startTimeUnixNano"))
    span_id = str(span.get("spanId") or "")
    trace.parents[span_id] = str(span.get("parentSpanId") or "")
    if name.startswith("fcguard.attempt"):
        trace.below.append((span_id, facts, start, attempt_of(facts, _seconds(span))))
        return
    if name == "fcguard.recover":
        trace.below.append((span_id, facts, start, None))
        return
    if facts.get("gen_ai.operation.name") != "execute_tool" and not name.startswith("execute_tool "):
        return
    if facts.get("fcguard.request.id") is not None:
        trace.governed.add(span_id)
    if facts.get("fcguard.call.purpose") in ("confirm", "fallback"):
        return
    tool = facts.get("gen_ai.tool.name") or name.removeprefix("execute_tool ")
    task_id = str(facts.get("fcguard.task.id") or "")
    session = task_id or str(facts.get("gen_ai.conversation.id") or span.get("traceId") or where)
    facts_kept = {key: value for key, value in facts.items() if key.startswith("fcguard.")}
    trace.calls.append(_Span(start, _call(span, facts, str(tool)), task_id, session, facts_kept))


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
        result_hash=None if result is None else digest(result),
        seconds=_seconds(span),
        evidence=words_of(facts.get("fcguard.request.id")),
    )


def _status(span: Mapping[str, Any], facts: Mapping[str, Any]) -> CallStatus:
    known = span_status(facts)
    if known is not None:
        return known
    status = span.get("status")
    code = status.get("code") if isinstance(status, Mapping) else None
    if facts.get("error.type") is not None or code in (2, "STATUS_CODE_ERROR"):
        return "failed"
    return "succeeded"


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
