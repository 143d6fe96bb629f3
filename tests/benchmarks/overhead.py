"""Benchmark of a governed call beside a bare `pydantic.validate_call` of the same function and beside agent frameworks.

Run: `python tests/benchmarks/overhead.py [--quick] [--json] [--rounds N] [--where] [--telemetry] [--peers NAME ...]`.

All paths of one colour and of the other are timed in one interleaved run (see `harness`), each after a check that it runs
the tool exactly once; figures are medians, and `x` is how many bare calls a path costs, compared round by round. `--quick`
stays under two minutes and leaves out the longest parts, `--json` prints nothing but the list of rows, `--where` shows the
steps of one call, `--telemetry` what telemetry adds to one. What was left out, and why, is said on stderr.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import sys
import tempfile
from contextlib import AsyncExitStack, ExitStack, redirect_stdout
from pathlib import Path
from typing import Any

if not __package__:  # run as a file: Python then looks for modules beside it, not in the repository
    sys.path[0] = str(Path(__file__).resolve().parents[2])

from tests.benchmarks.goals import goal_lines
from tests.benchmarks.harness import Bench, Row, machine, print_rows, print_table
from tests.benchmarks.peers import PEERS, Skipped, peer_cases
from tests.benchmarks.scale import CHILDREN, MANY, in_child, in_flight, registered_cases, waiting_tool
from tests.benchmarks.scenarios import VALIDATE, governed_cases, telemetry_cases
from tests.benchmarks.tools import GOOD
from tests.benchmarks.where import step_rows

COLOURS = ("sync", "async")


async def _interleaved(options: argparse.Namespace) -> tuple[list[Row], list[Skipped]]:
    """Time the governed calls and the peers, both colours, in one run."""
    bench, skipped = Bench(options.rounds, 35.0 if options.quick else math.inf, warm=0.0 if options.smoke else 0.5), []
    async with AsyncExitStack() as clients:
        with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory, ExitStack() as guards:
            for colour in COLOURS:
                for case in await governed_cases(colour, Path(directory), guards):
                    bench.add(case)
                found, missing = await peer_cases(colour, clients, options.peers)
                skipped += missing
                for case in found:
                    bench.add(case)
            return await bench.run(), skipped


async def _telemetry(options: argparse.Namespace) -> list[Row]:
    """Time calls that differ in their telemetry alone, with `x_silent`: how many times a call without any they cost."""
    bench = Bench(3 * options.rounds, 15.0 if options.quick else math.inf, warm=0.0 if options.smoke else 0.5)
    with ExitStack() as guards:
        for colour in COLOURS:
            for case in await telemetry_cases(colour, guards):
                bench.add(case)
        return [{**row, "x_silent": row.pop("x_validate_call")} for row in await bench.run()]


async def _many_tools(options: argparse.Namespace) -> list[Row]:
    """Time the call of one tool among many, beside the bare call."""
    bench = Bench(options.rounds, 12.0 if options.quick else math.inf, warm=0.0 if options.smoke else 0.5)
    numbers = (1, 100) if options.smoke else (1, 100, MANY)
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory, ExitStack() as guards:
        for colour in COLOURS:
            bench.add((await governed_cases(colour, Path(directory), guards))[0])
            for case in registered_cases(colour, numbers):
                bench.add(case)
        return [row for row in await bench.run() if row["name"] != VALIDATE]


async def _many_calls(options: argparse.Namespace, unit: float) -> list[Row]:
    """Have many calls in flight at once, of the governed tool and, with time, of the peers."""
    tool = waiting_tool()
    numbers = (1, 100) if options.smoke else (1, 100, MANY)
    rows = await in_flight("fcguard", lambda: tool(**GOOD), unit, numbers, repeats=3)
    if options.quick:
        return rows
    async with AsyncExitStack() as clients:
        cases, _ = await peer_cases("async", clients, options.peers, delay=0.010)
        for case in cases:
            try:
                rows += await in_flight(case.name, case.run, unit, (100, MANY), repeats=1)
            except Exception as error:
                _say(f"skipped {case.name} in flight: {type(error).__name__}: {str(error)[:200]}")
    return rows


def _unit(rows: list[Row], colour: str) -> float:
    return next(float(row["us"]) for row in rows if row["name"] == VALIDATE and row["colour"] == colour)


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")


async def _measure(options: argparse.Namespace) -> list[Row]:
    watched = await _telemetry(options)  # first: what the others load would be asked whether it listens, at every call
    rows, skipped = await _interleaved(options)
    for row in watched:
        row["x_validate_call"] = round(row["us"] / _unit(rows, row["colour"]), 3)
    for line in dict.fromkeys(f"skipped {one.name}{one.where}: {one.why}" for one in skipped):
        _say(line)
    rows += watched
    rows += await _many_tools(options)
    rows += await _many_calls(options, _unit(rows, "async"))
    if options.smoke:
        return rows
    for name in CHILDREN:
        if name == "soak" and options.quick:
            _say("skipped 1,000,000 calls in a row and peers in flight: they take minutes; run without --quick")
            continue
        rows += in_child(name, _unit(rows, "sync"), is_quick=options.quick)
    return rows


def _show(rows: list[Row]) -> None:
    """Print the tables."""
    for colour in COLOURS:
        body = [
            [
                row["name"],
                row["us"],
                row["x_validate_call"],
                row["best_us"],
                row["quiet_batches"],
                row.get("version", ""),
            ]
            for row in rows
            if row["colour"] == colour and "batches" in row and "x_silent" not in row
        ]
        print_table(f"One {colour} call", ["path", "us", "x", "best us", "quiet", "version"], body)
    _show_telemetry(rows)
    body = [
        [row["name"], row["calls_per_second"], row["processor_us"]]
        for row in rows
        if row.get("calls_per_second") is not None
    ]
    print_table("Calls in flight", ["path", "calls a second", "processor us a call"], body)
    known = {"name", "colour", "us", "x_validate_call", "kept"}
    body = [
        [row["name"], row["us"], ", ".join(f"{key}={value}" for key, value in row.items() if key not in known)]
        for row in rows
        if "batches" not in row and "calls_per_second" not in row
    ]
    print_table("Once", ["what", "us", "further"], body)
    print_table("Goals", ["goal", "wanted", "reached", "met"], goal_lines(rows))
    about = ", ".join(f"{key} {value}" for key, value in machine().items())
    sys.stdout.write(f"\nx: times a bare pydantic.validate_call of the same tool, in the same round. {about}.\n")


def _show_telemetry(rows: list[Row]) -> None:
    body = [[row["name"], row["colour"], row["us"], row["x_silent"]] for row in rows if "x_silent" in row]
    print_table("Telemetry of one call", ["path", "colour", "us", "x without telemetry"], body)


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="under two minutes")
    parser.add_argument("--json", action="store_true", help="print a JSON list of rows and nothing else")
    parser.add_argument("--rounds", type=int, help="how often each path is timed (41; 15 with --quick)")
    parser.add_argument("--where", action="store_true", help="show the steps of one call instead")
    parser.add_argument(
        "--telemetry", action="store_true", help="compare calls that differ in their telemetry alone instead"
    )
    parser.add_argument("--peers", nargs="*", default=list(PEERS), choices=list(PEERS), help="only these frameworks")
    parser.add_argument("--smoke", action="store_true", help="the shortest run that shows that all parts work")
    parser.add_argument("--child", choices=list(CHILDREN), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    options.quick = options.quick or options.smoke
    if options.rounds is None:
        options.rounds = 15 if options.quick else 41
    if options.rounds < 1:
        parser.error("--rounds must be at least 1")
    return options


def main(arguments: list[str] | None = None) -> None:
    """Run the benchmark and print it."""
    options = _options(arguments)
    if options.child:
        sys.stdout.write(json.dumps(CHILDREN[options.child](is_quick=options.quick)) + "\n")
        return
    if options.where:
        rows: list[dict[str, Any]] = step_rows(options.rounds)
        if options.json:
            print_rows(rows)
        else:
            body = [
                [row["step"], row["us"], f"{row['share']:.0%}", row["x_validate_call"], row["what"]] for row in rows
            ]
            print_table("Where the time of a governed call goes", ["step", "us", "share", "x", "what"], body)
        return
    if options.telemetry:
        rows = asyncio.run(_telemetry(options))
        if options.json:
            print_rows(rows)
        else:
            _show_telemetry(rows)
        return
    with redirect_stdout(sys.stderr):  # what a peer prints must not stand between the rows
        rows = asyncio.run(_measure(options))
    if options.json:
        print_rows(rows)
    else:
        _show(rows)


if __name__ == "__main__":
    main()
