"""The public face: its names, what importing it costs, and what type checkers see."""

from __future__ import annotations

import importlib
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import fcguard
from tests.ledger_reading import run_python

NAMES = """Applied AppliedByOther Bound Budget Call CallInfo Classified ConfigurationError ConfirmBy Environment ErrorType
Evidence FailureClass Fallback FcguardError Goal Guard Inconclusive Intent MemoryStore NextAction NotApplied OutputContract
RecoveryTable Retry SQLiteStore State StoreError TaskContext Tool ToolCallFailed ToolResult Usage UsageError Violation
current_call only_in""".split()

HEAVY = """openai anthropic mcp httpx requests aiohttp opentelemetry.sdk structlog rich typer sqlglot bashlex scipy networkx
jinja2 plotly sqlalchemy psycopg apsw pandas numpy yaml tenacity jsonschema""".split()
ONLY_WHEN_USED = set(HEAVY) - {"tenacity", "jsonschema", "structlog"}


def test_the_names_are_exactly_these_and_sorted() -> None:
    assert fcguard.__all__ == NAMES == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_every_name_can_be_imported_and_knows_where_it_lives(name: str) -> None:
    value = getattr(fcguard, name)
    assert value is not None
    module = getattr(value, "__module__", None)
    if module is not None and module.startswith("fcguard"):
        assert name in importlib.import_module(module).__all__


def test_the_names_are_listed_and_others_do_not_exist() -> None:
    assert set(NAMES) <= set(dir(fcguard))
    with pytest.raises(AttributeError, match="nothing_like_it"):
        fcguard.nothing_like_it  # noqa: B018
    with pytest.raises(ImportError):
        from fcguard import nothing_like_it  # type: ignore[attr-defined]  # noqa: F401


def test_a_star_import_gives_exactly_these_names() -> None:
    namespace: dict[str, object] = {}
    exec("from fcguard import *", namespace)
    assert set(namespace) - {"__builtins__"} == set(NAMES)


def loaded_by(code: str) -> set[str]:
    """Answer which of the heavy modules a program loads; it must print nothing of its own."""
    out = run_python(f"{code}\nimport sys\nprint(*[name for name in {HEAVY!r} if name in sys.modules])")
    assert out.returncode == 0, out.stderr
    assert out.stderr == ""
    assert out.stdout.count("\n") == 1
    return set(out.stdout.split())


def test_importing_it_loads_nothing_heavy_and_prints_nothing() -> None:
    assert loaded_by("import fcguard") == set()


def test_using_every_name_loads_no_sdk() -> None:
    assert loaded_by("from fcguard import *") & ONLY_WHEN_USED == set()


def test_a_governed_call_loads_no_sdk() -> None:
    code = """
import logging, tempfile
logging.disable(logging.CRITICAL)
from fcguard import Guard, MemoryStore
guard = Guard(store=MemoryStore(), evidence_dir=tempfile.mkdtemp())
guard.tool(lambda n: n, name="tool", effect="read")
assert guard.call("tool", {"n": 1}).data == 1
assert guard.call("tool", {"n": 1, "m": 2}).attempts == 0
"""
    assert loaded_by(code) & ONLY_WHEN_USED == set()


def test_a_guard_that_is_only_made_starts_no_thread_and_no_event_loop() -> None:
    code = """
import threading, tempfile
from fcguard import Guard, MemoryStore
Guard(store=MemoryStore(), evidence_dir=tempfile.mkdtemp())
print(threading.active_count())
"""
    assert run_python(code).stdout.strip() == "1"


def test_errors_are_of_one_tree_and_travel() -> None:
    from fcguard import errors

    for name in errors.__all__:
        kind = getattr(errors, name)
        assert issubclass(kind, (errors.FcguardError, UserWarning))
    assert issubclass(errors.MissingExtraError, ImportError)
    missing = errors.MissingExtraError("openai", "openai")
    assert "pip install 'fcguard[openai]'" in str(missing)
    again = pickle.loads(pickle.dumps(missing))
    assert (str(again), again.package, again.extra) == (str(missing), "openai", "openai")


def test_the_package_says_that_it_is_typed() -> None:
    assert (Path(fcguard.__file__).parent / "py.typed").is_file()


TYPED = """
from collections.abc import Callable, Coroutine
from typing import Any

from typing_extensions import assert_type

from fcguard import Guard, Intent, MemoryStore, Retry, Tool, ToolResult, current_call

guard = Guard(store=MemoryStore())


@guard.tool
def bare(order_id: str, limit: int = 10) -> list[str]:
    return [order_id] * limit


@guard.tool(effect="read", timeout=2.0, retry=Retry(attempts=2))
def with_options(order_id: str, limit: int = 10) -> list[str]:
    return [order_id] * limit


@guard.tool
async def bare_async(order_id: str) -> dict[str, int]:
    return {order_id: 1}


@guard.tool(effect="read")
async def with_options_async(order_id: str) -> dict[str, int]:
    return {order_id: 1}


class Shop:
    @guard.tool(effect="read")
    def where(self, sku: str) -> str:
        return sku


assert_type(bare("a", limit=2), ToolResult[list[str]])
assert_type(with_options("a"), ToolResult[list[str]])
assert_type(bare("a").returned, list[str] | None)
assert_type(Shop().where("s"), ToolResult[str])


async def use() -> None:
    assert_type(await bare_async("a"), ToolResult[dict[str, int]])
    assert_type(await with_options_async(order_id="a"), ToolResult[dict[str, int]])
    assert_type(await guard.acall("bare"), ToolResult[Any])


assert_type(guard.call("bare", {"order_id": "a"}), ToolResult[Any])
assert_type(guard.run(Intent("bare")), ToolResult[Any])
assert_type(current_call().attempt, int)
assert_type(guard.tools, tuple[Tool, ...])
with guard.task("goal", allow={"bare"}) as task:
    assert_type(task.calls, int)
"""

WRONG = [
    ("bare(1)", "arg-type"),
    ("bare()", "call-arg"),
    ('with_options("a", limits=1)', "call-arg"),
    ("bare_async(1)", "arg-type"),
    ('guard.tool(effect="reads")', "call"),
    ("guard.tool(efect='read')", "call"),
    ('guard.task("x", risk="tiny")', "arg-type"),
    ("Guard(stroe=MemoryStore())", "call-arg"),
    ("guard.call(3)", "arg-type"),
]


def mypy(folder: Path, code: str) -> subprocess.CompletedProcess[str]:
    file = folder / "use.py"
    file.write_text(code)
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--strict",
        "--config-file",
        os.devnull,
        "--cache-dir",
        str(folder),
        str(file),
    ]
    root = str(Path(__file__).parent.parent)
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env={**os.environ, "MYPYPATH": root})


@pytest.mark.timeout(900)
def test_decorated_functions_keep_their_parameters_and_answer_a_result(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    code = TYPED + "\n".join(line for line, _ in WRONG) + "\n"
    first = TYPED.count("\n") + 1
    found = mypy(tmp_path, code)
    errors = [line for line in found.stdout.splitlines() if ": error: " in line and line.startswith("use.py")]
    by_line = {int(line.split(":")[1]): line for line in errors}
    assert sorted(by_line) == list(range(first, first + len(WRONG))), found.stdout
    for number, (line, code) in enumerate(WRONG, start=first):
        assert f"[{code}" in by_line[number], (line, by_line[number])
