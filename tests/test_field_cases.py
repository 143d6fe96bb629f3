"""Every field case on file, and the runner that others use for files of their own."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests import field_cases
from tests.field_cases import CONTESTED, PENDING, load, main, problems_of

FILE = Path(__file__).parent / "cases" / "field.jsonl"
CASES = load(FILE)
NEVER_PENDING = ("json", "args", "shape", "name", "coerce", "enum", "date", "schema", "exec", "result")


@pytest.mark.parametrize("case", CASES, ids=[case["id"] for case in CASES])
def test_field_case(case: dict[str, Any]) -> None:
    if case["id"] in PENDING:
        pytest.skip(PENDING[case["id"]])
    assert problems_of(case) == []


def test_the_file_is_whole() -> None:
    assert len(CASES) >= 100
    assert [name for name, count in Counter(case["id"] for case in CASES).items() if count > 1] == []


def test_no_case_of_the_core_is_pending_and_contested_ones_say_why() -> None:
    kinds = {case["id"]: case["kind"] for case in CASES}
    assert set(PENDING) <= set(kinds)
    assert [one for one in PENDING if kinds[one].startswith(NEVER_PENDING)] == []
    contested = {case["id"] for case in CASES if case["contested"]}
    assert set(CONTESTED) <= contested
    assert all(len(reason) > 20 for reason, _ in CONTESTED.values())


def first(kind: str) -> dict[str, Any]:
    return json.loads(
        json.dumps(next(case for case in CASES if case["kind"].startswith(kind) and not case["contested"]))
    )


def test_an_unknown_setting_fails_its_case() -> None:
    case = first("coerce")
    case["tool_schema"].setdefault("x-governance", {})["moon_phase"] = "full"
    (problem,) = problems_of(case)
    assert "moon_phase" in problem


@pytest.mark.parametrize(
    "change",
    [
        lambda case: case["expected"].update(tool_executions=case["expected"]["tool_executions"] + 1),
        lambda case: case["expected"].update(retryable=not case["expected"]["retryable"]),
        lambda case: case["expected"].update(
            outcome="rejected" if case["expected"]["outcome"] != "rejected" else "executed"
        ),
        lambda case: case["expected"].update(next_action_kind="wait"),
        lambda case: case["expected"].update(normalized_args={"never": "sent"}),
    ],
    ids=["executions", "retryable", "outcome", "next action", "arguments"],
)
def test_a_wrong_expectation_is_found(change: Any) -> None:
    case = first("coerce")
    assert problems_of(case) == []
    change(case)
    assert problems_of(case) != []


def write(folder: Path, *cases: dict[str, Any]) -> str:
    file = folder / "cases.jsonl"
    file.write_text("".join(json.dumps(case) + "\n" for case in cases) + "\n")
    return str(file)


def test_the_runner_counts_and_answers_by_exit_code(tmp_path: Path, capsys: Any) -> None:
    good, bad = first("coerce"), first("enum")
    bad["id"], bad["expected"]["tool_executions"] = "X1", 99
    assert main([write(tmp_path, good)]) == 0
    assert capsys.readouterr().out == "1 passed, 0 failed\n"
    assert main([write(tmp_path, good, bad)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[-1] == "1 passed, 1 failed"
    assert lines[0].startswith(f"X1 {bad['kind']}: tool ran")
    assert len(lines) == 2


def test_the_runner_narrows_by_kind_and_names_what_passes(tmp_path: Path, capsys: Any) -> None:
    coerce, enum = first("coerce"), first("enum")
    assert main([write(tmp_path, coerce, enum), "--only", "enum", "--verbose"]) == 0
    assert capsys.readouterr().out.splitlines() == [f"{enum['id']} {enum['kind']}: ok", "1 passed, 0 failed"]


def test_the_runner_names_pending_and_contested_cases(tmp_path: Path, capsys: Any, monkeypatch: Any) -> None:
    case = first("coerce")
    contested = next(one for one in CASES if one["id"] in CONTESTED)
    monkeypatch.setitem(field_cases.PENDING, case["id"], "waits for rain")
    assert main([write(tmp_path, case, contested), "--verbose"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"{case['id']} {case['kind']}: pending: waits for rain"
    assert lines[1].startswith(f"{contested['id']} {contested['kind']}: ok (contested; ")
    assert lines[2] == "1 passed, 0 failed"
