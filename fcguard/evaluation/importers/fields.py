"""Reading fields of foreign records: words for statuses, several names for one field, arguments as text or object."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from fcguard.evaluation.canonical import digest, parse_arguments
from fcguard.evaluation.trace import Attempt, CallStatus, Outcome
from fcguard.model.failure import Effect, EffectState, ErrorType, FailureClass, Problem, class_of

__all__ = [
    "REPLAYS",
    "STATUS_WORDS",
    "arguments_of",
    "attempts_of",
    "effect_of",
    "effect_state_of",
    "first_of",
    "number_of",
    "outcome_of",
    "result_hash_of",
    "status_of",
    "task_and_trial",
    "validation_of",
    "words_of",
]

STATUS_WORDS: Final[dict[str, CallStatus]] = {
    **dict.fromkeys(("success", "succeeded", "successful", "ok", "completed", "done", "passed", "true"), "succeeded"),
    **dict.fromkeys(("deduplicated", "replayed"), "succeeded"),
    **dict.fromkeys(("failure", "failed", "error", "timeout", "exception", "false"), "failed"),
    **dict.fromkeys(("refused", "rejected", "denied", "blocked", "deferred"), "refused"),
    **dict.fromkeys(("uncertain", "parked", "confirming", "started", "cancelled"), "uncertain"),
}
"""Words for how a call ended, in lower case -> ours. Any other word is `unknown`."""

REPLAYS: Final = frozenset({"deduplicated", "replayed"})
"""Words for a success that was answered from what the ledger held: nothing was sent."""

_OUTCOMES: Final[dict[str, Outcome]] = {
    **dict.fromkeys(("passed", "pass", "success", "true", "1", "1.0"), "passed"),
    **dict.fromkeys(("failed", "fail", "failure", "false", "0", "0.0"), "failed"),
    **dict.fromkeys(("infra_error", "infrastructure_error", "error"), "infra_error"),
}

_EFFECTS: Final[dict[str, Effect]] = {
    "read": "read",
    "idempotent_write": "idempotent_write",
    "write": "write",
    "destructive": "destructive",
}

_EFFECT_STATES: Final[dict[str, EffectState]] = {
    "none": "none",
    "applied": "applied",
    "not_applied": "not_applied",
    "unknown": "unknown",
}


_NUMBERED: Final = re.compile(r"(.+)#([0-9]{1,9})", re.DOTALL)


def task_and_trial(name: str) -> tuple[str, int]:
    """Read the id of a guard's task: `TASK#TRIAL` is that trial of that task, any other name trial 0 of its own."""
    numbered = _NUMBERED.fullmatch(name)
    return (numbered[1], int(numbered[2])) if numbered else (name, 0)


def first_of(record: Mapping[str, Any], *names: str) -> Any:
    """Answer the first of several fields that is there and not null."""
    for name in names:
        value = record.get(name)
        if value is not None:
            return value
    return None


def status_of(word: Any) -> CallStatus:
    """Read how a call ended from a word or a boolean; `unknown` for anything else."""
    return STATUS_WORDS.get(str(word).strip().lower(), "unknown")


def outcome_of(value: Any) -> Outcome:
    """Read how a session ended from a word, a boolean or a reward of 0 or 1; `unscored` for anything else."""
    return _OUTCOMES.get(str(value).strip().lower(), "unscored")


def effect_of(word: Any) -> Effect | None:
    """Read an effect; None for anything else."""
    return _EFFECTS.get(str(word))


def effect_state_of(word: Any) -> EffectState | None:
    """Read what is known of an effect; None for anything else."""
    return _EFFECT_STATES.get(str(word))


def validation_of(error_type: Any, layer: Any, message: str = "") -> Problem | None:
    """Answer what a guard found wrong with the arguments of a call that it refused; None if it was something else.

    Args:
        error_type: the call's error type.
        layer: the layer that refused it.
        message: what the guard said.
    """
    if not isinstance(error_type, str) or class_of(error_type, FailureClass.TOOL) is not FailureClass.PARAMETER:
        return None
    is_broad = error_type == ErrorType.PARAM_TOO_BROAD
    if layer not in ("normalize", "schema") and not is_broad:
        return None
    return Problem("", "too_broad" if is_broad else error_type.lower(), message)


def number_of(value: Any) -> float | None:
    """Read a non-negative finite number; None for anything else, booleans included."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if 0 <= value < float("inf") else None


def words_of(value: Any) -> tuple[str, ...]:
    """Read a list of words or numbers, or a single one, as texts."""
    if value is None:
        return ()
    if isinstance(value, (list, tuple)):
        return tuple(str(item) for item in value)
    return (str(value),)


def arguments_of(record: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Answer the fields `raw_arguments`, `arguments` and `parse_error` of a call record; none if none were recorded."""
    for name in names:
        if name in record:
            arguments, error = parse_arguments(record[name])
            return {"raw_arguments": record[name], "arguments": arguments, "parse_error": error}
    return {}


def attempts_of(status: CallStatus, retries: Any) -> tuple[Attempt, ...]:
    """Turn a retry count into attempts: that many failures, then the final status; at most 1000 are kept."""
    if isinstance(retries, bool) or not isinstance(retries, int) or retries < 0:
        return ()
    return (*(Attempt("failed") for _ in range(min(retries, 1000))), Attempt(status))


def result_hash_of(record: Mapping[str, Any]) -> str | None:
    """Answer the digest of a record's result: as recorded, else of the result itself."""
    recorded = first_of(record, "result_hash", "result_digest", "result_sha256_16")
    if recorded is not None:
        return str(recorded)
    for name in ("result", "output", "data"):
        if name in record:
            return digest(record[name])
    return None
