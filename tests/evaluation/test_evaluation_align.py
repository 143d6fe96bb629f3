"""Alignment: the cheapest one-to-one match that keeps the order of the gold, found whatever the order of looking."""

from __future__ import annotations

import random
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fcguard.evaluation.align import COSTS, Alignment, align
from fcguard.evaluation.gold import GoldTask, parse_gold
from fcguard.evaluation.trace import CallRecord
from tests.evaluation.evaluation_builders import call, catalogue_of, gold_of, step


def task_of(*steps: dict[str, Any], **fields: Any) -> GoldTask:
    return gold_of(*steps, **fields).tasks["t"]


def kinds(alignment: Alignment) -> list[tuple[str, int | None]]:
    return [(pair.kind, pair.position) for pair in alignment.pairs]


def test_a_perfect_run_costs_nothing() -> None:
    found = align([call("a"), call("b")], task_of(step("a"), step("b")))
    assert (kinds(found), found.cost, found.is_exact) == ([("match", 0), ("match", 1)], 0.0, True)


def test_a_greedy_matcher_would_take_the_only_call_that_another_step_needs() -> None:
    # Step 1 takes a or b, step 2 only a: giving a to step 1 first would lose step 2.
    found = align([call("a"), call("b")], task_of(step("a", "b"), step("a")))
    assert kinds(found) == [("match", 1), ("match", 0)]
    assert found.cost == pytest.approx(COSTS["acceptable"])


def test_arguments_decide_which_of_two_calls_belongs_to_which_step() -> None:
    steps = [{"any_of": [{"tool": "a", "arguments": {"x": value}}]} for value in (1, 2)]
    found = align([call("a", {"x": 2}), call("a", {"x": 1})], task_of(*steps))
    assert kinds(found) == [("match", 1), ("match", 0)]


def test_the_closest_of_two_wrong_calls_is_taken() -> None:
    steps = [{"any_of": [{"tool": "a", "arguments": {"x": 1, "y": 1, "z": 1}}]}]
    found = align([call("a", {"x": 0, "y": 0, "z": 0}), call("a", {"x": 1, "y": 1, "z": 0})], task_of(*steps))
    assert kinds(found) == [("arguments_differ", 1), ("extra", 0)]
    assert [miss.path for miss in found.pairs[0].mismatches] == ["z"]


def test_the_order_of_steps_is_kept() -> None:
    steps = [step("search", id="1"), step("calculator", id="2", after=["1"])]
    assert align([call("search"), call("calculator")], task_of(*steps)).cost == 0
    found = align([call("calculator"), call("search")], task_of(*steps))
    assert found.count("match") == 1
    assert found.count("missing") == 1
    assert found.count("extra") == 1


def test_the_order_reaches_through_a_step_between() -> None:
    steps = [step("a", id="1"), step("b", id="2", after=["1"], optional=True), step("c", id="3", after=["2"])]
    assert align([call("c"), call("a")], task_of(*steps)).count("match") == 1
    assert align([call("a"), call("c")], task_of(*steps)).count("match") == 2


def test_a_step_may_repeat_within_its_limits() -> None:
    task = task_of(step("poll", repeat={"min": 2, "max": 3}))
    assert kinds(align([call("poll")], task)) == [("match", 0), ("missing", None)]
    assert kinds(align([call("poll")] * 3, task)) == [("match", 0), ("match", 1), ("match", 2)]
    assert kinds(align([call("poll")] * 4, task))[-1] == ("extra", 3)


def test_an_optional_step_is_skipped_without_cost() -> None:
    found = align([], task_of(step("a", optional=True), step("none")))
    assert (kinds(found), found.cost) == ([("skipped", None), ("skipped", None)], 0.0)


def test_the_best_whole_path_counts() -> None:
    rows = {"id": "t", "alternatives": [[step("a"), step("b")], [step("c")]]}
    task = parse_gold({"version": 1, "tasks": [rows]}).tasks["t"]
    assert align([call("c")], task).path == 1
    assert align([call("a"), call("b")], task).path == 0
    assert align([], task).path == 1


def test_the_server_is_part_of_the_identity() -> None:
    rows = {"any_of": [{"tool": "search", "server": "docs"}]}
    assert align([call("search", server="docs")], task_of(rows)).count("match") == 1
    assert align([call("search", server="web")], task_of(rows)).count("match") == 0


def test_a_subtask_that_the_trace_names_decides() -> None:
    steps = [step("a", id="1"), step("a", id="2")]
    found = align([call("a", subtask_id="2"), call("a", subtask_id="1")], task_of(*steps))
    assert kinds(found) == [("match", 1), ("match", 0)]


def test_a_read_does_not_stand_for_a_write() -> None:
    effects = catalogue_of(look="read", send="write").effect_of
    task = task_of(step("send", effect="write"))
    assert kinds(align([call("look")], task, effects)) == [("missing", None), ("extra", 0)]
    listed = task_of(step("send", effect="write", wrong=["look"]))
    assert kinds(align([call("look")], listed, effects)) == [("substituted", 0)]
    assert kinds(align([call("other")], task, effects)) == [("substituted", 0)]


