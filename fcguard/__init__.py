"""fcguard: governed LLM function calls. Validated, recoverable, recorded; a timed-out write is confirmed, never repeated blindly.

Use a `Guard`: decorate the functions that a model may call, open a task, and read the envelope (`ToolResult`) of each call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fcguard.lazy import lazy_exports

if TYPE_CHECKING:
    from fcguard.errors import ConfigurationError, FcguardError, StoreError, ToolCallFailed, UsageError
    from fcguard.guard import Guard
    from fcguard.model.call import Call
    from fcguard.model.call_info import CallInfo, current_call
    from fcguard.model.context import Bound, Budget, Environment, Goal, OutputContract, State, TaskContext
    from fcguard.model.evidence import Evidence
    from fcguard.model.failure import ErrorType, FailureClass, NextAction, Violation
    from fcguard.model.intent import Intent, Usage
    from fcguard.model.outcome import Applied, AppliedByOther, Inconclusive, NotApplied
    from fcguard.model.result import ToolResult
    from fcguard.model.tool import ConfirmBy, Fallback, Retry, Tool
    from fcguard.recovery.classify import Classified
    from fcguard.recovery.table import RecoveryTable
    from fcguard.rules.environments import only_in
    from fcguard.stores.memory import MemoryStore
    from fcguard.stores.sqlite import SQLiteStore

__version__ = "0.1.0"

__all__ = [
    "Applied",
    "AppliedByOther",
    "Bound",
    "Budget",
    "Call",
    "CallInfo",
    "Classified",
    "ConfigurationError",
    "ConfirmBy",
    "Environment",
    "ErrorType",
    "Evidence",
    "FailureClass",
    "Fallback",
    "FcguardError",
    "Goal",
    "Guard",
    "Inconclusive",
    "Intent",
    "MemoryStore",
    "NextAction",
    "NotApplied",
    "OutputContract",
    "RecoveryTable",
    "Retry",
    "SQLiteStore",
    "State",
    "StoreError",
    "TaskContext",
    "Tool",
    "ToolCallFailed",
    "ToolResult",
    "Usage",
    "UsageError",
    "Violation",
    "current_call",
    "only_in",
]

__getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "fcguard.errors": ("ConfigurationError", "FcguardError", "StoreError", "ToolCallFailed", "UsageError"),
        "fcguard.guard": ("Guard",),
        "fcguard.model.call": ("Call",),
        "fcguard.model.call_info": ("CallInfo", "current_call"),
        "fcguard.model.context": ("Bound", "Budget", "Environment", "Goal", "OutputContract", "State", "TaskContext"),
        "fcguard.model.evidence": ("Evidence",),
        "fcguard.model.failure": ("ErrorType", "FailureClass", "NextAction", "Violation"),
        "fcguard.model.intent": ("Intent", "Usage"),
        "fcguard.model.outcome": ("Applied", "AppliedByOther", "Inconclusive", "NotApplied"),
        "fcguard.model.result": ("ToolResult",),
        "fcguard.model.tool": ("ConfirmBy", "Fallback", "Retry", "Tool"),
        "fcguard.recovery.classify": ("Classified",),
        "fcguard.recovery.table": ("RecoveryTable",),
        "fcguard.rules.environments": ("only_in",),
        "fcguard.stores.memory": ("MemoryStore",),
        "fcguard.stores.sqlite": ("SQLiteStore",),
    },
)
