"""Names that a task allows or forbids, and names of tools that tools declare: what nobody has does not pass in silence."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fcguard import ConfirmBy, Fallback, Goal, Guard, Intent, MemoryStore, TaskContext, Tool
from fcguard.approval import Deferred, SQLiteApprovals
from fcguard.errors import ConfigurationError, TaskError, UnmatchedNameWarning
from fcguard.model.context import Tools
from tests.conftest import ANY_OBJECT, Mode, Script, add

ANY: dict[str, Any] = {"type": "object"}


def put(guard: Guard, *names: str, **options: Any) -> None:
    for name in names:
        guard.register(Tool(name=name, parameters=ANY, fn=lambda **_: "done", **{"effect": "read", **options}))


@pytest.fixture
def shop(guard: Guard) -> Guard:
    put(guard, "query_order", "delete_order")
    return guard


def forbidding(*names: str) -> TaskContext:
    return TaskContext(task_id="t", goal=Goal(forbidden_actions=frozenset(names)))


def allowing(*names: str) -> TaskContext:
    return TaskContext(task_id="t", tools=Tools(allow=frozenset(names)))


# -- exact names ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", ["allow", "forbid"])
@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("delete_ordr", "did you mean 'delete_order'"),
        ("Delete_Order", "did you mean 'delete_order'"),
        ("functions.query_order", "did you mean 'query_order'"),
        ("xyz", "it has query_order, delete_order"),
        ("", "it has query_order, delete_order"),
    ],
)
def test_an_exact_name_that_no_tool_has_is_an_error_where_the_task_is_entered(
    shop: Guard, option: str, name: str, hint: str
) -> None:
    for names in ({name}, {name, "query_order"}):
        scope = shop.task("tidy", **{option: names})
        with pytest.raises(TaskError, match=f"{option} names {name!r}") as refused, scope:
            raise AssertionError("entered")
        assert hint in str(refused.value)
        assert f"Guard(unregistered={{{name!r}}})" in str(refused.value)
    assert shop.call("query_order").success


def test_the_task_is_not_entered_when_it_is_refused(shop: Guard) -> None:
    with pytest.raises(TaskError), shop.task("tidy", forbid={"nothing"}):
        raise AssertionError("entered")
    assert shop.call("query_order").task_id is None


CALLERS: list[Callable[[Guard, TaskContext], Any]] = [
    lambda guard, context: guard.task(context=context).__enter__(),
    lambda guard, context: guard.call("query_order", context=context),
    lambda guard, context: asyncio.run(guard.acall("query_order", context=context)),
    lambda guard, context: guard.run(Intent("query_order", {}), context=context),
    lambda guard, context: asyncio.run(guard.arun(Intent("query_order", {}), context=context)),
    lambda guard, context: guard.run_turn([], context=context),
    lambda guard, context: guard.allowed(context),
    lambda guard, context: guard.step(None, context=context),
    lambda guard, context: asyncio.run(guard.astep(None, context=context)),
]


@pytest.mark.parametrize("way", CALLERS)
@pytest.mark.parametrize(
    "context", [forbidding("delete_ordr"), allowing("query_order", "nothing")], ids=["forbid", "allow"]
)
def test_a_ready_context_is_checked_wherever_it_is_given(shop: Guard, way: Any, context: TaskContext) -> None:
    with pytest.raises(TaskError, match="which no tool of the guard has"):
        way(shop, context)


def test_tools_may_be_registered_until_the_task_is_entered(guard: Guard, mode: Mode) -> None:
    scope = guard.task("late", allow={"query"}, forbid={"delete_*"})
    add(guard, mode, Script("found"), "query", effect="read")
    add(guard, mode, Script(), "delete_all")
    with scope:
        assert mode.call(guard, "query", {}).data == "found"


def test_a_name_that_is_known_stays_forbidden(shop: Guard, mode: Mode) -> None:
    with shop.task("tidy", forbid={"delete_order"}):
        assert mode.call(shop, "delete_order", {}).error_type == "TOOL_NOT_ALLOWED"


# -- globs ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("option", ["allow", "forbid"])
@pytest.mark.parametrize("glob", ["delet_*", "*_ordr", "[xy]*", "query?order?"])
def test_a_glob_that_matches_nothing_warns_once_and_names_the_place(shop: Guard, option: str, glob: str) -> None:
    with (
        pytest.warns(UnmatchedNameWarning, match="matches no tool of the guard") as told,
        shop.task("tidy", **{option: {glob}}),
    ):
        pass
    assert [(Path(one.filename).name, glob in str(one.message)) for one in told] == [(Path(__file__).name, True)]
    with shop.task("tidy", **{option: {glob}}):  # warnings are errors here: a second one would fail
        pass


def test_a_warning_of_a_call_names_the_code_that_called(shop: Guard) -> None:
    with pytest.warns(UnmatchedNameWarning) as told:
        shop.call("query_order", context=forbidding("drop_*"))
    assert Path(told[0].filename).name == Path(__file__).name
    with pytest.warns(UnmatchedNameWarning) as told:
        asyncio.run(shop.acall("query_order", context=forbidding("purge_*")))
    assert len(told) == 1


def test_globs_that_match_are_quiet(shop: Guard) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with shop.task("tidy", allow={"query_*", "*"}, forbid={"delete_*", "[d]elete_order"}):
            pass


# -- names that are meant all the same -----------------------------------------------------------------------------------


def test_a_guard_says_which_names_it_need_not_have(tmp_path: Path, mode: Mode) -> None:
    with Guard(store=MemoryStore(), evidence_dir=tmp_path, unregistered=["drop_*", "other_tool", "mcp_?*"]) as guard:
        put(guard, "query_order")
        with guard.task("t", allow={"query_order", "other_tool", "mcp_search"}, forbid={"drop_*", "drop_table"}):
            assert mode.call(guard, "query_order", {}).success
            add(guard, mode, Script("dropped"), "drop_table")
            add(guard, mode, Script("found"), "mcp_search", effect="read")
            assert mode.call(guard, "drop_table", {}).error_type == "TOOL_NOT_ALLOWED"
            assert mode.call(guard, "mcp_search", {}).data == "found"
        with pytest.raises(TaskError, match="other_tol"), guard.task("t", allow={"other_tol"}):
            pass


def test_a_task_may_name_the_tools_of_another_guard_if_its_guard_says_so(tmp_path: Path) -> None:
    with (
        Guard(store=MemoryStore(), evidence_dir=tmp_path, unregistered={"ship"}) as orders,
        Guard(store=MemoryStore(), evidence_dir=tmp_path) as shipping,
    ):
        put(orders, "query_order")
        put(shipping, "ship", "recall")
        with orders.task("ship it", allow={"query_order", "ship"}):
            assert shipping.call("ship").success
            assert shipping.call("recall").error_type == "TOOL_NOT_ALLOWED"


def test_a_model_is_asked_for_a_step_in_the_task_of_another_guard(tmp_path: Path) -> None:
    class Source:
        offered: list[str] | None = None

        def propose(self, context: TaskContext, tools: Any) -> Intent:
            self.offered = [tool.name for tool in tools]
            return Intent("recall", {})

        async def apropose(self, context: TaskContext, tools: Any) -> Intent:
            return self.propose(context, tools)

    orders, shipping = (Guard(store=MemoryStore(), evidence_dir=tmp_path) for _ in range(2))
    put(orders, "query_order", "ship")
    put(shipping, "recall")
    for step in (shipping.step, lambda source: asyncio.run(shipping.astep(source))):
        source = Source()
        with orders.task("look", allow={"query_order"}):
            assert step(source).error_type == "TOOL_NOT_ALLOWED"
        assert source.offered == []


@pytest.mark.parametrize("value", ["drop_*", 5, [5], [[]]])
def test_what_is_no_set_of_names_is_refused(value: Any) -> None:
    with pytest.raises(ConfigurationError, match="unregistered"):
        Guard(store=MemoryStore(), unregistered=value)


def test_an_approval_is_continued_where_not_every_tool_is(tmp_path: Path) -> None:
    """The names were checked where the task was opened; the decision must not be used up by a worker that has fewer tools."""

    def build(*names: str) -> Guard:
        guard = Guard(store=MemoryStore(), evidence_dir=tmp_path, approver=Deferred(SQLiteApprovals(tmp_path / "a.db")))
        put(guard, *names)
        put(guard, "purge", effect="write", approval="required")
        return guard

    with build("drop_table", "query") as first, first.task("clean", allow={"purge", "query"}, forbid={"drop_table"}):
        asked = first.call("purge")
    with build() as second:
        result = second.resume(asked.request_id, approved=True, by="ann")
    assert (asked.error_type, result.data) == ("APPROVAL_REQUIRED", "done")


# -- tools that tools name -----------------------------------------------------------------------------------------------

NAMING: list[tuple[dict[str, Any], str]] = [
    ({"effect": "read", "fallback": ("query_replca",)}, "fallback"),
    ({"effect": "write", "fallback": (Fallback("query_replca"),)}, "fallback"),
    ({"effect": "write", "confirm": ConfirmBy("query_replca", bool)}, "confirm"),
]

USES: list[Callable[[Guard], Any]] = [
    lambda guard: guard.call("query_replica"),
    lambda guard: asyncio.run(guard.acall("query_replica")),
    lambda guard: guard.run(Intent("query_replica", {})),
    lambda guard: guard.call("unknown"),
    lambda guard: guard.schemas(),
    lambda guard: guard.task("t").__enter__(),
]


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize(("options", "role"), NAMING)
def test_a_tool_that_is_named_and_not_registered_is_an_error_at_the_first_use_of_the_guard(
    guard: Guard, options: dict[str, Any], role: str, use: Callable[[Guard], Any]
) -> None:
    put(guard, "query_replica")
    put(guard, "primary", **options)
    for _ in range(2):  # it stays one until it is mended
        with pytest.raises(ConfigurationError, match="'primary'") as refused:
            use(guard)
        assert f"its {role} 'query_replca' is not registered; did you mean 'query_replica'?" in str(refused.value)
    put(guard, "query_replca")
    assert guard.call("query_replica").success


def test_tools_may_be_declared_in_any_order(guard: Guard, mode: Mode) -> None:
    add(guard, mode, Script(ConnectionResetError()), "first", effect="read", retry=1, fallback=("second",))
    add(guard, mode, Script(ConnectionResetError()), "second", effect="read", retry=1, fallback=("third", "first"))
    add(guard, mode, Script("third"), "third", effect="read")
    assert mode.call(guard, "second", {}).answered_by == "third"


def test_once_the_guard_is_in_use_only_calls_of_the_tool_itself_wait_for_what_it_names(
    guard: Guard, mode: Mode
) -> None:
    add(guard, mode, Script("fine"), "early", effect="read")
    assert mode.call(guard, "early", {}).success
    script = Script(ConnectionResetError())
    add(guard, mode, script, "late", effect="read", retry=1, fallback=("later",))
    with guard.task("others are not disturbed"):
        assert mode.call(guard, "early", {}).success
        with pytest.raises(ConfigurationError, match="its fallback 'later' is not registered"):
            mode.call(guard, "late", {})
    assert script.calls == []
    add(guard, mode, Script("answered"), "later", effect="read")
    assert mode.call(guard, "late", {}).answered_by == "later"


def test_a_tool_is_not_its_own_fallback(guard: Guard) -> None:
    for fallback in ("loop", Fallback("loop")):
        with pytest.raises(ConfigurationError, match="its own fallback"):
            guard.register(Tool(name="loop", parameters=ANY_OBJECT, fn=print, effect="read", fallback=(fallback,)))
