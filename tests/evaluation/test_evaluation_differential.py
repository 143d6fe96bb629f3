"""Faults known from other evaluators, each held against the whole of this one."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest

from fcguard.evaluation.catalogue import Catalogue, ToolSpec
from fcguard.evaluation.importers.read import read_records
from fcguard.evaluation.metrics import Measured, Measures, measure_session
from fcguard.evaluation.trace import Session
from tests.evaluation.evaluation_builders import call, catalogue_of, gold_of, session

TOOLS = Catalogue.of(
    [
        ToolSpec("add", schema={"type": "object", "properties": {"n": {"type": "integer"}}}, effect="read"),
        ToolSpec("flag", schema={"type": "object", "properties": {"on": {"type": "boolean"}}}, effect="read"),
        ToolSpec("delete_all", schema={"type": "object"}, effect="destructive"),
    ]
)


def measured(run: Session, gold: Any, tools: Catalogue = TOOLS) -> Measured:
    return measure_session(run, Measures(gold, tools))


def wants(tool: str, *arguments: Any, **fields: Any) -> Any:
    return gold_of(*({"any_of": [{"tool": tool, "arguments": item}]} for item in arguments), **fields)


def test_two_correct_identical_calls_score_full() -> None:
    gold = wants("add", {"n": 1}, {"n": 1}, min_calls=2)
    found = measured(session(call("add", {"n": 1}), call("add", {"n": 1})), gold)
    assert (found.score.total.require(), found.outcome) == (100, "passed")


def test_fifty_duplicates_do_not() -> None:
    same = call("add", {"n": 1}, result_hash="x")
    found = measured(session(*[same] * 50), wants("add", {"n": 1}, min_calls=1))
    assert found.score.efficiency.require() == pytest.approx(0.4)
    assert found.score.total.require() < 80
    assert (found.counts["repeats"], found.counts["extra"]) == (49, 49)


def test_an_extra_delete_all_is_a_misfire() -> None:
    found = measured(session(call("add", {"n": 1}), call("delete_all", {})), wants("add", {"n": 1}))
    assert found.counts["misfires"] == 1
    assert found.outcome == "failed"


@pytest.mark.parametrize(
    ("wanted", "sent", "is_same"),
    [(100, "100", False), (1, True, False), (1, 1.0, True), (0, False, False), ("1", 1, False)],
)
def test_values_of_other_json_types_are_other_values(wanted: Any, sent: Any, is_same: bool) -> None:
    found = measured(session(call("add", {"n": sent})), wants("add", {"n": wanted}))
    assert (found.counts.get("arguments_differ", 0) == 0) is is_same


@pytest.mark.parametrize(("tool", "arguments"), [("add", {"n": "100"}), ("add", {"n": True}), ("flag", {"on": 1})])
def test_the_schema_does_not_coerce(tool: str, arguments: Any) -> None:
    assert measured(session(call(tool, arguments)), wants(tool, {"$ignore": True})).counts["invalid"] == 1


@pytest.mark.parametrize("raw", ['{"n": 1', "", "not json", "[1]", '"text"', "NaN", None, 5])
def test_broken_arguments_are_counted_and_never_taken_for_no_call(raw: Any) -> None:
    message = {"role": "assistant", "tool_calls": [{"id": "1", "function": {"name": "add", "arguments": raw}}]}
    (run,) = read_records([{"task_id": "t", "messages": [message]}], "openai_messages")
    found = measured(run, gold_of({"any_of": [{"tool": "none"}]}))
    assert found.counts["calls"] == 1
    assert found.counts["unparsable"] == 1
    assert found.counts["over_tooling"] == 1, "a broken call is no credit for calling nothing"
    assert json.dumps(found.counts)


def test_both_empty_has_one_answer() -> None:
    assert measured(session(), gold_of()).score.total.require() == 100
    assert measured(session(), gold_of({"any_of": [{"tool": "none"}]})).score.total.require() == 100


def test_the_order_of_parallel_calls_does_not_matter() -> None:
    gold = wants("add", {"n": 1}, {"n": 2}, {"$subset": {}}, min_calls=3)
    totals = {
        measured(session(*(call("add", {"n": number}) for number in order)), gold).score.total.require()
        for order in itertools.permutations((1, 2, 3))
    }
    assert totals == {100}


def test_a_right_name_on_the_wrong_server_is_the_wrong_tool() -> None:
    tools = catalogue_of(fetch="read")
    gold = gold_of({"any_of": [{"tool": "fetch", "server": "docs"}]})
    found = measured(session(call("fetch", {}, server="web")), gold, tools)
    assert found.counts["substituted"] == 1


def test_names_match_exactly() -> None:
    found = measured(session(call("Add", {"n": 1})), wants("add", {"n": 1}))
    assert (found.counts["substituted"], found.counts["unknown_tool"]) == (1, 1)


def test_a_failing_call_is_no_pass_although_tool_and_arguments_are_right() -> None:
    assert measured(session(call("add", {"n": 1}, status="failed")), wants("add", {"n": 1})).outcome == "failed"


def test_a_call_with_invalid_arguments_is_no_pass_although_it_is_the_right_tool() -> None:
    gold = gold_of({"any_of": [{"tool": "add"}]})
    assert measured(session(call("add", {"n": 1})), gold).outcome == "passed"
    assert measured(session(call("add", {"n": "1"})), gold).outcome == "failed"


def test_tasks_outside_the_gold_are_counted_and_not_guessed() -> None:
    found = measured(session(call("add", {}), task_id="other"), wants("add", {}))
    assert found.counts["no_gold"] == 1
    assert found.outcome == "unscored"
    assert "misfire_judged" not in found.counts
