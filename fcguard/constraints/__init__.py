"""Execution constraints: the world now, asked before every attempt."""

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
    "is_tool_failure",
    "task_budget",
    "task_history",
]
