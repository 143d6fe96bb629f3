"""Faults are put in and taken out without patching, strike as often as they should, and look like those of real services."""

from __future__ import annotations

import asyncio
import random
import threading
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcguard import ConfigurationError, Guard, Intent, MemoryStore, UsageError
from fcguard.errors import ColourError
from fcguard.stores.base import CallQuery
from fcguard.testing.clock import FakeClock
from fcguard.testing.dispatches import watch_dispatches
from fcguard.testing.fault_kinds import FAULTS, INJECTED_INSTRUCTION, Fault, cut
from fcguard.testing.faults import inject
from fcguard.testing.faulty_source import FaultySource, distort
from fcguard.testing.faulty_store import FaultyStore

ENDINGS = {
    "timeout": "TIMEOUT",
    "server_error": "DEPENDENCY_ERROR",
    "rate_limited": "RATE_LIMITED",
    "permission_denied": "PERMISSION_DENIED",
    "precondition_failed": "PARAM_INVALID",
    "environment_down": "CONNECTION_FAILED",
    "write_timeout_committed": "TIMEOUT",
    "write_timeout_not_committed": "TIMEOUT",
    "empty_result": None,
    "cut_result": None,
    "slow_success": None,
    "injected_instruction": None,
    "normalizer_crash": "NORMALIZER_FAILED",
}


@pytest.fixture
def desk(tmp_path: Any) -> Any:
    with Guard(store=FaultyStore(MemoryStore()), evidence_dir=tmp_path, clock=FakeClock()) as guard:
        runs: list[str] = []

        @guard.tool(effect="read", retry=1)
        def look(order_id: str) -> dict[str, str]:
            runs.append(order_id)
            return {"order_id": order_id, "status": "open"}

        @guard.tool(effect="read", retry=1)
        async def look_async(order_id: str) -> dict[str, str]:
            runs.append(order_id)
            return {"order_id": order_id, "status": "open"}

        @guard.tool(effect="write")
        def book(order_id: str) -> str:
            runs.append(order_id)
            return f"booked {order_id}"

        guard.runs = runs  # type: ignore[attr-defined]
        yield guard


@pytest.mark.parametrize("name", ENDINGS)
@pytest.mark.parametrize("tool", ["look", "look_async"])
def test_each_fault_is_classified_as_what_it_is_in_both_colours(desk: Any, tool: str, name: str) -> None:
    with inject(desk, tool, name, times=1, seconds=0.001) as fault:
        hit = desk.call(tool, {"order_id": "A1"})
        healthy = desk.call(tool, {"order_id": "A1"})
    assert hit.error_type == ENDINGS[name]
    assert healthy.success and healthy.data == {"order_id": "A1", "status": "open"}
    assert (fault.struck, fault.seen) == (1, 2)


def test_every_fault_of_the_table_is_covered_here() -> None:
    elsewhere = {fault.name for fault in FAULTS.values() if fault.site in ("ledger", "proposal")}
    assert set(ENDINGS) | elsewhere == set(FAULTS)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("empty_result", {}),
        ("injected_instruction", {"order_id": "A1", "status": "open", "note": INJECTED_INSTRUCTION}),
        ("slow_success", {"order_id": "A1", "status": "open"}),
    ],
)
def test_what_a_fault_makes_of_a_success(desk: Any, name: str, data: Any) -> None:
    with inject(desk, "look", name, seconds=0.001):
        assert desk.call("look", {"order_id": "A1"}).data == data


def test_a_committed_timeout_has_run_the_function_and_a_lost_request_has_not(desk: Any) -> None:
    with desk.task():
        with inject(desk, "book", "write_timeout_committed"):
            committed = desk.call("book", {"order_id": "A1"})
        with inject(desk, "book", "write_timeout_not_committed"):
            lost = desk.call("book", {"order_id": "A2"})
    assert desk.runs == ["A1"]
    assert committed.error_type == lost.error_type == "UNCERTAIN_RESULT"


