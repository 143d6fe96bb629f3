"""What makes two writes the same write: scope, business key, environment, nesting, fallbacks."""

from __future__ import annotations

from typing import Any

import pytest

from fcguard import ConfirmBy, Environment, Guard, Intent, MemoryStore, NotApplied, Retry, Tool, Violation
from fcguard.errors import ConfigurationError
from fcguard.stores.payload import body_of
from fcguard.testing.clock import FakeClock
from tests.conftest import ANY_OBJECT, Effect, Mode, Script, add


def test_a_business_key_counts_for_the_task_also_when_it_is_entered_again(guard: Guard, mode: Mode) -> None:
    script = Script(Effect("one"), Effect("two"))
    add(guard, mode, script, business_key=("order_id",), parameters=ORDER)
    bases = []
    for _ in range(2):
        with guard.task("t", task_id="t"):
            bases.append(mode.call(guard, "tool", {"order_id": "A"}).outcome_basis)
    assert (bases, len(script.effects)) == (["returned", "replayed"], 1)


def test_without_a_business_key_a_task_entered_again_sends_again(guard: Guard, mode: Mode) -> None:
    script = Script(Effect("ok"))
    add(guard, mode, script)
    for _ in range(3):
        with guard.task("a turn of a conversation", task_id="conversation"):
            assert mode.call(guard, "tool", {"say": "ok"}).outcome_basis == "returned"
    assert len(script.effects) == 3


def test_a_step_that_the_host_fixed_is_replayed(guard: Guard, mode: Mode) -> None:
    script = Script(Effect("ok"))
    add(guard, mode, script)
    for _ in range(2):
        with guard.task("t", task_id="t", step=4):
            assert mode.call(guard, "tool", {}).success
    assert len(script.effects) == 1


def test_the_envelope_names_the_call_that_stands_in_the_way_or_in_its_place(guard: Guard, mode: Mode) -> None:
    script = Script(Effect("ok"), TimeoutError())
    add(guard, mode, script, business_key=("order_id",), parameters=ORDER)
    with guard.task("t"):
        done, replayed, unknown, blocked = (
            mode.call(guard, "tool", {"order_id": order}) for order in ("A", "A", "B", "B")
        )
    assert (done.blocked_by, replayed.blocked_by, replayed.outcome_basis) == (None, done.request_id, "replayed")
    assert (unknown.blocked_by, blocked.blocked_by) == (None, unknown.request_id)
    assert (blocked.error_type, blocked.attempts, len(script.calls)) == ("UNCERTAIN_RESULT", 0, 2)


def test_environments_and_tenants_do_not_share_a_key(guard: Guard, mode: Mode) -> None:
    script = Script(Effect("ok"))
    add(guard, mode, script, business_key=("order_id",), parameters=ORDER)
    for environment in (
        Environment(name="a", tenant="t"),
        Environment(name="b", tenant="t"),
        Environment(name="b", tenant="u"),
    ):
        with guard.task("t", task_id="t", environment=environment):
            assert mode.call(guard, "tool", {"order_id": "A"}).outcome_basis == "returned"
    assert len(script.effects) == 3


@pytest.mark.parametrize("arguments", [{}, {"ref": None}])
def test_a_business_key_that_was_not_sent_identifies_nothing(
    guard: Guard, mode: Mode, arguments: dict[str, Any]
) -> None:
    script = Script(Effect("ok"))
    schema = {"type": "object", "properties": {"ref": {"type": ["string", "null"]}, "n": {"type": "integer"}}}
    add(guard, mode, script, business_key=("ref",), parameters=schema)
    with guard.task("t"):
        assert [mode.call(guard, "tool", {**arguments, "n": n}).outcome_basis for n in (1, 2, 2)] == ["returned"] * 3
    assert len(script.effects) == 3


def test_instances_do_not_share_what_their_methods_did(guard: Guard) -> None:
    class Shop:
        def __init__(self) -> None:
            self.made: list[str] = []

        @guard.tool
        def create(self, order_id: str) -> str:
            self.made.append(order_id)
            return order_id

    one, two = Shop(), Shop()
    with guard.task("t", step=1):
        assert [one.create("1").outcome_basis, two.create("1").outcome_basis] == ["returned", "returned"]
    assert (one.made, two.made) == (["1"], ["1"])
    with pytest.raises(ConfigurationError, match="instance"):

        class Other:
            @guard.tool(business_key=["order_id"])
            def create_other(self, order_id: str) -> str:
                return order_id


