"""Partial results that add up: `merge(a, b)` is associative and commutative, so any engine can measure over shards."""

from __future__ import annotations

import bisect
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from fcguard.evaluation.metrics import UNITS, Counts, Measured
from fcguard.evaluation.values import Value, ok, ratio, unknown, untested

__all__ = ["MOST_CASES", "CaseKey", "Partial", "TaskKey", "case_key", "mean_units", "merge", "rate_of", "sum_counts"]

TaskKey: TypeAlias = tuple[str, str]
"""Slice and task id."""

CaseKey: TypeAlias = tuple[int, str, str, int, str]
"""Severity, slice, task id, trial, session id: the order in which cases are shown, worst first."""

MOST_CASES: Final = 200
"""How many cases a partial result keeps for the report; the worst ones, so memory does not grow with the run."""


@dataclass(slots=True)
class Partial:
    """What is known after some sessions. Memory grows with the number of tasks, not of sessions.

    Attributes:
        tasks: counts of each task.
        trials: trial number -> sessions that passed, and sessions.
        tools: (server, tool) -> counts of its calls (calls, errors, invalid, misfires, repeats).
        cases: the worst sessions, in order.
        most_cases: how many of them are kept.
    """

    tasks: dict[TaskKey, Counts] = field(default_factory=dict)
    trials: dict[int, tuple[int, int]] = field(default_factory=dict)
    tools: dict[tuple[str, str], Counts] = field(default_factory=dict)
    cases: list[tuple[CaseKey, Measured]] = field(default_factory=list)
    most_cases: int = MOST_CASES

    def add(self, measured: Measured) -> None:
        """Add one measured session."""
        session = measured.session
        _add(self.tasks.setdefault((measured.slice, session.task_id), {}), measured.counts)
        passed, made = self.trials.get(session.trial, (0, 0))
        self.trials[session.trial] = (passed + int(measured.outcome == "passed"), made + 1)
        self._add_tools(measured)
        key = case_key(measured)
        if len(self.cases) < self.most_cases or (self.cases and key < self.cases[-1][0]):
            bisect.insort(self.cases, (key, measured), key=lambda case: case[0])
            del self.cases[self.most_cases :]

    def _add_tools(self, measured: Measured) -> None:
        for call, check in zip(measured.session.calls, measured.checks, strict=True):
            row = {"calls": 1, check.state: 1}
            if call.status in ("failed", "uncertain"):
                row["errors"] = 1
            _add(self.tools.setdefault(call.identity, {}), row)
        for misfire in measured.misfires.misfires:
            _add(self.tools[measured.session.calls[misfire.position].identity], {"misfires": 1})
        for repeat in measured.repeats:
            if repeat.is_no_progress:
                _add(self.tools[measured.session.calls[repeat.position].identity], {"repeats": 1})

    def totals(self, slice: str | None = None) -> Counts:
        """Add up the counts of all tasks, or of those of one slice."""
        return sum_counts(counts for (name, _), counts in self.tasks.items() if slice is None or name == slice)

    def slices(self) -> list[str]:
        """Answer the names of the slices, sorted."""
        return sorted({name for name, _ in self.tasks})

    def by_task(self) -> Iterator[tuple[TaskKey, Counts]]:
        """Answer the tasks in a fixed order."""
        return iter(sorted(self.tasks.items()))


def case_key(measured: Measured) -> CaseKey:
    """Answer where a case stands among the others: misfires first, then wrong tools, arguments, repeats, failures."""
    counts = measured.counts
    severities = (
        bool(counts.get("misfires")),
        bool(counts.get("substituted") or counts.get("over_tooling") or counts.get("under_tooling")),
        bool(counts.get("invalid") or counts.get("unparsable") or counts.get("unknown_tool")),
        bool(counts.get("repeats")),
        measured.outcome != "passed",
    )
    severity = severities.index(True) if any(severities) else len(severities)
    session = measured.session
    return (severity, measured.slice, session.task_id, session.trial, session.session_id)


def merge(first: Partial, second: Partial) -> Partial:
    """Join two partial results into a new one; the parts are left as they were.

    Associative and commutative: the sessions of a run may be measured in any grouping and order. Every session must be
    in exactly one part.
    """
    joined = Partial(most_cases=min(first.most_cases, second.most_cases))
    for part in (first, second):
        for key, counts in part.tasks.items():
            _add(joined.tasks.setdefault(key, {}), counts)
        for identity, counts in part.tools.items():
            _add(joined.tools.setdefault(identity, {}), counts)
        for trial, (passed, made) in part.trials.items():
            before = joined.trials.get(trial, (0, 0))
            joined.trials[trial] = (before[0] + passed, before[1] + made)
    joined.cases = sorted([*first.cases, *second.cases], key=lambda case: case[0])[: joined.most_cases]
    return joined


def sum_counts(rows: Iterable[Counts]) -> Counts:
    """Add up counts by name."""
    total: Counts = {}
    for row in rows:
        _add(total, row)
    return total


def _add(total: Counts, more: Counts) -> None:
    for name, number in more.items():
        total[name] = total.get(name, 0) + number


def mean_units(counts: Counts, name: str, *, n: str | None = None) -> Value:
    """Answer the mean of a quantity that is counted in billionths, with the number of sessions it is over."""
    over, sessions = counts.get(n or f"{name}_n", 0), counts.get("sessions", 0)
    if not over:
        return (
            untested("no failure observed")
            if name == "recovery" and sessions
            else unknown("no session could be judged")
        )
    return ok(counts.get(f"{name}_units", 0) / over / UNITS, k=over, n=sessions)


def rate_of(counts: Counts, numerator: str, denominator: str, *, reason: str) -> Value:
    """Answer the rate of two counts; unknown, with the reason, where there is nothing to divide by."""
    return ratio(counts.get(numerator, 0), counts.get(denominator, 0), empty=unknown(reason))
