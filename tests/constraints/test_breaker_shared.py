"""A circuit that workers share: real processes on SQLite, Redis and PostgreSQL open it together and probe it together."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from fcguard.constraints import CircuitBreaker, MemoryState, SharedState
from fcguard.constraints.circuit import Circuit
from fcguard.constraints.state import change_text
from tests.constraints.backends import close, open_state
from tests.constraints.breaker_model import OPTIONS, STEPS, follow, lose_probes
from tests.constraints.conftest import build_attempt, build_call

Answers = list[dict[str, Any]]


@pytest.fixture
def state(place: str) -> Any:
    made = open_state(place)
    yield made
    close(made)


def snapshot(state: SharedState) -> Any:
    return CircuitBreaker("orders", state=state).snapshot(0.0)


def refused(answers: Answers) -> Answers:
    return [answer for answer in answers if answer.get("error_type") == "CIRCUIT_OPEN"]


def test_four_workers_open_it_together_and_probe_it_together(
    start_workers: Callable[..., list[Any]], state: SharedState
) -> None:
    options = {"minimum_calls": 8, "failure_rate": 1.0, "open_seconds": 60.0, "probes": 2, "write_probe_seconds": 600.0}
    workers = start_workers(4, breaker=options)

    for worker in workers:
        worker.tell(do="fail")
    assert [worker.hear()["error_type"] for worker in workers] == ["CONNECTION_FAILED"] * 4
    for worker in workers[:3]:
        assert worker.call(do="fail")["attempts"] == 1
    assert (snapshot(state).state, snapshot(state).failures) == ("closed", 7)
    assert workers[3].call(do="fail")["attempts"] == 1, "the eighth failure of all, and only the second of this worker"
    answers = [worker.call() for worker in workers]
    assert len(refused(answers)) == 4 and all(answer["attempts"] == 0 for answer in answers)
    assert all(0 < answer["wait"] <= 60.0 for answer in answers)

    assert len(refused([worker.call("save", later=61.0) for worker in workers])) == 4, "no write may probe"
    for worker in workers:
        worker.tell(do="wait")
    answers = [worker.hear() for worker in workers]
    probing = [worker for worker, answer in zip(workers, answers, strict=True) if "entered" in answer]
    assert len(probing) == 2 and len(refused(answers)) == 2
    assert (snapshot(state).state, snapshot(state).probes) == ("half_open", 2)

    assert probing[0].release()["success"]
    assert snapshot(state).state == "half_open", "two probes have to pass"
    assert probing[1].release()["success"]
    assert [worker.call("save")["error_type"] for worker in workers] == [None] * 4


class TextState:
    """Keeps text, as databases do, and counts what is written."""

    is_shared = True

    def __init__(self) -> None:
        self.texts: dict[str, Any] = {}
        self.writes = 0

    def change(self, key: str, change: Any) -> Any:
        stored = self.texts.get(key)
        text, answer = change_text(stored, change)
        if text is not stored:
            self.texts[key], self.writes = text, self.writes + 1
        return answer


def test_whoever_is_refused_writes_nothing() -> None:
    """Workers knock at an open circuit as often as they like: the database must not pay for it."""
    state, now = TextState(), [1000.0]
    breaker = CircuitBreaker("orders", minimum_calls=1, open_seconds=30, state=state, wall=lambda: now[0])
    call = build_call()
    assert breaker.admit(call, 0) is None and state.writes == 0
    breaker.settle(call, build_attempt(call, error_type="TIMEOUT"), 0)
    assert (breaker.snapshot(0).state, state.writes) == ("open", 1)
    assert all(breaker.admit(build_call(), 0) is not None for _ in range(10))
    now[0] += 31
    assert breaker.admit(call, 0) is None
    assert (breaker.snapshot(0).state, state.writes) == ("half_open", 2)
    assert all(breaker.admit(build_call(), 0) is not None for _ in range(10))
    other = build_call()
    breaker.settle(other, build_attempt(other), 0)
    assert (breaker.snapshot(0).probes, state.writes) == (1, 2), "it was sent before, and is no probe"


def test_a_worker_that_is_killed_while_it_probes_does_not_stick(
    start_workers: Callable[..., list[Any]], state: SharedState
) -> None:
    options = {"minimum_calls": 1, "open_seconds": 60.0, "probe_seconds": 600.0}
    first, second = start_workers(2, breaker=options)
    first.call(do="fail")
    first.tell(do="wait", later=61.0)
    assert "entered" in first.hear()
    assert second.call(later=61.0)["error_type"] == "CIRCUIT_OPEN"
    first.kill()

    for later in (400.0, 201.0):  # before its time, and after: then the probe counts as failed
        answer = second.call(later=later)
        assert answer["error_type"] == "CIRCUIT_OPEN" and 0 < answer["wait"] <= 60.0
    assert second.call(later=61.0)["success"], "its probe ended by itself"
    assert snapshot(state).state == "closed"


def test_a_write_that_closed_it_is_seen_by_a_breaker_made_later(state: SharedState, make_call: Any) -> None:
    wall = [1000.0]
    first = CircuitBreaker("orders", state=state, wall=lambda: wall[0], minimum_calls=1)
    call = make_call()
    assert first.admit(call, 5.0) is None
    attempt = _ended(call, "TIMEOUT", started=4.0)
    first.settle(call, attempt, 5.0)
    later = CircuitBreaker("orders", state=state, wall=lambda: wall[0], minimum_calls=1)
    assert later.admit(make_call(), 77.0).retry_after == 30
    assert CircuitBreaker("payments", state=state, wall=lambda: wall[0]).admit(make_call(), 0) is None
    assert later.admit(make_call(purpose="confirm"), 0) is None
    wall[0] += 30
    probe = make_call()
    assert later.admit(probe, 0.0) is None
    later.settle(probe, _ended(probe, None, started=0.0), 0.0)
    assert first.snapshot(0.0).state == "closed"


def test_an_attempt_from_before_the_circuit_closed_is_not_counted(state: SharedState, make_call: Any) -> None:
    """Its start is known by the monotonic clock of its own process, the closing by the wall clock of another."""
    wall = [1000.0]
    first, second = (CircuitBreaker("b", state=state, wall=lambda: wall[0], minimum_calls=1) for _ in range(2))
    early = make_call()
    first.admit(early, 50.0)
    failing = make_call()
    second.admit(failing, 9.0)
    second.settle(failing, _ended(failing, "TIMEOUT", started=9.0), 9.0)
    wall[0] += 31
    probe = make_call()
    assert second.admit(probe, 40.0) is None
    second.settle(probe, _ended(probe, None, started=40.0), 40.0)
    wall[0] += 1
    first.settle(early, _ended(early, "TIMEOUT", started=50.0), 82.0)
    assert first.snapshot(0).calls == 0
    wall[0] += 1
    fresh = make_call()
    first.settle(fresh, _ended(fresh, "TIMEOUT", started=82.5), 83.0)
    assert first.snapshot(0).state == "open"


def test_keys_are_circuits_of_their_own(state: SharedState, make_call: Any) -> None:
    breaker = CircuitBreaker("b", state=state, key=lambda call: call.tool.name, minimum_calls=1)
    call = make_call(tool="a")
    breaker.settle(call, _ended(call, "TIMEOUT", started=0.0), 0.0)
    assert breaker.admit(make_call(tool="a"), 0.0) is not None and breaker.admit(make_call(tool="b"), 0.0) is None
    assert breaker.snapshot(0.0, "a").state == "open" and breaker.snapshot(0.0, "b").calls == 0


def test_a_wall_clock_that_is_set_back_keeps_nothing_longer_than_the_options_say(make_call: Any) -> None:
    class Elsewhere(MemoryState):
        is_shared = True

    wall = [10_000.0]
    breaker = CircuitBreaker(
        "b", state=Elsewhere(), wall=lambda: wall[0], minimum_calls=1, open_seconds=10, probe_seconds=20
    )
    call = make_call()
    breaker.settle(call, _ended(call, "TIMEOUT", started=0.0), 0.0)
    wall[0] -= 9000
    assert breaker.admit(make_call(), 0.0).retry_after == 10
    wall[0] += 10
    assert breaker.admit(make_call(), 0.0) is None
    wall[0] -= 500
    assert breaker.admit(make_call(), 0.0) is not None
    wall[0] += 20
    assert "within 20 s" in breaker.admit(make_call(), 0.0).message
    wall[0] += 10
    assert breaker.admit(make_call(), 0.0) is None


def test_what_is_written_is_small_and_nothing_is_written_for_nothing(make_call: Any) -> None:
    state = MemoryState()
    breaker = CircuitBreaker("b", state=state, minimum_calls=20)
    call = make_call()
    assert breaker.admit(call, 0.0) is None
    breaker.settle(call, None, 0.0)
    assert state._values == {}
    for n in range(50):
        call = make_call()
        breaker.settle(call, _ended(call, "TIMEOUT" if n % 3 == 0 else None, started=0.0), 1_764_580_000.0 + n)
    [(key, value)] = state._values.items()
    assert key == "circuit:b" and len(value["outcomes"]) == 20 and len(json.dumps(value)) < 700
    assert Circuit.from_json(json.loads(json.dumps(value)), 2e9).as_json() == value


def _ended(call: Any, error_type: str | None, *, started: float) -> Any:
    return build_attempt(call, at=started, error_type=error_type)


class InStep:
    """A breaker whose wall clock shows what its caller says by the monotonic one; everything else is the breaker's own."""

    def __init__(self, name: str, state: SharedState, options: dict[str, Any]) -> None:
        self.now = 0.0
        self.breaker = CircuitBreaker(name, slow_seconds=1.0, state=state, wall=lambda: 1e9 + self.now, **options)

    def admit(self, call: Any, now: float) -> Any:
        self.now = now
        return self.breaker.admit(call, now)

    def settle(self, call: Any, attempt: Any, now: float) -> None:
        self.now = now
        self.breaker.settle(call, attempt, now)

    def snapshot(self, now: float) -> Any:
        self.now = now
        return self.breaker.snapshot(now)


_names = count()


def three(state: SharedState, options: dict[str, Any]) -> Any:
    name = f"b{next(_names)}"
    return [InStep(name, state, options) for _ in range(3)]


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(options=OPTIONS, steps=STEPS)
def test_three_that_share_it_behave_like_the_model(
    state: SharedState, options: dict[str, Any], steps: list[Any]
) -> None:
    follow(three(state, options), options, steps)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(options=OPTIONS, steps=STEPS)
def test_three_that_share_it_never_stick(state: SharedState, options: dict[str, Any], steps: list[Any]) -> None:
    lose_probes(three(state, options), options, steps)


@settings(max_examples=300, deadline=None)
@given(options=OPTIONS, steps=STEPS)
def test_a_state_in_memory_behaves_like_the_model(options: dict[str, Any], steps: list[Any]) -> None:
    state = MemoryState()
    follow([CircuitBreaker(slow_seconds=1.0, state=state, **options) for _ in range(3)], options, steps)
