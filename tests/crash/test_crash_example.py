"""The shipped example kills its own worker and recovers."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    ("options", "orders", "said"),
    [
        ((), 1, "SUCCEEDED, confirmed"),
        (("--lost",), 1, "SUCCEEDED, sent again"),
        (("--naive",), 2, "the next worker begins again"),
    ],
)
def test_a_killed_worker_leaves_one_order(tmp_path: Path, options: tuple[str, ...], orders: int, said: str) -> None:
    finished = subprocess.run(
        [sys.executable, str(_ROOT / "examples" / "crash_recovery.py"), *options],
        cwd=tmp_path, capture_output=True, text=True, timeout=600, check=False,
        env=os.environ | {"PYTHONPATH": str(_ROOT), "PYTHONIOENCODING": "utf-8"},
    )  # fmt: skip
    assert finished.returncode == 0, finished.stderr
    assert said in finished.stdout
    assert finished.stdout.splitlines()[-1] == f"orders in the database: {orders}"
