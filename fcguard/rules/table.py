"""The rules as one table: options, error types and next actions; the documentation is checked against it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from fcguard.model.failure import ErrorType
from fcguard.rules import (
    allowed,
    base,
    breadth,
    command,
    database,
    environments,
    expressions,
    filesystem,
    identities,
    ownership,
    permissions,
    preconditions,
    search_scopes,
    task_policy,
)
from fcguard.rules.host_rule import hosts
from fcguard.tables import codes_with_actions, render_codes, summary_of, written_options

__all__ = ["RuleRow", "rules_markdown", "rules_table"]

_E: Final = ErrorType


@dataclass(frozen=True, slots=True)
class RuleRow:
    """One line of the table.

    Attributes:
        name: name in `fcguard.rules` and in the evidence.
        options: the parameters as a user writes them, with defaults; empty for a rule that is used as it is.
        summary: what it is for, one sentence.
        codes: error type and next action of its refusals.
        extra: the extra that it needs; empty: none.
    """

    name: str
    options: str
    summary: str
    codes: tuple[tuple[str, str], ...]
    extra: str = ""


_FIX: Final = "fix_arguments"
_INVALID: Final = (_E.PARAM_INVALID, _FIX)
_BROAD: Final = (_E.PARAM_TOO_BROAD, _FIX)

_ROWS: Final[tuple[tuple[Callable[..., Any], tuple[Any, ...], str], ...]] = (
    (task_policy.tool_allowed, (_E.TOOL_NOT_ALLOWED,), ""),
    (task_policy.not_forbidden, ((_E.TOOL_NOT_ALLOWED, "abort"),), ""),
    (task_policy.write_permitted, (_E.PERMISSION_DENIED,), ""),
    (environments.only_in, (_E.ENVIRONMENT_FORBIDDEN,), ""),
    (identities.tenant_matches, (_E.PERMISSION_DENIED,), ""),
    (identities.account_matches, (_E.PERMISSION_DENIED,), ""),
    (ownership.owned_by, (_E.PERMISSION_DENIED, _E.PARAM_INVALID), ""),
    (permissions.requires_role, (_E.PERMISSION_DENIED,), ""),
    (preconditions.requires, (_E.PRECONDITION_FAILED, ("your own", "ask_user, or your own")), ""),
    (allowed.allowed_values, (_INVALID,), ""),
    (breadth.not_too_broad, (_BROAD, _INVALID), ""),
    (hosts, (_INVALID,), ""),
    (filesystem.paths, (_INVALID,), ""),
    (database.sql, (_INVALID, _BROAD), "sql"),
    (search_scopes.search_scope, (_BROAD, _INVALID), ""),
    (expressions.expression, (_INVALID,), ""),
    (command.shell, (_E.DANGEROUS_OPERATION, _E.APPROVAL_REQUIRED, _INVALID), "shell"),
    (base.all_of, (("of the first refusal", "of the first refusal"),), ""),
    (base.any_of, (("of the first rule", "of the first rule"),), ""),
    (base.not_, (_E.PRECONDITION_FAILED, ("your own", "your own")), ""),
    (base.when, (("of the rule", "of the rule"),), ""),
)
"""Rule, its refusals (an error type with the taxonomy's next action, or a pair), the extra it needs."""


def rules_table() -> tuple[RuleRow, ...]:
    """Answer every shipped rule with its options, error types and next actions."""
    return tuple(
        RuleRow(rule.__name__, _options(rule), summary_of(rule), tuple(codes_with_actions(codes)), extra)
        for rule, codes, extra in _ROWS
    )


def rules_markdown() -> str:
    """Answer the table as Markdown, as it stands in the documentation."""
    lines = ["| rule | refuses | error type → next action |", "|---|---|---|"]
    for row in rules_table():
        call = f"`{row.name}({row.options})`" if row.options else f"`{row.name}`"
        extra = f" *(extra `{row.extra}`)*" if row.extra else ""
        summary = row.summary.replace("|", "\\|")
        lines.append(f"| {call} | {summary}{extra} | {render_codes(row.codes)} |")
    return "\n".join(lines) + "\n"


def _options(rule: Callable[..., Any]) -> str:
    options = written_options(rule)
    return "" if options == "call" else options
