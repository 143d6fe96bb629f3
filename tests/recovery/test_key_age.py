"""A server remembers an idempotency key for a time: its age counts right before each send, not when the pause begins."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fcguard import Applied, Classified, Guard, MemoryStore, NotApplied, Retry, SQLiteStore
from fcguard.stores.base import Move
from fcguard.testing.clock import FakeClock
from tests.conftest import Effect, Mode, Script, add
from tests.recovery_after_crash.crashed_world import World

LIFETIME = 3600.0
BY_KEY: dict[str, Any] = {"idempotency_key": True, "idempotency_lifetime": LIFETIME}
PATIENT = Retry(attempts=3, max_wait=3 * LIFETIME)


class Server:
    """Removes duplicates by key for as long as it remembers one; the first answer is lost after the effect."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock, self.seen = clock, list[float]()
        self.script = Script(TimeoutError(), "sent")

    @property
    def effects(self) -> int:
        """The first send, and each that came too late for the server to know the key."""
        return 1 + sum(at - self.seen[0] > LIFETIME for at in self.seen)

    def watch(self, outcome: Any, call: Any) -> Any:
        """A classifier is told of each outcome: note when it was sent, and have the first one ask for a long pause."""
        self.seen.append(self.clock.monotonic())
        if len(self.seen) == 1:
            return Classified("RATE_LIMITED", "unknown", "busy", "429 after the body", retry_after=LIFETIME + 1.0)
        return None


@pytest.fixture
def server(clock: FakeClock) -> Server:
    return Server(clock)


def make(guard: Guard, mode: Mode, server: Server, **options: Any) -> Any:
    add(guard, mode, server.script, classifiers=(server.watch,), **{"retry": PATIENT, **BY_KEY, **options})
    with guard.task("pay"):
        return mode.call(guard, "tool", {})


def test_a_key_that_grows_too_old_during_the_pause_is_not_sent_again(guard: Guard, mode: Mode, server: Server) -> None:
    result = make(guard, mode, server)
    assert (result.success, result.effect, result.attempts, server.effects) == (False, "unknown", 1, 1)
    assert (result.error_type, result.next_action, result.retryable) == ("UNCERTAIN_RESULT", "confirm_state", False)


def test_the_state_is_confirmed_again_after_the_pause(guard: Guard, mode: Mode, server: Server) -> None:
    answers = [NotApplied(), Applied("there")]
    result = make(guard, mode, server, confirm=lambda call: answers.pop(0))
    assert (result.success, result.outcome_basis, result.data, server.effects) == (True, "confirmed", "there", 1)


def test_not_there_is_no_licence_once_the_key_is_too_old(guard: Guard, mode: Mode, server: Server) -> None:
    result = make(guard, mode, server, confirm=lambda call: NotApplied())
    assert (result.success, result.effect, server.effects) == (False, "unknown", 1)
    assert "older than the server remembers it" in result.message


def test_another_licence_takes_over_with_its_own_conditions(
    guard: Guard, mode: Mode, clock: FakeClock, server: Server
) -> None:
    read_at: list[float] = []

    def confirm(call: Any) -> NotApplied:
        read_at.append(clock.monotonic())
        return NotApplied()

    result = make(guard, mode, server, confirm=confirm, settle=LIFETIME + 100.0)
    assert (result.success, result.attempts) == (True, 2)
    assert read_at[-1] - server.seen[0] >= LIFETIME + 100.0, "the reading that counts is newer than the settle window"


def test_a_key_that_is_young_enough_after_the_pause_is_sent_again(
    guard: Guard, mode: Mode, clock: FakeClock, server: Server
) -> None:
    result = make(guard, mode, server, idempotency_lifetime=2 * LIFETIME)
    assert (result.success, result.attempts, len(server.seen)) == (True, 2, 2)


def test_a_constraint_that_waits_is_part_of_the_pause(guard: Guard, mode: Mode, clock: FakeClock) -> None:
    script = Script(TimeoutError(), "sent twice")

    def slow(call: Any) -> None:
        if call.attempts:
            clock.advance(LIFETIME + 1.0)

    add(guard, mode, script, constraints=(slow,), **BY_KEY)
    with guard.task("pay"):
        result = mode.call(guard, "tool", {})
    assert (result.success, result.effect, len(script.calls)) == (False, "unknown", 1)
    assert result.next_action == "confirm_state"


