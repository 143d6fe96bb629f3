"""Checks spans and metrics against the project's own table and, where it is present, the registry of the conventions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from opentelemetry.sdk.trace import ReadableSpan

from fcguard.telemetry import semconv as names

REGISTRY = Path(__file__).parents[2].parent / "shared" / "data" / "otel-semconv" / "resolved.json"
LATER = frozenset({"gen_ai.conversation.id"})
"""Attributes that a later change of the conventions adds to `execute_tool`."""

_TYPES = {"string": str, "int": int, "double": float, "boolean": bool}


def registry() -> dict[str, Any] | None:
    """Answer the resolved registry; None where it is not present."""
    return json.loads(REGISTRY.read_text()) if REGISTRY.exists() else None


def kind_of(span: ReadableSpan) -> str | None:
    """Answer which row of the table a span belongs to."""
    if (span.attributes or {}).get(names.OPERATION_NAME) == names.EXECUTE_TOOL:
        return names.CALL
    if span.name.startswith(names.ATTEMPT_SPAN + " "):
        return names.ATTEMPT
    if span.name == names.RECOVER_SPAN:
        return names.RECOVER
    return names.STAGE if span.name in names.STAGE_SPANS.values() else None


def of_span(span: ReadableSpan, known: dict[str, Any] | None) -> Iterator[str]:
    """Yield what is wrong with a span of ours."""
    attributes = dict(span.attributes or {})
    kind = kind_of(span)
    if kind is None:
        yield f"{span.name}: no row of the table"
        return
    for key, value in attributes.items():
        row = names.ATTRIBUTES.get(key)
        if row is None or kind not in row.where:
            yield f"{span.name}: {key} is not declared for {kind}"
        elif type(value) is not _TYPES[row.type]:
            yield f"{span.name}: {key} is {value!r}, not a {row.type}"
        elif row.values is not None and value not in row.values:
            yield f"{span.name}: {key} is {value!r}, not one of {row.values}"
    for row in names.ATTRIBUTES.values():
        if row.requirement == "required" and kind in row.where and row.key not in attributes:
            yield f"{span.name}: {row.key} is missing"
    if (span.status.status_code.name == "ERROR") != (names.ERROR_TYPE in attributes):
        yield f"{span.name}: status {span.status.status_code.name}, error.type {attributes.get(names.ERROR_TYPE)!r}"
    if span.events:
        yield f"{span.name}: has span events"
    if span.instrumentation_scope is None or span.instrumentation_scope.schema_url != names.SCHEMA_URL:
        yield f"{span.name}: schema URL"
    if kind == names.CALL:
        yield from _of_call(span, attributes, known)
    elif any(key.startswith("gen_ai.") for key in attributes):
        yield f"{span.name}: gen_ai attributes on a {kind} span"


def _of_call(span: ReadableSpan, attributes: dict[str, Any], known: dict[str, Any] | None) -> Iterator[str]:
    if span.name != f"execute_tool {attributes.get(names.TOOL_NAME)}":
        yield f"{span.name}: is not the operation and the tool {attributes.get(names.TOOL_NAME)!r}"
    if known is None:
        return
    row = known["spans"]["gen_ai.execute_tool.internal"]
    if span.kind.name.lower() != row["kind"]:
        yield f"{span.name}: kind {span.kind.name}"
    for key, level in row["attributes"].items():
        if level == "required" and key not in attributes:
            yield f"{span.name}: {key} is required by the registry"
    for key, value in attributes.items():
        if key.startswith("fcguard."):
            continue
        if key not in row["attributes"] and key not in LATER:
            yield f"{span.name}: {key} is not an attribute of execute_tool in the registry"
        allowed = known["attributes"][key]["values"]
        if allowed and value not in allowed and allowed != ["_OTHER"]:
            yield f"{span.name}: {key} is {value!r}, which the registry does not know"


def of_metrics(metrics: Iterable[Any], known: dict[str, Any] | None) -> Iterator[str]:
    """Yield what is wrong with metrics of ours."""
    for metric in metrics:
        row = names.METRICS.get(metric.name)
        if row is None:
            yield f"{metric.name}: not declared"
            continue
        if metric.unit != row.unit:
            yield f"{metric.name}: unit {metric.unit!r}"
        points = list(metric.data.data_points)
        if len(points) > names.SERIES_LIMIT:
            yield f"{metric.name}: {len(points)} series"
        for point in points:
            extra = set(point.attributes or {}) - set(row.attributes)
            if extra:
                yield f"{metric.name}: {sorted(extra)} are not declared"
            if row.buckets and tuple(point.explicit_bounds) != row.buckets:
                yield f"{metric.name}: buckets {point.explicit_bounds}"
            if known is None or not metric.name.startswith("gen_ai."):
                continue
            theirs = known["metrics"][metric.name]
            if metric.unit != theirs["unit"]:
                yield f"{metric.name}: unit is {theirs['unit']} in the registry"
            for key, level in theirs["attributes"].items():
                if level == "required" and key not in point.attributes:
                    yield f"{metric.name}: {key} is required by the registry"
            for key in point.attributes:
                if key not in theirs["attributes"]:
                    yield f"{metric.name}: {key} is not in the registry"
