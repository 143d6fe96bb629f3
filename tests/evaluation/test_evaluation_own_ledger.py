"""A guard's own ledger and spans, evaluated: P2 by what the model sent, P0 by what was executed, nothing by what the host filled."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import pytest

from fcguard import Bound, Environment, Guard, MemoryStore, SQLiteStore
from fcguard.evaluation.catalogue import Catalogue
from fcguard.evaluation.gold import parse_gold
from fcguard.evaluation.importers.read import read_records, read_trace
from fcguard.evaluation.metrics import Measured, Measures, measure_session
from fcguard.evaluation.trace import CallRecord
from fcguard.telemetry import setup
from fcguard.testing.ledger_trace import ledger_records, read_ledger
from tests.evaluation.evaluation_builders import call, gold_of, session

STAGING = Environment(name="staging", tenant="acme")


def declare(guard: Guard) -> None:
    @guard.tool(effect="read")
    def query(order_id: str, tenant: Annotated[str, Bound("tenant")]) -> str:
        """Look an order up."""
        return f"{tenant}/{order_id}"

    @guard.tool(effect="write")
    def pay(
        order_id: str, cents: int, tenant: Annotated[str, Bound("tenant")], currency: str = "EUR", note: str = "-"
    ) -> str:
        """Pay an order."""
        return f"{tenant}/{order_id}/{cents}/{currency}/{note}"

    @guard.tool(effect="write", idempotency_key="key")
    def book(order_id: str, key: str) -> str:
        """Book an order."""
        return key[:0] + order_id


def call_sync(guard: Guard, tool: str, arguments: Any) -> Any:
    with guard.task(task_id="case#1", environment=STAGING):
        tools = guard.schemas("openai")
        assert guard.call(tool, arguments).success
    return tools


def call_async(guard: Guard, tool: str, arguments: Any) -> Any:
    async def run() -> Any:
        with guard.task(task_id="case#1", environment=STAGING):
            tools = guard.schemas("openai")
            assert (await guard.acall(tool, arguments)).success
            return tools

    return asyncio.run(run())


def measured(store: Any, tools: Any, tool: str, wanted: Any) -> Measured:
    (one,) = read_ledger(store)
    assert (one.session_id, one.task_id, one.trial) == ("case#1", "case", 1)
    gold = {"id": "case", "prompt": "p", "steps": [{"any_of": [{"tool": tool, "arguments": wanted}]}]}
    return measure_session(
        one, Measures(parse_gold({"version": 1, "suite": "s", "tasks": [gold]}), Catalogue.load(tools))
    )


@pytest.mark.parametrize("run", [call_sync, call_async])
@pytest.mark.parametrize("as_text", [False, True])
@pytest.mark.parametrize(
    ("tool", "sent"),
    [("query", {"order_id": "A1"}), ("pay", {"order_id": "A1", "cents": 5}), ("book", {"order_id": "A1"})],
)
def test_what_the_host_fills_is_not_held_against_the_model(
    run: Callable[..., Any], as_text: bool, tool: str, sent: dict[str, Any]
) -> None:
    store = MemoryStore()
    with Guard(store=store) as guard:
        declare(guard)
        tools = run(guard, tool, json.dumps(sent) if as_text else sent)
        (record,) = ledger_records(store)
        found = measured(store, tools, tool, sent)
    assert record["raw_arguments"] in (sent, json.dumps(sent), json.dumps(sent, separators=(",", ":")))
    assert "acme" not in json.dumps([record["raw_arguments"], record.get("executed_arguments")])
    assert found.session.calls[0].arguments == sent
    assert [check.state for check in found.checks] == ["valid"]
    assert found.counts.get("misfires") is None and found.counts["arguments_matched"] == 1
    assert found.outcome == "passed"


@pytest.mark.parametrize("run", [call_sync, call_async])
@pytest.mark.parametrize(
    "wanted",
    [
        {"order_id": "A1", "cents": 100},
        {"order_id": "A1", "cents": 100, "currency": "EUR"},
        {"order_id": "A1", "cents": 100, "currency": "EUR", "note": "-"},
        {"order_id": "A1", "cents": "100"},
    ],
)
def test_a_folded_write_is_no_misfire_and_yet_invalid_as_sent(run: Callable[..., Any], wanted: Any) -> None:
    store = MemoryStore()
    with Guard(store=store) as guard:
        declare(guard)
        tools = run(guard, "pay", {"order_id": "A1", "cents": "100"})
        found = measured(store, tools, "pay", wanted)
    (made,) = found.session.calls
    assert made.arguments == {"order_id": "A1", "cents": "100"}
    assert made.executed_arguments == {"order_id": "A1", "cents": 100, "currency": "EUR", "note": "-"}
    assert sorted(made.defaults) == ["currency", "note"]
    assert (found.counts.get("misfires", 0), found.counts["misfire_judged"]) == (0, 1)
    assert found.counts["arguments_matched"] == 1
    assert [check.state for check in found.checks] == ["invalid"]


@pytest.mark.parametrize(
    "wanted",
    [
        {"order_id": "A1", "cents": 101},
        {"order_id": "A2", "cents": 100},
        {"order_id": "A1"},
        {"order_id": "A1", "cents": 100, "currency": "USD"},
    ],
)
def test_a_folded_write_that_the_gold_does_not_ask_for_is_a_misfire(wanted: Any) -> None:
    store = MemoryStore()
    with Guard(store=store) as guard:
        declare(guard)
        tools = call_sync(guard, "pay", {"order_id": "A1", "cents": "100"})
        found = measured(store, tools, "pay", wanted)
    assert [misfire.kind for misfire in found.misfires.misfires] == ["not_in_gold"]
    assert found.counts["arguments_differ"] == 1 and found.outcome == "failed"


def folded(sent: Any, executed: Any, **fields: Any) -> CallRecord:
    return call("pay", sent, executed_arguments=executed, effect="write", **fields)


def test_an_effect_is_the_same_whatever_form_its_arguments_were_sent_in() -> None:
    once, again = folded({"cents": "100"}, {"cents": 100}), folded({"cents": 100}, {"cents": 100}, call_id="b")
    gold = gold_of({"any_of": [{"tool": "pay", "arguments": {"cents": 100}}]})
    found = measure_session(session(once, again), Measures(gold))
    assert [(misfire.position, misfire.kind) for misfire in found.misfires.misfires] == [(1, "effect_repeated")]


def test_a_value_that_a_default_filled_inside_of_an_object_needs_no_word_in_the_gold() -> None:
    made = folded({"to": {"n": "1"}}, {"to": {"n": 1, "unit": "kg"}}, defaults=("to.unit",))
    for wanted, misfires in (
        ({"to": {"n": 1}}, 0),
        ({"to": {"n": 1, "unit": "kg"}}, 0),
        ({"to": {"n": 1, "unit": "g"}}, 1),
    ):
        gold = gold_of({"any_of": [{"tool": "pay", "arguments": wanted}]})
        assert measure_session(session(made), Measures(gold)).counts.get("misfires", 0) == misfires


def test_a_record_without_the_names_that_the_host_filled_is_read_as_before() -> None:
    base = {
        "request_id": "fc-1",
        "task_id": "t",
        "tool": "pay",
        "state": "SUCCEEDED",
        "raw_arguments": '{"cents": "1"}',
    }
    (plain,) = read_records([base], "ledger")
    assert (plain.calls[0].executed_arguments, plain.calls[0].acting_arguments) == (None, {"cents": "1"})
    (told,) = read_records([{**base, "executed_arguments": {"cents": 1}, "defaults": ["note"]}], "ledger")
    assert (told.calls[0].acting_arguments, told.calls[0].defaults) == ({"cents": 1}, ("note",))


def test_the_ledger_keeps_the_names_that_the_host_fills_only_where_there_are_any(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "ledger.db")
    with Guard(store=store, evidence_dir=tmp_path) as guard:
        declare(guard)

        @guard.tool(effect="read")
        def plain(order_id: str) -> str:
            return order_id

        with guard.task(task_id="case#1", environment=STAGING):
            for tool in ("query", "plain", "book"):
                assert guard.call(tool, {"order_id": "A1"}).success
        payloads = [json.loads(event.payload) for event in store.events()]
    kept = [payload.get("hidden") for payload in payloads if "purpose" in payload]
    assert kept == [["tenant"], None, ["key"]]
    (one,) = read_trace(tmp_path / "ledger.db")
    assert [made.arguments for made in one.calls] == [{"order_id": "A1"}] * 3


@pytest.mark.parametrize("run", [call_sync, call_async])
def test_spans_of_a_task_are_the_trial_that_its_id_names(run: Callable[..., Any], tmp_path: Path) -> None:
    path = tmp_path / "spans.jsonl"
    telemetry = setup(jsonl_path=path)
    with Guard(store=MemoryStore(), tracer_provider=telemetry.tracer_provider) as guard:
        declare(guard)
        run(guard, "query", {"order_id": "A1"})
        run(guard, "pay", {"order_id": "A1", "cents": 5})
    telemetry.shutdown()
    (one,) = read_trace(path)
    assert (one.session_id, one.task_id, one.trial) == ("case#1", "case", 1)
    assert [made.tool for made in one.calls] == ["query", "pay"]
