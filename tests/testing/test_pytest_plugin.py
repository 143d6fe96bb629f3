"""The pytest plugin: the release gate as a fixture and as a marker, inside real test runs."""

from __future__ import annotations

import json
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

from fcguard import Guard, SQLiteStore
from fcguard.testing import pytest_plugin

pytest.importorskip(
    "scipy.optimize"
)  # loaded before any inner run, which forgets what it loads: numpy cannot be loaded twice
pytest_plugins = ["pytester"]

GOLD = {"version": 1, "tasks": [{"id": "case", "steps": [{"any_of": [{"tool": "look"}]}]}]}
TOOLS = {
    "tools": [
        {"name": "look", "inputSchema": {"type": "object"}, "effect": "read"},
        {"name": "book", "inputSchema": {}, "effect": "write"},
    ]
}


def lines(*tools: str, trials: int = 3) -> str:
    calls = [{"tool": tool, "args": {}, "status": "ok"} for tool in tools]
    return "".join(json.dumps({"task_id": "case", "trial": trial, "calls": calls}) + "\n" for trial in range(trials))


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    root = pytester.path
    (root / "gold.json").write_text(json.dumps(GOLD))
    (root / "tools.json").write_text(json.dumps(TOOLS))
    (root / "good.jsonl").write_text(lines("look"))
    (root / "bad.jsonl").write_text(lines("look", "book"))
    (root / "few.jsonl").write_text(lines("look", trials=1))
    return pytester


def run(project: pytest.Pytester, source: str, *options: str) -> Any:
    project.makepyfile(source)
    is_installed = any(entry.name == "fcguard" for entry in entry_points(group="pytest11"))
    plugin = () if is_installed else ("-p", "fcguard.testing.pytest_plugin")
    return project.runpytest_inprocess(*plugin, "-p", "no:cacheprovider", "--strict-markers", *options)


FILES = 'gold="gold.json", tools="tools.json"'


def test_the_fixture_passes_and_fails_with_the_gate(project: pytest.Pytester) -> None:
    found = run(
        project,
        f"""
        def test_good(fcguard_gate):
            assert fcguard_gate("good.jsonl", {FILES}, min_pass_rate=1.0).exit_code == 0

        def test_bad(fcguard_gate):
            fcguard_gate("bad.jsonl", {FILES})

        def test_few(fcguard_gate):
            fcguard_gate("few.jsonl", {FILES})

        def test_few_allowed(fcguard_gate):
            assert fcguard_gate("few.jsonl", {FILES}, allow_inconclusive=True).outcome == "inconclusive"
        """,
    )
    found.assert_outcomes(passed=2, failed=2)
    found.stdout.fnmatch_lines(["*gate: fail (exit 1)*High-risk misfire*", "*gate: inconclusive (exit 3)*"])


def test_the_marker_holds_the_gate_after_the_test_has_made_the_trace(project: pytest.Pytester) -> None:
    found = run(
        project,
        f"""
        import pathlib, pytest

        @pytest.mark.fcguard_gate("made.jsonl", {FILES})
        def test_makes_it():
            pathlib.Path("made.jsonl").write_text(pathlib.Path("good.jsonl").read_text())

        @pytest.mark.fcguard_gate("good.jsonl", {FILES})
        @pytest.mark.fcguard_gate("bad.jsonl", {FILES})
        def test_bad(): ...

        @pytest.mark.fcguard_gate("bad.jsonl", {FILES})
        def test_broken_by_itself():
            raise ValueError("own fault")
        """,
    )
    found.assert_outcomes(passed=1, failed=2)
    found.stdout.fnmatch_lines(["*gate: fail (exit 1)*", "*own fault*"])


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("()", "name at least one trace"),
        ('("none.jsonl")', "cannot be read"),
        ('("good.jsonl", gold="none.json")', "cannot be read"),
        ('("good.jsonl", suite="faults", gold="gold.json")', "not both"),
        ('("good.jsonl", suite="nine")', "there is no suite"),
        ('("good.jsonl", mildness=1)', "limits are misfires, repeat"),
        ('("good.jsonl", baseline="gold.json")', "cannot be read"),
    ],
)
def test_wrong_usage_fails_the_test_with_the_reason(project: pytest.Pytester, call: str, words: str) -> None:
    found = run(project, f"def test_it(fcguard_gate):\n    fcguard_gate{call}\n")
    found.assert_outcomes(failed=1)
    assert words in found.stdout.str()


