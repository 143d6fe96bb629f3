"""Tasks, whitelists, steps, and what code may ask about the call it runs in."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from fcguard import Budget, Environment, Guard, Intent, OutputContract, TaskContext, ToolResult, current_call, only_in
from fcguard.errors import NoCurrentCallError, TaskError, UsageError
from tests.conftest import Mode, Script, add


def test_outside_a_task_only_reads_run(guard: Guard, mode: Mode) -> None:
    read, write = Script("r"), Script("w")
    add(guard, mode, read, "read", effect="read")
    add(guard, mode, write, "write")
    assert mode.call(guard, "read", {}).success
    refused = mode.call(guard, "write", {})
    assert (refused.error_type, refused.attempts, write.calls) == ("PERMISSION_DENIED", 0, [])
    assert "guard.task" in refused.message


@pytest.mark.parametrize(
    ("task", "is_allowed"),
    [
        ({"allow": {"query_order"}}, True),
        ({"allow": {"query_*"}}, True),
        ({"allow": set()}, False),
        ({"allow": {"create"}}, False),
        ({"allow": {"creat*"}}, False),
        ({"forbid": {"query_*"}}, False),
        ({"allow": {"query_order"}, "forbid": {"query_order"}}, False),
        ({}, True),
    ],
)
def test_the_whitelist_matches_exactly_unless_a_glob_is_written(
    guard: Guard, mode: Mode, task: dict[str, Any], is_allowed: bool
) -> None:
    script = Script("ok")
    add(guard, mode, script, "query_order", effect="read")
    add(guard, mode, Script("other"), "create", effect="write")
    with guard.task("look", **task):
        result = mode.call(guard, "query_order", {})
        offered = [one["function"]["name"] for one in guard.schemas()]
    assert result.success is is_allowed
    assert ("query_order" in offered) is is_allowed
    if not is_allowed:
        assert (result.error_type, result.failure_class, result.attempts) == ("TOOL_NOT_ALLOWED", "POLICY", 0)


def test_a_task_that_may_not_write(guard: Guard, mode: Mode) -> None:
    script = Script("w")
    add(guard, mode, script, "write")
    with guard.task("look", write_allowed=False):
        assert mode.call(guard, "write", {}).error_type == "PERMISSION_DENIED"
    assert script.calls == []


def test_only_in_names_the_environments(guard: Guard, mode: Mode) -> None:
    add(guard, mode, Script("w"), "write", rules=(only_in("test-a"),))
    with guard.task("w", environment="test-a"):
        assert mode.call(guard, "write", {}).success
    with guard.task("w", environment="prod"):
        refused = mode.call(guard, "write", {})
    assert (refused.error_type, refused.next_action) == ("ENVIRONMENT_FORBIDDEN", "abort")


def test_tasks_nest_and_are_left_where_they_were_entered(guard: Guard) -> None:
    guard.tool(lambda: current_call().context.task_id, name="where", effect="read")
    with guard.task("outer", task_id="outer"):
        with guard.task("inner", task_id="inner"):
            assert guard.call("where").data == "inner"
        assert guard.call("where").data == "outer"


def test_a_task_is_entered_once_and_left_in_its_own_context(guard: Guard) -> None:
    scope = guard.task("once")
    with scope, pytest.raises(TaskError, match="entered already"):
        scope.__enter__()
    with pytest.raises(TaskError, match="without being entered"):
        scope.__exit__(None, None, None)
    elsewhere = guard.task("elsewhere")
    thread = threading.Thread(target=elsewhere.__enter__)
    thread.start()
    thread.join()
    with pytest.raises(TaskError, match="same thread"):
        elsewhere.__exit__(None, None, None)


@pytest.mark.parametrize(
    "options",
    [
        {"allow": "query_order"},
        {"task_id": ""},
        {"risk": "tiny"},
        {"task_id": "a\nb"},
        {"task_id": "-"},
        {"task_id": "\ud800"},
        {"environment": {"nme": "x"}},
    ],
)
def test_unusable_context_is_refused(guard: Guard, options: dict[str, Any]) -> None:
    with pytest.raises(TaskError):
        guard.task("x", **options)


def test_a_ready_context_gets_an_id(guard: Guard) -> None:
    with guard.task(context=TaskContext(environment=Environment(name="a"))) as task:
        assert task.context.task_id.startswith("task-")
    with guard.task(context=TaskContext(task_id="mine")) as task:
        assert task.context.task_id == "mine"


def test_steps_are_counted_unless_given(guard: Guard) -> None:
    guard.tool(lambda: None, name="read", effect="read")
    with guard.task("count"):
        assert [guard.call("read").step for _ in range(3)] == [1, 2, 3]
    with guard.task("fixed", step=7):
        assert [guard.call("read").step for _ in range(2)] == [7, 7]
    assert guard.call("read").step is None
    assert guard.call("read", context=TaskContext(task_id="t", step=4)).step == 4


def test_the_task_follows_threads_and_asyncio_tasks_that_fcguard_starts(guard: Guard) -> None:
    guard.tool(lambda: current_call().context.task_id, name="where", effect="read", timeout=5.0)

    async def play() -> tuple[Any, Any]:
        return await asyncio.gather(guard.acall("where"), guard.acall("where"))

    with guard.task("follow", task_id="follow"):
        assert guard.call("where").data == "follow"
        assert [result.data for result in asyncio.run(play())] == ["follow", "follow"]


def test_current_call_outside_a_call_is_an_error_of_the_library() -> None:
    with pytest.raises(NoCurrentCallError, match="through its guard"):
        current_call()


def test_a_tool_called_by_a_tool_is_its_child(guard: Guard) -> None:
    guard.tool(lambda: "inner", name="inner", effect="read")
    guard.tool(lambda: guard.call("inner").request_id, name="outer", effect="read")
    outer = guard.call("outer")
    child = guard.store.get(outer.data)
    assert child is not None
    assert (child.identity.parent_id, child.identity.purpose) == (outer.request_id, "primary")


def test_the_budget_of_a_task_in_seconds_ends_its_calls(guard: Guard, mode: Mode, clock: Any) -> None:
    script = Script("ok")
    add(guard, mode, script, "read", effect="read")
    with guard.task("short", budget=Budget(seconds=10)):
        assert mode.call(guard, "read", {}).success
        clock.advance(11)
        late = mode.call(guard, "read", {})
    assert (late.error_type, late.attempts, len(script.calls)) == ("BUDGET_EXHAUSTED", 0, 1)


def test_the_output_contract_of_a_task(guard: Guard, mode: Mode) -> None:
    add(guard, mode, Script({"id": 1}), "read", effect="read")
    add(guard, mode, Script({"id": 1}), "write")
    with guard.task("c", output=OutputContract(required=("id", "status"))):
        read = mode.call(guard, "read", {})
        write = mode.call(guard, "write", {})
    assert (read.success, read.error_type) == (False, "RESULT_INVALID")
    assert (write.success, write.flags) == (True, ("contract_broken",))
    assert "do not repeat" in write.message


# -- turns and sources ---------------------------------------------------------------------------------------------------


def turn(mode: Mode, guard: Guard, intents: list[Intent]) -> list[ToolResult[Any]]:
    if mode.name in ("async", "sync_from_async"):
        return asyncio.run(guard.arun_turn(intents))
    return guard.run_turn(intents)


def test_two_identical_writes_in_one_response_run_once(guard: Guard, mode: Mode) -> None:
    script = Script({"order": 1}, {"order": 2})
    add(guard, mode, script, "create")
    with guard.task("t"):
        first, second = turn(
            mode, guard, [Intent("create", {"id": "A"}, call_id="1"), Intent("create", {"id": "A"}, call_id="2")]
        )
        third = mode.call(guard, "create", {"id": "A"})
    assert (first.outcome_basis, second.outcome_basis, third.outcome_basis) == ("returned", "replayed", "returned")
    assert second.data == {"order": 1}
    assert first.step == second.step
    assert len(script.calls) == 2


def test_different_calls_with_one_call_id_all_run_in_order(guard: Guard, mode: Mode) -> None:
    script = Script("a", "b", "c")
    add(guard, mode, script, "edit")
    with guard.task("t"):
        results = turn(mode, guard, [Intent("edit", {"path": path}, call_id="call_1") for path in "abc"])
    assert [result.data for result in results] == ["a", "b", "c"]
    assert [call["path"] for call in script.calls] == ["a", "b", "c"]
    assert len({result.request_id for result in results}) == 3


def test_a_response_that_calls_nothing(guard: Guard) -> None:
    result = guard.run(Intent(call=False, text="All done."))
    assert (result.success, result.data, result.next_action, result.attempts) == (True, "All done.", "continue", 0)


@pytest.mark.parametrize("reason", ["length", "max_tokens", "incomplete"])
def test_a_response_that_was_cut_off_is_refused(guard: Guard, mode: Mode, reason: str) -> None:
    script = Script("x")
    add(guard, mode, script, "write")
    with guard.task("t"):
        result = turn(mode, guard, [Intent("write", {"text": "whole?"}, finish_reason=reason)])[0]
    assert (result.error_type, script.calls) == ("PARAM_TRUNCATED", [])
    assert "smaller" in result.message


class Source:
    def __init__(self, intent: Intent) -> None:
        self.intent, self.offered, self.results = intent, (), []

    def propose(self, context: TaskContext, tools: Any) -> Intent:
        self.offered = tuple(tool.name for tool in tools)
        return self.intent

    async def apropose(self, context: TaskContext, tools: Any) -> Intent:
        return self.propose(context, tools)

    def record(self, result: Any) -> None:
        self.results.append(result)


def test_a_step_offers_the_allowed_tools_and_tells_the_source(guard: Guard, mode: Mode) -> None:
    add(guard, mode, Script("fine"), "query", effect="read")
    add(guard, mode, Script("no"), "other", effect="read")
    source = Source(Intent("query", {}))
    with guard.task("t", allow={"query"}):
        result = asyncio.run(guard.astep(source)) if "async" in mode.name else guard.step(source)
    assert (result.data, source.offered, source.results) == ("fine", ("query",), [result])


def test_an_async_step_needs_an_async_source(guard: Guard) -> None:
    class Sync:
        def propose(self, context: Any, tools: Any) -> Intent:
            return Intent("x", {})

    with pytest.raises(UsageError, match="apropose"):
        asyncio.run(guard.astep(Sync()))


@pytest.mark.parametrize("name", ["functions.query", "srv__query", "Query", "default_api:query", "mcp__srv__query"])
def test_a_transport_prefix_is_folded_if_one_tool_fits(guard: Guard, name: str) -> None:
    guard.tool(lambda: "ok", name="query", effect="read")
    assert guard.call(name).data == "ok"


@pytest.mark.parametrize("name", ["qery", "creating:query", "", None, 3, "query_all", "x" * 10_000])
def test_an_unknown_name_is_refused_with_the_allowed_ones(guard: Guard, name: Any) -> None:
    guard.tool(lambda: "ok", name="query", effect="read")
    result = guard.call(name)
    assert (result.error_type, result.failure_class, result.next_action, result.attempts) == (
        "TOOL_UNKNOWN",
        "POLICY",
        "choose_tool",
        0,
    )
    if isinstance(name, str) and name:
        assert "query" in result.message


def test_evidence_goes_to_the_tasks_own_directory(guard: Guard, tmp_path: Any) -> None:
    def shoot() -> str:
        current_call().attach(b"png", "shot.png", media_type="image/png", type="screenshot")
        return "x" * 200_000

    guard.tool(shoot, effect="read")
    result = guard.call("shoot", context=TaskContext(task_id="t", evidence_dir=str(tmp_path / "own")))
    kept = [tmp_path / "own" / evidence.ref for evidence in result.evidence]
    assert sorted(path.stat().st_size for path in kept) == [3, 200_000]


def test_a_failure_must_fill_what_the_contract_wants(guard: Guard) -> None:
    guard.tool(lambda: 1 / 0, name="fail", effect="read")
    guard.tool(lambda: 1, name="work", effect="read")
    wanting = OutputContract(required_on_failure=("message", "data"))
    content = OutputContract(required_on_failure=("message", "error_type", "attempts"))
    with guard.task("work", output=wanting):
        assert "contract_broken" in guard.call("fail").flags
        assert "contract_broken" in guard.call("nosuch").flags
        assert guard.call("work").flags == ()
    with guard.task("work", output=content):
        assert "contract_broken" not in guard.call("fail").flags
    with pytest.raises(TaskError, match="names 'mesage'; an envelope has success"):
        guard.task("work", output=OutputContract(required_on_failure=("mesage",)))
