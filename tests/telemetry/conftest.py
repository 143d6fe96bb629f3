"""Providers that keep what they get; everything that fcguard emits in these tests is checked for conformance."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.telemetry.telemetry_collector import Collector
from tests.telemetry.telemetry_conformance import of_metrics, of_span, registry
from tests.telemetry.telemetry_driver import Recorded


@pytest.fixture
def recorded() -> Iterator[Recorded]:
    """Providers of the SDK that keep everything in memory; what came from fcguard must conform."""
    kept = Recorded()
    yield kept
    known = registry()
    ours = [span for span in kept.spans if span.instrumentation_scope and span.instrumentation_scope.name == "fcguard"]
    faults = [fault for span in ours for fault in of_span(span, known)]
    faults += of_metrics(kept.metrics(), known)
    kept.close()
    assert faults == []


@pytest.fixture
def collector() -> Iterator[Collector]:
    """A collector on a local port."""
    receiver = Collector()
    yield receiver
    receiver.close()
