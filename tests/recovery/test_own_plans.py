"""A tool's own recovery plans: which row decides, what is refused where the tool is declared, and what they lead to."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcguard import Applied, ErrorType, Guard, MemoryStore, Retry, Tool, Violation
from fcguard.errors import ConfigurationError
from fcguard.model.failure import TAXONOMY, Failure, FailureClass
from fcguard.recovery.own_plans import effective_rows
from fcguard.recovery.table import DEFAULT_TABLE, EFFECTS, RecoveryTable
from tests.conftest import ANY_OBJECT, Effect, Mode, Script, add

STOP, ELSEWHERE = ("stop",), ("fallback", "stop")
ANY = {"type": "object"}


def tool_of(effect: Any = "read", **options: Any) -> Tool:
    options = {"fallback": ("other",), "ready": lambda call: True, **options}
    return Tool(name="tool", parameters=ANY, fn=lambda **_: None, effect=effect, **options)


# -- which row decides ---------------------------------------------------------------------------------------------------

GUARD = DEFAULT_TABLE.replacing("TIMEOUT", {"read": ("retry", "stop")}).replacing("AVAILABILITY", {"read": STOP})


@pytest.mark.parametrize(
    ("own", "error_type", "plan", "source", "row"),
    [
        ({"TIMEOUT": ELSEWHERE, "AVAILABILITY": STOP}, "TIMEOUT", ELSEWHERE, "tool", "TIMEOUT"),
        ({"AVAILABILITY": ELSEWHERE}, "TIMEOUT", ELSEWHERE, "tool", "AVAILABILITY"),
        ({"RATE_LIMITED": ELSEWHERE}, "TIMEOUT", ("retry", "stop"), "guard", "TIMEOUT"),
        ({}, "CONNECTION_FAILED", STOP, "guard", "AVAILABILITY"),
        ({}, "TOOL_ERROR", ELSEWHERE, "default", "TOOL"),
        ({}, "CIRCUIT_OPEN", ELSEWHERE, "default", "CIRCUIT_OPEN"),
        ({"AVAILABILITY": STOP}, "CIRCUIT_OPEN", STOP, "tool", "AVAILABILITY"),
        ({"ENVIRONMENT": ("wait", "stop")}, "TENANT_FROZEN", ("wait", "stop"), "tool", "ENVIRONMENT"),
        ({"ENVIRONMENT": ("wait", "stop"), "TENANT_FROZEN": STOP}, "TENANT_FROZEN", STOP, "tool", "TENANT_FROZEN"),
    ],
)
def test_the_tool_goes_before_the_guard_and_a_type_before_its_class(
    own: Mapping[str, Any], error_type: str, plan: Any, source: str, row: str
) -> None:
    assert GUARD.plan_for(Failure.of(error_type, "x", "execute"), "read", own) == plan
    rows = {(one.failure_class, one.error_type): one for one in effective_rows(GUARD, tool_of(recovery=own))}
    family = TAXONOMY[ErrorType(error_type)][0]
    shown = rows.get((family, error_type)) or rows[family, "*"]
    assert (shown.plan, shown.source, shown.row) == (plan, source, row)


plans = st.sampled_from([STOP, ELSEWHERE, ("retry", "stop"), ("wait", "switch", "stop"), ("confirm", "stop")])
safe = st.sampled_from([STOP, ("confirm", "stop")])
rows = st.dictionaries(st.sampled_from([*FailureClass, *ErrorType, "SOLD_OUT"]), plans, max_size=6)
uncertain = st.dictionaries(st.sampled_from(["UNCERTAIN", "UNCERTAIN_RESULT"]), safe, max_size=2)


@given(rows, uncertain, rows, uncertain, st.sampled_from(["read", "idempotent_write", "write"]))
def test_what_is_shown_is_what_is_done(own: Any, own_safe: Any, changed: Any, changed_safe: Any, effect: Any) -> None:
    table: RecoveryTable = DEFAULT_TABLE
    for name, plan in {**changed, **changed_safe}.items():
        if effect == "read" or "UNCERTAIN" not in name or plan in (STOP, ("confirm", "stop")):
            table = table.replacing(str(name), {effect: plan})
    mine = {str(name): plan for name, plan in {**own, **own_safe}.items()}
    shown = {(row.failure_class, row.error_type): row for row in effective_rows(table, tool_of(effect, recovery=mine))}
    for error_type, (family, _) in TAXONOMY.items():
        done = table.plan_for(Failure.of(error_type, "x", "execute"), effect, mine)
        row = shown.get((family, error_type)) or shown[family, "*"]
        assert row.plan == done
        guards = table.plan_for(Failure.of(error_type, "x", "execute"), effect)
        assert done == mine.get(error_type, mine.get(family, guards))
        assert (row.source == "tool") is (error_type in mine or family in mine)


def test_a_code_of_ones_own_is_shown_too() -> None:
    table = DEFAULT_TABLE.replacing("SOLD_OUT", {"read": ELSEWHERE})
    shown = [row for row in effective_rows(table, tool_of(recovery={"NO_SEAT": STOP})) if row.failure_class == ""]
    assert [(row.error_type, row.plan, row.source) for row in shown] == [
        ("SOLD_OUT", ELSEWHERE, "guard"),
        ("NO_SEAT", STOP, "tool"),
    ]
    assert [row.error_type for row in effective_rows(table, tool_of("write")) if row.failure_class == ""] == []


# -- what is refused -----------------------------------------------------------------------------------------------------


def decorated(guard: Guard, effect: str, **options: Any) -> None:
    def put() -> None: ...

    guard.tool(put, effect=effect, **options)  # type: ignore[arg-type]


def registered(guard: Guard, effect: str, **options: Any) -> None:
    guard.register(Tool(name="put", parameters=ANY_OBJECT, fn=print, effect=effect, **options))  # type: ignore[arg-type]


REFUSED: list[tuple[str, Any, str]] = [
    ("read", {"TIMEOUTT": STOP}, "did you mean 'TIMEOUT'"),
    ("read", {"timeout": STOP}, "did you mean 'TIMEOUT'"),
    ("read", {"RATE_LIMIT": STOP}, "did you mean 'RATE_LIMITED'"),
    ("read", {"Availability": STOP}, "did you mean 'AVAILABILITY'"),
    ("read", {"sold out": STOP}, "failure classes are PARAMETER"),
    ("read", {"": STOP}, "failure classes are PARAMETER"),
    ("read", {5: STOP}, "failure classes are PARAMETER"),
    ("read", {"TIMEOUT": "stop"}, "is one text"),
    ("read", {"TIMEOUT": 5}, "a sequence of actions"),
    ("read", {"TIMEOUT": {"read": STOP}}, "a tool has one effect"),
    ("read", {"TIMEOUT": ()}, "end in 'stop'"),
    ("read", {"TIMEOUT": ("retry",)}, "end in 'stop'"),
    ("read", {"TIMEOUT": ("again", "stop")}, "words of"),
    ("read", {"TIMEOUT": ("stop", "retry", "stop")}, "names an action twice"),
    ("read", "TIMEOUT", "a mapping"),
    ("read", [("stop",)], "a mapping"),
    ("write", {"UNCERTAIN": ("retry", "stop")}, "only its confirmation may lead to a repeat"),
    ("write", {"UNCERTAIN_RESULT": ("retry", "stop")}, "only its confirmation may lead to a repeat"),
    ("write", {"UNCERTAIN_RESULT": ("confirm", "retry", "stop")}, "only its confirmation"),
    ("destructive", {"AVAILABILITY": ("retry", "stop")}, "repeats a destructive"),
    ("destructive", {"TIMEOUT": ("fallback", "stop")}, "repeats a destructive"),
    ("destructive", {"UNCERTAIN": ("wait", "stop")}, "only its confirmation"),
    ("read", {"TIMEOUT": ("fallback", "stop")}, "name a tool with fallback="),
    ("write", {"ENVIRONMENT": ("wait", "stop")}, "give ready="),
    ("read", {"TIMEOUT": ("confirm", "stop")}, "a read changes nothing"),
]


@pytest.mark.parametrize("declare", [decorated, registered])
@pytest.mark.parametrize(("effect", "own", "hint"), REFUSED, ids=str)
def test_what_cannot_be_is_refused_where_the_tool_is_declared(
    guard: Guard, declare: Callable[..., None], effect: str, own: Any, hint: str
) -> None:
    with pytest.raises(ConfigurationError, match="recovery") as refused:
        declare(guard, effect, recovery=own)
    assert hint in str(refused.value)
    assert guard.tools == ()


@pytest.mark.parametrize("retry", [1, Retry(attempts=1)])
def test_a_plan_that_retries_needs_attempts(guard: Guard, retry: Any) -> None:
    with pytest.raises(ConfigurationError, match="allows one attempt"):
        decorated(guard, "read", retry=retry, recovery={"TIMEOUT": ("retry", "stop")})


@pytest.mark.parametrize("name", ["TIMEOUTT", "timeout", "Timeout", "sold out", 5, None])
def test_the_guards_table_refuses_the_same_names(name: Any) -> None:
    with pytest.raises(ConfigurationError, match="no row"):
        DEFAULT_TABLE.replacing(name, {"read": STOP})


def test_every_class_and_type_can_be_named_as_it_is_or_by_its_word(guard: Guard) -> None:
    own = {**dict.fromkeys(FailureClass, ["stop"]), **dict.fromkeys(ErrorType, STOP), "SOLD_OUT": STOP}
    decorated(guard, "destructive", recovery=own)
    kept = guard.tools[0].recovery
    assert {type(name) for name in kept} == {str}
    assert set(kept.values()) == {STOP}
    assert len(kept) == len(own)


def test_none_is_no_plan_and_a_tool_does_not_follow_what_it_was_made_of(guard: Guard) -> None:
    own = {"TIMEOUT": ["stop"]}
    registered(guard, "write", recovery=own)
    own["TIMEOUT"].insert(0, "retry")
    own["RATE_LIMITED"] = []
    assert guard.tools[0].recovery == {"TIMEOUT": STOP}
    guard.register(Tool(name="other", parameters=ANY, fn=print, recovery=None))  # type: ignore[arg-type]
    assert guard.tools[1].recovery == {}


@pytest.mark.parametrize("effect", EFFECTS)
def test_no_own_plan_leaves_the_guards_table(effect: Any) -> None:
    for error_type in ErrorType:
        failure = Failure.of(error_type, "x", "execute")
        assert GUARD.plan_for(failure, effect, {}) == GUARD.plan_for(failure, effect)


# -- what they lead to ---------------------------------------------------------------------------------------------------


def test_one_tool_stops_where_the_others_try_again(guard: Guard, mode: Mode) -> None:
    once, often = Script(TimeoutError(), "late"), Script(TimeoutError(), "late")
    add(guard, mode, once, "once", effect="read", recovery={"TIMEOUT": STOP})
    add(guard, mode, often, "often", effect="read")
    first, second = mode.call(guard, "once", {}), mode.call(guard, "often", {})
    assert (first.error_type, len(once.calls)) == ("TIMEOUT", 1)
    assert (second.data, len(often.calls)) == ("late", 2)


def test_one_tool_tries_again_where_the_guard_forbids_it(tmp_path: Path, mode: Mode) -> None:
    table = DEFAULT_TABLE.replacing("AVAILABILITY", {"write": STOP}).replacing("TIMEOUT", {"write": STOP})
    refused = ConnectionRefusedError(111, "Connection refused")
    mine, theirs = Script(refused, Effect("done")), Script(refused, Effect("done"))
    with Guard(store=MemoryStore(), evidence_dir=tmp_path, recovery=table) as guard:
        add(guard, mode, mine, "mine", recovery={"AVAILABILITY": ("retry", "stop")})
        add(guard, mode, theirs, "theirs")
        with guard.task("put"):
            assert mode.call(guard, "mine", {}).attempts == len(mine.calls)
            assert mode.call(guard, "theirs", {}).attempts == 1
    assert len(theirs.effects) == 0


def test_a_code_of_ones_own_may_have_a_plan(guard: Guard, mode: Mode) -> None:
    script, other = Script({"left": 0}), Script("from the other shop")
    add(guard, mode, other, "other", effect="read")
    add(
        guard, mode, script, "shop", effect="read", fallback=("other",), recovery={"SOLD_OUT": ELSEWHERE},
        failed_when=lambda answer: Violation("SOLD_OUT", "sold out") if answer["left"] == 0 else None,
    )  # fmt: skip
    result = mode.call(guard, "shop", {})
    assert (result.data, result.answered_by) == ("from the other shop", "other")


def test_an_uncertain_write_that_is_only_to_stop_is_neither_confirmed_nor_sent_again(guard: Guard, mode: Mode) -> None:
    asked: list[Any] = []
    script = Script(Effect(TimeoutError()))

    def confirm(call: Any) -> Any:
        asked.append(call)
        return Applied("there")

    add(guard, mode, script, confirm=confirm, conditional=True, recovery={"UNCERTAIN": STOP})
    with guard.task("put"):
        result = mode.call(guard, "tool", {})
    assert (result.error_type, result.effect, result.next_action) == ("UNCERTAIN_RESULT", "unknown", "confirm_state")
    assert (len(script.effects), asked) == (1, [])


def test_no_own_plan_sends_a_write_twice_that_may_have_been_applied(guard: Guard, mode: Mode) -> None:
    script, other = Script(Effect(ConnectionResetError())), Script(Effect("elsewhere"))
    add(guard, mode, other, "other")
    own = dict.fromkeys([*FailureClass], ("retry", "wait", "switch", "fallback", "stop")) | {"UNCERTAIN": STOP}
    add(guard, mode, script, recovery=own, fallback=("other",), ready=lambda call: True, retry=5)
    with guard.task("put"):
        result = mode.call(guard, "tool", {})
    assert (result.effect, len(script.effects), len(other.effects)) == ("unknown", 1, 0)


def test_a_real_file_is_written_as_often_as_the_tools_plan_says(guard: Guard, tmp_path: Path) -> None:
    """The same failing append under two plans: the file counts how often each was done."""
    names = ("default", "stopping", "async_stopping")
    books = {name: tmp_path / f"{name}.txt" for name in names}

    def append(name: str) -> None:
        with books[name].open("a", encoding="utf-8") as file:
            file.write("line\n")
        raise ConnectionResetError("after the line was written")

    @guard.tool(effect="idempotent_write")
    def default() -> None:
        append("default")

    @guard.tool(effect="idempotent_write", recovery={"UNCERTAIN": ("stop",), "AVAILABILITY": ("stop",)})
    def stopping() -> None:
        append("stopping")

    @guard.tool(effect="idempotent_write", recovery={"UNCERTAIN": ("stop",), "AVAILABILITY": ("stop",)})
    async def async_stopping() -> None:
        append("async_stopping")

    with guard.task("append"):
        default()
        results = [stopping(), asyncio.run(async_stopping())]
    lines = {name: len(book.read_text(encoding="utf-8").splitlines()) for name, book in books.items()}
    assert lines == {"default": 3, "stopping": 1, "async_stopping": 1}
    assert [result.attempts for result in results] == [1, 1]
