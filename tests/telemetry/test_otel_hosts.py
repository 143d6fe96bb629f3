"""Calls under a span that the host has opened for the same tool call."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.trace import StatusCode

from fcguard.model.failure import ErrorType, Failure
from fcguard.telemetry import semconv as names
from fcguard.telemetry.otel import OtelObserver
from tests.telemetry.telemetry_driver import CREATE, QUERY, Driver, Recorded, failed

HOST = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "create_order"}


@pytest.fixture
def driver(recorded: Recorded) -> Any:
    observer = OtelObserver(tracer_provider=recorded.tracer_provider, meter_provider=recorded.meter_provider)
    yield Driver(observer)
    assert observer.faults == 0


def tracer(recorded: Recorded) -> trace.Tracer:
    return recorded.tracer_provider.get_tracer("host")


def test_hosts_span_is_enriched_and_not_doubled(driver: Driver, recorded: Recorded) -> None:
    with tracer(recorded).start_as_current_span("execute_tool create_order", attributes=HOST) as span:
        call = driver.confirmed_write()
        assert trace.get_current_span() is span
        assert span.is_recording()

    assert recorded.tree() == [
        (0, "execute_tool create_order"),
        (1, "fcguard.attempt create_order"),
        (1, "fcguard.recover"),
        (2, "execute_tool query_order"),
        (3, "fcguard.attempt query_order"),
    ]
    found = dict(recorded.span("execute_tool create_order").attributes or {})
    assert found["fcguard.request.id"] == call.request_id
    assert found["fcguard.outcome"] == "completed"
    assert call.span_id == f"{span.get_span_context().span_id:016x}"
    assert [dict(key)["gen_ai.tool.name"] for key in recorded.points(names.DURATION)] == ["query_order"]
    assert sum(recorded.points(names.CALLS).values()) == 2


def test_hosts_own_words_stay(driver: Driver, recorded: Recorded) -> None:
    own = HOST | {"gen_ai.tool.description": "the host's words", "gen_ai.tool.call.id": "host-1"}
    with tracer(recorded).start_as_current_span("running tool", attributes=own):
        driver.succeed(call_id="call_7")
    found = dict(recorded.span("running tool").attributes or {})
    assert found["gen_ai.tool.description"] == "the host's words"
    assert found["gen_ai.tool.call.id"] == "host-1"
    assert found["gen_ai.tool.type"] == "function"


def test_error_stands_on_the_hosts_span(driver: Driver, recorded: Recorded) -> None:
    with tracer(recorded).start_as_current_span("execute_tool create_order", attributes=HOST):
        driver.refuse(Failure.of(ErrorType.PARAM_INVALID, "", "schema"))
    span = recorded.span("execute_tool create_order")
    assert span.status.status_code is StatusCode.ERROR
    assert (span.attributes or {})["error.type"] == "PARAM_INVALID"


def test_name_on_the_span_alone_will_do(driver: Driver, recorded: Recorded) -> None:
    only = {"gen_ai.operation.name": "execute_tool"}
    with tracer(recorded).start_as_current_span("execute_tool create_order", attributes=only):
        driver.succeed()
    assert [depth for depth, _ in recorded.tree()] == [0, 1]
    assert (recorded.spans[0].attributes or {})["gen_ai.tool.name"] == "create_order"


def test_name_that_is_folded_later_is_the_hosts_call_too(driver: Driver, recorded: Recorded) -> None:
    own = HOST | {"gen_ai.tool.name": "functions.create_order"}
    with tracer(recorded).start_as_current_span("execute_tool functions.create_order", attributes=own):
        call = driver.start(None, name="functions.create_order")
        call.tool = CREATE
        driver.attempt(call)
        driver.end(call)
    (root, _) = recorded.spans
    assert root.name == "execute_tool functions.create_order"
    assert (root.attributes or {})["gen_ai.tool.name"] == "functions.create_order"
    assert (root.attributes or {})["fcguard.tool.effect"] == "write"


@pytest.mark.parametrize(
    ("name", "attributes"),
    [
        ("execute_tool other", {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "other"}),
        ("chat", {"gen_ai.operation.name": "chat"}),
        ("GET /", {}),
    ],
)
def test_other_spans_become_parents(driver: Driver, recorded: Recorded, name: str, attributes: dict[str, str]) -> None:
    with tracer(recorded).start_as_current_span(name, attributes=attributes):
        driver.succeed()
    assert recorded.tree() == [(0, name), (1, "execute_tool create_order"), (2, "fcguard.attempt create_order")]
    assert dict(recorded.span(name).attributes or {}) == attributes


def test_second_call_under_one_host_span_gets_its_own(driver: Driver, recorded: Recorded) -> None:
    with tracer(recorded).start_as_current_span("running tool", attributes=HOST):
        driver.succeed()
        driver.succeed()
    assert recorded.tree() == [
        (0, "running tool"),
        (1, "fcguard.attempt create_order"),
        (1, "execute_tool create_order"),
        (2, "fcguard.attempt create_order"),
    ]


def test_tool_that_calls_itself_nests(recorded: Recorded) -> None:
    observer = OtelObserver(tracer_provider=recorded.tracer_provider, span_detail="call")
    driver = Driver(observer)
    outer = driver.start(QUERY)
    driver.succeed(QUERY)
    driver.end(outer)
    assert recorded.tree() == [(0, "execute_tool query_order"), (1, "execute_tool query_order")]


def test_pydantic_ai_has_one_span_per_tool_call(recorded: Recorded) -> None:
    pydantic_ai = pytest.importorskip("pydantic_ai")
    models = pytest.importorskip("pydantic_ai.models.function")
    messages = pytest.importorskip("pydantic_ai.messages")
    instrumented = pytest.importorskip("pydantic_ai.models.instrumented")
    driver = Driver(OtelObserver(tracer_provider=recorded.tracer_provider, meter_provider=recorded.meter_provider))

    def answer(history: list[Any], _: Any) -> Any:
        if len(history) == 1:
            return messages.ModelResponse(parts=[messages.ToolCallPart("create_order", {"order_id": "A1"})])
        return messages.ModelResponse(parts=[messages.TextPart("done")])

    settings = instrumented.InstrumentationSettings(
        tracer_provider=recorded.tracer_provider, meter_provider=recorded.meter_provider, include_content=False
    )
    agent = pydantic_ai.Agent(models.FunctionModel(answer))
    agent.instrument = settings

    @agent.tool_plain
    def create_order(order_id: str) -> str:
        return driver.succeed().request_id

    assert asyncio.run(agent.run("create an order")).output == "done"

    calls = [span for span in recorded.spans if (span.attributes or {}).get("gen_ai.tool.name") == "create_order"]
    assert len(calls) == 1
    assert calls[0].instrumentation_scope is not None
    assert calls[0].instrumentation_scope.name == "pydantic-ai"
    assert (calls[0].attributes or {})["fcguard.outcome"] == "completed"
    attempt = recorded.span("fcguard.attempt create_order")
    assert attempt.parent is not None
    assert attempt.parent.span_id == calls[0].context.span_id


def test_failed_names_the_error_of_a_hosted_call(driver: Driver, recorded: Recorded) -> None:
    failure = Failure.of(ErrorType.TOOL_ERROR, "", "execute")
    with tracer(recorded).start_as_current_span("execute_tool create_order", attributes=HOST):
        call = driver.start()
        driver.attempt(call, error_type="TOOL_ERROR", effect="unknown")
        driver.end(call, failed(failure, attempts=1))
    assert (recorded.span("execute_tool create_order").attributes or {})["fcguard.outcome"] == "failed"
