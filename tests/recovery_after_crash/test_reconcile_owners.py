"""Who had a call that recovery finds: living, silent and dead processes, rivals, and this process itself."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from fcguard.model.failure import ErrorType
from fcguard.model.states import CallState
from fcguard.stores.base import Event, Move
from fcguard.testing.store_contract import ask
from tests.ledger_reading import LIMIT, eventually
from tests.recovery_after_crash.crashed_world import ARGUMENTS, SETTLE, World


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


def test_a_lease_of_another_host_lapses_on_the_clock_of_the_ledger(world: World) -> None:
    world.crash(applied=True, owner="far")
    world.clock.advance(50.0)
    assert world.recover(world.guard()).busy == 1
    world.clock.advance(20.0)
    assert world.recover_one(world.guard()).did == "confirmed"


def test_without_a_clock_of_the_ledger_another_host_s_may_be_off_by_a_minute(world: World) -> None:
    world.store.now = None  # type: ignore[assignment, method-assign]
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


def test_a_conflict_that_the_server_reports_is_no_other_worker(world: World) -> None:
    """A person has to look at it; if it passed for taken over, nobody would."""
    options: dict[str, Any] = {"effect": "idempotent_write", "confirm": None}
    request_id = world.crash(applied=False, **options)

    def send(**sent: Any) -> None:
        raise KeyError("the seat is taken")

    found = world.recover(world.guard(send, classifiers=(lambda error, call: ErrorType.CONFLICT,), **options))
    (call,) = found.unresolved
    assert (call.did, call.state, world.state(request_id)) == ("parked", "PARKED", "PARKED")


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


def test_an_interrupted_write_whose_thread_still_runs_is_not_sent_again(tmp_path: Any) -> None:
    """In the process itself: the caller was interrupted, the function was left behind, and may send yet."""
    world = World(tmp_path, "sync")
    entered, leave = threading.Event(), threading.Event()

    def send(**sent: Any) -> str:
        world.sent.append(sent)
        entered.set()
        leave.wait(60)
        return "done after all"

    def interrupt(call: Any) -> None:
        raise KeyboardInterrupt

    guard = world.guard(send, settle=SETTLE, timeout=LIMIT, confirm=interrupt)
    with pytest.raises(KeyboardInterrupt), guard.task("order", task_id="T"):
        world.call(guard, ARGUMENTS)
    assert entered.is_set()
    world.clock.advance(100.0)
    call = world.recover_one(world.guard(settle=SETTLE))
    assert (call.owner, call.did, len(world.sent)) == ("self", "parked", 1)
    assert "still runs" in call.message
    leave.set()
    eventually(lambda: "late" in world.kinds(call.request_id))
    result = world.guard(settle=SETTLE).advance(call.request_id)
    assert (result.success, result.outcome_basis, result.data) == (True, "late", "done after all")


def test_an_interrupted_write_that_failed_late_is_sent_again_after_its_window(tmp_path: Any) -> None:
    world = World(tmp_path, "sync")
    leave = threading.Event()

    def send(**sent: Any) -> None:
        world.sent.append(sent)
        leave.wait(60)
        raise OSError("after all")

    def interrupt(call: Any) -> None:
        raise KeyboardInterrupt

    guard = world.guard(send, settle=SETTLE, timeout=LIMIT, confirm=interrupt)
    with pytest.raises(KeyboardInterrupt), guard.task("order", task_id="T"):
        world.call(guard, ARGUMENTS)
    leave.set()
    (row,) = world.store.calls()
    eventually(lambda: "late" in world.kinds(row.identity.request_id))
    call = world.recover_one(world.guard(settle=SETTLE))
    assert (call.owner, call.did, len(world.effects)) == ("self", "returned", 1)
