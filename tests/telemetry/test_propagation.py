"""The trace over process borders."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry import baggage, context, trace

from fcguard.telemetry.otel import OtelObserver
from fcguard.telemetry.propagate import context_from, continued, with_headers, with_meta
from tests.telemetry.telemetry_driver import Driver, Recorded

SENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def test_tool_sends_its_attempts_trace(recorded: Recorded) -> None:
    driver = Driver(OtelObserver(tracer_provider=recorded.tracer_provider))
    sent: list[Any] = []

    def tool() -> None:
        sent.append(with_headers({"Accept": "*/*", "TraceParent": "old", "tracestate": "old=1"}))
        sent.append(with_meta({"progressToken": 7, "traceparent": "old"}))

    call = driver.start()
    driver.attempt(call, tool)
    driver.end(call)
    span_id = recorded.span("fcguard.attempt create_order").context.span_id
    headers, meta = sent
    # The last byte is the flags: sampled, and random where the SDK says so.
    assert headers.pop("traceparent")[:-2] == f"00-{call.trace_id}-{span_id:016x}-"
    assert headers == {"Accept": "*/*"}
    assert meta.pop("traceparent")[:-2] == f"00-{call.trace_id}-{span_id:016x}-"
    assert meta == {"progressToken": 7}


def test_nothing_is_sent_without_a_trace() -> None:
    given_headers = {"Accept": "*/*"}
    assert with_headers(given_headers) == {"Accept": "*/*"}
    assert with_headers(given_headers) is not given_headers
    assert with_headers() == {}
    assert with_meta() == {}


def test_baggage_stays_at_home(recorded: Recorded) -> None:
    tracer = recorded.tracer_provider.get_tracer("host")
    with tracer.start_as_current_span("host"):
        token = context.attach(baggage.set_baggage("user", "canary"))
        assert set(with_headers()) == {"traceparent"}
        context.detach(token)


@pytest.mark.parametrize(
    "carrier", [{"traceparent": SENT}, {"Traceparent": SENT, "x": 1}, {"traceparent": SENT, "tracestate": "a=b"}]
)
def test_call_continues_the_senders_trace(recorded: Recorded, carrier: dict[str, Any]) -> None:
    with continued(carrier):
        call = Driver(OtelObserver(tracer_provider=recorded.tracer_provider)).succeed()
    assert call.trace_id == "0af7651916cd43dd8448eb211c80319c"
    root = recorded.span("execute_tool create_order")
    assert root.parent is not None
    assert root.parent.span_id == 0xB7AD6B7169203331
    assert root.parent.is_remote
    assert trace.get_current_span() is trace.INVALID_SPAN


def test_senders_trace_is_known_without_an_sdk() -> None:
    with continued({"traceparent": SENT}):
        call = Driver(OtelObserver()).succeed()
    assert (call.trace_id, call.span_id) == ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331")


anything = st.dictionaries(
    st.sampled_from(["traceparent", "tracestate", "Traceparent", "other"]) | st.integers(),
    st.text(max_size=60) | st.just(SENT) | st.just("a" * 5000) | st.integers() | st.none() | st.lists(st.text()),
)


@given(anything | st.none())
def test_malformed_carriers_mean_no_trace(carrier: Any) -> None:
    span = trace.get_current_span(context_from(carrier)).get_span_context()
    assert not span.is_valid or SENT in carrier.values()


def test_surrounding_span_stays_for_a_message_without_a_trace(recorded: Recorded) -> None:
    tracer = recorded.tracer_provider.get_tracer("host")
    with tracer.start_as_current_span("host") as span, continued({}):
        assert trace.get_current_span() is span
