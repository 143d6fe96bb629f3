"""What a circuit breaker remembers of one circuit, and how it is written down for other processes."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any, Final, Literal

__all__ = ["Circuit", "CircuitSnapshot", "CircuitState"]

CircuitState = Literal["closed", "open", "half_open"]

_NEVER: Final = float("-inf")


@dataclass(frozen=True, slots=True)
class CircuitSnapshot:
    """What a circuit knows now.

    Attributes:
        state: `closed` (calls pass), `open` (refused), `half_open` (probing).
        calls, failures, slow: outcomes in the window.
        retry_after: seconds until an open circuit starts to probe; None if it is not open.
        probes: probes under way.
    """

    state: CircuitState
    calls: int
    failures: int
    slow: int
    retry_after: float | None
    probes: int


class Circuit:
    """State, outcomes and probes of one circuit; a breaker decides what they mean.

    Attributes:
        state: `closed`, `open` or `half_open`.
        changed_at: when it got into this state, in seconds of the breaker's clock; for `half_open`, when its open time ran out.
        outcomes: (when, was it a failure, was it slow), oldest first; kept while closed.
        failures, slow: how many of the outcomes were.
        passed: probes that succeeded since it is half-open.
        probes: when each probe under way began, by request id.
    """

    __slots__ = ("changed_at", "failures", "outcomes", "passed", "probes", "slow", "state")

    def __init__(self) -> None:
        self.state: CircuitState = "closed"
        self.changed_at = _NEVER
        self.outcomes: deque[tuple[float, bool, bool]] = deque()
        self.failures = self.slow = self.passed = 0
        self.probes: dict[str, float] = {}

    def enter(self, state: CircuitState, now: float) -> None:
        """Get into a state, and forget what led to it."""
        self.state, self.changed_at = state, now
        self.outcomes.clear()
        self.probes.clear()
        self.failures = self.slow = self.passed = 0

    def add(self, now: float, is_failed: bool, is_slow: bool) -> None:
        """Add an outcome."""
        self.outcomes.append((now, is_failed, is_slow))
        self.failures += is_failed
        self.slow += is_slow

    def drop_oldest(self) -> None:
        """Drop the oldest outcome."""
        _, was_failed, was_slow = self.outcomes.popleft()
        self.failures -= was_failed
        self.slow -= was_slow

    def as_json(self) -> dict[str, Any] | None:
        """Answer JSON values that `from_json` reads; None for a circuit of which nothing is known."""
        if self.state == "closed" and not self.outcomes and self.changed_at == _NEVER:
            return None
        written: dict[str, Any] = {"state": self.state}
        if self.changed_at != _NEVER:
            written["since"] = self.changed_at
        if self.outcomes:
            written["outcomes"] = [[at, is_failed + 2 * is_slow] for at, is_failed, is_slow in self.outcomes]
        if self.probes:
            written["probes"] = dict(self.probes)
        if self.passed:
            written["passed"] = self.passed
        return written

    @classmethod
    def from_json(cls, written: dict[str, Any] | None, now: float) -> Circuit:
        """Read what `as_json` wrote.

        A time that lies ahead was written by a clock that was ahead, or before this one was set back; it is taken as now, so
        that nothing lasts longer than the breaker's options say.
        """
        circuit = cls()
        if written is None:
            return circuit
        circuit.state, circuit.passed = written["state"], written.get("passed", 0)
        circuit.changed_at = min(written.get("since", _NEVER), now)
        circuit.probes = {request_id: min(at, now) for request_id, at in written.get("probes", {}).items()}
        for at, bits in written.get("outcomes", ()):
            circuit.add(min(at, now), bool(bits & 1), bool(bits & 2))
        return circuit
