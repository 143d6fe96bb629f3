"""Naive agents that every suite is measured against: one that does nothing, one that takes the first tool."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from fcguard.evaluation.aggregate import Partial
from fcguard.evaluation.catalogue import Catalogue
from fcguard.evaluation.evaluate import evaluate
from fcguard.evaluation.gold import Gold
from fcguard.evaluation.metrics import Measures
from fcguard.evaluation.trace import CallRecord, Session

__all__ = ["NAIVE_AGENTS", "do_nothing", "evaluate_naive", "first_tool"]


def do_nothing(gold: Gold, catalogue: Catalogue) -> Iterator[Session]:
    """Yield the sessions of an agent that never calls a tool."""
    for task in gold:
        yield Session(f"{task.task_id}#0", task.task_id, slice=task.slice)


def first_tool(gold: Gold, catalogue: Catalogue) -> Iterator[Session]:
    """Yield the sessions of an agent that calls the first tool of the catalogue once, without arguments."""
    name = next(iter(catalogue.tools), ("", "tool"))
    for task in gold:
        call = CallRecord(
            "call-1", name[1], name[0] or None, step=1, raw_arguments={}, arguments={}, status="succeeded"
        )
        yield Session(f"{task.task_id}#0", task.task_id, slice=task.slice, calls=(call,))


NAIVE_AGENTS: Final[dict[str, Callable[[Gold, Catalogue], Iterator[Session]]]] = {
    "do nothing": do_nothing,
    "first tool": first_tool,
}
"""Name -> agent. A suite that they pass does not test much."""


def evaluate_naive(measures: Measures) -> dict[str, Partial]:
    """Measure the naive agents on a suite; empty without gold. Outcomes come from the gold."""
    if measures.gold is None:
        return {}
    return {
        name: evaluate(agent(measures.gold, measures.catalogue), measures, most_cases=0)
        for name, agent in NAIVE_AGENTS.items()
    }
