"""The overhead benchmark runs and prints what it promises; how fast anything is, is not judged here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "benchmarks" / "overhead.py"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPT), *arguments], capture_output=True, text=True, timeout=600, check=False
    )


@pytest.fixture(scope="module")
def measured() -> subprocess.CompletedProcess[str]:
    return run("--smoke", "--rounds", "1", "--json", "--peers", "pydantic-ai", "crewai")


@pytest.mark.timeout(900)
def test_json_is_a_list_of_rows_and_nothing_else(measured: subprocess.CompletedProcess[str]) -> None:
    assert measured.returncode == 0, measured.stderr[-2000:]
    rows = json.loads(measured.stdout)
    for row in rows:
        assert {"name", "colour", "us", "x_validate_call"} <= row.keys()
        assert row["colour"] in {"sync", "async"}
        assert row["us"] > 0
        assert row["x_validate_call"] > 0


def test_each_ledger_is_measured_in_both_colours_beside_the_bare_call(
    measured: subprocess.CompletedProcess[str],
) -> None:
    named = [(row["name"], row["colour"]) for row in json.loads(measured.stdout)]
    assert len(set(named)) == len(named)
    for name in (
        "pydantic.validate_call",
        "fcguard (memory ledger)",
        "fcguard (SQLite ledger)",
        "fcguard, 100 registered tools",
    ):
        assert {(name, "sync"), (name, "async")} <= set(named)
    assert {"fcguard (SQLite ledger), 100 in flight", "fcguard, 100 in flight, 10 ms tool"} <= {
        name for name, _ in named
    }


def test_telemetry_is_measured_beside_none_at_all(measured: subprocess.CompletedProcess[str]) -> None:
    rows = [row for row in json.loads(measured.stdout) if "x_silent" in row]
    assert {row["name"].removeprefix("telemetry, ") for row in rows if row["colour"] == "sync"} == {
        "fcguard without telemetry (SilentObserver)",
        "no provider",
        "sampled out",
        "sampled out by ratio",
        "sampled out, with counters",
        "recorded, one span a call",
        "recorded",
        "JSON log line",
        "recorded, what the SDK takes of it",
    }
    assert all(row["reference"] == "fcguard without telemetry (SilentObserver)" for row in rows)
    assert {row["colour"] for row in rows if row["name"] == row["reference"]} == {"sync", "async"}


def test_every_peer_is_either_measured_or_said_to_be_skipped(measured: subprocess.CompletedProcess[str]) -> None:
    names = [row["name"] for row in json.loads(measured.stdout)]
    for peer in ("pydantic-ai", "crewai"):
        assert any(name.startswith(peer) for name in names) or f"skipped {peer}" in measured.stderr


def test_the_steps_of_a_call_add_up() -> None:
    done = run("--where", "--rounds", "1", "--json")
    assert done.returncode == 0, done.stderr[-2000:]
    rows = json.loads(done.stdout)
    assert [row["step"] for row in rows][-1] == "all"
    assert sum(row["us"] for row in rows[:-1]) == pytest.approx(rows[-1]["us"], abs=0.1)


def test_telemetry_can_be_measured_alone() -> None:
    done = run("--telemetry", "--smoke", "--rounds", "1")
    assert done.returncode == 0, done.stderr[-2000:]
    assert "Telemetry of one call" in done.stdout
    assert "sampled out by ratio" in done.stdout


def test_no_rounds_are_refused() -> None:
    done = run("--rounds", "0")
    assert done.returncode == 2
    assert "at least 1" in done.stderr
