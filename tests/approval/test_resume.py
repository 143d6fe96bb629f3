"""A deferred approval, from the refusal to the one call it lets through."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from fcguard import Environment, Guard, MemoryStore, Tool
from fcguard.approval import Deferred, MemoryApprovals, SQLiteApprovals
from fcguard.approval.store import time_of
from fcguard.errors import UsageError

SCHEMA = {
    "type": "object",
    "properties": {
        "table": {"type": "string"},
        "rows": {"type": "integer", "maximum": 10},
        "password": {"type": "string"},
    },
    "required": ["table"],
    "additionalProperties": False,
}


def build(approvals: Any, ran: list[dict[str, Any]], store: MemoryStore | None = None) -> Guard:
    guard = Guard(store=store or MemoryStore(), approver=Deferred(approvals))

    def purge(**arguments: Any) -> str:
        ran.append(arguments)
        return "purged"

    guard.register(Tool(name="purge", parameters=SCHEMA, fn=purge, effect="destructive"))
    return guard


def ask(guard: Guard, **arguments: Any) -> Any:
    with guard.task("clean", environment=Environment(name="test-a", tenant="t"), task_id="clean"):
        return guard.call("purge", {"table": "logs", **arguments})


@pytest.mark.parametrize("is_async", [False, True])
def test_an_approved_call_runs_exactly_once_also_in_another_guard(tmp_path: Path, is_async: bool) -> None:
    ran: list[dict[str, Any]] = []
    first = ask(build(SQLiteApprovals(tmp_path / "approvals.db"), ran))
    assert (first.error_type, first.next_action, first.attempts, ran) == (
        "APPROVAL_REQUIRED",
        "request_approval",
        0,
        [],
    )
    other = build(SQLiteApprovals(tmp_path / "approvals.db"), ran)
    options: dict[str, Any] = {"approved": True, "by": "ann", "reason": "checked"}
    if is_async:
        result = asyncio.run(other.aresume(first.request_id, **options))
    else:
        result = other.resume(first.request_id, **options)
    assert (result.success, result.data, ran) == (True, "purged", [{"table": "logs"}])
    assert (result.task_id, result.effect) == ("clean", "applied")
    with pytest.raises(UsageError, match="used"):
        other.resume(first.request_id, **options)
    assert len(ran) == 1


def test_deciding_does_not_hold_the_event_loop_up() -> None:
    """Approvals and ledger are databases: another process may hold one, or the network be slow."""
    threads: list[int] = []

    class Approvals(MemoryApprovals):
        def decide(self, *args: Any) -> Any:
            threads.append(threading.get_ident())
            return super().decide(*args)

    class Ledger(MemoryStore):
        def events(self, **which: Any) -> Any:
            threads.append(threading.get_ident())
            return super().events(**which)

    guard = build(Approvals(), ran := [], Ledger())
    result = asyncio.run(guard.aresume(ask(guard).request_id, approved=True, by="ann"))
    assert (result.success, len(ran), len(threads)) == (True, 1, 2)
    assert threading.get_ident() not in threads


def test_a_denied_call_is_refused_and_told_why() -> None:
    ran: list[dict[str, Any]] = []
    guard = build(MemoryApprovals(), ran)
    first = ask(guard)
    result = guard.resume(first.request_id, approved=False, by="ann", reason="not on a Friday")
    assert (result.error_type, ran) == ("APPROVAL_DENIED", [])
    assert "not on a Friday" in result.message
    with pytest.raises(UsageError, match="denied"):
        guard.resume(first.request_id, approved=True, by="ann")


def test_modified_arguments_are_validated_again() -> None:
    ran: list[dict[str, Any]] = []
    guard = build(MemoryApprovals(), ran)
    good = guard.resume(ask(guard, rows=9).request_id, approved=True, by="ann", arguments={"table": "logs", "rows": 2})
    assert (good.success, ran) == (True, [{"table": "logs", "rows": 2}])
    bad = guard.resume(ask(guard, rows=8).request_id, approved=True, by="ann", arguments={"table": "logs", "rows": 99})
    assert (bad.error_type, len(ran)) == ("APPROVAL_DENIED", 1)


def test_what_cannot_be_resumed_says_why() -> None:
    guard = build(MemoryApprovals(), [])
    with pytest.raises(UsageError, match="no approval request"):
        guard.resume("fc-20260101-0000000000000000000", approved=True, by="ann")
    with pytest.raises(UsageError, match="Deferred"):
        Guard(store=MemoryStore()).resume("x", approved=True, by="ann")


def test_arguments_with_a_secret_are_not_kept_and_the_call_must_be_sent_again(tmp_path: Path) -> None:
    ran: list[dict[str, Any]] = []
    path = tmp_path / "approvals.db"
    first = ask(build(SQLiteApprovals(path), ran), password="hunter22-canary")
    assert b"hunter22-canary" not in path.read_bytes()
    guard = build(SQLiteApprovals(path), ran)
    with pytest.raises(UsageError, match="secret"):
        guard.resume(first.request_id, approved=True, by="ann")
    assert ask(guard, password="hunter22-canary").success
    assert len(ran) == 1


class Asking:
    """A sync or async tool that wants approval, called from sync or async code."""

    def __init__(self, approver: Any, is_async: bool) -> None:
        self.guard, self.is_async, self.ran = Guard(store=MemoryStore(), approver=approver), is_async, 0

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
def test_a_call_that_asks_again_names_the_request_it_waits_for(store: Any, is_async: bool) -> None:
    asking = Asking(Deferred(store), is_async)
    first, other = asking.ask(), asking.ask("users")
    again = Asking(Deferred(store), is_async).ask()
    assert first.blocked_by == first.request_id == again.blocked_by != again.request_id
    assert other.blocked_by == other.request_id
    assert [stored.request.request_id for stored in store.requests("pending")] == [first.blocked_by, other.blocked_by]
    for waiting in (first, again):
        assert f"request {first.request_id}" in waiting.message and "waits for a decision" in waiting.message
    assert again.request_id not in again.message, "that one nobody can decide"
    assert "blocked_by" not in again.model_dump(mode="json")
    with pytest.raises(UsageError, match="blocked_by"):
        asking.resume(again.request_id)
    done = asking.resume(again.blocked_by)
    assert (done.success, done.blocked_by, asking.ran) == (True, None, 1)


@pytest.mark.parametrize("is_async", [False, True])
def test_the_request_to_decide_changes_when_the_one_before_is_over(store: Any, is_async: bool) -> None:
    short, long = Asking(Deferred(store, ttl_seconds=0.1), is_async), Asking(Deferred(store), is_async)
    over = short.ask()
    expires_at = store.get(over.blocked_by).request.expires_at
    while time_of(store, time.time()) < expires_at:
        pass
    fresh, again = long.ask(), long.ask()
    assert fresh.blocked_by == fresh.request_id == again.blocked_by != over.blocked_by
    assert fresh.request_id in again.message and over.request_id not in again.message
    with pytest.raises(UsageError, match="expired"):
        long.resume(over.blocked_by)
    assert long.resume(again.blocked_by).success


@pytest.mark.parametrize("is_async", [False, True])
def test_a_call_that_nothing_can_be_decided_about_names_no_request(is_async: bool) -> None:
    assert Asking(None, is_async).ask().blocked_by is None, "nobody can be asked"
    denying = Asking(lambda request: request.deny("ann"), is_async).ask()
    assert (denying.error_type, denying.blocked_by) == ("APPROVAL_DENIED", None)
    expired = Asking(lambda request: request.approve("ann", expires_at=1.0), is_async).ask()
    assert (expired.error_type, expired.blocked_by) == ("APPROVAL_REQUIRED", None)
    undecided = Asking(lambda request: None, is_async).ask()
    assert (undecided.error_type, undecided.blocked_by) == ("APPROVAL_REQUIRED", undecided.request_id)


@pytest.mark.parametrize("is_async", [False, True])
def test_an_approval_that_was_used_blocks_nothing_any_more(tmp_path: Path, is_async: bool) -> None:
    asking = Asking(Deferred(MemoryApprovals()), is_async)
    assert asking.resume(asking.ask().blocked_by).success
    fresh = asking.ask()
    assert fresh.error_type == "APPROVAL_REQUIRED" and fresh.blocked_by == fresh.request_id, "a request of its own"


def test_what_a_call_waits_for_is_in_its_record() -> None:
    asking = Asking(Deferred(MemoryApprovals()), False)
    first, again = asking.ask(), asking.ask()
    stories = [json.loads(event.payload) for event in asking.guard.store.events(request_id=again.request_id)]
    assert [story["blocked_by"] for story in stories if "blocked_by" in story] == [first.request_id]
