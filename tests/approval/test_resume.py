"""A deferred approval, from the refusal to the one call it lets through."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from fcguard import Environment, Guard, MemoryStore, Tool
from fcguard.approval import Deferred, MemoryApprovals, SQLiteApprovals
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


def build(approvals: Any, ran: list[dict[str, Any]]) -> Guard:
    guard = Guard(store=MemoryStore(), approver=Deferred(approvals))

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
