"""The example of a gate in CI does what its docstring says."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

PATH = Path(__file__).parents[2] / "examples" / "gate_in_ci.py"


@pytest.fixture(scope="module")
def example() -> Any:
    spec = importlib.util.spec_from_file_location("gate_in_ci", PATH)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_guarded_agent_may_be_released(example: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = example.main(["--journal", str(tmp_path / "run.jsonl"), "--report", str(tmp_path / "report.md")])
    printed = capsys.readouterr().out
    assert code == 0 and "gate: pass" in printed and "FAILED" not in printed
    assert "Pass rate" in (tmp_path / "report.md").read_text()
    assert len((tmp_path / "run.jsonl").read_text().splitlines()) == 63


def test_the_naive_one_may_not(example: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert example.main(["--naive"]) == 1
    printed = capsys.readouterr().out
    assert "first fix" in printed and "| write_timeout_committed | ok | FAILED |" in printed
