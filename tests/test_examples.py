"""The examples, run as a newcomer runs them: as programs of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def run(*arguments: str) -> list[str]:
    """Run the worked example and answer its lines."""
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "order_check.py"), *arguments],
        capture_output=True,
        text=True,
        timeout=600,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    return done.stdout.splitlines()


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("arguments", "orders"),
    [
        ((), 1),
        (("--fault", "none"), 1),
        (("--fault", "committed"), 1),
        (("--fault", "lost"), 1),
        (("--fault", "slow"), 1),
        (("--naive", "--fault", "committed"), 2),
        (("--model", "--fault", "committed"), 1),
        (("--model", "--fault", "lost"), 1),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_the_order_check_ends_with_the_right_number_of_orders(arguments: tuple[str, ...], orders: int) -> None:
    assert run(*arguments)[-1] == f"orders in the database: {orders}"


@pytest.mark.timeout(900)
def test_the_order_check_shows_what_it_leaves_behind() -> None:
    text = "\n".join(run("--fault", "committed"))
    for part in (
        '"success": true',
        '"outcome_basis": "confirmed"',
        "the ledger",
        "the spans",
        "evidence",
        "order A20260130001",
    ):
        assert part in text
