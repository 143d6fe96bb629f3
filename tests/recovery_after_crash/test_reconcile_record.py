"""What recovery reads in the record of a call: what is masked or missing, late results, spans and child calls."""

from __future__ import annotations

from typing import Any

import pytest

from fcguard import ConfirmBy, Fallback, Guard, NotApplied, Tool
from fcguard.model.states import CallState
from fcguard.stores.base import Event, Identity, Move, Note, Open
from fcguard.telemetry.observer import Origin, SilentObserver
from fcguard.testing.store_contract import ask
from tests.recovery_after_crash.crashed_world import ARGUMENTS, SETTLE, World


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


def test_another_version_of_the_tool_leaves_the_call_open_and_untouched(world: World) -> None:
    request_id = world.crash(applied=True)
    found = world.recover(world.guard(version="2"))
    (call,) = found.calls
    assert (call.did, call.state) == ("left_open", "STARTED")
    assert (found.unresolved, found.not_mine) == ((call,), ())
    assert world.kinds(request_id) == ["opened"]


def test_a_call_of_another_service_is_left_alone(world: World) -> None:
    """Two services share the ledger. Each takes up its own calls, and neither parks those of the other."""
    request_id = world.crash(applied=True)
    stranger = Guard(store=world.store, evidence_dir=world.folder, clock=world.clock, observer=SilentObserver())
    stranger.register(Tool(name="ship", parameters={"type": "object"}, fn=lambda **_: 1, effect="write"))
    found = world.recover(stranger, parked=True)
    (call,) = found.calls
    assert (call.did, call.state, call.message) == (
        "not_mine", "STARTED", "no tool 'create_order' is registered with this guard",
    )  # fmt: skip
    assert (found.unresolved, found.not_mine) == ((), (call,))
    assert "1 not mine" in str(found)
    assert world.kinds(request_id) == ["opened"]
    assert world.recover_one(world.guard()).did == "confirmed"


def test_a_record_that_cannot_be_read_leaves_the_call_open(world: World) -> None:
    identity = Identity("fc-x", "T", "create_order", "1", "write")
    world.store.acting = world.store.people["gone"]
    ask(world.store, Open(identity, CallState.STARTED, 1, Event("opened", 1.0, {"no": "arguments"})))
    world.store.acting = world.store.here
    call = world.recover_one(world.guard())
    assert (call.did, "cannot be read" in call.message) == ("left_open", True)
    assert world.kinds("fc-x") == ["opened"]


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
    world.others.append(Tool(name="query_order", parameters={"type": "object"}, fn=lambda **_: [1], effect="read"))
    request_id = world.crash(applied=True, **options)
    assert world.recover_one(world.guard(**options)).did == "confirmed"
    (child,) = [call for call in world.store.calls() if call.identity.purpose == "confirm"]
    assert (child.identity.parent_id, child.identity.task_id) == (request_id, "T")


def test_a_write_whose_fallback_may_have_done_it_is_not_sent_again(world: World) -> None:
    fallback = {"fallback": (Fallback("create_elsewhere"),)}
    world.others.append(Tool(name="create_elsewhere", parameters={"type": "object"}, fn=lambda **_: None))
    request_id = world.crash(applied=False, settle=SETTLE, **fallback)
    identity = Identity("fc-child", "T", "create_elsewhere", "1", "write", "fallback", parent_id=request_id)
    at = world.clock.now()
    ask(world.store, Open(identity, CallState.STARTED, 1, Event("opened", at, {"arguments": {}})))
    ask(world.store, Move("fc-child", 1, CallState.SUCCEEDED, 1, Event("outcome", at, {}), {"success": True}))
    call = world.recover_one(world.guard(settle=SETTLE, **fallback))
    assert (call.did, len(world.sent)) == ("parked", 1)
    assert "fc-child" in call.message


# -- records that contradict themselves --------------------------------------------------------------------------------


def test_a_row_that_contradicts_its_events_is_not_acted_upon(world: World) -> None:
    """Somebody set the attempt of a call that was lost: by the row alone it would be sent as the eighth."""
    request_id = world.crash(applied=False, settle=SETTLE)
    world.store._open[request_id].attempt = 7
    found = world.recover(world.guard(settle=SETTLE))
    (call,) = found.calls
    assert (call.did, call.state, len(world.sent), world.confirmed) == ("left_open", "STARTED", 1, [])
    assert "the row says attempt 7, its events say 1" in call.message
    assert "fcguard verify" in call.message
    assert found.unresolved == (call,)
    assert world.kinds(request_id) == ["opened"]


def test_a_parked_row_that_contradicts_its_events_is_not_asked_about(world: World) -> None:
    request_id = world.crash(applied=True)
    world.answer = lambda call: NotApplied()
    world.recover(world.guard())
    world.confirmed.clear()
    world.store._open[request_id].version += 1
    call = world.recover_one(world.guard(), parked=True)
    assert (call.did, call.state, world.confirmed) == ("left_open", "PARKED", [])


@pytest.mark.parametrize("state", [CallState.STARTED, CallState.PARKED])
def test_a_call_that_is_moved_while_its_record_is_read_is_the_other_worker_s(world: World, state: CallState) -> None:
    request_id = world.crash(applied=True)
    if state is CallState.PARKED:
        world.answer = lambda call: NotApplied()
        world.recover(world.guard())
    events = world.store.events

    def moved(**which: Any) -> Any:
        world.store.events = events  # type: ignore[method-assign]
        row = world.store.get(request_id)
        assert row is not None
        ask(world.store, Move(request_id, row.version, CallState.CONFIRMING, 1, Event("confirming", 2.0, {})))
        return events(**which)

    world.store.events = moved  # type: ignore[method-assign]
    call = world.recover_one(world.guard(), parked=True)
    assert (call.did, call.message) == ("taken_over", "another worker moved it first")


@pytest.mark.parametrize("parked", [True, False])
def test_an_event_that_lacks_what_it_must_hold_leaves_the_call_to_people(world: World, parked: bool) -> None:
    request_id = world.crash(applied=True)
    if parked:
        world.answer = lambda call: NotApplied()
        world.recover(world.guard())
    ask(world.store, Note(request_id, Event("claimed", 2.0, {"nobody": "did"})))
    call = world.recover_one(world.guard(), parked=True)
    assert call.did == "left_open"
    assert "its record cannot be read (KeyError" in call.message


def test_a_parked_call_whose_opening_lacks_its_arguments_waits(world: World) -> None:
    identity = Identity("fc-x", "T", "create_order", "1", "write")
    ask(world.store, Open(identity, CallState.STARTED, 1, Event("opened", 1.0, {"no": "arguments"})))
    ask(world.store, Move("fc-x", 1, CallState.PARKED, 1, Event("parked", 2.0, {})))
    assert world.recover_one(world.guard(), parked=True).did == "waits"
    assert world.confirmed == []
