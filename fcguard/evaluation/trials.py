"""Several trials of each task: pass^k and pass@k, stability over trials, flips, and how alike trials of one task are."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import comb

from fcguard.evaluation.aggregate import Partial
from fcguard.evaluation.values import Value, not_applicable, ok, unknown, untested

__all__ = ["TaskTrials", "flips", "icc", "pass_at_k", "pass_hat_k", "stability", "task_trials"]


@dataclass(frozen=True, slots=True)
class TaskTrials:
    """The trials of one task: `n` were made, `c` passed."""

    n: int
    c: int


def task_trials(partial: Partial, *, scored_only: bool = False) -> list[TaskTrials]:
    """Answer the trials of every task, in a fixed order.

    Args:
        partial: a run.
        scored_only: leave out trials that broke for a reason that is not the agent's; otherwise they count as failed.
    """
    rows = []
    for _, counts in partial.by_task():
        passed = counts.get("passed", 0)
        made = passed + counts.get("failed", 0) if scored_only else counts.get("sessions", 0)
        if made:
            rows.append(TaskTrials(made, passed))
    return rows


def pass_hat_k(trials: Iterable[TaskTrials], k: int) -> Value:
    """Answer pass^k: the chance that k trials of a task all pass, mean over tasks of C(c,k) / C(n,k) (tau-bench, 2024).

    Tasks with fewer than k trials are left out; the value says how many are in.
    """
    rows = list(trials)
    used = [comb(row.c, k) / comb(row.n, k) for row in rows if row.n >= k]
    if not used:
        return not_applicable(f"no task has {k} trials")
    return ok(sum(used) / len(used), k=len(used), n=len(rows))


def pass_at_k(trials: Iterable[TaskTrials], k: int) -> Value:
    """Answer pass@k: the chance that at least one of k trials passes, mean of 1 - C(n-c,k) / C(n,k) (Chen et al., 2021)."""
    rows = list(trials)
    used = [1 - comb(row.n - row.c, k) / comb(row.n, k) for row in rows if row.n >= k]
    if not used:
        return not_applicable(f"no task has {k} trials")
    return ok(sum(used) / len(used), k=len(used), n=len(rows))


def stability(partial: Partial) -> Value:
    """Answer the coefficient of variation of the pass rate over trials: sample standard deviation / mean."""
    rates = [passed / made for _, (passed, made) in sorted(partial.trials.items()) if made]
    if len(rates) < 2:
        return untested(f"{len(rates)} trial of each task; at least 3 are needed")
    mean = statistics.fmean(rates)
    if mean == 0:
        return unknown("no trial passed")
    return ok(statistics.stdev(rates) / mean, k=len(rates), n=len(rates))


def flips(trials: Sequence[TaskTrials]) -> Value:
    """Answer the share of tasks that passed in some trials and failed in others, of the tasks tried more than once."""
    used = [row for row in trials if row.n > 1]
    if not used:
        return untested("every task was tried once")
    mixed = sum(1 for row in used if 0 < row.c < row.n)
    return ok(mixed / len(used), k=mixed, n=len(used))


def icc(trials: Sequence[TaskTrials]) -> Value:
    """Answer how alike the trials of one task are: ICC(1), one-way analysis of variance (Shrout and Fleiss, 1979).

    Near 1, more trials tell little: more tasks are needed. Near 0, trials are as good as tasks. Needs at least two tasks,
    each tried the same number of times, at least twice.
    """
    if len(trials) < 2 or trials[0].n < 2 or any(row.n != trials[0].n for row in trials):
        return not_applicable("needs several tasks, each tried equally often, at least twice")
    n, tasks = trials[0].n, len(trials)
    grand = sum(row.c for row in trials) / (n * tasks)
    between = n * sum((row.c / n - grand) ** 2 for row in trials) / (tasks - 1)
    within = sum(row.c * (n - row.c) / n for row in trials) / (tasks * (n - 1))
    if between + (n - 1) * within == 0:
        return not_applicable("all trials ended alike")
    return ok((between - within) / (between + (n - 1) * within), k=tasks, n=tasks)
