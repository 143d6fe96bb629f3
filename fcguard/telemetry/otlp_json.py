"""Finished spans as OTLP JSON: ids in hexadecimal, 64-bit integers as text, enums as numbers, names in camelCase."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

__all__ = ["request_line", "request_of"]


def request_line(spans: Iterable[Any]) -> str:
    """Answer one `ExportTraceServiceRequest` as a line of JSON, without the line end.

    Args:
        spans: finished spans of the SDK (`ReadableSpan`).
    """
    return json.dumps(request_of(spans), ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def request_of(spans: Iterable[Any]) -> dict[str, Any]:
    """Answer one `ExportTraceServiceRequest` as JSON values, spans grouped by resource and scope.

    Args:
        spans: finished spans of the SDK (`ReadableSpan`).
    """
    resources: dict[Any, dict[Any, list[dict[str, Any]]]] = {}
    for span in spans:
        resources.setdefault(span.resource, {}).setdefault(span.instrumentation_scope, []).append(_span(span))
    return {
        "resourceSpans": [
            {
                "resource": {"attributes": _attributes(resource.attributes)},
                "scopeSpans": [
                    _given(scope=_scope(scope), spans=rows, schemaUrl=scope.schema_url if scope is not None else "")
                    for scope, rows in scopes.items()
                ],
                **_given(schemaUrl=resource.schema_url),
            }
            for resource, scopes in resources.items()
        ]
    }


def _scope(scope: Any) -> dict[str, Any]:
    if scope is None:
        return {}
    return _given(name=scope.name, version=scope.version, attributes=_attributes(scope.attributes or {}))


def _span(span: Any) -> dict[str, Any]:
    context, parent = span.context, span.parent
    return {
        "traceId": f"{context.trace_id:032x}",
        "spanId": f"{context.span_id:016x}",
        **_given(traceState=context.trace_state.to_header() if context.trace_state else ""),
        **_given(parentSpanId=f"{parent.span_id:016x}" if parent is not None else ""),
        "flags": _flags(context, parent),
        "name": span.name,
        "kind": span.kind.value + 1,  # 0 means unspecified in OTLP
        "startTimeUnixNano": str(span.start_time),
        "endTimeUnixNano": str(span.end_time),
        **_given(
            attributes=_attributes(span.attributes or {}),
            droppedAttributesCount=span.dropped_attributes,
            events=[_event(event) for event in span.events],
            droppedEventsCount=span.dropped_events,
            links=[_link(link) for link in span.links],
            droppedLinksCount=span.dropped_links,
        ),
        "status": _given(message=span.status.description or "", code=span.status.status_code.value),
    }


def _flags(context: Any, parent: Any) -> int:
    """Answer the trace flags, with the bits that say whether the parent lies in another process."""
    return (int(context.trace_flags) & 0xFF) | 0x100 | (0x200 if parent is not None and parent.is_remote else 0)


def _event(event: Any) -> dict[str, Any]:
    return {
        "timeUnixNano": str(event.timestamp),
        "name": event.name,
        **_given(attributes=_attributes(event.attributes or {})),
    }


def _link(link: Any) -> dict[str, Any]:
    context = link.context
    return {
        "traceId": f"{context.trace_id:032x}",
        "spanId": f"{context.span_id:016x}",
        **_given(traceState=context.trace_state.to_header() if context.trace_state else ""),
        **_given(attributes=_attributes(link.attributes or {})),
        "flags": _flags(context, context),
    }


def _attributes(attributes: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [{"key": key, "value": _value(value)} for key, value in attributes.items()]


def _value(value: Any) -> dict[str, Any]:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, str):
        return {"stringValue": value.encode("utf-8", "replace").decode("utf-8")}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {
            "doubleValue": value
            if math.isfinite(value)
            else {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")
        }
    if isinstance(value, bytes):
        return {"bytesValue": base64.b64encode(value).decode("ascii")}
    if isinstance(value, Mapping):
        return {"kvlistValue": {"values": _attributes(value)}}
    if isinstance(value, Sequence):
        return {"arrayValue": {"values": [_value(item) for item in value]}}
    return {} if value is None else {"stringValue": str(value)}


def _given(**fields: Any) -> dict[str, Any]:
    """Answer the fields that are not empty, as OTLP leaves defaults out."""
    return {name: value for name, value in fields.items() if value}
