"""Providers of the OpenTelemetry SDK for those who have none; only this file and `sending` import the SDK."""

from __future__ import annotations

import os
import threading
from collections.abc import Sequence
from math import isfinite
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from opentelemetry import metrics as metrics_api
from opentelemetry import trace as trace_api
from opentelemetry.context import Context
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, Span, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult

from fcguard.errors import ConfigurationError, MissingExtraError
from fcguard.telemetry.otlp_json import request_line, request_of
from fcguard.telemetry.providers import GlobalMeters, GlobalTracer
from fcguard.telemetry.sending import SHUTDOWN_TIMEOUT, CountedSpans, Outbox, Telemetry
from fcguard.telemetry.terminal import print_spans
from fcguard.telemetry.tree import spans_of

__all__ = ["ConsoleTrees", "JsonLinesExporter", "Telemetry", "start"]

ENDPOINT_VARIABLE: Final = "OTEL_EXPORTER_OTLP_ENDPOINT"
TIMEOUT_VARIABLE: Final = "OTEL_BSP_EXPORT_TIMEOUT"
_MOST_SPANS: Final = 10_000


class JsonLinesExporter(SpanExporter):
    """Appends spans to a file, one `ExportTraceServiceRequest` in JSON a line.

    Args:
        path: the file; its directory is made.

    Raises:
        OSError: the file cannot be opened.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        self._file = Path(path).open("ab", buffering=0)  # noqa: SIM115 - closed by shutdown
        self._lock = threading.Lock()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Append one line; several processes may write into one file."""
        line = request_line(spans).encode() + b"\n"
        with self._lock:
            if self._file.closed:
                return SpanExportResult.FAILURE
            try:
                self._file.write(line)
            except OSError:
                return SpanExportResult.FAILURE
        return SpanExportResult.SUCCESS

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Answer True; lines are not held back."""
        return True

    def shutdown(self) -> None:
        """Close the file."""
        with self._lock:
            self._file.close()


class ConsoleTrees(SpanProcessor):
    """Prints the spans of a trace as a tree on stderr as soon as none of them is open any more.

    At most 10,000 spans are held back; further ones are left out of the picture.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: dict[int, int] = {}
        self._ended: dict[int, list[ReadableSpan]] = {}
        self._held = 0

    def on_start(self, span: Span, parent_context: Context | None = None) -> None:
        """Take note of an open span."""
        trace_id = span.get_span_context().trace_id
        with self._lock:
            self._open[trace_id] = self._open.get(trace_id, 0) + 1

    def on_end(self, span: ReadableSpan) -> None:
        """Keep a span, and print the trace if it was the last open one."""
        context = span.get_span_context()
        if context is None:
            return
        with self._lock:
            if self._held < _MOST_SPANS:
                self._held += 1
                self._ended.setdefault(context.trace_id, []).append(span)
            left = self._open.get(context.trace_id, 1) - 1
            if left > 0:
                self._open[context.trace_id] = left
                return
            self._open.pop(context.trace_id, None)
            ended = self._ended.pop(context.trace_id, [])
            self._held -= len(ended)
        _print(ended)

    def shutdown(self) -> None:
        """Print what is left of traces that are not complete."""
        with self._lock:
            left = [span for spans in self._ended.values() for span in spans]
            self._open.clear()
            self._ended.clear()
            self._held = 0
        _print(left)

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Answer True; complete traces are not held back."""
        return True


def _print(spans: Sequence[ReadableSpan]) -> None:
    if spans:
        print_spans(list(spans_of(request_of(spans))))


def start(
    otlp_endpoint: str | None,
    jsonl_path: str | os.PathLike[str] | None,
    *,
    console: bool,
    set_global: bool,
    service_name: str | None,
    shutdown_timeout: float | None,
) -> Telemetry:
    """Do what `fcguard.telemetry.setup` promises; see there."""
    if otlp_endpoint is None and jsonl_path is None and not console:
        otlp_endpoint = os.environ.get(ENDPOINT_VARIABLE) or None
        if otlp_endpoint is None:
            raise ConfigurationError(
                "setup() has no destination; pass console=True, jsonl_path='spans.jsonl' or"
                " otlp_endpoint='http://localhost:4318'"
            )
    base = None if otlp_endpoint is None else _base_of(otlp_endpoint)
    if set_global and (GlobalTracer().is_set() or GlobalMeters().get() is not None):
        raise ConfigurationError(
            "a global OpenTelemetry provider is set already; fcguard uses it by itself. Leave out set_global=True, or pass"
            " tracer_provider= to the Guard"
        )
    seconds = _shutdown_seconds(shutdown_timeout)
    resource = _resource(service_name)
    tracer_provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    meter_provider: metrics_api.MeterProvider = metrics_api.NoOpMeterProvider()
    outboxes: list[Outbox] = []
    senders = None if base is None else _otlp(base)  # first, since it fails without the extra
    # They are stopped one after the other: a collector that is not there comes last.
    if jsonl_path is not None:
        lines = Outbox(JsonLinesExporter(jsonl_path), os.fspath(jsonl_path), is_of_spans=True)
        tracer_provider.add_span_processor(CountedSpans(lines, schedule_delay_millis=500))
        outboxes.append(lines)
    if console:
        tracer_provider.add_span_processor(ConsoleTrees())
    if senders is not None:
        spans, metrics = senders
        tracer_provider.add_span_processor(CountedSpans(spans))
        reader = PeriodicExportingMetricReader(metrics.exporter)
        meter_provider = MeterProvider([reader], resource=resource, shutdown_on_exit=False)
        outboxes += [spans, metrics]
    if set_global:
        trace_api.set_tracer_provider(tracer_provider)
        if isinstance(meter_provider, MeterProvider):
            metrics_api.set_meter_provider(meter_provider)
    return Telemetry(tracer_provider, meter_provider, outboxes, shutdown_timeout=seconds)


def _shutdown_seconds(given: float | None) -> float:
    """Answer how long a shutdown may take: what was given, else what the environment allows an export, else 3 seconds.

    Raises:
        ConfigurationError: it is no number of seconds.
    """
    if given is None:
        try:
            return max(0.0, float(os.environ[TIMEOUT_VARIABLE]) / 1000)
        except (KeyError, ValueError):  # the SDK complains of what is no number
            return SHUTDOWN_TIMEOUT
    if isinstance(given, bool) or not isinstance(given, (int, float)) or not isfinite(given) or given < 0:
        raise ConfigurationError(f"shutdown_timeout={given!r}; give a number of seconds, 0 to wait for nothing")
    return float(given)


def _resource(service_name: str | None) -> Resource:
    """Answer what everything sent says of the process; the environment's word for its name counts if there is no other."""
    if service_name:
        return Resource.create({"service.name": service_name})
    found = Resource.create()
    is_unnamed = str(found.attributes.get("service.name", "")).startswith("unknown_service")
    return found.merge(Resource({"service.name": "fcguard"})) if is_unnamed else found


