"""What happens after a failure: the decision that matters most, in every colour."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from fcguard import (
    Applied,
    AppliedByOther,
    ConfirmBy,
    Fallback,
    Guard,
    Inconclusive,
    MemoryStore,
    NotApplied,
    Retry,
    Tool,
    Violation,
)
from fcguard.model.states import CallState
from fcguard.testing.clock import FakeClock
from tests.conftest import ANY_OBJECT, Effect, Hang, Mode, Script, add
from tests.ledger_reading import LIMIT, eventually

ONE_RETRY = Retry(attempts=2)


def state_of(guard: Guard, result: Any) -> CallState:
    stored = guard.store.get(result.request_id)
    assert stored is not None
    return stored.state


# -- the case that decides everything ------------------------------------------------------------------------------


def test_a_timed_out_write_that_was_committed_is_confirmed_and_never_repeated(guard: Guard, mode: Mode) -> None:
    script = Script(Effect(TimeoutError()))
    add(
        guard,
        mode,
        script,
        "create_order",
        confirm=lambda call: Applied({"order": 1}) if script.effects else NotApplied(),
    )
    with guard.task("order"):
        result = mode.call(guard, "create_order", {"order_id": "A1"})
    assert result.success
    assert result.outcome_basis == "confirmed"
    assert result.effect == "applied"
    assert result.data == {"order": 1}
    assert (result.attempts, len(script.effects)) == (1, 1)
    assert state_of(guard, result) is CallState.SUCCEEDED


def test_a_write_that_is_proved_lost_is_sent_once_more(guard: Guard, mode: Mode) -> None:
    script = Script(TimeoutError(), Effect({"order": 1}))
    add(guard, mode, script, confirm=lambda call: Applied() if script.effects else NotApplied(), settle=5.0)
    with guard.task("order"):
        result = mode.call(guard, "tool", {})
    assert result.success
    assert result.outcome_basis == "returned"
    assert (result.attempts, len(script.effects)) == (2, 1)


def test_the_second_reading_comes_after_the_settle_window(guard: Guard, mode: Mode, clock: FakeClock) -> None:
    script = Script(TimeoutError(), Effect("done"))
    read_at: list[float] = []

    def confirm(call: Any) -> Any:
        read_at.append(clock.monotonic())
        return NotApplied()

    add(guard, mode, script, confirm=confirm, settle=30.0)
    with guard.task("order"):
        assert mode.call(guard, "tool", {}).success
    assert len(read_at) == 2
    assert read_at[1] - read_at[0] >= 29.9


def test_a_request_that_lands_within_the_settle_window_is_found(guard: Guard, mode: Mode) -> None:
    script = Script(TimeoutError())
    answers = [NotApplied(), Applied("landed late")]
    add(guard, mode, script, confirm=lambda call: answers.pop(0), settle=5.0)
    with guard.task("order"):
        result = mode.call(guard, "tool", {})
    assert result.success
    assert result.data == "landed late"
    assert result.attempts == 1


@pytest.mark.parametrize(
    ("options", "is_sent_again"),
    [
        ({}, False),
        ({"settle": 1.0}, True),
        ({"idempotency_key": True}, True),
        ({"conditional": True}, True),
    ],
)
def test_a_repeat_needs_a_licence(guard: Guard, mode: Mode, options: dict[str, Any], is_sent_again: bool) -> None:
    script = Script(TimeoutError(), Effect("done"))
    add(guard, mode, script, confirm=lambda call: NotApplied(), **options)
    with guard.task("order"):
        result = mode.call(guard, "tool", {})
    assert result.success is is_sent_again
    assert len(script.calls) == (2 if is_sent_again else 1)
    if not is_sent_again:
        assert (result.error_type, result.next_action, result.retryable) == ("UNCERTAIN_RESULT", "confirm_state", False)
        assert state_of(guard, result) is CallState.PARKED


@pytest.mark.parametrize(
    "answer",
    [Inconclusive("replica lag"), AppliedByOther(reason="no author"), "yes", None, True],
)
def test_what_is_not_a_clear_answer_parks_the_call(guard: Guard, mode: Mode, answer: Any) -> None:
    script = Script(TimeoutError())
    add(guard, mode, script, confirm=lambda call: answer, settle=1.0)
    with guard.task("order"):
        result = mode.call(guard, "tool", {})
    assert (result.success, result.effect, result.next_action) == (False, "unknown", "confirm_state")
    assert len(script.calls) == 1
    assert state_of(guard, result) is CallState.PARKED


def test_a_confirmation_that_fails_is_no_answer(guard: Guard, mode: Mode) -> None:
    script = Script(TimeoutError())

    def confirm(call: Any) -> Any:
        raise ConnectionError("the replica is down too")

    add(guard, mode, script, confirm=confirm, settle=1.0)
    with guard.task("order"):
        result = mode.call(guard, "tool", {})
    assert (result.effect, len(script.calls)) == ("unknown", 1)


def test_a_write_without_confirm_is_never_repeated(guard: Guard, mode: Mode) -> None:
    script = Script(ConnectionResetError())
    add(guard, mode, script, retry=5)
    with guard.task("order"):
        result = mode.call(guard, "tool", {})
    assert (result.error_type, result.effect, result.retryable, len(script.calls)) == (
        "UNCERTAIN_RESULT",
        "unknown",
        False,
        1,
    )


def test_an_open_write_blocks_the_same_effect_until_it_is_resolved(guard: Guard, mode: Mode) -> None:
    script = Script(TimeoutError())
    add(guard, mode, script, business_key=("invoice_id",))
    with guard.task("pay"):
        first = mode.call(guard, "tool", {"invoice_id": "7", "memo": "March"})
        second = mode.call(guard, "tool", {"invoice_id": "7", "memo": "the one for March"})
    assert first.error_type == second.error_type == "UNCERTAIN_RESULT"
    assert second.attempts == 0
    assert first.request_id in second.message
    assert len(script.calls) == 1


def test_the_limit_of_attempts_ends_a_lost_write_as_not_applied(guard: Guard, mode: Mode) -> None:
    script = Script(TimeoutError())
    add(guard, mode, script, confirm=lambda call: NotApplied(), settle=1.0)
    with guard.task("order"):
        result = mode.call(guard, "tool", {})
    assert (result.error_type, result.effect, result.attempts, result.retryable) == ("TIMEOUT", "not_applied", 2, True)
    assert state_of(guard, result) is CallState.FAILED


def test_a_destructive_call_is_confirmed_but_never_repeated(guard: Guard, mode: Mode) -> None:
    script = Script(TimeoutError())
    add(guard, mode, script, effect="destructive", approval="never", confirm=lambda call: NotApplied(), settle=1.0)
    with guard.task("drop"):
        result = mode.call(guard, "tool", {})
    assert (result.effect, len(script.calls)) == ("not_applied", 1)


# -- confirmations are recorded reads --------------------------------------------------------------------------------


def test_reads_made_by_a_confirmation_are_recorded_child_calls(guard: Guard, mode: Mode) -> None:
    write, read = Script(Effect(TimeoutError())), Script({"id": "A1"})
    add(guard, mode, read, "query_order", effect="read")
    add(guard, mode, write, "create_order", confirm=ConfirmBy("query_order", applied=lambda data: data is not None))
    with guard.task("order", allow={"create_order"}, task_id="t"):
        result = mode.call(guard, "create_order", {"order_id": "A1"})
    assert (result.outcome_basis, result.data) == ("confirmed", {"id": "A1"})
    children = [call for call in guard.store.calls() if call.identity.purpose == "confirm"]
    assert [(call.identity.tool, call.identity.parent_id) for call in children] == [("query_order", result.request_id)]


def test_a_confirmation_cannot_write(guard: Guard) -> None:
    write, other = Script(TimeoutError()), Script("written")
    guard.register(Tool(name="other", parameters=ANY_OBJECT, fn=other.sync))

    def confirm(call: Any) -> Any:
        return Applied(guard.call("other", {}).unwrap())

    guard.register(Tool(name="tool", parameters=ANY_OBJECT, fn=write.sync, confirm=confirm))
    with guard.task("order"):
        result = guard.call("tool", {})
    assert (result.effect, other.calls) == ("unknown", [])


# -- late results -----------------------------------------------------------------------------------------------------


def test_the_late_result_of_an_abandoned_thread_is_consulted_first(guard: Guard, clock: FakeClock) -> None:
    script = Script(Hang(Effect("late but done")))
    asked: list[str] = []

    def confirm(call: Any) -> Any:
        asked.append("confirm")
        script.release.set()
        while call.attempts[-1].late.is_running:
            clock.sleep(0)
        return NotApplied()

    guard.register(Tool(name="tool", parameters=ANY_OBJECT, fn=script.sync, timeout=LIMIT, confirm=confirm, settle=1.0))
    with guard.task("order"):
        result = guard.call("tool", {})
    assert (result.success, result.outcome_basis, result.data) == (True, "late", "late but done")
    assert (len(asked), len(script.effects)) == (1, 1)


@pytest.mark.parametrize(
    ("age", "lifetime", "attempts"), [(90_000.0, 86_400.0, 1), (10.0, 86_400.0, 2), (90_000.0, None, 2)]
)
@pytest.mark.parametrize("confirm", [None, lambda call: NotApplied()])
def test_a_key_that_the_server_has_forgotten_is_no_licence(
    guard: Guard, mode: Mode, clock: FakeClock, confirm: Any, age: float, lifetime: float | None, attempts: int
) -> None:
    def old(outcome: Any, call: Any) -> None:
        if len(script.calls) == 1:
            clock.advance(age)  # the first attempt took this long

    script = Script(TimeoutError(), "sent again")
    options: dict[str, Any] = {"idempotency_key": True, "idempotency_lifetime": lifetime, "classifiers": (old,)}
    add(guard, mode, script, confirm=confirm, **options)
    with guard.task("pay"):
        result = mode.call(guard, "tool", {})
    assert (len(script.calls), result.success) == (attempts, attempts == 2)
    if attempts == 1:
        assert (result.effect, state_of(guard, result)) == ("unknown", CallState.PARKED)
        assert confirm is None or "older than the server remembers it" in result.message


class WatchedClock(FakeClock):
    """Lets something happen at the end of a sleep."""

    def __init__(self) -> None:
        super().__init__()
        self.on_sleep: Callable[[], None] = lambda: None

    def advance(self, seconds: float) -> None:
        super().advance(seconds)
        self.on_sleep()


@pytest.mark.parametrize("caller", ["call", "acall"])
def test_the_settle_window_begins_when_the_abandoned_function_ends(tmp_path: Any, caller: str) -> None:
    """It sends just before the window that began with the timeout is over, and the request lands later."""
    clock, release, calls = WatchedClock(), threading.Event(), []
    sent_at: list[float] = []
    seen: list[Any] = []

    def send(**_: Any) -> str:
        calls.append(1)
        if len(calls) == 1:
            release.wait(60)
            sent_at.append(clock.monotonic())
            raise ConnectionResetError("after it was sent")
        return "sent twice"

    def confirm(call: Any) -> Any:
        seen.append(call)
        has_landed = sent_at and clock.monotonic() >= sent_at[0] + 0.6
        return Applied("landed") if has_landed else NotApplied()

    def end_the_function() -> None:
        release.set()
        eventually(lambda: not seen[0].attempts[0].late.is_running)

    clock.on_sleep = end_the_function
    with Guard(store=MemoryStore(), evidence_dir=tmp_path, clock=clock) as guard:
        guard.register(Tool(name="tool", parameters=ANY_OBJECT, fn=send, timeout=LIMIT, confirm=confirm, settle=1.0))
        with guard.task("order"):
            result = guard.call("tool", {}) if caller == "call" else asyncio.run(guard.acall("tool", {}))
    assert (result.success, result.outcome_basis, result.data, len(calls)) == (True, "confirmed", "landed", 1)


def test_a_thread_that_still_runs_forbids_the_repeat(guard: Guard) -> None:
    script = Script(Hang("much later"))
    guard.register(
        Tool(
            name="tool",
            parameters=ANY_OBJECT,
            fn=script.sync,
            timeout=LIMIT,
            confirm=lambda call: NotApplied(),
            settle=1.0,
        )
    )
    with guard.task("order"):
        result = guard.call("tool", {})
    script.release.set()
    assert (result.effect, len(script.calls)) == ("unknown", 1)
    assert "still runs" in result.message


# -- retries of what is safe to retry ---------------------------------------------------------------------------------


def test_a_read_is_retried(guard: Guard, mode: Mode, clock: FakeClock) -> None:
    script = Script(ConnectionResetError(), ConnectionResetError(), "fine")
    add(guard, mode, script, effect="read")
    result = mode.call(guard, "tool", {})
    assert (result.success, result.attempts, result.data) == (True, 3, "fine")
    assert len(clock.slept) == 2


def test_a_read_gives_up_after_its_attempts_and_may_be_sent_again(guard: Guard, mode: Mode) -> None:
    script = Script(ConnectionResetError())
    add(guard, mode, script, effect="read", retry=2)
    result = mode.call(guard, "tool", {})
    assert (result.success, result.attempts, result.retryable, result.effect) == (False, 2, True, "none")


def test_an_idempotent_write_is_retried_without_confirmation(guard: Guard, mode: Mode) -> None:
    script = Script(ConnectionResetError(), Effect("done"))
    add(guard, mode, script, effect="idempotent_write")
    with guard.task("put"):
        result = mode.call(guard, "tool", {})
    assert (result.success, result.attempts, len(script.effects)) == (True, 2, 1)


def test_a_write_that_never_left_is_sent_again(guard: Guard, mode: Mode) -> None:
    script = Script(ConnectionRefusedError(111, "refused"), Effect("done"))
    add(guard, mode, script, retry=ONE_RETRY)
    with guard.task("order"):
        result = mode.call(guard, "tool", {})
    assert (result.success, result.attempts, len(script.effects)) == (True, 2, 1)


def test_a_write_that_says_not_applied_is_believed(guard: Guard, mode: Mode) -> None:
    script = Script(NotApplied("the broker was busy"), Effect("done"))
    add(guard, mode, script)
    with guard.task("order"):
        result = mode.call(guard, "tool", {})
    assert (result.success, result.effect, len(script.calls), len(script.effects)) == (True, "applied", 2, 1)


def test_a_write_that_keeps_saying_not_applied_ends_as_not_applied(guard: Guard, mode: Mode) -> None:
    script = Script(NotApplied("the broker was busy"))
    add(guard, mode, script)
    with guard.task("order"):
        result = mode.call(guard, "tool", {})
    assert (result.success, result.effect, result.retryable, len(script.calls)) == (False, "not_applied", True, 2)


def test_the_asked_pause_is_kept(guard: Guard, mode: Mode, clock: FakeClock) -> None:
    script = Script(RateLimited("30"), "fine")
    add(guard, mode, script, effect="read")
    assert mode.call(guard, "tool", {}).success
    assert max(clock.slept) >= 30


def test_a_pause_that_is_too_long_ends_the_call(guard: Guard, mode: Mode, clock: FakeClock) -> None:
    script = Script(RateLimited("3600"))
    add(guard, mode, script, effect="read", retry=Retry(attempts=3, max_wait=60))
    result = mode.call(guard, "tool", {})
    assert (result.error_type, result.attempts, result.retryable, result.retry_after) == ("RATE_LIMITED", 1, True, 3600)
    assert clock.slept == []


class RateLimited(Exception):
    status_code = 429

    def __init__(self, seconds: str) -> None:
        self.headers = {"Retry-After": seconds}
        super().__init__("slow down")


# -- fallback -----------------------------------------------------------------------------------------------------------


def test_a_fallback_answers_for_a_read_that_is_down(guard: Guard, mode: Mode) -> None:
    primary, replica = Script(ConnectionResetError()), Script("from the replica")
    add(guard, mode, replica, "query_replica", effect="read")
    add(guard, mode, primary, "query", effect="read", retry=1, fallback=("query_replica",))
    result = mode.call(guard, "query", {"id": 1})
    assert (result.success, result.data, result.answered_by, result.tool_name) == (
        True,
        "from the replica",
        "query_replica",
        "query",
    )
    assert replica.calls == [{"id": 1}]


def test_a_fallback_may_map_the_arguments(guard: Guard, mode: Mode) -> None:
    primary, replica = Script(ConnectionResetError()), Script("ok")
    add(guard, mode, replica, "replica", effect="read")
    mapped = Fallback("replica", arguments=lambda arguments: {"key": arguments["id"]})
    add(guard, mode, primary, "query", effect="read", retry=1, fallback=(mapped,))
    assert mode.call(guard, "query", {"id": 1}).success
    assert replica.calls == [{"key": 1}]


def test_an_uncertain_write_never_falls_back(guard: Guard, mode: Mode) -> None:
    primary, other = Script(TimeoutError()), Script("done elsewhere")
    add(guard, mode, other, "other")
    add(guard, mode, primary, "tool", fallback=("other",))
    with guard.task("order"):
        result = mode.call(guard, "tool", {})
    assert (result.effect, other.calls) == ("unknown", [])


def test_a_fallback_that_the_task_does_not_allow_leaves_the_failure_as_it_is(guard: Guard, mode: Mode) -> None:
    replica = Script("from the replica")
    add(guard, mode, replica, "replica", effect="read")
    add(guard, mode, Script(ConnectionResetError()), "query", effect="read", retry=1, fallback=("replica",))
    with guard.task("look", allow={"query"}):
        result = mode.call(guard, "query", {})
    assert (result.success, result.error_type, replica.calls) == (False, "CONNECTION_FAILED", [])


def test_a_repeat_that_is_refused_leaves_the_proof_that_nothing_was_applied(guard: Guard, mode: Mode) -> None:
    script = Script(TimeoutError(), Effect("done"))
    answers = [None, Violation("CIRCUIT_OPEN", "too many failures")]
    add(
        guard,
        mode,
        script,
        confirm=lambda call: NotApplied(),
        settle=1.0,
        constraints=(lambda call: answers.pop(0),),
    )
    with guard.task("order"):
        result = mode.call(guard, "tool", {})
    assert (result.effect, result.retryable, result.attempts) == ("not_applied", True, 1)
    assert state_of(guard, result) is CallState.FAILED


def test_a_repeat_that_was_not_applied_proves_nothing_about_the_first_attempt(guard: Guard, mode: Mode) -> None:
    script = Script(Effect(TimeoutError()), ConnectionRefusedError(111, "refused"))
    add(guard, mode, script, idempotency_key=True, retry=2)
    with guard.task("order"):
        result = mode.call(guard, "tool", {})
    assert (result.error_type, result.effect, result.retryable, result.attempts) == (
        "UNCERTAIN_RESULT",
        "unknown",
        False,
        2,
    )
    assert state_of(guard, result) is CallState.PARKED


def test_an_effect_of_the_first_attempt_is_found_after_the_second(guard: Guard, mode: Mode) -> None:
    script = Script(TimeoutError(), ConnectionRefusedError(111, "refused"))
    answers = [NotApplied(), Applied("found at last")]
    add(guard, mode, script, conditional=True, confirm=lambda call: answers.pop(0), retry=2)
    with guard.task("order"):
        result = mode.call(guard, "tool", {})
    assert (result.success, result.outcome_basis, result.data) == (True, "confirmed", "found at last")


def test_an_idempotent_write_that_may_be_applied_stays_open(guard: Guard, mode: Mode) -> None:
    script = Script(ConnectionResetError(), ConnectionRefusedError(111, "refused"))
    add(guard, mode, script, effect="idempotent_write", retry=2)
    with guard.task("put"):
        result = mode.call(guard, "tool", {})
    assert (result.success, result.effect, result.retryable) == (False, "unknown", True)
    assert state_of(guard, result) is CallState.UNCERTAIN