class SlowLedger:
    """Takes its time over the intent of a repeat."""

    def __init__(self, store: Any, clock: FakeClock) -> None:
        self._store, self._clock = store, clock

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def submit(self, command: Any, done: Any) -> None:
        if isinstance(command, Move) and command.event.kind == "attempt":
            self._clock.advance(LIFETIME + 1.0)
        self._store.submit(command, done)


STORES: list[Callable[[Path], Any]] = [lambda folder: MemoryStore(), lambda folder: SQLiteStore(folder / "ledger.db")]


@pytest.mark.parametrize("make_store", STORES)
@pytest.mark.parametrize("confirmed", [True, False])
def test_a_ledger_that_takes_its_time_is_part_of_the_pause(
    tmp_path: Path, mode: Mode, make_store: Any, confirmed: bool
) -> None:
    clock = FakeClock()
    script = Script(Effect(TimeoutError()), Effect("sent twice"))
    asked: list[Any] = []

    def confirm(call: Any) -> Any:
        asked.append(call)
        return Applied("there") if confirmed and len(asked) > 1 else NotApplied()

    store = SlowLedger(make_store(tmp_path), clock)
    with Guard(store=store, evidence_dir=tmp_path, clock=clock) as guard:
        add(guard, mode, script, confirm=confirm, retry=PATIENT, **BY_KEY)
        with guard.task("pay"):
            result = mode.call(guard, "tool", {})
        stored = guard.store.get(result.request_id)
    assert (result.success, result.effect) == (confirmed, "applied" if confirmed else "unknown")
    assert len(script.effects) == 1
    assert stored is not None and stored.state == ("SUCCEEDED" if confirmed else "PARKED")


@pytest.mark.parametrize("make_store", STORES)
def test_what_the_ledger_held_back_is_sent_once_the_settle_window_proves_the_first_one_lost(
    tmp_path: Path, mode: Mode, make_store: Any
) -> None:
    """The attempt that was not sent is none of those that the policy allows: two were allowed, and two were made."""
    clock = FakeClock()
    script = Script(TimeoutError(), Effect("sent"))
    with Guard(store=SlowLedger(make_store(tmp_path), clock), evidence_dir=tmp_path, clock=clock) as guard:
        options = {"settle": 2 * LIFETIME, "retry": Retry(attempts=2, max_wait=3 * LIFETIME), **BY_KEY}
        add(guard, mode, script, confirm=lambda call: NotApplied(), **options)
        began = clock.monotonic()
        with guard.task("pay"):
            result = mode.call(guard, "tool", {})
    assert (result.success, result.data, len(script.calls), len(script.effects)) == (True, "sent", 2, 1)
    assert clock.monotonic() - began >= 2 * LIFETIME, "the window was waited for"


class SetBack(FakeClock):
    """Somebody sets the wall clock back while the call waits."""

    def now(self) -> float:
        return super().now() - (10 * LIFETIME if self.slept else 0.0)


def test_a_wall_clock_that_is_set_back_makes_no_key_younger(tmp_path: Path, mode: Mode) -> None:
    clock = SetBack()
    server = Server(clock)
    with Guard(store=MemoryStore(), evidence_dir=tmp_path, clock=clock) as guard:
        result = make(guard, mode, server)
    assert (result.success, server.effects) == (False, 1)


# -- after a crash -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("age", "sent"), [(LIFETIME - 1.0, 2), (LIFETIME + 1.0, 1)])
def test_the_age_counts_from_the_first_attempt_also_after_a_crash(world: World, age: float, sent: int) -> None:
    world.crash(applied=False, confirm=None, **BY_KEY)
    world.clock.advance(age)
    world.recover(world.guard(confirm=None, **BY_KEY))
    assert len(world.sent) == sent


@pytest.mark.parametrize(("age", "sent"), [(LIFETIME - 61.0, 2), (LIFETIME - 30.0, 1), (-LIFETIME, 1)])
def test_the_clock_of_another_host_may_be_off_by_a_minute_and_never_in_the_future(
    world: World, age: float, sent: int
) -> None:
    world.crash(applied=False, owner="far", confirm=None, **BY_KEY)
    request_id = next(iter(world.store.calls())).identity.request_id
    world.clock.advance(age)
    world.store._open[request_id].lease_until = 0.0
    world.recover(world.guard(confirm=None, **BY_KEY))
    assert len(world.sent) == sent


@pytest.fixture(params=["sync", "async"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> World:
    return World(tmp_path, request.param)
