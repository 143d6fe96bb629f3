"""Telemetry of real guards: the worked example, refusals, threads, and the logs of a tool."""

from __future__ import annotations

import asyncio
import logging
import threading
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.trace import StatusCode

from fcguard.guard import Guard
from fcguard.model.call_info import current_call
from fcguard.model.outcome import Applied, NotApplied
from fcguard.stores.memory import MemoryStore
from fcguard.telemetry.capture import LogCapture
from fcguard.telemetry.propagate import with_headers
from fcguard.telemetry.standard import default_observer
from tests.telemetry.telemetry_driver import Recorded

TREE = [
    (0, "execute_tool create_order"),
    (1, "fcguard.attempt create_order"),
    (1, "fcguard.recover"),
    (2, "execute_tool query_order"),
    (3, "fcguard.attempt query_order"),
]


def guard_of(recorded: Recorded, path: Path, **options: Any) -> Guard:
    observer = default_observer(
        tracer_provider=recorded.tracer_provider, meter_provider=recorded.meter_provider, **options
    )
    return Guard(store=MemoryStore(), evidence_dir=path, observer=observer)


def attributes(recorded: Recorded, name: str) -> dict[str, Any]:
    return dict(recorded.span(name).attributes or {})


def check_worked_example(recorded: Recorded) -> None:
    assert recorded.tree() == TREE
    assert recorded.span("execute_tool create_order").status.status_code is StatusCode.UNSET
    root = attributes(recorded, "execute_tool create_order")
    assert (root["fcguard.outcome"], root["fcguard.outcome.basis"], root["fcguard.attempts"]) == (
        "completed",
        "confirmed",
        1,
    )
    attempt = attributes(recorded, "fcguard.attempt create_order")
    assert (attempt["error.type"], attempt["fcguard.attempt.effect"]) == ("TIMEOUT", "unknown")
    recovery = attributes(recorded, "fcguard.recover")
    assert (recovery["fcguard.recovery.action"], recovery["fcguard.recovery.outcome"]) == ("confirm", "applied")
    assert attributes(recorded, "execute_tool query_order")["fcguard.call.purpose"] == "confirm"


def test_worked_example_in_sync_code(recorded: Recorded, tmp_path: Path) -> None:
    guard = guard_of(recorded, tmp_path)
    orders: dict[str, Any] = {}
    over = threading.Event()

    @guard.tool(effect="read")
    def query_order(order_id: str) -> dict[str, Any]:
        return orders.get(order_id) or {}

    def order_exists(call: Any) -> Any:
        found = guard.call("query_order", {"order_id": call.arguments["order_id"]})
        return Applied(found.data) if found.success and found.data else NotApplied()

    @guard.tool(effect="write", timeout=0.2, confirm=order_exists)
    def create_order(order_id: str) -> dict[str, Any]:
        orders[order_id] = {"id": order_id}
        over.wait(30)
        return orders[order_id]

    with guard.task(goal="order", agent="orders"):
        result = guard.call("create_order", {"order_id": "A1"})
    over.set()
    guard.close()

    assert result.success
    assert result.outcome_basis == "confirmed"
    assert result.trace_id == f"{recorded.spans[0].context.trace_id:032x}"
    check_worked_example(recorded)
    assert attributes(recorded, "execute_tool create_order")["gen_ai.agent.name"] == "orders"


def test_worked_example_in_async_code(recorded: Recorded, tmp_path: Path) -> None:
    guard = guard_of(recorded, tmp_path)
    orders: dict[str, Any] = {}

    @guard.tool(effect="read")
    async def query_order(order_id: str) -> dict[str, Any]:
        return orders.get(order_id) or {}

    async def order_exists(call: Any) -> Any:
        found = await guard.acall("query_order", {"order_id": call.arguments["order_id"]})
        return Applied(found.data) if found.success and found.data else NotApplied()

    @guard.tool(effect="write", timeout=0.2, confirm=order_exists)
    async def create_order(order_id: str) -> dict[str, Any]:
        orders[order_id] = {"id": order_id}
        await asyncio.sleep(30)
        return {}

    async def main() -> Any:
        with guard.task(goal="order"):
            return await guard.acall("create_order", {"order_id": "A1"})

    assert asyncio.run(main()).outcome_basis == "confirmed"
    guard.close()
    check_worked_example(recorded)


