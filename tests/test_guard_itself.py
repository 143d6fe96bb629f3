"""The guard itself: what it makes by default, how tasks are opened and left, and what its own failure leaves behind."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import Any

import pytest

from fcguard import (
    Environment,
    Goal,
    Guard,
    Intent,
    MemoryStore,
    Retry,
    SQLiteStore,
    TaskContext,
    Tool,
    current_call,
)
from fcguard.errors import ConfigurationError, TaskError, UsageError
from fcguard.model.attempt import Late
from fcguard.model.call import UNFILLED, Call
from fcguard.scope import RunningTasks
from tests.conftest import ANY_OBJECT, Mode, Script, add
from tests.ledger_reading import run_python

# -- what it makes by default ------------------------------------------------------------------------------------------


def test_the_default_ledger_is_a_file_in_the_working_directory(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("FCGUARD_LEDGER", raising=False)
    with Guard() as guard:
        guard.tool(lambda: b"\x00" * 5000, name="tool", effect="read")
        result = guard.call("tool")
        assert isinstance(guard.store, SQLiteStore)
        assert guard.store.get(result.request_id) is not None
    assert (tmp_path / ".fcguard" / "ledger.db").is_file()
    assert (tmp_path / ".fcguard" / "evidence" / result.evidence[0].ref).is_file()


def test_the_environment_can_name_the_ledger(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("FCGUARD_LEDGER", str(tmp_path / "named.db"))
    with Guard(evidence_dir=tmp_path) as guard:
        guard.tool(lambda: 1, name="tool", effect="read")
        assert guard.call("tool").data == 1
    assert (tmp_path / "named.db").is_file()


@pytest.mark.parametrize("number", [0, -1, 1.5, "4", True, None])
def test_worker_threads_must_be_a_whole_number_above_zero(number: Any) -> None:
    with pytest.raises(ConfigurationError, match="worker_threads"):
        Guard(store=MemoryStore(), worker_threads=number)


def test_a_closed_guard_refuses_writes_and_still_reads(tmp_path: Path) -> None:
    guard = Guard(store=SQLiteStore(tmp_path / "ledger.db"), evidence_dir=tmp_path)
    add(guard, Mode("sync"), Script("x"), "write")
    add(guard, Mode("sync"), Script("x"), "read", effect="read")
    guard.close()
    guard.close()
    with guard.task("late"):
        write, read = guard.call("write", {}), guard.call("read", {})
    assert (write.error_type, write.attempts) == ("EVIDENCE_FAILED", 0)
    assert (read.success, read.flags) == (True, ("evidence_pending",))


# -- tasks ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options",
    [
        {"allow": "query"},
        {"forbid": "query"},
        {"allow": 3},
        {"forbid": [1]},
        {"goal": 7},
        {"risk": "tiny"},
        {"environment": {"nme": "x"}},
        {"step": "first"},
        {"budget": {"calls": -1}},
        {"roles": 3},
    ],
    ids=str,
)
def test_what_cannot_be_a_task_is_an_error_of_the_library(guard: Guard, options: dict[str, Any]) -> None:
    with pytest.raises(TaskError):
        guard.task(**{"goal": "x", **options})


@pytest.mark.parametrize(
    "options",
    [{"goal": "x"}, {"allow": set()}, {"forbid": {"x"}}, {"task_id": "t"}, {"risk": "high"}, {"roles": {"x"}}],
)
def test_a_ready_context_says_everything(guard: Guard, options: dict[str, Any]) -> None:
    with pytest.raises(TaskError, match="context="):
        guard.task(context=TaskContext(), **options)


def test_a_context_that_is_none_is_refused(guard: Guard) -> None:
    with pytest.raises(TaskError):
        guard.task(context={"task_id": "t"})  # type: ignore[arg-type]


def test_a_whole_goal_keeps_what_it_forbids(guard: Guard) -> None:
    for name in ("create", "drop_table"):
        guard.register(Tool(name=name, parameters=ANY_OBJECT, fn=print))
    goal = Goal(objective="tidy", forbidden_actions=frozenset({"drop_*"}))
    with guard.task(goal, forbid={"create"}) as task:
        assert task.context.goal.forbidden_actions == {"drop_*", "create"}
    assert guard.task(goal).context.goal is goal or guard.task(goal).context.goal == goal


def test_tasks_are_left_in_order(guard: Guard) -> None:
    outer, inner = guard.task("outer"), guard.task("inner")
    outer.__enter__()
    inner.__enter__()
    with pytest.raises(TaskError, match="in order"):
        outer.__exit__(None, None, None)
    inner.__exit__(None, None, None)
    guard.tool(lambda: current_call().context.task_id, name="where", effect="read")
    assert guard.call("where").data == ""


def test_steps_of_threads_in_one_task_differ(guard: Guard) -> None:
    import contextvars

    guard.tool(lambda: current_call().call.step, name="step", effect="read")
    steps: list[int] = []
    with guard.task("count"):
        contexts = [contextvars.copy_context() for _ in range(4)]

        def play(context: contextvars.Context) -> None:
            steps.extend(context.run(guard.call, "step").data for _ in range(50))

        threads = [threading.Thread(target=play, args=(context,)) for context in contexts]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
    assert sorted(steps) == list(range(1, 201))


def test_the_counters_of_the_latest_tasks_are_remembered() -> None:
    tasks = RunningTasks(lambda: 0.0, limit=2)
    first = tasks.of(TaskContext(task_id="1"))
    assert tasks.of(TaskContext(task_id="1")) is first
    assert tasks.of(TaskContext()) is None
    for number in "23":
        tasks.of(TaskContext(task_id=number))
    assert tasks.of(TaskContext(task_id="1")) is not first


def test_a_proposal_must_be_one(guard: Guard) -> None:
    for wrong in ("query", {"name": "query"}, None):
        with pytest.raises(UsageError, match="Intent"):
            guard.run(wrong)  # type: ignore[arg-type]
    script = Script("x")
    add(guard, Mode("sync"), script, effect="read")
    with pytest.raises(UsageError):
        guard.run_turn([Intent("tool", {}), "tool"])  # type: ignore[list-item]
    assert script.calls == []


def test_what_is_offered_is_what_would_run(guard: Guard) -> None:
    for name, effect in (("read", "read"), ("write", "write")):
        guard.register(Tool(name=name, parameters=ANY_OBJECT, fn=print, effect=effect))  # type: ignore[arg-type]
    assert [tool.name for tool in guard.allowed()] == ["read"]
    with guard.task("all"):
        assert [tool.name for tool in guard.allowed()] == ["read", "write"]
    with guard.task("reads", write_allowed=False):
        assert [tool.name for tool in guard.allowed()] == ["read"]
    with guard.task("not that", forbid={"re*"}):
        assert [tool.name for tool in guard.allowed()] == ["write"]


# -- its own failure -------------------------------------------------------------------------------------------------------


def test_a_wait_strategy_that_fails_stops_the_call(guard: Guard, mode: Mode) -> None:
    def wait(state: Any) -> float:
        raise KeyError("x")

    script = Script(ConnectionResetError())
    add(guard, mode, script, effect="read", retry=Retry(attempts=3, wait=wait))
    result = mode.call(guard, "tool", {})
    assert (result.error_type, result.failure_class, len(script.calls)) == ("STATE_FAILED", "PLATFORM", 1)
    (event,) = guard.store.events(request_id=result.request_id)
    assert b"KeyError inside the guard at test_guard_itself.py" in event.payload


def test_a_wait_strategy_that_fails_after_an_uncertain_write_leaves_it_uncertain(guard: Guard, mode: Mode) -> None:
    def wait(state: Any) -> float:
        raise KeyError("x")

    add(guard, mode, Script(ConnectionResetError()), effect="idempotent_write", retry=Retry(attempts=3, wait=wait))
    with guard.task("write"):
        result = mode.call(guard, "tool", {})
    assert (result.success, result.effect) == (False, "unknown")


# -- values ------------------------------------------------------------------------------------------------------------------


def test_slots_are_filled_once() -> None:
    call = Call("fc-1", Intent("tool", {}), "primary", None, None)
    assert call.context is UNFILLED
    assert not call.context
    assert repr(call.context) == "UNFILLED"
    call.context = TaskContext()
    with pytest.raises(RuntimeError, match="'context'"):
        call.context = TaskContext()
    call.reopen("context")
    call.context = TaskContext(task_id="other")
    assert repr(call) == "<Call fc-1 'tool' primary attempts=0>"


def test_a_late_end_is_told_once_however_many_ask() -> None:
    for _ in range(200):
        late, heard = Late(), []
        threads = [
            threading.Thread(target=late.returned, args=(1,)),
            *(threading.Thread(target=late.on_end, args=(heard.append,)) for _ in range(3)),
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        assert heard == [late] * 3


def test_a_tool_knows_its_call(guard: Guard) -> None:
    seen: dict[str, Any] = {}

    def tool(key: str) -> None:
        info = current_call()
        seen.update(key=info.idempotency_key, trace=info.trace_id, parent=info.traceparent, name=info.tool_name,
                    purpose=info.purpose, environment=info.environment, context=info.context.task_id)  # fmt: skip

    guard.tool(tool)
    with guard.task("know", task_id="t", environment=Environment(name="a")):
        assert guard.call("tool", {"key": "k"}).success
    assert seen["key"].startswith("fcg-")
    assert (seen["name"], seen["purpose"], seen["environment"].name, seen["context"]) == ("tool", "primary", "a", "t")


def test_a_method_tool_hands_its_instance_to_nobody_else(guard: Guard) -> None:
    class Shop:
        def __init__(self, name: str) -> None:
            self.name = name

        @guard.tool(effect="read", retry=2)
        def where(self, sku: str) -> str:
            return f"{self.name}/{sku}"

    assert Shop("north").where("S").data == "north/S"
    assert guard.call("where", {"sku": "S"}).attempts == 0
    assert guard.schemas("mcp") == []
    assert guard.tools[0].parameters["properties"].keys() == {"sku"}


def test_a_guard_in_a_program_that_ends_abruptly_loses_nothing_it_answered(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.db"
    code = f"""
        import os
        from fcguard import Guard, SQLiteStore
        guard = Guard(store=SQLiteStore({str(ledger)!r}), evidence_dir={str(tmp_path)!r})
        guard.tool(lambda n: n, name="tool")
        with guard.task("end", task_id="t"):
            print(*[guard.call("tool", {{"n": n}}).request_id for n in range(5)], flush=True)
        os._exit(9)
    """
    out = run_python(code)
    assert out.returncode == 9, out.stderr
    with Guard(store=SQLiteStore(ledger), evidence_dir=tmp_path) as guard:
        for request_id in out.stdout.split():
            stored = guard.store.get(request_id)
            assert stored is not None
            assert stored.state == "SUCCEEDED"
    assert os.path.getsize(ledger) > 0
