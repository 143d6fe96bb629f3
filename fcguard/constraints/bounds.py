"""Which budgets bound a call: that of its task, and those of the tasks around it."""

from __future__ import annotations

from collections.abc import Iterator
from threading import Lock
from typing import Final

from fcguard.model.call import Call
from fcguard.model.context import Budget
from fcguard.model.task import Task

__all__ = ["bounds_of", "count_call", "deadline_of", "task_out_of_time", "task_words"]


def bounds_of(call: Call) -> Iterator[tuple[Task, Budget]]:
    """Yield the tasks that bound the call with their budgets, its own first, then outwards; none outside a task."""
    task: Task | None = call.task
    if task is None:
        return
    if call.context.budget is not None:
        yield task, call.context.budget
    for outer in task.bounds:
        if outer.context.budget is not None:
            yield outer, outer.context.budget


_counting: Final = Lock()


def count_call(call: Call) -> None:
    """Count a call in its task and in those around it, and tell it the how-manieth it is in each that bounds it."""
    task: Task = call.task
    with _counting:  # else two threads might be given the same number
        for one in (task, *task.around):
            one.calls += 1
        call.numbers = {one: one.calls for one, _ in bounds_of(call)}


def deadline_of(call: Call) -> float | None:
    """Answer the monotonic second in which the first of its tasks runs out of time; None: none does."""
    return min((ends for _, ends in _ends(call)), default=None)


def task_out_of_time(call: Call) -> str:
    """Say which task it is that gives the call its deadline."""
    ended = next((task for task, ends in _ends(call) if ends == call.deadline), call.task)
    return task_words(call, ended)


def task_words(call: Call, task: Task) -> str:
    """Say which of the tasks of a call is meant."""
    return "this task" if task is call.task else f"the task {task.context.task_id!r} around this one"


def _ends(call: Call) -> Iterator[tuple[Task, float]]:
    for task, budget in bounds_of(call):
        if budget.seconds is not None:
            yield task, task.started + budget.seconds
