"""Nothing that a caller, a model or a tool says in confidence leaves through telemetry."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry import baggage, context
from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

from fcguard.errors import ConfigurationError
from fcguard.model.failure import ErrorType, Failure, Problem
from fcguard.model.frozen import freeze
from fcguard.model.secrets import Redactor
from fcguard.model.tool import Tool
from fcguard.telemetry.content import CAPTURE_VARIABLE, MAX_BYTES, Content, capture_mode, cut
from fcguard.telemetry.otlp_json import request_line
from fcguard.telemetry.propagate import with_headers, with_meta
from fcguard.telemetry.standard import default_observer
from tests.telemetry.telemetry_driver import CREATE, Driver, Recorded, envelope, failed

CANARY = "canary-7f3a"
KEYED = Tool(name="pay", parameters={}, fn=print, effect="write", idempotency_key="dedup_key")


class Lines(logging.Handler):
    """Keeps every line as text."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(f"{record.getMessage()} {record.__dict__}")


def exported(recorded: Recorded) -> bytes:
    """Everything that the providers would send, in both encodings."""
    data = recorded.reader.get_metrics_data()
    assert data is not None
    spans = recorded.spans
    return b"".join(
        (
            encode_spans(spans).SerializeToString(),
            request_line(spans).encode(),
            encode_metrics(data).SerializeToString(),
        )
    )


def test_no_canary_in_any_exported_byte(recorded: Recorded) -> None:
    observer = default_observer(
        tracer_provider=recorded.tracer_provider, meter_provider=recorded.meter_provider, span_detail="stages"
    )
    driver = Driver(observer)
    lines = Lines()
    logger = logging.getLogger("fcguard")
    logger.addHandler(lines)
    logger.setLevel(logging.DEBUG)
    token = context.attach(baggage.set_baggage("user", CANARY))
    try:
        driver.confirmed_write()
        arguments = {"order_id": CANARY, CANARY: CANARY}
        unknown = Failure.of(ErrorType.TOOL_UNKNOWN, f"{CANARY} is no tool", "intent")
        driver.refuse(unknown, None, name=f"tool_{CANARY}", arguments=arguments)
        problems = (Problem(f"a.{CANARY}", "type", CANARY),)
        refusal = Failure.of(ErrorType.PARAM_INVALID, CANARY, "schema", problems=problems, reason=CANARY)
        call = driver.start(arguments=arguments)
        call.failure = refusal
        observer.stage(call, "validate", 1.0, 2.0)
        driver.end(call, failed(refusal, normalized_args=arguments, data={"x": CANARY}))
        broken = driver.start(arguments=json.dumps(arguments))
        driver.attempt(broken, error_type="TOOL_ERROR", effect="unknown", error=RuntimeError(CANARY), reason=CANARY)
        own = Failure.of(f"NOT {CANARY}", CANARY, "execute", effect="unknown", next_action=f"ask {CANARY}")
        broken.failure, broken.idempotency_key = own, CANARY
        driver.end(broken, failed(own, attempts=1, data=CANARY))
        headers, meta = with_headers({}), with_meta({})
    finally:
        context.detach(token)
        logger.removeHandler(lines)
        logger.setLevel(logging.NOTSET)

    assert len(recorded.spans) > 8
    assert b"create_order" in exported(recorded)
    assert CANARY.encode() not in exported(recorded)
    assert len(lines.lines) > 4
    assert CANARY not in "".join(lines.lines)
    assert CANARY not in json.dumps([headers, meta])
    assert observer.otel.faults == observer.log.faults == 0


def capture(recorded: Recorded, mode: Any, result: Any, tool: Tool = CREATE, **fields: Any) -> dict[str, Any]:
    """Answer the attributes of one call with captured content."""
    redactor = Redactor(names=("iban",))
    observer = default_observer(tracer_provider=recorded.tracer_provider, capture_content=mode, redactor=redactor)
    driver = Driver(observer)
    call = driver.start(tool)
    for name, value in fields.items():
        setattr(call, name, value)
    driver.end(call, result)
    assert observer.otel.faults == 0
    return dict(recorded.spans[-1].attributes or {})


