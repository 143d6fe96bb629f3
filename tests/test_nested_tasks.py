"""A task in a task: it may do what the outer one may, and no more, unless it says that it widens."""

from __future__ import annotations

import asyncio
from fnmatch import fnmatchcase
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcguard import Budget, Environment, Goal, Guard, MemoryStore, TaskContext, current_call
from fcguard.model.context import Tools
from fcguard.task_names import narrowed
from tests.conftest import Mode, Script, add

NAMES = ("query_order", "query_stock", "create_order", "drop_table")


@pytest.fixture
def scripts(guard: Guard, mode: Mode) -> dict[str, Script]:
    made = {name: Script(name) for name in NAMES}
    for name, script in made.items():
        add(guard, mode, script, name, effect="read" if name.startswith("query") else "write")
    return made


def offered(guard: Guard) -> list[str]:
    return [tool.name for tool in guard.allowed()]


@pytest.mark.parametrize(
    ("outer", "inner", "allowed"),
    [
        ({}, {}, NAMES),
        ({"allow": {"query_order"}}, {}, ["query_order"]),
        ({}, {"allow": {"query_order"}}, ["query_order"]),
        ({"allow": {"query_*"}}, {"allow": {"query_order", "create_order"}}, ["query_order"]),
        ({"allow": {"query_order", "create_order"}}, {"allow": {"query_*"}}, ["query_order"]),
        ({"allow": {"query_*", "create_order"}}, {"allow": {"*_order"}}, ["query_order", "create_order"]),
        ({"allow": {"query_order"}}, {"allow": {"create_order"}}, []),
        ({"allow": set()}, {}, []),
        ({}, {"allow": set()}, []),
        ({"write_allowed": False}, {}, ["query_order", "query_stock"]),
        ({}, {"write_allowed": False}, ["query_order", "query_stock"]),
        ({"forbid": {"drop_*"}}, {"forbid": {"query_stock"}}, ["query_order", "create_order"]),
        ({"forbid": {"drop_*"}, "allow": {"drop_table", "query_order"}}, {"allow": {"drop_table"}}, []),
    ],
)
def test_the_inner_task_allows_what_both_allow(
    guard: Guard, scripts: dict[str, Script], mode: Mode, outer: Any, inner: Any, allowed: Any
) -> None:
    with guard.task("outer", **outer), guard.task("inner", **inner):
        assert offered(guard) == list(allowed)
        passed = [name for name in NAMES if mode.call(guard, name, {}).success]
    assert passed == list(allowed)
    assert [name for name, script in scripts.items() if script.calls] == list(allowed)


def test_it_narrows_through_every_level_and_the_outer_task_stays_as_it_is(
    guard: Guard, scripts: dict[str, Script]
) -> None:
    with guard.task("1", forbid={"drop_table"}):
        with guard.task("2", allow={"query_*", "create_order"}):
            with guard.task("3", write_allowed=False), guard.task("4"):
                assert offered(guard) == ["query_order", "query_stock"]
            assert offered(guard) == ["query_order", "query_stock", "create_order"]
        assert offered(guard) == ["query_order", "query_stock", "create_order"]
    with guard.task("alone"):
        assert offered(guard) == list(NAMES)


def test_the_refusal_says_whose_it_is(guard: Guard, scripts: dict[str, Script], mode: Mode) -> None:
    with guard.task("outer", allow={"query_order", "create_order"}, write_allowed=False):
        with guard.task("inner", allow={"query_order", "query_stock", "create_order"}):
            outers = mode.call(guard, "query_stock", {})
            writing = mode.call(guard, "create_order", {})
        with guard.task("inner", allow={"query_order"}, write_allowed=False):
            own = mode.call(guard, "query_stock", {})
    assert (outers.error_type, own.error_type) == ("TOOL_NOT_ALLOWED", "TOOL_NOT_ALLOWED")
    assert "not allowed by the task around this one; allowed: create_order, query_order" in outers.message
    assert "not on the task's list of tools; allowed: query_order" in own.message
    assert writing.error_type == "PERMISSION_DENIED"
    assert "the task around this one may only read" in writing.message


def test_a_ready_context_is_narrowed_too(guard: Guard, scripts: dict[str, Script]) -> None:
    ready = TaskContext(tools=Tools(allow=frozenset({"query_order", "create_order"})), goal=Goal(objective="inner"))
    scope = guard.task(context=ready)
    assert scope.context.tools.allow == {"query_order", "create_order"}
    with guard.task("outer", allow={"query_order"}, forbid={"query_stock"}), scope as task:
        assert scope.context is task.context
        assert task.context.tools.allow == {"query_order"}
        assert task.context.goal == Goal(objective="inner", forbidden_actions=frozenset({"query_stock"}))
    assert ready.tools.allow == {"query_order", "create_order"}


def test_what_is_narrowed_is_what_the_ledger_keeps(guard: Guard, scripts: dict[str, Script], mode: Mode) -> None:
    from fcguard.stores.payload import body_of

    with guard.task("outer", allow={"query_*", "create_order"}, forbid={"drop_table"}), guard.task("inner"):
        result = mode.call(guard, "create_order", {})
    body = body_of(next(iter(guard.store.events(request_id=result.request_id))))
    assert (body["allow"], body["forbidden"]) == (["create_order", "query_*"], ["drop_table"])


