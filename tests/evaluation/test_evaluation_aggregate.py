"""Partial results: merge is associative and commutative, and equals measuring everything at once."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from fcguard.evaluation.aggregate import Partial, mean_units, merge, sum_counts
from fcguard.evaluation.evaluate import evaluate
from fcguard.evaluation.gold import parse_gold
from fcguard.evaluation.metrics import COUNTS, Measures
from fcguard.evaluation.trace import Session
from tests.evaluation.evaluation_builders import call, catalogue_of, session, step

TOOLS = catalogue_of(a="read", b="write", c="destructive")
GOLD = parse_gold(
    {
        "version": 1,
        "tasks": [
            {"id": "0", "slice": "x", "steps": [step("a")], "min_calls": 3},
            {
                "id": "1",
                "steps": [step("b", effect="write"), step("a", optional=True)],
                "best": {"tokens": 3, "cost": 7},
            },
            {"id": "2", "steps": [step("none")]},
        ],
    }
)
MEASURES = Measures(GOLD, TOOLS)

CALLS = st.lists(
    st.builds(
        lambda tool, number, status, tokens: call(tool, {"n": number}, status=status, tokens=tokens, cost=tokens / 3),
        st.sampled_from("abcz"),
        st.integers(0, 1),
        st.sampled_from(["succeeded", "failed", "refused"]),
        st.integers(0, 9),
    ),
    max_size=4,
)
SESSIONS = st.lists(
    st.builds(
        lambda calls, task, trial, outcome: session(*calls, task_id=task, trial=trial, outcome=outcome),
        CALLS,
        st.sampled_from("0123"),
        st.integers(0, 2),
        st.sampled_from(["passed", "failed", "infra_error", "unscored"]),
    ),
    max_size=9,
)


def numbered(sessions: list[Session]) -> list[Session]:
    """Give each session an id of its own, as every trace does."""
    return [replace(run, session_id=f"s{number}") for number, run in enumerate(sessions)]


def shape(partial: Partial) -> tuple[Any, ...]:
    cases = [(key, measured.session.session_id) for key, measured in partial.cases]
    return (dict(sorted(partial.tasks.items())), dict(sorted(partial.trials.items())), partial.tools, cases)


@settings(max_examples=80, deadline=None)
@given(sessions=SESSIONS, first=st.integers(0, 9), second=st.integers(0, 9), most=st.integers(0, 4))
def test_merge_is_associative_and_equals_the_whole(sessions: list[Session], first: int, second: int, most: int) -> None:
    runs = numbered(sessions)
    low, high = sorted((first, second))
    a, b, c = (evaluate(part, MEASURES, most_cases=most) for part in (runs[:low], runs[low:high], runs[high:]))
    whole = shape(evaluate(runs, MEASURES, most_cases=most))
    assert shape(merge(merge(a, b), c)) == whole
    assert shape(merge(a, merge(b, c))) == whole


@settings(max_examples=40, deadline=None)
@given(sessions=SESSIONS, cut=st.integers(0, 9))
def test_merge_is_commutative_and_leaves_its_parts_alone(sessions: list[Session], cut: int) -> None:
    runs = numbered(sessions)
    a, b = evaluate(runs[:cut], MEASURES), evaluate(runs[cut:], MEASURES)
    before = (shape(a), shape(b))
    assert shape(merge(a, b)) == shape(merge(b, a))
    assert shape(merge(a, Partial())) == shape(a)
    assert (shape(a), shape(b)) == before


@settings(max_examples=40, deadline=None)
@given(sessions=SESSIONS)
def test_every_count_is_declared_whole_and_never_negative(sessions: list[Session]) -> None:
    totals = evaluate(numbered(sessions), MEASURES).totals()
    assert set(totals) <= set(COUNTS)
    assert all(isinstance(number, int) and number > 0 for number in totals.values())
    assert totals.get("sessions", 0) == len(sessions)
    outcomes = sum(totals.get(name, 0) for name in ("passed", "failed", "infra_error", "unscored"))
    assert outcomes == len(sessions)


def test_slices_and_tasks_are_kept_apart() -> None:
    partial = evaluate([session(call("a", {}), task_id="0"), session(task_id="1", trial=1)], MEASURES)
    assert partial.slices() == ["", "x"]
    assert partial.totals("x")["calls"] == 1
    assert [key for key, _ in partial.by_task()] == [("", "1"), ("x", "0")]
    assert partial.totals() == sum_counts([partial.totals("x"), partial.totals("")])


def test_the_worst_cases_come_first_and_only_so_many_are_kept() -> None:
    runs = numbered([session(task_id="2"), session(call("c", {}), task_id="0"), session(call("a", {}), task_id="0")])
    partial = evaluate(runs, MEASURES, most_cases=2)
    assert [measured.session.session_id for _, measured in partial.cases] == ["s1", "s0"]
    assert evaluate(runs, MEASURES, most_cases=0).cases == []


def test_ratios_to_the_best_tool_are_means_over_sessions() -> None:
    partial = evaluate([session(call("b", {}, tokens=6, cost=7.0), task_id="1")], MEASURES)
    counts = partial.totals()
    assert counts["tokens_ratio_units"] == 2_000_000_000
    assert counts["cost_ratio_units"] == 1_000_000_000
    assert mean_units({}, "selection").state == "unknown"


def test_each_session_is_announced() -> None:
    seen: list[str] = []
    evaluate(numbered([session(), session()]), MEASURES, on_session=lambda run: seen.append(run.session_id))
    assert seen == ["s0", "s1"]