def test_a_nested_write_is_replayed_by_the_next_attempt_of_its_parent(guard: Guard) -> None:
    write, tries = Script(Effect("done")), []
    guard.register(Tool(name="write", parameters=ANY_OBJECT, fn=write.sync))

    def outer() -> str:
        tries.append(guard.call("write", {"id": "B"}).unwrap())
        if len(tries) < 3:
            raise ConnectionResetError
        return "ok"

    guard.tool(outer, effect="read", retry=Retry(attempts=3))
    with guard.task("t"):
        assert guard.call("outer").success
    assert (len(tries), len(write.effects)) == (3, 1)


def test_a_nested_write_with_a_business_key_runs_once_however_its_parent_is_called(guard: Guard) -> None:
    write = Script(Effect("done"))
    guard.register(Tool(name="write", parameters=ORDER, fn=write.sync, business_key=("order_id",)))

    def checkout(words: str) -> Any:
        return guard.call("write", {"order_id": "A"}).unwrap()

    guard.tool(checkout)
    with guard.task("t"):
        assert guard.call("checkout", {"words": "first"}).success
        assert guard.call("checkout", {"words": "again, in other words"}).success
    assert len(write.effects) == 1


def test_two_nested_writes_that_are_alike_both_run(guard: Guard) -> None:
    write = Script(Effect("done"))
    guard.register(Tool(name="write", parameters=ANY_OBJECT, fn=write.sync))
    guard.tool(lambda: [guard.call("write", {"id": 1}).unwrap() for _ in range(2)], name="outer", effect="read")
    with guard.task("t"):
        assert guard.call("outer").success
    assert len(write.effects) == 2


def closed(call: Any) -> Violation:
    return Violation("CIRCUIT_OPEN", "too many failures")


def test_the_fallback_of_a_write_runs_once_for_two_identical_calls_of_a_response(guard: Guard) -> None:
    primary, backup = Script(Effect("p")), Script(Effect("b"))
    guard.register(Tool(name="backup", parameters=ANY_OBJECT, fn=backup.sync))
    guard.register(
        Tool(name="write", parameters=ANY_OBJECT, fn=primary.sync, fallback=("backup",), constraints=(closed,))
    )
    with guard.task("t"):
        first, second = guard.run_turn([Intent("write", {"id": "A"}), Intent("write", {"id": "A"})])
    assert (first.data, first.answered_by, second.outcome_basis) == ("b", "backup", "replayed")
    assert (len(primary.calls), len(backup.effects)) == (0, 1)


def test_a_fallback_of_unknown_effect_makes_the_write_uncertain_and_blocks_its_repeat(guard: Guard) -> None:
    primary, backup = Script(Effect("p")), Script(TimeoutError())
    open_circuit = [True]
    guard.register(Tool(name="backup", parameters=ANY_OBJECT, fn=backup.sync))
    guard.register(
        Tool(
            name="write",
            parameters=ANY_OBJECT,
            fn=primary.sync,
            fallback=("backup",),
            constraints=(lambda call: closed(call) if open_circuit[0] else None,),
        )
    )
    with guard.task("t"):
        first = guard.call("write", {"id": "C"})
        open_circuit[0] = False
        second = guard.call("write", {"id": "C"})
    assert (first.error_type, first.effect, first.next_action) == ("UNCERTAIN_RESULT", "unknown", "confirm_state")
    assert (second.error_type, second.attempts, primary.calls) == ("UNCERTAIN_RESULT", 0, [])


def test_an_idempotent_write_may_be_sent_again_as_its_envelope_says(guard: Guard, mode: Mode) -> None:
    script = Script(TimeoutError(), TimeoutError(), TimeoutError(), Effect("done"))
    add(guard, mode, script, effect="idempotent_write", business_key=("order_id",), parameters=ORDER)
    with guard.task("t"):
        first = mode.call(guard, "tool", {"order_id": "A"})
        second = mode.call(guard, "tool", {"order_id": "A"})
    assert (first.success, first.retryable, first.effect) == (False, True, "unknown")
    assert (second.success, len(script.effects)) == (True, 1)


def test_an_idempotent_write_is_confirmed_when_its_attempts_are_used_up(guard: Guard, mode: Mode) -> None:
    write, read = Script(Effect(TimeoutError())), Script("there")
    add(guard, mode, read, "look", effect="read")
    add(
        guard,
        mode,
        write,
        effect="idempotent_write",
        retry=2,
        confirm=ConfirmBy("look", applied=lambda data: data == "there"),
    )
    with guard.task("t"):
        result = mode.call(guard, "tool", {})
    assert (result.success, result.outcome_basis, result.attempts) == (True, "confirmed", 2)


@pytest.mark.parametrize("answer", [[], "", 0, None, "yes", 1])
def test_a_predicate_that_does_not_say_true_or_false_does_not_tell(guard: Guard, answer: Any) -> None:
    write, read = Script(TimeoutError(), Effect("twice")), Script({"rows": []})
    guard.register(Tool(name="look", parameters=ANY_OBJECT, fn=read.sync, effect="read"))
    confirm = ConfirmBy("look", applied=lambda data: answer)
    guard.register(Tool(name="write", parameters=ANY_OBJECT, fn=write.sync, confirm=confirm, settle=1.0))
    with guard.task("t"):
        result = guard.call("write", {})
    assert (result.effect, len(write.calls)) == ("unknown", 1)


