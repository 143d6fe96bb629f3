"""From traces to verdict and report in one call."""

from __future__ import annotations

import json
from pathlib import Path

from fcguard.evaluation.baseline import make_baseline
from fcguard.evaluation.importers.read import read_records, read_trace
from fcguard.evaluation.metrics import Measures
from fcguard.evaluation.report.assess import assess, number_trials
from fcguard.evaluation.report.document import ReportOptions
from fcguard.evaluation.report.json_report import render_json
from fcguard.evaluation.trace import RunIdentity, Session
from tests.evaluation.evaluation_builders import catalogue_of, gold_of, session, step

TOOLS = catalogue_of(a="read")
MEASURES = Measures(gold_of(step("a"), min_calls=1), TOOLS)
RECORD = {"task_id": "t", "calls": [{"tool": "a", "args": {}, "status": "success"}]}


def trace(path: Path, *lines: object) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
    return path


def test_several_traces_of_one_task_are_several_trials(tmp_path: Path) -> None:
    paths = [trace(tmp_path / f"{number}.jsonl", RECORD, {"x": 1}) for number in range(3)]
    seen: list[Session] = []
    found = assess([read_trace(path) for path in paths], MEASURES, on_session=seen.append)
    assert found.partial.trials == {0: (1, 1), 1: (1, 1), 2: (1, 1)}
    assert (found.verdict.outcome, found.verdict.exit_code) == ("pass", 0)
    assert found.document["run"]["source"] == "0.jsonl, 1.jsonl, 2.jsonl"
    assert found.document["run"]["unread"]["count"] == 3
    assert found.document["run"]["unread"]["first"][0].startswith("0.jsonl, line 2")
    assert {row["agent"] for row in found.document["naive"]} == {"do nothing", "first tool"}
    assert len(seen) == 3
    again = assess([read_trace(path) for path in paths], MEASURES)
    assert render_json(found.document) == render_json(again.document)


def test_a_baseline_that_is_not_comparable_is_a_question_put_wrongly() -> None:
    runs = [read_records([RECORD], "tool_list") for _ in range(3)]
    found = assess(runs, MEASURES, identity=RunIdentity("1", "m"))
    assert found.identity.schema_hash == TOOLS.schema_hash
    assert MEASURES.gold is not None
    base = make_baseline(found.partial, found.identity, MEASURES.gold, passed_gate=found.verdict.outcome == "pass")
    same = assess([read_records([RECORD], "tool_list") for _ in range(3)], MEASURES, baseline=base)
    assert same.verdict.outcome == "pass"
    partial = assess([read_records([RECORD], "tool_list")], MEASURES, baseline=base, options=ReportOptions(cases=1))
    assert (partial.verdict.outcome, partial.verdict.exit_code) == ("usage", 2)
    assert "partial run" in partial.document["gate"]["message"]


def test_without_gold_the_hashes_stay_empty() -> None:
    found = assess([read_records([RECORD], "tool_list")], Measures())
    assert found.identity == RunIdentity()
    assert found.verdict.outcome == "inconclusive"


def test_trial_numbers_that_do_not_clash_stay() -> None:
    runs = [session(trial=2), session(trial=0), session(trial=2), session(trial=1), session(trial=0, task_id="u")]
    assert [run.trial for run in number_trials(runs)] == [2, 0, 3, 1, 0]
