"""Alignment of the calls of a session with the steps of its gold: the cheapest one-to-one match that respects the order."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from fcguard.errors import MissingExtraError
from fcguard.evaluation.gold import NO_TOOL, Choice, GoldStep, GoldTask
from fcguard.evaluation.matchers import NOT_WANTED, Matcher, Mismatch
from fcguard.evaluation.trace import CallRecord
from fcguard.model.failure import Effect

__all__ = ["COSTS", "Alignment", "Pair", "align"]

COSTS: Final[dict[str, float]] = {
    "best": 0.0,
    "acceptable": 0.1,
    "arguments_differ": 0.4,
    "each_difference": 0.3,
    "not_succeeded": 0.05,
    "known_wrong": 1.4,
    "substituted": 1.5,
    "missing": 1.0,
    "extra": 1.0,
}
"""What each pairing costs. Substituting (1.5) is cheaper than one missing and one extra call (2.0), dearer than either;
a call that was sent and succeeded stands for a step before one that was not, or did not."""

_FORBIDDEN = 100.0
_TIES = 1e-4
"""Most that preferring one of equally good answers may cost in all: less than any real difference."""

_MOST_NODES = 400
"""Most assignments that are tried until the order of steps holds; beyond it, late steps of the conflict are dropped."""

EffectOf = Callable[[CallRecord], Effect | None]


@dataclass(frozen=True, slots=True)
class Pair:
    """One row of an aligned session.

    Attributes:
        step: the gold step; None for an extra call.
        position: position of the call in the session; None for a missing step.
        kind: `match`, `arguments_differ`, `substituted` (another tool in its place), `missing`, `extra`, `free` (an extra
            read where the gold lets the agent look around), `skipped`
            (no tool was needed and none was used, or the step was optional).
        choice: the choice of the step that fits the call.
        mismatches: where the arguments differ from the gold.
    """

    step: GoldStep | None
    position: int | None
    kind: str
    choice: Choice | None = None
    mismatches: tuple[Mismatch, ...] = ()


@dataclass(frozen=True, slots=True)
class Alignment:
    """How a session meets its gold.

    Attributes:
        pairs: gold steps in gold order, then extra calls in call order.
        cost: total cost; 0 is a perfect run.
        path: index of the alternative path that fits best.
        is_exact: whether the minimum is proved; false only for tangled orders beyond the search limit.
    """

    pairs: tuple[Pair, ...]
    cost: float
    path: int = 0
    is_exact: bool = True

    def count(self, *kinds: str) -> int:
        """Count the rows of some kinds."""
        return sum(1 for pair in self.pairs if pair.kind in kinds)


def align(calls: Sequence[CallRecord], task: GoldTask, effect_of: EffectOf | None = None) -> Alignment:
    """Find the cheapest one-to-one match between calls and gold steps, over all alternative paths.

    It is a linear assignment (`scipy.optimize.linear_sum_assignment`), so the order in which calls or choices are looked
    at does not matter. Where the assignment breaks the order of the steps, it branches on the broken pair and takes the
    cheapest assignment that keeps it.

    Args:
        calls: the calls of a session, in order.
        task: its gold.
        effect_of: tells the effect of a call; a read never substitutes for a write, unless the gold lists it as wrong.

    Returns:
        The alignment with the cheapest path; the first of equals.
    """
    tell = effect_of or (lambda call: call.effect)
    free = [task.free_reads and tell(call) == "read" for call in calls]
    best: Alignment | None = None
    for index, path in enumerate(task.paths):
        found = _align_path(calls, path, index, tell, free)
        if best is None or found.cost < best.cost - 1e-9:
            best = found
    return best if best is not None else _align_path(calls, (), 0, tell, free)


def _align_path(
    calls: Sequence[CallRecord], path: tuple[GoldStep, ...], index: int, tell: EffectOf, free: list[bool]
) -> Alignment:
    n_calls = len(calls)
    spare = [0.0 if is_free else COSTS["extra"] for is_free in free]
    slots = [(step, number) for step in path for number in range(max(step.minimum, min(step.maximum, n_calls), 1))]
    fits = [[_fit(step, call, tell) for call in calls] for step, _ in slots]
    order = _order(slots)
    weights = _weights(len(slots), order, n_calls)
    costs = [
        [cost - spare[position] - weight * (n_calls - position) for position, (cost, _) in enumerate(row)]
        for row, weight in zip(fits, weights, strict=True)
    ]
    left_out = [_cost_of_leaving_out(step, number) for step, number in slots]
    chosen, is_exact = _ordered_assignment(costs, left_out, order, n_calls)
    cost, pairs = 0.0, []
    for row, (step, number) in enumerate(slots):
        position = chosen[row]
        cost += left_out[row] if position is None else fits[row][position][0]
        pair = _left_out_pair(step, number) if position is None else Pair(step, position, *fits[row][position][1])
        if pair is not None:
            pairs.append(pair)
    extra = sorted(set(range(n_calls)) - set(chosen))
    pairs.extend(Pair(None, position, "free" if free[position] else "extra") for position in extra)
    return Alignment(tuple(pairs), cost + sum(spare[position] for position in extra), index, is_exact)


Fit = tuple[float, tuple[str, Choice | None, tuple[Mismatch, ...]]]


def _fit(step: GoldStep, call: CallRecord, tell: EffectOf) -> Fit:
    """Say what it costs to let a call stand for a step, and how it would be shown."""
    if call.subtask_id is not None and call.subtask_id != step.step_id:
        return _FORBIDDEN, ("substituted", None, ())
    best: Fit | None = None
    for choice in step.any_of:
        if choice.tool != call.tool or (choice.server is not None and choice.server != (call.server or "")):
            continue
        found = _fit_choice(choice, call)
        if best is None or found[0] < best[0]:
            best = found
    if best is not None:
        return best
    if call.tool in step.wrong:
        return COSTS["known_wrong"], ("substituted", None, ())
    if all(choice.tool == NO_TOOL for choice in step.any_of) or _is_other_kind(step, call, tell):
        return _FORBIDDEN, ("substituted", None, ())
    return COSTS["substituted"], ("substituted", None, ())


def _fit_choice(choice: Choice, call: CallRecord) -> Fit:
    is_weak = not call.was_sent or call.status in ("failed", "uncertain")
    base = COSTS[choice.tier] + (COSTS["not_succeeded"] if is_weak else 0.0)
    wanted = choice.arguments
    if wanted is None or not call.has_arguments:
        return base, ("match", choice, ())
    mismatches = _mismatches(wanted, call)
    if not mismatches:
        return base, ("match", choice, ())
    share = len(mismatches) / (len(mismatches) + len(call.acting_arguments or ()) + 1)
    return base + COSTS["arguments_differ"] + COSTS["each_difference"] * share, ("arguments_differ", choice, mismatches)


def _mismatches(wanted: Matcher, call: CallRecord) -> tuple[Mismatch, ...]:
    """Hold a call against the gold by what it did: as executed, whatever harmless noise was folded away.

    A default that the gold does not name was not asked for by the model either. A gold may also be written in the form in
    which the model sends its arguments.
    """
    if call.executed_arguments is None:
        return wanted.compare(call.arguments, "")
    if call.arguments is not None and wanted.matches(call.arguments):
        return ()
    found = wanted.compare(call.executed_arguments, "")
    return tuple(miss for miss in found if not (miss.wanted == NOT_WANTED and miss.path in call.defaults))


def _is_other_kind(step: GoldStep, call: CallRecord, tell: EffectOf) -> bool:
    effect = tell(call)
    if effect is None or step.effect is None:
        return False
    return (effect == "read") != (step.effect == "read")


def _cost_of_leaving_out(step: GoldStep, number: int) -> float:
    return 0.0 if step.optional or step.is_none or number >= step.minimum else COSTS["missing"]


def _left_out_pair(step: GoldStep, number: int) -> Pair | None:
    if step.optional or step.is_none:
        return Pair(step, None, "skipped") if number == 0 else None
    return Pair(step, None, "missing") if number < step.minimum else None


def _order(slots: list[tuple[GoldStep, int]]) -> list[tuple[int, int]]:
    """List the pairs of slots (earlier, later) that the gold orders, through steps that may be left out too."""
    if not any(step.after for step, _ in slots):
        return []
    before = {step.step_id: set(step.after) for step, _ in slots}
    for _ in before:
        before = {name: names | {far for near in names for far in before[near]} for name, names in before.items()}
    return [
        (early, late)
        for late, (step, _) in enumerate(slots)
        for early, (other, _) in enumerate(slots)
        if other.step_id in before[step.step_id]
    ]


def _weights(size: int, order: list[tuple[int, int]], n_calls: int) -> list[float]:
    """Answer for each slot what each place nearer to the front saves, so that of equally good answers one is chosen.

    Steps that come first weigh most: then equal calls go to equal steps in order, earlier calls before later ones.
    """
    before = [0] * size
    for _, late in order:
        before[late] += 1
    weights = [0.0] * size
    for rank, slot in enumerate(sorted(range(size), key=lambda slot: (before[slot], slot))):
        weights[slot] = _TIES * (size - rank) / (size * size * max(n_calls, 1))
    return weights


def _ordered_assignment(
    costs: list[list[float]], left_out: list[float], order: list[tuple[int, int]], n_calls: int
) -> tuple[list[int | None], bool]:
    """Answer the position of the call for each slot: the cheapest assignment that keeps the order.

    Best-first branch and bound: in any ordered solution at least one of two slots in conflict lets its call go, so each
    branch forbids one of them. An assignment without the order is a lower bound, so the first one that keeps it is best.
    """
    if not costs or not n_calls:
        return [None] * len(costs), True
    solve = _solver(costs, left_out, n_calls)
    cost, chosen = solve(frozenset())
    queue: list[tuple[float, int, frozenset[_Use], list[int | None]]] = [(cost, 0, frozenset(), chosen)]
    seen: set[frozenset[_Use]] = {frozenset()}
    while len(seen) <= _MOST_NODES:
        _, _, forbidden, chosen = heapq.heappop(queue)
        conflict = _first_conflict(chosen, order)
        if conflict is None:
            return chosen, True
        for use in conflict:
            more = forbidden | {use}
            if more not in seen:
                seen.add(more)
                cost, found = solve(more)
                heapq.heappush(queue, (cost, len(seen), more, found))
    return _drop_conflicts(chosen, order), False


_Use = tuple[int, int]
"""A slot and the position of the call that it takes."""


def _first_conflict(chosen: list[int | None], order: list[tuple[int, int]]) -> tuple[_Use, _Use] | None:
    for early, late in order:
        first, second = chosen[early], chosen[late]
        if first is not None and second is not None and first > second:
            return (early, first), (late, second)
    return None


def _drop_conflicts(chosen: list[int | None], order: list[tuple[int, int]]) -> list[int | None]:
    kept = list(chosen)
    while (conflict := _first_conflict(kept, order)) is not None:
        kept[conflict[1][0]] = None
    return kept


def _solver(
    costs: list[list[float]], left_out: list[float], n_calls: int
) -> Callable[[frozenset[_Use]], tuple[float, list[int | None]]]:
    """Build the assignment: a slot takes a call (its cost less what the call would cost as extra) or is left out."""
    try:
        import numpy as np
        from scipy.optimize import linear_sum_assignment  # type: ignore[import-untyped, unused-ignore]
    except ImportError as error:
        raise MissingExtraError("scipy", "evaluation") from error
    size = len(costs)
    matrix = np.full((size, n_calls + size), _FORBIDDEN)
    matrix[:, :n_calls] = np.asarray(costs)
    for row, cost in enumerate(left_out):
        matrix[row, n_calls + row] = cost

    def solve(forbidden: frozenset[_Use]) -> tuple[float, list[int | None]]:
        table = matrix
        if forbidden:
            table = matrix.copy()
            for row, column in forbidden:
                table[row, column] = _FORBIDDEN
        rows, columns = linear_sum_assignment(table)
        return float(table[rows, columns].sum()), [int(c) if c < n_calls else None for c in columns]

    return solve
