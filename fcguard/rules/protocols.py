"""What a business rule may read of a call, and what a rule is."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, TypeAlias

from fcguard.model.context import TaskContext
from fcguard.model.failure import Effect, Violation

__all__ = ["Rule", "RuleCall", "RuleTool", "Verdict"]


class RuleTool(Protocol):
    """What a rule may read of the tool."""

    @property
    def name(self) -> str:
        """Exact name."""
        ...

    @property
    def effect(self) -> Effect:
        """What the tool does to the world."""
        ...

    @property
    def version(self) -> str:
        """Version of the tool's behaviour."""
        ...

    @property
    def parameters(self) -> Mapping[str, Any]:
        """JSON Schema of the arguments."""
        ...

    @property
    def tags(self) -> frozenset[str]:
        """Free labels."""
        ...


class RuleCall(Protocol):
    """What a rule may read of a call. Rules only read; the arguments are frozen by then."""

    @property
    def arguments(self) -> Mapping[str, Any]:
        """The normalized, frozen arguments."""
        ...

    @property
    def tool(self) -> RuleTool:
        """The resolved tool."""
        ...

    @property
    def context(self) -> TaskContext:
        """The task's context; always present, perhaps empty (`task_id == ""`: outside a task)."""
        ...

    @property
    def request_id(self) -> str:
        """The id of the call."""
        ...

    @property
    def purpose(self) -> str:
        """`primary`, `confirm` or `fallback`."""
        ...


Verdict: TypeAlias = Violation | None
Rule: TypeAlias = Callable[[Any], Verdict | Awaitable[Verdict]]
"""A business rule: `(call: RuleCall) -> None | Violation`, sync or async. A plain function serves."""
