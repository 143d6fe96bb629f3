"""Comparison of a run with a baseline: paired by task, a permutation test per slice, Holm over the slices."""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from statistics import NormalDist
from typing import Final, Literal, TypeAlias

from fcguard.errors import MissingExtraError
from fcguard.evaluation.aggregate import Partial, TaskKey
from fcguard.evaluation.intervals import DEFAULT_SEED

__all__ = [
    "ALL",
    "Comparison",
    "Decision",
    "compare",
    "count_changes",
    "holm",
    "p_text",
    "permutation_p",
    "task_rates",
]

Decision: TypeAlias = Literal["pass", "fail", "inconclusive"]

ALL: Final = "(all)"
"""Name of the slice that holds every task."""

_EXACT_PAIRS: Final = 14
_RESAMPLES: Final = 20_000


@dataclass(frozen=True, slots=True)
class Comparison:
    """How one slice of a run stands against its baseline.

    Attributes:
        slice: name of the slice; `ALL` for everything.
        tasks: how many tasks were paired.
        before, after: mean pass rate of the baseline and of the run over those tasks.
        margin: by how much the run may be worse.
        p_worse: p-value (Holm-adjusted) against "it is not worse than the margin allows"; small if it is worse.
        p_holds: p-value (Holm-adjusted) against "it is worse than the margin allows"; small if it is not, so also where
            nothing differs.
        decision: `pass`: shown to hold the margin. `fail`: shown to break it. `inconclusive`: neither.
        more_prompts: about how many more tasks would decide; None if no number would, or it is decided.
    """

    slice: str
    tasks: int
    before: float
    after: float
    margin: float
    p_worse: float
    p_holds: float
    decision: Decision
    more_prompts: int | None = None


def task_rates(partial: Partial) -> dict[TaskKey, tuple[int, int]]:
    """Answer passed and made trials by task."""
    return {key: (counts.get("passed", 0), counts.get("sessions", 0)) for key, counts in partial.by_task()}


def compare(
    before: Mapping[TaskKey, tuple[int, int]],
    after: Mapping[TaskKey, tuple[int, int]],
    *,
    margin: float = 0.05,
    alpha: float = 0.05,
    seed: int = DEFAULT_SEED,
) -> tuple[Comparison, ...]:
    """Compare pass rates task by task.

    The differences of the paired tasks, shifted by the margin, get random signs (a permutation test for pairs; every
    sign pattern for up to 14 tasks, else 20,000 seeded ones). Two one-sided tests decide; p-values are adjusted over the
    slices after Holm (1979), so that many slices do not find a difference by luck.

    Args:
        before: the baseline's passed and made trials by task.
        after: the run's.
        margin: by how much the pass rate may fall, as a fraction.
        alpha: error rate that is accepted, as a fraction.
        seed: seed of the sign patterns.

    Returns:
        One comparison for everything, then one for each slice if there are several. Tasks of one side only are left out;
        refuse them beforehand with `baseline.check_comparable`.
    """
    groups: dict[str, list[tuple[float, float]]] = {ALL: []}
    names = {key[0] for key in after if key in before}
    for key in sorted(set(before) & set(after)):
        (c0, n0), (c1, n1) = before[key], after[key]
        if n0 and n1:
            pair = (c0 / n0, c1 / n1)
            groups[ALL].append(pair)
            if len(names) > 1:
                groups.setdefault(key[0], []).append(pair)
    tested = []
    for name, pairs in groups.items():
        shifted = [new - old + margin for old, new in pairs]
        p_holds = permutation_p(shifted, seed=seed)
        p_worse = permutation_p([-value for value in shifted], seed=seed)
        tested.append((name, pairs, p_worse, p_holds))
    overall, parts = tested[:1], tested[1:]
    adjusted = [*overall]
    if parts:
        worse, holds = holm([row[2] for row in parts]), holm([row[3] for row in parts])
        adjusted += [(row[0], row[1], worse[i], holds[i]) for i, row in enumerate(parts)]
    return tuple(_decide(*row, margin=margin, alpha=alpha) for row in adjusted)


def count_changes(
    before: Mapping[TaskKey, tuple[int, int]], after: Mapping[TaskKey, tuple[int, int]]
) -> tuple[int, int]:
    """Answer how many paired tasks have a better and a worse pass rate than before."""
    pairs = [(before[key], after[key]) for key in before if key in after and before[key][1] and after[key][1]]
    better = sum(c1 * n0 > c0 * n1 for (c0, n0), (c1, n1) in pairs)
    worse = sum(c1 * n0 < c0 * n1 for (c0, n0), (c1, n1) in pairs)
    return better, worse


def p_text(p: float) -> str:
    """Write a p-value; one that is small is never written as 0."""
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def _decide(
    name: str, pairs: Sequence[tuple[float, float]], p_worse: float, p_holds: float, *, margin: float, alpha: float
) -> Comparison:
    before = statistics.fmean(old for old, _ in pairs) if pairs else 0.0
    after = statistics.fmean(new for _, new in pairs) if pairs else 0.0
    decision: Decision = "inconclusive"
    if pairs and (p_holds <= alpha or all(new >= old for old, new in pairs)):
        decision = "pass"
    elif p_worse <= alpha:
        decision = "fail"
    more = _more_prompts(pairs, margin, alpha) if decision == "inconclusive" else None
    return Comparison(name, len(pairs), before, after, margin, p_worse, p_holds, decision, more)


def permutation_p(differences: Sequence[float], *, seed: int = DEFAULT_SEED) -> float:
    """Answer the one-sided p-value of "the mean is not above 0" by giving the differences random signs.

    Args:
        differences: one a task.
        seed: seed of the sign patterns, if there are too many to try them all.
    """
    if not differences:
        return 1.0
    observed = sum(differences) - 1e-12
    if len(differences) <= _EXACT_PAIRS:
        sums = (
            sum(sign * value for sign, value in zip(signs, differences, strict=True))
            for signs in _signs(len(differences))
        )
        return sum(1 for total in sums if total >= observed) / float(1 << len(differences))
    try:
        import numpy as np
    except ImportError as error:
        raise MissingExtraError("numpy", "evaluation") from error
    stream = np.random.RandomState(seed)
    values = np.asarray(differences, dtype=np.float64)
    chunk = max(1, 2_000_000 // len(values))
    above = 0
    for start in range(0, _RESAMPLES, chunk):
        rows = min(chunk, _RESAMPLES - start)
        signs = stream.randint(0, 2, size=(rows, len(values))) * 2 - 1
        above += int((signs @ values >= observed).sum())
    return (above + 1) / (_RESAMPLES + 1)


def _signs(length: int) -> product[tuple[int, ...]]:
    return product((1, -1), repeat=length)


def holm(p_values: Sequence[float]) -> list[float]:
    """Adjust p-values for their number (Holm, 1979): no slice is called different by luck more often than stated."""
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    adjusted, highest = [0.0] * len(p_values), 0.0
    for rank, index in enumerate(order):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[index]))
        adjusted[index] = highest
    return adjusted


def _more_prompts(pairs: Sequence[tuple[float, float]], margin: float, alpha: float) -> int | None:
    """Estimate how many more tasks a test of power 0.8 needs, if the differences stay as they are."""
    if len(pairs) < 2:
        return None
    shifted = [new - old + margin for old, new in pairs]
    mean, spread = statistics.fmean(shifted), statistics.stdev(shifted)
    if mean == 0 or spread == 0:
        return 1 if mean else None
    z = NormalDist().inv_cdf(1 - alpha) + NormalDist().inv_cdf(0.8)
    return max(1, math.ceil((z * spread / mean) ** 2) - len(pairs))
