"""The constraints as one table: options, error types and next actions; the documentation is checked against it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from fcguard.constraints.breaker import CircuitBreaker
from fcguard.constraints.budget import AttemptBudget, CallBudget, TaskBudget
from fcguard.constraints.freeze import Freeze
from fcguard.constraints.health import DependencyHealth
from fcguard.constraints.history import TaskHistory
from fcguard.constraints.loop import LoopDetection
from fcguard.constraints.order import ConflictsWith, StepOrder
from fcguard.constraints.pool import Concurrency, ResourcePool
from fcguard.constraints.rate import RateLimit, RetryTokenBucket
from fcguard.constraints.repeat import NoProgressRepeat
from fcguard.constraints.window import QuietWindow
from fcguard.model.failure import ErrorType
from fcguard.tables import codes_with_actions, render_codes, summary_of, written_options

__all__ = ["ConstraintRow", "constraints_markdown", "constraints_table"]

_E: Final = ErrorType


@dataclass(frozen=True, slots=True)
class ConstraintRow:
    """One line of the table.

    Attributes:
        name: name in `fcguard.constraints`.
        options: the parameters as a user writes them, with defaults.
        summary: what it is for, one sentence.
        codes: error type and next action of its refusals; none for one that only notes what happens.
        tells_wait: whether its refusals say after how many seconds to come back (`retry_after`).
        confirmations: what it does with a call that confirms an uncertain write.
    """

    name: str
    options: str
    summary: str
    codes: tuple[tuple[str, str], ...]
    tells_wait: bool
    confirmations: str


_ROWS: Final[tuple[tuple[type[Any], tuple[Any, ...], bool, str], ...]] = (
    (CircuitBreaker, (_E.CIRCUIT_OPEN,), True, "pass, not counted"),
    (TaskBudget, ((_E.BUDGET_EXHAUSTED, "abort"),), False, "pass, not counted"),
    (CallBudget, ((_E.BUDGET_EXHAUSTED, "abort"),), False, "pass, not counted"),
    (AttemptBudget, ((_E.BUDGET_EXHAUSTED, "abort"),), False, "pass, not counted"),
    (RateLimit, (_E.RATE_LIMITED,), True, "count"),
    (RetryTokenBucket, ((_E.BUDGET_EXHAUSTED, "retry_later"),), False, "their retries count"),
    (Concurrency, (_E.RESOURCE_EXHAUSTED,), False, "count"),
    (ResourcePool, (_E.ACCOUNT_POOL_EMPTY,), False, "count"),
    (QuietWindow, (_E.QUIET_WINDOW,), True, "pass, they are reads"),
    (DependencyHealth, (_E.DEPENDENCY_ERROR,), True, "pass"),
    (Freeze, ((_E.TENANT_FROZEN, "abort"),), False, "pass, they are reads"),
    (
        StepOrder,
        tuple((_E.PRECONDITION_FAILED, action) for action in ("choose_tool", "retry_later", "confirm_state")),
        False,
        "pass",
    ),
    (
        ConflictsWith,
        tuple((_E.CONFLICT, action) for action in ("retry_later", "confirm_state", "abort")),
        False,
        "pass",
    ),
    (TaskHistory, (), False, "not noted"),
    (NoProgressRepeat, ((_E.NO_PROGRESS_REPEAT, "abort"),), False, "left alone"),
    (LoopDetection, ((_E.NO_PROGRESS_REPEAT, "abort"),), False, "left alone"),
)
"""Constraint, its refusals (an error type with the taxonomy's next action, or a pair), whether they tell a wait, confirmations."""


def constraints_table() -> tuple[ConstraintRow, ...]:
    """Answer every shipped constraint with its options, error types and next actions."""
    return tuple(
        ConstraintRow(
            kind.__name__,
            written_options(kind),
            summary_of(kind),
            tuple(codes_with_actions(codes)),
            tells_wait,
            confirmations,
        )
        for kind, codes, tells_wait, confirmations in _ROWS
    )


def constraints_markdown() -> str:
    """Answer the table as Markdown, as it stands in the documentation."""
    lines = ["| constraint | what it does | error type → next action | confirmations |", "|---|---|---|---|"]
    for row in constraints_table():
        codes = render_codes(row.codes) + (", `retry_after`" if row.tells_wait else "")
        lines.append(f"| `{row.name}({row.options})` | {row.summary} | {codes or 'none'} | {row.confirmations} |")
    return "\n".join(lines) + "\n"
