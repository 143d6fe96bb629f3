"""Approvals on a real guard: field cases, and a resumed call that runs exactly once."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from fcguard import Guard, MemoryStore
from fcguard.approval import CallbackApprover, Decision, Deferred, Grant, MemoryApprovals, SQLiteApprovals


@pytest.fixture
def make_guard(tmp_path: Path) -> Any:
    made: list[Guard] = []

    def make(**options: Any) -> Guard:
        made.append(Guard(store=MemoryStore(), evidence_dir=tmp_path / "evidence", **options))
        return made[-1]

    yield make
    for guard in made:
        guard.close()


def tool(guard: Guard, name: str, ran: list[Any], **options: Any) -> Any:
    def fn(value: str) -> str:
        ran.append(value)
        return value

    fn.__name__ = name
    return guard.tool(fn, effect="write", approval="required", **options)


def test_changed_arguments_ask_again(make_guard: Any) -> None:
    """Field case F133: one value was approved, another one came."""
    grants, ran = MemoryApprovals(), []
    grants.add(Grant("record_value", {"value": "reviewed-value"}, by="reviewer"))
    guard = make_guard(grants=grants)
    record = tool(guard, "record_value", ran)
    with guard.task("record"):
        refused = record(value="changed-value")
        assert (refused.error_type, refused.next_action, refused.attempts) == (
            "APPROVAL_REQUIRED",
            "request_approval",
            0,
        )
        assert record(value="reviewed-value").success
    assert ran == ["reviewed-value"]


def test_approving_one_edit_approves_one_edit(make_guard: Any) -> None:
    """Field case F134."""
    grants, ran = MemoryApprovals(), []
    grants.add(Grant("edit", {"value": "a.txt"}, by="reviewer"))
    guard = make_guard(grants=grants)
    edit = tool(guard, "edit", ran)
    with guard.task("edit"):
        assert edit(value="a.txt").success
        assert edit(value="/etc/app.conf").next_action == "request_approval"
    assert ran == ["a.txt"]


def test_nobody_answers(make_guard: Any) -> None:
    """Field case F135: silence is a denial, said as a time-out, and no invitation to try other words."""
    never, ran = threading.Event(), []
    guard = make_guard(approver=CallbackApprover(lambda request: never.wait(), timeout=0.1))
    deploy = tool(guard, "deploy", ran)
    with guard.task("deploy"):
        refused = deploy(value="prod")
    never.set()
    assert (refused.error_type, refused.next_action, refused.retryable, ran) == ("APPROVAL_DENIED", "abort", False, [])
    assert "timed out" in refused.message and "again" in refused.message


def test_a_deferred_call_runs_once_after_the_yes(make_guard: Any, tmp_path: Path) -> None:
    ran: list[Any] = []
    path = tmp_path / "approvals.db"
    with_id = {"task_id": "t-1"}
    guard = make_guard(approver=Deferred(SQLiteApprovals(path)))
    deploy = tool(guard, "deploy", ran)
    with guard.task("deploy", **with_id):
        waiting = deploy(value="prod")
    assert waiting.error_type == "APPROVAL_REQUIRED" and ran == []
    assert SQLiteApprovals(path).decide(waiting.request_id, Decision(True, "ann"), time.time())
    with guard.task("deploy", **with_id):
        assert deploy(value="prod").success
    other = make_guard(approver=Deferred(SQLiteApprovals(path)))
    again = tool(other, "deploy", ran)
    with other.task("deploy", **with_id):
        assert again(value="prod").error_type == "APPROVAL_REQUIRED"
    assert ran == ["prod"]


def test_modified_arguments_are_validated_and_run(make_guard: Any) -> None:
    ran: list[Any] = []
    guard = make_guard(approver=lambda request: request.approve("ann", modified_arguments={"value": "smaller"}))
    pay = tool(guard, "pay", ran)
    with guard.task("pay"):
        assert pay(value="bigger").normalized_args == {"value": "smaller"}
    wrong = make_guard(approver=lambda request: request.approve("ann", modified_arguments={"value": 5, "x": 1}))
    pay = tool(wrong, "pay", ran)
    with wrong.task("pay"):
        assert not pay(value="bigger").success
    assert ran == ["smaller"]


def test_a_callback_of_an_async_tool(make_guard: Any) -> None:
    async def later(request: Any) -> Decision:
        return request.approve("ann")

    guard = make_guard(approver=CallbackApprover(later))

    @guard.tool(effect="destructive")
    async def drop(name: str) -> str:
        return name

    async def main() -> Any:
        with guard.task("drop"):
            return await drop(name="x")

    assert asyncio.run(main()).success
