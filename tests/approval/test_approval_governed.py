"""Approvals on a real guard: field cases, and a resumed call that runs exactly once."""

from __future__ import annotations

import asyncio
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from fcguard import Guard, MemoryStore
from fcguard.approval import ANY, CallbackApprover, Decision, Deferred, Grant, MemoryApprovals, SQLiteApprovals
from fcguard.errors import UsageError


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


def _edit_often(path: str, effects: str, worker: int, is_async: bool) -> list[str | None]:
    """Make calls in four threads of this process, each of which appends a byte to a file."""
    guard = Guard(store=MemoryStore(), grants=SQLiteApprovals(path), evidence_dir=f"{effects}-{worker}")

    def edit(value: str) -> None:
        out = os.open(effects, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(out, b"x")
        os.close(out)

    async def aedit(value: str) -> None:
        edit(value)

    guard.tool(aedit if is_async else edit, name="edit", effect="write", approval="required")

    def call(n: int) -> str | None:
        with guard.task("edit"):
            arguments = {"value": f"{worker}-{n}"}
            result = asyncio.run(guard.acall("edit", arguments)) if is_async else guard.call("edit", arguments)
            return result.error_type

    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(call, range(8)))
    guard.close()
    return answers


@pytest.mark.parametrize("is_async", [False, True])
def test_a_grant_lets_no_more_calls_through_than_it_says_over_threads_and_processes(
    processes: Any, tmp_path: Path, is_async: bool
) -> None:
    path, effects = tmp_path / "approvals.db", tmp_path / "effects"
    approvals = SQLiteApprovals(path)
    for uses in (3, 8):
        approvals.add(Grant("edit", {"value": ANY}, by="ann", uses=uses))
    jobs = [(str(path), str(effects), worker, is_async) for worker in range(4)]
    answers = [error for found in processes.starmap(_edit_often, jobs, chunksize=1) for error in found]
    assert (answers.count(None), answers.count("APPROVAL_REQUIRED"), len(answers)) == (11, 21, 32)
    assert effects.stat().st_size == 11
    assert [left for _, left in approvals.grants()] == [0, 0]


def _resume(path: str, effects: str, request_id: str) -> str:
    guard = Guard(store=MemoryStore(), approver=Deferred(SQLiteApprovals(path)))

    def purge() -> None:
        with open(effects, "ab") as out:
            out.write(b"x")

    guard.tool(purge, effect="destructive")
    try:
        return "ran" if guard.resume(request_id, approved=True, by="ann").success else "refused"
    except UsageError:
        return "decided already"


def test_four_processes_resume_a_call_once(processes: Any, tmp_path: Path, make_guard: Any) -> None:
    path, effects = tmp_path / "approvals.db", tmp_path / "effects"
    guard = make_guard(approver=Deferred(SQLiteApprovals(path)))
    guard.tool(lambda: None, name="purge", effect="destructive")
    with guard.task("purge"):
        waiting = guard.call("purge", {})
    jobs = [(str(path), str(effects), waiting.blocked_by)] * 8
    answers = processes.starmap(_resume, jobs, chunksize=1)
    assert sorted(answers) == ["decided already"] * 7 + ["ran"] and effects.read_bytes() == b"x"