def test_a_cut_or_second_hand_answer_proves_nothing(guard: Guard) -> None:
    for name, options in (("cut", {"max_result_chars": 50}), ("stale", {"fallback": ("replica",), "retry": 1})):
        write = Script(TimeoutError(), Effect("twice"))
        read = Script(["row"] * 100) if name == "cut" else Script(ConnectionResetError())
        if name == "stale":
            guard.register(Tool(name="replica", parameters=ANY_OBJECT, fn=Script([]).sync, effect="read"))
        guard.register(Tool(name=f"look_{name}", parameters=ANY_OBJECT, fn=read.sync, effect="read", **options))
        confirm = ConfirmBy(f"look_{name}", applied=lambda data: bool(data) and data == ["row"] * 100)
        guard.register(Tool(name=f"write_{name}", parameters=ANY_OBJECT, fn=write.sync, confirm=confirm, settle=1.0))
        with guard.task("t"):
            result = guard.call(f"write_{name}", {})
        assert (name, result.effect, len(write.calls)) == (name, "unknown", 1)


def test_a_replay_after_waiting_is_a_success(guard: Guard) -> None:
    script = Script(Effect("made A"))
    answers: list[Any] = [None, Violation("ENVIRONMENT_NOT_READY", "not yet"), None]
    guard.register(
        Tool(
            name="write",
            parameters=ORDER,
            fn=script.sync,
            business_key=("order_id",),
            constraints=(lambda call: answers.pop(0),),
            ready=lambda call: True,
        )
    )
    with guard.task("t"):
        guard.call("write", {"order_id": "A"})
        again = guard.call("write", {"order_id": "A"})
    assert (again.success, again.outcome_basis, again.error_type, len(script.effects)) == (True, "replayed", None, 1)


ORDER = {"type": "object", "properties": {"order_id": {"type": "string"}}, "required": ["order_id"]}


def test_a_write_that_is_being_sent_says_how_to_poll(guard: Guard, mode: Mode) -> None:
    asked: list[Any] = []

    def send(**keywords: Any) -> str:
        if not asked:
            asked.append(None)
            asked.append(guard.call("tool", {"order_id": "A"}))
            asked.append(guard.advance(asked[1].blocked_by))
        return "sent"

    guard.register(Tool(name="tool", parameters=ORDER, fn=send, business_key=("order_id",)))
    with guard.task("t"):
        sent = mode.call(guard, "tool", {"order_id": "A"})
    _, pending, polled = asked
    assert (pending.error_type, pending.attempts, pending.blocked_by) == ("UNCERTAIN_RESULT", 0, sent.request_id)
    assert "It is being worked on" in pending.message and f"guard.advance('{sent.request_id}')" in pending.message
    assert (polled.error_type, polled.request_id) == ("UNCERTAIN_RESULT", sent.request_id)
    assert guard.advance(pending.blocked_by).data == "sent"


class Jumping(FakeClock):
    """Its wall clock jumps ahead after a number of looks."""

    looks = -1

    def now(self) -> float:
        self.looks -= self.looks > 0
        return super().now() + (1000.0 if self.looks == 0 else 0.0)


@pytest.mark.parametrize("looks", range(1, 10))
def test_a_key_that_grows_too_old_while_it_is_looked_at_spares_no_settle_window(tmp_path: Any, looks: int) -> None:
    """It is sent again by its key, or after the settle window; never in the belief that a window is over which was not waited for."""
    clock, sent = Jumping(), []

    def confirm(call: Any) -> Any:
        clock.looks = looks if clock.looks < 0 else clock.looks
        return NotApplied()

    def send(n: int) -> int:
        sent.append(clock.monotonic())
        if len(sent) == 1:
            raise ConnectionResetError
        return n

    options: dict[str, Any] = {"idempotency_key": True, "idempotency_lifetime": 100.0, "settle": 50.0}
    with Guard(store=MemoryStore(), evidence_dir=tmp_path, clock=clock) as guard:
        guard.tool(send, name="send", effect="write", confirm=confirm, **options)
        with guard.task("t"):
            result = guard.call("send", {"n": 1})
        bodies = [body_of(event) for event in guard.store.events(request_id=result.request_id)]
    first = next(attempt for body in bodies for attempt in body.get("attempts", ()) if attempt["number"] == 1)
    assert (result.success, len(sent)) == (True, 2)
    assert (first["effect"] == "not_applied") == (sent[1] - sent[0] >= 50.0)
