"""The rules that every call meets: whitelisted by the task, not forbidden by its goal, allowed to write."""

from __future__ import annotations

from fcguard.model.context import Tools
from fcguard.model.failure import ErrorType, Violation
from fcguard.rules.globs import matches
from fcguard.rules.protocols import RuleCall

__all__ = ["not_forbidden", "tool_allowed", "write_permitted"]


def tool_allowed(call: RuleCall) -> Violation | None:
    """Refuse a tool that the task's whitelist does not name, exactly or by an explicit glob.

    Without a whitelist every registered tool is allowed; an empty whitelist allows none. A read that the platform runs to
    confirm a write (`purpose == "confirm"`) needs no whitelist entry: the model did not choose it.
    """
    allow = call.context.tools.allow
    if allow is None:
        return None
    tool = call.tool
    name = tool.name
    if name in allow or matches(name, allow) or (call.purpose == "confirm" and tool.effect == "read"):
        return None
    shown = ", ".join(sorted(allow)[:20]) or "none"
    asked = _asked_tools(call)
    whose = (
        "allowed by the task around this one"
        if asked is not None and asked.admits(name)
        else "on the task's list of tools"
    )
    return Violation(ErrorType.TOOL_NOT_ALLOWED, f"{name!r} is not {whose}; allowed: {shown}")


def _asked_tools(call: RuleCall) -> Tools | None:
    """Answer which tools the task was opened with, before the task around it narrowed them."""
    task = getattr(call, "task", None)
    return task.asked.tools if task is not None else None


def not_forbidden(call: RuleCall) -> Violation | None:
    """Refuse a tool that the goal forbids, exactly or by an explicit glob; also when the platform itself would run it."""
    forbidden = call.context.goal.forbidden_actions
    if not forbidden or not matches(call.tool.name, forbidden):
        return None
    return Violation(
        ErrorType.TOOL_NOT_ALLOWED,
        f"the goal of this task forbids {call.tool.name!r}; reach the goal without it",
        "abort",
    )


def write_permitted(call: RuleCall) -> Violation | None:
    """Refuse every tool that is not `effect="read"` where the task may not write, outside a task, and in a confirmation."""
    tool = call.tool
    if tool.effect == "read":
        return None
    context = call.context
    if call.purpose == "confirm":
        why = "a confirmation may only read"
    elif not context.task_id:
        why = "outside a task only tools with effect='read' run; open one with guard.task(...)"
    elif not context.tools.write_allowed:
        asked = _asked_tools(call)
        whose = "the task around this one" if asked is not None and asked.write_allowed else "this task"
        why = f"{whose} may only read (write_allowed is false)"
    else:
        return None
    return Violation(ErrorType.PERMISSION_DENIED, f"{tool.name!r} changes the world (effect={tool.effect!r}); {why}")
