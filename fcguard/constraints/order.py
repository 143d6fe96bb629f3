"""Hold the calls of a task to an order, and keep those apart that do not go together."""

from __future__ import annotations

from collections.abc import Iterable, Set
from typing import ClassVar

from fcguard.constraints.history import TaskHistory, task_history
from fcguard.errors import ConfigurationError
from fcguard.model.attempt import Attempt
from fcguard.model.call import Call
from fcguard.model.failure import ErrorType, NextAction, Violation

__all__ = ["ConflictsWith", "StepOrder"]


class StepOrder:
    """Admits a tool only after others succeeded in the same task (`PRECONDITION_FAILED`, naming what comes first).

    A step counts if a call of that tool succeeded, also by confirmation, or if the context lists it among the completed steps.

    Args:
        requires: exact names of tools or completed steps.
        same: parameters that must have the same value in both calls, e.g. `("order_id",)`; a completed step of the context,
            which has no arguments, then does not count.
        name: name for the evidence.
    """

    needs_history: ClassVar[TaskHistory] = task_history

    def __init__(self, requires: Iterable[str], *, same: Iterable[str] = (), name: str = "step_order") -> None:
        self.name, self.requires, self.same = name, _names(name, requires), _names(name, same, may_be_empty=True)

    def admit(self, call: Call, now: float) -> Violation | None:
        """Admit if everything that comes first is done."""
        if call.purpose == "confirm":
            return None
        unseen = task_history.missing(call, self.name)
        if unseen is not None:
            return unseen
        completed = () if self.same else call.context.state.completed_steps
        for tool in self.requires:
            states = {step.state for step in task_history.steps(call, tool, self.same)}
            if "done" not in states and tool not in completed:
                return self._refuse(call, tool, states)
        return None

    def settle(self, call: Call, attempt: Attempt | None, now: float) -> None:
        """Nothing to give back."""

    def _refuse(self, call: Call, tool: str, states: Set[str]) -> Violation:
        own = call.tool.name if call.tool is not None else ""
        with_same = f" with the same {', '.join(self.same)}" if self.same else ""
        if "unsure" in states:
            why, action = (
                f"it is not known whether {tool!r} took effect{with_same}; confirm that first",
                NextAction.CONFIRM_STATE,
            )
        elif "running" in states:
            why, action = f"{tool!r} is still running{with_same}; wait for it", NextAction.RETRY_LATER
        else:
            why, action = f"{tool!r} has to succeed first{with_same}", NextAction.CHOOSE_TOOL
        return Violation(
            ErrorType.PRECONDITION_FAILED, f"{own!r} comes later: {why}. Nothing was sent.", next_action=action
        )


class ConflictsWith:
    """Refuses a tool while others of the same task are running, or may still take effect (`CONFLICT`).

    Args:
        tools: exact names of the tools it does not go together with; may hold its own.
        same: parameters that must have the same value in both calls for a conflict, e.g. `("order_id",)`; empty: always.
        earlier: also refuse it once one of them succeeded in the task.
        name: name for the evidence.
    """

    needs_history: ClassVar[TaskHistory] = task_history

    def __init__(
        self, *tools: str, same: Iterable[str] = (), earlier: bool = False, name: str = "conflicts_with"
    ) -> None:
        self.name, self.tools, self.earlier = name, _names(name, tools), earlier
        self.same = _names(name, same, may_be_empty=True)

    def admit(self, call: Call, now: float) -> Violation | None:
        """Admit if nothing stands against it."""
        if call.purpose == "confirm":
            return None
        unseen = task_history.missing(call, self.name)
        if unseen is not None:
            return unseen
        for tool in self.tools:
            for step in task_history.steps(call, tool, self.same):
                state = step.state
                if state == "running":
                    return self._refuse(f"{tool!r} ({step.request_id}) is running", NextAction.RETRY_LATER)
                if state == "unsure":
                    return self._refuse(f"{tool!r} ({step.request_id}) may still take effect", NextAction.CONFIRM_STATE)
                if state == "done" and self.earlier:
                    return self._refuse(f"{tool!r} ({step.request_id}) was done in this task", NextAction.ABORT)
        return None

    def settle(self, call: Call, attempt: Attempt | None, now: float) -> None:
        """Nothing to give back."""

    def _refuse(self, why: str, action: NextAction) -> Violation:
        return Violation(
            ErrorType.CONFLICT,
            f"Conflict: {why}, and the two do not go together. Nothing was sent.",
            next_action=action,
        )


def _names(owner: str, names: Iterable[str], *, may_be_empty: bool = False) -> tuple[str, ...]:
    chosen = (names,) if isinstance(names, str) else tuple(names)
    if (not chosen and not may_be_empty) or any(not isinstance(name, str) or not name for name in chosen):
        raise ConfigurationError(f"{owner}: got {chosen!r}; give exact names")
    return chosen
