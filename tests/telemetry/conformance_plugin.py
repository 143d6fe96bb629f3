"""Checks what the guards of any tests emit: `pytest -p tests.telemetry.conformance_plugin tests/...`.

It sets global providers, which every guard uses that is given none, and fails the run if a span or a metric is not as
declared. What was checked is written to the file that `FCGUARD_CONFORMANCE` names.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import metrics, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider

from tests.telemetry.telemetry_conformance import kind_of, of_metrics, of_span, registry


class _Checked(SpanProcessor):
    """Checks each span of fcguard when it ends."""

    def __init__(self) -> None:
        self.known = registry()
        self.kinds: Counter[str] = Counter()
        self.faults: Counter[str] = Counter()

    def on_end(self, span: ReadableSpan) -> None:
        if span.instrumentation_scope is not None and span.instrumentation_scope.name == "fcguard":
            self.kinds[kind_of(span) or "unknown"] += 1
            self.faults.update(of_span(span, self.known))


_spans = _Checked()
_reader = InMemoryMetricReader()


def _metrics() -> list[Any]:
    data = _reader.get_metrics_data()
    return [
        metric
        for resource in (data.resource_metrics if data is not None else ())
        for scope in resource.scope_metrics
        if scope.scope.name == "fcguard"
        for metric in scope.metrics
    ]


def pytest_configure() -> None:
    """Set the providers."""
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(_spans)
    trace.set_tracer_provider(provider)
    metrics.set_meter_provider(MeterProvider([_reader], shutdown_on_exit=False))


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail the run if anything was wrong, and write down what was checked."""
    found = _metrics()
    faults = [*_spans.faults, *of_metrics(found, _spans.known)]
    if faults:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED
    report = {"spans": _spans.kinds, "metrics": sorted(metric.name for metric in found), "faults": faults}
    target = os.environ.get("FCGUARD_CONFORMANCE")
    if target:
        Path(target).write_text(json.dumps(report))
