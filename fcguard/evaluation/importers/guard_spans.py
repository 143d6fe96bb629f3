"""What fcguard's own spans say of a call: how it ended, whether anything was sent, and what is known of its effect."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from fcguard.evaluation.importers.fields import attempts_of, effect_state_of, status_of, validation_of
from fcguard.evaluation.trace import Attempt, CallRecord, CallStatus
from fcguard.model.failure import EffectState, ErrorType

__all__ = ["Below", "attempt_of", "completed_by", "last_of", "span_status"]

_ENDS: Final[dict[str, tuple[CallStatus, CallStatus]]] = {
    "completed": ("succeeded", "succeeded"),
    "deduplicated": ("succeeded", "succeeded"),
    "rejected": ("refused", "refused"),
    "denied": ("refused", "refused"),
    "deferred": ("refused", "refused"),
    "failed": ("failed", "refused"),
    "uncertain": ("uncertain", "refused"),
    "cancelled": ("failed", "refused"),
}
"""`fcguard.outcome` -> status of a call that was sent, and of one that was not (an answer about another call's open effect).

An effect that nobody knows outweighs everything, so a call that failed or was cancelled is no uncertain one.
"""

_MAY_BE_APPLIED: Final = frozenset({ErrorType.RESULT_INVALID, ErrorType.CANCELLED})
"""Failures that may come after the effect: without the spans of the attempts nothing is known of it."""


@dataclass(slots=True)
class Below:
    """What lies below the span of a call.

    Attributes:
        attempts: its attempts, with their start.
        effects: what is known of the effect of each attempt, and what confirmations found.
    """

    attempts: list[tuple[int, Attempt]] = field(default_factory=list)
    effects: set[str] = field(default_factory=set)


def span_status(facts: Mapping[str, Any]) -> CallStatus | None:
    """Answer how a call ended by its attributes; None if the span is not fcguard's."""
    outcome = facts.get("fcguard.outcome")
    if outcome is None:
        return None
    ends = _ENDS.get(str(outcome))
    if ends is None:
        return status_of(outcome)
    return ends[_sent(facts) is False]


def attempt_of(facts: Mapping[str, Any], seconds: float | None) -> Attempt:
    """Read one dispatch from the attributes of its span; one whose effect nobody knew at its end is uncertain."""
    error = facts.get("error.type")
    status: CallStatus = "succeeded" if error is None else "failed"
    if facts.get("fcguard.attempt.effect") == "unknown":
        status = "uncertain"
    return Attempt(status, None if error is None else str(error), seconds)


def completed_by(call: CallRecord, facts: Mapping[str, Any], below: Below) -> CallRecord:
    """Add to a call what fcguard's own attributes and the spans below say; a call of anything else stays as it is.

    Args:
        call: the call, read from its own span.
        facts: the attributes of that span.
        below: what lies below it.
    """
    attempts = tuple(attempt for _, attempt in sorted(below.attempts, key=lambda row: row[0]))
    sent, number = _sent(facts), facts.get("fcguard.attempts")
    if not attempts and sent and isinstance(number, int):
        attempts = attempts_of(call.status, number - 1)
    problem = validation_of(call.error_type, facts.get("fcguard.validation.layer"))
    return replace(
        call,
        attempts=attempts,
        sent=sent,
        effect_state=_effect_state(call, facts, below, sent),
        validation=call.validation if problem is None else (problem,),
    )


def _sent(facts: Mapping[str, Any]) -> bool | None:
    number = facts.get("fcguard.attempts")
    if isinstance(number, int) and not isinstance(number, bool):
        return number > 0
    return False if facts.get("fcguard.outcome") == "deduplicated" else None


def _effect_state(call: CallRecord, facts: Mapping[str, Any], below: Below, sent: bool | None) -> EffectState | None:
    outcome, recorded = facts.get("fcguard.outcome"), effect_state_of(facts.get("fcguard.effect"))
    if recorded is not None or outcome is None:
        return recorded
    if outcome == "deduplicated":
        return "applied"
    if sent is False or call.effect == "read":
        return "none"
    if outcome == "uncertain":
        return "unknown"
    if outcome == "completed" or "applied" in below.effects:
        return "applied"
    if outcome not in ("failed", "cancelled") or (not below.attempts and call.error_type in _MAY_BE_APPLIED):
        return None
    return "not_applied"


def last_of(calls: Sequence[CallRecord]) -> CallRecord:
    """Answer the last word about one call that several spans tell of: a call that waited, and was taken up later."""
    last = calls[-1]
    with_arguments = next((call for call in reversed(calls) if call.has_arguments), last)
    return replace(
        last,
        raw_arguments=with_arguments.raw_arguments,
        arguments=with_arguments.arguments,
        parse_error=with_arguments.parse_error,
    )