def test_times_and_when_decide_what_is_hit(desk: Any) -> None:
    def only_a2_but_not_first(arguments: Any, number: int) -> bool:
        return arguments["order_id"] == "A2" and number > 1

    with inject(desk, "look", "permission_denied", times=1, when=only_a2_but_not_first) as fault:
        ends = [desk.call("look", {"order_id": order_id}).success for order_id in ("A2", "A1", "A2", "A2")]
    assert ends == [True, True, False, True]
    assert (fault.struck, fault.seen) == (1, 4)


def test_two_faults_of_one_tool_take_turns_and_leave_in_any_order(desk: Any) -> None:
    before = desk.tools
    first = inject(desk, "look", "timeout", times=1)
    second = inject(desk, "look", "permission_denied", times=1)
    assert [desk.call("look", {"order_id": "A1"}).error_type for _ in range(3)] == [
        "TIMEOUT",
        "PERMISSION_DENIED",
        None,
    ]
    first.remove()
    first.remove()
    second.remove()
    assert desk.tools == before


@given(st.permutations(list(range(4))))
def test_removing_everything_in_any_order_restores_the_tool(order: list[int]) -> None:
    with Guard(store=MemoryStore()) as guard:
        guard.tool(effect="read")(_look)
        before = guard.tools
        faults = [
            inject(guard, "_look", name) for name in ("timeout", "normalizer_crash", "cut_result", "normalizer_crash")
        ]
        for at in order:
            faults[at].remove()
        assert [tool.fn for tool in guard.tools] == [tool.fn for tool in before]
        assert guard.call("_look", {"order_id": "A1"}).success


def _look(order_id: str) -> str:
    return order_id


def test_a_fault_of_ones_own(desk: Any) -> None:
    def explode(moment: Any) -> None:
        raise ValueError(moment.arguments["order_id"])

    with inject(desk, "look", Fault("own", "explodes", before=explode)):
        assert desk.call("look", {"order_id": "A1"}).error_type == "TOOL_ERROR"


def test_a_decorated_function_is_hit_too(desk: Any) -> None:
    @desk.tool(effect="read", retry=1)
    def peek(order_id: str) -> str:
        return order_id

    with inject(desk, "peek", "server_error"):
        assert peek(order_id="A1").error_type == "DEPENDENCY_ERROR"


def test_the_normalizer_of_the_tool_itself_works_on_around_the_fault(tmp_path: Any) -> None:
    with Guard(store=MemoryStore(), evidence_dir=tmp_path) as guard:
        guard.tool(effect="read", normalize={"order_id": str.upper})(_look)
        with inject(guard, "_look", "normalizer_crash", times=1):
            assert guard.call("_look", {"order_id": "a1"}).error_type == "NORMALIZER_FAILED"
            assert guard.call("_look", {"order_id": "a1"}).data == "A1"
        assert guard.call("_look", {"order_id": "a1"}).data == "A1"


def test_a_ledger_that_does_not_take_the_intent_stops_the_write(desk: Any) -> None:
    with desk.task(), inject(desk, "book", "evidence_write_failure", times=1) as fault:
        result = desk.call("book", {"order_id": "A1"})
    assert (result.error_type, result.attempts, desk.runs, fault.struck) == ("EVIDENCE_FAILED", 0, [], 1)


def test_a_ledger_that_loses_the_outcome_does_not_undo_the_success(desk: Any) -> None:
    with desk.task(), inject(desk, "book", "evidence_lost", times=1) as fault:
        result = desk.call("book", {"order_id": "A1"})
    assert result.success and "evidence_pending" in result.flags and fault.struck == 1
    assert desk.store.get(result.request_id).state == "STARTED"


