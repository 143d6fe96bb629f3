"""The seams of step 4: what rules, constraints and approvers may be and answer, and when they are asked."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fcguard import (
    ConfirmBy,
    FailureClass,
    Fallback,
    Guard,
    MemoryStore,
    Violation,
)
from fcguard.errors import ColourError, ConfigurationError
from fcguard.rules.base import all_of, any_of, not_, when
from tests.conftest import Hang, Mode, Script, add


class Counting:
    """A constraint that counts, and refuses when it is told to."""

    def __init__(self, name: str = "counting", *answers: Any) -> None:
        self.name, self.answers = name, list(answers)
        self.admitted: list[int] = []
        self.settled: list[Any] = []

    def admit(self, call: Any, now: float) -> Any:
        answer = self.answers.pop(0) if self.answers else None
        if isinstance(answer, BaseException):
            raise answer
        if answer is None:
            self.admitted.append(len(call.attempts))
        return answer

    def settle(self, call: Any, attempt: Any, now: float) -> None:
        self.settled.append(None if attempt is None else (attempt.number, attempt.error_type))


class AsyncCounting(Counting):
    async def admit(self, call: Any, now: float) -> Any:  # type: ignore[override]
        await asyncio.sleep(0)
        return super().admit(call, now)


def counting(mode: Mode, *answers: Any, name: str = "counting") -> Counting:
    return (AsyncCounting if mode.is_async_tool else Counting)(name, *answers)


# -- rules ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answer", "is_refused"),
    [(None, False), (False, True), (True, True), ("no", True), (0, True), ([], True), (Violation, True)],
)
def test_only_nothing_and_a_violation_are_answers_of_a_rule(
    guard: Guard, mode: Mode, answer: Any, is_refused: bool
) -> None:
    script = Script("fine")
    add(guard, mode, script, effect="read", rules=(lambda call: answer,))
    result = mode.call(guard, "tool", {})
    assert result.success is not is_refused
    if is_refused:
        assert (result.error_type, result.failure_class, result.attempts) == ("RULE_FAILED", "PLATFORM", 0)
        assert (result.next_action, script.calls) == ("escalate_to_platform", [])


@pytest.mark.parametrize("error", [ValueError("secret=abcdef"), StopIteration(), KeyError("x"), RecursionError()])
def test_a_rule_that_raises_refuses_the_call(guard: Guard, mode: Mode, error: Exception) -> None:
    def rule(call: Any) -> Any:
        raise error

    script = Script("fine")
    add(guard, mode, script, effect="read", rules=(rule,))
    result = mode.call(guard, "tool", {})
    assert (result.error_type, result.attempts, script.calls) == ("RULE_FAILED", 0, [])
    assert "rule" in result.message
    assert "abcdef" not in result.message


def test_rules_are_asked_in_order_and_the_first_refusal_ends_it(tmp_path: Any, mode: Mode) -> None:
    asked: list[str] = []

    def rule(name: str, answer: Any = None) -> Any:
        def check(call: Any) -> Any:
            asked.append(name)
            return answer

        return check

    with Guard(store=MemoryStore(), evidence_dir=tmp_path, rules=[rule("guard 1"), rule("guard 2")]) as guard:
        add(guard, mode, Script("x"), rules=(rule("own 1"), rule("own 2", Violation("NO", "no")), rule("own 3")))
        add(guard, mode, Script("y"), "other")
        with guard.task("order", allow={"tool"}):
            assert mode.call(guard, "tool", {}).error_type == "NO"
        assert asked == ["guard 1", "guard 2", "own 1", "own 2"]
        asked.clear()
        with guard.task("order", allow={"other"}):
            assert mode.call(guard, "tool", {}).error_type == "TOOL_NOT_ALLOWED"
        assert asked == []


def test_an_async_rule_serves_an_async_tool_in_both_callers(guard: Guard, mode: Mode) -> None:
    async def rule(call: Any) -> Any:
        await asyncio.sleep(0)
        return Violation("NOT_PAID", "pay first", "ask_user") if call.arguments["id"] == 1 else None

    if not mode.is_async_tool:
        with pytest.raises(ColourError):
            add(guard, mode, Script("x"), effect="read", rules=(rule,))
        return
    add(guard, mode, Script("fine"), effect="read", rules=(rule,))
    refused, passed = mode.call(guard, "tool", {"id": 1}), mode.call(guard, "tool", {"id": 2})
    assert (refused.error_type, refused.failure_class, refused.next_action) == ("NOT_PAID", "PARAMETER", "ask_user")
    assert passed.data == "fine"


def test_a_rule_that_is_not_async_but_answers_an_awaitable_is_waited_for(guard: Guard, mode: Mode) -> None:
    async def answer() -> Any:
        await asyncio.sleep(0)
        return Violation("NO", "no")

    add(guard, mode, Script("x"), effect="read", rules=(lambda call: answer(),))
    assert mode.call(guard, "tool", {}).error_type == "NO"


def test_a_rule_may_look_things_up_through_the_guard(guard: Guard, mode: Mode) -> None:
    guard.tool(lambda: "paid", name="status", effect="read")
    seen: list[Any] = []

    def rule(call: Any) -> Any:
        seen.append(guard.call("status"))
        return None if seen[-1].data == "paid" else Violation("NOT_PAID", "pay first")

    add(guard, mode, Script("fine"), rules=(rule,))
    with guard.task("look"):
        assert mode.call(guard, "tool", {}).success
    assert seen[0].success


def test_rules_are_asked_once_however_often_the_tool_is_tried(guard: Guard, mode: Mode) -> None:
    asked: list[int] = []
    script = Script(ConnectionResetError(), ConnectionResetError(), "fine")
    add(guard, mode, script, effect="read", rules=(lambda call: asked.append(1),))
    assert mode.call(guard, "tool", {}).attempts == 3
    assert asked == [1]


def test_a_violation_carries_everything_into_the_envelope(guard: Guard, mode: Mode) -> None:
    violation = Violation("FROZEN", "frozen until noon", "retry_later", FailureClass.ENVIRONMENT, 3600.0)
    add(guard, mode, Script("x"), effect="read", rules=(lambda call: violation,))
    result = mode.call(guard, "tool", {})
    assert (result.error_type, result.message, result.next_action) == ("FROZEN", "frozen until noon", "retry_later")
    assert (result.failure_class, result.retry_after, result.retryable) == ("ENVIRONMENT", 3600.0, True)
    assert result.for_model().count("3600") == 1


def test_combinators_through_a_guard(guard: Guard, mode: Mode) -> None:
    def is_big(call: Any) -> Any:
        return None if call.arguments["n"] > 10 else Violation("SMALL", "too small")

    def is_even(call: Any) -> Any:
        return None if call.arguments["n"] % 2 == 0 else Violation("ODD", "odd")

    rules = {
        "both": all_of(is_big, is_even),
        "either": any_of(is_big, is_even),
        "neither": all_of(not_(is_big), not_(is_even)),
        "sometimes": when(lambda call: call.arguments["n"] > 0, is_even),
    }
    for name, rule in rules.items():
        add(guard, mode, Script("ok"), name, effect="read", rules=(rule,))
    passed = {name: [n for n in (-3, 3, 4, 11, 12) if mode.call(guard, name, {"n": n}).success] for name in rules}
    assert passed == {"both": [12], "either": [4, 11, 12], "neither": [-3, 3], "sometimes": [-3, 4, 12]}


# -- constraints --------------------------------------------------------------------------------------------------------


def test_constraints_are_settled_once_on_success(guard: Guard, mode: Mode) -> None:
    first, second = counting(mode), counting(mode)
    add(guard, mode, Script("x"), effect="read", constraints=(first, second))
    assert mode.call(guard, "tool", {}).success
    for one in (first, second):
        assert (one.admitted, one.settled) == ([0], [(1, None)])


def test_constraints_are_asked_before_every_attempt_and_hear_of_each(guard: Guard, mode: Mode) -> None:
    one = counting(mode)
    script = Script(ConnectionResetError(), ConnectionResetError(), "fine")
    add(guard, mode, script, effect="read", constraints=(one,))
    assert mode.call(guard, "tool", {}).attempts == 3
    assert one.admitted == [0, 1, 2]
    assert one.settled == [(1, "CONNECTION_FAILED"), (2, "CONNECTION_FAILED"), (3, None)]


def test_a_refusal_of_a_later_constraint_gives_the_earlier_ones_back(guard: Guard, mode: Mode) -> None:
    first, second, third = counting(mode), counting(mode, Violation("RATE_LIMITED", "wait")), counting(mode)
    script = Script("x")
    add(guard, mode, script, effect="read", constraints=(first, second, third))
    result = mode.call(guard, "tool", {})
    assert (result.error_type, result.failure_class, result.attempts) == ("RATE_LIMITED", "AVAILABILITY", 0)
    assert (first.settled, second.settled, third.admitted, third.settled) == ([None], [], [], [])
    assert script.calls == []


@pytest.mark.parametrize("answer", [ValueError("x"), "nonsense", False, StopIteration()])
def test_a_constraint_that_fails_refuses_the_call(guard: Guard, mode: Mode, answer: Any) -> None:
    first, second = counting(mode), counting(mode, answer)
    add(guard, mode, Script("x"), effect="read", constraints=(first, second))
    result = mode.call(guard, "tool", {})
    assert (result.error_type, result.attempts, first.settled) == ("RULE_FAILED", 0, [None])
    assert "'counting'" in result.message


def test_a_constraint_that_refuses_a_retry_leaves_the_failure_of_the_attempt(guard: Guard, mode: Mode) -> None:
    one = counting(mode, None, Violation("BUDGET_EXHAUSTED", "spent"))
    script = Script(ConnectionResetError())
    add(guard, mode, script, effect="read", constraints=(one,))
    result = mode.call(guard, "tool", {})
    assert (result.error_type, result.attempts) == ("CONNECTION_FAILED", 1)
    assert result.flags == ("stopped_by:BUDGET_EXHAUSTED",)
    assert one.settled == [(1, "CONNECTION_FAILED")]


def test_a_replayed_call_gives_the_admission_back(guard: Guard, mode: Mode) -> None:
    one = counting(mode)
    add(guard, mode, Script("x"), business_key=("key",), constraints=(one,))
    for _ in range(2):
        with guard.task("replay", task_id="t"):
            result = mode.call(guard, "tool", {"key": 1})
    assert result.outcome_basis == "replayed"
    assert one.settled == [(1, None), None]


def test_a_cancelled_call_settles_its_constraints(guard: Guard) -> None:
    one = Counting()
    script = Script(Hang("x"))
    add(guard, Mode("async"), script, constraints=(one,))

    async def play() -> None:
        task = asyncio.ensure_future(guard.acall("tool", {}))
        while not script.calls:
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with guard.task("cancel"):
        asyncio.run(play())
    assert one.settled == [(1, "CANCELLED")]


def test_a_call_cancelled_while_a_constraint_decides_gives_the_others_back(guard: Guard) -> None:
    first = Counting()
    asked = asyncio.Event()

    class Slow(Counting):
        async def admit(self, call: Any, now: float) -> Any:  # type: ignore[override]
            asked.set()
            await asyncio.sleep(60)

    add(guard, Mode("async"), Script("x"), constraints=(first, Slow()))

    async def play() -> None:
        task = asyncio.ensure_future(guard.acall("tool", {}))
        await asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    with guard.task("cancel"):
        asyncio.run(play())
    assert first.settled == [None]


def test_a_constraint_that_fails_to_hear_is_flagged_and_the_others_hear(guard: Guard, mode: Mode) -> None:
    class Deaf(Counting):
        def settle(self, call: Any, attempt: Any, now: float) -> None:
            raise ValueError

    other = counting(mode)
    add(guard, mode, Script("x"), effect="read", constraints=(Deaf("deaf"), other))
    result = mode.call(guard, "tool", {})
    assert (result.success, result.flags, other.settled) == (True, ("constraint_failed:deaf",), [(1, None)])


def test_a_plain_callable_is_a_constraint_too(guard: Guard, mode: Mode) -> None:
    answers = [None, Violation("NO", "not now")]
    add(guard, mode, Script("x"), effect="read", constraints=(lambda call: answers.pop(0),))
    assert mode.call(guard, "tool", {}).success
    assert mode.call(guard, "tool", {}).error_type == "NO"


def test_denials_are_no_failures_to_a_constraint(guard: Guard, mode: Mode) -> None:
    one = counting(mode)
    parameters = {"type": "object", "properties": {"n": {"type": "integer"}}, "additionalProperties": False}
    add(guard, mode, Script("x"), effect="read", parameters=parameters, constraints=(one,))
    assert mode.call(guard, "tool", {"n": "many"}).attempts == 0
    assert (one.admitted, one.settled) == ([], [])


# -- what cannot serve is refused when it is declared ------------------------------------------------------------------


async def aio(*_: Any) -> Any:
    return None


class HalfConstraint:
    def admit(self, call: Any, now: float) -> None: ...


@pytest.mark.parametrize(
    ("options", "error", "hint"),
    [
        ({"failed_when": aio}, ColourError, "always sync"),
        ({"classifiers": (aio,)}, ColourError, "always sync"),
        ({"normalize": {"key": aio}}, ColourError, "always sync"),
        ({"confirm": ConfirmBy("look", applied=aio)}, ColourError, "always sync"),
        ({"confirm": ConfirmBy("look", applied=bool, arguments=aio)}, ColourError, "always sync"),
        ({"fallback": (Fallback("other", arguments=aio),)}, ColourError, "always sync"),
        ({"constraints": ("slow",)}, ConfigurationError, "admit"),
        ({"constraints": (HalfConstraint(),)}, ConfigurationError, "settle"),
        ({"constraints": (Counting,)}, ConfigurationError, "no constraint"),
        ({"inline": True, "timeout": 1.0}, ConfigurationError, "leave one out"),
    ],
)
@pytest.mark.parametrize("is_async_tool", [False, True])
def test_collaborators_that_serve_no_tool(
    guard: Guard, options: dict[str, Any], error: type[Exception], hint: str, is_async_tool: bool
) -> None:
    async def atool(key: str = "") -> None: ...
    def tool(key: str = "") -> None: ...

    with pytest.raises(error, match=hint):
        guard.tool(atool if is_async_tool else tool, name="tool", **options)
    assert guard.tools == ()


def test_an_async_constraint_cannot_serve_a_sync_tool(guard: Guard) -> None:
    with pytest.raises(ColourError, match="make it sync"):
        guard.tool(lambda: None, name="tool", constraints=[AsyncCounting()])
    assert guard.tools == ()


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"rules": ["only reads"]}, ConfigurationError),
        ({"rules": [all_of]}, ConfigurationError),
        ({"constraints": [3]}, ConfigurationError),
        ({"classifiers": ["x"]}, ConfigurationError),
        ({"classifiers": [aio]}, ColourError),
    ],
)
def test_a_guard_refuses_collaborators_that_are_none(options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        Guard(store=MemoryStore(), **options)


def test_what_confirms_or_answers_for_a_read_may_only_read_whichever_comes_first(guard: Guard) -> None:
    guard.tool(lambda: None, name="writes")
    with pytest.raises(ConfigurationError, match="may only read"):
        guard.tool(lambda: None, name="one", confirm=ConfirmBy("writes", applied=bool))
    with pytest.raises(ConfigurationError, match="may only read"):
        guard.tool(lambda: None, name="two", effect="read", fallback=["writes"])
    guard.tool(lambda: None, name="three", confirm=ConfirmBy("later", applied=bool))
    guard.tool(lambda: None, name="four", effect="read", fallback=[Fallback("replica")])
    for name in ("later", "replica"):
        with pytest.raises(ConfigurationError, match="effect='read'"):
            guard.tool(lambda: None, name=name)
    assert [tool.name for tool in guard.tools] == ["writes", "three", "four"]
    guard.tool(lambda: None, name="five", fallback=["writes"])


@pytest.mark.parametrize("answer", [None, "async"])
def test_a_confirm_by_predicate_that_cannot_tell(guard: Guard, mode: Mode, answer: Any) -> None:
    async def later() -> bool:
        return True

    pending: list[Any] = []

    def applied(data: Any) -> Any:
        if answer is None:
            return None
        pending.append(later())
        return pending[-1]

    add(guard, mode, Script("found"), "look", effect="read")
    add(guard, mode, Script(TimeoutError()), confirm=ConfirmBy("look", applied=applied), settle=1.0)
    with guard.task("write"):
        result = mode.call(guard, "tool", {})
    for one in pending:
        one.close()
    assert (result.success, result.effect, result.next_action) == (False, "unknown", "confirm_state")


@pytest.mark.parametrize("is_found", [True, False])
def test_confirm_by_maps_arguments_and_takes_a_failed_read_for_no_answer(
    guard: Guard, mode: Mode, is_found: bool
) -> None:
    look = Script({"id": 1} if is_found else ConnectionRefusedError())
    add(guard, mode, look, "look", effect="read", retry=1)
    confirm = ConfirmBy("look", applied=bool, arguments=lambda arguments: {"key": arguments["id"]})
    add(guard, mode, Script(TimeoutError()), confirm=confirm, settle=1.0)
    with guard.task("write"):
        result = mode.call(guard, "tool", {"id": 1})
    assert look.calls[0] == {"key": 1}
    assert result.success is is_found
    assert result.effect == ("applied" if is_found else "unknown")