def test_an_agent_may_look_around_where_the_gold_says_so() -> None:
    effects = catalogue_of(look="read", send="write").effect_of
    free = gold_of(step("send"), free_reads=True).tasks["t"]
    found = align([call("look"), call("send"), call("send")], free, effects)
    assert kinds(found) == [("match", 1), ("free", 0), ("extra", 2)]
    assert found.cost == COSTS["extra"]
    nothing = gold_of(free_reads=True).tasks["t"]
    assert kinds(align([call("look")], nothing, effects)) == [("free", 0)]


def test_a_call_that_succeeded_goes_before_one_that_failed() -> None:
    assert kinds(align([call("a", status="failed"), call("a")], task_of(step("a")))) == [("match", 1), ("extra", 0)]


def test_unreadable_arguments_differ_from_any() -> None:
    task = task_of({"any_of": [{"tool": "a", "arguments": {"x": 1}}]})
    broken = call("a", None, parse_error="not JSON")
    assert kinds(align([broken], task)) == [("arguments_differ", 0)]
    assert kinds(align([call("a", None)], task)) == [("match", 0)]


def test_equal_calls_go_to_equal_steps_in_order() -> None:
    names = [f"s{number}" for number in range(40)]
    steps = [step("a", id=name, after=names[max(0, number - 1) : number]) for number, name in enumerate(names)]
    found = align([call("a")] * 40, task_of(*steps))
    assert kinds(found) == [("match", number) for number in range(40)]
    assert found.is_exact
    backwards = task_of(*reversed(steps))
    assert kinds(align([call("a")] * 40, backwards)) == [("match", number) for number in reversed(range(40))]


def test_a_tangled_order_still_ends_and_says_that_it_is_not_proved() -> None:
    names = [f"s{number}" for number in range(12)]
    steps = [step(f"t{number}", id=name, after=names[:number]) for number, name in enumerate(names)]
    found = align([call(f"t{number}") for number in reversed(range(12))], task_of(*steps))
    matched = [pair.position for pair in found.pairs if pair.step and pair.position is not None]
    assert matched == sorted(matched)
    assert not found.is_exact
    assert align([call(f"t{number}") for number in range(12)], task_of(*steps)).is_exact


TOOLS = st.sampled_from("abc")
STEPS = st.lists(
    st.tuples(
        st.lists(TOOLS, min_size=1, max_size=2, unique=True), st.booleans(), st.sets(st.integers(0, 2), max_size=2)
    ),
    max_size=3,
)


def built(rows: list[tuple[list[str], bool, set[int]]]) -> GoldTask:
    return task_of(
        *(
            step(*tools, id=str(index), optional=optional, after=[str(other) for other in after if other < index])
            for index, (tools, optional, after) in enumerate(rows)
        )
    )


def brute_force(calls: list[CallRecord], task: GoldTask) -> float:
    """Try every assignment that keeps the order and answer the lowest cost."""
    (path,) = task.paths
    index = {gold.step_id: number for number, gold in enumerate(path)}
    best = float("inf")
    for chosen in product([None, *range(len(calls))], repeat=len(path)):
        used = [position for position in chosen if position is not None]
        if len(set(used)) != len(used) or _breaks_order(chosen, path, index):
            continue
        cost = COSTS["extra"] * (len(calls) - len(used))
        for gold, position in zip(path, chosen, strict=True):
            if position is None:
                cost += 0 if gold.optional else COSTS["missing"]
                continue
            tier = next((choice.tier for choice in gold.any_of if choice.tool == calls[position].tool), None)
            cost += COSTS["substituted"] if tier is None else COSTS[tier]
        best = min(best, cost)
    return best


def _breaks_order(chosen: tuple[int | None, ...], path: Any, index: dict[str, int]) -> bool:
    """Whether a step's call comes before that of any step it waits for, directly or through others."""
    reach = [set(gold.after) for gold in path]
    for _ in path:
        reach = [names | {far for near in names for far in reach[index[near]]} for names in reach]
    for late, names in enumerate(reach):
        for name in names:
            first, second = chosen[index[name]], chosen[late]
            if first is not None and second is not None and first > second:
                return True
    return False


@settings(max_examples=150, deadline=None)
@given(rows=STEPS, tools=st.lists(TOOLS, max_size=4))
def test_the_cost_is_the_lowest_that_any_ordered_assignment_has(rows: Any, tools: list[str]) -> None:
    calls, task = [call(tool) for tool in tools], built(rows)
    found = align(calls, task)
    assert found.is_exact
    assert found.cost == pytest.approx(brute_force(calls, task), abs=1e-4)
    used = [pair.position for pair in found.pairs if pair.position is not None]
    assert sorted(used) == list(range(len(calls)))


@settings(max_examples=60, deadline=None)
@given(rows=STEPS, tools=st.lists(TOOLS, max_size=5), seed=st.integers(0, 99))
def test_the_order_of_looking_does_not_matter(rows: Any, tools: list[str], seed: int) -> None:
    calls, mixed = [call(tool) for tool in tools], list(enumerate(rows))
    random.Random(seed).shuffle(mixed)
    shuffled = task_of(
        *(
            {
                **step(
                    *tools, id=str(index), optional=optional, after=[str(other) for other in after if other < index]
                ),
                "any_of": list(reversed(step(*tools)["any_of"])),
            }
            for index, (tools, optional, after) in mixed
        )
    )
    assert align(calls, shuffled).cost == pytest.approx(align(calls, built(rows)).cost, abs=1e-4)
