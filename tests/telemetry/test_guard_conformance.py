"""Everything that real guards emit conforms, stays bounded, and tells nothing in confidence."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from opentelemetry import baggage, context
from opentelemetry.exporter.otlp.proto.common.metrics_encoder import encode_metrics
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans

from fcguard.approval import Deferred, MemoryApprovals
from fcguard.guard import Guard
from fcguard.model.outcome import Applied
from fcguard.stores.sqlite import SQLiteStore
from fcguard.telemetry import semconv as names
from fcguard.telemetry.otlp_json import request_line
from fcguard.telemetry.outcome import Outcome
from tests.telemetry.telemetry_driver import Recorded

CANARY = "canary-41c7"


class Lines(logging.Handler):
    """Keeps every line as text."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(f"{record.getMessage()} {record.__dict__}")


@pytest.fixture
def lines() -> Iterator[Lines]:
    """Every line of fcguard's own logger, debug lines included."""
    handler, logger = Lines(), logging.getLogger("fcguard")
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    yield handler
    logger.removeHandler(handler)
    logger.setLevel(logging.NOTSET)


@pytest.fixture
def guard(recorded: Recorded, tmp_path: Path) -> Iterator[Guard]:
    """A guard with a tool for each outcome; arguments, results and exceptions hold the canary."""
    with Guard(
        store=SQLiteStore(tmp_path / "ledger.db"),
        evidence_dir=tmp_path / "evidence",
        tracer_provider=recorded.tracer_provider,
        meter_provider=recorded.meter_provider,
        span_detail="stages",
        approver=Deferred(MemoryApprovals()),
        unregistered={"fail_not"},
    ) as made:
        declare(made)
        yield made


def declare(guard: Guard) -> None:
    @guard.tool(effect="read")
    def query(text: str) -> dict[str, str]:
        return {"text": text, "password": CANARY}

    @guard.tool(effect="read")
    def fail(text: str) -> str:
        raise ValueError(f"{CANARY} {text}")

    @guard.tool(effect="write", idempotency_key="dedup")
    def lose(text: str, dedup: str = "") -> str:
        raise ConnectionResetError(f"{CANARY} {dedup}")

    @guard.tool(effect="write", confirm=lambda call: Applied(guard.call("query", {"text": CANARY}).data))
    def confirm(text: str) -> str:
        raise ConnectionResetError(CANARY)

    @guard.tool(effect="write", approval="required")
    def approve(text: str) -> str:
        return text

    @guard.tool(effect="write", business_key=("text",))
    def once(text: str) -> str:
        return text

    @guard.tool(effect="read")
    async def wait(text: str) -> str:
        raise asyncio.CancelledError

    @guard.tool(effect="read")
    async def be_cancelled(text: str) -> str:
        asyncio.current_task().cancel()  # type: ignore[union-attr]
        await asyncio.sleep(30)
        return text


def call_all(guard: Guard) -> None:
    text = {"text": CANARY}

    async def cancelled() -> None:
        await guard.acall("be_cancelled", text)

    with guard.task(goal=CANARY, task_id="t-1", agent="shop", actor=CANARY, forbid={"fail_not"}):
        for name in ("query", "fail", "lose", "confirm", "approve", "once", "once", "wait", f"invented_{CANARY}"):
            guard.call(name, text)
        guard.call("query", {"text": [CANARY], CANARY: CANARY})
        guard.call("query", f'{{"text": "{CANARY}')
        guard.call("functions.query", text)
        with pytest.raises(asyncio.CancelledError):
            asyncio.run(cancelled())


def exported(recorded: Recorded) -> bytes:
    data = recorded.reader.get_metrics_data()
    assert data is not None
    spans = recorded.spans
    return (
        encode_spans(spans).SerializeToString()
        + request_line(spans).encode()
        + encode_metrics(data).SerializeToString()
    )


