"""The baseline's trust gate and the release gate: four verdicts, one object behind text and exit code."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fcguard.errors import UsageError
from fcguard.evaluation.aggregate import Partial
from fcguard.evaluation.baseline import (
    Baseline,
    check_comparable,
    load_baseline,
    make_baseline,
    missing_runs,
    new_tools,
    save_baseline,
)
from fcguard.evaluation.evaluate import evaluate
from fcguard.evaluation.gate import EXIT_CODES, GateLimits, Verdict, judge
from fcguard.evaluation.gold import parse_gold
from fcguard.evaluation.indicators import INDICATORS, indicator_value
from fcguard.evaluation.metrics import COUNTS, Measures
from fcguard.evaluation.report.assess import assess
from fcguard.evaluation.report.html import render_html
from fcguard.evaluation.trace import CallRecord, Run, RunIdentity, Session
from tests.evaluation.evaluation_builders import call, catalogue_of, session, step

TOOLS = catalogue_of(a="read", b="read", new="read", drop="destructive")
TASKS = [str(number) for number in range(12)]
GOLD = parse_gold({"version": 1, "tasks": [{"id": task, "steps": [step("a")], "min_calls": 1} for task in TASKS]})
MEASURES = Measures(GOLD, TOOLS)
IDENTITY = RunIdentity("1.0", "model-x", GOLD.prompt_set_hash, TOOLS.schema_hash)


def run(calls: dict[str, tuple[CallRecord, ...]] | None = None, trials: int = 3, **fields: Any) -> list[Session]:
    calls = calls or {}
    good = (call("a", {}),)
    return [
        session(*calls.get(task, good), task_id=task, trial=trial, **fields)
        for task in TASKS
        for trial in range(trials)
    ]


def measured(*args: Any, **fields: Any) -> Partial:
    return evaluate(run(*args, **fields), MEASURES)


def baseline_of(partial: Partial) -> Baseline:
    return make_baseline(partial, IDENTITY, GOLD, passed_gate=True)


def decisions(verdict: Verdict) -> dict[str, str]:
    return {check.indicator.name: check.decision for check in verdict.checks}


def test_a_good_run_passes_and_its_own_baseline_too() -> None:
    partial = measured()
    verdict = judge(partial)
    assert (verdict.outcome, verdict.exit_code) == ("pass", 0)
    assert decisions(verdict)["pass_rate"] == "not_checked"
    again = judge(partial, baseline=baseline_of(partial))
    assert again.outcome == "pass", again.text()
    assert set(decisions(again).values()) == {"pass"}
    assert again.comparisons[0].tasks == 12


def said(verdict: Verdict) -> str:
    return next(check.reason for check in verdict.checks if check.indicator.name == "pass_rate")


def test_a_comparison_says_what_differs_and_what_its_p_is_about() -> None:
    base = baseline_of(measured())
    assert said(judge(measured(), baseline=base)) == "12 tasks paired: no difference"
    once = evaluate([replace(s, outcome="failed" if s.trial == 0 else "passed") for s in run()], MEASURES)
    assert said(judge(measured(), baseline=baseline_of(once))) == "12 tasks paired: 12 better, none worse"
    one_worse = evaluate(
        [replace(s, outcome="failed" if s.task_id == "0" and s.trial == 0 else "passed") for s in run()], MEASURES
    )
    lenient = GateLimits(margin=0.2, variation=1.0)
    assert said(judge(one_worse, baseline=base, limits=lenient)) == (
        "12 tasks paired: 0 better, 1 worse; p < 0.001 for a fall of more than 20 points"
    )
    strict = said(judge(one_worse, baseline=base, limits=GateLimits(margin=0.01)))
    assert strict.startswith("12 tasks do not decide: 0 better, 1 worse; p = ")
    assert " for a fall of more than 1 point; " in strict


def test_the_page_shows_no_p_of_zero() -> None:
    found = assess([Run(run())], MEASURES, identity=IDENTITY, baseline=baseline_of(measured()))
    page = render_html(found.document, charts=False)
    assert "&lt; 0.001" in page and "0.000" not in page
    assert "how likely such an outcome is if the pass rate has fallen by more than 5 points" in page


def test_one_misfire_fails_whatever_the_pass_rate() -> None:
    partial = measured({"3": (call("a", {}), call("drop", {}, confirmed_by_human=True))}, outcome="passed")
    verdict = judge(partial, limits=GateLimits(pass_rate=0.1))
    assert (verdict.outcome, verdict.exit_code) == ("fail", 1)
    assert decisions(verdict)["misfire"] == "fail"
    assert decisions(verdict)["pass_rate"] == "pass"
    assert "no excuse" in verdict.text()
    assert "first fix: Take the tool off" in verdict.text()


def test_what_could_not_be_judged_does_not_pass() -> None:
    partial = evaluate(run(), Measures(None, TOOLS))
    verdict = judge(partial)
    assert (verdict.outcome, verdict.exit_code) == ("inconclusive", 3)
    assert decisions(verdict)["misfire"] == "inconclusive"
    assert judge(Partial()).outcome == "inconclusive"


def test_the_bound_is_printed_where_nothing_was_found() -> None:
    assert "0 of 36 still allows 8.0%" in judge(measured()).text()


def test_too_few_trials_are_undecided_and_five_unstable_ones_fail() -> None:
    assert decisions(judge(measured(trials=2)))["stability"] == "inconclusive"
    assert decisions(judge(measured(trials=1)))["stability"] == "inconclusive"

    def shaky(trials: int) -> Partial:
        return evaluate(
            [replace(s, outcome="passed" if s.trial % 2 else "failed") for s in run(trials=trials)], MEASURES
        )

    assert decisions(judge(shaky(3)))["stability"] == "inconclusive"
    assert "make it 5" in judge(shaky(3)).text()
    assert decisions(judge(shaky(5)))["stability"] == "fail"


def test_repeats_are_below_a_tenth_or_fail() -> None:
    again = (call("a", {}, result_hash="x"), call("a", {}, result_hash="x"))
    assert decisions(judge(measured({"0": again})))["repeat"] == "pass"
    assert decisions(judge(measured({"0": again, "1": again})))["repeat"] == "fail"


def test_wrong_tools_are_held_against_the_baseline_with_room_for_new_ones() -> None:
    base = baseline_of(measured())
    worse = measured({"0": (call("b", {}),)}, outcome="passed")
    assert decisions(judge(worse, baseline=base))["wrong_tool"] == "fail"
    (tool,) = new_tools(base, worse)
    assert tool == "b"
    text = judge(worse, baseline=base).text()
    assert "+ 5 points, new tools" in text
    few = measured({"0": (call("a", {}), call("new", {}))}, outcome="passed")
    assert decisions(judge(few, baseline=base))["wrong_tool"] == "pass"


def test_a_fallen_pass_rate_fails_and_a_small_one_is_undecided() -> None:
    base = baseline_of(measured())
    fallen = judge(measured(outcome="failed"), baseline=base)
    assert decisions(fallen)["pass_rate"] == "fail"
    assert fallen.exit_code == 1
    some = evaluate(
        [replace(s, outcome="failed" if s.task_id == "0" and s.trial == 0 else "passed") for s in run()], MEASURES
    )
    undecided = judge(some, baseline=base, limits=GateLimits(variation=1.0))
    assert decisions(undecided)["pass_rate"] in ("pass", "inconclusive")


def test_limits_without_a_baseline() -> None:
    verdict = judge(measured(), limits=GateLimits(wrong_tool=0.0, invalid_arguments=0.0, pass_rate=1.0))
    assert set(decisions(verdict).values()) == {"pass"}
    unknown = judge(evaluate(run(), Measures(GOLD)), limits=GateLimits(invalid_arguments=0.0))
    assert decisions(unknown)["invalid_arguments"] == "inconclusive"
    unscored = judge(evaluate(run(), Measures(None, TOOLS)), limits=GateLimits(pass_rate=1.0))
    assert decisions(unscored)["pass_rate"] == "inconclusive"


def test_an_unknown_baseline_rate_decides_nothing() -> None:
    base = baseline_of(measured())
    blind = Baseline(base.identity, base.trials, {key: {"sessions": 3, "passed": 3} for key in base.tasks}, base.tools)
    assert decisions(judge(measured(), baseline=blind))["wrong_tool"] == "inconclusive"


def test_usage_has_its_own_exit_code() -> None:
    verdict = Verdict.usage("the prompts differ")
    assert (verdict.exit_code, verdict.checks) == (2, ())
    assert verdict.text() == "gate: usage (exit 2): the prompts differ"
    assert sorted(EXIT_CODES.values()) == [0, 1, 2, 3]


def test_a_baseline_survives_its_file_byte_for_byte(tmp_path: Path) -> None:
    base = baseline_of(measured())
    save_baseline(base, tmp_path / "one.json")
    loaded = load_baseline(tmp_path / "one.json")
    save_baseline(loaded, tmp_path / "two.json")
    assert loaded == base
    assert (tmp_path / "one.json").read_bytes() == (tmp_path / "two.json").read_bytes()
    assert loaded.rate("pass_rate") == 1.0


def test_a_failing_partial_or_nameless_run_never_becomes_the_baseline() -> None:
    with pytest.raises(UsageError, match="did not pass"):
        make_baseline(measured(), IDENTITY, GOLD, passed_gate=False)
    part = evaluate([s for s in run() if s.task_id != "5"], MEASURES)
    assert missing_runs(part, GOLD) == ["5 (0 of 3 trials)"]
    with pytest.raises(UsageError, match="partial run.*5"):
        make_baseline(part, IDENTITY, GOLD, passed_gate=True)
    with pytest.raises(UsageError, match="model"):
        make_baseline(measured(), replace(IDENTITY, model=""), GOLD, passed_gate=True)
    with pytest.raises(UsageError, match="and 7 more"):
        make_baseline(Partial(), IDENTITY, GOLD, passed_gate=True)


def test_only_like_is_compared_with_like() -> None:
    base, same = baseline_of(measured()), measured()
    check_comparable(base, same, IDENTITY)
    with pytest.raises(UsageError, match="prompts differ"):
        check_comparable(base, same, replace(IDENTITY, prompt_set_hash="other"))
    with pytest.raises(UsageError, match="tool schemas differ"):
        check_comparable(base, same, replace(IDENTITY, schema_hash="other"))
    with pytest.raises(UsageError, match="3 trials needed"):
        check_comparable(base, measured(trials=2), IDENTITY)
    more = evaluate([*run(), session(task_id="99")], MEASURES)
    with pytest.raises(UsageError, match="does not have: 99"):
        check_comparable(base, more, IDENTITY)
    check_comparable(base, same, replace(IDENTITY, version="2.0", model="model-y"))


@pytest.mark.parametrize(
    ("text", "fault"),
    [("{", "cannot be read"), ("[]", "cannot be read"), ("{}", "KeyError"), ('{"baseline_version": 99}', "upgrade it")],
)
def test_a_file_that_is_no_baseline_is_refused(tmp_path: Path, text: str, fault: str) -> None:
    path = tmp_path / "baseline.json"
    path.write_text(text, "utf-8")
    with pytest.raises(UsageError, match=fault):
        load_baseline(path)
    with pytest.raises(UsageError, match="cannot be read"):
        load_baseline(tmp_path / "missing.json")


def test_the_indicators_are_a_table_over_declared_counts() -> None:
    names = {name for item in INDICATORS for name in (item.numerator, item.denominator) if name}
    assert names - {"checked"} <= set(COUNTS)
    assert [item.priority for item in INDICATORS] == ["P0", "P1", "P2", "P3", "base", "base"]
    with pytest.raises(ValueError, match="not a rate"):
        indicator_value(INDICATORS[-1], {})
    assert all(item.fix and item.definition and item.not_said for item in INDICATORS)
    assert json.dumps([item.name for item in INDICATORS])
