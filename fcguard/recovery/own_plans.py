"""A tool's own recovery plans: what they may be, and the table that they make of the guard's for this tool."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from fcguard.errors import ConfigurationError
from fcguard.model.failure import TAXONOMY, Effect, FailureClass
from fcguard.model.tool import Plan, Retry, Tool
from fcguard.recovery.table import DEFAULT_TABLE, RecoveryTable, check_plan, check_row

__all__ = ["EffectiveRow", "Source", "check_own_plans", "effective_rows", "source_of"]

Source = Literal["tool", "guard", "default"]


def check_own_plans(tool: Tool) -> None:
    """Refuse plans that the recovery table would refuse for the tool's effect, and those that the tool cannot carry out.

    Raises:
        ConfigurationError: one is refused.
    """
    for row, plan in tool.recovery.items():
        check_row(row, f"tool {tool.name!r}: recovery")
        where = f"tool {tool.name!r} ({tool.effect}): recovery[{row!r}]"
        check_plan(row, tool.effect, plan, where)
        _check_means(tool, plan, where)


def _check_means(tool: Tool, plan: Plan, where: str) -> None:
    attempts = tool.retry.attempts if isinstance(tool.retry, Retry) else tool.retry
    if "fallback" in plan and not tool.fallback:
        raise ConfigurationError(f"{where} falls back, but nothing answers for the tool; name a tool with fallback=")
    if "wait" in plan and tool.ready is None:
        raise ConfigurationError(f"{where} waits, but nothing says when the environment is ready; give ready=")
    if "retry" in plan and attempts == 1:
        raise ConfigurationError(f"{where} retries, but retry= allows one attempt; leave one of them out")
    if "confirm" in plan and tool.is_read:
        raise ConfigurationError(f"{where} confirms, but a read changes nothing that could be confirmed; leave it out")


@dataclass(frozen=True, slots=True)
class EffectiveRow:
    """What follows one kind of failure of a tool, and who says so.

    Attributes:
        failure_class: the family; empty for a code of one's own, whose family is known when it occurs.
        error_type: the error type; `*`: every one of the family that has no row of its own.
        plan: what is done.
        source: `tool`: its own plan; `guard`: a row that the guard's table changed; `default`: the default table.
        row: the row that decides, by its name.
    """

    failure_class: str
    error_type: str
    plan: Plan
    source: Source
    row: str


def effective_rows(table: RecoveryTable, tool: Tool) -> Iterator[EffectiveRow]:
    """Yield what follows each kind of failure of a tool: every class, and every error type with a row of its own.

    Args:
        table: the guard's.
        tool: the tool.
    """
    for family in FailureClass:
        yield _row(table, tool, family, "*", family)
    for name in {**table.types, **tool.recovery}:
        known = TAXONOMY.get(name)  # type: ignore[call-overload]
        if known is not None:
            yield _row(table, tool, known[0], str(name), name)
        elif name in tool.recovery and name not in FailureClass.__members__:
            yield EffectiveRow("", str(name), tool.recovery[name], "tool", str(name))
        elif tool.effect in table.types.get(name, ()):
            yield EffectiveRow("", str(name), table.types[name][tool.effect], "guard", str(name))


def _row(table: RecoveryTable, tool: Tool, family: FailureClass, shown: str, name: str) -> EffectiveRow:
    plan, row, is_own = table.decide(name, family, tool.effect, tool.recovery)
    return EffectiveRow(str(family), shown, plan, "tool" if is_own else source_of(row, tool.effect, plan), row)


def source_of(row: str, effect: Effect, plan: Plan) -> Source:
    """Answer who says what a guard's table holds: the default table, or the guard."""
    plans = DEFAULT_TABLE.types.get(row) or DEFAULT_TABLE.classes.get(row)  # type: ignore[call-overload]
    return "default" if plans is not None and plans.get(effect) == plan else "guard"
