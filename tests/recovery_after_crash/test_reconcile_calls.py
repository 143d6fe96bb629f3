"""What recovery does with a call whose process ended: confirm, send again with a licence, or park."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from fcguard import Applied, AppliedByOther, ConfirmBy, Fallback, Inconclusive, NotApplied, Retry, Tool
from fcguard.model.call import current_call
from fcguard.model.states import CallState
from fcguard.stores.base import Event, Identity, Move, Note, Open
from fcguard.stores.chain import verify
from fcguard.telemetry.observer import Origin, SilentObserver
from fcguard.testing.store_contract import ask
from tests.recovery_after_crash.crashed_world import ARGUMENTS, World

SETTLE = 5.0


def test_an_applied_write_is_confirmed_and_closed(world: World) -> None:
    request_id = world.crash(applied=True, settle=SETTLE)
    guard = world.guard(settle=SETTLE)
    call = world.recover_one(guard)
    assert (call.found, call.owner, call.did, call.state) == ("STARTED", "dead", "confirmed", "SUCCEEDED")
    assert len(world.effects) == 1
    row = world.store.get(request_id)
    assert row is not None and row.result is not None
    assert (row.result["success"], row.result["outcome_basis"], row.result["data"]) == (
        True,
        "confirmed",
        {"found": True},
    )
    assert world.kinds(request_id) == ["opened", "claimed", "confirming", "outcome"]
    assert world.recover(guard).calls == ()
    assert verify(world.store.events()).ok


def test_a_lost_write_is_sent_once_more_after_the_settle_window(world: World) -> None:
    request_id = world.crash(applied=False, settle=SETTLE)
    guard = world.guard(settle=SETTLE)
    began = world.clock.now()
    call = world.recover_one(guard)
    assert (call.found, call.owner, call.did, call.attempts) == ("STARTED", "dead", "returned", 2)
    assert world.clock.now() - began >= SETTLE, "counted from the proof of death: until then it may have sent"
    assert (len(world.sent), len(world.effects)) == (2, 1)
    assert world.sent[0] == world.sent[1] == ARGUMENTS
    assert world.kinds(request_id) == [
        "opened",
        "claimed",
        "confirming",
        "outcome",
        "claimed",
        "confirming",
        "attempt",
        "outcome",
    ]


def test_a_settle_window_that_does_not_fit_is_left_for_the_next_recovery(world: World) -> None:
    request_id = world.crash(applied=False, settle=SETTLE)
    guard = world.guard(settle=SETTLE)
    call = world.recover_one(guard, wait=0.0)
    assert (call.did, call.state, len(world.sent)) == ("deferred", "UNCERTAIN", 1)
    assert call.due_at == pytest.approx(world.clock.now() + SETTLE, abs=1.0)
    again = world.recover_one(guard, wait=0.0)
    assert (again.did, again.found) == ("deferred", "UNCERTAIN"), "not due: nothing is written"
    assert world.kinds(request_id)[-1] == "outcome"
    world.clock.advance(SETTLE)
    assert world.recover_one(guard, wait=0.0).did == "returned"
    assert len(world.effects) == 1


def test_a_write_that_landed_within_the_window_is_found(world: World) -> None:
    world.crash(applied=False, settle=SETTLE)
    answers = [NotApplied(), Applied("landed")]
    world.answer = lambda call: answers.pop(0)
    call = world.recover_one(world.guard(settle=SETTLE))
    assert (call.did, len(world.sent)) == ("confirmed", 1)


@pytest.mark.parametrize("options", [{"idempotency_key": True}, {"conditional": True}])
def test_a_repeat_that_cannot_be_applied_twice_needs_no_window(world: World, options: dict[str, Any]) -> None:
    keys: list[Any] = []
    world.crash(applied=False, **options)
    row = next(iter(world.store.calls()))

    def send(**arguments: Any) -> str:
        keys.append(current_call().idempotency_key)
        assert current_call().attempt == 2
        return "done"

    call = world.recover_one(world.guard(send, **options))
    assert (call.did, call.attempts) == ("returned", 2)
    assert keys == [row.identity.idempotency_key]


def test_without_a_licence_it_is_parked(world: World) -> None:
    request_id = world.crash(applied=False)
    call = world.recover_one(world.guard())
    assert (call.did, call.state, len(world.sent)) == ("parked", "PARKED", 1)
    assert world.kinds(request_id)[-1] == "parked"
    waits = world.recover_one(world.guard())
    assert waits.did == "waits"
    assert world.recover(world.guard()).unresolved == (waits,)


def test_without_a_confirmation_it_is_parked(world: World) -> None:
    world.crash(applied=True, confirm=None)
    call = world.recover_one(world.guard(confirm=None))
    assert (call.did, len(world.effects)) == ("parked", 1)


@pytest.mark.parametrize("answer", [Inconclusive("lag"), AppliedByOther(), "yes", ConnectionError("down")])
def test_what_is_no_clear_answer_parks_it(world: World, answer: Any) -> None:
    world.crash(applied=False, settle=SETTLE)
    world.answer = lambda call: answer
    assert world.recover_one(world.guard(settle=SETTLE)).did == "parked"
    assert len(world.sent) == 1


def test_used_up_attempts_end_in_a_proved_failure(world: World) -> None:
    request_id = world.crash(applied=False, settle=SETTLE, retry=1)
    call = world.recover_one(world.guard(settle=SETTLE, retry=1))
    assert (call.did, call.state) == ("failed", "FAILED")
    row = world.store.get(request_id)
    assert row is not None and row.result is not None
    assert (row.result["effect"], row.result["attempts"]) == ("not_applied", 1)


def test_a_destructive_write_is_never_sent_again(world: World) -> None:
    options = {"effect": "destructive", "approval": "never"}
    world.crash(applied=False, idempotency_key=True, **options)
    assert world.recover_one(world.guard(idempotency_key=True, **options)).did == "parked"
    assert len(world.sent) == 1


def test_an_idempotent_write_is_run_again_even_if_its_attempts_are_used_up(world: World) -> None:
    options: dict[str, Any] = {"effect": "idempotent_write", "confirm": None, "retry": Retry(attempts=1)}
    world.crash(applied=True, **options)
    call = world.recover_one(world.guard(**options))
    assert (call.did, call.attempts, len(world.sent)) == ("returned", 2, 2)


def test_an_idempotent_write_that_fails_even_then_is_parked(world: World) -> None:
    options: dict[str, Any] = {"effect": "idempotent_write", "confirm": None, "retry": Retry(attempts=1)}
    world.crash(applied=True, **options)

    def fail(**arguments: Any) -> None:
        raise TimeoutError

    assert world.recover_one(world.guard(fail, **options)).did == "parked"


def test_a_repeat_that_is_left_uncertain_is_taken_up_again(world: World) -> None:
    """The second process is not killed, its request is only lost: the window starts anew, then the attempts are used up."""
    world.crash(applied=False, settle=SETTLE)

    def lose(**arguments: Any) -> None:
        world.sent.append(arguments)
        raise TimeoutError

    call = world.recover_one(world.guard(lose, settle=SETTLE))
    assert (call.did, call.attempts, len(world.sent)) == ("failed", 2, 2)


# -- what the record does not hold -----------------------------------------------------------------------------------


def test_secrets_that_the_record_masks_are_not_sent_again(world: World) -> None:
    secret = {**ARGUMENTS, "api_key": "canary-4711"}
    world.crash(applied=False, settle=SETTLE, arguments=secret)
    call = world.recover_one(world.guard(settle=SETTLE))
    assert (call.did, len(world.sent)) == ("parked", 1)
    assert "hold secrets" in call.message
    assert "canary" not in call.message
    assert world.confirmed, "the confirmation may run all the same"


def test_a_masked_write_that_is_found_is_a_success(world: World) -> None:
    world.crash(applied=True, arguments={**ARGUMENTS, "api_key": "canary-4711"})
    assert world.recover_one(world.guard()).did == "confirmed"


def test_the_confirmation_sees_the_call_as_it_was(world: World) -> None:
    request_id = world.crash(applied=True)
    world.recover(world.guard())
    call = world.confirmed[-1]
    assert (call.request_id, call.arguments, call.context.task_id, call.step) == (request_id, ARGUMENTS, "T", 1)
    environment = call.context.environment
    assert (environment.name, environment.tenant, environment.base_urls) == ("test-a", "mall", ("http://shop",))


@pytest.mark.parametrize("options", [{"name_of_tool": "other"}, {"version": "2"}])
def test_a_tool_that_is_not_here_leaves_the_call_open_and_untouched(world: World, options: dict[str, Any]) -> None:
    request_id = world.crash(applied=True)
    if "name_of_tool" in options:
        guard = world.guard()
        guard._tools._by_name.clear()
    else:
        guard = world.guard(**options)
    found = world.recover(guard)
    (call,) = found.calls
    assert (call.did, call.state) == ("left_open", "STARTED")
    assert found.unresolved == (call,)
    assert world.kinds(request_id) == ["opened"]


def test_a_record_that_cannot_be_read_leaves_the_call_open(world: World) -> None:
    identity = Identity("fc-x", "T", "create_order", "1", "write")
    world.store.acting = world.store.people["gone"]
    ask(world.store, Open(identity, CallState.STARTED, 1, Event("opened", 1.0, {"no": "arguments"})))
    world.store.acting = world.store.here
    call = world.recover_one(world.guard())
    assert (call.did, "cannot be read" in call.message) == ("left_open", True)
    assert world.kinds("fc-x") == ["opened"]


# -- who had it ------------------------------------------------------------------------------------------------------


def test_a_call_that_a_living_process_works_on_is_left_alone(world: World) -> None:
    request_id = world.crash(applied=False, owner="alive", settle=SETTLE)
    found = world.recover(world.guard(settle=SETTLE))
    assert (found.calls, found.busy) == ((), 1)
    assert world.kinds(request_id) == ["opened"]
    pending = world.advance(world.guard(settle=SETTLE), request_id)
    assert (pending.success, pending.next_action, pending.effect) == (False, "confirm_state", "unknown")


@pytest.mark.parametrize("owner", ["alive", "far"])
def test_a_lapsed_lease_is_no_proof_of_death(world: World, owner: str) -> None:
    world.crash(applied=False, owner=owner, settle=SETTLE)
    world.clock.advance(200.0)
    call = world.recover_one(world.guard(settle=SETTLE))
    assert (call.did, len(world.sent)) == ("parked", 1)
    assert "is not proved dead" in call.message


@pytest.mark.parametrize("owner", ["alive", "far"])
def test_a_lapsed_lease_lets_an_applied_write_be_found(world: World, owner: str) -> None:
    world.crash(applied=True, owner=owner, settle=SETTLE)
    world.clock.advance(200.0)
    assert world.recover_one(world.guard(settle=SETTLE)).did == "confirmed"


def test_another_host_s_clock_may_be_off_by_a_minute(world: World) -> None:
    world.crash(applied=True, owner="far")
    world.clock.advance(90.0)
    assert world.recover(world.guard()).busy == 1
    world.clock.advance(40.0)
    assert world.recover_one(world.guard()).did == "confirmed"


def test_the_risk_that_a_silent_owner_lives_can_be_accepted(world: World) -> None:
    world.crash(applied=False, owner="far", settle=SETTLE)
    world.clock.advance(200.0)
    guard = world.guard(settle=SETTLE)
    call = world.recover_one(guard, assume_dead_after=100.0)
    assert (call.did, len(world.effects)) == ("returned", 1)


def test_the_risk_is_not_accepted_for_a_process_that_is_seen_alive(world: World) -> None:
    world.crash(applied=False, owner="alive", settle=SETTLE)
    world.clock.advance(200.0)
    assert world.recover_one(world.guard(settle=SETTLE), assume_dead_after=1.0).did == "parked"


def test_a_worker_that_only_looked_need_not_be_dead(world: World) -> None:
    """The sender is dead; the first recovery ran on another host and put the call off, then the second one takes it."""
    request_id = world.crash(applied=False, settle=SETTLE)
    world.store.acting = world.store.people["far"]
    world.store.here, here = world.store.acting, world.store.here
    row = world.store.get(request_id)
    assert row is not None
    now = world.clock.now()
    body = {"by": "far", "from": "gone", "liveness": "dead", "sent_until": now}
    ask(
        world.store, Move(request_id, row.version, CallState.UNCERTAIN, 1, Event("claimed", now, body), next_at=now + 1)
    )
    world.store.acting = world.store.here = here
    world.clock.advance(100.0)
    assert world.recover_one(world.guard(settle=SETTLE)).did == "returned"


def test_whoever_is_moved_past_does_nothing(world: World) -> None:
    request_id = world.crash(applied=False, settle=SETTLE)

    def overtake(command: Any) -> None:
        if isinstance(command, Move) and command.event.kind == "claimed":
            world.store.before = lambda command: None
            ask(world.store, Move(request_id, command.version, CallState.PARKED, 1, Event("parked", 2.0, {})))

    world.store.before = overtake
    call = world.recover_one(world.guard(settle=SETTLE))
    assert (call.did, len(world.sent), world.confirmed) == ("taken_over", 1, [])


def test_whoever_is_overtaken_on_the_way_sends_nothing(world: World) -> None:
    request_id = world.crash(applied=False, idempotency_key=True)

    def overtake(command: Any) -> None:
        if isinstance(command, Move) and command.state is CallState.STARTED:
            world.store.before = lambda command: None
            ask(world.store, Move(request_id, command.version, CallState.PARKED, 1, Event("parked", 2.0, {})))

    world.store.before = overtake
    call = world.recover_one(world.guard(idempotency_key=True))
    assert (call.did, len(world.sent)) == ("taken_over", 1)
    assert world.state(request_id) == "PARKED"


def test_a_call_that_others_take_while_it_is_waited_for_is_theirs(world: World) -> None:
    request_id = world.crash(applied=False, settle=SETTLE)

    def end() -> None:
        row = world.store.get(request_id)
        assert row is not None
        if row.state is CallState.UNCERTAIN:
            world.store.acting = world.store.people["alive"]
            ask(
                world.store, Move(request_id, row.version, CallState.FAILED, 1, Event("outcome", world.clock.now(), {}))
            )
            world.store.acting = world.store.here

    world.clock.on_sleep = end
    call = world.recover_one(world.guard(settle=SETTLE))
    assert (call.did, call.due_at, len(world.sent)) == ("taken_over", None, 1)


def test_a_call_that_others_work_on_while_it_is_waited_for_is_theirs(world: World) -> None:
    request_id = world.crash(applied=False, settle=SETTLE)

    def take() -> None:
        row = world.store.get(request_id)
        assert row is not None
        if row.state is CallState.UNCERTAIN:
            world.store.acting = world.store.people["alive"]
            ask(
                world.store,
                Move(request_id, row.version, CallState.CONFIRMING, 1, Event("confirming", world.clock.now(), {})),
            )
            world.store.acting = world.store.here

    world.clock.on_sleep = take
    call = world.recover_one(world.guard(settle=SETTLE))
    assert (call.did, len(world.sent)) == ("taken_over", 1)


@pytest.mark.parametrize(("age", "did", "sent"), [(3_600.0, "returned", 2), (7 * 86_400.0, "parked", 1)])
def test_a_write_is_sent_again_by_its_key_only_while_the_server_remembers_it(
    world: World, age: float, did: str, sent: int
) -> None:
    world.crash(applied=False, idempotency_key=True, confirm=None)
    world.clock.advance(age)
    assert world.recover_one(world.guard(idempotency_key=True, confirm=None)).did == did
    assert len(world.sent) == sent


# -- what came in meanwhile --------------------------------------------------------------------------------------------


def test_what_an_abandoned_function_returned_is_consulted_first(world: World) -> None:
    request_id = world.crash(applied=True)
    body = {"attempt": 1, "returned": True, "effect": "applied", "value": {"order": 7}}
    ask(world.store, Note(request_id, Event("late", 1.0, {"request_id": request_id, **body})))
    call = world.recover_one(world.guard())
    assert (call.did, world.confirmed) == ("late", [])
    row = world.store.get(request_id)
    assert row is not None and row.result is not None and row.result["data"] == {"order": 7}
    assert world.kinds(request_id).count("late") == 1


@pytest.mark.parametrize(
    "body",
    [
        {"returned": False, "error": "OSError"},
        {"returned": True},
        {"returned": True, "effect": "applied"},
        {"returned": True, "value": {"order": 7}},  # nobody judged it
        {"returned": True, "value": {"ok": False}, "effect": "unknown", "error_type": "TOOL_ERROR"},
    ],
)
def test_a_late_word_that_proves_nothing_is_no_answer(world: World, body: dict[str, Any]) -> None:
    request_id = world.crash(applied=True)
    ask(world.store, Note(request_id, Event("late", 1.0, {"request_id": request_id, "attempt": 1, **body})))
    assert world.recover_one(world.guard()).did == "confirmed"
    assert world.confirmed


def test_the_new_span_is_linked_to_the_first(world: World) -> None:
    seen: list[Any] = []

    class Watcher(SilentObserver):
        def call_started(self, call: Any) -> None:
            seen.append(call.observed)
            call.trace_id, call.span_id = "a" * 32, "b" * 16

    world.crash(applied=True, observer=Watcher())
    world.recover(world.guard(observer=Watcher()))
    assert seen == [None, Origin("a" * 32, "b" * 16)]


def test_attempts_of_an_earlier_process_are_not_told_to_telemetry_again(world: World) -> None:
    ended: list[int] = []

    class Watcher(SilentObserver):
        def attempt_ended(self, call: Any, attempt: Any) -> None:
            ended.append(attempt.number)

    world.crash(applied=False, idempotency_key=True)
    world.recover(world.guard(observer=Watcher(), idempotency_key=True))
    assert ended == [2]


def test_a_confirmation_by_a_tool_is_a_recorded_child_call(world: World) -> None:
    options = {"confirm": ConfirmBy("query_order", lambda data: bool(data))}
    request_id = world.crash(applied=True, **options)
    guard = world.guard(**options)
    guard.register(Tool(name="query_order", parameters={"type": "object"}, fn=lambda **_: [1], effect="read"))
    assert world.recover_one(guard).did == "confirmed"
    (child,) = [call for call in world.store.calls() if call.identity.purpose == "confirm"]
    assert (child.identity.parent_id, child.identity.task_id) == (request_id, "T")


def test_an_interrupted_write_whose_thread_still_runs_is_not_sent_again(tmp_path: Any) -> None:
    """In the process itself: the caller was interrupted, the function was left behind, and may send yet."""
    world = World(tmp_path, "sync")
    entered, leave = threading.Event(), threading.Event()

    def send(**sent: Any) -> str:
        world.sent.append(sent)
        entered.set()
        leave.wait(20)
        return "done after all"

    def interrupt(call: Any) -> None:
        raise KeyboardInterrupt

    guard = world.guard(send, settle=SETTLE, timeout=0.05, confirm=interrupt)
    with pytest.raises(KeyboardInterrupt), guard.task("order", task_id="T"):
        world.call(guard, ARGUMENTS)
    assert entered.is_set()
    world.clock.advance(100.0)
    call = world.recover_one(world.guard(settle=SETTLE))
    assert (call.owner, call.did, len(world.sent)) == ("self", "parked", 1)
    assert "still runs" in call.message
    leave.set()
    while "late" not in world.kinds(call.request_id):
        threading.Event().wait(0.01)
    result = world.guard(settle=SETTLE).advance(call.request_id)
    assert (result.success, result.outcome_basis, result.data) == (True, "late", "done after all")


def test_an_interrupted_write_that_failed_late_is_sent_again_after_its_window(tmp_path: Any) -> None:
    world = World(tmp_path, "sync")
    leave = threading.Event()

    def send(**sent: Any) -> None:
        world.sent.append(sent)
        leave.wait(20)
        raise OSError("after all")

    def interrupt(call: Any) -> None:
        raise KeyboardInterrupt

    guard = world.guard(send, settle=SETTLE, timeout=0.05, confirm=interrupt)
    with pytest.raises(KeyboardInterrupt), guard.task("order", task_id="T"):
        world.call(guard, ARGUMENTS)
    leave.set()
    (row,) = world.store.calls()
    while "late" not in world.kinds(row.identity.request_id):
        threading.Event().wait(0.01)
    call = world.recover_one(world.guard(settle=SETTLE))
    assert (call.owner, call.did, len(world.effects)) == ("self", "returned", 1)


def test_a_write_whose_fallback_may_have_done_it_is_not_sent_again(world: World) -> None:
    fallback = {"fallback": (Fallback("create_elsewhere"),)}
    request_id = world.crash(applied=False, settle=SETTLE, **fallback)
    identity = Identity("fc-child", "T", "create_elsewhere", "1", "write", "fallback", parent_id=request_id)
    at = world.clock.now()
    ask(world.store, Open(identity, CallState.STARTED, 1, Event("opened", at, {"arguments": {}})))
    ask(world.store, Move("fc-child", 1, CallState.SUCCEEDED, 1, Event("outcome", at, {}), {"success": True}))
    call = world.recover_one(world.guard(settle=SETTLE, **fallback))
    assert (call.did, len(world.sent)) == ("parked", 1)
    assert "fc-child" in call.message


# -- never sent --------------------------------------------------------------------------------------------------------


def prepare(world: World, *, next_at: float | None, arguments: dict[str, Any] = ARGUMENTS) -> str:
    """Leave a call that was prepared and never sent, as a queue or an engine does."""
    from fcguard.model.identity import digest_of

    identity = Identity(
        "fc-prepared", "T", "create_order", "1", "write", digest=digest_of("create_order", ARGUMENTS), idempotency_scope="T",
        idempotency_key="k", effect_key="e",
    )  # fmt: skip
    world.store.acting = world.store.people["gone"]
    ask(world.store, Open(identity, CallState.PREPARED, 0, Event("opened", 1.0, {"arguments": arguments})))
    if next_at is not None:
        ask(world.store, Move("fc-prepared", 1, CallState.PREPARED, 0, Event("deferred", 1.0, {}), next_at=next_at))
    world.store.acting = world.store.here
    return "fc-prepared"


def test_a_prepared_call_that_is_due_is_run(world: World) -> None:
    request_id = prepare(world, next_at=2.0)
    call = world.recover_one(world.guard())
    assert (call.found, call.did, call.attempts) == ("PREPARED", "returned", 1), call.message
    assert world.effects == [ARGUMENTS]
    assert world.state(request_id) == "SUCCEEDED"


def test_a_prepared_call_that_is_refused_is_rejected(world: World) -> None:
    from fcguard import Violation

    prepare(world, next_at=2.0)
    call = world.recover_one(world.guard(rules=[lambda call: Violation("ORDER_NOT_PAID", "pay first")]))
    assert (call.did, call.state, world.sent) == ("rejected", "REJECTED", [])


def test_a_prepared_call_that_waits_for_somebody_waits(world: World) -> None:
    prepare(world, next_at=None)
    assert world.recover_one(world.guard()).did == "waits"
    assert world.sent == []


def test_a_prepared_call_without_its_secrets_cannot_be_sent(world: World) -> None:
    prepare(world, next_at=2.0, arguments={**ARGUMENTS, "quantity": 3})
    call = world.recover_one(world.guard())
    assert (call.did, world.sent) == ("left_open", [])
