"""Fakes for the adapter tests: a guard that only counts, and results."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from fcguard.adapters.base import ResultLike
from fcguard.model.failure import FailureClass
from fcguard.model.intent import Intent
from fcguard.model.result import ToolResult


def result(number: int = 0, *, success: bool = True, data: Any = None) -> ToolResult[Any]:
    """Build an envelope that can be told from others by its request id."""
    return ToolResult(
        success=success,
        error_type=None if success else "PARAM_INVALID",
        retryable=False,
        tool_name="query_order",
        request_id=f"fc-{number}",
        normalized_args={},
        data=data,
        evidence=(),
        message="" if success else "order_id: does not fit",
        next_action="continue" if success else "fix_arguments",
        failure_class=None if success else FailureClass.PARAMETER,
        effect="none",
        outcome_basis="returned" if success else None,
        attempts=1 if success else 0,
        duration_ms=1.0,
        trace_id=None,
        tool_version="1",
        task_id=None,
        step=None,
    )


class CountingGuard:
    """Answers every intent with a success that says which position it had; a cut-off one with a refusal."""

    def __init__(self) -> None:
        self.seen: list[Intent] = []
        self.options: dict[str, Any] = {}

    def run_turn(self, intents: Sequence[Intent], **options: Any) -> list[ResultLike]:
        self.options = options
        self.seen += intents
        return [
            result(position, success=not intent.is_truncated and intent.tool is not None, data={"position": position})
            for position, intent in enumerate(intents)
        ]

    async def arun_turn(self, intents: Sequence[Intent], **options: Any) -> list[ResultLike]:
        return self.run_turn(intents, **options)
