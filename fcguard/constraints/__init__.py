"""Execution constraints: the world now, asked before every attempt."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fcguard.lazy import lazy_exports

if TYPE_CHECKING:
    from fcguard.constraints.base import Constraint, constraint_name
    from fcguard.constraints.breaker import CircuitBreaker, CircuitSnapshot, is_tool_failure
    from fcguard.constraints.budget import AttemptBudget, CallBudget, TaskBudget, task_budget
    from fcguard.constraints.freeze import Freeze
    from fcguard.constraints.health import DependencyHealth
    from fcguard.constraints.history import TaskHistory, task_history
    from fcguard.constraints.loop import LoopDetection
    from fcguard.constraints.order import ConflictsWith, StepOrder
    from fcguard.constraints.pool import Concurrency, ResourcePool
    from fcguard.constraints.rate import RateLimit, RetryTokenBucket
    from fcguard.constraints.repeat import NoProgressRepeat
    from fcguard.constraints.schedule import Between, Cron, Daily
    from fcguard.constraints.sqlite_state import SQLiteState
    from fcguard.constraints.state import MemoryState, SharedState
    from fcguard.constraints.table import ConstraintRow, constraints_markdown, constraints_table
    from fcguard.constraints.window import QuietWindow

__all__ = [
    "AttemptBudget",
    "Between",
    "CallBudget",
    "CircuitBreaker",
    "CircuitSnapshot",
    "Concurrency",
    "ConflictsWith",
    "Constraint",
    "ConstraintRow",
    "Cron",
    "Daily",
    "DependencyHealth",
    "Freeze",
    "LoopDetection",
    "MemoryState",
    "NoProgressRepeat",
    "QuietWindow",
    "RateLimit",
    "ResourcePool",
    "RetryTokenBucket",
    "SQLiteState",
    "SharedState",
    "StepOrder",
    "TaskBudget",
    "TaskHistory",
    "constraint_name",
    "constraints_markdown",
    "constraints_table",
    "is_tool_failure",
    "task_budget",
    "task_history",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "fcguard.constraints.base": ("Constraint", "constraint_name"),
        "fcguard.constraints.breaker": ("CircuitBreaker", "CircuitSnapshot", "is_tool_failure"),
        "fcguard.constraints.budget": ("AttemptBudget", "CallBudget", "TaskBudget", "task_budget"),
        "fcguard.constraints.freeze": ("Freeze",),
        "fcguard.constraints.health": ("DependencyHealth",),
        "fcguard.constraints.history": ("TaskHistory", "task_history"),
        "fcguard.constraints.loop": ("LoopDetection",),
        "fcguard.constraints.order": ("ConflictsWith", "StepOrder"),
        "fcguard.constraints.pool": ("Concurrency", "ResourcePool"),
        "fcguard.constraints.rate": ("RateLimit", "RetryTokenBucket"),
        "fcguard.constraints.repeat": ("NoProgressRepeat",),
        "fcguard.constraints.schedule": ("Between", "Cron", "Daily"),
        "fcguard.constraints.sqlite_state": ("SQLiteState",),
        "fcguard.constraints.state": ("MemoryState", "SharedState"),
        "fcguard.constraints.table": ("ConstraintRow", "constraints_markdown", "constraints_table"),
        "fcguard.constraints.window": ("QuietWindow",),
    },
)
