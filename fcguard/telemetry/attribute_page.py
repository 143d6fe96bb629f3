"""The documentation page of telemetry attributes, made from their table."""

from __future__ import annotations

from collections.abc import Iterator

from fcguard.telemetry.semconv import (
    ATTEMPT,
    ATTRIBUTES,
    CALL,
    METRICS,
    OTHER,
    RECOVER,
    SCHEMA_URL,
    SCOPE,
    SERIES_LIMIT,
    SPANS,
    STAGE,
)

__all__ = ["as_markdown"]


def as_markdown() -> str:
    """Answer the page of attributes for the documentation.

    Returns:
        Markdown; the same for the same table.
    """
    return "\n".join(_page()) + "\n"


def _page() -> Iterator[str]:
    yield "# Telemetry attributes"
    yield ""
    yield "This page is made from the table in `fcguard/telemetry/semconv.py`; a test keeps the two equal."
    yield f"Schema URL: `{SCHEMA_URL}`. Instrumentation scope: `{SCOPE}`."
    yield ""
    yield "## Spans"
    yield ""
    yield "| span | from `span_detail` | what it is |"
    yield "|---|---|---|"
    for span in SPANS:
        yield f"| `{span.name}` | `{span.detail}` | {span.description} |"
    for kind in (CALL, ATTEMPT, RECOVER, STAGE):
        yield ""
        yield f"## Attributes of {kind} spans"
        yield ""
        yield "| key | type | requirement | description |"
        yield "|---|---|---|---|"
        for row in ATTRIBUTES.values():
            if kind in row.where:
                values = (
                    f" One of {', '.join(f'`{value}`' for value in row.values)}."
                    if row.values and len(row.values) > 1
                    else ""
                )
                yield f"| `{row.key}` | {row.type} | {row.requirement} | {row.description}{values} |"
    yield ""
    yield "## Metrics"
    yield ""
    yield f"At most {SERIES_LIMIT} series per instrument; further tools are counted as `{OTHER}`."
    yield ""
    yield "| metric | instrument | unit | attributes | what it counts |"
    yield "|---|---|---|---|---|"
    for metric in METRICS.values():
        keys = ", ".join(f"`{key}`" for key in metric.attributes) or "none"
        yield f"| `{metric.name}` | {metric.instrument} | `{metric.unit}` | {keys} | {metric.description} |"
