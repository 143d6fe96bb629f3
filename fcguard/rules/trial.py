"""Ask a rule what it thinks of arguments, without a guard: for tests of rules and for the documentation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fcguard.model.context import TaskContext
from fcguard.model.failure import Effect
from fcguard.model.frozen import FrozenDict, freeze

__all__ = ["TrialCall", "TrialTool", "ask_rule"]


@dataclass(frozen=True, slots=True)
class TrialTool:
    """A tool as a rule sees it."""

    name: str
    effect: Effect
    parameters: Mapping[str, Any]
    version: str = "1"
    tags: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class TrialCall:
    """A call as a rule sees it."""

    arguments: FrozenDict
    tool: TrialTool
    context: TaskContext
    purpose: str
    request_id: str = "trial"


def ask_rule(
    rule: Any,
    arguments: Mapping[str, Any] | None = None,
    *,
    context: TaskContext | None = None,
    tool: str = "tool",
    effect: Effect = "read",
    parameters: Mapping[str, Any] | None = None,
    purpose: str = "primary",
) -> Any:
    """Ask one rule about a call that is never made.

    Args:
        rule: any rule.
        arguments: as they are after normalization.
        context: the task's context; default: an empty one, as outside a task.
        tool: name of the tool.
        effect: what the tool does to the world.
        parameters: JSON Schema of the tool; default: an open one.
        purpose: `primary`, `confirm` or `fallback`.

    Returns:
        What the rule answers: None, a `Violation`, or for an async rule an awaitable of these.
    """
    call = TrialCall(
        freeze(dict(arguments or {})), TrialTool(tool, effect, parameters or {}), context or TaskContext(), purpose
    )
    return rule(call)
