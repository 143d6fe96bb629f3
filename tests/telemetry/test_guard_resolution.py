"""What a person decides about a parked call is a later part of that call: a span of its own, linked to the first."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.trace import StatusCode

from fcguard.errors import StoreError, UsageError
from fcguard.guard import Guard
from fcguard.model.outcome import Applied
from fcguard.model.tool import ConfirmBy
from fcguard.stores.payload import body_of
from fcguard.stores.sqlite import SQLiteStore
from fcguard.telemetry import semconv as names
from fcguard.telemetry.otlp_json import request_line
from tests.cli.ledger_shell import Shell
from tests.telemetry.telemetry_driver import Recorded

CANARY = "canary-77d0"


def make(recorded: Recorded | None, path: Path, *, version: str = "1", tools: bool = True, **options: Any) -> Guard:
    if recorded is not None:
        options |= {"tracer_provider": recorded.tracer_provider, "meter_provider": recorded.meter_provider}
    guard = Guard(store=SQLiteStore(path / "ledger.db"), evidence_dir=path / "evidence", **options)
    if tools:

        @guard.tool(effect="write", version=version, description="Create an order.")
        def create_order(order_id: str) -> str:
            raise ConnectionResetError

    return guard


def park(recorded: Recorded | None, path: Path) -> str:
    """Leave a parked call in the ledger, and answer its id."""
    with make(recorded, path) as guard, guard.task("order", task_id="t-1"):
        parked = guard.call("create_order", {"order_id": "A1"})
    assert parked.error_type == "UNCERTAIN_RESULT"
    return parked.request_id


def resolve(guard: Guard, request_id: str, applied: bool) -> Any:
    return guard.resolve(request_id, applied=applied, by=f"Ann {CANARY}", reason=f"seen {CANARY}")


def told(recorded: Recorded) -> list[Any]:
    """The call's own spans, first started first."""
    return [span for span in recorded.spans if span.name == "execute_tool create_order"]


@pytest.mark.parametrize("applied", [True, False])
@pytest.mark.parametrize("other", [{}, {"version": "2"}, {"tools": False}], ids=["same tool", "newer", "without tool"])
def test_a_resolution_is_a_root_span_that_is_linked_to_the_call(
    recorded: Recorded, tmp_path: Path, applied: bool, other: dict[str, Any]
) -> None:
    request_id = park(recorded, tmp_path)
    with make(recorded, tmp_path, **other) as guard:
        result = resolve(guard, request_id, applied)

    first, second = told(recorded)
    assert second.parent is None
    (link,) = second.links
    assert (link.context.trace_id, link.context.span_id) == (first.context.trace_id, first.context.span_id)
    assert second.context.trace_id != first.context.trace_id
    assert second.status.status_code is StatusCode.UNSET
    assert [span for span in recorded.spans if span.parent and span.parent.span_id == second.context.span_id] == []
    said = dict(second.attributes or {})
    expected = {
        names.REQUEST_ID: request_id,
        names.PURPOSE: "primary",
        names.OUTCOME: "completed" if applied else "cancelled",
        names.ATTEMPTS: 1,
        names.TASK_ID: "t-1",
        names.TOOL_VERSION: "1",
        names.TOOL_EFFECT: "write",
    }
    assert expected.items() <= said.items()
    assert said.get(names.OUTCOME_BASIS) == ("operator" if applied else None)
    assert result.trace_id == f"{second.context.trace_id:032x}"


def test_a_resolution_counts_by_its_outcome_but_neither_as_an_attempt_nor_as_a_duration(
    recorded: Recorded, tmp_path: Path
) -> None:
    request_id = park(recorded, tmp_path)
    durations = recorded.points(names.DURATION)
    assert list(durations.values()) == [1]
    with make(recorded, tmp_path) as guard:
        resolve(guard, request_id, applied=True)
    outcomes = {dict(key)[names.OUTCOME]: count for key, count in recorded.points(names.CALLS).items()}
    assert outcomes == {"uncertain": 1, "completed": 1}
    assert list(recorded.points(names.CALL_ATTEMPTS).values()) == [1]
    assert recorded.points(names.DURATION) == durations


def test_the_ledger_names_the_span_of_the_resolution_and_show_prints_it(
    recorded: Recorded, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    request_id = park(recorded, tmp_path)
    with make(recorded, tmp_path) as guard:
        resolve(guard, request_id, applied=True)
        (body,) = [body_of(event) for event in guard.store.events(request_id=request_id) if event.kind == "resolved"]
    first, second = told(recorded)
    ids = [(f"{span.context.trace_id:032x}", f"{span.context.span_id:016x}") for span in (first, second)]
    assert (body["trace_id"], body["span_id"]) == ids[1]
    assert body["result"]["trace_id"] == ids[1][0]

    shown = Shell(tmp_path, capsys)("show", request_id).out
    assert f"trace         {ids[0][0]}, span {ids[0][1]}" in shown
    assert f"later trace   {ids[1][0]}, span {ids[1][1]}" in shown


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.DEBUG, logger="fcguard")
    return caplog


