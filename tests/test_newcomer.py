"""What somebody meets who installed the package without its extras: examples that work, or one line that says what is missing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).resolve().parents[1]
_EXTRAS = ("anthropic", "click", "httpx", "jinja2", "mcp", "openai", "plotly", "psycopg", "rich", "scipy", "sqlglot", "tree_sitter",
           "typer", "yaml")  # fmt: skip


@pytest.fixture
def bare(tmp_path: Path) -> Path:
    """A directory that makes every extra look as if it were not installed."""
    folder = tmp_path / "bare"
    folder.mkdir()
    for name in _EXTRAS:
        text = f"raise ModuleNotFoundError('No module named {name}', name={name!r})\n"
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    return folder


def run(bare: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=_ROOT, capture_output=True, text=True, timeout=600, check=False,
        env=os.environ | {"PYTHONPATH": os.pathsep.join((str(bare), str(_ROOT))), "PYTHONIOENCODING": "utf-8"},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("example", "said"),
    [("crash_recovery.py", "SUCCEEDED, confirmed"), ("order_check.py", '"outcome_basis": "confirmed"')],
)
def test_an_example_needs_no_extra(bare: Path, example: str, said: str) -> None:
    done = run(bare, f"examples/{example}")
    assert (done.returncode, done.stderr.count("Traceback")) == (0, 0), done.stderr
    assert said in done.stdout
    assert done.stdout.splitlines()[-1] == "orders in the database: 1"


def test_a_model_without_its_extra_is_one_line(bare: Path) -> None:
    done = run(bare, "examples/order_check.py", "--model")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.splitlines()[-1].endswith("run: pip install -e '.[openai]'")
    assert "Traceback" not in done.stderr


def test_field_cases_without_the_extras_are_one_line(bare: Path) -> None:
    done = run(bare, "-m", "tests.field_cases", "tests/cases/field.jsonl", "--only", "sql")
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert "'sqlglot' is not installed" in line
    assert "pip install -e '.[sql,shell]'" in line


def test_the_order_check_keeps_what_it_is_told_to(bare: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    done = run(bare, "examples/order_check.py", "--fault", "none", "--keep", str(kept))
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "orders in the database: 1"
    assert f"kept in {kept}" in done.stdout
    (rows,) = kept.glob("evidence/**/rows.json")
    assert f"database_rows: {rows.relative_to(kept).as_posix()}" in done.stdout
    assert {"ledger.db", "spans.jsonl"} <= {path.name for path in kept.iterdir()}
    again = run(bare, "examples/order_check.py", "--keep", str(kept))
    assert (again.returncode, again.stdout) == (2, "")
    assert "name a new one" in again.stderr
