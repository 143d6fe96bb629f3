"""The ledger benchmark runs and prints what it promises; how fast anything is, is not judged here."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(900)
def test_every_part_is_measured_beside_what_it_is_compared_with() -> None:
    command = [sys.executable, "-m", "tests.benchmarks.ledger", "--smoke", "--json", "--no-postgres"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-2000:]
    parts = json.loads(done.stdout)
    assert [row["callers"] for row in parts["group commit"]] == [1, 4, 16, 64, 256]
    for row in parts["group commit"]:
        assert row["x_raw_row"] == pytest.approx(row["us_per_call"] / 2 / row["raw_us_per_row"])
        assert row["bare_x_raw_row"] == pytest.approx(row["bare_group_us"] / row["raw_us_per_row"])
    assert {row["name"] for row in parts["one at a time"]} >= {"a lone durable read", "a bare FULL commit of one row"}
    assert {row["calls"] for row in parts["growth"]} == {"1,000 calls"}
    assert all(row["us"] > 0 for row in parts["memory"])
    assert parts["postgres"] == []
