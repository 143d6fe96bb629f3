"""A process is killed at every named moment, on every ledger, in both colours; a new process recovers what it left.

Promise: effects applied at most once, no acknowledged record lost, the chain verifies.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.crash.crash_windows import BY_NAME, WINDOWS, Window

_WORKER = Path(__file__).with_name("crash_worker.py")
COLOURS = ("sync", "async")
STORES = ("sqlite", "postgres")


@dataclass
class Cell:
    """What one killed process left, and what the recovery made of it."""

    window: Window
    status: int
    acknowledged: dict[str, Any] | None
    recovered: dict[str, Any]


class Matrix:
    """Runs all windows of one store and colour once, and remembers the cells."""

    def __init__(self, folder: Path, server: Any) -> None:
        self._folder, self._server = folder, server
        self.cells = cache(self._cells)

    def _cells(self, store: str, colour: str) -> dict[str, Cell]:
        places = [self._place(store, colour, window) for window in WINDOWS]
        with ThreadPoolExecutor(4) as pool:
            died = list(pool.map(lambda pair: _kill(*pair[0], pair[1].name, colour), zip(places, WINDOWS, strict=True)))
        ledgers = [part for url, folder, schema in places for part in (url, str(folder), schema)]
        finished = subprocess.run(
            [sys.executable, str(_WORKER), "recover", colour, *ledgers],
            capture_output=True,
            text=True,
            timeout=600,
            check=False,
        )
        assert finished.returncode == 0, finished.stderr
        found = [json.loads(line) for line in finished.stdout.splitlines()]
        return {
            window.name: Cell(window, status, said, after)
            for window, (status, said), after in zip(WINDOWS, died, found, strict=True)
        }

    def _place(self, store: str, colour: str, window: Window) -> tuple[str, Path, str]:
        folder = self._folder / store / colour / window.name
        folder.mkdir(parents=True)
        if store == "sqlite":
            return str(folder / "ledger.db"), folder, "-"
        return self._server().url, folder, f"crash_{colour}_{window.name.replace('-', '_')}"


def _kill(url: str, folder: Path, schema: str, window: str, colour: str) -> tuple[int, dict[str, Any] | None]:
    finished = subprocess.run(
        [sys.executable, str(_WORKER), "die", url, str(folder), window, colour, schema],
        capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    said = [
        line for line in finished.stderr.splitlines() if not line.startswith("error ignored terminating")
    ]  # psycopg
    assert said == [], finished.stderr
    return finished.returncode, json.loads(finished.stdout) if finished.stdout else None


@pytest.fixture(scope="module")
def matrix(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Matrix:
    return Matrix(tmp_path_factory.mktemp("crash"), lambda: request.getfixturevalue("crash_server"))


@pytest.fixture(params=[(store, colour) for store in STORES for colour in COLOURS], ids="-".join, scope="module")
def cells(matrix: Matrix, request: pytest.FixtureRequest) -> dict[str, Cell]:
    return matrix.cells(*request.param)


@pytest.mark.parametrize("name", [window.name for window in WINDOWS])
def test_the_effect_is_in_the_world_at_most_once_and_nothing_is_lost(cells: dict[str, Cell], name: str) -> None:
    window, cell = BY_NAME[name], cells[name]
    after = cell.recovered
    assert cell.status == -signal.SIGKILL
    assert after["effects"] == window.effects, after["found"]
    assert after["fault"] is None
    assert after["again"]["calls"] == [], "a second recovery finds nothing to do"
    if window.state is None:
        assert (after["calls"], after["events"]) == ([], 0)
        return
    (call,) = after["calls"]
    assert (call["state"], call["attempts"]) == (
        window.state,
        max(window.attempts, call["attempts"] if window.state == "REJECTED" else 0),
    )
    assert call["result"]["outcome_basis"] == window.basis
    assert call["result"]["success"] is (window.basis is not None)


@pytest.mark.parametrize("name", [window.name for window in WINDOWS])
def test_what_was_acknowledged_is_what_the_ledger_holds(cells: dict[str, Cell], name: str) -> None:
    window, cell = BY_NAME[name], cells[name]
    assert (cell.acknowledged is not None) is window.returned
    if cell.acknowledged is not None:
        (call,) = cell.recovered["calls"]
        assert call["request_id"] == cell.acknowledged["request_id"]
        kept = {name: call["result"][name] for name in ("success", "error_type", "data", "effect", "attempts")}
        assert kept == {name: cell.acknowledged[name] for name in kept}


def test_the_matrix_is_reported(
    matrix: Matrix, capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest
) -> None:
    columns = [(store, colour) for store in STORES for colour in COLOURS]
    try:
        results = [matrix.cells(*column) for column in columns]
    except pytest.skip.Exception:
        columns = [column for column in columns if column[0] == "sqlite"]
        results = [matrix.cells(*column) for column in columns]
    lines = ["", "effects after recovery | " + " | ".join(map(" ".join, columns)) + " | injected"]
    for window in WINDOWS:
        effects = [cells[window.name].recovered["effects"] for cells in results]
        assert max(effects) <= 1
        lines.append(
            f"{window.name:22} | "
            + " | ".join(f"{count:^{len(' '.join(column))}}" for count, column in zip(effects, columns, strict=True))
            + f" | {window.injected}"
        )
    with capsys.disabled():
        print("\n".join(lines))