def test_the_ledger_of_another_tool_is_left_alone(desk: Any) -> None:
    with desk.task(), inject(desk, "look", "evidence_write_failure"):
        assert desk.call("book", {"order_id": "A1"}).success
        assert "evidence_pending" in desk.call("look", {"order_id": "A1"}).flags
    assert [call.identity.tool for call in desk.store.calls(CallQuery())] == ["book"]
    assert len(list(desk.store.events())) == 2
    assert desk.store.heads is not None


@pytest.mark.parametrize(
    ("tool", "fault", "options", "words"),
    [
        ("look", "no_such", {}, "unknown fault 'no_such'"),
        ("nowhere", "timeout", {}, "there is no tool 'nowhere'"),
        ("look", "timeout", {"times": 0}, "times=0"),
        ("look", "unknown_tool", {}, "FaultySource"),
    ],
)
def test_what_cannot_be_injected_is_refused_with_the_way_out(
    desk: Any, tool: str, fault: str, options: Any, words: str
) -> None:
    with pytest.raises(UsageError, match=words):
        inject(desk, tool, fault, **options)


def test_a_ledger_must_be_one_that_can_fail_and_a_normalizer_needs_a_parameter(tmp_path: Any) -> None:
    with Guard(store=MemoryStore(), evidence_dir=tmp_path) as guard:

        @guard.tool(effect="read")
        def ping() -> str:
            return "pong"

        @guard.tool(effect="read", max_items=3)
        async def count() -> Any:
            yield 1

        with pytest.raises(UsageError, match="FaultyStore"):
            inject(guard, "ping", "evidence_lost")
        with pytest.raises(UsageError, match="no parameter"):
            inject(guard, "ping", "normalizer_crash")
        with pytest.raises(UsageError, match="async generator"):
            inject(guard, "count", "timeout")
        watch_dispatches(guard)
        assert guard.call("count").data == [1]


def test_instrument_keeps_the_colour_and_the_contract(desk: Any) -> None:
    async def other(order_id: str) -> str:
        return order_id

    with pytest.raises(ColourError, match="sync"):
        desk.instrument("look", fn=other)
    with pytest.raises(ConfigurationError, match="async"):
        desk.instrument("look_async", fn=_look)
    before = desk.instrument("look", fn=_look)
    assert desk.call("look", {"order_id": "A1"}).data == "A1"
    assert desk.call("look", {}).error_type == "PARAM_MISSING"
    desk.instrument("look", fn=before.fn)
    assert desk.call("look", {"order_id": "A1"}).data["status"] == "open"


@given(
    value=st.recursive(st.text() | st.integers(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)),
    seed=st.integers(),
)
def test_what_is_cut_is_smaller_and_the_same_each_time(value: Any, seed: int) -> None:
    left = cut(value, random.Random(seed))
    assert left == cut(value, random.Random(seed))
    if isinstance(value, (str, list, dict)) and value:
        assert len(left) < len(value)
    else:
        assert not left


def test_injected_text_goes_into_lists_and_texts(desk: Any) -> None:
    @desk.tool(effect="read")
    def listed(kind: str) -> Any:
        return {"list": [1], "text": "one", "none": None}[kind]

    with inject(desk, "listed", "injected_instruction"):
        assert desk.call("listed", {"kind": "list"}).data == [1, INJECTED_INSTRUCTION]
        assert desk.call("listed", {"kind": "text"}).data == f"one\n{INJECTED_INSTRUCTION}"
    with inject(desk, "listed", "empty_result"):
        assert [desk.call("listed", {"kind": kind}).data for kind in ("list", "text", "none")] == [[], "", None]


