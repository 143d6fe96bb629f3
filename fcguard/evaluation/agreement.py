"""Agreement between judges of the same sessions: Cohen's kappa, its mean over pairs, and unanimity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

from fcguard.evaluation.values import Value, not_applicable, ok, ratio

__all__ = ["cohen_kappa", "mean_pairwise_kappa", "unanimous"]

Marks = Mapping[str, int]
"""Task id -> mark of one judge."""


def cohen_kappa(first: Marks, second: Marks) -> Value:
    """Answer Cohen's kappa (1960) of two judges over the tasks that both marked: agreement beyond chance, at most 1."""
    shared = sorted(set(first) & set(second))
    if not shared:
        return not_applicable("the judges share no task")
    n = len(shared)
    agreed = sum(1 for task in shared if first[task] == second[task]) / n
    marks = {first[task] for task in shared} | {second[task] for task in shared}
    chance = sum(
        sum(1 for task in shared if first[task] == mark) * sum(1 for task in shared if second[task] == mark)
        for mark in marks
    ) / (n * n)
    if chance == 1:
        return not_applicable("both judges gave one mark to everything")
    return ok((agreed - chance) / (1 - chance), k=n, n=n)


def mean_pairwise_kappa(judges: Sequence[Marks]) -> Value:
    """Answer the mean of Cohen's kappa over all pairs of judges for which it has a value."""
    found = [cohen_kappa(first, second) for first, second in combinations(judges, 2)]
    numbers = [value.number for value in found if value.number is not None]
    if not numbers:
        return not_applicable("no pair of judges can be compared")
    return ok(sum(numbers) / len(numbers), k=len(numbers), n=len(found))


def unanimous(judges: Sequence[Marks]) -> Value:
    """Answer on how many tasks, of those that all marked, all judges gave the same mark."""
    if not judges:
        return not_applicable("no judge")
    shared = set(judges[0]).intersection(*judges[1:])
    return ratio(sum(1 for task in shared if len({judge[task] for judge in judges}) == 1), len(shared))
