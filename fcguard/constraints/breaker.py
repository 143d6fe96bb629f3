"""Stop calling what keeps failing: a circuit breaker over counts and times, failures and slow calls."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, Final

from fcguard.constraints.circuit import Circuit, CircuitSnapshot
from fcguard.constraints.options import check_count, check_rate, check_seconds
from fcguard.constraints.state import SharedState, clock_of, is_blocking, new_lock, state_key
from fcguard.errors import ConfigurationError
from fcguard.model.attempt import Attempt
from fcguard.model.call import Call
from fcguard.model.failure import ErrorType, FailureClass, Violation, class_of

__all__ = ["CircuitBreaker", "CircuitSnapshot", "is_tool_failure"]

_COUNTED: Final = frozenset({FailureClass.AVAILABILITY, FailureClass.UNCERTAIN, FailureClass.TOOL})
_MOST_CIRCUITS: Final = 10_000


def is_tool_failure(attempt: Attempt) -> bool | None:
    """Say what an attempt tells about the health of what it called.

    Returns:
        True for a failure of the other side (not reached, too late, broken), False for a success. None if it tells nothing:
        a wrong parameter, a refusal by policy, a denial, a cancellation, a stop by budget, or a function never entered.
    """
    failure = attempt.failure
    if failure is None:
        return False
    if not attempt.was_dispatched:
        return None
    happened = class_of(attempt.error_type or failure.error_type, failure.failure_class)
    return True if happened in _COUNTED else None


class CircuitBreaker:
    """Refuses calls (`CIRCUIT_OPEN`, with `retry_after`) while what they would reach keeps failing.

    Closed, it counts the outcomes of attempts over the last `window_calls` outcomes that are no older than `window_seconds`. Once
    there are `minimum_calls` of them and the rate of failures or of slow calls is reached, it opens. After `open_seconds` the next
    call makes it half-open: reads only are admitted, `probes` of them; if all succeed it closes, if one fails or is slow it opens
    again. A probe that is not settled within `probe_seconds` counts as failed, so half-open always ends. Where no read comes to
    probe for `write_probe_seconds` after that, also if nothing came at all, one write is admitted as the probe, since a circuit
    that only guards writes could not close.

    Confirmations pass unseen: what became of a write must be found out even while its circuit is open. Refusals, cancellations
    and parameter errors count neither as failure nor as success. Give one instance to every tool of one dependency, or a `key`
    to keep one circuit per tool, host or tenant.

    Without `state` each process finds out by itself. With a state that workers share they count together: what one of them sees
    fail, all of them know, and `probes` holds for all together. A worker that dies while it probes leaves a probe that is never
    settled, which ends after `probe_seconds` like any other. What is written then is the whole window, once per attempt.

    Args:
        name: name for the evidence, and of the state: breakers of one name in one state are one breaker.
        window_calls: most outcomes looked at.
        window_seconds: oldest outcome looked at; None: however old.
        minimum_calls: outcomes needed before a rate means anything.
        failure_rate: share of failures that opens the circuit.
        slow_seconds: an attempt that takes this long is slow; None: no attempt is.
        slow_rate: share of slow attempts that opens the circuit.
        open_seconds: how long an open circuit refuses everything.
        probes: successful probes that close a half-open circuit.
        probe_seconds: longest time a probe may take; choose more than the longest timeout of the tools.
        write_probe_seconds: how long a read is waited for, from the end of `open_seconds`; None: as long as `open_seconds`.
        key: `(call) -> key` of the circuit; None: one circuit for the instance.
        is_failure: `(attempt) -> True | False | None` in place of `is_tool_failure`.
        state: where circuits are kept; None: in this process. Where it cannot be reached, calls are refused (`RULE_FAILED`).
        wall: clock for times in a shared state, in seconds; None: the state's own, or this machine's if it has none.

    Raises:
        ConfigurationError: an option makes no sense.
    """

    __slots__ = (
        "_circuits",
        "_is_failure",
        "_key",
        "_lock",
        "_only",
        "_state",
        "_wall",
        "failure_rate",
        "is_blocking",
        "minimum_calls",
        "name",
        "open_seconds",
        "probe_seconds",
        "probes",
        "slow_rate",
        "slow_seconds",
        "window_calls",
        "window_seconds",
        "write_probe_seconds",
    )

    def __init__(
        self,
        name: str = "circuit_breaker",
        *,
        window_calls: int = 20,
        window_seconds: float | None = 300.0,
        minimum_calls: int = 5,
        failure_rate: float = 0.5,
        slow_seconds: float | None = None,
        slow_rate: float = 1.0,
        open_seconds: float = 30.0,
        probes: int = 1,
        probe_seconds: float = 60.0,
        write_probe_seconds: float | None = None,
        key: Callable[[Call], Hashable] | None = None,
        is_failure: Callable[[Attempt], bool | None] = is_tool_failure,
        state: SharedState | None = None,
        wall: Callable[[], float] | None = None,
    ) -> None:
        self.name = name
        self.window_calls = check_count(name, "window_calls", window_calls)
        self.window_seconds = None if window_seconds is None else check_seconds(name, "window_seconds", window_seconds)
        self.minimum_calls = check_count(name, "minimum_calls", minimum_calls)
        if minimum_calls > window_calls:
            raise ConfigurationError(
                f"{name}: minimum_calls={minimum_calls!r} is above window_calls={window_calls!r}, so it never opens"
            )
        self.failure_rate = check_rate(name, "failure_rate", failure_rate)
        self.slow_seconds = None if slow_seconds is None else check_seconds(name, "slow_seconds", slow_seconds)
        self.slow_rate = check_rate(name, "slow_rate", slow_rate)
        self.open_seconds = check_seconds(name, "open_seconds", open_seconds)
        self.probes = check_count(name, "probes", probes)
        self.probe_seconds = check_seconds(name, "probe_seconds", probe_seconds)
        wait = open_seconds if write_probe_seconds is None else write_probe_seconds
        self.write_probe_seconds = check_seconds(name, "write_probe_seconds", wait)
        self._key, self._is_failure = key, is_failure
        self._state, self._wall = state, clock_of(state, wall)
        self.is_blocking = is_blocking(state)
        self._lock = new_lock()
        self._only = Circuit()
        self._circuits: dict[Hashable, Circuit] = {}

    def admit(self, call: Call, now: float) -> Violation | None:
        """Admit the attempt, or refuse it with `CIRCUIT_OPEN`."""
        if self._state is not None:
            return None if call.purpose == "confirm" else self._admit_shared(self._state, call, now)
        circuit = self._only if self._key is None else self._circuit_of(self._key(call))
        if circuit.state == "closed" or call.purpose == "confirm":
            return None
        with self._lock:
            return self._admit_tripped(circuit, call, now)

    def settle(self, call: Call, attempt: Attempt | None, now: float) -> None:
        """Count how an admitted attempt ended."""
        if call.purpose == "confirm":
            return
        is_failed, is_slow, started = None, False, now
        if attempt is not None:
            is_failed, started = self._is_failure(attempt), attempt.started
            is_slow = self.slow_seconds is not None and attempt.duration >= self.slow_seconds
        if self._state is not None:
            self._settle_shared(self._state, call, (is_failed, is_slow), now - started, now)
            return
        circuit = self._only if self._key is None else self._circuit_of(self._key(call))
        with self._lock:
            # An attempt that was sent before the circuit closed tells about the time before.
            if circuit.state == "closed":
                if is_failed is not None and started >= circuit.changed_at:
                    self._count(circuit, is_failed, is_slow, now)
            elif circuit.state == "half_open":
                self._settle_probe(circuit, call.request_id, is_failed, is_slow, now)

    def snapshot(self, now: float, key: Hashable = None) -> CircuitSnapshot:
        """Answer what a circuit knows.

        Args:
            now: monotonic seconds.
            key: which circuit, if the breaker has a `key`.
        """
        if self._state is not None:
            stored = self._state.change(state_key("circuit", self.name, key), lambda stored: (stored, stored))
            at = self._wall() if self._state.is_shared else now
            return self._seen(Circuit.from_json(stored, at), at)
        circuit = self._only if self._key is None else self._circuits.get(key, Circuit())
        with self._lock:
            return self._seen(circuit, now)

    def _seen(self, circuit: Circuit, now: float) -> CircuitSnapshot:
        left = max(0.0, circuit.changed_at + self.open_seconds - now) if circuit.state == "open" else None
        return CircuitSnapshot(
            circuit.state, len(circuit.outcomes), circuit.failures, circuit.slow, left, len(circuit.probes)
        )

    def _admit_shared(self, state: SharedState, call: Call, now: float) -> Violation | None:
        at = self._wall() if state.is_shared else now

        def admit(stored: dict[str, Any] | None) -> tuple[dict[str, Any] | None, Violation | None]:
            if stored is None or stored["state"] == "closed":
                return stored, None
            circuit = Circuit.from_json(stored, at)
            refused = self._admit_tripped(circuit, call, at)
            return circuit.as_json(), refused

        return state.change(self._key_of(call), admit)

    def _settle_shared(
        self, state: SharedState, call: Call, ended: tuple[bool | None, bool], ago: float, now: float
    ) -> None:
        at = self._wall() if state.is_shared else now
        is_failed, is_slow = ended

        def settle(stored: dict[str, Any] | None) -> tuple[dict[str, Any] | None, None]:
            circuit = Circuit.from_json(stored, at)
            if circuit.state == "closed":
                if is_failed is None or at - ago < circuit.changed_at:
                    return stored, None
                self._count(circuit, is_failed, is_slow, at)
            elif circuit.state == "half_open":
                self._settle_probe(circuit, call.request_id, is_failed, is_slow, at)
            return circuit.as_json(), None

        state.change(self._key_of(call), settle)

    def _key_of(self, call: Call) -> str:
        return state_key("circuit", self.name, None if self._key is None else self._key(call))

    def _circuit_of(self, key: Hashable) -> Circuit:
        circuit = self._circuits.get(key)
        if circuit is None:
            with self._lock:
                if len(self._circuits) >= _MOST_CIRCUITS:
                    self._forget_one()
                circuit = self._circuits.setdefault(key, Circuit())
        return circuit

    def _forget_one(self) -> None:
        # A closed circuit only knows counts; forgetting an open one would let calls through.
        oldest = next((key for key, circuit in self._circuits.items() if circuit.state == "closed"), None)
        self._circuits.pop(oldest, None)

    def _admit_tripped(self, circuit: Circuit, call: Call, now: float) -> Violation | None:
        if circuit.state == "open":
            left = circuit.changed_at + self.open_seconds - now
            if left > 0:
                return self._refuse(left, "it kept failing or was too slow")
            circuit.enter("half_open", circuit.changed_at + self.open_seconds)  # not when somebody came to see it
        elif circuit.state == "closed":
            return None
        started = min(circuit.probes.values(), default=now)
        if started + self.probe_seconds <= now:
            circuit.enter("open", now)
            return self._refuse(self.open_seconds, f"a probe was not answered within {self.probe_seconds:g} s")
        if len(circuit.probes) + circuit.passed >= self.probes:
            return self._refuse(
                min(started + self.probe_seconds - now, self.open_seconds), "it is being probed by another call"
            )
        left = circuit.changed_at + self.write_probe_seconds - now
        if left > 0 and not _is_read(call):
            return self._refuse(left, "it is being probed, and only reads may do that")
        circuit.probes[call.request_id] = now
        return None

    def _settle_probe(
        self, circuit: Circuit, request_id: str, is_failed: bool | None, is_slow: bool, now: float
    ) -> None:
        started = circuit.probes.pop(request_id, None)
        if started is None:
            return
        if now - started >= self.probe_seconds or is_failed or (is_slow and is_failed is not None):
            circuit.enter("open", now)
        elif is_failed is not None:
            circuit.passed += 1
            if circuit.passed >= self.probes:
                circuit.enter("closed", now)

    def _count(self, circuit: Circuit, is_failed: bool, is_slow: bool, now: float) -> None:
        circuit.add(now, is_failed, is_slow)
        outcomes = circuit.outcomes
        while len(outcomes) > self.window_calls:  # more than one, if another worker has a longer window
            circuit.drop_oldest()
        if self.window_seconds is not None:
            oldest = now - self.window_seconds
            while outcomes[0][0] <= oldest:
                circuit.drop_oldest()
        calls = len(outcomes)
        if calls >= self.minimum_calls and (
            circuit.failures / calls >= self.failure_rate
            or (self.slow_seconds is not None and circuit.slow / calls >= self.slow_rate)
        ):
            circuit.enter("open", now)

    def _refuse(self, left: float, why: str) -> Violation:
        return Violation(
            ErrorType.CIRCUIT_OPEN,
            f"The circuit {self.name!r} is open: {why}. Nothing was sent. Do not keep trying; try again in about {max(left, 0.0):.3g} s.",
            retry_after=max(left, 0.0),
        )


def _is_read(call: Call) -> bool:
    return call.tool is not None and call.tool.is_read