def test_calls_through_the_guard_are_told_from_those_around_it(desk: Any) -> None:
    seen = watch_dispatches(desk)
    with inject(desk, "look", "timeout", times=1):
        desk.call("look", {"order_id": "A1"})
    functions = {tool.name: tool.fn for tool in desk.tools}
    functions["book"](order_id="A2")
    asyncio.run(functions["look_async"](order_id="A3"))
    with inject(desk, "look_async", "timeout"), pytest.raises(TimeoutError):
        asyncio.run({tool.name: tool.fn for tool in desk.tools}["look_async"](order_id="A4"))
    assert [(one.tool, one.is_governed) for one in seen] == [("book", False), ("look_async", False)]
    seen = watch_dispatches(desk)
    assert desk.call("look", {"order_id": "A5"}).success
    with pytest.raises(TypeError):
        {tool.name: tool.fn for tool in desk.tools}["book"](wrong=1)
    with pytest.raises(TypeError):
        asyncio.run({tool.name: tool.fn for tool in desk.tools}["look_async"](wrong=1))
    assert [(one.is_governed, one.error) for one in seen] == [(True, None), (False, "TypeError"), (False, "TypeError")]
    assert seen[1].record()["status"] == "failed" and seen[1].record()["is_governed"] is False


def test_a_fault_strikes_no_more_often_than_asked_from_many_threads(desk: Any) -> None:
    with inject(desk, "look", "permission_denied", times=5) as fault:
        ends: list[bool] = []
        threads = [
            threading.Thread(
                target=lambda: ends.extend(desk.call("look", {"order_id": "A"}).success for _ in range(10))
            )
            for _ in range(4)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert (ends.count(False), fault.struck, fault.seen) == (5, 5, 40)


class Script:
    """A source that proposes what it was given."""

    def __init__(self, *intents: Intent) -> None:
        self.intents, self.told = list(intents), []

    def propose(self, context: Any, tools: Any) -> Intent:
        return self.intents.pop(0)

    def record(self, result: Any) -> None:
        self.told.append(result.error_type)


PROPOSAL = Intent(tool="look", arguments={"order_id": "A1"})


@pytest.mark.parametrize(
    ("fault", "error_type"),
    [("unknown_tool", "TOOL_UNKNOWN"), ("missing_parameter", "PARAM_MISSING"), ("wrong_parameter", "PARAM_INVALID")],
)
def test_faults_of_the_model_reach_the_guard(desk: Any, fault: Any, error_type: str) -> None:
    script = Script(PROPOSAL, PROPOSAL, Intent(call=False, text="done"))
    source = FaultySource(script, fault, times=1)
    with desk.task():
        ends = [desk.step(source).error_type for _ in range(3)]
    assert ends == [error_type, None, None]
    assert script.told == ends and source.struck == 1 and len(desk.runs) == 1


def test_stale_arguments_and_sources_that_want_no_word() -> None:
    stale = distort(PROPOSAL, "stale_arguments", earlier={"order_id": "A0"})
    assert stale.arguments == {"order_id": "A0"} and stale.tool == "look"
    bare = FaultySource(
        type("Bare", (), {"propose": lambda self, context, tools: PROPOSAL})(), "stale_arguments", earlier={}
    )
    bare.record(None)
    assert [bare.propose(None, ()).arguments for _ in range(2)] == [{}, {}]  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("intent", "fault", "words"),
    [
        (PROPOSAL, "timeout", "no fault of a proposal"),
        (PROPOSAL, "stale_arguments", "earlier"),
        (Intent(tool="look", arguments="{}"), "missing_parameter", "an object"),
        (Intent(tool="look", arguments={}), "wrong_parameter", "not empty"),
    ],
)
def test_what_cannot_be_distorted_is_refused(intent: Intent, fault: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        distort(intent, fault)


@given(st.integers(), st.dictionaries(st.text(min_size=1), st.integers(), min_size=1))
def test_distortion_is_seeded_and_hits_one_parameter(seed: int, arguments: dict[str, int]) -> None:
    intent = Intent(tool="t", arguments=arguments)
    for fault in ("missing_parameter", "wrong_parameter"):
        once, again = (distort(intent, fault, chance=random.Random(seed)) for _ in range(2))  # type: ignore[arg-type]
        assert once == again and isinstance(once.arguments, dict)
        same = {name for name, value in arguments.items() if once.arguments.get(name, object()) == value}
        assert len(same) == len(arguments) - 1
