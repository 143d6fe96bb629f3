"""The 100-point score: each dimension by its rule, both profiles, and the published sample."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fcguard.evaluation.catalogue import Catalogue, ToolSpec
from fcguard.evaluation.gold import Gold, parse_gold
from fcguard.evaluation.importers.read import read_records
from fcguard.evaluation.metrics import Measures, measure_session
from fcguard.evaluation.recovery import find_episodes
from fcguard.evaluation.score import NO_FAILURE, Score, grade_of, logical_calls
from fcguard.evaluation.trace import Attempt, CallRecord, Session
from tests.evaluation.evaluation_builders import call, catalogue_of, gold_of, session, step

TOOLS = catalogue_of(a="read", b="read", c="read")


def score(run: Session, gold: Gold | None, profile: Any = "strict", tools: Catalogue = TOOLS, **fields: Any) -> Score:
    return measure_session(run, Measures(gold, tools, profile, **fields)).score


# The published sample. A tool chain holds no arguments, its gold names the tools that are best, acceptable and wrong for
# each of three subtasks, and states no min_calls. The plain rule then gives
#   good run, three calls, all best:            40 + 20 + 20 + 20 * 1/3             = 86.7
#   other run, best / acceptable / wrong, one call that failed twice and was not recovered:
#                                               (40 + 30 + 0) / 3 + 20 + 5 + 20 * 1/3 = 55.0
# Parameters are 20 (nothing recorded speaks against them), recovery is 20 without a failure and 0 * 15 + 5 with an
# unrecovered one where a retry mechanism exists, and a task without min_calls is taken to need one call.
SAMPLE_GOLD: dict[str, Any] = {
    "version": 1,
    "tasks": [
        {
            "id": "sample",
            "steps": [
                {"id": "find", "any_of": [{"tool": "search"}], "wrong": ["code_executor"]},
                {
                    "id": "compute",
                    "any_of": [{"tool": "calculator"}, {"tool": "code_executor", "tier": "acceptable"}],
                    "after": ["find"],
                },
                {"id": "keep", "any_of": [{"tool": "memory_store"}], "wrong": ["web_fetch"], "after": ["compute"]},
            ],
        }
    ],
}
SAMPLE_TOOLS = Catalogue.of(
    ToolSpec(name, schema={"type": "object", "required": ["text"]}, effect="read")
    for name in ("search", "calculator", "memory_store", "code_executor", "web_fetch")
)


def chain(*rows: tuple[str, str, str, int], arguments: bool = False) -> Session:
    records = [
        {"step": n, "subtask_id": subtask, "tool": tool, "status": status, "retry_count": retries, "depends_on": []}
        | ({"args": {"text": "x"}} if arguments else {})
        for n, (subtask, tool, status, retries) in enumerate(rows, 1)
    ]
    (run,) = read_records([{"task_id": "sample", "tool_chain": records}], "tool_chain")
    return run


GOOD = (
    ("find", "search", "success", 0),
    ("compute", "calculator", "success", 0),
    ("keep", "memory_store", "success", 0),
)
OTHER = (
    ("find", "search", "success", 0),
    ("compute", "code_executor", "failed", 2),
    ("keep", "web_fetch", "success", 0),
)


def test_the_published_sample_through_the_published_rule() -> None:
    gold = parse_gold(SAMPLE_GOLD)
    good = score(chain(*GOOD), gold, "seed", SAMPLE_TOOLS)
    other = score(chain(*OTHER), gold, "seed", SAMPLE_TOOLS)
    assert round(good.total.require(), 1) == 86.7
    assert round(other.total.require(), 1) == 55.0
    assert (good.grade, other.grade) == ("excellent", "fail")
    assert [round(value.require(), 2) for value in other.dimensions().values()] == [23.33, 20.0, 5.0, 6.67]


def test_the_good_run_with_arguments_and_min_calls_is_full_at_coverage_80() -> None:
    rows = {**SAMPLE_GOLD, "tasks": [{**SAMPLE_GOLD["tasks"][0], "min_calls": 3}]}
    found = score(chain(*GOOD, arguments=True), parse_gold(rows), "strict", SAMPLE_TOOLS)
    assert (found.total.require(), found.coverage) == (100.0, 80)
    assert found.recovery.state == "untested"
    assert found.recovery.reason == NO_FAILURE


def test_strict_leaves_out_what_was_not_recorded() -> None:
    found = score(chain(*GOOD), parse_gold(SAMPLE_GOLD), "strict", SAMPLE_TOOLS)
    assert (found.parameters.state, found.efficiency.state) == ("unknown", "unknown")
    assert (found.total.require(), found.coverage) == (100.0, 40)


@pytest.mark.parametrize(
    ("tools", "points"), [(["a", "b"], 40), (["c", "b"], 35), (["x", "b"], 20), (["b"], 20), ([], 0), (["x", "y"], 0)]
)
def test_selection_is_the_mean_over_gold_steps(tools: list[str], points: float) -> None:
    gold = gold_of(step("a", "c"), step("b"))
    assert score(session(*(call(tool, {}) for tool in tools)), gold).selection.require() == points


def test_a_step_that_needs_no_tool_is_skipped() -> None:
    gold = gold_of(step("none"), step("a"))
    found = score(session(call("a", {})), gold)
    assert (found.selection.require(), found.selection.n) == (40, 1)


@pytest.mark.parametrize("gold", [gold_of(), gold_of(step("none"))])
def test_both_empty_has_one_answer_and_any_tool_is_over_tooling(gold: Gold) -> None:
    assert score(session(), gold).selection.require() == 40
    assert score(session(), gold, "seed").selection.require() == 40
    measured = measure_session(session(call("a", {})), Measures(gold, TOOLS))
    assert measured.score.selection.require() == 0
    assert measured.counts["over_tooling"] == 1
    assert measured.outcome == "failed"
    assert measure_session(session(), Measures(gold, TOOLS)).outcome == "passed"


def test_none_where_a_tool_is_needed_is_under_tooling() -> None:
    measured = measure_session(session(), Measures(gold_of(step("a")), TOOLS))
    assert measured.counts["under_tooling"] == 1
    assert measured.score.selection.require() == 0


def test_parameters_are_the_share_of_calls_that_pass() -> None:
    tools = Catalogue.of([ToolSpec("a", schema={"type": "object", "properties": {"n": {"type": "integer"}}})])
    run = session(call("a", {"n": 1}), call("a", {"n": "x"}), call("a", None, parse_error="not JSON"), call("b", {}))
    found = score(run, gold_of(step("a")), tools=tools)
    assert (found.parameters.require(), found.parameters.k, found.parameters.n) == (5.0, 1, 4)


def test_recovery_is_by_episode_with_a_part_for_the_mechanism() -> None:
    failed = call("a", {}, status="failed")
    recovered = session(failed, call("a", {}))
    assert score(recovered, gold_of(step("a"))).recovery.require() == 20
    assert score(session(failed), gold_of(step("a"))).recovery.require() == 0
    assert score(session(failed), gold_of(step("a")), mechanism=True).recovery.require() == 5
    half = score(session(failed, call("a", {}), call("b", {}, status="failed")), gold_of(step("a"))).recovery
    assert (half.require(), half.k, half.n) == (12.5, 1, 2)
    assert score(session(), gold_of(), "seed").recovery.require() == 20


def test_a_safe_stop_is_as_good_as_recovery_where_it_is_right_and_told() -> None:
    refused = call("a", {}, status="refused", error_type="PERMISSION_DENIED")
    gold, told = gold_of(step("a")), gold_of(step("a"), stop_is_right=True)
    assert score(session(refused, reason_told=True), gold).recovery.require() == 15
    assert score(session(refused, reason_told=False), gold).recovery.require() == 0
    assert score(session(refused, refused, reason_told=True), gold).recovery.require() == 5
    plain = call("a", {}, status="failed", error_type="TOOL_ERROR")
    assert score(session(plain, reason_told=True), gold).recovery.require() == 0
    assert score(session(plain, reason_told=True), told).recovery.require() == 15


def test_a_retry_inside_a_call_is_an_episode_too() -> None:
    retried = call("a", {}, attempts=(Attempt("failed", "TIMEOUT"), Attempt("succeeded")))
    (episode,) = find_episodes(session(retried))
    assert (episode.end, episode.by) == ("recovered", 0)
    assert score(session(retried), gold_of(step("a"))).recovery.require() == 20


def test_a_fallback_of_the_same_subtask_recovers() -> None:
    run = session(call("a", {}, status="failed", subtask_id="1"), call("b", {}, subtask_id="1"))
    assert [episode.end for episode in find_episodes(run)] == ["recovered"]
    assert [episode.end for episode in find_episodes(session(call("a", {}, status="unknown")))] == []


@pytest.mark.parametrize(("made", "points"), [(1, 20), (2, 20), (4, 10), (40, 1)])
def test_efficiency_is_against_the_fewest_calls(made: int, points: float) -> None:
    run = session(*(call("a", {"n": number}) for number in range(made)))
    assert score(run, gold_of(step("a"), min_calls=2)).efficiency.require() == points


def test_a_retry_of_a_transient_failure_is_no_logical_call() -> None:
    timeout = call("a", {}, status="failed", error_type="TIMEOUT")
    assert logical_calls([timeout, timeout, call("a", {})]) == 1
    assert logical_calls([call("a", {}, status="failed", error_type="TOOL_ERROR"), call("a", {})]) == 2
    assert logical_calls([timeout, call("b", {})]) == 2


def test_without_gold_only_what_needs_none_is_scored() -> None:
    found = score(session(call("a", {})), None)
    assert (found.selection.state, found.efficiency.state) == ("unknown", "unknown")
    assert found.coverage == 20
    empty = score(session(), None)
    assert (empty.total.state, empty.grade, empty.coverage) == ("unknown", "unknown", 0)


@pytest.mark.parametrize(
    ("total", "grade"),
    [(100, "excellent"), (80, "excellent"), (79.9999, "pass"), (60, "pass"), (59.9, "fail"), (0, "fail")],
)
def test_grades(total: float, grade: str) -> None:
    assert grade_of(total) == grade


CALLS = st.lists(
    st.builds(
        lambda tool, number, status: call(tool, {"n": number}, status=status),
        st.sampled_from("abcx"),
        st.integers(0, 1),
        st.sampled_from(["succeeded", "failed", "refused", "uncertain", "unknown"]),
    ),
    max_size=6,
)


@settings(deadline=None)
@given(
    calls=CALLS, steps=st.lists(st.sampled_from(["a", "b", "none"]), max_size=3), fewest=st.none() | st.integers(0, 3)
)
def test_every_score_lies_within_its_maximum(calls: list[CallRecord], steps: list[str], fewest: int | None) -> None:
    gold = gold_of(*(step(name) for name in steps), **({} if fewest is None else {"min_calls": fewest}))
    for profile in ("strict", "seed"):
        found = score(session(*calls), gold, profile)
        assert 0 <= found.total.require() <= 100
        assert 0 <= found.coverage <= 100
        assert all(value.number is None or 0 <= value.number <= 40 for value in found.dimensions().values())