def test_calls_of_every_outcome_conform_and_leak_nothing(guard: Guard, recorded: Recorded, lines: Lines) -> None:
    token = context.attach(baggage.set_baggage("user", CANARY))
    try:
        call_all(guard)
    finally:
        context.detach(token)

    outcomes = {(span.attributes or {}).get(names.OUTCOME) for span in recorded.spans}
    assert outcomes - {None} == set(get_args(Outcome))
    assert {name for name in names.METRICS if recorded.points(name)} == set(names.METRICS) - {names.EVIDENCE_FAILURES}
    assert b"execute_tool query" in exported(recorded)
    assert CANARY.encode() not in exported(recorded)
    assert len(lines.lines) > 20
    assert CANARY not in "".join(lines.lines)
    keys = [call.identity.idempotency_key for call in guard.store.calls() if call.identity.idempotency_key]
    assert keys
    told = exported(recorded).decode("latin-1") + "".join(lines.lines)
    assert [key for key in keys if key in told] == []


def test_invented_names_and_many_calls_stay_within_the_bound(recorded: Recorded, tmp_path: Path) -> None:
    from fcguard.stores.memory import MemoryStore

    with Guard(store=MemoryStore(), evidence_dir=tmp_path, meter_provider=recorded.meter_provider) as guard:

        @guard.tool(effect="read")
        def query(number: int) -> int:
            return number

        with guard.task(goal="look", agent="shop"):
            for number in range(2_000):
                guard.call(f"invented_{number}", {"number": number})
            for number in range(8_000):
                guard.call("query", {"number": number if number % 2 else "x"})
    calls = recorded.points(names.CALLS)
    assert sum(calls.values()) == 10_000
    assert {key: len(recorded.points(key)) for key in names.METRICS} == {
        names.DURATION: 3,
        names.CALLS: 3,
        names.CALL_ATTEMPTS: 1,
        names.VALIDATION_FAILURES: 2,
        names.RECOVERIES: 0,
        names.UNRESOLVED: 1,
        names.EVIDENCE_DURATION: 0,
        names.EVIDENCE_FAILURES: 0,
    }


def test_pydantic_ai_has_one_span_per_governed_call(recorded: Recorded, tmp_path: Path) -> None:
    pydantic_ai = pytest.importorskip("pydantic_ai")
    models = pytest.importorskip("pydantic_ai.models.function")
    messages = pytest.importorskip("pydantic_ai.messages")
    instrumented = pytest.importorskip("pydantic_ai.models.instrumented")
    guard = Guard(
        store=SQLiteStore(tmp_path / "ledger.db"), evidence_dir=tmp_path, tracer_provider=recorded.tracer_provider
    )
    orders: dict[str, str] = {}

    @guard.tool(effect="read")
    async def query_order(order_id: str) -> str | None:
        return orders.get(order_id)

    async def order_exists(call: Any) -> Any:
        return Applied((await guard.acall("query_order", {"order_id": call.arguments["order_id"]})).unwrap())

    @guard.tool(effect="write", timeout=0.2, confirm=order_exists)
    async def create_order(order_id: str) -> str:
        orders[order_id] = "created"
        await asyncio.sleep(30)
        return "never"

    def answer(history: list[Any], _: Any) -> Any:
        if len(history) == 1:
            return messages.ModelResponse(parts=[messages.ToolCallPart("create_order", {"order_id": "A1"})])
        return messages.ModelResponse(parts=[messages.TextPart("done")])

    agent = pydantic_ai.Agent(models.FunctionModel(answer))
    agent.instrument = instrumented.InstrumentationSettings(
        tracer_provider=recorded.tracer_provider, meter_provider=recorded.meter_provider, include_content=False
    )

    @agent.tool_plain(name="create_order")
    async def tool(order_id: str) -> str:
        with guard.task(goal="order"):
            return json.dumps((await create_order(order_id=order_id)).unwrap())

    assert asyncio.run(agent.run("create an order")).output == "done"
    guard.close()

    (root,) = [span for span in recorded.spans if (span.attributes or {}).get(names.TOOL_NAME) == "create_order"]
    assert root.instrumentation_scope is not None
    assert root.instrumentation_scope.name == "pydantic-ai"
    assert (root.attributes or {})[names.OUTCOME_BASIS] == "confirmed"
    tree = recorded.tree()
    at = next(index for index, (_, name) in enumerate(tree) if name == root.name)
    depth = tree[at][0]
    assert [(level - depth, name) for level, name in tree[at + 1 : at + 5]] == [
        (1, "fcguard.attempt create_order"),
        (1, "fcguard.recover"),
        (2, "execute_tool query_order"),
        (3, "fcguard.attempt query_order"),
    ]
