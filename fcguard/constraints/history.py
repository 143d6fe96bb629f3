"""What the tools of a task did so far: the notes on which order and conflicts are judged."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal

from fcguard.model.attempt import Attempt
from fcguard.model.call import Call
from fcguard.model.failure import ErrorType, Violation

__all__ = ["Step", "TaskHistory", "task_history"]

StepState = Literal["running", "done", "unsure", "failed"]


class Step:
    """One call of a task, as far as order and conflicts go.

    Attributes:
        request_id: which call.
        arguments: its frozen arguments.
        state: `running` (an attempt is under way), `done`, `unsure` (it may have taken effect), or `failed`.
    """

    __slots__ = ("_call", "_is_running", "arguments", "request_id")

    def __init__(self, call: Call) -> None:
        self.request_id, self.arguments = call.request_id, call.arguments
        self._is_running = True
        self._call: Call | None = call

    def settle(self, attempt: Attempt | None) -> None:
        """Take how an attempt ended."""
        self._is_running = False
        if attempt is not None and attempt.failure is None:
            self._call = None

    @property
    def state(self) -> StepState:
        """Where the call stands now: recovery may have confirmed, replaced or disproved what an attempt left open."""
        if self._is_running:
            return "running"
        call = self._call
        if call is None:
            return "done"
        if call.basis is not None and call.failure is None:
            self._call = None
            return "done"
        return "unsure" if any(attempt.effect == "unknown" for attempt in call.attempts) else "failed"


class TaskHistory:
    """Notes every call of a task; `StepOrder` and `ConflictsWith` read the notes. Refuses nothing.

    It has to be asked for every tool of the guard, before them; a guard that holds one of them adds it.
    """

    __slots__ = ("name",)

    def __init__(self) -> None:
        self.name = "task_history"

    def admit(self, call: Call, now: float) -> None:
        """Note that an attempt begins."""
        if call.task is None or call.tool is None or call.purpose == "confirm":
            return
        tools: dict[str, dict[str, Step]] = call.task.memory.setdefault(self, {})
        steps = tools.setdefault(call.tool.name, {})
        last = next(reversed(steps.values()), None)
        if last is not None and last.state == "failed":  # nothing asks for it, so it need not be kept
            steps.pop(last.request_id, None)
        steps[call.request_id] = Step(call)

    def settle(self, call: Call, attempt: Attempt | None, now: float) -> None:
        """Note how it ended."""
        if call.task is not None and call.tool is not None:
            step = self._steps(call, call.tool.name).get(call.request_id)
            if step is not None:
                step.settle(attempt)

    def steps(self, call: Call, tool: str, same: tuple[str, ...] = ()) -> Iterator[Step]:
        """Yield the calls of a tool in the task of `call`, but not `call` itself nor what it was called by.

        Args:
            call: who asks.
            tool: exact name.
            same: only calls in which these parameters have the values that they have in `call`.
        """
        own: set[str] = set()
        ancestor: Call | None = call
        while ancestor is not None:
            own.add(ancestor.request_id)
            ancestor = ancestor.parent
        for request_id, step in list(self._steps(call, tool).items()):
            if request_id not in own and all(
                _value(step.arguments, name) == _value(call.arguments, name) for name in same
            ):
                yield step

    def missing(self, call: Call, asked_by: str) -> Violation | None:
        """Answer a refusal if the calls of this task are not noted, so that nothing can be said about order and conflicts."""
        if call.task is None or call.tool is None or call.request_id in self._steps(call, call.tool.name):
            return None
        return Violation(
            ErrorType.RULE_FAILED,
            f"The constraint {asked_by!r} cannot know what ran before: the guard does not note the calls of its tasks "
            "(it needs the constraint task_history for every tool). This is a fault of the platform, not of the call.",
        )

    def _steps(self, call: Call, tool: str) -> dict[str, Step]:
        tools: dict[str, dict[str, Step]] = call.task.memory.get(self, {}) if call.task is not None else {}
        return tools.get(tool, {})


task_history: Final = TaskHistory()
"""The one note-taker; it keeps its notes in the task, so one instance serves all guards."""

_ABSENT: Final = object()


def _value(arguments: Mapping[str, Any], name: str) -> Any:
    return arguments.get(name, _ABSENT)
