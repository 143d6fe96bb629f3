"""A running task: its context, its counters, and how nested code finds it."""

from __future__ import annotations

from contextvars import ContextVar
from itertools import count
from typing import Any, Final

from fcguard.model.context import TaskContext

__all__ = ["CURRENT_TASK", "Task"]


class Task:
    """One entered `guard.task(...)`.

    Attributes:
        context: what the task may rely on.
        asked: what it was opened with; the task around it may have narrowed it.
        started: monotonic seconds when it was entered.
        calls: governed calls begun, those of the tasks inside it included (child calls of confirmations are not counted).
        attempts: dispatches of these, retries included.
        cost: summed cost of the attempts, in the tools' unit.
        step: number of the last step taken.
        entry: tells this entering of the task from every other one; empty where the context is given call by call.
        outer: the task in which this one was entered; None: none.
        around: all tasks around this one, the nearest first; what is counted here is counted there.
        bounds: those of them that have a budget.
        is_left: whether its `with` block has ended.
        memory: notes that rules and constraints keep for the length of the task, keyed by the object that keeps them.
    """

    __slots__ = (
        "_steps", "around", "asked", "attempts", "bounds", "calls", "context", "cost", "entry", "is_left", "memory", "outer",
        "started", "step",
    )  # fmt: skip

    def __init__(self, context: TaskContext, started: float, entry: str = "", outer: Task | None = None) -> None:
        self.context = self.asked = context
        self.started, self.entry, self.outer = started, entry, outer
        self.around: tuple[Task, ...] = () if outer is None else (outer, *outer.around)
        self.bounds = tuple(task for task in self.around if task.context.budget is not None)
        self.is_left = False
        self.calls = self.attempts = 0
        self.cost = 0.0
        self.step = 0
        self._steps = count(1)
        self.memory: dict[Any, Any] = {}

    def next_step(self) -> int:
        """Take the next step; two threads never get the same."""
        step = self.step = next(self._steps)
        return step


CURRENT_TASK: Final[ContextVar[Task | None]] = ContextVar("fcguard_current_task", default=None)
