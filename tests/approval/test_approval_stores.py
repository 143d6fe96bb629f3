"""What each store says of its own place, what a grant covers, and what approvers answer; see `test_approval_contract`."""

from __future__ import annotations

import json
import os
import sqlite3
import stat
from pathlib import Path
from typing import Any

import pytest

from fcguard.approval import (
    ConsoleApprover,
    Decision,
    Grant,
    MemoryApprovals,
    SQLiteApprovals,
)
from fcguard.approval.approvers import CallbackApprover, Deferred
from fcguard.approval.grants import ANY, Glob
from fcguard.approval.request import make_request
from fcguard.errors import ConfigurationError, StoreCorrupt, StoreTooNew, StoreUnavailable
from fcguard.model.context import TaskContext


def test_secrets_are_not_written_down(tmp_path: Path, request_for: Any) -> None:
    path = tmp_path / "a.db"
    store = SQLiteApprovals(path)
    request = request_for({"amount": 5, "password": "hunter2-long"})
    store.put(request, 1000)
    assert b"hunter2" not in path.read_bytes()
    assert store.get(request.request_id).request.arguments is None
    assert "hunter2" not in request.describe() and "hunter2" not in repr(request)
    assert stat.S_IMODE(os.stat(path).st_mode) == 0o600


def test_survives_a_new_process_in_the_shape_of_a_new_object(tmp_path: Path, request_for: Any) -> None:
    request = request_for({"名": ["值", 1.5, None]})
    SQLiteApprovals(tmp_path / "a.db").put(request, 1000)
    stored = SQLiteApprovals(tmp_path / "a.db").get(request.request_id)
    assert stored is not None
    assert stored.request == request and stored.request.arguments == {"名": ["值", 1.5, None]}
    assert stored.request.context["task_id"] == "t-1"


def test_files_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailable, match="No such file"):
        SQLiteApprovals(tmp_path / "missing" / "a.db")
    junk = tmp_path / "junk.db"
    junk.write_bytes(b"not a database at all" * 100)
    with pytest.raises(StoreCorrupt):
        SQLiteApprovals(junk)
    newer = tmp_path / "newer.db"
    SQLiteApprovals(newer)
    with sqlite3.connect(newer) as connection:
        connection.execute("UPDATE fc_approval_version SET version = 99")
    connection.close()
    with pytest.raises(StoreTooNew, match="99"):
        SQLiteApprovals(newer)


def test_a_locked_file_refuses_and_loses_nothing(tmp_path: Path, request_for: Any) -> None:
    store = SQLiteApprovals(tmp_path / "a.db", timeout=0.01)
    holder = sqlite3.connect(tmp_path / "a.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailable, match="locked"):
        store.put(request_for(), 1000)
    holder.execute("ROLLBACK")
    holder.close()
    assert store.put(request_for(), 1000).state == "pending"


def test_memory_forgets_what_is_over(request_for: Any) -> None:
    store = MemoryApprovals(most_requests=3)
    for n in range(3):
        store.put(request_for({"n": n}, ttl=10.0 if n else 500.0), 1000)
    store.put(request_for({"n": 9}, now=1200.0), 1200)
    assert [stored.request.arguments["n"] for stored in store.requests()] == [0, 9]


@pytest.mark.parametrize(
    ("glob", "fits", "does_not"),
    [
        (
            "docs/*",
            ["docs/a.txt", "docs/"],
            ["docs/../etc/passwd", "docs/a/b", "docs\\..\\x", "xdocs/a", "docs/a\n", "docs/.."],
        ),
        ("a?c", ["abc"], ["ac", "a/c", "abbc", "ABC"]),
        ("**.py", ["x.py"], ["a/x.py", "x.py.exe"]),
        ("[ab].txt", ["[ab].txt"], ["a.txt"]),
    ],
)
def test_globs(glob: str, fits: list[str], does_not: list[str]) -> None:
    assert all(Glob(glob).fits(text) for text in fits)
    assert not any(Glob(glob).fits(text) for text in [*does_not, "", None, 5, ["a"]])


def test_grants_compare_types(store: Any) -> None:
    grant = Grant("t", {"n": 1}, by="bob")
    assert grant.fits("t", "1", {"n": 1}, {}, 0)
    assert not any(grant.fits("t", "1", {"n": n}, {}, 0) for n in (True, 1.0, "1", None, [1]))
    assert json.loads(json.dumps(grant.as_json())) == grant.as_json() and repr(ANY) == "ANY"


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Grant("t", None, by="bob", uses=0),
        lambda: Grant("t", None, by="bob", uses=True),
        lambda: Grant("", None, by="bob"),
        lambda: Grant("t", None, by=""),
        lambda: Grant("t", None, by="bob", identity={"tenat": "x"}),
        lambda: Glob(""),
        lambda: CallbackApprover(print, timeout=0),
        lambda: CallbackApprover(print, timeout=float("nan")),
        lambda: CallbackApprover(print, ttl_seconds=-1),
        lambda: Deferred(MemoryApprovals(), ttl_seconds=0),
    ],
)
def test_misuse_is_refused_where_it_is_written(wrong: Any) -> None:
    with pytest.raises(ConfigurationError):
        wrong()


@pytest.mark.parametrize("wrong", [{"by": ""}, {"by": "bob", "is_timeout": True}])
def test_an_approval_has_a_name(wrong: Any) -> None:
    with pytest.raises(ValueError, match="needs by="):
        Decision(True, **wrong)


@pytest.mark.parametrize(
    ("typed", "approved"),
    [("y", True), (" YES \n", True), ("", False), ("yep", False), ("n", False), (EOFError, False)],
)
def test_the_console_takes_only_yes(request_for: Any, typed: Any, approved: bool) -> None:
    shown: list[str] = []

    def ask(prompt: str) -> str:
        shown.append(prompt)
        if typed is EOFError:
            raise EOFError
        return typed

    request = request_for({"text": "\x1b[2Jhidden\u202egnp.exe", "名": "值"})
    decision = ConsoleApprover("bob", ask=ask)(request)
    assert (decision.approved, decision.by, decision.digest) == (approved, "bob", request.digest)
    [prompt] = shown
    assert "deploy" in prompt and "ship it" in prompt and "tenant=acme" in prompt and "值" in prompt
    assert "\x1b" not in prompt and "\u202e" not in prompt, "what a model wrote cannot redraw the terminal"


def test_a_request_outside_a_task_says_so(make_call: Any) -> None:
    call = make_call()
    call.reopen("context")
    call.context = TaskContext()
    call.redactor = None
    request = make_request(call, call.tool, now=0, ttl=1, policy_version="1", reason="because")
    assert "outside a task" in request.describe() and "because" in request.describe()