def test_a_resolution_is_one_line_and_says_neither_who_nor_why(
    recorded: Recorded, tmp_path: Path, lines: pytest.LogCaptureFixture
) -> None:
    request_id = park(recorded, tmp_path)
    lines.clear()
    with make(recorded, tmp_path) as guard:
        resolve(guard, request_id, applied=False)
    (line,) = [record for record in lines.records if record.name == "fcguard"]
    assert line.levelname == "INFO"
    fields = line.fcguard  # type: ignore[attr-defined]
    second = told(recorded)[1]
    assert fields["span_id"] == f"{second.context.span_id:016x}"
    assert (fields["request_id"], fields["task_id"], fields["error_type"]) == (request_id, "t-1", "CANCELLED")
    assert CANARY not in line.getMessage()
    assert CANARY not in request_line(recorded.spans)


def test_what_cannot_be_resolved_makes_no_span(recorded: Recorded, tmp_path: Path) -> None:
    request_id = park(None, tmp_path)
    with make(recorded, tmp_path) as guard:
        with pytest.raises(UsageError):
            resolve(guard, "fc-20260130-unknown", applied=True)
        with pytest.raises(UsageError):
            guard.resolve(request_id, applied=True, by="", reason="seen")
        assert recorded.spans == []
        resolve(guard, request_id, applied=True)
        with pytest.raises(UsageError):
            resolve(guard, request_id, applied=True)
    (only,) = told(recorded)
    assert only.links == ()  # nothing was traced before


def test_a_resolution_that_the_ledger_does_not_take_is_an_error(recorded: Recorded, tmp_path: Path) -> None:
    request_id = park(recorded, tmp_path)

    class Slow(SQLiteStore):
        """A ledger in which somebody else is quicker."""

        def events(self, **query: Any) -> Any:
            if not others:
                others.append("quicker")
                with make(None, tmp_path) as other:
                    resolve(other, request_id, applied=True)
            return super().events(**query)

    others: list[str] = []
    guard = Guard(
        store=Slow(tmp_path / "ledger.db"), evidence_dir=tmp_path / "e", tracer_provider=recorded.tracer_provider
    )
    with guard, pytest.raises(StoreError, match="moved by somebody else"):
        resolve(guard, request_id, applied=False)
    second = told(recorded)[1]
    assert second.status.status_code is StatusCode.ERROR
    assert (second.attributes or {})[names.ERROR_TYPE] == names.OTHER_ERROR


def test_without_tracing_the_envelope_keeps_the_trace_of_the_call(recorded: Recorded, tmp_path: Path) -> None:
    request_id = park(recorded, tmp_path)
    with make(None, tmp_path) as guard:
        result = resolve(guard, request_id, applied=True)
        (body,) = [body_of(event) for event in guard.store.events(request_id=request_id) if event.kind == "resolved"]
    (first,) = told(recorded)
    assert result.trace_id == f"{first.context.trace_id:032x}"
    assert "span_id" not in body


def test_a_call_that_is_confirmed_later_counts_its_attempts_once(recorded: Recorded, tmp_path: Path) -> None:
    orders: list[str] = []

    def confirm(call: Any) -> Any:
        return Applied(orders[0]) if orders else None

    with make(recorded, tmp_path, tools=False) as guard:

        @guard.tool(effect="write", confirm=confirm)
        def create_order(order_id: str) -> str:
            raise ConnectionResetError

        with guard.task("order"):
            request_id = guard.call("create_order", {"order_id": "A1"}).request_id
        orders.append("A1")
        assert guard.advance(request_id).outcome_basis == "confirmed"
        bodies = [body_of(event) for event in guard.store.events(request_id=request_id)]
    first, second = told(recorded)
    assert list(recorded.points(names.CALL_ATTEMPTS).values()) == [1]
    assert list(recorded.points(names.DURATION).values()) == [1]
    assert (second.attributes or {})[names.ATTEMPTS] == 1
    named = [(body["trace_id"], body["span_id"]) for body in bodies if "span_id" in body]
    assert named == [(f"{span.context.trace_id:032x}", f"{span.context.span_id:016x}") for span in (first, second)]
    assert bodies[-1]["result"]["trace_id"] == named[1][0]


@pytest.mark.parametrize("by_tool", [False, True], ids=["confirm=function", "ConfirmBy"])
def test_a_parked_call_that_is_asked_about_again_is_linked_from_every_look(
    recorded: Recorded, tmp_path: Path, by_tool: bool
) -> None:
    orders: dict[str, str] = {}
    with make(recorded, tmp_path, tools=False) as guard:

        @guard.tool(effect="read")
        def query_order(order_id: str) -> str:
            return orders.get(order_id, "")

        def exists(call: Any) -> Any:
            found = guard.call("query_order", {"order_id": call.arguments["order_id"]})
            return Applied(found.data) if found.data else None

        confirm = ConfirmBy("query_order", lambda data: True if data else None) if by_tool else exists

        @guard.tool(effect="write", confirm=confirm)
        def create_order(order_id: str) -> str:
            raise ConnectionResetError

        with guard.task("order"):
            guard.call("create_order", {"order_id": "A1"})
        before = len(recorded.spans)
        assert guard.recover(parked=True).totals == {"waits": 1}
        orders["A1"] = "created"
        assert guard.recover(parked=True).totals == {"confirmed": 1}
    first, last = told(recorded)
    roots = [span for span in recorded.spans[before:] if span.parent is None]
    assert [span.name for span in roots] == ["execute_tool query_order"] * 2 + ["execute_tool create_order"]
    for span in roots:
        (link,) = span.links
        assert (link.context.trace_id, link.context.span_id) == (first.context.trace_id, first.context.span_id)
    assert (last.attributes or {})[names.OUTCOME_BASIS] == "confirmed"
