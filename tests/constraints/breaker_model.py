"""The circuit breaker said in the simplest words, and how real ones are compared with it."""

from __future__ import annotations

from itertools import cycle
from typing import Any

from hypothesis import strategies as st

from fcguard.constraints import CircuitBreaker
from tests.constraints.conftest import build_attempt, build_call


class Model:
    """The breaker said in the simplest words: keep everything, recount every time."""

    def __init__(self, options: dict[str, Any]) -> None:
        self.o = options
        self.state, self.since, self.outcomes, self.probes, self.passed = "closed", float("-inf"), [], {}, 0

    def to(self, state: str, now: float) -> None:
        self.state, self.since, self.outcomes, self.probes, self.passed = state, now, [], {}, 0

    def admit(self, name: str, is_read: bool, is_confirm: bool, now: float) -> bool:
        if is_confirm or self.state == "closed":
            return True
        if self.state == "open":
            if now < self.since + self.o["open_seconds"]:
                return False
            self.to("half_open", self.since + self.o["open_seconds"])
        if any(at + self.o["probe_seconds"] <= now for at in self.probes.values()):
            self.to("open", now)
            return False
        may_probe = is_read or now >= self.since + self.o["write_probe_seconds"]
        if len(self.probes) + self.passed >= self.o["probes"] or not may_probe:
            return False
        self.probes[name] = now
        return True

    def settle(
        self, name: str, is_confirm: bool, started: float, ended: tuple[bool | None, bool] | None, now: float
    ) -> None:
        if is_confirm:
            return
        if self.state == "closed" and ended is not None and ended[0] is not None and started >= self.since:
            self.outcomes.append((now, *ended))
            recent = self.outcomes[-self.o["window_calls"] :]
            recent = [row for row in recent if row[0] > now - self.o["window_seconds"]]
            if len(recent) >= self.o["minimum_calls"]:
                failures, slow = (sum(row[i] for row in recent) / len(recent) for i in (1, 2))
                if failures >= self.o["failure_rate"] or slow >= self.o["slow_rate"]:
                    self.to("open", now)
        elif self.state == "half_open" and name in self.probes:
            at = self.probes.pop(name)
            if at + self.o["probe_seconds"] <= now or (ended and ended[0] is not None and any(ended)):
                self.to("open", now)
            elif ended and ended[0] is False:
                self.passed += 1
                if self.passed >= self.o["probes"]:
                    self.to("closed", now)


OPTIONS = st.fixed_dictionaries(
    {
        "window_calls": st.integers(3, 6),
        "window_seconds": st.sampled_from([5.0, 20.0]),
        "minimum_calls": st.integers(1, 3),
        "failure_rate": st.sampled_from([0.3, 0.5, 1.0]),
        "slow_rate": st.sampled_from([0.5, 1.0]),
        "open_seconds": st.sampled_from([3.0, 10.0]),
        "probes": st.integers(1, 2),
        "probe_seconds": st.sampled_from([4.0, 8.0]),
        "write_probe_seconds": st.sampled_from([2.0, 6.0]),
    }
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("pass_time"), st.sampled_from([1.0, 2.0, 5.0])),
        st.tuples(st.just("admit"), st.booleans(), st.sampled_from([False, False, False, True])),
        st.tuples(
            st.just("settle"),
            st.integers(0, 9),
            st.sampled_from([None, "ok", "ok", "slow", "TIMEOUT", "TIMEOUT", "CANCELLED"]),
        ),
    ),
    max_size=60,
)


def follow(breakers: list[CircuitBreaker], options: dict[str, Any], steps: list[Any]) -> None:
    """Take breakers, which are one or share one circuit, through steps in turn, and compare every answer with the model's."""
    model, workers = Model(options), cycle(breakers)
    now, running = 0.0, []
    for step in steps:
        if step[0] == "pass_time":
            now += step[1]
        elif step[0] == "admit":
            _, is_read, is_confirm = step
            breaker = next(workers)
            call = build_call(effect="read" if is_read else "write", purpose="confirm" if is_confirm else "primary")
            refused = breaker.admit(call, now)
            assert (refused is None) == model.admit(call.request_id, is_read, is_confirm, now)
            if refused is None:
                running.append((breaker, call, now, is_confirm))
            else:
                assert refused.retry_after is not None and refused.retry_after >= 0
        elif running:
            breaker, call, started, is_confirm = running.pop(step[1] % len(running))
            outcome = step[2]
            ended = None
            attempt = None
            if outcome is not None:
                error = outcome if outcome.isupper() else None
                duration = 2.0 if outcome == "slow" else 0.0
                attempt = build_attempt(call, at=started, error_type=error, duration=duration)
                ended = {"CANCELLED": (None, False), "TIMEOUT": (True, False), "slow": (False, True)}.get(
                    outcome, (False, False)
                )
            breaker.settle(call, attempt, now)
            model.settle(call.request_id, is_confirm, started, ended, now)
        assert breakers[0].snapshot(now).state == model.state


def lose_probes(breakers: list[CircuitBreaker], options: dict[str, Any], steps: list[Any]) -> None:
    """Let calls fail and probes be lost, and then be patient: one good read closes the circuit."""
    now, workers = 0.0, cycle(breakers)
    for step in steps:
        now += step[1] if step[0] == "pass_time" else 0.0
        call, breaker = build_call(), next(workers)
        if step[0] != "pass_time" and breaker.admit(call, now) is None and step[0] == "settle":
            breaker.settle(call, build_attempt(call, at=now, error_type="TIMEOUT"), now)
    for _ in range(6):
        now += options["open_seconds"] + options["probe_seconds"]
        call, breaker = build_call(), next(workers)
        if breaker.admit(call, now) is None:
            breaker.settle(call, build_attempt(call, at=now), now)
    assert breakers[-1].snapshot(now).state == "closed"
