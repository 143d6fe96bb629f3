"""Tasks as code opens them, and the small answers a guard needs about them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from secrets import token_hex
from types import TracebackType
from typing import Any

from fcguard.errors import SchemaError, TaskError
from fcguard.model.call import Call
from fcguard.model.context import Environment, Goal, TaskContext, Tools
from fcguard.model.result import ENVELOPE_FIELDS, ToolResult
from fcguard.model.task import CURRENT_TASK, Task
from fcguard.model.tool import Tool
from fcguard.results.contract import compile_contract
from fcguard.task_names import TaskNames, narrowed

__all__ = ["RunningTasks", "TaskScope", "check_context", "is_offered", "make_context", "next_step", "said", "tell"]


def make_context(
    goal: str | Goal,
    *,
    environment: Environment | str | None,
    allow: Iterable[str] | None,
    forbid: Iterable[str],
    write_allowed: bool,
    task_id: str,
    roles: Iterable[str],
    **fields: Any,
) -> TaskContext:
    """Build the context of a task from what `guard.task(...)` was given.

    Raises:
        TaskError: something in it cannot be used.
    """
    for name, names in (("allow", allow), ("forbid", forbid), ("roles", roles)):
        if isinstance(names, str):
            raise TaskError(f"{name}={names!r} is one text; write a set: {name}={{{names!r}}}")
        if names is not None and not isinstance(names, Iterable):
            raise TaskError(f"{name}={names!r} must be a set of texts")
    if not isinstance(goal, (str, Goal)):
        raise TaskError(f"goal={goal!r} must be one sentence, or a Goal")
    try:
        forbid = frozenset(forbid)
        if not all(isinstance(name, str) for name in forbid):
            raise TypeError(f"forbid={set(forbid)!r} must be a set of texts")
        goal = Goal(objective=goal) if isinstance(goal, str) else goal
        if forbid:
            goal = goal.model_copy(update={"forbidden_actions": goal.forbidden_actions | forbid})
        context = TaskContext(
            goal=goal,
            environment=Environment(name=environment) if isinstance(environment, str) else environment,
            tools=Tools(allow=None if allow is None else frozenset(allow), write_allowed=write_allowed),
            task_id=task_id,
            roles=frozenset(roles),
            **fields,
        )
    except (TypeError, ValueError) as error:
        raise TaskError(f"guard.task: {error}") from None
    check_context(context)
    if not context.task_id:
        raise TaskError("guard.task: task_id must not be empty; leave it out to get a new one")
    return context


def check_context(context: Any) -> None:
    """Refuse what is no context, or one whose output contract cannot be used.

    Raises:
        TaskError: it cannot be used.
    """
    if not isinstance(context, TaskContext):
        raise TaskError(f"context={context!r} is no TaskContext; build one, or open a task with guard.task(...)")
    if context.output is None:
        return
    for name in context.output.required_on_failure:
        if name not in ENVELOPE_FIELDS:
            raise TaskError(f"required_on_failure names {name!r}; an envelope has {', '.join(ENVELOPE_FIELDS)}")
    if context.output.json_schema is not None:
        try:
            compile_contract(context.output.json_schema, "the context's output.json_schema")
        except SchemaError as error:
            raise TaskError(str(error)) from None


class TaskScope:
    """A task that is entered with `with` (also inside async code); once.

    Args:
        context: what its calls may rely on.
        clock: monotonic seconds.
        names: checks the names that it mentions.
        may_widen: whether it may allow what the task around it does not.
    """

    __slots__ = ("_clock", "_context", "_may_widen", "_names", "_task", "_token")

    def __init__(
        self, context: TaskContext, clock: Callable[[], float], names: TaskNames, *, may_widen: bool = False
    ) -> None:
        self._context, self._clock = context, clock
        self._names, self._may_widen = names, may_widen
        self._token: Any = None
        self._task: Task | None = None

    @property
    def context(self) -> TaskContext:
        """What the task's calls may rely on; once it is entered, as the task around it leaves it."""
        return self._context if self._task is None else self._task.context

    def __enter__(self) -> Task:
        if self._token is not None:
            raise TaskError("this guard.task(...) was entered already; open a new one")
        tools = self._names.tools
        if not tools.is_settled:
            tools.settle()
        self._names.check(self._context)
        outer = CURRENT_TASK.get()
        task = self._task = Task(self._context, self._clock(), token_hex(8), outer)
        if outer is not None and not self._may_widen:
            task.context = narrowed(self._context, outer.context, tools.names())
        try:
            self._token = CURRENT_TASK.set(task)
        except BaseException:  # an interrupt in this very moment: the block will neither begin nor end
            CURRENT_TASK.set(outer)
            raise
        return task

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        task = self._task
        if task is None or task.is_left:
            raise TaskError("this guard.task(...) was left without being entered")
        try:
            self._leave(task)
        except KeyboardInterrupt:
            if CURRENT_TASK.get() is task:
                CURRENT_TASK.set(task.outer)
            raise

    def _leave(self, task: Task) -> None:
        task.is_left = True
        if CURRENT_TASK.get() not in (None, task):
            raise TaskError("guard.task(...) must be left in order: the task entered last is left first")
        try:
            CURRENT_TASK.reset(self._token)
        except ValueError:
            raise TaskError(
                "guard.task(...) must be left where it was entered: in the same thread or asyncio task"
            ) from None
        outer = task.outer
        while outer is not None and outer.is_left:  # it was left before its time: calls must not go on in it
            outer = outer.outer
        if outer is not task.outer:
            CURRENT_TASK.set(outer)


