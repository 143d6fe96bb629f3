"""Evaluate traces, hold them against a gate, and keep a run as the baseline."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from fcguard.cli.output import reporting, say
from fcguard.errors import UsageError
from fcguard.evaluation.baseline import load_baseline, make_baseline, save_baseline
from fcguard.evaluation.catalogue import Catalogue
from fcguard.evaluation.gate import GateLimits
from fcguard.evaluation.gold import load_gold
from fcguard.evaluation.metrics import Measures
from fcguard.evaluation.report.assess import Assessment, assess
from fcguard.evaluation.report.document import ReportOptions
from fcguard.evaluation.report.terminal import print_report
from fcguard.evaluation.report.write import RENDERINGS
from fcguard.evaluation.trace import RunIdentity
from fcguard.testing.ledger_trace import open_trace
from fcguard.testing.progress import show_progress
from fcguard.testing.suites import suite_named

__all__ = ["add_to", "write_reports"]

Traces = Annotated[
    list[str],
    typer.Argument(metavar="TRACE...", help="Traces: JSON, JSON Lines, a ledger's SQLite file, or a ledger's URL."),
]
GoldFile = Annotated[Path | None, typer.Option("--gold", metavar="FILE", help="What a good run does: YAML or JSON.")]
ToolsFile = Annotated[
    Path | None,
    typer.Option("--tools", metavar="FILE", help="The tools that were offered: OpenAI tools or an MCP list."),
]
SuiteName = Annotated[
    str | None, typer.Option("--suite", metavar="NAME", help="Gold and tools of a suite that ships, instead of files.")
]
BaselineFile = Annotated[Path | None, typer.Option("--baseline", metavar="FILE", help="A trusted run to compare with.")]
Format = Annotated[str | None, typer.Option("--format", metavar="NAME", help="The importer; guessed when left out.")]
Strict = Annotated[
    str, typer.Option("--profile", metavar="NAME", help="Rule of the score: strict, or seed (the published one).")
]
Version = Annotated[str, typer.Option("--version", metavar="TEXT", help="Version of what is tested.")]
Model = Annotated[str, typer.Option("--model", metavar="TEXT", help="Model that it ran on.")]
JsonFile = Annotated[Path | None, typer.Option("--json", metavar="FILE", help="Write the report as JSON.")]
HtmlFile = Annotated[Path | None, typer.Option("--out", metavar="FILE", help="Write the report as one HTML page.")]
JunitFile = Annotated[Path | None, typer.Option("--junit", metavar="FILE", help="Write the gate as JUnit XML.")]
MarkdownFile = Annotated[Path | None, typer.Option("--markdown", metavar="FILE", help="Write the report as Markdown.")]
Hidden = Annotated[bool, typer.Option("--hide-arguments", help="Show no argument values in reports.")]
MinPass = Annotated[float | None, typer.Option("--min-pass-rate", metavar="RATE", help="Lowest pass rate, 0 to 1.")]
MaxWrong = Annotated[float | None, typer.Option("--max-wrong-tool", metavar="RATE", help="Highest wrong-tool rate.")]
MaxInvalid = Annotated[
    float | None, typer.Option("--max-invalid", metavar="RATE", help="Highest rate of invalid arguments.")
]
MaxRepeat = Annotated[float, typer.Option("--max-repeat", metavar="RATE", help="Rate of repeats that fails the gate.")]

_DEFAULT: Final = GateLimits()


def add_to(app: typer.Typer) -> None:
    """Add the commands of this group."""
    app.command("evaluate")(evaluate_traces)
    app.command("gate")(hold_gate)
    app.command("baseline")(keep_baseline)


def evaluate_traces(
    traces: Traces,
    *,
    gold: GoldFile = None,
    tools: ToolsFile = None,
    suite: SuiteName = None,
    baseline: BaselineFile = None,
    format: Format = None,
    profile: Strict = "strict",
    version: Version = "",
    model: Model = "",
    json: JsonFile = None,
    out: HtmlFile = None,
    junit: JunitFile = None,
    markdown: MarkdownFile = None,
    hide_arguments: Hidden = False,
) -> None:
    """Measure traces and print the report; exits 0 whatever the gate says, 2 on wrong usage."""
    with reporting():
        options = ReportOptions(arguments=not hide_arguments)
        measures = _measures(gold, tools, suite, profile)
        found = _assess(
            traces,
            measures,
            baseline=baseline,
            format=format,
            identity=RunIdentity(version, model),
            options=options,
        )
        if found.verdict.outcome == "usage":
            raise UsageError(found.verdict.message)
        write_reports(found.document, json=json, out=out, junit=junit, markdown=markdown)
        print_report(found.document)


def hold_gate(
    traces: Traces,
    *,
    gold: GoldFile = None,
    tools: ToolsFile = None,
    suite: SuiteName = None,
    baseline: BaselineFile = None,
    format: Format = None,
    version: Version = "",
    model: Model = "",
    json: JsonFile = None,
    out: HtmlFile = None,
    junit: JunitFile = None,
    min_pass_rate: MinPass = None,
    max_wrong_tool: MaxWrong = None,
    max_invalid: MaxInvalid = None,
    max_repeat: MaxRepeat = _DEFAULT.repeat,
) -> None:
    """Decide about a release: exits 0 pass, 1 gate failed, 2 wrong usage, 3 not decided."""
    with reporting():
        limits = GateLimits(
            pass_rate=min_pass_rate, wrong_tool=max_wrong_tool, invalid_arguments=max_invalid, repeat=max_repeat
        )
        measures = _measures(gold, tools, suite, "strict")
        found = _assess(
            traces,
            measures,
            baseline=baseline,
            format=format,
            identity=RunIdentity(version, model),
            limits=limits,
        )
        write_reports(found.document, json=json, out=out, junit=junit)
        say(found.verdict.text())
        raise typer.Exit(found.verdict.exit_code)


def keep_baseline(
    traces: Traces,
    *,
    save: Annotated[Path, typer.Option("--save", metavar="FILE", help="Where the baseline is kept.")],
    version: Version,
    model: Model,
    gold: GoldFile = None,
    tools: ToolsFile = None,
    suite: SuiteName = None,
    baseline: BaselineFile = None,
    format: Format = None,
    min_pass_rate: MinPass = None,
) -> None:
    """Keep a whole run that passes its gate as the baseline; any other run is refused, with exit 2."""
    with reporting():
        measures = _measures(gold, tools, suite, "strict")
        if measures.gold is None:
            raise UsageError("a baseline needs the gold of its prompts: give --gold or --suite")
        limits = GateLimits(pass_rate=min_pass_rate)
        found = _assess(
            traces,
            measures,
            baseline=baseline,
            format=format,
            identity=RunIdentity(version, model),
            limits=limits,
        )
        if found.verdict.outcome != "pass":
            say(found.verdict.text())
        passed = found.verdict.outcome == "pass"
        made = make_baseline(found.partial, found.identity, measures.gold, passed_gate=passed)
        try:
            save_baseline(made, save)
        except OSError as error:
            raise UsageError(f"baseline {str(save)!r} cannot be written: {error}") from error
        say(f"baseline kept: {save} ({len(made.tasks)} tasks, {made.trials} trials each)")


def _measures(gold: Path | None, tools: Path | None, suite: str | None, profile: str) -> Measures:
    if profile not in ("strict", "seed"):
        raise UsageError(f"--profile {profile!r}: use strict or seed")
    if suite is not None:
        if gold is not None or tools is not None:
            raise UsageError("give --suite, or --gold and --tools, not both")
        known = suite_named(suite)
        return Measures(known.gold, known.catalogue, "seed" if profile == "seed" else "strict")
    return Measures(
        None if gold is None else load_gold(gold),
        Catalogue() if tools is None else Catalogue.load(tools),
        "seed" if profile == "seed" else "strict",
    )


def _assess(
    traces: list[str],
    measures: Measures,
    *,
    baseline: Path | None,
    format: str | None,
    identity: RunIdentity,
    limits: GateLimits = _DEFAULT,
    options: ReportOptions | None = None,
) -> Assessment:
    runs = [open_trace(trace, format, said="TRACE") for trace in traces]
    trusted = None if baseline is None else load_baseline(baseline)
    with show_progress("sessions", None, style="bar" if sys.stderr.isatty() else "none") as advance:
        return assess(
            runs,
            measures,
            identity=identity,
            baseline=trusted,
            limits=limits,
            options=options,
            on_session=lambda session: advance(session.session_id),
        )


_ENDINGS: Final[Mapping[str, str]] = {"json": ".json", "out": ".html", "junit": ".xml", "markdown": ".md"}


def write_reports(document: dict[str, Any], **files: Path | None) -> None:
    """Write a report into files, each in the form of its option (`json`, `out`, `junit`, `markdown`) whatever its ending.

    Raises:
        UsageError: a file cannot be written.
    """
    for option, path in files.items():
        if path is None:
            continue
        text = RENDERINGS[_ENDINGS[option]](document)
        try:
            path.write_text(text, "utf-8")
        except OSError as error:
            raise UsageError(f"--{option} {str(path)!r} cannot be written: {error}") from error