@pytest.mark.parametrize("is_ready", [False, True])
def test_a_task_may_say_that_it_widens(guard: Guard, scripts: dict[str, Script], mode: Mode, is_ready: bool) -> None:
    options: Any = {"context": TaskContext(task_id="inner")} if is_ready else {"task_id": "inner"}
    with guard.task("outer", allow={"query_order"}, forbid={"drop_table"}, write_allowed=False):
        with guard.task(may_widen=True, **options):
            assert offered(guard) == list(NAMES)
            assert mode.call(guard, "create_order", {}).success
            with guard.task("innermost"):
                assert offered(guard) == list(NAMES)
        assert offered(guard) == ["query_order"]


def test_a_tool_that_opens_a_task_of_its_own_gains_nothing(guard: Guard) -> None:
    """A read-only task stays one, also for the code of the tools that it calls; a tool that is trusted with more says so."""
    done: list[str] = []
    guard.tool(lambda: done.append("created"), name="create", effect="write")

    @guard.tool(effect="read")
    def helper() -> Any:
        with guard.task("inside"):
            return guard.call("create").error_type

    @guard.tool(effect="read")
    async def async_helper() -> Any:
        with guard.task("inside"):
            return (await guard.acall("create")).error_type

    @guard.tool(effect="read")
    def trusted() -> Any:
        with guard.task("inside", may_widen=True):
            return guard.call("create").error_type

    with guard.task("look", allow={"helper", "async_helper", "trusted"}):
        assert helper().data == "TOOL_NOT_ALLOWED"
        assert asyncio.run(async_helper()).data == "TOOL_NOT_ALLOWED"
        assert (trusted().data, done) == (None, ["created"])
    with guard.task("look", write_allowed=False):
        assert (helper().data, asyncio.run(async_helper()).data) == ("PERMISSION_DENIED", "PERMISSION_DENIED")
    assert done == ["created"]


def test_a_task_of_another_guard_is_narrowed_too(guard: Guard, tmp_path: Any) -> None:
    with Guard(store=MemoryStore(), evidence_dir=tmp_path) as other:
        other.tool(lambda: 1, name="write", effect="write")
        with guard.task("look", write_allowed=False), other.task("inside"):
            assert other.call("write").error_type == "PERMISSION_DENIED"


def test_everything_else_is_the_inner_tasks_own(guard: Guard) -> None:
    guard.tool(lambda: current_call().context.model_dump(), name="look", effect="read")
    outer: Any = {"environment": Environment(name="a"), "roles": {"admin"}, "actor": "Ann", "budget": Budget(calls=2)}
    with guard.task("outer", **outer), guard.task("inner", environment="b"):
        seen = [guard.call("look").data for _ in range(2)]
    assert [one["environment"]["name"] for one in seen] == ["b", "b"]
    assert (seen[0]["actor"], list(seen[0]["roles"]), seen[0]["budget"]) == (None, [], None)


# -- laws ----------------------------------------------------------------------------------------------------------------

entries = st.sampled_from([*NAMES, "query_*", "*_order", "*", "drop_?able", "[qc]*", "other_tool", "other_*"])
contexts = st.builds(
    lambda allow, write_allowed, forbidden: TaskContext(
        tools=Tools(allow=allow, write_allowed=write_allowed), goal=Goal(forbidden_actions=forbidden)
    ),
    st.none() | st.frozensets(entries, max_size=4),
    st.booleans(),
    st.frozensets(entries, max_size=3),
)


def admits(context: TaskContext, name: str) -> bool:
    return context.tools.admits(name)


@given(contexts, contexts, st.sampled_from([*NAMES, "other_tool", "other_thing", "new"]))
def test_narrowing_is_the_intersection_and_never_more(inner: TaskContext, outer: TaskContext, name: str) -> None:
    made = narrowed(inner, outer, NAMES)
    if name in NAMES:
        assert admits(made, name) is (admits(inner, name) and admits(outer, name))
    elif admits(made, name):
        assert admits(inner, name)
        assert admits(outer, name)
    assert made.tools.write_allowed is (inner.tools.write_allowed and outer.tools.write_allowed)
    assert made.goal.forbidden_actions == inner.goal.forbidden_actions | outer.goal.forbidden_actions


@given(contexts, contexts)
def test_narrowing_again_changes_nothing_and_order_does_not_count(inner: TaskContext, outer: TaskContext) -> None:
    made = narrowed(inner, outer, NAMES)
    assert narrowed(made, outer, NAMES) == made
    assert narrowed(made, made, NAMES) == made
    other = narrowed(outer, inner, NAMES)
    for name in NAMES:
        assert admits(made, name) == admits(other, name)
        allow = made.tools.allow
        assert allow is None or admits(made, name) == any(fnmatchcase(name, entry) for entry in allow)


@pytest.mark.parametrize(
    ("inner", "outer", "kept"),
    [
        ({"query_order", "drop_table"}, {"query_order", "create_order"}, {"query_order"}),
        ({"query_*"}, {"query_order", "create_order"}, {"query_order"}),
        ({"query_order", "create_order"}, {"query_*"}, {"query_order"}),
        ({"query_*"}, {"query_*", "create_*"}, {"query_*"}),
    ],
)
def test_a_task_in_a_task_does_not_look_through_all_tools_unless_two_globs_meet(
    inner: set[str], outer: set[str], kept: set[str]
) -> None:
    def unasked() -> Any:
        raise AssertionError("looked")
        yield

    def allowing(names: set[str]) -> TaskContext:
        return TaskContext(task_id="t", tools=Tools(allow=frozenset(names)))

    assert narrowed(allowing(inner), allowing(outer), unasked()).tools.allow == kept
    with pytest.raises(AssertionError, match="looked"):
        narrowed(allowing({"*_order"}), allowing({"query_*"}), unasked())