def test_suites_and_ledgers_can_be_held_and_reports_are_written(project: pytest.Pytester) -> None:
    with Guard(store=SQLiteStore(project.path / "ledger.db"), evidence_dir=project.path) as guard:
        guard.tool(effect="read", name="look")(lambda: "A1")
        for trial in range(3):
            with guard.task(task_id=f"case#{trial}"):
                guard.call("look")
    found = run(
        project,
        f"""
        from fcguard.testing.reference_agents import follow_envelope
        from fcguard.testing.suites import run_suite, suite_named

        def test_suite(fcguard_gate):
            ran = run_suite(follow_envelope, suite_named("faults"), trials=3, only={{"unknown_tool"}}, progress="none")
            fcguard_gate(ran)
            fcguard_gate(ran, suite="faults", version="1", model="scripted")

        def test_ledger(fcguard_gate):
            fcguard_gate("ledger.db", {FILES}, format="ledger")
        """,
        "--fcguard-reports=reports",
    )
    found.assert_outcomes(passed=2)
    assert sorted(path.suffix for path in (project.path / "reports").iterdir()) == [".html", ".html", ".json", ".json"]


def test_a_baseline_is_compared_with(project: pytest.Pytester) -> None:
    found = run(
        project,
        f"""
        from fcguard.evaluation.baseline import make_baseline, save_baseline
        from fcguard.evaluation.catalogue import Catalogue
        from fcguard.evaluation.gold import load_gold
        from fcguard.evaluation.importers.read import read_trace
        from fcguard.evaluation.metrics import Measures
        from fcguard.evaluation.report.assess import assess
        from fcguard.evaluation.trace import RunIdentity

        def test_it(fcguard_gate):
            measures = Measures(load_gold("gold.json"), Catalogue.load("tools.json"))
            found = assess([read_trace("good.jsonl")], measures, identity=RunIdentity("1", "m"))
            save_baseline(make_baseline(found.partial, found.identity, measures.gold, passed_gate=True), "baseline.json")
            verdict = fcguard_gate("good.jsonl", {FILES}, baseline="baseline.json", allow_inconclusive=True)
            assert verdict.comparisons
        """,
    )
    found.assert_outcomes(passed=1)


def test_the_marker_is_declared_and_nothing_else_is_added(project: pytest.Pytester) -> None:
    found = run(project, "def test_it(): pass", "--markers")
    found.stdout.fnmatch_lines(["@pytest.mark.fcguard_gate*"])
    assert set(pytest_plugin.__all__) == {"fcguard_gate", "pytest_addoption", "pytest_configure", "pytest_runtest_call"}


def test_the_plugin_is_an_entry_point_of_pytest() -> None:
    import tomllib

    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8"))["project"]
    assert project["entry-points"]["pytest11"] == {"fcguard": "fcguard.testing.pytest_plugin"}


def test_a_ledger_is_held_against_the_gate_by_its_url(project: pytest.Pytester) -> None:
    path = project.path / "url" / "ledger.db"
    with Guard(store=SQLiteStore(path), evidence_dir=project.path) as guard:

        @guard.tool(effect="read")
        def look() -> str:
            return "x"

        for trial in range(3):
            with guard.task(task_id=f"case#{trial}"):
                assert look().success
    found = run(
        project,
        f"""
        def test_there(fcguard_gate):
            assert fcguard_gate("sqlite:///{path}", {FILES}).exit_code == 0

        def test_not_there(fcguard_gate):
            fcguard_gate("sqlite:///{path}.none", {FILES})

        def test_no_ledger(fcguard_gate):
            fcguard_gate("mysql://host/db", {FILES})
        """,
    )
    found.assert_outcomes(passed=1, failed=2)
    found.stdout.fnmatch_lines(["*fcguard_gate: a trace begins with 'mysql'; write sqlite:///path*"])
