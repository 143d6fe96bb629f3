"""The recovery table: which actions follow a failure, in order, by failure class and effect of the tool."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, get_args

from fcguard.errors import ConfigurationError
from fcguard.model.failure import TAXONOMY, Effect, ErrorType, Failure, FailureClass
from fcguard.model.tool import Action, Plan

__all__ = ["DEFAULT_TABLE", "EFFECTS", "Action", "Plan", "RecoveryTable", "check_plan", "check_row", "is_retryable"]

EFFECTS: Final[tuple[Effect, ...]] = get_args(Effect)

_CODE: Final = re.compile(r"[A-Z][A-Z0-9_.:-]{0,127}")
_KNOWN: Final = (*FailureClass.__members__, *ErrorType.__members__)
_NO_PLANS: Final[Mapping[str, Plan]] = MappingProxyType({})

_STOP: Final[Plan] = ("stop",)
_RETRY: Final[Plan] = ("retry", "fallback", "stop")
_WAIT: Final[Plan] = ("wait", "switch", "stop")
_CONFIRM: Final[Plan] = ("confirm", "stop")
_FALLBACK: Final[Plan] = ("fallback", "stop")

_C = FailureClass


def _row(read: Plan, idempotent_write: Plan, write: Plan, destructive: Plan) -> dict[Effect, Plan]:
    return {"read": read, "idempotent_write": idempotent_write, "write": write, "destructive": destructive}


_CLASSES: Final[dict[FailureClass, dict[Effect, Plan]]] = {
    _C.PARAMETER: _row(_STOP, _STOP, _STOP, _STOP),
    _C.POLICY: _row(_STOP, _STOP, _STOP, _STOP),
    # A write reaches this row only when it is proved not to have been applied; otherwise it is UNCERTAIN.
    _C.AVAILABILITY: _row(_RETRY, ("retry", "confirm", "fallback", "stop"), _RETRY, _STOP),
    _C.ENVIRONMENT: _row(_WAIT, _WAIT, _WAIT, _STOP),
    _C.UNCERTAIN: _row(_RETRY, _CONFIRM, _CONFIRM, _CONFIRM),
    _C.TOOL: _row(_FALLBACK, _STOP, _STOP, _STOP),
    _C.CONTROL: _row(_STOP, _STOP, _STOP, _STOP),
    _C.PLATFORM: _row(_STOP, _STOP, _STOP, _STOP),
}

_TYPES: Final[dict[str, dict[Effect, Plan]]] = {
    ErrorType.TENANT_FROZEN: _row(_STOP, _STOP, _STOP, _STOP),
    ErrorType.QUIET_WINDOW: _row(_STOP, _STOP, _STOP, _STOP),
    ErrorType.CIRCUIT_OPEN: _row(_FALLBACK, _FALLBACK, _FALLBACK, _STOP),
    ErrorType.RESULT_INVALID: _row(_FALLBACK, _STOP, _STOP, _STOP),
}


@dataclass(frozen=True, slots=True)
class RecoveryTable:
    """Maps every failure to a plan; total by construction, replaceable by row.

    Attributes:
        classes: plans by failure class and effect; holds every pair.
        types: plans that go before, by error type (built-in or a rule's own code) and effect.
    """

    classes: Mapping[FailureClass, Mapping[Effect, Plan]]
    types: Mapping[str, Mapping[Effect, Plan]]

    def __post_init__(self) -> None:
        missing = [
            (row, effect) for row in FailureClass for effect in EFFECTS if effect not in self.classes.get(row, {})
        ]
        if missing:
            raise ConfigurationError(
                f"the recovery table has no plan for {missing}; give one for each class and effect"
            )
        for name, plans in [*self.classes.items(), *self.types.items()]:
            check_row(name, "the recovery table")
            for effect, plan in plans.items():
                check_plan(name, effect, plan, f"the plan for {name} x {effect}")

    def plan_for(self, failure: Failure, effect: Effect, own: Mapping[str, Plan] = _NO_PLANS) -> Plan:
        """Look the plan up.

        Args:
            failure: what happened.
            effect: of the tool.
            own: the tool's own plans. They go before the table's; in both, an error type's plan goes before its class's.
        """
        return self.decide(failure.error_type, failure.failure_class, effect, own)[0]

    def decide(
        self, error_type: str, failure_class: FailureClass, effect: Effect, own: Mapping[str, Plan]
    ) -> tuple[Plan, str, bool]:
        """Answer the plan, the row that it comes from (an error type or a class), and whether that is one of the tool's own."""
        for row in (error_type, failure_class):
            if row in own:
                return own[row], str(row), True
        plans = self.types.get(error_type)
        if plans is not None and effect in plans:
            return plans[effect], str(error_type), False
        return self.classes[failure_class][effect], str(failure_class), False

    def replacing(self, name: str, plans: Mapping[Effect, Plan]) -> RecoveryTable:
        """Answer a table with other plans for one failure class or error type.

        Args:
            name: a failure class, a built-in error type, or a rule's own code.
            plans: plans by effect; effects that are not named keep theirs.

        Raises:
            ConfigurationError: the name is none of these, or a plan does not end in `stop`, or it could apply a write twice.
        """
        if name in FailureClass.__members__:
            row = FailureClass(name)
            return RecoveryTable({**self.classes, row: {**self.classes[row], **plans}}, self.types)
        return RecoveryTable(self.classes, {**self.types, name: {**self.types.get(name, {}), **plans}})

    def rows(self) -> Iterator[tuple[str, str, Effect, Plan]]:
        """Yield every (class, error type or `*`, effect, plan), for people."""
        for row in FailureClass:
            for effect in EFFECTS:
                yield row.value, "*", effect, self.classes[row][effect]
        for name, plans in self.types.items():
            known = TAXONOMY.get(name)  # type: ignore[call-overload]
            for effect, plan in plans.items():
                yield known[0].value if known else "", str(name), effect, plan

    def render(self) -> str:
        """Answer the table as Markdown."""
        lines = ["| class | error type | " + " | ".join(EFFECTS) + " |", "|---|---|" + "---|" * len(EFFECTS)]
        lines += [
            f"| {row} | any | " + " | ".join(" → ".join(self.classes[row][effect]) for effect in EFFECTS) + " |"
            for row in FailureClass
        ]
        for name, plans in self.types.items():
            known = TAXONOMY.get(name)  # type: ignore[call-overload]
            row_name = known[0].value if known else "own"
            cells = [" → ".join(plans[effect]) if effect in plans else "(class)" for effect in EFFECTS]
            lines.append(f"| {row_name} | {name} | " + " | ".join(cells) + " |")
        return "\n".join(lines)


def check_row(name: Any, owner: str) -> None:
    """Refuse what names no row: neither a failure class nor an error type, and no code of one's own but a misspelling.

    Raises:
        ConfigurationError: it names none.
    """
    if name in _KNOWN:
        return
    close = difflib.get_close_matches(str(name).upper(), _KNOWN, n=1, cutoff=0.85)
    if close or not isinstance(name, str) or not _CODE.fullmatch(name):
        hint = f"did you mean {close[0]!r}?" if close else f"failure classes are {', '.join(FailureClass)}"
        raise ConfigurationError(
            f"{owner} has no row {name!r}: name a failure class, an error type, or a code of your own in upper case; {hint}"
        )


def check_plan(row: str, effect: Effect, plan: Plan, where: str) -> None:
    """Refuse a plan that is none, and one that could apply a write twice.

    Raises:
        ConfigurationError: it is refused; the message begins with `where`.
    """
    actions = get_args(Action)
    if effect not in EFFECTS:
        raise ConfigurationError(f"{where}: there is no effect {effect!r}; use {', '.join(EFFECTS)}")
    if not plan or plan[-1] != "stop" or any(action not in actions for action in plan):
        raise ConfigurationError(f"{where} must be words of {actions} and end in 'stop', not {plan!r}")
    if len(set(plan)) != len(plan):
        raise ConfigurationError(f"{where} names an action twice: {plan!r}; how often it is tried is said by retry=")
    if effect == "destructive" and ("retry" in plan or "fallback" in plan):
        raise ConfigurationError(f"{where} repeats a destructive call; use ('confirm', 'stop') or ('stop',)")
    if effect in ("write", "destructive") and "UNCERTAIN" in row and plan not in (_CONFIRM, _STOP):
        raise ConfigurationError(
            f"{where} must be {_CONFIRM} or {_STOP}: an uncertain write may have been applied, and only its "
            "confirmation may lead to a repeat"
        )


DEFAULT_TABLE: Final = RecoveryTable(_CLASSES, _TYPES)

_AGAIN_LATER: Final = frozenset({FailureClass.AVAILABILITY, FailureClass.ENVIRONMENT})
_NEVER_AGAIN: Final[frozenset[str]] = frozenset({ErrorType.TENANT_FROZEN})


def is_retryable(failure: Failure, effect: Effect) -> bool:
    """Answer whether the same call with the same arguments may be sent again without risk.

    Availability and environment failures are, unless a write's effect is unknown and the write is not idempotent; the rest is not.
    """
    if failure.retryable is not None:
        return failure.retryable
    if failure.failure_class not in _AGAIN_LATER or failure.error_type in _NEVER_AGAIN:
        return False
    if effect in ("read", "idempotent_write"):
        return True
    return failure.effect in ("none", "not_applied")
