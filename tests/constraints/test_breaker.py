"""The circuit breaker against a model that recounts everything, and rule by rule."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from hypothesis import given, settings

from fcguard.constraints import CircuitBreaker, Constraint, is_tool_failure
from fcguard.constraints.state import MemoryState
from fcguard.errors import ConfigurationError
from fcguard.model.failure import ErrorType, FailureClass, class_of
from tests.constraints.breaker_model import OPTIONS, STEPS, follow, lose_probes

FAILURES = [
    e for e in ErrorType if class_of(e) in (FailureClass.AVAILABILITY, FailureClass.UNCERTAIN, FailureClass.TOOL)
]
OTHERS = [e for e in ErrorType if e not in FAILURES]


class Driver:
    def __init__(self, breaker: CircuitBreaker, make_call: Any, make_attempt: Any) -> None:
        self.breaker, self.make_call, self.make_attempt = breaker, make_call, make_attempt

    def run(self, now: float, error: str | None = None, **options: Any) -> Any:
        duration = options.pop("duration", 0.0)
        call = self.make_call(**options)
        refused = self.breaker.admit(call, now)
        if refused is None:
            attempt = self.make_attempt(call, at=now, error_type=error, duration=duration)
            self.breaker.settle(call, attempt, now)
        return refused


@pytest.fixture
def drive(make_call: Any, make_attempt: Any) -> Any:
    return lambda breaker: Driver(breaker, make_call, make_attempt)


def test_opens_at_the_failure_rate_and_says_when_to_come_back(drive: Any) -> None:
    breaker = CircuitBreaker("orders", minimum_calls=4, failure_rate=0.5, open_seconds=30)
    d = drive(breaker)
    assert [d.run(t, e) for t, e in enumerate([None, "TIMEOUT", None])] == [None] * 3
    assert breaker.snapshot(3).state == "closed"
    d.run(3, "CONNECTION_FAILED")
    refused = d.run(10)
    assert refused.code == "CIRCUIT_OPEN" and refused.retry_after == 23
    assert "orders" in refused.message and class_of(refused.code) is FailureClass.AVAILABILITY
    assert isinstance(breaker, Constraint)


def test_a_rate_counts_only_with_the_minimum_of_calls(drive: Any) -> None:
    d = drive(CircuitBreaker(minimum_calls=5))
    assert [d.run(t, "TIMEOUT") for t in range(4)] == [None] * 4
    assert d.run(4, "TIMEOUT") is None
    assert d.run(5).code == "CIRCUIT_OPEN"


def test_outcomes_leave_by_count_and_by_age(drive: Any) -> None:
    d = drive(CircuitBreaker(window_calls=4, minimum_calls=4, failure_rate=0.75, window_seconds=10))
    for t, e in enumerate(["TIMEOUT", "TIMEOUT", None, None, "TIMEOUT", "TIMEOUT"]):
        assert d.run(t, e) is None
    assert d.breaker.snapshot(5).failures == 2
    assert d.run(14.5, "TIMEOUT") is None
    assert d.breaker.snapshot(14.5).calls == 2


def test_slow_calls_open_it_though_they_succeed(drive: Any) -> None:
    d = drive(CircuitBreaker(minimum_calls=2, slow_seconds=1.0, slow_rate=0.5))
    d.run(0, duration=0.2)
    d.run(1, duration=1.0)
    assert d.run(2).code == "CIRCUIT_OPEN"


@pytest.mark.parametrize("error", OTHERS)
def test_what_is_not_the_tools_fault_never_counts(drive: Any, error: str) -> None:
    d = drive(CircuitBreaker(minimum_calls=1, failure_rate=0.01))
    for t in range(50):
        assert d.run(t, error) is None
    assert d.breaker.snapshot(50).calls == 0


@pytest.mark.parametrize("error", FAILURES)
def test_what_is_the_tools_fault_counts(drive: Any, error: str) -> None:
    d = drive(CircuitBreaker(minimum_calls=1))
    d.run(0, error)
    assert d.breaker.snapshot(0).state == "open"


def test_a_cancelled_write_is_uncertain_but_no_tool_failure(make_call: Any, make_attempt: Any) -> None:
    call = make_call(effect="write")
    assert is_tool_failure(make_attempt(call, error_type="CANCELLED", classified="UNCERTAIN_RESULT")) is None
    assert is_tool_failure(make_attempt(call, error_type="TIMEOUT", classified="UNCERTAIN_RESULT")) is True
    never_sent = make_attempt(call, error_type="TOOL_ERROR")
    never_sent.was_dispatched = False
    assert is_tool_failure(never_sent) is None


def opened(drive: Any, **options: Any) -> Driver:
    d = drive(CircuitBreaker(minimum_calls=1, open_seconds=10, **options))
    d.run(0, "TIMEOUT")
    return d


def test_half_open_admits_one_read_and_no_write(drive: Any, make_call: Any, make_attempt: Any) -> None:
    d = opened(drive)
    assert d.run(10, effect="write").code == "CIRCUIT_OPEN"
    probe = make_call()
    assert d.breaker.admit(probe, 11) is None
    second = d.run(12)
    assert second.code == "CIRCUIT_OPEN" and 0 < second.retry_after <= 10
    d.breaker.settle(probe, make_attempt(probe, at=11), 13)
    assert d.breaker.snapshot(13).state == "closed"
    assert d.run(14, effect="write") is None


def test_a_failed_or_slow_probe_opens_again(drive: Any) -> None:
    d = opened(drive, slow_seconds=1.0)
    d.run(10, "TIMEOUT")
    assert d.breaker.snapshot(10).retry_after == 10
    d.run(20, duration=5.0)
    assert d.breaker.snapshot(20).state == "open"


def test_several_probes_all_have_to_pass(drive: Any) -> None:
    d = opened(drive, probes=2)
    d.run(10)
    assert d.breaker.snapshot(10).state == "half_open"
    d.run(11)
    assert d.breaker.snapshot(11).state == "closed"


@pytest.mark.parametrize("error", ["CANCELLED", "PARAM_INVALID", "APPROVAL_DENIED", None])
def test_a_probe_that_tells_nothing_frees_its_place(
    drive: Any, make_call: Any, make_attempt: Any, error: str | None
) -> None:
    d = opened(drive)
    probe = make_call()
    d.breaker.admit(probe, 10)
    d.breaker.settle(probe, None if error is None else make_attempt(probe, at=10, error_type=error), 11)
    snapshot = d.breaker.snapshot(11)
    assert (snapshot.state, snapshot.probes) == ("half_open", 0)
    assert d.run(12) is None


def test_a_probe_that_never_settles_times_out_and_is_not_heard_afterwards(
    drive: Any, make_call: Any, make_attempt: Any
) -> None:
    d = opened(drive, probe_seconds=20)
    lost = make_call()
    assert d.breaker.admit(lost, 10) is None
    assert d.run(29.9).code == "CIRCUIT_OPEN"
    assert "within 20 s" in d.run(30).message
    d.breaker.settle(lost, make_attempt(lost, at=10), 31)
    assert d.breaker.snapshot(31).state == "open"
    assert d.run(40) is None
    assert d.breaker.snapshot(40).state == "closed"


def test_a_probe_that_settles_too_late_counts_as_failed(drive: Any, make_call: Any, make_attempt: Any) -> None:
    d = opened(drive, probe_seconds=20)
    slow = make_call()
    d.breaker.admit(slow, 10)
    d.breaker.settle(slow, make_attempt(slow, at=10), 30)
    assert d.breaker.snapshot(30).state == "open"


def test_a_circuit_that_only_guards_writes_can_close(drive: Any) -> None:
    d = opened(drive, write_probe_seconds=5)
    assert d.run(10, effect="write").retry_after == 5
    assert d.run(14.9, effect="destructive").code == "CIRCUIT_OPEN"
    assert d.run(15, effect="write") is None
    assert d.breaker.snapshot(15).state == "closed"


@pytest.mark.parametrize("state", [None, MemoryState])
def test_the_wait_for_a_read_begins_when_the_open_time_is_over(drive: Any, state: Any) -> None:
    """Nothing came during a long pause: the first write is the probe, though nobody saw the circuit become half-open."""
    d = opened(drive, write_probe_seconds=5, state=state and state())
    assert d.run(12, effect="write").retry_after == 3
    d = opened(drive, write_probe_seconds=5, state=state and state())
    assert d.run(15, effect="write") is None
    assert d.breaker.snapshot(15).state == "closed"
    d = opened(drive, state=state and state())
    assert d.run(19.9, effect="write").code == "CIRCUIT_OPEN"
    d = opened(drive, state=state and state())
    assert d.run(100, "TIMEOUT", effect="write") is None
    assert d.breaker.snapshot(100).retry_after == 10, "a failed probe opens it from now on, not from then"


def test_a_refusal_says_not_to_keep_trying(drive: Any) -> None:
    assert "Do not keep trying; try again in about 9 s." in opened(drive).run(1).message


def test_confirmations_pass_and_are_not_counted(drive: Any) -> None:
    d = opened(drive)
    assert d.run(1, purpose="confirm") is None
    assert d.run(11, "TIMEOUT", purpose="confirm") is None
    assert d.breaker.snapshot(11).state == "open"


def test_an_attempt_from_before_the_circuit_closed_is_not_counted(
    drive: Any, make_call: Any, make_attempt: Any
) -> None:
    d = drive(CircuitBreaker(minimum_calls=1, open_seconds=10))
    early = make_call()
    d.breaker.admit(early, 0)
    attempt = make_attempt(early, at=0, error_type="TIMEOUT")
    d.run(1, "TIMEOUT")
    d.breaker.settle(early, attempt, 2)
    d.run(11)
    assert d.breaker.snapshot(11).state == "closed"
    d.breaker.settle(early, attempt, 12)
    assert d.breaker.snapshot(12).state == "closed"


def test_an_admission_that_was_not_used_counts_for_nothing(make_call: Any) -> None:
    breaker = CircuitBreaker()
    call = make_call()
    breaker.admit(call, 0)
    breaker.settle(call, None, 1)
    assert breaker.snapshot(1).calls == 0


def test_a_key_gives_every_tool_its_own_circuit(drive: Any) -> None:
    d = drive(CircuitBreaker(minimum_calls=1, key=lambda call: call.tool.name))
    d.run(0, "TIMEOUT", tool="a")
    assert d.run(1, tool="a").code == "CIRCUIT_OPEN"
    assert d.run(1, tool="b") is None
    assert (d.breaker.snapshot(1, "a").state, d.breaker.snapshot(1, "b").calls, d.breaker.snapshot(1, "c").calls) == (
        "open",
        1,
        0,
    )


def test_many_keys_do_not_grow_without_limit_and_open_circuits_stay(drive: Any, make_call: Any) -> None:
    d = drive(CircuitBreaker(minimum_calls=1, key=lambda call: call.arguments["k"]))
    d.run(0, "TIMEOUT", arguments={"k": -1})
    call = make_call()
    for k in range(10_050):
        d.breaker._circuit_of(k)
    assert len(d.breaker._circuits) <= 10_000
    assert d.breaker.snapshot(0, -1).state == "open"
    assert call.tool is not None


def test_an_own_judgement_decides_what_fails(drive: Any) -> None:
    d = drive(CircuitBreaker(minimum_calls=1, is_failure=lambda attempt: attempt.error_type == "RATE_LIMITED"))
    d.run(0, "TIMEOUT")
    assert d.breaker.snapshot(0).state == "closed"
    for t in range(5):
        d.run(t, "RATE_LIMITED")
    assert d.breaker.snapshot(5).state == "open"


@pytest.mark.parametrize(
    "options",
    [
        {"window_calls": 0},
        {"window_calls": 2, "minimum_calls": 3},
        {"failure_rate": 0},
        {"failure_rate": 1.1},
        {"slow_rate": True},
        {"open_seconds": 0},
        {"open_seconds": float("nan")},
        {"window_seconds": 0},
        {"slow_seconds": -1},
        {"probes": 1.5},
        {"probe_seconds": float("inf")},
        {"write_probe_seconds": "5"},
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(options))):
        CircuitBreaker("b", **options)


def test_threads_get_exactly_one_probe(drive: Any, make_call: Any) -> None:
    d = opened(drive)
    calls = [make_call() for _ in range(64)]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda call: d.breaker.admit(call, 10), calls))
    assert answers.count(None) == 1


@settings(max_examples=300, deadline=None)
@given(options=OPTIONS, steps=STEPS)
def test_behaves_like_the_model(options: dict[str, Any], steps: list[Any]) -> None:
    follow([CircuitBreaker(slow_seconds=1.0, **options)], options, steps)


@settings(max_examples=100, deadline=None)
@given(options=OPTIONS, steps=STEPS)
def test_never_sticks(options: dict[str, Any], steps: list[Any]) -> None:
    """Whatever happened and whatever is still out, patience and one good read close every circuit."""
    lose_probes([CircuitBreaker(slow_seconds=1.0, **options)], options, steps)