def test_refusals_are_errors_without_attempts(recorded: Recorded, tmp_path: Path) -> None:
    guard = guard_of(recorded, tmp_path)

    @guard.tool(effect="read")
    def query_order(order_id: str, page: int = 1) -> dict[str, Any]:
        return {}

    with guard.task(goal="look"):
        guard.call("query_order", {"order_id": "canary", "page": "canary"})
        guard.call("canary_tool", {"canary": "canary"})
    guard.close()

    assert [span.name for span in recorded.spans] == ["execute_tool query_order", "execute_tool _unknown"]
    first, second = (dict(span.attributes or {}) for span in recorded.spans)
    assert (first["error.type"], first["fcguard.outcome"], first["fcguard.attempts"]) == (
        "PARAM_INVALID",
        "rejected",
        0,
    )
    assert first["fcguard.validation.layer"] == "schema"
    assert second["error.type"] == "TOOL_UNKNOWN"
    assert not any("canary" in span.to_json() for span in recorded.spans)


@pytest.mark.parametrize("timeout", [None, 10.0])
def test_tool_runs_inside_its_attempt(recorded: Recorded, tmp_path: Path, timeout: float | None) -> None:
    guard = guard_of(recorded, tmp_path)
    seen: list[Any] = []

    @guard.tool(effect="read", timeout=timeout)
    def query_order() -> str:
        seen.append(trace.get_current_span().get_span_context().span_id)
        seen.append(current_call().trace_id)
        seen.append(with_headers()["traceparent"].split("-")[2])
        return "x"

    with guard.task(goal="look"):
        result = query_order()
    guard.close()

    attempt = recorded.span("fcguard.attempt query_order")
    assert seen == [attempt.context.span_id, result.trace_id, f"{attempt.context.span_id:016x}"]
    assert trace.get_current_span() is trace.INVALID_SPAN


def test_stages_stand_below_the_call(recorded: Recorded, tmp_path: Path) -> None:
    guard = guard_of(recorded, tmp_path, span_detail="stages")

    @guard.tool(effect="read")
    def query_order(order_id: str) -> str:
        return "x"

    with guard.task(goal="look"):
        guard.call("query_order", {"order_id": "A1"})
        guard.call("query_order", {"order_id": []})
    guard.close()

    names = [name for _, name in sorted(recorded.tree())]
    assert names.count("execute_tool query_order") == 2
    for stage in ("context", "intent", "normalize", "validate", "record"):
        assert f"fcguard.{stage}" in names
    assert names.count("fcguard.result") == 1
    assert {depth for depth, name in recorded.tree() if name.startswith("fcguard.")} == {1}
    refused = [span for span in recorded.spans if span.status.status_code is StatusCode.ERROR]
    assert [span.name for span in refused] in (
        ["execute_tool query_order", "fcguard.normalize"],
        ["execute_tool query_order", "fcguard.validate"],
    )


def test_lines_of_a_tool_are_kept_as_its_log(recorded: Recorded, tmp_path: Path) -> None:
    guard = guard_of(recorded, tmp_path)
    logger = logging.Logger("orders")
    capture = LogCapture(tmp_path)
    capture.install(logger)

    @guard.tool(effect="read", timeout=10.0)
    def query_order(password: str) -> str:
        logger.warning("login with %s", password)
        return "x"

    with guard.task(goal="look"):
        result = query_order(password="hunter2-secret")
    guard.close()
    capture.close()

    (path,) = (tmp_path / "logs" / "query_order").iterdir()
    assert path.name == f"{result.request_id}.log"
    text = path.read_text()
    assert "WARNING orders [1] login with " in text
    assert "hunter2-secret" not in text


def test_cancelled_call_leaves_a_span_without_error(recorded: Recorded, tmp_path: Path) -> None:
    guard = guard_of(recorded, tmp_path)

    @guard.tool(effect="read")
    async def query_order() -> str:
        asyncio.current_task().cancel()  # type: ignore[union-attr]
        await asyncio.sleep(30)
        return "x"

    async def main() -> None:
        with guard.task(goal="look"), pytest.raises(asyncio.CancelledError):
            await guard.acall("query_order", {})

    asyncio.run(main())
    guard.close()

    assert recorded.tree() == [(0, "execute_tool query_order"), (1, "fcguard.attempt query_order")]
    assert {span.status.status_code for span in recorded.spans} == {StatusCode.UNSET}
    assert attributes(recorded, "execute_tool query_order")["fcguard.outcome"] == "cancelled"


def test_call_counts_once(recorded: Recorded, tmp_path: Path) -> None:
    guard = guard_of(recorded, tmp_path)

    @guard.tool(effect="read")
    def query_order() -> str:
        return "x"

    with guard.task(goal="look"):
        for _ in range(5):
            query_order()
    guard.close()
    tool = ("gen_ai.tool.name", "query_order")
    assert recorded.points("fcguard.calls") == {(("fcguard.outcome", "completed"), tool): 5}
    assert recorded.points("fcguard.call.attempts") == {(tool,): 5}
