"""Span trees for the terminal, from a file of OTLP JSON lines or from finished spans."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fcguard.errors import FcguardError
from fcguard.telemetry import semconv as names

if TYPE_CHECKING:
    import os

__all__ = ["SpanRow", "TraceFileError", "describe", "forest", "read_spans", "render_tree", "spans_of"]

_SECOND: Final = 1_000_000_000
_STATUS: Final = {0: "UNSET", 1: "OK", 2: "ERROR"}
_SHOWN: Final = {
    names.PURPOSE: "purpose",
    names.OUTCOME: "outcome",
    names.OUTCOME_BASIS: "basis",
    names.ATTEMPTS: "attempts",
    names.ATTEMPT_NUMBER: "number",
    names.ATTEMPT_EFFECT: "effect",
    names.ATTEMPT_DELAY: "delay",
    names.RECOVERY_ACTION: "action",
    names.RECOVERY_OUTCOME: "outcome",
    names.VALIDATION_LAYER: "layer",
    names.NEXT_ACTION: "next",
    names.REQUEST_ID: "request",
}
"""What the tree shows of a span's attributes, and how it calls them."""


class TraceFileError(FcguardError):
    """A file is not OTLP JSON lines; the message names the line."""


@dataclass(frozen=True, slots=True)
class SpanRow:
    """One finished span.

    Attributes:
        trace_id, span_id, parent_id: hexadecimal digits; no parent: empty.
        name: of the span.
        start, end: nanoseconds since the epoch.
        status: `UNSET`, `OK` or `ERROR`.
        attributes: plain values.
        links: `(trace_id, span_id)` of the spans it is linked to.
    """

    trace_id: str
    span_id: str
    parent_id: str
    name: str
    start: int
    end: int
    status: str
    attributes: Mapping[str, Any]
    links: tuple[tuple[str, str], ...] = ()


@dataclass(slots=True)
class Node:
    """A span with its children, in the order in which they started."""

    span: SpanRow
    children: list[Node] = field(default_factory=list)


def read_spans(path: str | os.PathLike[str]) -> list[SpanRow]:
    """Read a file of OTLP JSON lines, one `ExportTraceServiceRequest` a line; lines of other signals are passed over.

    Args:
        path: the file. A last line that is cut off, as a killed process leaves it, is passed over.

    Raises:
        TraceFileError: a line is something else.
        OSError: the file cannot be read.
    """
    spans: list[SpanRow] = []
    lines = Path(path).read_bytes().split(b"\n")
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            request = json.loads(line)
            if not isinstance(request, dict):
                raise TypeError("not an object")
            spans.extend(spans_of(request))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            if number == len(lines) and isinstance(error, ValueError):
                break
            raise TraceFileError(f"{str(path)!r}, line {number}: not an OTLP JSON export of spans") from None
    return spans


def spans_of(request: Mapping[str, Any]) -> Iterator[SpanRow]:
    """Yield the spans of one `ExportTraceServiceRequest`.

    Args:
        request: its JSON values.

    Raises:
        KeyError, TypeError, ValueError, AttributeError: it is something else.
    """
    for resource in request.get("resourceSpans") or ():
        for scope in resource.get("scopeSpans") or ():
            for span in scope.get("spans") or ():
                yield SpanRow(
                    trace_id=str(span["traceId"]),
                    span_id=str(span["spanId"]),
                    parent_id=str(span.get("parentSpanId") or ""),
                    name=str(span.get("name", "")),
                    start=int(span.get("startTimeUnixNano", 0)),
                    end=int(span.get("endTimeUnixNano", 0)),
                    status=_STATUS.get(int((span.get("status") or {}).get("code", 0)), "UNSET"),
                    attributes={row["key"]: _plain(row.get("value") or {}) for row in span.get("attributes") or ()},
                    links=tuple((str(link["traceId"]), str(link["spanId"])) for link in span.get("links") or ()),
                )


def _plain(value: Mapping[str, Any]) -> Any:
    for key, plain in value.items():
        if key == "intValue":
            return int(plain)
        if key == "arrayValue":
            return [_plain(item) for item in plain.get("values") or ()]
        if key == "kvlistValue":
            return {item["key"]: _plain(item.get("value") or {}) for item in plain.get("values") or ()}
        return plain
    return None


def forest(spans: Iterable[SpanRow]) -> list[Node]:
    """Answer the trees of some spans: a span whose parent is not among them is a root.

    Args:
        spans: in any order; a span that stands there twice counts once.

    Returns:
        Roots by start time. Every span is in exactly one tree, also where parents form a ring.
    """
    nodes = {(span.trace_id, span.span_id): Node(span) for span in spans}
    ordered = sorted(nodes.values(), key=lambda node: (node.span.start, node.span.span_id))
    roots: list[Node] = []
    for node in ordered:
        parent = nodes.get((node.span.trace_id, node.span.parent_id))
        if parent is None:
            roots.append(node)
        else:
            parent.children.append(node)
    reached: set[int] = set()
    for root in roots:
        _reach(root, reached)
    for node in ordered:
        if id(node) not in reached:  # parents form a ring: cut it open at the span that started first
            _reach(node, reached)
            roots.append(node)
    return sorted(roots, key=lambda node: (node.span.start, node.span.span_id))


def _reach(root: Node, reached: set[int]) -> None:
    """Mark all that lies below a root, and drop the children that were marked before."""
    reached.add(id(root))
    stack = [root]
    while stack:
        node = stack.pop()
        node.children = [child for child in node.children if id(child) not in reached]
        reached.update(id(child) for child in node.children)
        stack.extend(node.children)


def describe(span: SpanRow) -> str:
    """Answer a span in one line: name, status, error, duration, and the attributes that tell the story."""
    parts = [_printable(span.name)]
    if span.status != "UNSET":
        parts.append(span.status)
    error = span.attributes.get(names.ERROR_TYPE)
    if error is not None:
        parts.append(_printable(str(error)))
    parts.append(_duration(span.end - span.start))
    for key, word in _SHOWN.items():
        value = span.attributes.get(key)
        if isinstance(value, float):
            parts.append(f"{word}={value:.3g} s")  # all numbers with a fraction are seconds
        elif value is not None and (key, value) != (names.PURPOSE, "primary"):
            parts.append(f"{word}={_printable(str(value))}")
    if span.links:
        parts.append("linked to " + ", ".join(f"{trace_id[:8]}/{span_id}" for trace_id, span_id in span.links))
    return "  ".join(parts)


def render_tree(spans: Sequence[SpanRow]) -> str:
    """Answer the trees as plain text, one line a span.

    Args:
        spans: in any order, of any number of traces.

    Returns:
        Text without control characters but line ends; empty without spans.
    """
    lines: list[str] = []
    for root in forest(spans):
        lines.append(describe(root.span))
        _render(root, "", lines)
    return "\n".join(lines)


def _render(node: Node, indent: str, lines: list[str]) -> None:
    stack = [(child, indent, child is node.children[-1]) for child in reversed(node.children)]
    while stack:
        child, before, is_last = stack.pop()
        lines.append(f"{before}{'└─ ' if is_last else '├─ '}{describe(child.span)}")
        deeper = before + ("   " if is_last else "│  ")
        stack.extend((below, deeper, below is child.children[-1]) for below in reversed(child.children))


def _duration(nanoseconds: int) -> str:
    return f"{nanoseconds / 1e9:.2f} s" if nanoseconds >= _SECOND else f"{nanoseconds / 1e6:.1f} ms"


def _printable(text: str) -> str:
    """Answer a text that cannot steer the terminal."""
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)
