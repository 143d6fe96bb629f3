"""Providers in one line: to a collector, a file, the terminal."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.json_format import MessageToDict, ParseDict
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace.export import SpanExportResult
from opentelemetry.trace import (
    Link,
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    TraceState,
    set_span_in_context,
)

from fcguard.errors import ConfigurationError, MissingExtraError
from fcguard.telemetry import setup
from fcguard.telemetry.otel import OtelObserver
from fcguard.telemetry.otlp_json import request_line, request_of
from fcguard.telemetry.sdk import ConsoleTrees, JsonLinesExporter
from fcguard.telemetry.tree import read_spans, render_tree
from tests.telemetry.telemetry_collector import Collector
from tests.telemetry.telemetry_driver import Driver, Recorded


def plain(value: Any) -> Any:
    return getattr(value, value.WhichOneof("value"))


@pytest.mark.parametrize("suffix", ["", "/", "/v1/traces"])
def test_otlp_round_trip(collector: Collector, suffix: str) -> None:
    with setup(otlp_endpoint=collector.url + suffix, service_name="orders") as telemetry:
        observer = OtelObserver(
            tracer_provider=telemetry.tracer_provider, meter_provider=telemetry.meter_provider, span_detail="stages"
        )
        call = Driver(observer).confirmed_write()
        assert telemetry.flush(timeout=60)

    (request,) = collector.traces()
    (resource,) = request.resource_spans
    assert {row.key: plain(row.value) for row in resource.resource.attributes}["service.name"] == "orders"
    (scope,) = resource.scope_spans
    assert (scope.scope.name, scope.schema_url) == ("fcguard", "https://opentelemetry.io/schemas/gen-ai-dev/1.42.0-dev")
    spans = {span.name: span for span in scope.spans}
    assert len(spans) == len(scope.spans) == 5
    root = spans["execute_tool create_order"]
    assert (root.trace_id.hex(), root.span_id.hex()) == (call.trace_id, call.span_id)
    assert root.parent_span_id == b""
    assert root.status.code == 0
    attributes = {row.key: plain(row.value) for row in root.attributes}
    assert attributes["fcguard.request.id"] == call.request_id
    assert attributes["fcguard.attempts"] == 1
    attempt = spans["fcguard.attempt create_order"]
    assert attempt.parent_span_id == root.span_id
    assert attempt.status.code == 2
    assert spans["execute_tool query_order"].parent_span_id == spans["fcguard.recover"].span_id
    names = {
        metric.name
        for found in collector.metrics()
        for row in found.resource_metrics
        for scope in row.scope_metrics
        for metric in scope.metrics
    }
    assert {"fcguard.calls", "fcguard.call.attempts", "gen_ai.execute_tool.duration", "fcguard.recoveries"} <= names


def test_json_lines_are_what_the_protobuf_exporter_sends(tmp_path: Path, recorded: Recorded) -> None:
    driver = Driver(OtelObserver(tracer_provider=recorded.tracer_provider, span_detail="stages"))
    driver.confirmed_write()
    tracer = recorded.tracer_provider.get_tracer("host", "1.2", attributes={"of": "scope"})
    remote = SpanContext(5, 7, True, TraceFlags(1), TraceState([("vendor", "x")]))
    with tracer.start_as_current_span(
        "GET /",
        context=set_span_in_context(NonRecordingSpan(remote)),
        kind=SpanKind.SERVER,
        links=[Link(remote, {"why": "resume"})],
        attributes={
            "i": 2**60,
            "f": 0.1,
            "b": True,
            "s": ["a", "b"],
            "n": [1, 2],
            "raw": b"\x00\xff",
            "m": {"k": [1.5]},
        },
    ) as span:
        span.add_event("done", {"rows": 3})
        span.set_status(Status(StatusCode.OK))

    theirs = encode_spans(recorded.spans)
    line = request_line(recorded.spans)
    assert "\n" not in line
    as_hex = json.loads(line)

    def back(node: Any) -> Any:
        """Turn hexadecimal ids into the base64 that protobuf's own JSON mapping wants."""
        import base64

        if isinstance(node, dict):
            return {
                key: base64.b64encode(bytes.fromhex(value)).decode()
                if key.endswith(("traceId", "spanId", "parentSpanId"))
                else back(value)
                for key, value in node.items()
            }
        return [back(item) for item in node] if isinstance(node, list) else node

    ours = ParseDict(back(as_hex), ExportTraceServiceRequest())
    for message in (ours, theirs):  # their encoder leaves out W3C flags and a link's state, ours does not
        for scope in message.resource_spans[0].scope_spans:
            for row in scope.spans:
                row.flags &= ~0xFF
                for link in row.links:
                    link.flags &= ~0xFF
                    link.trace_state = ""
    assert MessageToDict(ours) == MessageToDict(theirs)
    assert all(len(row["traceId"]) == 32 for row in as_hex["resourceSpans"][0]["scopeSpans"][0]["spans"])


