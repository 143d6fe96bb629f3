"""Later parts of a call are new spans that are linked to the first; a call from elsewhere joins the sender's trace."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.context import Context, attach, detach

from fcguard.adapters import mcp
from fcguard.approval import Deferred, MemoryApprovals
from fcguard.guard import Guard
from fcguard.model.outcome import Applied
from fcguard.reconcile.history import origin_of
from fcguard.stores.memory import MemoryStore
from fcguard.stores.sqlite import SQLiteStore
from fcguard.telemetry.propagate import with_meta
from tests.telemetry.telemetry_driver import Recorded

SENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


def make(recorded: Recorded, path: Path, store: Any = None, **options: Any) -> Guard:
    return Guard(
        store=store or SQLiteStore(path / "ledger.db"),
        evidence_dir=path / "evidence",
        tracer_provider=recorded.tracer_provider,
        **options,
    )


def check_linked(recorded: Recorded, name: str) -> tuple[Any, Any]:
    """Check that there are two root spans of this name, the second linked to the first; answer both."""
    first, second = [span for span in recorded.spans if span.name == name]
    assert second.parent is None
    assert first.links == ()
    (link,) = second.links
    assert (link.context.trace_id, link.context.span_id) == (first.context.trace_id, first.context.span_id)
    assert second.context.trace_id != first.context.trace_id
    return first, second


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("is_approved", [False, True])
def test_resumed_approval_is_linked_to_the_call_that_asked(
    recorded: Recorded, tmp_path: Path, is_async: bool, is_approved: bool
) -> None:
    approvals = MemoryApprovals()
    guards = [make(recorded, tmp_path, approver=Deferred(approvals)) for _ in range(2)]
    for guard in guards:

        @guard.tool(effect="write", approval="required")
        def pay(order_id: str) -> str:
            return "paid"

    with guards[0].task(goal="pay"):
        asked = guards[0].call("pay", {"order_id": "A1"})
    guards[0].close()
    assert asked.error_type == "APPROVAL_REQUIRED"
    answer = {"approved": is_approved, "by": "ann"}
    if is_async:
        result = asyncio.run(guards[1].aresume(asked.request_id, **answer))
    else:
        result = guards[1].resume(asked.request_id, **answer)
    guards[1].close()

    assert result.success is is_approved
    first, second = check_linked(recorded, "execute_tool pay")
    assert (first.attributes or {})["fcguard.outcome"] == "deferred"
    assert result.trace_id == f"{second.context.trace_id:032x}"


def test_parked_call_that_is_confirmed_later_is_linked(recorded: Recorded, tmp_path: Path) -> None:
    guard = make(recorded, tmp_path)
    orders: dict[str, str] = {}

    def order_exists(call: Any) -> Any:
        return Applied(orders[call.arguments["order_id"]])

    @guard.tool(effect="write", confirm=order_exists)
    def create_order(order_id: str) -> str:
        raise ConnectionResetError

    with guard.task(goal="order"):
        parked = guard.call("create_order", {"order_id": "A1"})
    assert parked.error_type == "UNCERTAIN_RESULT"
    orders["A1"] = "created"
    assert guard.advance(parked.request_id).outcome_basis == "confirmed"
    guard.close()

    first, second = check_linked(recorded, "execute_tool create_order")
    assert (first.attributes or {})["fcguard.outcome"] == "uncertain"
    assert (second.attributes or {})["fcguard.outcome"] == "completed"
    assert (second.attributes or {})["fcguard.request.id"] == parked.request_id


def test_call_of_an_untraced_process_has_no_link(recorded: Recorded, tmp_path: Path) -> None:
    store = MemoryStore()
    with Guard(store=store, evidence_dir=tmp_path) as guard:

        @guard.tool(effect="read")
        def query_order() -> str:
            return "paid"

        result = query_order()
        assert origin_of(store, result.request_id) is None
        assert origin_of(store, "fc-20260130-unknown") is None


def test_approval_is_resumed_where_nothing_is_traced(recorded: Recorded, tmp_path: Path) -> None:
    approvals = MemoryApprovals()
    store = MemoryStore()
    guards = [
        make(recorded, tmp_path, store, approver=Deferred(approvals)),
        Guard(store=store, evidence_dir=tmp_path, approver=Deferred(approvals)),
    ]
    for guard in guards:

        @guard.tool(effect="write", approval="required")
        def pay(order_id: str) -> str:
            return "paid"

    with guards[0].task(goal="pay"):
        asked = guards[0].call("pay", {"order_id": "A1"})
    assert origin_of(store, asked.request_id) is not None
    result = guards[1].resume(asked.request_id, approved=True, by="ann")
    assert (result.data, result.trace_id) == ("paid", None)
    for guard in guards:
        guard.close()


def test_ledger_that_cannot_be_read_gives_no_link() -> None:
    class Broken(MemoryStore):
        def events(self, **_: Any) -> Any:
            raise RuntimeError("broken")

    assert origin_of(Broken(), "fc-1") is None


@pytest.fixture
def served(recorded: Recorded, tmp_path: Path) -> Iterator[Guard]:
    """A guard whose tool is served over MCP."""
    with make(recorded, tmp_path) as guard:

        @guard.tool(effect="read")
        def query_order(order_id: str) -> str:
            return "paid"

        yield guard


def request(**meta: Any) -> dict[str, Any]:
    return {"name": "query_order", "arguments": {"order_id": "A1"}, "_meta": meta}


def serve(guard: Guard, params: dict[str, Any], is_async: bool) -> list[dict[str, Any]]:
    if is_async:
        return asyncio.run(mcp.aanswer(guard, params))
    return mcp.answer(guard, params)


@pytest.mark.parametrize("is_async", [False, True])
def test_call_over_mcp_joins_the_clients_trace(served: Guard, recorded: Recorded, is_async: bool) -> None:
    (written,) = serve(served, request(traceparent=SENT, progressToken=7), is_async)
    assert written["isError"] is False
    root = recorded.span("execute_tool query_order")
    assert f"{root.context.trace_id:032x}" == "0af7651916cd43dd8448eb211c80319c"
    assert root.parent is not None
    assert (root.parent.span_id, root.parent.is_remote) == (0xB7AD6B7169203331, True)
    assert trace.get_current_span() is trace.INVALID_SPAN


@pytest.mark.parametrize("meta", [{}, {"traceparent": "nonsense"}, {"traceparent": 7}])
def test_call_over_mcp_without_a_trace_begins_one(served: Guard, recorded: Recorded, meta: dict[str, Any]) -> None:
    serve(served, request(**meta), is_async=False)
    assert recorded.span("execute_tool query_order").parent is None


@pytest.mark.parametrize("is_async", [False, True])
def test_span_of_an_instrumented_mcp_server_stays_the_parent(served: Guard, recorded: Recorded, is_async: bool) -> None:
    tracer = recorded.tracer_provider.get_tracer("host")
    with tracer.start_as_current_span("tools/call query_order") as span:
        serve(served, request(traceparent=SENT), is_async)
    root = recorded.span("execute_tool query_order")
    assert root.parent is not None
    assert root.parent.span_id == span.get_span_context().span_id


def test_from_client_to_server_it_is_one_trace(served: Guard, recorded: Recorded, tmp_path: Path) -> None:
    """A governed tool that is an MCP client, and a governed tool of the server: one tree."""
    with make(recorded, tmp_path / "client") as client:

        @client.tool(effect="read")
        def remote_query(order_id: str) -> Any:
            sent = {"name": "query_order", "arguments": {"order_id": order_id}, "_meta": with_meta()}
            token = attach(Context())  # the other process
            try:
                return mcp.answer(served, sent)
            finally:
                detach(token)

        assert client.call("remote_query", {"order_id": "A1"}).success
    assert recorded.tree() == [
        (0, "execute_tool remote_query"),
        (1, "fcguard.attempt remote_query"),
        (2, "execute_tool query_order"),
        (3, "fcguard.attempt query_order"),
    ]
