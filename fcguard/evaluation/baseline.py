"""The stored baseline of a suite, and the trust gate in front of it: no failing, partial or foreign run gets in."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from fcguard.errors import UsageError
from fcguard.evaluation.aggregate import Partial, TaskKey
from fcguard.evaluation.gold import Gold
from fcguard.evaluation.indicators import CHECKED, INDICATORS, indicator_value
from fcguard.evaluation.metrics import Counts
from fcguard.evaluation.trace import RunIdentity

__all__ = [
    "BASELINE_VERSION",
    "Baseline",
    "check_comparable",
    "load_baseline",
    "make_baseline",
    "missing_runs",
    "save_baseline",
]

BASELINE_VERSION: Final = 1

_KEPT: Final = frozenset(CHECKED).union(("failed",), *((row.numerator, row.denominator) for row in INDICATORS))
"""Counts that a baseline keeps of each task: those that its indicators are made of."""


@dataclass(frozen=True, slots=True)
class Baseline:
    """A trusted run to compare with.

    Attributes:
        identity: version, model and hashes of the run.
        trials: how often each task was tried.
        tasks: counts of each task that the indicators are made of.
        tools: names of the tools that were used, as `server/tool`.
    """

    identity: RunIdentity
    trials: int
    tasks: dict[TaskKey, Counts] = field(default_factory=dict)
    tools: tuple[str, ...] = ()

    def totals(self) -> Counts:
        """Add up the counts of all tasks."""
        total: Counts = {}
        for counts in self.tasks.values():
            for name, number in counts.items():
                total[name] = total.get(name, 0) + number
        return total

    def pass_counts(self) -> dict[TaskKey, tuple[int, int]]:
        """Answer passed and made trials by task, as `compare` takes them."""
        return {key: (counts.get("passed", 0), counts.get("sessions", 0)) for key, counts in self.tasks.items()}

    def rate(self, name: str) -> float | None:
        """Answer the rate of an indicator; None if the baseline has none."""
        indicator = next(item for item in INDICATORS if item.name == name)
        return indicator_value(indicator, self.totals()).number


def missing_runs(partial: Partial, gold: Gold) -> list[str]:
    """Answer what makes a run partial: tasks of the gold without a session, or with fewer trials than the others."""
    made = {task: counts.get("sessions", 0) for (_, task), counts in partial.by_task()}
    most = max(made.values(), default=0)
    return [
        f"{task} ({made.get(task, 0)} of {most} trials)"
        for task in sorted(gold.tasks)
        if made.get(task, 0) < max(most, 1)
    ]


def make_baseline(partial: Partial, identity: RunIdentity, gold: Gold, *, passed_gate: bool) -> Baseline:
    """Make a baseline of a run.

    Args:
        partial: the whole run.
        identity: its version, model and hashes.
        gold: the suite that it ran.
        passed_gate: whether its gate passed; a failing or undecided run never becomes the baseline.

    Raises:
        UsageError: the gate did not pass, the run is partial, or its identity is not complete; the message says which.
    """
    if not passed_gate:
        raise UsageError("a run whose gate did not pass never becomes the baseline")
    lacking = missing_runs(partial, gold)
    if lacking:
        raise UsageError(f"a partial run never becomes the baseline; missing: {_shortened(lacking)}")
    empty = [name for name in ("version", "model", "prompt_set_hash", "schema_hash") if not getattr(identity, name)]
    if empty:
        raise UsageError(
            f"a baseline needs {', '.join(empty)}: without them nobody can tell what it is comparable with"
        )
    tasks = {
        key: {name: number for name, number in counts.items() if name in _KEPT} for key, counts in partial.by_task()
    }
    trials = max((counts.get("sessions", 0) for _, counts in partial.by_task()), default=0)
    return Baseline(identity, trials, tasks, _tool_names(partial))


def _tool_names(partial: Partial) -> tuple[str, ...]:
    return tuple(sorted(f"{server}/{tool}" if server else tool for server, tool in partial.tools))


def new_tools(baseline: Baseline, partial: Partial) -> list[str]:
    """Answer the tools that the run used and the baseline did not know."""
    return sorted(set(_tool_names(partial)) - set(baseline.tools))


def check_comparable(baseline: Baseline, partial: Partial, identity: RunIdentity) -> None:
    """Refuse a comparison that would not mean anything.

    Args:
        baseline: the stored baseline.
        partial: the run.
        identity: its hashes.

    Raises:
        UsageError: other prompts, other schemas, other tasks, or fewer trials than the baseline; says which.
    """
    stored = baseline.identity
    for name, words in (("prompt_set_hash", "prompts"), ("schema_hash", "tool schemas")):
        before, now = getattr(stored, name), getattr(identity, name)
        if before != now:
            raise UsageError(
                f"not comparable: the {words} differ ({name} {before!r} in the baseline, {now!r} now); run the baseline "
                "again on what is tested now"
            )
    made = {key: counts.get("sessions", 0) for key, counts in partial.by_task()}
    lacking = [task for (slice_, task) in baseline.tasks if made.get((slice_, task), 0) < baseline.trials]
    if lacking:
        raise UsageError(
            f"not comparable: partial run, {baseline.trials} trials needed of {_shortened(sorted(lacking))}"
        )
    foreign = sorted(task for (slice_, task) in made if (slice_, task) not in baseline.tasks)
    if foreign:
        raise UsageError(f"not comparable: tasks that the baseline does not have: {_shortened(foreign)}")


def _shortened(names: list[str], most: int = 5) -> str:
    shown = ", ".join(names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"


def save_baseline(baseline: Baseline, path: str | Path) -> None:
    """Write a baseline as JSON; the same baseline gives the same bytes."""
    identity = baseline.identity
    content = {
        "baseline_version": BASELINE_VERSION,
        "version": identity.version,
        "model": identity.model,
        "prompt_set_hash": identity.prompt_set_hash,
        "schema_hash": identity.schema_hash,
        "trials": baseline.trials,
        "tools": list(baseline.tools),
        "tasks": [
            {"slice": slice_, "task": task, "counts": dict(sorted(counts.items()))}
            for (slice_, task), counts in sorted(baseline.tasks.items())
        ],
    }
    Path(path).write_text(
        json.dumps(content, ensure_ascii=False, indent=2, sort_keys=True) + "\n", "utf-8", "backslashreplace"
    )


def load_baseline(path: str | Path) -> Baseline:
    """Read a baseline.

    Raises:
        UsageError: the file cannot be read, is not a baseline, or was written by a newer version.
    """
    try:
        content = json.loads(Path(path).read_text("utf-8"))
        version = content["baseline_version"]
        if version > BASELINE_VERSION:
            raise UsageError(
                f"baseline {str(path)!r} has version {version}; this fcguard knows {BASELINE_VERSION}: upgrade it"
            )
        return _from_json(content)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"baseline {str(path)!r} cannot be read: {type(error).__name__}: {error}") from error


def _from_json(content: Mapping[str, Any]) -> Baseline:
    identity = RunIdentity(content["version"], content["model"], content["prompt_set_hash"], content["schema_hash"])
    tasks = {
        (str(row["slice"]), str(row["task"])): {str(name): int(number) for name, number in row["counts"].items()}
        for row in content["tasks"]
    }
    return Baseline(identity, int(content["trials"]), tasks, tuple(content.get("tools", ())))