@pytest.mark.parametrize(
    ("value", "form"),
    [
        (float("nan"), {"doubleValue": "NaN"}),
        (float("inf"), {"doubleValue": "Infinity"}),
        (float("-inf"), {"doubleValue": "-Infinity"}),
        (None, {}),
        ("\ud800", {"stringValue": "?"}),
        (7, {"intValue": "7"}),
    ],
)
def test_odd_values_have_a_json_form(recorded: Recorded, value: Any, form: Any) -> None:
    span = recorded.tracer_provider.get_tracer("host").start_span("x")
    span.end()
    (ended,) = recorded.exporter.get_finished_spans()
    ended._attributes = {"v": value}  # type: ignore[attr-defined]
    ended._instrumentation_scope = None  # type: ignore[attr-defined]
    scope = request_of([ended])["resourceSpans"][0]["scopeSpans"][0]
    assert scope["spans"][0]["attributes"] == [{"key": "v", "value": form}]
    assert json.loads(request_line([ended]))
    assert "scope" not in scope


def test_jsonl_file_can_be_read_back(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "spans.jsonl"
    for _ in range(2):
        with setup(jsonl_path=path) as telemetry:
            Driver(OtelObserver(tracer_provider=telemetry.tracer_provider)).confirmed_write()
            assert isinstance(telemetry.meter_provider, NoOpMeterProvider)
            assert telemetry.flush()
    assert len(path.read_text().splitlines()) == 2
    spans = read_spans(path)
    assert [span.name for span in spans].count("execute_tool create_order") == 2
    assert render_tree(spans).count("action=confirm") == 2


def test_jsonl_exporter_says_when_it_cannot_write(tmp_path: Path) -> None:
    exporter = JsonLinesExporter(tmp_path / "spans.jsonl")
    assert exporter.force_flush()
    exporter._file.close()
    assert exporter.export([]) is SpanExportResult.FAILURE
    exporter.shutdown()
    if os.path.exists("/dev/full"):
        full = JsonLinesExporter("/dev/full")
        assert full.export([]) is SpanExportResult.FAILURE
        full.shutdown()


def test_console_prints_complete_traces_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    telemetry = setup(console=True)
    driver = Driver(OtelObserver(tracer_provider=telemetry.tracer_provider))
    outer = driver.start()
    driver.confirmed_write()
    assert capsys.readouterr().err == ""
    driver.end(outer)
    captured = capsys.readouterr()
    telemetry.shutdown()
    telemetry.shutdown()
    assert captured.out == ""
    lines = captured.err.splitlines()
    assert lines[0].startswith("execute_tool create_order  ")
    assert lines[1].startswith("└─ execute_tool create_order  ")
    assert lines[2].startswith("   ├─ fcguard.attempt create_order  ERROR  TIMEOUT  ")
    assert "   └─ fcguard.recover  " in lines[3]
    assert lines[4].startswith("      └─ execute_tool query_order  ")


def test_console_prints_what_is_left_at_the_end(capsys: pytest.CaptureFixture[str], recorded: Recorded) -> None:
    processor = ConsoleTrees()
    recorded.tracer_provider.add_span_processor(processor)
    tracer = recorded.tracer_provider.get_tracer("host")
    outer = tracer.start_span("outer")
    tracer.start_span("inner", context=set_span_in_context(outer)).end()
    assert processor.force_flush()
    processor.shutdown()
    assert capsys.readouterr().err.startswith("inner")
    outer.end()


def test_setup_without_a_destination_is_refused(monkeypatch: pytest.MonkeyPatch, collector: Collector) -> None:
    monkeypatch.delenv("OTEL_EXPORTER_OTLP_ENDPOINT", raising=False)
    with pytest.raises(ConfigurationError, match="console=True"):
        setup()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    with setup() as telemetry:
        Driver(OtelObserver(tracer_provider=telemetry.tracer_provider)).succeed()
    assert len(collector.traces()) == 1


def run(code: str, *, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run code in a fresh interpreter."""
    root = Path(__file__).parents[2]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("OTEL_")}
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        cwd=root,
        env=environment | {"PYTHONPATH": str(root)} | (env or {}),
        timeout=600,
        check=False,
    )


GLOBAL = """
from opentelemetry import trace, metrics
from fcguard.telemetry import setup
from fcguard.telemetry.otel import OtelObserver
from fcguard.errors import ConfigurationError
from tests.telemetry.telemetry_driver import Driver
observer = OtelObserver()
call = Driver(observer).succeed()
assert call.trace_id is None
telemetry = setup({destination}, set_global=True)
assert trace.get_tracer_provider() is telemetry.tracer_provider
call = Driver(observer).confirmed_write()
assert call.trace_id, "a provider that is set later is found"
assert observer.faults == 0
try:
    setup(console=True, set_global=True)
except ConfigurationError as error:
    assert "already" in str(error)
else:
    raise AssertionError("the second global provider was not refused")
"""


def test_global_provider_that_is_set_later_is_used(collector: Collector) -> None:
    done = run(GLOBAL.format(destination=f"otlp_endpoint={collector.url!r}"))
    assert (done.returncode, done.stderr) == (0, "")
    names = [
        span.name
        for request in collector.traces()
        for row in request.resource_spans
        for scope in row.scope_spans
        for span in scope.spans
    ]
    assert sorted(names)[:2] == ["execute_tool create_order", "execute_tool query_order"]
    assert len(collector.metrics()) >= 1


def test_global_console(collector: Collector) -> None:
    done = run(GLOBAL.format(destination="console=True"))
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr.startswith("execute_tool create_order")


def test_missing_exporter_names_the_extra() -> None:
    done = run(
        "import sys\n"
        "sys.modules['opentelemetry.exporter.otlp.proto.http.trace_exporter'] = None\n"
        "from fcguard.telemetry import setup\n"
        "setup(otlp_endpoint='http://localhost:4318')"
    )
    assert "pip install 'fcguard[otlp]'" in done.stderr


@pytest.mark.parametrize("variable", ["OTEL_PYTHON_TRACER_PROVIDER", "OTEL_PYTHON_METER_PROVIDER"])
def test_provider_named_by_the_environment_is_used(variable: str) -> None:
    done = run(
        "from fcguard.telemetry.otel import OtelObserver\n"
        "from fcguard.telemetry.providers import GlobalMeters\n"
        "from tests.telemetry.telemetry_driver import Driver\n"
        "observer = OtelObserver()\n"
        "call = Driver(observer).succeed()\n"
        "print(call.trace_id is not None, GlobalMeters().get() is not None, observer.faults)",
        env={variable: {"OTEL_PYTHON_TRACER_PROVIDER": "sdk_tracer_provider"}.get(variable, "sdk_meter_provider")},
    )
    assert done.stdout.split() == [str("TRACER" in variable), str("METER" in variable), "0"]


def test_sdk_that_is_disabled_costs_nothing() -> None:
    done = run(
        "from opentelemetry import trace, metrics\n"
        "from opentelemetry.sdk.trace import TracerProvider\n"
        "from opentelemetry.sdk.metrics import MeterProvider\n"
        "trace.set_tracer_provider(TracerProvider()); metrics.set_meter_provider(MeterProvider())\n"
        "from fcguard.telemetry.otel import OtelObserver\n"
        "from tests.telemetry.telemetry_driver import Driver\n"
        "observer = OtelObserver()\n"
        "print(Driver(observer).succeed().trace_id, observer.faults, observer._meters())",
        env={"OTEL_SDK_DISABLED": "true"},
    )
    assert (done.stdout.split(), done.stderr) == (["None", "0", "None"], "")


@pytest.mark.parametrize(
    "address", ["", "localhost:4318", "grpc://localhost:4317", "http://", "http://[", "http://host:x"]
)
def test_what_is_no_address_of_a_collector_is_refused(address: str) -> None:
    with pytest.raises(ConfigurationError, match=r"otlp_endpoint=.*http://localhost:4318"):
        setup(otlp_endpoint=address)


@pytest.mark.parametrize(
    "address", ["http://u:hun?ter2@h", "http://h:4318?token=hunter2", "http://h#hunter2", "grpc://u:hunter2@h:4317",
                "http://u:hunter2@h:99999"]
)  # fmt: skip
def test_address_with_a_secret_is_refused_without_being_shown(address: str) -> None:
    """A path cannot follow a query, so spans would have gone somewhere else."""
    with pytest.raises(ConfigurationError, match="OTEL_EXPORTER_OTLP_HEADERS") as refused:
        setup(otlp_endpoint=address)
    assert "hun" not in str(refused.value) and "ter2" not in str(refused.value)


def test_without_the_extra_nothing_is_opened_for_the_file_either(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    threads = threading.active_count()
    with pytest.raises(MissingExtraError, match=r"fcguard\[otlp\]"):
        setup(otlp_endpoint="http://localhost:4318", jsonl_path=tmp_path / "deep" / "spans.jsonl")
    assert list(tmp_path.iterdir()) == [] and threading.active_count() == threads


def test_flush_says_when_nobody_took_the_spans(collector: Collector) -> None:
    with setup(otlp_endpoint=collector.url) as telemetry:
        Driver(OtelObserver(tracer_provider=telemetry.tracer_provider)).succeed()
        assert telemetry.flush(timeout=60)
        collector.status = 400
        Driver(OtelObserver(tracer_provider=telemetry.tracer_provider)).succeed()
        assert not telemetry.flush(timeout=60)
        collector.status = 200
        Driver(OtelObserver(tracer_provider=telemetry.tracer_provider)).succeed()
        assert telemetry.flush(timeout=60)
    assert len(collector.spans()) == 4  # those that were refused are lost


def test_flush_waits_no_longer_than_it_may(collector: Collector) -> None:
    collector.may_answer.clear()
    with setup(otlp_endpoint=collector.url) as telemetry:
        Driver(OtelObserver(tracer_provider=telemetry.tracer_provider)).succeed()
        began = time.monotonic()
        assert not telemetry.flush(timeout=0.2)
        assert time.monotonic() - began < 5
        collector.may_answer.set()
        assert telemetry.flush(timeout=60)


def test_flush_says_when_the_file_took_nothing(tmp_path: Path) -> None:
    with setup(jsonl_path=tmp_path / "spans.jsonl") as telemetry:
        Driver(OtelObserver(tracer_provider=telemetry.tracer_provider)).succeed()
        assert telemetry.flush()
    if os.path.exists("/dev/full"):
        with setup(jsonl_path="/dev/full") as telemetry:
            Driver(OtelObserver(tracer_provider=telemetry.tracer_provider)).succeed()
            assert not telemetry.flush()


@pytest.mark.parametrize(
    ("variables", "given", "expected"),
    [
        ({}, None, "fcguard"),
        ({"OTEL_SERVICE_NAME": "orders"}, None, "orders"),
        ({"OTEL_RESOURCE_ATTRIBUTES": "service.name=shop,team=a"}, None, "shop"),
        ({"OTEL_SERVICE_NAME": "orders"}, "mine", "mine"),
    ],
)
def test_service_has_the_name_of_the_program_then_of_the_environment(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], given: str | None, expected: str
) -> None:
    for name in ("OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with setup(console=True, service_name=given) as telemetry:
        attributes = telemetry.tracer_provider.resource.attributes
    assert attributes["service.name"] == expected
    assert attributes.get("team") == ("a" if "OTEL_RESOURCE_ATTRIBUTES" in variables else None)
    assert attributes["telemetry.sdk.name"] == "opentelemetry"
