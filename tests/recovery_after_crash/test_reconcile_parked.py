"""Parked calls are looked at again: the effect closes one, and nothing else does; a person is never in the machine's way."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fcguard import Applied, AppliedByOther, Guard, Inconclusive, NotApplied, SQLiteStore
from fcguard.errors import StoreUnavailable
from fcguard.model.states import CallState
from fcguard.reconcile.parked import next_look
from fcguard.reconcile.report import Recovery
from fcguard.stores.audit import audit
from fcguard.stores.base import Event, Move, Note
from fcguard.stores.payload import body_of
from fcguard.telemetry.observer import SilentObserver
from fcguard.testing.store_contract import ask
from tests.recovery_after_crash.crashed_world import ARGUMENTS, SETTLE, World


def park(world: World, **options: Any) -> str:
    """Leave a call that recovery has parked, because the system could not be read."""
    request_id = world.crash(applied=False, **options)
    world.answer = lambda call: Inconclusive("the system cannot be read")
    assert world.recover_one(world.guard(**options)).did == "parked"
    world.confirmed.clear()
    return request_id


def test_without_the_word_a_parked_call_is_not_asked_about(world: World) -> None:
    request_id = park(world)
    world.answer = lambda call: Applied("there")
    before = world.kinds(request_id)
    assert world.recover_one(world.guard()).did == "waits"
    assert (world.confirmed, world.kinds(request_id)) == ([], before)


def test_a_parked_call_whose_effect_is_there_is_closed_as_confirmed(world: World) -> None:
    request_id = park(world)
    world.answer = lambda call: Applied({"order": 7})
    call = world.recover_one(world.guard(), parked=True)
    assert (call.found, call.did, call.state, call.attempts) == ("PARKED", "confirmed", "SUCCEEDED", 1)
    row = world.store.get(request_id)
    assert row is not None and row.result is not None
    assert (row.result["outcome_basis"], row.result["effect"], row.result["data"]) == (
        "confirmed", "applied", {"order": 7},
    )  # fmt: skip
    assert world.kinds(request_id)[-3:] == ["parked", "confirm", "outcome"]
    assert world.recover(world.guard(), parked=True).calls == ()
    assert len(world.sent) == 1
    assert audit(world.store).ok


LICENCES: list[dict[str, Any]] = [
    {}, {"settle": SETTLE}, {"idempotency_key": True}, {"conditional": True}, {"effect": "idempotent_write"},
]  # fmt: skip


@pytest.mark.parametrize("licence", LICENCES)
@pytest.mark.parametrize(
    "answer", [NotApplied(), Inconclusive("lag"), AppliedByOther(), "yes", ConnectionError("down")]
)
def test_whatever_else_is_found_it_stays_parked_and_is_not_sent(
    world: World, licence: dict[str, Any], answer: Any
) -> None:
    """Whatever licence the tool has: a person may be acting on the call by now."""
    request_id = park(world, **licence)
    world.clock.advance(1000.0)
    world.answer = lambda call: answer
    before = world.store.get(request_id)
    sent = len(world.sent)
    call = world.recover_one(world.guard(**licence), parked=True)
    assert (call.did, call.state, len(world.sent)) == ("waits", "PARKED", sent)
    assert world.store.get(request_id) == before, "only a note is added: the row is as it was"
    assert world.kinds(request_id)[-2:] == ["parked", "confirm"]
    (said,) = body_of(list(world.store.events(request_id=request_id))[-1])["confirmations"]
    assert said["answer"] == ("NotApplied" if isinstance(answer, NotApplied) else said["answer"])
    assert len(world.confirmed) == 1
    with_person = world.guard(**licence).resolve(request_id, applied=False, by="Ann", reason="looked")
    assert with_person.effect == "not_applied"


def test_it_is_asked_about_once_in_a_recovery(world: World) -> None:
    """Another call makes the recovery wait and look around again."""
    park(world)
    world.answer = lambda call: NotApplied()
    world.crash(applied=False, settle=SETTLE, arguments={**ARGUMENTS, "order_id": "A2"})
    found = world.recover(world.guard(settle=SETTLE), parked=True)
    assert sorted(call.did for call in found.calls) == ["returned", "waits"]
    assert [call.arguments["order_id"] for call in world.confirmed].count("A1") == 1


def test_what_this_recovery_parks_is_not_asked_about_at_once(world: World) -> None:
    world.crash(applied=False)
    assert world.recover_one(world.guard(), parked=True).did == "parked"
    assert len(world.confirmed) == 1


# -- a late success that the ledger holds ------------------------------------------------------------------------------


def test_a_late_success_closes_a_parked_call_without_asking(world: World) -> None:
    request_id = park(world)
    late = {"request_id": request_id, "attempt": 1, "returned": True, "effect": "applied", "value": {"order": 8}}
    ask(world.store, Note(request_id, Event("late", world.clock.now(), late)))
    call = world.recover_one(world.guard())
    assert (call.did, call.state, world.confirmed) == ("late", "SUCCEEDED", [])
    row = world.store.get(request_id)
    assert row is not None and row.result is not None
    assert (row.result["outcome_basis"], row.result["data"]) == ("late", {"order": 8})


def test_a_late_success_that_comes_while_the_call_is_parked_closes_it(world: World) -> None:
    """Its row tells of no news after the parking, so it is looked for right then."""
    request_id = world.crash(applied=False)
    late = {"request_id": request_id, "attempt": 1, "returned": True, "effect": "applied", "value": {"order": 8}}

    def ends_meanwhile(call: Any) -> Any:
        ask(world.store, Note(request_id, Event("late", world.clock.now(), late)))
        return Inconclusive("the system cannot be read")

    world.answer = ends_meanwhile
    call = world.recover_one(world.guard())
    assert (call.found, call.did, call.state) == ("STARTED", "late", "SUCCEEDED")
    assert len(world.confirmed) == 1


def test_a_late_success_that_comes_while_advance_parks_the_call_closes_it(world: World) -> None:
    request_id = world.crash(applied=False)
    late = {"request_id": request_id, "attempt": 1, "returned": True, "effect": "applied", "value": {"order": 8}}

    def ends_meanwhile(call: Any) -> Any:
        ask(world.store, Note(request_id, Event("late", world.clock.now(), late)))
        return Inconclusive("the system cannot be read")

    world.answer = ends_meanwhile
    result = world.advance(world.guard(), request_id)
    assert (result.success, result.outcome_basis, result.data) == (True, "late", {"order": 8})
    assert (world.state(request_id), len(world.confirmed)) == ("SUCCEEDED", 1)


@pytest.mark.parametrize("effect", ["not_applied", "unknown"])
def test_another_late_end_closes_nothing(world: World, effect: str) -> None:
    request_id = park(world, settle=SETTLE)
    late = {"request_id": request_id, "attempt": 1, "returned": False, "effect": effect, "error": "OSError"}
    ask(world.store, Note(request_id, Event("late", world.clock.now(), late)))
    assert world.recover_one(world.guard(settle=SETTLE)).did == "waits"
    assert world.state(request_id) == "PARKED"


def test_what_an_owner_that_woke_up_answered_closes_the_call(world: World) -> None:
    """Its outcome came too late to change the row, and was noted as a success."""
    request_id = park(world)
    outcome = {"request_id": request_id, "result": {"success": True, "data": {"order": 9}}}
    ask(world.store, Note(request_id, Event("outcome", world.clock.now(), outcome)))
    call = world.recover_one(world.guard())
    assert (call.did, call.state) == ("late", "SUCCEEDED")


# -- a person at the same time -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("applied", [True, False])
def test_a_person_who_resolves_it_while_it_is_asked_about_wins(world: World, applied: bool) -> None:
    request_id = park(world)

    def decide(call: Any) -> Applied:
        world.guard().resolve(request_id, applied=applied, by="Ann", reason="looked")
        return Applied("there")

    world.answer = decide
    call = world.recover_one(world.guard(), parked=True)
    assert call.did == "taken_over"
    assert world.state(request_id) == ("SUCCEEDED" if applied else "FAILED")
    row = world.store.get(request_id)
    assert row is not None and row.result is not None
    assert row.result["outcome_basis"] == ("operator" if applied else None)
    answers = [body_of(event).get("confirmations") for event in world.store.events(request_id=request_id)]
    assert answers[-2][0]["answer"] == "Applied", "what was found is kept as evidence, against the person's word too"
    assert audit(world.store).ok


def test_a_person_is_not_held_up_by_a_look_that_hangs(tmp_path: Path) -> None:
    world = World(tmp_path, "sync")
    request_id = park(world)
    asked, go_on = threading.Event(), threading.Event()

    def hang(call: Any) -> NotApplied:
        asked.set()
        go_on.wait(20)
        return NotApplied()

    world.answer = hang
    looking = threading.Thread(target=lambda: world.guard().recover(parked=True))
    looking.start()
    assert asked.wait(20)
    assert world.guard().resolve(request_id, applied=True, by="Ann", reason="looked").success
    go_on.set()
    looking.join(20)
    assert world.state(request_id) == "SUCCEEDED"
    assert world.kinds(request_id)[-2:] == ["resolved", "confirm"]


def test_of_two_workers_that_find_it_one_closes_it(world: World) -> None:
    request_id = park(world)
    inner: list[Any] = []

    def both(call: Any) -> Applied:
        if not inner:
            inner.append(None)
            inner[:] = [world.guard().recover(parked=True).calls[0].did]
        return Applied("there")

    world.answer = both
    assert (world.recover_one(world.guard(), parked=True).did, inner) == ("taken_over", ["confirmed"])
    assert world.state(request_id) == "SUCCEEDED"


def test_an_end_that_is_not_recorded_is_reported_and_spooled(world: World) -> None:
    request_id = park(world)
    world.answer = lambda call: Applied("there")

    def away(command: Any) -> None:
        world.store.is_away = isinstance(command, Move)

    world.store.before = away
    assert world.recover_one(world.guard(), parked=True).did == "unrecorded"
    world.store.before, world.store.is_away = (lambda command: None), False
    found = world.recover(world.guard())
    assert (found.drained.applied, found.calls, world.state(request_id)) == (1, (), "SUCCEEDED")


def test_an_interrupted_look_leaves_the_call_as_it_was(tmp_path: Path) -> None:
    world = World(tmp_path, "sync")
    request_id = park(world)
    before = (world.store.get(request_id), world.kinds(request_id))

    def interrupt(call: Any) -> None:
        raise KeyboardInterrupt

    world.answer = interrupt
    with pytest.raises(KeyboardInterrupt):
        world.recover(world.guard(), parked=True)
    assert (world.store.get(request_id), world.kinds(request_id)) == before


def test_a_ledger_that_does_not_take_the_note_ends_the_recovery(world: World) -> None:
    park(world)

    def away(command: Any) -> None:
        world.store.is_away = isinstance(command, Note)

    world.store.before = away
    with pytest.raises(StoreUnavailable):
        world.recover(world.guard(), parked=True)


# -- calls that nothing can be asked about -----------------------------------------------------------------------------


def test_without_a_confirmation_it_waits(world: World) -> None:
    request_id = world.crash(applied=False, confirm=None)
    world.recover(world.guard(confirm=None))
    before = world.kinds(request_id)
    assert world.recover_one(world.guard(confirm=None), parked=True).did == "waits"
    assert world.kinds(request_id) == before


def test_one_that_was_never_sent_waits(world: World) -> None:
    from fcguard.stores.base import Identity, Open

    identity = Identity("fc-p", "T", "create_order", "1", "write")
    ask(world.store, Open(identity, CallState.PREPARED, 0, Event("opened", 1.0, {"arguments": ARGUMENTS})))
    ask(world.store, Move("fc-p", 1, CallState.PARKED, 0, Event("parked", 2.0, {})))
    world.answer = lambda call: Applied("there")
    assert world.recover_one(world.guard(), parked=True).did == "waits"
    assert world.confirmed == []


def test_another_version_of_the_tool_is_not_asked(world: World) -> None:
    park(world)
    world.answer = lambda call: Applied("there")
    assert world.recover_one(world.guard(version="2"), parked=True).did == "waits"
    assert world.confirmed == []


def test_secrets_of_an_answer_are_masked_in_the_note(world: World) -> None:
    request_id = park(world)
    world.answer = lambda call: Inconclusive("login failed, password=canary-4711")
    world.recover(world.guard(), parked=True)
    event = list(world.store.events(request_id=request_id))[-1]
    assert event.kind == "confirm"
    assert b"canary" not in event.payload


# -- the schedule ------------------------------------------------------------------------------------------------------


def test_looks_grow_rarer_and_stay_possible() -> None:
    assert [next_look(1000.0, looks) - 1000.0 for looks in range(4)] == [60.0, 120.0, 240.0, 480.0]
    assert next_look(0.0, 11) == 86_400.0
    assert next_look(0.0, 10_000) == 86_400.0


def test_the_background_loop_asks_by_the_schedule_that_the_ledger_keeps(tmp_path: Path) -> None:
    world = World(tmp_path, "sync")
    park(world)
    world.answer = lambda call: NotApplied()
    moments: list[float] = []
    began = world.clock.now()
    for _ in range(40):
        world.clock.advance(30.0)
        reconciler = world.guard().reconciler(interval=3600.0, parked=True)
        reconciler._run()
        if world.confirmed:
            moments.append(world.clock.now() - began)
            world.confirmed.clear()
    assert moments == pytest.approx([60.0, 180.0, 420.0, 900.0], abs=25.0), "in steps of thirty seconds"
    world.answer = lambda call: Applied("there at last")
    world.clock.advance(900.0)
    loop = world.guard().reconciler(interval=3600.0, parked=True)
    loop._run()
    assert loop.last is not None
    assert loop.last.totals == {"confirmed": 1}


def test_a_loop_without_the_word_only_takes_late_successes(tmp_path: Path) -> None:
    world = World(tmp_path, "sync")
    park(world)
    world.answer = lambda call: Applied("there")
    world.clock.advance(1e6)
    world.guard().reconciler(interval=3600.0)._run()
    assert world.confirmed == []


# -- on a file ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[tuple[Guard, SQLiteStore, list[Any]]]:
    answers: list[Any] = [Inconclusive("down")]
    store = SQLiteStore(tmp_path / "ledger.db")
    guard = Guard(store=store, evidence_dir=tmp_path, observer=SilentObserver())

    @guard.tool(effect="read")
    def query_order(order_id: str) -> dict[str, Any]:
        return {"order_id": order_id, "state": "paid"}

    def look(call: Any) -> Any:
        guard.call("query_order", {"order_id": call.arguments["order_id"]}).unwrap()
        return answers[-1]

    @guard.tool(effect="write", confirm=look)
    def create_order(order_id: str) -> None:
        raise TimeoutError

    yield guard, store, answers
    guard.close()


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_a_parked_call_in_a_file_is_closed_with_the_reads_that_found_it(
    shop: tuple[Guard, SQLiteStore, list[Any]], colour: str
) -> None:
    guard, store, answers = shop

    def recover() -> Recovery:
        return guard.recover(parked=True) if colour == "sync" else asyncio.run(guard.arecover(parked=True))

    with guard.task("order", task_id="T"):
        made = guard.call("create_order", {"order_id": "A1"})
    row = store.get(made.request_id)
    assert row is not None and row.state is CallState.PARKED
    assert recover().totals == {"waits": 1}
    answers.append(Applied({"state": "paid"}))
    assert recover().totals == {"confirmed": 1}
    row = store.get(made.request_id)
    assert row is not None and row.result is not None
    assert (row.state, row.result["outcome_basis"]) == (CallState.SUCCEEDED, "confirmed")
    reads = [item["ref"] for item in row.result["evidence"] if item["type"] == "call"]
    assert reads and all(
        (found := store.get(read)) is not None and found.identity.tool == "query_order" for read in reads
    )
    with guard.task("order", task_id="T2"):
        assert guard.call("create_order", {"order_id": "A1"}).attempts == 1, "the effect key is free: it is sent"
    assert audit(store).ok


def test_the_default_observer_hears_of_the_end(tmp_path: Path) -> None:
    world = World(tmp_path, "sync")
    park(world)
    world.answer = lambda call: Applied("there")
    ended: list[Any] = []

    class Listener(SilentObserver):
        def call_ended(self, call: Any) -> None:
            ended.append((call.request_id, call.result.outcome_basis))

    call = world.recover_one(world.guard(observer=Listener()), parked=True)
    assert ended == [(call.request_id, "confirmed")]
