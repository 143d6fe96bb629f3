"""Limits on what a task may spend: calls, attempts, time and cost."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, ClassVar, Final

from fcguard.constraints.bounds import bounds_of, task_words
from fcguard.constraints.options import check_count
from fcguard.constraints.state import Change, SharedState, clock_of, is_blocking, new_lock, state_key
from fcguard.model.attempt import Attempt
from fcguard.model.call import Call
from fcguard.model.context import Budget
from fcguard.model.failure import ErrorType, NextAction, Violation
from fcguard.model.task import Task

__all__ = ["AttemptBudget", "CallBudget", "TaskBudget", "task_budget"]


class _TaskLimit:
    """Counts something in each task, up to a limit."""

    __slots__ = ("_lock", "_state", "is_blocking", "limit", "name")
    _unit: ClassVar[str]

    def __init__(self, limit: int, *, name: str, state: SharedState | None = None) -> None:
        self.limit, self.name = check_count(name, "limit", limit, 0), name
        self._lock, self._state = new_lock(), state
        self.is_blocking = is_blocking(state)

    def _take(self, call: Call, outside: int) -> Violation | None:
        """Count one more, or refuse; outside a task, so many were counted before."""
        task: Task | None = call.task
        if self._state is not None and task is not None:
            is_left = self._state.change(_key(self._unit, self.name, task), _one_more(self.limit))
            return None if is_left else _exhausted(self.name, self._unit, self.limit)
        memory: dict[Any, Any] = {self: outside} if task is None else task.memory
        with self._lock:
            used = memory.get(self, 0)
            if used < self.limit:
                memory[self] = used + 1
                return None
        return _exhausted(self.name, self._unit, self.limit)

    def _give_back(self, call: Call) -> None:
        if call.task is None:
            return
        if self._state is not None:
            self._state.change(_key(self._unit, self.name, call.task), _one_less)
            return
        with self._lock:
            call.task.memory[self] -= 1


class CallBudget(_TaskLimit):
    """Lets the tools that carry it be called at most `limit` times in one task (`BUDGET_EXHAUSTED`).

    Retries of one call count once, a call that was refused before it was sent not at all, confirmations never. Tools that share
    the instance share the budget. A task in a task has a count of its own; to bound both, give the outer one a `Budget`. Outside a
    task nothing adds up, so only `limit=0` refuses there.

    Args:
        limit: most calls in one task.
        name: name for the evidence, and of the state.
        state: where the count is kept, by task id, for workers that share a task; None: in this process, per entered task.
    """

    __slots__ = ()
    _unit = "calls"

    def __init__(self, limit: int, *, name: str = "call_budget", state: SharedState | None = None) -> None:
        super().__init__(limit, name=name, state=state)

    def admit(self, call: Call, now: float) -> Violation | None:
        """Count the first attempt of a call, or refuse it."""
        return None if call.attempts or call.purpose == "confirm" else self._take(call, 0)

    def settle(self, call: Call, attempt: Attempt | None, now: float) -> None:
        """Give the call back if nothing was sent."""
        if attempt is None and not call.attempts and call.purpose != "confirm":
            self._give_back(call)


class AttemptBudget(_TaskLimit):
    """Lets the tools that carry it be started at most `limit` times in one task, retries included (`BUDGET_EXHAUSTED`).

    Confirmations never count. Tools that share the instance share the budget. A task in a task has a count of its own; to bound
    both, give the outer one a `Budget`. Outside a task the limit holds for one call.

    Args:
        limit: most attempts in one task.
        name: name for the evidence, and of the state.
        state: where the count is kept, by task id, for workers that share a task; None: in this process, per entered task.
    """

    __slots__ = ()
    _unit = "attempts"

    def __init__(self, limit: int, *, name: str = "attempt_budget", state: SharedState | None = None) -> None:
        super().__init__(limit, name=name, state=state)

    def admit(self, call: Call, now: float) -> Violation | None:
        """Count an attempt, or refuse it."""
        return None if call.purpose == "confirm" else self._take(call, len(call.attempts))

    def settle(self, call: Call, attempt: Attempt | None, now: float) -> None:
        """Give the attempt back if nothing was sent."""
        if attempt is None and call.purpose != "confirm":
            self._give_back(call)


class _Spent:
    """Attempts and cost that were admitted in a task, those under way included."""

    __slots__ = ("attempts", "cost")

    def __init__(self, task: Task) -> None:
        self.attempts, self.cost = task.attempts, task.cost


class TaskBudget:
    """Holds a task to the budget in its context: calls, attempts, seconds and cost (`BUDGET_EXHAUSTED`).

    It reads the counters of the running task; attempts and cost under way in other threads count as spent. What is done in a task
    counts for those around it, too, and is held to their budgets. Confirmations pass: what became of a write must be found out
    whatever it costs. Without a budget or outside a task it admits everything.

    Args:
        name: name for the evidence, and of the state.
        state: where is kept what tasks have spent, by task id, for workers that share a task: the calls that were admitted, and
            when the first of them entered the task. None: what the task itself has counted.
        wall: clock for times in a shared state, in seconds; None: the state's own, or this machine's if it has none.
    """

    __slots__ = ("_lock", "_state", "_wall", "is_blocking", "name")

    def __init__(
        self,
        *,
        name: str = "task_budget",
        state: SharedState | None = None,
        wall: Callable[[], float] | None = None,
    ) -> None:
        self.name, self._state, self._wall = name, state, clock_of(state, wall)
        self.is_blocking = is_blocking(state)
        self._lock = new_lock()

    def admit(self, call: Call, now: float) -> Violation | None:
        """Admit the attempt if the task, and those around it, can still afford it."""
        if call.task is None or call.purpose == "confirm":
            return None
        if self._state is not None:
            return self._spend_shared(self._state, call, now)
        is_spent = False
        for task, budget in bounds_of(call):
            if budget.seconds is not None and now - task.started >= budget.seconds:
                return _exhausted(self.name, "seconds", budget.seconds, task_words(call, task))
            # Its own number, not the counter: others that were counted since must not push out a call that was within.
            if budget.calls is not None and call.numbers.get(task, 0) > budget.calls:
                return _exhausted(self.name, "calls", budget.calls, task_words(call, task))
            is_spent = is_spent or budget.attempts is not None or budget.cost is not None
        return self._spend(call) if is_spent else None

    def settle(self, call: Call, attempt: Attempt | None, now: float) -> None:
        """Give attempt and cost back if nothing was sent."""
        task: Task | None = call.task
        if attempt is not None or task is None or call.purpose == "confirm":
            return
        if self._state is not None:
            self._give_back(self._state, call, _by_key(self.name, call))
            return
        with self._lock:
            for one in (task, *task.bounds):
                spent: _Spent | None = one.memory.get(self)
                if spent is not None:
                    spent.attempts -= 1
                    spent.cost -= _cost(call)

    def _spend(self, call: Call) -> Violation | None:
        """Spend an attempt in each of the tasks, or in none."""
        with self._lock:
            spending = [
                (task, budget, self._spent(task))
                for task, budget in bounds_of(call)
                if budget.attempts is not None or budget.cost is not None
            ]
            for task, budget, spent in spending:
                if budget.attempts is not None and spent.attempts >= budget.attempts:
                    return _exhausted(self.name, "attempts", budget.attempts, task_words(call, task))
                if budget.cost is not None and spent.cost + _cost(call) > budget.cost * (1 + _ROUNDING):
                    return _exhausted(self.name, "cost", budget.cost, task_words(call, task))
            for _, _, spent in spending:
                spent.attempts += 1
                spent.cost += _cost(call)
            return None

    def _spent(self, task: Task) -> _Spent:
        spent: _Spent | None = task.memory.get(self)
        if spent is None:
            spent = task.memory[self] = _Spent(task)
        elif spent.attempts < task.attempts or spent.cost < task.cost:
            spent.attempts, spent.cost = max(spent.attempts, task.attempts), max(spent.cost, task.cost)
        return spent

    def _spend_shared(self, state: SharedState, call: Call, now: float) -> Violation | None:
        at = self._wall() if state.is_shared else now
        taken: list[str] = []
        try:
            for key, bounds in _by_key(self.name, call).items():
                over = state.change(key, _spending(call, bounds, at, now))
                if over is not None:
                    task, unit, limit = over
                    return _exhausted(self.name, unit, limit, task_words(call, task))
                taken.append(key)
            taken.clear()
            return None
        finally:  # refused by a task further out, or out of reach
            with suppress(Exception):
                self._give_back(state, call, taken)

    def _give_back(self, state: SharedState, call: Call, keys: Iterable[str]) -> None:
        for key in keys:
            state.change(key, lambda stored: (_minus(stored, call), None))


task_budget: Final = TaskBudget()
"""Holds every task to its own `Budget`; keeps its notes in the task, so one instance serves all guards."""


_ROUNDING: Final = 1e-9
"""Three times 0.1 fit into 0.3, whatever binary fractions say."""


def _cost(call: Call) -> float:
    return 0.0 if call.tool is None else call.tool.cost


def _key(kind: str, name: str, task: Task) -> str:
    return state_key(f"budget_{kind}", name, task.context.task_id)


def _by_key(name: str, call: Call) -> dict[str, list[tuple[Task, Budget]]]:
    """Answer under which keys the call counts; tasks of one id count together, also if one is in the other."""
    by_key: dict[str, list[tuple[Task, Budget]]] = {}
    for task, budget in bounds_of(call):
        by_key.setdefault(_key("task", name, task), []).append((task, budget))
    return by_key


def _spending(
    call: Call, bounds: list[tuple[Task, Budget]], at: float, now: float
) -> Change[tuple[Task, str, float] | None]:
    """Answer the change that spends an attempt, or answers what forbids it.

    Args:
        call: who wants the attempt.
        bounds: the tasks of one id with their budgets.
        at: seconds of the clock that the state is kept by.
        now: monotonic seconds.
    """
    entered = min(at - (now - task.started) for task, _ in bounds)

    def spend(stored: dict[str, float] | None) -> tuple[dict[str, float] | None, tuple[Task, str, float] | None]:
        spent = stored or {"since": entered, "calls": 0, "attempts": 0, "cost": 0.0}
        since, cost = min(spent["since"], entered), spent["cost"] + _cost(call)
        calls, attempts = spent["calls"] + (not call.attempts), spent["attempts"] + 1
        for task, budget in bounds:
            for unit, limit, is_over in (
                ("seconds", budget.seconds, at - since >= (budget.seconds or 0)),
                ("calls", budget.calls, not call.attempts and calls > (budget.calls or 0)),
                ("attempts", budget.attempts, attempts > (budget.attempts or 0)),
                ("cost", budget.cost, cost > (budget.cost or 0) * (1 + _ROUNDING)),
            ):
                if limit is not None and is_over:
                    return stored, (task, unit, limit)
        return {"since": since, "calls": calls, "attempts": attempts, "cost": cost}, None

    return spend


def _one_more(limit: int) -> Callable[[int | None], tuple[int | None, bool]]:
    return lambda used: ((used or 0) + 1, True) if (used or 0) < limit else (used, False)


def _one_less(used: int | None) -> tuple[int | None, None]:
    return (None if used is None or used <= 1 else used - 1), None


def _minus(spent: dict[str, float] | None, call: Call) -> dict[str, float] | None:
    if spent is None:
        return None
    left = {"calls": spent["calls"] - (not call.attempts), "attempts": spent["attempts"] - 1}
    return {**spent, **left, "cost": spent["cost"] - _cost(call)}


def _exhausted(name: str, unit: str, limit: float, whose: str = "this task") -> Violation:
    return Violation(
        ErrorType.BUDGET_EXHAUSTED,
        f"The budget {name!r} of {limit:g} {unit} for {whose} is used up. Nothing was sent. Stop, and report what was reached so far.",
        next_action=NextAction.ABORT,
    )
