"""What watches a guard's calls unless its owner says otherwise: spans, metrics and log lines."""

from __future__ import annotations

import sys
from logging import DEBUG, INFO
from typing import TYPE_CHECKING

from fcguard.model.call import UNFILLED
from fcguard.telemetry.log import ENABLED, LogObserver, is_quiet
from fcguard.telemetry.otel import OtelObserver

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

    from fcguard.model.attempt import Attempt
    from fcguard.model.call import Call
    from fcguard.model.secrets import Redactor
    from fcguard.telemetry.content import Capture
    from fcguard.telemetry.otel import SpanDetail

__all__ = ["StandardObserver", "default_observer"]


class StandardObserver:
    """OpenTelemetry and log lines together; a line is written while the span that it belongs to is still current.

    Attributes:
        otel: spans and metrics.
        watch_unresolved, evidence_written: those of `otel`, for whoever owns the ledger.
        log: the lines.
    """

    __slots__ = (
        "_has_stages",
        "attempt_started",
        "call_started",
        "evidence_written",
        "log",
        "otel",
        "recovery_started",
        "watch_unresolved",
    )

    def __init__(self, otel: OtelObserver, log: LogObserver) -> None:
        self.otel, self.log = otel, log
        self._has_stages = otel.wants_stages
        # Lines come at the end only: the beginnings are those of OpenTelemetry, without a detour.
        self.call_started, self.attempt_started = otel.call_started, otel.attempt_started
        self.recovery_started = otel.recovery_started
        self.watch_unresolved, self.evidence_written = otel.watch_unresolved, otel.evidence_written

    @property
    def wants_stages(self) -> bool:
        """Whether one of them wants the stages."""
        if self._has_stages:
            return True
        return (
            (ENABLED.get(DEBUG, True) or "structlog" in sys.modules) and not is_quiet(DEBUG) and self.log.wants_stages
        )

    def call_ended(self, call: Call) -> None:
        """Write the line, then close the span."""
        # In most processes nobody wants to hear of a success, and that is soon known.
        if (
            call.failure is not None
            or call.result is UNFILLED
            or ((ENABLED.get(INFO, True) or "structlog" in sys.modules) and not is_quiet(INFO))
        ):
            self.log.call_ended(call)
        self.otel.call_ended(call)

    def attempt_ended(self, call: Call, attempt: Attempt) -> None:
        """Write the line, then close the span."""
        if (ENABLED.get(DEBUG, True) or "structlog" in sys.modules) and not is_quiet(DEBUG):
            self.log.attempt_ended(call, attempt)
        if attempt.observed is not None:
            self.otel.attempt_ended(call, attempt)

    def recovery_ended(self, call: Call, action: str, outcome: str) -> None:
        """Write the line, then close the span."""
        self.log.recovery_ended(call, action, outcome)
        self.otel.recovery_ended(call, action, outcome)

    def stage(self, call: Call, name: str, started: float, ended: float) -> None:
        """Write the line and the span."""
        self.log.stage(call, name, started, ended)
        self.otel.stage(call, name, started, ended)


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
