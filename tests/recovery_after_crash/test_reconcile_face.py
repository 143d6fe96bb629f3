"""What a guard offers about calls that were left open: advance, resolve, the background loop, the report; and the spool."""

from __future__ import annotations

import json
import logging
import threading
from pathlib import Path
from typing import Any

import pytest

from fcguard import Applied, Environment, Guard, MemoryStore, NotApplied, SQLiteStore, StoreError, Tool, UsageError
from fcguard.background import Background
from fcguard.errors import ConfigurationError, StoreUnavailable
from fcguard.model.states import CallState
from fcguard.reconcile.report import Recovered, Recovery
from fcguard.stores.base import Enter, Event, Identity, Move, Open
from fcguard.stores.payload import body_of
from fcguard.stores.recoverable import Drained
from fcguard.telemetry.observer import SilentObserver
from fcguard.testing.store_contract import ask
from tests.recovery_after_crash.crashed_world import ARGUMENTS, World

# -- advance -----------------------------------------------------------------------------------------------------------


def test_advance_brings_one_call_to_its_end_and_can_be_repeated(world: World) -> None:
    request_id = world.crash(applied=True)
    guard = world.guard()
    result = world.advance(guard, request_id)
    assert (result.success, result.outcome_basis, result.request_id) == (True, "confirmed", request_id)
    again = world.advance(guard, request_id)
    assert again.model_dump() == {**result.model_dump(), "data": {"found": True}}
    assert world.kinds(request_id) == ["opened", "claimed", "confirming", "outcome"]


def test_advance_confirms_a_parked_call_again(world: World) -> None:
    request_id = world.crash(applied=False)
    guard = world.guard()
    assert world.advance(guard, request_id).next_action == "confirm_state"
    assert world.state(request_id) == "PARKED"
    world.effects.append(ARGUMENTS)
    result = world.advance(guard, request_id)
    assert (result.success, result.outcome_basis, world.state(request_id)) == (True, "confirmed", "SUCCEEDED")


def test_advance_of_a_call_without_its_tool_says_that_it_is_pending(world: World) -> None:
    request_id = world.crash(applied=True)
    result = world.advance(world.guard(version="2"), request_id)
    assert (result.success, result.error_type, result.tool_version) == (False, "UNCERTAIN_RESULT", "1")
    assert request_id in result.message


def test_advance_of_an_unknown_call_is_a_usage_error(world: World) -> None:
    with pytest.raises(UsageError, match="holds no call 'nope'"):
        world.advance(world.guard(), "nope")


def test_a_store_that_knows_no_owners_cannot_be_recovered_from(tmp_path: Path) -> None:
    class Simple:
        def __init__(self) -> None:
            inner = MemoryStore()
            self.submit, self.get, self.events, self.calls, self.close = (
                inner.submit, inner.get, inner.events, inner.calls, inner.close,
            )  # fmt: skip

    guard = Guard(store=Simple(), evidence_dir=tmp_path)
    with pytest.raises(UsageError, match="RecoverableStore"):
        guard.recover()
    assert guard.evidence_dir == tmp_path
    assert guard.recovery_table.plan_for


# -- a person decides --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("applied", [True, False])
def test_a_person_resolves_a_parked_call(world: World, applied: bool) -> None:
    request_id = world.crash(applied=False)
    guard = world.guard()
    world.recover(guard)
    result = guard.resolve(request_id, applied=applied, by="Ann", reason="looked it up; password=hunter22")
    assert (result.success, result.effect) == (applied, "applied" if applied else "not_applied")
    assert result.outcome_basis == ("operator" if applied else None)
    assert result.retryable is not applied
    assert "Ann" in result.message
    assert world.state(request_id) == ("SUCCEEDED" if applied else "FAILED")
    event = list(world.store.events(request_id=request_id))[-1]
    body = body_of(event)
    assert (event.kind, body["applied"], body["by"]) == ("resolved", applied, "Ann")
    assert b"hunter22" not in event.payload
    again = world.guard()
    with again.task("order", task_id="T"):
        assert world.call(again, ARGUMENTS).success, "the effect key is free again"


