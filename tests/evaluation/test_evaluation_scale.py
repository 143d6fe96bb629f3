"""Scale: work grows with the calls alone, memory does not grow with the sessions, and a long session ends soon."""

from __future__ import annotations

import gc
import sys
import tracemalloc
from pathlib import Path
from types import FrameType
from typing import Any

from fcguard.evaluation.evaluate import evaluate
from fcguard.evaluation.importers.read import read_trace
from fcguard.evaluation.metrics import Measures
from fcguard.evaluation.trace import Session
from tests.benchmarks.evaluation import catalogue, gold, main, write_trace
from tests.evaluation.evaluation_builders import call, session

GOLD, TOOLS = gold(), catalogue()


def work(path: Path) -> int:
    """Count the Python functions that an evaluation calls: the same on every machine."""
    calls = 0

    def count(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        evaluate(read_trace(path), Measures(GOLD, TOOLS))
    finally:
        sys.setprofile(before)
    return calls


def peak(path: Path) -> int:
    gc.collect()
    tracemalloc.start()
    try:
        evaluate(read_trace(path), Measures(GOLD, TOOLS), most_cases=20)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_work_is_linear_in_the_sessions(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    write_trace(path, 100)
    evaluate(read_trace(path), Measures(GOLD, TOOLS))
    few = work(path)
    write_trace(path, 500)
    assert work(path) < 5.5 * few


def test_memory_is_flat_in_the_sessions(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    write_trace(path, 200)
    evaluate(read_trace(path), Measures(GOLD, TOOLS), most_cases=20)
    few = peak(path)
    write_trace(path, 2000)  # twenty megabytes if all were held; a peak varies by a tenth with the garbage collector
    assert peak(path) < few * 1.5


def test_a_session_of_a_thousand_calls_is_evaluated() -> None:
    calls = [call(f"tool_{number % 12}", {"id": "A", "amount": number % 50}, status="failed") for number in range(1000)]
    partial = evaluate([session(*calls, task_id="0")], Measures(GOLD, TOOLS))
    assert partial.totals()["calls"] == 1000


def test_the_benchmark_runs_and_prints_rows(capsys: Any) -> None:
    rows = main(["--sessions", "20", "--json"])
    assert [row["calls_per_second"] > 0 for row in rows] == [True, True, True]
    assert capsys.readouterr().out.startswith("[")


def test_a_generator_is_never_held() -> None:
    alive: list[int] = []

    def sessions() -> Any:
        for number in range(50):
            alive.append(number)
            yield Session(str(number), "0")

    seen: list[int] = []
    evaluate(sessions(), Measures(GOLD, TOOLS), on_session=lambda run: seen.append(len(alive)))
    assert seen == list(range(1, 51))
