"""Times in a shared state are those of its server: a worker whose clock is an hour off takes nothing that it should not."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fcguard.constraints import (
    CircuitBreaker,
    Concurrency,
    MemoryState,
    RateLimit,
    ResourcePool,
    SQLiteState,
    TaskBudget,
)
from fcguard.constraints.server_clock import ServerClock
from fcguard.errors import StoreClosed, StoreUnavailable
from fcguard.model.context import Budget, TaskContext
from fcguard.model.task import Task
from tests.constraints.backends import close, open_state
from tests.constraints.conftest import Worker, build_attempt, build_call


class Told(MemoryState):
    """A shared state with a clock of its own, far from that of this machine."""

    is_shared = True

    def __init__(self) -> None:
        super().__init__()
        self.seconds = 1000.0

    def now(self) -> float:
        return self.seconds


def use(kind: str, state: Any, **options: Any) -> Any:
    """Have a constraint note a time in the state; answer that time."""
    call = build_call(task=Task(TaskContext(task_id="t", budget=Budget(seconds=60)), 0.0))
    make: dict[str, Callable[[], Any]] = {
        "circuit": lambda: CircuitBreaker(state=state, **options),
        "rate": lambda: RateLimit(5, 60, state=state, **options),
        "places": lambda: Concurrency(5, state=state, lease_seconds=60, **options),
        "accounts": lambda: ResourcePool("qa", ["a"], state=state, lease_seconds=60, **options),
        "task": lambda: TaskBudget(state=state, **options),
    }
    constraint = make[kind]()
    assert constraint.admit(call, 0.0) is None
    if kind == "circuit":
        constraint.settle(call, build_attempt(call), 0.0)
    (value,) = state._values.values()
    times: dict[str, Callable[[Any], Any]] = {
        "circuit": lambda value: value["outcomes"][0][0],
        "rate": lambda value: value[0],
        "places": lambda value: value["0"][1] - 60,
        "accounts": lambda value: value["a"][1] - 60,
        "task": lambda value: value["since"],
    }
    return times[kind](value)


KINDS = ("circuit", "rate", "places", "accounts", "task")


@pytest.mark.parametrize("kind", KINDS)
def test_the_clock_of_the_state_counts_unless_one_is_given(kind: str) -> None:
    assert use(kind, Told()) == 1000.0
    assert use(kind, Told(), wall=lambda: 2000.0) == 2000.0


@pytest.mark.parametrize("kind", KINDS)
def test_a_state_without_a_clock_counts_on_this_machine(kind: str) -> None:
    class Untold(MemoryState):
        is_shared = True

    before = time.time()
    assert before <= use(kind, Untold()) <= time.time()


def test_a_lease_is_renewed_and_lapses_by_the_clock_of_the_state() -> None:
    state = Told()
    first, second = (ResourcePool("qa", ["a"], state=state, lease_seconds=60) for _ in range(2))
    assert first.admit(build_call(), 0) is None
    state.seconds += 59
    first._leases.renew()
    state.seconds += 59
    assert second.admit(build_call(), 0) is not None
    state.seconds += 2
    assert second.admit(build_call(), 0) is None


def test_an_open_circuit_and_its_snapshot_go_by_the_clock_of_the_state() -> None:
    state = Told()
    breaker = CircuitBreaker("orders", minimum_calls=1, open_seconds=30, state=state)
    call = build_call()
    assert breaker.admit(call, 0) is None
    breaker.settle(call, build_attempt(call, error_type="CONNECTION_FAILED"), 0)
    state.seconds += 10
    assert breaker.admit(build_call(), 0).retry_after == 20 == breaker.snapshot(0).retry_after


# -- workers whose clocks are off ----------------------------------------------------------------------------------------


@pytest.fixture(params=["redis", "postgres"])
def place(request: pytest.FixtureRequest, make_place: Callable[[str], str]) -> str:
    return make_place(request.param)


@pytest.mark.parametrize("ahead", [3600, -3600])
def test_a_worker_an_hour_off_neither_takes_nor_loses_an_account(
    start_workers: Callable[..., list[Worker]], ahead: int
) -> None:
    options: dict[str, Any] = {"pool": {"lease_seconds": 600}}
    (right,), (off,) = start_workers(1, ahead=0, **options), start_workers(1, ahead=ahead, **options)
    for holder, other in ((right, off), (off, right)):
        holder.tell(do="wait")
        assert holder.hear() == {"entered": "ann"}
        assert other.call()["error_type"] == "ACCOUNT_POOL_EMPTY"
        assert holder.release()["success"]
        assert other.call()["success"]


@pytest.mark.parametrize("ahead", [3600, -3600])
def test_a_worker_an_hour_off_waits_for_the_circuit_like_others(
    start_workers: Callable[..., list[Worker]], ahead: int
) -> None:
    options: dict[str, Any] = {"breaker": {"minimum_calls": 1, "open_seconds": 1000, "window_seconds": 1200}}
    (right,), (off,) = start_workers(1, ahead=0, **options), start_workers(1, ahead=ahead, **options)
    assert off.call(do="fail")["error_type"] == "CONNECTION_FAILED"
    answers = [worker.call() for worker in (right, off)]
    assert [answer["error_type"] for answer in answers] == ["CIRCUIT_OPEN"] * 2
    assert all(800 < answer["wait"] <= 1000 for answer in answers)


def test_the_clock_is_the_servers(place: str) -> None:
    state: Any = open_state(place)
    before = time.time()  # the server is on this machine
    assert before - 2 < state.now() < time.time() + 2
    close(state)
    if place.startswith("postgres"):
        state._clock._known = None
        with pytest.raises(StoreClosed):
            state.now()


def test_sqlite_needs_none() -> None:
    assert not hasattr(SQLiteState, "now")


def test_a_server_out_of_reach_says_so(tmp_path: Path) -> None:
    redis = pytest.importorskip("redis")
    from fcguard.constraints.postgres_state import PostgresState
    from fcguard.constraints.redis_state import RedisState

    with pytest.raises(StoreUnavailable, match="TIME"):
        RedisState(redis.Redis(unix_socket_path=str(tmp_path / "none"))).now()
    with pytest.raises(StoreUnavailable):
        PostgresState("postgresql://nobody@127.0.0.1:1/none", timeout=2).now()


# -- the clock itself ----------------------------------------------------------------------------------------------------


class Machine:
    """A machine and a server with clocks of their own."""

    def __init__(self) -> None:
        self.mono, self.wall, self.server, self.asked = 50.0, 7000.0, 1000.0, 0
        self.is_down = False
        self.clock = ServerClock(self.ask, lambda: self.mono, lambda: self.wall)

    def ask(self) -> tuple[float, float]:
        self.asked += 1
        if self.is_down:
            raise StoreUnavailable("gone")
        began = self.mono
        self.passes(1.0)  # the way there, and the way back
        told = self.server
        self.passes(1.0)
        return told, (began + self.mono) / 2

    def passes(self, seconds: float) -> None:
        self.mono, self.wall, self.server = self.mono + seconds, self.wall + seconds, self.server + seconds


def test_it_counts_on_and_asks_again_every_minute() -> None:
    machine = Machine()
    for _ in range(3):
        assert machine.clock.now() == machine.server
        machine.passes(29.0)
    assert machine.asked == 1
    assert machine.clock.now() == machine.server and machine.asked == 2


@pytest.mark.parametrize("jump", [3600.0, -3600.0, 1.0])
def test_it_asks_again_when_the_machine_slept_or_its_clock_was_set(jump: float) -> None:
    machine = Machine()
    machine.clock.now()
    machine.wall += jump
    machine.server += max(0.0, jump)
    assert machine.clock.now() == machine.server and machine.asked == 2
    assert machine.clock.now() == machine.server and machine.asked == 2


def test_a_server_that_is_gone_is_missed_only_when_it_is_asked() -> None:
    machine = Machine()
    machine.clock.now()
    machine.is_down = True
    machine.passes(30.0)
    assert machine.clock.now() == machine.server
    machine.passes(30.0)
    with pytest.raises(StoreUnavailable):
        machine.clock.now()
    machine.is_down = False
    assert machine.clock.now() == machine.server