def _base_of(endpoint: str) -> str:
    """Answer the address of a collector without the path of a signal.

    Raises:
        ConfigurationError: it is not the address of an HTTP server.
    """
    try:
        address = urlsplit(endpoint)
        is_http = address.scheme in ("http", "https") and bool(address.hostname) and address.port != 0
    except ValueError:
        is_http = False
    if not is_http or any(sign in endpoint for sign in "?#"):  # what the path of a signal cannot follow
        shown = "..." if any(sign in endpoint for sign in "@?#") else endpoint  # it may hold a password or a token
        raise ConfigurationError(
            f"otlp_endpoint={shown!r} is no address of a collector; write it like 'http://localhost:4318' (OTLP over HTTP); tokens "
            "go into OTEL_EXPORTER_OTLP_HEADERS"
        )
    return endpoint.rstrip("/").removesuffix("/v1/traces")


def _otlp(base: str) -> tuple[Outbox, Outbox]:
    """Answer what sends spans and metrics to a collector."""
    try:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    except ImportError:
        raise MissingExtraError("opentelemetry-exporter-otlp-proto-http", "otlp") from None
    address = urlsplit(base)
    destination = f"{address.scheme}://{address.netloc.rpartition('@')[2]}"  # a user and a password are not for the log
    return (
        Outbox(OTLPSpanExporter(endpoint=f"{base}/v1/traces"), destination, is_of_spans=True),
        Outbox(OTLPMetricExporter(endpoint=f"{base}/v1/metrics"), destination, is_of_spans=False),
    )