def test_a_person_resolves_what_nobody_works_on(world: World) -> None:
    request_id = world.crash(applied=False)
    world.guard().resolve(request_id, applied=False, by="Ann", reason="not there")
    assert world.kinds(request_id) == ["opened", "claimed", "resolved"]


def test_a_call_that_a_living_process_works_on_is_not_resolved(world: World) -> None:
    request_id = world.crash(applied=False, owner="alive")
    with pytest.raises(UsageError, match="worked on"):
        world.guard().resolve(request_id, applied=True, by="Ann", reason="looked")


def test_a_call_that_ended_is_not_resolved(world: World) -> None:
    request_id = world.crash(applied=True)
    guard = world.guard()
    world.recover(guard)
    with pytest.raises(UsageError, match="has ended already"):
        guard.resolve(request_id, applied=True, by="Ann", reason="looked")


def test_a_call_that_was_never_sent_is_not_resolved(world: World) -> None:
    identity = Identity("fc-p", "T", "create_order", "1", "write")
    ask(world.store, Open(identity, CallState.PREPARED, 0, Event("opened", 1.0, {})))
    with pytest.raises(UsageError, match="never sent"):
        world.guard().resolve("fc-p", applied=True, by="Ann", reason="looked")


@pytest.mark.parametrize(("by", "reason"), [("", "looked"), ("Ann", "  ")])
def test_a_resolution_names_who_and_why(world: World, by: str, reason: str) -> None:
    with pytest.raises(UsageError, match="by= and reason="):
        world.guard().resolve("x", applied=True, by=by, reason=reason)


@pytest.mark.parametrize("kind", ["claimed", "resolved"])
def test_a_resolution_that_is_overtaken_is_an_error(world: World, kind: str) -> None:
    request_id = world.crash(applied=False)

    def overtake(command: Any) -> None:
        if isinstance(command, Move) and command.event.kind == kind:
            world.store.before = lambda command: None
            row = world.store.get(request_id)
            assert row is not None
            ask(world.store, Move(request_id, row.version, CallState.PARKED, 1, Event("parked", 2.0, {})))

    world.store.before = overtake
    with pytest.raises(StoreError, match="moved by somebody else"):
        world.guard().resolve(request_id, applied=True, by="Ann", reason="looked")


# -- the background loop -----------------------------------------------------------------------------------------------


def test_the_reconciler_recovers_in_the_background(tmp_path: Path) -> None:
    world = World(tmp_path, "sync")
    request_id = world.crash(applied=False)
    confirmed = threading.Event()

    def look(call: Any) -> Applied:
        confirmed.set()
        return Applied()

    world.answer = look
    with world.guard().reconciler(interval=0.01) as reconciler:
        assert confirmed.wait(60)
        assert reconciler.start() is reconciler, "a second start changes nothing"
    assert world.state(request_id) == "SUCCEEDED"
    assert reconciler.last is not None
    assert reconciler.stop() is True


