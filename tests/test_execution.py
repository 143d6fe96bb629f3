"""How a tool is run: its arguments, its limits of time, its generators, and what it may know of its call."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fcguard import Budget, CallInfo, Guard, MemoryStore, SQLiteStore, Tool, current_call
from fcguard.model.states import CallState
from tests.conftest import ANY_OBJECT, Hang, Mode, Script, add
from tests.ledger_reading import LIMIT, eventually, kinds, only_call, payloads

# -- limits of time ---------------------------------------------------------------------------------------------------


def test_the_caller_gets_control_back_at_the_limit(guard: Guard, mode: Mode) -> None:
    script = Script(Hang("late"))
    add(guard, mode, script, effect="read", timeout=LIMIT, retry=1)
    began = time.monotonic()
    result = mode.call(guard, "tool", {})
    assert time.monotonic() - began < 30
    script.release.set()
    assert (result.success, result.error_type, result.retryable, result.attempts) == (False, "TIMEOUT", True, 1)


def test_a_timed_out_write_is_uncertain(guard: Guard, mode: Mode) -> None:
    script = Script(Hang("late"))
    add(guard, mode, script, timeout=LIMIT)
    with guard.task("write"):
        result = mode.call(guard, "tool", {})
    script.release.set()
    assert (result.error_type, result.effect, result.retryable) == ("UNCERTAIN_RESULT", "unknown", False)
    assert only_call(guard).state is CallState.PARKED


def test_an_async_tool_is_cancelled_at_its_limit(guard: Guard) -> None:
    ended: list[str] = []

    @guard.tool(effect="read", timeout=LIMIT, retry=1)
    async def slow() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    assert asyncio.run(slow()).error_type == "TIMEOUT"
    assert guard.call("slow").error_type == "TIMEOUT"
    assert ended == ["cancelled", "cancelled"]


def test_an_async_tool_that_answers_in_spite_of_being_cancelled_has_answered(guard: Guard) -> None:
    @guard.tool(effect="read", timeout=LIMIT, retry=1)
    async def stubborn() -> str:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return "done anyway"
        return "done"

    assert asyncio.run(stubborn()).data == "done anyway"


def test_a_timeout_of_the_tools_own_is_not_taken_for_ours(guard: Guard, mode: Mode) -> None:
    add(guard, mode, Script(TimeoutError("the socket's own")), effect="read", timeout=30.0, retry=1)
    result = mode.call(guard, "tool", {})
    assert result.error_type == "TIMEOUT"
    assert "within 30 s" not in result.message


@pytest.mark.parametrize("store", ["memory", "sqlite"])
@pytest.mark.parametrize("caller", ["call", "acall"])
def test_a_late_result_is_appended_to_the_ledger(tmp_path: Path, store: str, caller: str) -> None:
    script = Script(Hang({"order": 7}))
    ledger = MemoryStore() if store == "memory" else SQLiteStore(tmp_path / "ledger.db")
    with Guard(store=ledger, evidence_dir=tmp_path) as guard:
        guard.register(Tool(name="tool", parameters=ANY_OBJECT, fn=script.sync, timeout=LIMIT))
        with guard.task("write"):
            result = guard.call("tool", {}) if caller == "call" else asyncio.run(guard.acall("tool", {}))
        assert kinds(guard, result.request_id)[-1] == "parked"
        script.release.set()
        eventually(lambda: kinds(guard, result.request_id)[-1] == "late")
        (late,) = payloads(guard, "late")
        assert (late["returned"], late["value"], late["attempt"]) == (True, {"order": 7}, 1)
        stored = guard.store.get(result.request_id)
        assert stored is not None and stored.state is CallState.PARKED


class Odd:
    def __init__(self) -> None:
        self.secret = "hunter2hunter2"


def test_a_late_result_of_any_kind_is_recorded(guard: Guard) -> None:
    script = Script(Hang({"at": {1, 2}, "password": "hunter2hunter2", "odd": Odd()}))
    guard.register(Tool(name="tool", parameters=ANY_OBJECT, fn=script.sync, timeout=LIMIT))
    with guard.task("write"):
        guard.call("tool", {})
    script.release.set()
    eventually(lambda: bool(payloads(guard, "late")))
    (late,) = payloads(guard, "late")
    assert late["value"]["at"] == [1, 2]
    assert "hunter2hunter2" not in json.dumps(late)


def test_a_late_failure_is_recorded_by_its_type(guard: Guard) -> None:
    script = Script(Hang(ValueError("password=hunter2hunter2")))

    def tool() -> None:
        script.release.wait(60)
        raise ValueError("password=hunter2hunter2")

    guard.tool(tool, timeout=LIMIT)
    with guard.task("write"):
        guard.call("tool", {})
    script.release.set()
    eventually(lambda: bool(payloads(guard, "late")))
    (late,) = payloads(guard, "late")
    assert (late["returned"], late["error"]) == (False, "ValueError")


def test_a_late_result_of_a_read_leaves_no_trace(guard: Guard) -> None:
    script = Script(Hang("late"))
    guard.register(Tool(name="tool", parameters=ANY_OBJECT, fn=script.sync, timeout=LIMIT, effect="read", retry=1))
    result = guard.call("tool", {})
    script.release.set()
    assert kinds(guard, result.request_id) == ["call"]


def test_a_late_result_after_the_guard_was_closed_harms_nobody(tmp_path: Path) -> None:
    script = Script(Hang("late"))
    ended = threading.Event()

    def tool() -> str:
        script.release.wait(60)
        threading.Timer(0.01, ended.set).start()
        return "late"

    with Guard(store=SQLiteStore(tmp_path / "ledger.db"), evidence_dir=tmp_path) as guard:
        guard.tool(tool, timeout=LIMIT)
        with guard.task("write"):
            assert guard.call("tool").effect == "unknown"
    script.release.set()
    assert ended.wait(60)


def test_the_limit_of_a_task_is_the_limit_of_its_calls(guard: Guard, mode: Mode) -> None:
    script = Script(Hang("late"))
    add(guard, mode, script, effect="read", retry=1)
    with guard.task("short", budget=Budget(seconds=0.5)):
        result = mode.call(guard, "tool", {})
    script.release.set()
    assert result.error_type == "TIMEOUT"


# -- what goes along ------------------------------------------------------------------------------------------------------

WHO: contextvars.ContextVar[str] = contextvars.ContextVar("who", default="nobody")


@pytest.mark.parametrize("seconds", [float("inf"), 1e300])
@pytest.mark.parametrize("timeout", [None, 30.0])
def test_a_limit_that_no_thread_could_wait_for_is_none(
    guard: Guard, mode: Mode, timeout: float | None, seconds: float
) -> None:
    add(guard, mode, Script("done"), timeout=timeout)
    with guard.task("long", budget=Budget(seconds=seconds)):
        result = mode.call(guard, "tool", {})
    assert (result.data, result.effect) == ("done", "applied")


@pytest.mark.parametrize("timeout", [None, 30.0])
def test_context_variables_go_along(guard: Guard, timeout: float | None) -> None:
    guard.tool(lambda: WHO.get(), name="sync", effect="read", timeout=timeout)

    @guard.tool(effect="read", timeout=timeout)
    async def aio() -> str:
        return WHO.get()

    async def play() -> list[Any]:
        return [(await guard.acall(name)).data for name in ("sync", "aio")]

    token = WHO.set("ann")
    try:
        assert [guard.call(name).data for name in ("sync", "aio")] == ["ann", "ann"]
        assert asyncio.run(play()) == ["ann", "ann"]
    finally:
        WHO.reset(token)


def test_what_a_tool_does_to_context_variables_in_a_thread_stays_there(guard: Guard) -> None:
    guard.tool(lambda: WHO.set("eve") and None, name="change", effect="read", timeout=30.0)
    guard.call("change")
    assert WHO.get() == "nobody"


def test_each_attempt_gets_its_own_copy_of_the_arguments(guard: Guard, mode: Mode) -> None:
    seen: list[Any] = []
    script = Script(ConnectionResetError(), ConnectionResetError(), "fine")

    def spoil(keywords: dict[str, Any]) -> None:
        seen.append(json.loads(json.dumps(keywords)))
        keywords["lines"].append("spoilt")
        keywords["lines"][0]["sku"] = "spoilt"

    def sync(**keywords: Any) -> Any:
        spoil(keywords)
        return script.sync(**keywords)

    async def aio(**keywords: Any) -> Any:
        spoil(keywords)
        return await script.aio(**keywords)

    arguments = {"lines": [{"sku": "S-1"}]}
    guard.register(Tool(name="tool", parameters=ANY_OBJECT, fn=aio if mode.is_async_tool else sync, effect="read"))
    result = mode.call(guard, "tool", arguments)
    assert (result.success, result.attempts) == (True, 3)
    assert seen == [arguments] * 3
    assert result.normalized_args == arguments == {"lines": [{"sku": "S-1"}]}


def test_rules_see_frozen_arguments(guard: Guard, mode: Mode) -> None:
    tried: list[type[BaseException] | None] = []

    def rule(call: Any) -> None:
        for change in (
            lambda: call.arguments.update(a=2),
            lambda: call.arguments["nested"].append(1),
            lambda: call.arguments["nested"][0].clear(),
            lambda: setattr(call, "arguments", {}),
        ):
            try:
                change()
            except (TypeError, RuntimeError) as error:
                tried.append(type(error))
            else:
                tried.append(None)

    script = Script("fine")
    add(guard, mode, script, effect="read", rules=(rule,))
    assert mode.call(guard, "tool", {"a": 1, "nested": [{"b": 2}]}).success
    assert tried == [TypeError, TypeError, TypeError, RuntimeError]
    assert script.calls == [{"a": 1, "nested": [{"b": 2}]}]


def test_a_function_that_does_not_take_the_arguments_was_never_entered(guard: Guard, mode: Mode) -> None:
    entered: list[str] = []

    def sync(order_id: str) -> None:
        entered.append(order_id)

    async def aio(order_id: str) -> None:
        entered.append(order_id)

    guard.register(Tool(name="tool", parameters=ANY_OBJECT, fn=aio if mode.is_async_tool else sync))
    with guard.task("write"):
        result = mode.call(guard, "tool", {"order_id": "A", "extra": 1})
    assert (result.error_type, result.effect, entered) == ("PARAM_INVALID", "not_applied", [])
    assert "extra" in result.message


def test_a_type_error_of_the_functions_own_proves_nothing(guard: Guard, mode: Mode) -> None:
    add(guard, mode, Script(TypeError("tool() got an unexpected keyword argument 'extra'")))
    with guard.task("write"):
        assert mode.call(guard, "tool", {}).effect == "unknown"


def test_a_c_function_that_refuses_proves_nothing(guard: Guard) -> None:
    guard.register(Tool(name="tool", parameters=ANY_OBJECT, fn=int))
    with guard.task("write"):
        assert guard.call("tool", {"nope": 1}).effect == "unknown"


# -- generators ---------------------------------------------------------------------------------------------------------


def sync_numbers(count: int, closed: list[bool]) -> Iterator[int]:
    try:
        yield from range(count)
    finally:
        closed.append(True)


@pytest.mark.parametrize(
    ("count", "data", "flags"),
    [(0, [], ()), (3, [0, 1, 2], ()), (4, [0, 1, 2], ("truncated",)), (10**9, [0, 1, 2], ("truncated",))],
)
@pytest.mark.parametrize("timeout", [None, 30.0])
def test_generators_are_read_up_to_their_limit_and_closed(
    guard: Guard, mode: Mode, count: int, data: list[int], flags: tuple[str, ...], timeout: float | None
) -> None:
    closed: list[bool] = []

    def sync() -> Iterator[int]:
        yield from sync_numbers(count, closed)

    async def aio() -> Any:
        try:
            for number in range(count):
                yield number
        finally:
            closed.append(True)

    guard.tool(aio if mode.is_async_tool else sync, name="tool", effect="read", max_items=3, timeout=timeout)
    result = mode.call(guard, "tool", {})
    assert (result.data, result.flags, closed) == (data, flags, [True])


def test_a_function_that_turns_out_to_return_a_generator_is_bounded_too(guard: Guard, mode: Mode) -> None:
    def sync() -> Any:
        return (number for number in iter(int, 1))

    async def aio() -> Any:
        return (number for number in iter(int, 1))

    guard.tool(aio if mode.is_async_tool else sync, name="tool", effect="read")
    result = mode.call(guard, "tool", {})
    assert (len(result.data), result.flags) == (1000, ("truncated",))


def test_a_generator_that_fails_half_way_is_a_failure(guard: Guard, mode: Mode) -> None:
    def sync() -> Iterator[int]:
        yield 1
        raise ConnectionResetError

    async def aio() -> Any:
        yield 1
        raise ConnectionResetError

    guard.tool(aio if mode.is_async_tool else sync, name="tool", max_items=10)
    with guard.task("write"):
        assert mode.call(guard, "tool", {}).effect == "unknown"


# -- what a tool may know of its call ----------------------------------------------------------------------------------------


def test_the_call_tells_what_is_left_of_its_time(guard: Guard) -> None:
    seen: list[Any] = []

    @guard.tool(effect="read", timeout=30.0)
    def tool(info: CallInfo) -> None:
        before, remaining, after = time.time(), info.remaining, time.time()
        seen.append((remaining, info.deadline, info.attempt, info.purpose, info.environment))
        seen.append((before, after))

    guard.tool(lambda: seen.append((current_call().remaining, current_call().deadline)), name="free", effect="read")
    assert guard.call("tool").success
    assert guard.call("free").success
    remaining, deadline, attempt, purpose, environment = seen[0]
    assert 0 < remaining <= 30
    before, after = seen[1]
    assert before - 1 < deadline - remaining < after + 1, "by the wall clock and by the monotonic one"
    assert (attempt, purpose, environment) == (1, "primary", None)
    assert seen[2] == (None, None)


def test_a_file_can_be_attached_from_a_running_tool(guard: Guard, mode: Mode, tmp_path: Path) -> None:
    def attach() -> None:
        current_call().attach("rows", "rows.txt", media_type="text/plain", type="rows")
        current_call().attach(b"\x00\xff", "raw.bin")

    async def aio() -> None:
        attach()

    guard.tool(aio if mode.is_async_tool else attach, name="tool", effect="read", timeout=30.0)
    result = mode.call(guard, "tool", {})
    assert [item.type for item in result.evidence] == ["rows", "artifact"]
    assert [(tmp_path / "evidence" / item.ref).read_bytes() for item in result.evidence] == [b"rows", b"\x00\xff"]


def test_a_file_name_cannot_leave_the_evidence_directory(guard: Guard) -> None:
    guard.tool(lambda: current_call().attach("x", "../../outside"), name="tool", effect="read")
    result = guard.call("tool")
    assert result.error_type == "TOOL_ERROR" or ".." not in result.evidence[0].ref


@pytest.mark.parametrize("arguments", [{}, {"b": 1}, {"a": 1, "c": 2}])
def test_a_foreign_schema_that_does_not_ask_for_what_the_function_needs(
    guard: Guard, arguments: dict[str, Any]
) -> None:
    def tool(a: int, b: int = 0, /) -> list[int]:
        return [a, b]

    guard.register(Tool(name="plain", parameters=ANY_OBJECT, fn=tool))
    guard.register(Tool(name="partial", parameters=ANY_OBJECT, fn=functools.partial(lambda x, a: [x, a], 0)))
    with guard.task("write"):
        for name in ("plain", "partial"):
            result = guard.call(name, arguments)
            assert (result.error_type, result.effect) == ("PARAM_INVALID", "not_applied")
        assert guard.call("plain", {"a": 1}).data == [1, 0]
        assert guard.call("partial", {"a": 1}).data == [0, 1]