def next_step(task: Task | None, context: TaskContext | None) -> int | None:
    """Answer the number of the step that begins now: fixed, counted by the task, or None outside one."""
    if context is not None:
        return context.step
    if task is None:
        return None
    if task.context.step is not None:
        return task.context.step
    return task.next_step()


def is_offered(tool: Tool, context: TaskContext) -> bool:
    """Answer whether a context allows a tool, so that it may be offered to a model."""
    if not context.tools.admits(tool.name) or not (tool.is_read or (context.tools.write_allowed and context.task_id)):
        return False
    forbidden = Tools(allow=context.goal.forbidden_actions)
    return not (context.goal.forbidden_actions and forbidden.admits(tool.name))


def tell(source: Any, result: ToolResult[Any]) -> None:
    """Tell a source of intents what became of its proposal, if it wants to know."""
    record = getattr(source, "record", None)
    if record is not None:
        record(result)


def said(call: Call) -> ToolResult[Any]:
    """Answer the envelope of a proposal that calls no tool: what the model said is the data."""
    return ToolResult(
        success=True,
        error_type=None,
        retryable=False,
        tool_name="none",
        request_id=call.request_id,
        normalized_args=None,
        data=call.proposal.text,
        evidence=(),
        message="The model called no tool.",
        next_action="continue",
        failure_class=None,
        effect="none",
        outcome_basis="returned",
        attempts=0,
        duration_ms=0.0,
        trace_id=None,
        tool_version="",
        task_id=None,
        step=call.step,
    )


class RunningTasks:
    """The counters of tasks whose context is given call by call; those of the latest tasks are remembered.

    Args:
        clock: monotonic seconds.
        limit: how many tasks to remember.
    """

    __slots__ = ("_clock", "_limit", "_tasks")

    def __init__(self, clock: Callable[[], float], limit: int = 1024) -> None:
        self._clock, self._limit = clock, limit
        self._tasks: dict[str, Task] = {}

    def of(self, context: TaskContext) -> Task | None:
        """Answer the counters of a context's task; None outside one."""
        task_id = context.task_id
        if not task_id:
            return None
        task = self._tasks.get(task_id)
        if task is None:
            if len(self._tasks) >= self._limit:
                with suppress(RuntimeError):  # another thread changes it meanwhile, and makes room too
                    self._tasks.pop(next(iter(self._tasks)), None)
            task = self._tasks.setdefault(task_id, Task(context, self._clock()))
        return task