def test_redacted_content_masks_secrets_by_name_value_and_shape(recorded: Recorded) -> None:
    result = envelope(
        normalized_args={
            "order_id": "A1",
            "password": CANARY,
            "iban": CANARY,
            "note": f"Authorization: Bearer {CANARY}",
        },
        data={"rows": [{"api_key": CANARY, "state": "paid"}], "url": f"postgres://me:{CANARY}@db/x", "said": "pw-9912"},
    )
    found = capture(recorded, "redacted", result, redactor=Redactor(values=("pw-9912",)))
    arguments, data = (json.loads(found[f"gen_ai.tool.call.{part}"]) for part in ("arguments", "result"))
    assert arguments["order_id"] == "A1"
    assert data["rows"][0]["state"] == "paid"
    assert CANARY not in json.dumps([arguments, data])
    assert "pw-9912" not in json.dumps(data)


def test_secret_argument_that_comes_back_is_masked(recorded: Recorded) -> None:
    result = envelope(normalized_args={"password": "[redacted]"}, data={"echo": "you said open sesame"})
    found = capture(recorded, "redacted", result, arguments=freeze({"password": "open sesame"}))
    assert "sesame" not in found["gen_ai.tool.call.result"]


def test_full_content_is_what_the_envelope_shows(recorded: Recorded) -> None:
    result = envelope(normalized_args={"order_id": "A1"}, data={"token": "t-1234"})
    found = capture(recorded, "full", result)
    assert json.loads(found["gen_ai.tool.call.result"]) == {"token": "t-1234"}


@pytest.mark.parametrize("mode", ["redacted", "full"])
def test_idempotency_keys_are_never_captured(recorded: Recorded, mode: Any) -> None:
    key = "fcg-00112233445566778899aabbccddeeff"
    result = envelope(normalized_args={"amount": 5, "dedup_key": key}, data={"echo": f"seen {key}"})
    found = capture(recorded, mode, result, KEYED, idempotency_key=key)
    assert json.loads(found["gen_ai.tool.call.arguments"]) == {"amount": 5}
    assert key not in json.dumps(found)


def test_what_is_not_there_is_not_captured(recorded: Recorded) -> None:
    found = capture(recorded, "full", envelope())
    assert not [key for key in found if key.startswith("gen_ai.tool.call.")]


def test_content_of_a_call_without_a_tool(recorded: Recorded) -> None:
    driver = Driver(default_observer(tracer_provider=recorded.tracer_provider, capture_content="redacted"))
    call = driver.start(None, name="invented")
    driver.end(call, failed(Failure.of(ErrorType.TOOL_UNKNOWN, "", "intent"), normalized_args={"a": 1}))
    assert (recorded.spans[0].attributes or {})["gen_ai.tool.call.arguments"] == '{"a":1}'


@given(st.text(min_size=0, max_size=3000).map(lambda text: text * 9))
def test_captured_json_stays_small_and_stays_json(text: str) -> None:
    short = cut(json.dumps({"text": text}, ensure_ascii=False))
    assert len(short.encode()) <= MAX_BYTES
    assert isinstance(json.loads(short), dict)


def test_cut_content_says_so() -> None:
    short = json.loads(cut(json.dumps({"text": '"' * 20_000})))
    assert short["truncated"] is True
    assert short["bytes"] == 40_012
    assert short["preview"].startswith('{"text": "')
    assert cut('"\ud800"') == '"?"'


@pytest.mark.parametrize(
    ("text", "mode"),
    [
        ("true", "redacted"),
        (" SPAN_ONLY ", "redacted"),
        ("SPAN_AND_EVENT", "redacted"),
        ("EVENT_ONLY", "none"),
        ("NO_CONTENT", "none"),
        ("false", "none"),
        ("", "none"),
    ],
)
def test_environment_may_switch_capture_on(monkeypatch: pytest.MonkeyPatch, text: str, mode: str) -> None:
    monkeypatch.setenv(CAPTURE_VARIABLE, text)
    assert capture_mode(None) == mode
    assert capture_mode("none") == "none"
    assert capture_mode("full") == "full"


def test_capture_is_off_without_the_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(CAPTURE_VARIABLE, raising=False)
    assert capture_mode(None) == "none"


def test_unknown_capture_mode_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="'all'"):
        capture_mode("all")  # type: ignore[arg-type]


def test_content_keeps_its_own_redactor() -> None:
    assert Content("full").mode == "full"
