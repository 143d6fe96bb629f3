"""P0: executed writes that should not have happened, by the effect of the call."""

from __future__ import annotations

import pytest

from fcguard.evaluation.align import align
from fcguard.evaluation.catalogue import Catalogue, ToolSpec
from fcguard.evaluation.misfires import find_misfires
from tests.evaluation.evaluation_builders import call, catalogue_of, gold_of, session

TOOLS = catalogue_of(look="read", send="write", drop="destructive", put="idempotent_write")


def report(gold, *calls, catalogue=TOOLS):
    run = session(*calls)
    task = gold.tasks["t"] if gold is not None else None
    return find_misfires(run, task, align(run.calls, task, catalogue.effect_of) if task else None, catalogue)


def found(gold, *calls, catalogue=TOOLS):
    return [(misfire.position, misfire.kind) for misfire in report(gold, *calls, catalogue=catalogue).misfires]


SEND = {"any_of": [{"tool": "send", "arguments": {"to": "ann"}}], "effect": "write"}


def test_a_wanted_write_and_any_read_are_no_misfire() -> None:
    assert found(gold_of(SEND), call("look", {}), call("send", {"to": "ann"})) == []


def test_a_write_with_other_arguments_matches_no_gold_write() -> None:
    assert found(gold_of(SEND), call("send", {"to": "bob"})) == [(0, "not_in_gold")]


def test_an_extra_destructive_call_is_a_misfire_even_beside_a_perfect_run() -> None:
    assert found(gold_of(SEND), call("send", {"to": "ann"}), call("drop", {})) == [(1, "not_in_gold")]


def test_an_effect_outside_the_allowed_ones_is_a_misfire_even_if_the_gold_matches() -> None:
    assert found(gold_of(SEND, allowed_effects=["read"]), call("send", {"to": "ann"})) == [(0, "effect_not_allowed")]
    assert found(gold_of(SEND, allowed_effects=["read", "write"]), call("send", {"to": "ann"})) == []


def test_a_repeated_effect_is_a_misfire_unless_something_took_it_back() -> None:
    tools = Catalogue.of(
        [
            ToolSpec("book", effect="write", business_key=("flight",)),
            ToolSpec("cancel", effect="write", compensates=frozenset({"book"})),
        ]
    )
    first, second = call("book", {"flight": 1, "pay": "a"}), call("book", {"flight": 1, "pay": "b"})
    gold = gold_of({"any_of": [{"tool": "book"}]}, {"any_of": [{"tool": "cancel"}], "optional": True})
    assert found(gold, first, second, catalogue=tools) == [(1, "effect_repeated")]
    assert found(gold, first, call("book", {"flight": 2}), catalogue=tools) == [(1, "not_in_gold")]
    taken_back = found(gold, first, call("cancel", {}), second, catalogue=tools)
    assert "effect_repeated" not in [kind for _, kind in taken_back]


def test_a_repeat_that_the_gold_asks_for_is_none() -> None:
    twice = gold_of({"any_of": [{"tool": "send"}], "repeat": {"min": 2, "max": 2}})
    assert found(twice, call("send", {"a": 1}), call("send", {"a": 1})) == []


def test_repeats_are_found_without_gold_too() -> None:
    assert found(None, call("send", {"a": 1}), call("send", {"a": 1})) == [(1, "effect_repeated")]
    assert found(None, call("put", {"a": 1}), call("put", {"a": 1})) == []
    assert not report(None, call("send", {})).has_gold


def test_one_idempotency_key_is_one_effect() -> None:
    same = call("send", {"a": 1}, idempotency_key="k")
    assert found(None, same, same) == []
    assert found(None, same, call("send", {"a": 1}, idempotency_key="other")) == []


@pytest.mark.parametrize("fields", [{"status": "refused"}, {"status": "failed", "effect_state": "not_applied"}])
def test_a_stopped_write_is_counted_apart(fields) -> None:
    result = report(gold_of(SEND), call("drop", {}, **fields))
    assert result.misfires == ()
    assert result.blocked == (0,)


def test_a_write_without_proof_counts_and_says_so() -> None:
    (misfire,) = report(gold_of(SEND), call("drop", {}, status="uncertain")).misfires
    assert not misfire.is_proved
    (misfire,) = report(gold_of(SEND), call("drop", {}, confirmed_by_human=True)).misfires
    assert misfire.is_proved
    assert misfire.confirmed_by_human, "a column, not an excuse"


def test_an_undeclared_effect_cannot_be_judged() -> None:
    result = report(gold_of(SEND), call("mystery", {}))
    assert (result.misfires, result.unjudged) == ((), (0,))


def test_a_tool_that_was_not_offered_and_failed_had_no_effect() -> None:
    result = report(gold_of(SEND), call("mystery", {}, status="failed"))
    assert (result.misfires, result.unjudged, result.blocked) == ((), (), ())


def test_the_effect_is_that_of_the_call_not_of_the_name() -> None:
    sql = Catalogue.of(
        [ToolSpec("sql", effect="read", effect_of=lambda a: "destructive" if "DELETE" in a["q"] else "read")]
    )
    gold = gold_of({"any_of": [{"tool": "none"}]})
    assert found(gold, call("sql", {"q": "SELECT 1"}), catalogue=sql) == []
    assert found(gold, call("sql", {"q": "DELETE"}), catalogue=sql) == [(0, "not_in_gold")]
    assert found(gold, call("sql", {"q": "SELECT 1"}, effect="write"), catalogue=sql) == [(0, "not_in_gold")]
