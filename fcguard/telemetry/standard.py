"""What watches a guard's calls unless its owner says otherwise: spans, metrics and log lines."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fcguard.telemetry.log import LogObserver
from fcguard.telemetry.observer import Observers
from fcguard.telemetry.otel import OtelObserver

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

    from fcguard.model.secrets import Redactor
    from fcguard.telemetry.content import Capture
    from fcguard.telemetry.otel import SpanDetail

__all__ = ["StandardObserver", "default_observer"]


class StandardObserver(Observers):
    """OpenTelemetry and log lines together; the line is written while the call's span is still current.

    Attributes:
        otel: spans and metrics; has `watch_unresolved` and `evidence_written` for whoever owns the ledger.
        log: the lines.
    """

    __slots__ = ("log", "otel")

    def __init__(self, otel: OtelObserver, log: LogObserver) -> None:
        self.otel, self.log = otel, log
        super().__init__(otel, log)


def default_observer(
    *,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
    span_detail: SpanDetail = "attempts",
    capture_content: Capture | None = None,
    redactor: Redactor | None = None,
) -> StandardObserver:
    """Make the observer of a guard.

    Args:
        tracer_provider: where spans go; None: the global provider, also one that is set later.
        meter_provider: where metrics go; None: the global provider, also one that is set later.
        span_detail: `call`, `attempts` or `stages`.
        capture_content: `none`, `redacted` or `full`; None: what the environment says, `none` by default.
        redactor: masks secrets of captured content beside each call's own redactor.

    Returns:
        The observer. It has no threads and needs no closing.

    Raises:
        ConfigurationError: an option is not one of its words.
    """
    otel = OtelObserver(
        tracer_provider=tracer_provider,
        meter_provider=meter_provider,
        span_detail=span_detail,
        capture_content=capture_content,
        redactor=redactor,
    )
    return StandardObserver(otel, LogObserver())
