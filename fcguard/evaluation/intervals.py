"""Intervals for rates: a bootstrap over tasks with a fixed seed, Wilson for one trial a task, and exact upper bounds."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import Literal, TypeAlias

from fcguard.errors import MissingExtraError

__all__ = ["DEFAULT_RESAMPLES", "DEFAULT_SEED", "Interval", "bootstrap", "rate_interval", "upper_bound", "wilson"]

DEFAULT_RESAMPLES = 2000
DEFAULT_SEED = 20260130

Method: TypeAlias = Literal["wilson", "clustered_bootstrap", "exact_upper"]


@dataclass(frozen=True, slots=True)
class Interval:
    """An interval for a rate.

    Attributes:
        low, high: its ends, as fractions.
        level: how often such an interval holds the true value, e.g. 0.95.
        method: how it was made.
    """

    low: float
    high: float
    level: float
    method: Method


def wilson(k: int, n: int, *, level: float = 0.95) -> Interval:
    """Answer Wilson's score interval of k of n independent yes-or-no outcomes (E. B. Wilson, 1927).

    It assumes independence: with several trials of one task use `bootstrap`.

    Raises:
        ValueError: n is 0, or k is not within 0..n.
    """
    if n <= 0 or not 0 <= k <= n:
        raise ValueError(f"no interval for {k!r} of {n!r}")
    z = NormalDist().inv_cdf(0.5 + level / 2)
    rate = k / n
    middle = (rate + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(rate * (1 - rate) / n + z * z / (4 * n * n))
    low = 0.0 if k == 0 else max(0.0, middle - half)
    return Interval(low, 1.0 if k == n else min(1.0, middle + half), level, "wilson")


def upper_bound(k: int, n: int, *, level: float = 0.95) -> float:
    """Answer the exact one-sided upper bound of a rate (Clopper and Pearson, 1934): 0 of 60 still allows 4.9 %.

    Args:
        k: how many.
        n: of how many independent ones.
        level: confidence, as a fraction.

    Raises:
        ValueError: n is 0, or k is not within 0..n.
    """
    if n <= 0 or not 0 <= k <= n:
        raise ValueError(f"no bound for {k!r} of {n!r}")
    if k == n:
        return 1.0
    if k == 0:
        return 1.0 - math.pow(1.0 - level, 1.0 / n)
    try:
        from scipy.stats import beta  # type: ignore[import-untyped, unused-ignore]
    except ImportError as error:
        raise MissingExtraError("scipy", "evaluation") from error
    return float(beta.ppf(level, k + 1, n - k))


def bootstrap(
    clusters: Sequence[tuple[int, int]],
    *,
    level: float = 0.95,
    resamples: int = DEFAULT_RESAMPLES,
    seed: int = DEFAULT_SEED,
) -> Interval:
    """Answer a percentile interval of a rate by drawing whole tasks with replacement (Efron and Tibshirani, 1993).

    Trials of one task are alike, so the task is drawn, not the trial. The random stream is numpy's frozen legacy one:
    the same input gives the same interval in every version.

    Args:
        clusters: per task, how many count and of how many.
        level: confidence, as a fraction.
        resamples: how often to draw.
        seed: seed of the draws.

    Raises:
        ValueError: no cluster has anything to count.
    """
    used = [(k, n) for k, n in clusters if n > 0]
    if not used:
        raise ValueError("no interval: no task has anything to count")
    try:
        import numpy as np
    except ImportError as error:
        raise MissingExtraError("numpy", "evaluation") from error
    table = np.asarray(used, dtype=np.float64)
    stream = np.random.RandomState(seed)
    rates = []
    chunk = max(1, 2_000_000 // len(used))
    for start in range(0, resamples, chunk):
        rows = min(chunk, resamples - start)
        drawn = table[stream.randint(0, len(used), size=(rows, len(used)))].sum(axis=1)
        rates.append(drawn[:, 0] / drawn[:, 1])
    tail = (1 - level) / 2
    low, high = np.quantile(np.concatenate(rates), [tail, 1 - tail])
    return Interval(float(low), float(high), level, "clustered_bootstrap")


def rate_interval(
    clusters: Sequence[tuple[int, int]], *, level: float = 0.95, seed: int = DEFAULT_SEED
) -> Interval | None:
    """Answer the interval that suits: Wilson if every task was tried once, else the bootstrap over tasks; None if empty.

    Where nothing (or everything) counted, drawing tasks again says nothing: the exact bound for that many tasks is given.
    One task alone cannot be drawn from: several trials of a single task give None.
    """
    used = [(k, n) for k, n in clusters if n > 0]
    if not used:
        return None
    if all(n == 1 for _, n in used):
        return wilson(sum(k for k, _ in used), len(used), level=level)
    if len(used) < 2:
        return None
    counted, of = sum(k for k, _ in used), sum(n for _, n in used)
    if counted in (0, of):
        reach = upper_bound(0, len(used), level=level)
        return (
            Interval(0.0, reach, level, "exact_upper")
            if counted == 0
            else Interval(1 - reach, 1.0, level, "exact_upper")
        )
    return bootstrap(used, level=level, seed=seed)