def test_an_error_is_logged_and_does_not_end_the_loop(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    world = World(tmp_path, "sync")
    guard = world.guard()
    rounds = [threading.Event(), threading.Event()]

    def fail() -> Drained:
        (rounds[0] if not rounds[0].is_set() else rounds[1]).set()
        raise StoreUnavailable("the ledger is away")

    world.store.drain = fail  # type: ignore[method-assign]
    with caplog.at_level(logging.WARNING, "fcguard.reconcile"), guard.reconciler(interval=0.001):
        assert all(event.wait(60) for event in rounds)
    assert "the ledger is away" in caplog.text


@pytest.mark.parametrize("interval", [0.0, -1.0, float("nan")])
def test_an_interval_is_above_zero(tmp_path: Path, interval: float) -> None:
    with pytest.raises(ConfigurationError, match="above zero"):
        World(tmp_path, "sync").guard().reconciler(interval=interval)


def test_a_background_job_can_be_stopped_before_it_began_and_begun_again() -> None:
    ran = threading.Semaphore(0)
    background = Background(ran.release, 60.0, "test")
    assert background.stop(1.0) is True
    for _ in range(2):
        background.start()
        assert ran.acquire(timeout=60)
        assert background.stop(60.0) is True


def test_a_job_that_runs_is_waited_for_and_may_stop_itself() -> None:
    entered, leave = threading.Event(), threading.Event()
    background = Background(lambda: (entered.set(), leave.wait(60))[0], 60.0, "test")  # type: ignore[func-returns-value]
    background.start()
    assert entered.wait(60)
    assert background.stop(0.01) is False
    leave.set()
    assert background.stop(60.0) is True
    ended: list[bool] = []
    own = Background(lambda: ended.append(own.stop(1.0)), 0.001, "test")
    own.start()
    while not ended:
        own.stop(1.0)
    assert ended[0] is False


# -- the report --------------------------------------------------------------------------------------------------------


def test_the_report_tells_people_and_programs() -> None:
    row = Recovered("fc-1", "create_order", "T", CallState.STARTED, "dead", "parked", CallState.PARKED, 1, "why")
    found = Recovery((row,), busy=2, drained=Drained(applied=1, failed={"file": "reason"}))
    text = str(found)
    assert "fc-1  create_order  STARTED (owner dead) -> PARKED, parked: why" in text
    assert "spool: 1 written" in text
    assert "open calls: 1 (1 parked); 2 held by a living worker" in text
    data = json.loads(json.dumps(found.to_json()))
    assert (data["totals"], data["busy"], data["drained"]["failed"]) == ({"parked": 1}, 2, {"file": "reason"})
    assert str(Recovery()) == "open calls: 0"


# -- outcomes that the ledger cannot take ------------------------------------------------------------------------------


def governed(world: World, **options: Any) -> tuple[Guard, Any]:
    guard = world.guard(**options)
    with guard.task("order", task_id="T"):
        return guard, world.call(guard, ARGUMENTS)


def test_a_result_that_cannot_be_recorded_is_returned_and_spooled(world: World) -> None:
    world.store.before = lambda command: setattr(world.store, "is_away", isinstance(command, Move))
    guard, result = governed(world)
    assert (result.success, result.flags) == (True, ("evidence_pending",))
    assert world.state(result.request_id) == "STARTED"
    world.store.before, world.store.is_away = (lambda command: None), False
    found = world.recover(guard)
    assert (found.drained.applied, found.calls) == (1, ())
    assert world.state(result.request_id) == "SUCCEEDED"


def test_a_spool_that_is_away_too_is_told(world: World) -> None:
    world.store.before = lambda command: setattr(world.store, "is_away", isinstance(command, Move))
    world.store.is_spool_away = True
    _, result = governed(world)
    assert set(result.flags) == {"evidence_pending", "evidence_unsaved"}


def test_what_the_ledger_will_never_take_is_not_spooled(world: World) -> None:
    kept: list[Any] = []
    world.store.spool = kept.append  # type: ignore[method-assign]

    def refuse(command: Any, done: Any) -> None:
        done(StoreError("no JSON form") if isinstance(command, Move) else None)

    guard = world.guard()
    inner = world.store.submit
    world.store.submit = lambda command, done: (
        refuse(command, done) if isinstance(command, Move) else inner(command, done)
    )  # type: ignore[method-assign]
    with guard.task("order", task_id="T"):
        result = world.call(guard, ARGUMENTS)
    assert (result.success, result.flags, kept) == (True, ("evidence_pending",), [])


@pytest.mark.parametrize("landed", [True, False])
@pytest.mark.parametrize("stays_away", [True, False])
def test_an_intent_whose_commit_is_unknown_is_withdrawn(world: World, landed: bool, stays_away: bool) -> None:
    """Nothing was sent, the caller is told so, and whatever the ledger took, it agrees in the end."""
    inner = world.store.submit

    def lose(command: Any, done: Any) -> None:
        if isinstance(command, Open):
            if landed:
                inner(command, lambda answer: None)
            world.store.is_away = stays_away
            done(StoreUnavailable("the connection broke"))
        else:
            inner(command, done)

    world.store.submit = lose  # type: ignore[method-assign]
    guard, result = governed(world)
    assert (result.success, result.error_type, result.attempts) == (False, "EVIDENCE_FAILED", 0)
    assert result.flags == (("evidence_pending",) if stays_away else ())
    world.store.submit, world.store.is_away = inner, False  # type: ignore[method-assign]
    assert world.recover(guard).calls == ()
    assert world.state(result.request_id) == "REJECTED"
    assert world.sent == []
    assert world.kinds(result.request_id) == (["opened", "call"] if landed else ["call"])


def test_a_read_that_cannot_be_recorded_is_spooled_to_files(tmp_path: Path) -> None:
    """On a real ledger whose file is not there yet, because its directory is a file."""
    blocker = tmp_path / "folder"
    blocker.write_text("in the way")
    store = SQLiteStore(blocker / "ledger.db", spool=tmp_path / "spool")
    guard = Guard(store=store, evidence_dir=tmp_path, observer=SilentObserver())
    guard.register(Tool(name="look", parameters={"type": "object"}, fn=lambda **_: 1, effect="read"))
    result = guard.call("look", {})
    assert (result.success, result.data, result.flags) == (True, 1, ("evidence_pending",))
    blocker.unlink()
    assert guard.recover().drained.applied == 1
    row = store.get(result.request_id)
    assert row is not None and row.state == "SUCCEEDED"
    guard.close()


# -- limits that the record keeps --------------------------------------------------------------------------------------


def test_the_record_keeps_the_limits_within_which_a_call_may_go_on(world: World) -> None:
    environment = Environment(
        name="test-a", base_urls=("http://a",), data_sources=("db",), account="u1", account_pool="pool", tenant="mall"
    )
    world.others.append(Tool(name="query_order", parameters={"type": "object"}, fn=lambda **_: [1], effect="read"))
    guard = world.guard()
    with guard.task(
        "order", task_id="T", environment=environment, allow={"create_order"}, forbid={"query_*"}, roles={"clerk"}, actor="Ann",
        agent="buyer", conversation_id="c-1",
    ):  # fmt: skip
        world.call(guard, ARGUMENTS)
    body = body_of(next(iter(world.store.events())))
    assert (body["base_urls"], body["data_sources"], body["account_pool"]) == (["http://a"], ["db"], "pool")
    assert (body["allow"], body["forbidden"], body["roles"]) == (["create_order"], ["query_*"], ["clerk"])
    assert (body["conversation_id"], body["actor"], body["agent"]) == ("c-1", "Ann", "buyer")


def test_a_method_is_confirmed_but_not_sent_again(tmp_path: Path) -> None:
    world = World(tmp_path, "sync")
    made = Guard(store=world.store, evidence_dir=tmp_path, clock=world.clock, observer=SilentObserver())

    class Shop:
        @made.tool(effect="write", name="create_order", confirm=lambda call: NotApplied(), idempotency_key=True)
        def create(self, order_id: str, quantity: int) -> None:
            world.sent.append({"order_id": order_id})
            world.store.is_away = world.store.is_spool_away = True

    world.store.acting = world.store.people["gone"]
    with made.task("order", task_id="T"):
        Shop().create("A1", 2)
    world.store.acting = world.store.here
    world.store.is_away = world.store.is_spool_away = False
    call = world.recover_one(made)
    assert (call.did, len(world.sent)) == ("parked", 1)
    assert "method" in call.message


def test_an_outcome_that_is_not_recorded_even_now_is_reported(world: World) -> None:
    world.crash(applied=True)

    def away(command: Any) -> None:
        world.store.is_away = isinstance(command, Move) and command.state is CallState.SUCCEEDED

    world.store.before = away
    call = world.recover_one(world.guard())
    assert call.did == "unrecorded"
    world.store.before, world.store.is_away = (lambda command: None), False
    found = world.recover(world.guard())
    assert (found.drained.applied, found.calls) == (1, ())


def test_an_entered_call_is_no_open_call(world: World) -> None:
    ask(world.store, Enter(Identity("fc-r", "T", "look", "1", "read"), CallState.SUCCEEDED, 1, Event("call", 1.0, {})))
    assert world.recover(world.guard()) == Recovery()
