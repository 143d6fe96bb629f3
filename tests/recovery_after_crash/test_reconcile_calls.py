"""What recovery does with a call whose process ended: confirm, send again with a licence, or park."""

from __future__ import annotations

from typing import Any

import pytest

from fcguard import Applied, AppliedByOther, Inconclusive, NotApplied, Retry
from fcguard.model.call_info import current_call
from fcguard.model.states import CallState
from fcguard.stores.base import Event, Identity, Move, Open
from fcguard.stores.chain import verify
from fcguard.testing.store_contract import ask
from tests.recovery_after_crash.crashed_world import ARGUMENTS, SETTLE, World


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
    assert world.clock.now() - began >= SETTLE - 0.1, "counted from the proof of death: until then it may have sent"
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
    began = world.clock.now()
    call = world.recover_one(guard, wait=0.0)
    assert (call.did, call.state, len(world.sent)) == ("deferred", "UNCERTAIN", 1)
    assert call.due_at is not None
    assert began - 0.1 <= call.due_at - SETTLE <= world.clock.now() + 0.1
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
