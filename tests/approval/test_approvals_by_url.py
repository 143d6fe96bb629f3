"""Approvals that are named by a text: a guard and the command line open a URL, and no class of files takes one for a path."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from fcguard import Guard, MemoryStore
from fcguard.approval import (
    Deferred,
    Grant,
    MemoryApprovals,
    PostgresApprovals,
    SQLiteApprovals,
    open_approvals,
)
from fcguard.cli.main import app
from fcguard.constraints import SQLiteState
from fcguard.errors import ConfigurationError, StoreClosed, StoreUnavailable

psycopg = pytest.importorskip("psycopg")

from fcguard.constraints.postgres_state import PostgresState  # noqa: E402
from fcguard.stores.postgres import PostgresStore  # noqa: E402

Run = Callable[..., tuple[int, str, str]]

_numbers = count(1)


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    def run_it(*arguments: object) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as ended:
            app(["approvals", *map(str, arguments)])
        out, err = capsys.readouterr()
        return int(ended.value.code or 0), out, err

    return run_it


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, folder: Path) -> Iterator[str]:
    """The URL of a place without approvals."""
    if request.param == "sqlite":
        yield "sqlite:///deep/approvals.db"
        return
    server = request.getfixturevalue("postgres_server").url
    with psycopg.connect(server, autocommit=True) as admin:
        admin.execute(f"CREATE DATABASE {(name := f'by_url_{next(_numbers)}')}")
    yield server.removesuffix("postgres") + name


class Asking:
    """A guard that was given a place, with a tool of one colour that wants approval."""

    def __init__(self, approvals: Any, is_async: bool = False) -> None:
        given = {"approver" if isinstance(approvals, Deferred) else "approvals": approvals}
        self.guard, self.is_async, self.ran = Guard(store=MemoryStore(), **given), is_async, 0

        def run(table: str) -> str:
            self.ran += 1
            return table

        async def arun(table: str) -> str:
            return run(table)

        self.guard.tool(arun if is_async else run, name="purge", effect="destructive")

    def ask(self, table: str = "logs") -> Any:
        with self.guard.task("clean", task_id="clean"):
            if self.is_async:
                return asyncio.run(self.guard.acall("purge", {"table": table}))
            return self.guard.call("purge", {"table": table})

    def resume(self, request_id: str) -> Any:
        if self.is_async:
            return asyncio.run(self.guard.aresume(request_id, approved=True, by="ann"))
        return self.guard.resume(request_id, approved=True, by="ann")


@pytest.mark.parametrize("is_async", [False, True])
def test_a_guard_defers_and_looks_for_grants_where_a_url_says(url: str, is_async: bool) -> None:
    asking, other = Asking(url, is_async), Asking(url, is_async)
    waiting = asking.ask()
    assert (waiting.error_type, waiting.blocked_by) == ("APPROVAL_REQUIRED", waiting.request_id)
    assert other.resume(waiting.blocked_by).success
    approvals = open_approvals(url)
    approvals.add(Grant("purge", {"table": "tmp"}, by="ann"))
    assert asking.ask("tmp").success and other.ask("tmp").error_type == "APPROVAL_REQUIRED"
    assert [left for _, left in approvals.grants()] == [0] and (asking.ran, other.ran) == (1, 1)
    approvals.close()
    for one in (asking, other):
        one.guard.close()
        one.guard.close()


def test_what_a_guard_opened_it_closes_and_what_it_was_given_it_does_not(postgres_server: Any) -> None:
    given = PostgresApprovals(postgres_server.url, schema="given")
    asking = Asking(given)
    assert asking.ask().error_type == "APPROVAL_REQUIRED"
    asking.guard.close()
    assert len(given.requests()) == 1
    given.close()
    opened = Asking(postgres_server.url)
    assert opened.ask().error_type == "APPROVAL_REQUIRED"
    store = opened.guard._config.approver.store
    opened.guard.close()
    with pytest.raises(StoreClosed):
        store.requests()


def test_a_store_is_taken_as_well_and_asks_for_both() -> None:
    approvals = MemoryApprovals()
    approvals.add(Grant("purge", {"table": "tmp"}, by="ann"))
    asking = Asking(approvals)
    assert asking.ask("tmp").success and asking.ask().blocked_by == approvals.requests()[0].request.request_id


@pytest.mark.parametrize("options", [{"approver": Deferred(MemoryApprovals())}, {"grants": MemoryApprovals()}])
def test_two_places_are_one_too_many(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="give approvals alone"):
        Guard(store=MemoryStore(), approvals=MemoryApprovals(), **options)


@pytest.mark.parametrize("given", ["approvals.db", Path("approvals.db")])
def test_a_path_is_no_url_and_the_message_says_what_to_write(given: Any, folder: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"write approvals=SQLiteApprovals\('approvals.db'\)"):
        Guard(store=MemoryStore(), approvals=given)
    with pytest.raises(ConfigurationError, match="approvals is a int"):
        Guard(store=MemoryStore(), approvals=5)  # type: ignore[arg-type]
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    "text", ["mysql://u:hunter22@h/db", "sqlite://a.db", "sqlite:///", "postgresql://u:hunter22@[h/d"]
)
def test_urls_of_no_known_kind_are_refused_without_being_shown(text: str, folder: Path, run: Run) -> None:
    for opening in (open_approvals, lambda text: Guard(store=MemoryStore(), approvals=text)):
        with pytest.raises(ConfigurationError, match=r"sqlite:///path|postgresql://user@host") as caught:
            opening(text)
        assert "hunter22" not in str(caught.value)
    code, _, err = run("list", "--store", text)
    assert code == 2 and err.startswith("fcguard: --store") and "hunter22" not in err
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    "text", ["sqlite:///a.db", "postgresql://u:hunter22@h/db", "mysql://h/db", Path("sqlite:///a.db")]
)
@pytest.mark.parametrize(
    ("kind", "says"), [(SQLiteApprovals, "open_approvals|PostgresApprovals"), (SQLiteState, "PostgresState")]
)
def test_no_class_of_files_takes_a_url_for_a_path(text: Any, kind: Any, says: str, folder: Path) -> None:
    with pytest.raises(ConfigurationError, match=f"is a URL; write .*({says})") as caught:
        kind(text)
    assert "hunter22" not in str(caught.value)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("password", ["hun?ter22", "hun#ter22", "hun&ter22", "hun[ter22", "hun:ter22", "hun%2Fter22"])
@pytest.mark.parametrize("end", ["", "?sslpassword=ter22", "?passfile=a@b"])
def test_no_message_shows_a_piece_of_a_password(password: str, end: str) -> None:
    """libpq takes these, though a reader of URLs ends the host at a `?` or `#`."""
    approvals = PostgresApprovals(f"postgresql://u:{password}@127.0.0.1:1/db{end}", timeout=0.1)
    assert approvals.name == "postgresql://127.0.0.1:1/db"
    with pytest.raises(StoreUnavailable, match=r"postgresql://127\.0\.0\.1:1/db") as caught:
        approvals.requests()
    assert "hun" not in str(caught.value) and "ter22" not in str(caught.value)


@pytest.mark.parametrize("password", ["hun/ter22", "hun@ter22"])
@pytest.mark.parametrize("kind", [PostgresApprovals, PostgresState, lambda url: PostgresStore(url, spool="spool")])
def test_a_password_that_libpq_takes_for_a_host_or_port_is_refused(password: str, kind: Any, folder: Path) -> None:
    with pytest.raises(ConfigurationError, match="%40") as caught:
        kind(f"postgresql://u:{password}@127.0.0.1:1/db")
    assert "hun" not in str(caught.value) and "ter22" not in str(caught.value)
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize(
    "url", ["postgresql:///db", "postgresql://h1:1,h2:2/db", "postgresql://u@[::1]:5432/db", "postgres://%2Ftmp%2Fpg/db",
            "postgresql:///db?host=/tmp/pg", "postgresql:///db?host=@abstract"]
)  # fmt: skip
def test_other_ways_to_name_a_server_are_taken(url: str) -> None:
    assert PostgresApprovals(url).name == url.partition("?")[0].replace("u@", "")


def test_a_directory_that_cannot_be_made_is_told(folder: Path) -> None:
    (folder / "file").write_text("")
    with pytest.raises(StoreUnavailable, match="the directory of the approvals file"):
        open_approvals("sqlite:///file/deep/approvals.db")


# The command line


def test_the_command_line_decides_in_a_store_of_either_kind(url: str, run: Run) -> None:
    asking = Asking(url)
    yes, no = asking.ask(), asking.ask("orders")
    code, out, _ = run("list", "--store", url)
    assert code == 0 and [line.split()[0] for line in out.splitlines()[1:]] == [yes.request_id, no.request_id]
    assert 'table = "logs"' in run("show", yes.request_id, "--store", url)[1]
    code, out, _ = run("approve", "--store", url, yes.request_id, "--by", "Ann", "--reason", "it is empty")
    assert code == 0 and "approved by Ann" in out
    code, out, _ = run("deny", no.request_id, "--store", url, "--by", "Ann", "--reason", "in use", "--json")
    assert code == 0 and json.loads(out)["state"] == "denied"
    assert asking.ask().success
    denied = asking.ask("orders")
    assert denied.error_type == "APPROVAL_DENIED" and "in use" in denied.message
    code, _, err = run("approve", "--store", url, yes.request_id, "--by", "Ann")
    assert (code, err.strip()) == (2, f"fcguard: the request {yes.request_id!r} cannot be decided: it is used")
    asking.guard.close()


def test_the_command_line_removes_what_has_expired_long_ago(url: str, run: Run) -> None:
    approvals = open_approvals(url)
    old = Asking(Deferred(approvals, ttl_seconds=1e-6)).ask()
    open_one = Asking(Deferred(approvals)).ask("orders")
    code, out, _ = run("prune", "--store", url, "--older-than", "1d")
    assert (code, out.split()[:4]) == (0, ["0", "requests", "expired", "before"]) and len(approvals.requests()) == 2
    code, out, _ = run("prune", "--store", url, "--older-than", "0s")
    assert code == 0 and out.startswith("1 request expired before ") and "add --yes to remove it" in out
    assert [stored.request.request_id for stored in approvals.requests()] == [old.request_id, open_one.request_id]
    code, out, _ = run("prune", "--store", url, "--older-than", "0s", "--yes")
    assert code == 0 and out.startswith("removed 1 request that expired before ")
    assert [stored.request.request_id for stored in approvals.requests()] == [open_one.request_id]
    code, out, _ = run("prune", "--store", url, "--older-than", "0s", "--yes", "--json")
    told = json.loads(out)
    assert code == 0 and told.keys() == {"requests", "removed", "before"}
    assert (told["requests"], told["removed"]) == (0, True)
    code, _, err = run("prune", "--store", url, "--older-than", "90 days")
    assert code == 2 and "no span of time" in err
    assert run("prune", "--store", url)[0] == 2
    approvals.close()


def test_the_command_line_makes_nothing(url: str, run: Run, folder: Path) -> None:
    code, _, err = run("list", "--store", url)
    assert code == 3 and ("no such file" in err or "holds no approvals" in err)
    assert list(folder.iterdir()) == []
    if url.startswith("postgresql"):
        with psycopg.connect(url) as admin:
            assert admin.execute("SELECT to_regnamespace('fcguard')").fetchone() == (None,)


@pytest.mark.parametrize(
    "words", [("list",), ("list", "a.db", "--store", "sqlite:///a.db"), ("show", "X"), ("list", "sqlite:///a.db"),
              ("prune", "--older-than", "1d"), ("prune", "a.db", "--store", "sqlite:///a.db", "--older-than", "1d"),
              ("show", "a.db", "X", "--store", "sqlite:///a.db"), ("approve", "X", "--by", "Ann")]
)  # fmt: skip
def test_the_command_line_wants_one_place(words: tuple[str, ...], run: Run, folder: Path) -> None:
    code, out, err = run(*words)
    assert (code, out) == (2, "") and "--store URL" in err
    assert list(folder.iterdir()) == []


def test_a_server_that_is_not_there_is_exit_code_three(run: Run) -> None:
    code, _, err = run("list", "--store", "postgresql://u:hunter22@127.0.0.1:1/db")
    assert code == 3 and "cannot be reached" in err and "hunter22" not in err
