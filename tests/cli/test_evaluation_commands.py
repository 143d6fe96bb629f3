"""`fcguard evaluate`, `gate`, `baseline` and `suite`: what they print, write and exit with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import pytest
from typer.testing import CliRunner

from fcguard import Bound, Environment, Guard, SQLiteStore
from fcguard.cli.commands import make_app
from fcguard.evaluation.suites.traps import trap_prompts
from fcguard.testing.suites import run_suite, suite_named

GOLD = {
    "version": 1,
    "suite": "orders",
    "tasks": [
        {
            "id": "case",
            "prompt": "look A1 up",
            "steps": [{"any_of": [{"tool": "look", "arguments": {"order_id": "A1"}}]}],
        }
    ],
}
TOOLS = [
    {"name": "look", "inputSchema": {"type": "object", "required": ["order_id"]}, "effect": "read"},
    {"name": "book", "inputSchema": {"type": "object", "required": ["order_id"]}, "effect": "write"},
]


def run(*arguments: Any) -> Any:
    return CliRunner().invoke(make_app(), [str(one) for one in arguments])


@pytest.fixture
def files(tmp_path: Path) -> Any:
    (tmp_path / "gold.json").write_text(json.dumps(GOLD))
    (tmp_path / "tools.json").write_text(json.dumps({"tools": TOOLS}))
    for name, calls in (
        ("good", [("look", {"order_id": "A1"})]),
        ("bad", [("look", {"order_id": "A1"}), ("book", {"order_id": "A1"})]),
    ):
        lines = [
            {
                "task_id": "case",
                "trial": trial,
                "calls": [{"tool": tool, "args": args, "status": "ok"} for tool, args in calls],
            }
            for trial in range(3)
        ]
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return tmp_path


def of(files: Path) -> tuple[Any, ...]:
    return ("--gold", files / "gold.json", "--tools", files / "tools.json")


def test_evaluate_prints_the_report_and_writes_it_in_every_form(files: Path) -> None:
    forms = {"--json": "r.json", "--out": "r.page", "--junit": "r.xml", "--markdown": "r.md"}
    options = [part for option, name in forms.items() for part in (option, files / name)]
    answer = run("evaluate", files / "bad.jsonl", *of(files), "--model", "m", *options)
    assert answer.exit_code == 0, answer.output
    assert "High-risk misfire" in answer.output
    assert json.loads((files / "r.json").read_text())["gate"]["outcome"] == "fail"
    assert (files / "r.page").read_text().lower().startswith("<!doctype html>")
    assert "<testsuite" in (files / "r.xml").read_text() and "High-risk misfire" in (files / "r.md").read_text()


def test_arguments_can_be_kept_out_of_reports(files: Path) -> None:
    run("evaluate", files / "bad.jsonl", *of(files), "--json", files / "r.json", "--hide-arguments")
    assert '"A1"' not in (files / "r.json").read_text()


@pytest.mark.parametrize(("trace", "code", "word"), [("good", 0, "gate: pass"), ("bad", 1, "first fix")])
def test_the_exit_code_of_the_gate_is_its_verdict(files: Path, trace: str, code: int, word: str) -> None:
    answer = run("gate", files / f"{trace}.jsonl", *of(files), "--junit", files / "r.xml")
    assert answer.exit_code == code and word in answer.output
    assert (files / "r.xml").exists()


def test_a_gate_that_cannot_decide_says_so(files: Path) -> None:
    (files / "one.jsonl").write_text((files / "good.jsonl").read_text().splitlines()[0] + "\n")
    answer = run("gate", files / "one.jsonl", *of(files))
    assert answer.exit_code == 3 and "not decided" in answer.output


def test_limits_of_the_gate_can_be_given(files: Path) -> None:
    assert run("gate", files / "good.jsonl", *of(files), "--min-pass-rate", "1", "--max-wrong-tool", "0").exit_code == 0
    (files / "empty.jsonl").write_text(
        "".join(json.dumps({"task_id": "case", "trial": n, "calls": []}) + "\n" for n in range(3))
    )
    assert run("gate", files / "empty.jsonl", *of(files), "--min-pass-rate", "1").exit_code == 1


def test_a_ledger_is_evaluated_as_it_is(files: Path) -> None:
    with Guard(store=SQLiteStore(files / "ledger.db"), evidence_dir=files) as guard:

        @guard.tool(effect="read")
        def look(order_id: str) -> str:
            return order_id

        for trial in range(3):
            with guard.task(task_id=f"case#{trial}"):
                look(order_id="A1")
    assert run("gate", files / "ledger.db", *of(files)).exit_code == 0
    assert run("evaluate", files / "ledger.db", "--format", "ledger").exit_code == 0


def test_a_ledger_with_bound_and_folded_arguments_passes_the_gate(files: Path) -> None:
    gold = {"tool": "pay", "arguments": {"order_id": "A1", "cents": 100}}
    task = {"id": "case", "prompt": "pay", "steps": [{"any_of": [gold], "effect": "write"}]}
    (files / "gold.json").write_text(json.dumps({"version": 1, "suite": "orders", "tasks": [task]}))
    with Guard(store=SQLiteStore(files / "ledger.db"), evidence_dir=files) as guard:

        @guard.tool(effect="write")
        def pay(order_id: str, cents: int, tenant: Annotated[str, Bound("tenant")]) -> str:
            return f"{tenant} {order_id} {cents}"

        for trial, cents in enumerate((100, 100, "100")):
            with guard.task(task_id=f"case#{trial}", environment=Environment(name="staging", tenant="acme")):
                (files / "tools.json").write_text(json.dumps(guard.schemas("openai")))
                assert guard.call("pay", {"order_id": "A1", "cents": cents}).success
    run("evaluate", files / "ledger.db", *of(files), "--json", files / "r.json")
    rates = {row["name"]: row["value"] for row in json.loads((files / "r.json").read_text())["indicators"]}
    assert (rates["misfire"]["n"], rates["misfire"]["k"]) == (3, 0)
    assert (rates["invalid_arguments"]["n"], rates["invalid_arguments"]["k"]) == (3, 1)


def test_a_fault_of_several_lines_is_told_line_by_line(files: Path) -> None:
    (files / "gold.yaml").write_text("version: 1\ntasks: [\n  - {id: a\n")
    answer = run("gate", files / "good.jsonl", "--gold", files / "gold.yaml")
    lines = answer.output.splitlines()
    assert answer.exit_code == 2 and "\N{REPLACEMENT CHARACTER}" not in answer.output
    assert len(lines) > 1 and lines[0].startswith("fcguard: ") and all(line.startswith("  ") for line in lines[1:])


def test_a_baseline_is_kept_compared_with_and_refused(files: Path) -> None:
    kept = files / "baseline.json"
    identity = ("--version", "1", "--model", "m", "--save", kept)
    assert run("baseline", files / "bad.jsonl", *of(files), *identity).exit_code == 2
    assert not kept.exists()
    made = run("baseline", files / "good.jsonl", *of(files), *identity)
    assert made.exit_code == 0 and "1 tasks, 3 trials" in made.output
    assert run("gate", files / "good.jsonl", *of(files), "--baseline", kept).exit_code in (0, 3)
    other = run("gate", files / "good.jsonl", "--gold", files / "gold.json", "--baseline", kept)
    assert other.exit_code == 2 and "not comparable" in other.output
    assert run("evaluate", files / "good.jsonl", "--gold", files / "gold.json", "--baseline", kept).exit_code == 2
    assert (
        run(
            "baseline", files / "good.jsonl", *of(files), "--version", "1", "--model", "m", "--save", files / "no" / "b"
        ).exit_code
        == 2
    )
    assert run("baseline", files / "good.jsonl", *identity).exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("evaluate", "{}/none.jsonl"), "cannot be read"),
        (("evaluate", "{}/good.jsonl", "--profile", "mild"), "use strict or seed"),
        (("evaluate", "{}/good.jsonl", "--format", "mild"), "unknown trace format"),
        (("gate", "{}/good.jsonl", "--suite", "traps-en", "--gold", "{}/gold.json"), "not both"),
        (("gate", "{}/good.jsonl", "--suite", "nine"), "there is no suite"),
        (("gate", "{}/good.jsonl", "--gold", "{}/good.jsonl"), "gold"),
        (("gate", "{}/good.jsonl", "--tools", "{}/none.json"), "cannot be read"),
        (("gate", "{}/good.jsonl", "--baseline", "{}/gold.json"), "cannot be read"),
        (("evaluate", "{}/good.jsonl", "--json", "{}/no/r.json"), "cannot be written"),
        (("suite", "run", "nine", "--agent", "a:b"), "there is no suite"),
        (("suite", "run", "traps-en", "--agent", "ab"), "module:name"),
        (("suite", "run", "traps-en", "--agent", "no_such_module_here:b"), "No module"),
        (("suite", "run", "traps-en", "--agent", "json:decoder"), "no callable"),
        (("suite", "run", "traps-en", "--agent", "json:loads", "--trials", "0"), "trials=0"),
    ],
)
def test_wrong_usage_exits_with_2_and_says_why(files: Path, arguments: tuple[str, ...], words: str) -> None:
    answer = run(*(one.replace("{}", str(files)) for one in arguments))
    assert answer.exit_code == 2 and words in answer.output


def test_the_seed_profile_is_the_published_rule(files: Path) -> None:
    run("evaluate", files / "good.jsonl", *of(files), "--profile", "seed", "--json", files / "r.json")
    assert json.loads((files / "r.json").read_text())["score"]["profile"] == "seed"


def test_suites_are_listed_and_run(files: Path) -> None:
    listed = run("suite", "list")
    assert listed.exit_code == 0 and "traps-zh" in listed.output and "faults" in listed.output
    journal = files / "run.jsonl"
    agent = "fcguard.testing.reference_agents:follow_envelope"
    options = ("--agent", agent, "--only", "timeout_once", "--only", "unknown_tool", "--journal", journal)
    ran = run("suite", "run", "faults", *options, "--json", files / "r.json", "--workers", "2")
    assert ran.exit_code == 0 and "timeout_once" in ran.output and "gate: pass" in ran.output
    assert len(journal.read_text().splitlines()) == 6 and (files / "r.json").exists()
    assert run("gate", journal, "--suite", "faults").exit_code == 0
    fresh = run("suite", "run", "faults", *options, "--fresh")
    assert fresh.exit_code == 2 and "holds sessions already" in fresh.output


def test_an_interrupted_suite_says_how_to_go_on(files: Path) -> None:
    agent = f"{__name__}:interrupting"
    journal = files / "run.jsonl"
    stopped = run("suite", "run", "traps-en", "--agent", agent, "--trials", "1", "--journal", journal)
    assert stopped.exit_code == 130 and str(journal) in stopped.output
    assert len(journal.read_text().splitlines()) == 2
    assert "give --journal" in run("suite", "run", "traps-en", "--agent", agent).output


def interrupting(prompt: str, guard: Guard) -> str:
    if prompt == trap_prompts("en")["sales_analysis"]:
        raise KeyboardInterrupt
    return "done"


def test_the_traps_are_judged_by_their_gold(files: Path) -> None:
    journal = files / "run.jsonl"
    run_suite(lambda prompt, guard: "done", suite_named("traps-en"), trials=3, journal=journal, progress="none")
    options = ("--agent", f"{__name__}:interrupting", "--journal", journal)
    answer = run("suite", "run", "traps-en", *options, "--out", files / "r.html")
    assert answer.exit_code == 1 and "Pass rate: 25.0% (6 of 24)" in answer.output
    assert (files / "r.html").exists()
    assert run("suite", "run", "traps-en", *options, "--min-pass-rate", "0.2").exit_code == 0


def test_a_suite_is_held_against_a_baseline(files: Path) -> None:
    journal, kept = files / "run.jsonl", files / "baseline.json"
    options = (
        "--agent",
        "fcguard.testing.reference_agents:follow_envelope",
        "--only",
        "timeout_once",
        "--journal",
        journal,
    )
    assert run("suite", "run", "faults", *options, "--baseline", kept).exit_code == 2
    whole = ("--agent", "fcguard.testing.reference_agents:follow_envelope", "--journal", files / "whole.jsonl")
    assert run("suite", "run", "faults", *whole).exit_code == 0
    made = run("baseline", files / "whole.jsonl", "--suite", "faults", "--version", "1", "--model", "m", "--save", kept)
    assert made.exit_code == 0
    assert run("suite", "run", "faults", *whole, "--baseline", kept).exit_code == 0
    partial = run("suite", "run", "faults", *options, "--baseline", kept)
    assert partial.exit_code == 2 and "partial run" in partial.output
