"""`fcguard approvals` on a real file: what a person sees, what a decision does, and the exit codes."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from fcguard import Environment, Guard, MemoryStore
from fcguard.approval import Deferred, SQLiteApprovals
from fcguard.cli.main import app
from fcguard.stores.sqlite import SQLiteStore

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def run_it(*arguments: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            app(["approvals", *map(str, arguments)])
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    return run_it


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "approvals.db"


def make_guard(file: Path, ttl: float = 3600.0) -> Guard:
    guard = Guard(store=MemoryStore(), approver=Deferred(SQLiteApprovals(file), ttl_seconds=ttl))

    @guard.tool(effect="destructive")
    def drop(table: str, password: str = "") -> str:
        return table

    return guard


def ask(guard: Guard, table: str = "logs", **arguments: Any) -> Any:
    with guard.task("clean up", environment=Environment(name="test-a"), task_id="T"):
        return guard.call("drop", {"table": table, **arguments})


def test_an_approval_from_the_command_line_lets_one_call_through(file: Path, run: Run) -> None:
    guard = make_guard(file)
    waiting = ask(guard)
    code, out, _ = run("list", file)
    assert code == 0
    head, row = out.splitlines()
    assert head.startswith("request id")
    for part in (waiting.request_id, "pending", "drop", "destructive", "environment=test-a", '"table": "logs"'):
        assert part in row
    code, out, _ = run("approve", file, waiting.request_id, "--by", "Ann", "--reason", "it is empty")
    assert code == 0
    assert "approved by Ann" in out
    assert 'table = "logs"' in out
    assert run("list", file)[1].splitlines()[1:] == []
    assert "Ann" in run("list", file, "--state", "approved")[1]
    assert ask(guard).success
    assert [row["state"] for row in lines(run("list", file, "--state", "all", "--json")[1])] == ["used"]
    assert run("approve", file, waiting.request_id, "--by", "Ann")[0] == 2


def test_a_denial_is_told_to_the_model(file: Path, run: Run) -> None:
    guard = make_guard(file)
    waiting = ask(guard)
    code, out, _ = run("deny", file, waiting.request_id, "--by", "Ann", "--reason", "still in use", "--json")
    (stored,) = lines(out)
    assert (code, stored["state"], stored["decision"]["by"]) == (0, "denied", "Ann")
    refused = ask(guard)
    assert refused.error_type == "APPROVAL_DENIED"
    assert "still in use" in refused.message
    code, _, err = run("approve", file, waiting.request_id, "--by", "Bob")
    assert (code, err) == (2, f"fcguard: the request {waiting.request_id!r} cannot be decided: it is denied\n")
    shown = run("show", file, waiting.request_id)[1]
    assert "state: denied" in shown
    assert "decided by Ann" in shown


def test_show_tells_all_arguments_and_no_secret(file: Path, run: Run) -> None:
    waiting = ask(make_guard(file), "x" * 200, password="hunter22")
    assert "... (show: all)" in run("list", file)[1]
    code, out, _ = run("show", file, waiting.request_id)
    assert code == 0
    for part in ("x" * 200, "clean up", "state: pending", "environment=test-a"):
        assert part in out
    (stored,) = lines(run("show", file, waiting.request_id, "--json")[1])
    assert (stored["shown"]["table"], stored["is_open"], stored["decision"]) == ("x" * 200, True, None)
    assert "hunter22" not in out + json.dumps(stored)


def test_what_has_expired_or_was_altered_cannot_be_decided(file: Path, run: Run) -> None:
    waiting = ask(make_guard(file, ttl=1e-6))
    assert "pending, expired" in run("list", file)[1]
    assert "it is pending, expired" in run("approve", file, waiting.request_id, "--by", "Ann")[2]
    other = ask(make_guard(file), "orders")
    with sqlite3.connect(file) as connection:
        connection.execute(
            "UPDATE fc_approvals SET request = replace(request, '\"expires_at\": 1', '\"expires_at\": 2')"
        )
    connection.close()
    code, _, err = run("approve", file, other.request_id, "--by", "Ann")
    assert (code, "it is pending, altered in the store" in err) == (2, True)


@pytest.mark.parametrize("command", ["approve", "deny"])
@pytest.mark.parametrize(
    ("options", "said"), [(("--by", " "), "--by is empty"), ((), "--by"), (("--by", "Ann"), "no approval request")]
)
def test_wrong_usage_decides_nothing(file: Path, run: Run, command: str, options: tuple[str, ...], said: str) -> None:
    waiting = ask(make_guard(file))
    name = "unknown" if options == ("--by", "Ann") else waiting.request_id
    code, out, err = run(command, file, name, *options)
    assert (code, out) == (2, "")
    assert said in err
    assert [stored.state for stored in SQLiteApprovals(file).requests()] == ["pending"]


def test_an_unknown_state_is_wrong_usage(file: Path, run: Run) -> None:
    SQLiteApprovals(file)
    assert run("list", file, "--state", "open")[0] == 2


def test_a_file_that_is_none_of_approvals_is_left_as_it_is(tmp_path: Path, file: Path, run: Run) -> None:
    code, _, err = run("list", file)
    assert (code, file.exists()) == (3, False)
    assert "there is no such file" in err
    file.write_bytes(b"no database, but long enough to be looked at" * 40)
    assert run("list", file)[0] == 3
    with Guard(store=SQLiteStore(tmp_path / "ledger.db")) as guard:
        guard.call("nothing")
    before = tables(tmp_path / "ledger.db")
    code, _, err = run("list", tmp_path / "ledger.db")
    assert code == 3
    assert "holds no approvals" in err
    assert tables(tmp_path / "ledger.db") == before


@pytest.mark.parametrize("request_text", ["{", "{}", "[]", '{"nothing": 1}'])
def test_a_request_that_cannot_be_read_is_told(file: Path, run: Run, request_text: str) -> None:
    ask(make_guard(file))
    with sqlite3.connect(file) as connection:
        connection.execute("UPDATE fc_approvals SET request = ?", (request_text,))
    connection.close()
    code, _, err = run("list", file)
    assert code == 3
    assert err.startswith("fcguard: approvals file")
    assert err.count("\n") == 1


def lines(out: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in out.splitlines()]


def tables(file: Path) -> list[tuple[str]]:
    with closing(sqlite3.connect(file)) as connection:
        return connection.execute("SELECT name FROM sqlite_master ORDER BY name").fetchall()
