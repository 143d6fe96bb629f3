"""Benchmark of the evaluation: ten thousand sessions of ten calls, streamed from a file, beside a plain validation loop.

Run: `python -m tests.benchmarks.evaluation [--sessions N] [--json]`. Prints calls per second, how time and memory grow
with the number of sessions, and the rate of a bare loop of `jsonschema.validate` over the same calls.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
from rich.console import Console
from rich.progress import Progress

from fcguard.evaluation.catalogue import Catalogue, ToolSpec
from fcguard.evaluation.evaluate import evaluate
from fcguard.evaluation.gold import Gold, parse_gold
from fcguard.evaluation.importers.read import read_trace
from fcguard.evaluation.metrics import Measures
from fcguard.evaluation.trace import Session

TASKS = 200
TOOLS = 12
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "id": {"type": "string", "minLength": 1},
        "amount": {"type": "integer", "minimum": 0},
        "tags": {"type": "array", "items": {"type": "string"}},
        "mode": {"enum": ["fast", "safe"]},
    },
    "required": ["id", "amount"],
    "additionalProperties": False,
}


def catalogue() -> Catalogue:
    """Make the tools: every fourth one writes."""
    return Catalogue.of(
        ToolSpec(f"tool_{number}", schema=SCHEMA, effect="write" if number % 4 == 3 else "read")
        for number in range(TOOLS)
    )


def gold() -> Gold:
    """Make the gold: six ordered steps a task, two of them with a second choice."""
    rows = []
    for task in range(TASKS):
        steps = [
            {
                "id": str(number),
                "any_of": [{"tool": f"tool_{(task + number) % TOOLS}", "arguments": {"$subset": {"amount": number}}}],
                "after": [str(number - 1)] if number else [],
            }
            for number in range(6)
        ]
        rows.append({"id": str(task), "slice": f"s{task % 3}", "steps": steps, "min_calls": 6})
    return parse_gold({"version": 1, "suite": "benchmark", "tasks": rows})


def records(sessions: int) -> Iterator[dict[str, Any]]:
    """Yield sessions of ten calls: six good ones, a repeat, a bad argument, a wrong tool, a failure."""
    for number in range(sessions):
        task = number % TASKS
        calls = [_call((task + n) % TOOLS, n, number) for n in range(6)]
        calls += [calls[0], _call(task % TOOLS, "x", number), _call((task + 9) % TOOLS, 9, number)]
        calls.append({**_call((task + 1) % TOOLS, 7, number), "status": "failed", "error_type": "TIMEOUT"})
        yield {"task_id": str(task), "trial": number // TASKS, "session_id": str(number), "calls": calls}


def _call(tool: int, amount: Any, salt: int) -> dict[str, Any]:
    arguments = {"id": f"A{salt}", "amount": amount, "tags": ["a", "b"], "mode": "fast"}
    return {"tool": f"tool_{tool}", "args": arguments, "status": "success", "result_hash": f"{tool}-{amount}"}


def write_trace(path: Path, sessions: int) -> None:
    """Write the sessions as JSON Lines."""
    with path.open("w", encoding="utf-8") as stream:
        for record in records(sessions):
            stream.write(json.dumps(record) + "\n")


def evaluated(path: Path, sessions: int, console: Console) -> float:
    """Evaluate a trace with a progress bar and answer the seconds it took."""
    with Progress(console=console, transient=True) as progress:
        bar = progress.add_task(f"{sessions} sessions", total=sessions)

        def move(session: Session) -> None:
            progress.advance(bar)

        start = time.perf_counter()
        partial = evaluate(read_trace(path), Measures(gold(), catalogue()), on_session=move)
        seconds = time.perf_counter() - start
    if partial.totals()["calls"] != sessions * 10:
        raise SystemExit("not every call was counted")
    return seconds


def peak_memory(path: Path) -> int:
    """Answer the peak of memory that an evaluation takes, in bytes."""
    tracemalloc.start()
    evaluate(read_trace(path), Measures(gold(), catalogue()))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def validated(path: Path) -> float:
    """Answer the seconds that a plain loop of `jsonschema.validate` takes over the same calls."""
    start = time.perf_counter()
    with path.open(encoding="utf-8") as stream:
        for line in stream:
            for call in json.loads(line)["calls"]:
                try:
                    jsonschema.validate(call["args"], SCHEMA)
                except jsonschema.ValidationError:
                    continue
    return time.perf_counter() - start


def main(arguments: list[str] | None = None) -> list[dict[str, Any]]:
    """Run the benchmark and print it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=10_000)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(arguments)
    rows = []
    console = Console(stderr=True)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "trace.jsonl"
        write_trace(path, 10)
        evaluated(path, 10, console)  # loads scipy, which is not what is measured
        for sessions in (max(1, options.sessions // 10), options.sessions):
            write_trace(path, sessions)
            seconds = evaluated(path, sessions, console)
            rows.append(
                {
                    "name": f"evaluate {sessions} sessions of ten calls",
                    "calls_per_second": round(sessions * 10 / seconds),
                    "us_per_call": round(seconds / sessions / 10 * 1e6, 2),
                    "peak_mib": round(peak_memory(path) / 2**20, 2),
                }
            )
        write_trace(path, max(1, options.sessions // 10))
        calls = max(1, options.sessions // 10) * 10
        plain = validated(path)
        rows.append(
            {
                "name": "plain loop of jsonschema.validate",
                "calls_per_second": round(calls / plain),
                "us_per_call": round(plain / calls * 1e6, 2),
                "peak_mib": None,
            }
        )
    if options.json:
        sys.stdout.write(json.dumps(rows, indent=2) + "\n")
    else:
        for row in rows:
            sys.stdout.write("  ".join(f"{key}={value}" for key, value in row.items()) + "\n")
    return rows


if __name__ == "__main__":
    main()
