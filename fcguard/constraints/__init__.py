"""Execution constraints: the world now, asked before every attempt."""

from fcguard.constraints.base import Constraint, constraint_name
from fcguard.constraints.breaker import CircuitBreaker, CircuitSnapshot, is_tool_failure
from fcguard.constraints.budget import AttemptBudget, CallBudget, TaskBudget, task_budget
from fcguard.constraints.state import MemoryState, SharedState

__all__ = [
    "AttemptBudget",
    "CallBudget",
    "CircuitBreaker",
    "CircuitSnapshot",
    "Constraint",
    "MemoryState",
    "SharedState",
    "TaskBudget",
    "constraint_name",
    "is_tool_failure",
    "task_budget",
]
