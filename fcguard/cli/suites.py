"""List the suites that ship, and try an agent on one."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from fcguard.cli.evaluation import BaselineFile, HtmlFile, JsonFile, JunitFile, Model, Version, write_reports
from fcguard.cli.output import print_table, reporting, say
from fcguard.cli.source import load_name
from fcguard.errors import UsageError
from fcguard.evaluation.baseline import load_baseline
from fcguard.evaluation.gate import GateLimits
from fcguard.evaluation.report.assess import assess
from fcguard.evaluation.trace import RunIdentity
from fcguard.testing.fault_matrix import matrix_rows
from fcguard.testing.suite import Agent
from fcguard.testing.suites import SUITES, run_suite, suite_named

__all__ = ["add_to"]

_INTERRUPTED = 130


def add_to(app: typer.Typer) -> None:
    """Add the commands of this group."""
    group = typer.Typer(help="Suites that ship: try an agent on them.", no_args_is_help=True)
    group.command("list")(list_suites)
    group.command("run")(run)
    app.add_typer(group, name="suite")


def list_suites() -> None:
    """List the suites that ship."""
    with reporting():
        suites = [suite_named(name) for name in SUITES]
        print_table(
            ("suite", "prompts", "what it is"), [(one.name, len(one.prompts), one.description) for one in suites]
        )


def run(
    name: Annotated[str, typer.Argument(metavar="SUITE", help="A name that `suite list` shows.")],
    *,
    agent: Annotated[
        str, typer.Option("--agent", metavar="MODULE:NAME", help="A callable (prompt, guard) -> answer, sync or async.")
    ],
    trials: Annotated[int, typer.Option("--trials", help="How often each prompt is tried.")] = 3,
    workers: Annotated[int, typer.Option("--workers", help="Sessions that run at once.")] = 1,
    journal: Annotated[
        Path | None, typer.Option("--journal", metavar="FILE", help="Trace of the finished sessions; goes on from it.")
    ] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Refuse a journal that holds sessions already.")] = False,
    only: Annotated[list[str] | None, typer.Option("--only", metavar="TASK", help="Run only this task.")] = None,
    baseline: BaselineFile = None,
    min_pass_rate: Annotated[
        float, typer.Option("--min-pass-rate", metavar="RATE", help="Lowest pass rate where there is no baseline.")
    ] = 0.9,
    version: Version = "",
    model: Model = "",
    json: JsonFile = None,
    out: HtmlFile = None,
    junit: JunitFile = None,
) -> None:
    """Try an agent on a suite; exits as the gate decides: 0 pass, 1 failed, 2 wrong usage, 3 not decided."""
    with reporting():
        suite = suite_named(name)
        trusted = None if baseline is None else load_baseline(baseline)
        try:
            ran = run_suite(
                _load(agent),
                suite,
                trials,
                journal=journal,
                resume=not fresh,
                workers=workers,
                only=frozenset(only) if only else None,
            )
        except KeyboardInterrupt:
            kept = "nothing was kept: give --journal" if journal is None else f"finished sessions are in {journal}"
            print(f"fcguard: interrupted; {kept}; the same command goes on from there", file=sys.stderr)
            raise typer.Exit(_INTERRUPTED) from None
        found = assess(
            [ran.run()],
            suite.measures,
            identity=RunIdentity(version, model),
            baseline=trusted,
            limits=GateLimits(pass_rate=min_pass_rate),
        )
        write_reports(found.document, json=json, out=out, junit=junit)
        if any("criteria" in session for session in ran.sessions):
            head, *rows = matrix_rows(ran.sessions)
            print_table(head, rows)
        say(found.verdict.text())
        raise typer.Exit(found.verdict.exit_code)


def _load(agent: str) -> Agent:
    found = load_name("--agent", agent, "shop.agent:answer")
    if not callable(found):
        module_name, _, name = agent.partition(":")
        raise UsageError(f"--agent {agent!r}: {module_name!r} has no callable {name!r}")
    return found  # type: ignore[no-any-return]
