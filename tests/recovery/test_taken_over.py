"""A worker that was paused and lost its call says so: what it knows of its own attempts is not what became of the call."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from fcguard import NotApplied, Retry, Tool
from fcguard.model.states import CallState
from tests.conftest import ANY_OBJECT
from tests.recovery_after_crash.crashed_world import ARGUMENTS, World

BY_KEY: dict[str, Any] = {"idempotency_key": True, "retry": Retry(attempts=3)}


@pytest.fixture(params=["sync", "async"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    return World(tmp_path, request.param)


def lose_the_call_in_the_pause(world: World, failure: Exception, **options: Any) -> Any:
    """Let an attempt fail, and another host take the call and send it while its owner is stopped in the pause."""

    def send(**sent: Any) -> None:
        world.sent.append(sent)
        raise failure

    def recover_elsewhere() -> None:
        world.clock.on_sleep = lambda: None
        world.clock.advance(3600.0)
        world.store.acting = world.store.here
        (row,) = world.store.calls()
        world.store._open[row.identity.request_id].lease_until = 0.0
        other = world.guard(**options)
        done = threading.Thread(target=lambda: other.recover(wait=0.0))
        done.start()
        done.join(20)
        world.store.acting = world.store.people["far"]

    world.store.acting = world.store.people["far"]
    guard = world.guard(send, **options)
    world.clock.on_sleep = recover_elsewhere
    with guard.task("order", task_id="T"):
        return world.call(guard, ARGUMENTS)


@pytest.mark.parametrize("failure", [NotApplied("no stock yet"), TimeoutError()])
def test_what_another_worker_applied_is_not_called_not_applied(world: World, failure: Exception) -> None:
    result = lose_the_call_in_the_pause(world, failure, **BY_KEY, confirm=None)
    assert len(world.effects) == 1, "the other worker sent it"
    assert (result.success, result.effect, result.retryable) == (False, "unknown", False)
    assert (result.next_action, result.blocked_by) == ("confirm_state", result.request_id)
    assert "do not repeat it" in result.message
    stored = world.store.get(result.request_id)
    assert stored is not None and stored.state is CallState.SUCCEEDED


def test_it_does_not_fall_back_either(world: World) -> None:
    asked: list[Any] = []
    world.others = [Tool(name="other_shop", parameters=ANY_OBJECT, fn=lambda **sent: asked.append(sent))]
    result = lose_the_call_in_the_pause(world, NotApplied("no"), **BY_KEY, confirm=None, fallback=("other_shop",))
    assert (result.effect, asked) == ("unknown", [])
    assert len(world.effects) <= 1
