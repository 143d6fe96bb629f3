"""Say what a returned value or a raised exception means for this call, on the strength of proof."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from fcguard.model.attempt import Attempt, NotEntered
from fcguard.model.call import Call
from fcguard.model.failure import TAXONOMY, EffectState, ErrorType, Failure, FailureClass, Violation
from fcguard.model.outcome import Signal
from fcguard.model.secrets import writable
from fcguard.recovery.classify import Classified, classify_exception, classify_signal

__all__ = ["Undecided", "judge_error", "judge_returned"]

Classifier = Callable[[Any, Any], Any]


class Undecided(Exception):
    """A classifier or `failed_when` failed on the outcome, so nobody can tell what it means."""


def judge_error(
    call: Call, attempt: Attempt, classifiers: Sequence[Classifier], now: float, *, strict: bool = False
) -> Failure:
    """Classify what an attempt raised; an unproved failure of a non-idempotent write is `UNCERTAIN_RESULT`.

    Raises:
        Undecided: with `strict`, if a classifier failed; else it is flagged and the next one asked.
    """
    error = attempt.error
    assert error is not None, "judge_error is for attempts that raised"
    if issubclass(type(error), NotEntered):  # `isinstance` would ask the exception itself
        never = Classified(cast(NotEntered, error).error_type, "not_sent", str(error), "the function was never entered")
        return _failure(call, attempt, never, type(error.__cause__ or error).__name__)
    own = _ask(call, error, classifiers, strict)
    found = own if own is not None else classify_exception(error, now=now)
    return _failure(call, attempt, found, type(error).__name__)


def judge_returned(
    call: Call,
    attempt: Attempt,
    signal: Signal | None,
    classifiers: Sequence[Classifier],
    now: float,
    *,
    strict: bool = False,
) -> Failure | None:
    """Answer the failure that a returned value means, or None: only declared rules and known shapes make it one.

    Raises:
        Undecided: with `strict`, if a classifier or `failed_when` failed; else it is flagged and left out.
    """
    tool = call.prepared.tool
    own = _ask(call, attempt.value, classifiers, strict)
    if own is not None:
        return _failure(call, attempt, own, None)
    if tool.failed_when is not None:
        declared = _declared(call, attempt, strict)
        if declared is not None:
            return declared
    if signal is not None:
        return _failure(call, attempt, classify_signal(signal, now=now), None)
    return None


def _ask(call: Call, outcome: Any, classifiers: Sequence[Classifier], strict: bool) -> Classified | None:
    own = call.prepared.tool.classifiers
    for classifier in (*own, *classifiers) if own or classifiers else ():
        try:
            answer = classifier(outcome, call)
            word = None if answer is None or isinstance(answer, Classified) else str(answer)
        except Exception as error:
            call.flag(f"classifier_failed:{type(error).__name__}")
            if strict:
                raise Undecided from error
            continue
        if isinstance(answer, Classified):
            return answer
        if word is not None:
            if word in ErrorType.__members__:
                return Classified(word, "unknown", "", "classified by the tool's own classifier")
            call.flag("classifier_answer_unknown")
            if strict:
                raise Undecided
    return None


def _declared(call: Call, attempt: Attempt, strict: bool) -> Failure | None:
    failed_when = call.prepared.tool.failed_when
    try:
        answer = failed_when(attempt.value)
        is_failure = bool(answer)  # an array, say, refuses to be one or the other
    except Exception as error:
        call.flag(f"failed_when_raised:{type(error).__name__}")
        if strict:
            raise Undecided from error
        if call.prepared.is_read:
            return None
        message = f"failed_when raised {type(error).__name__} on what it returned, so nobody can tell"
        undecided = Classified(ErrorType.RESULT_INVALID, "unknown", message, "failed_when raised")
        return _failure(call, attempt, undecided, type(error).__name__)
    if not is_failure:
        return None
    if isinstance(answer, Violation):
        found = Classified(answer.code, "refused", answer.message, "declared by failed_when")
        failure = _failure(call, attempt, found, None)
        if failure.error_type != answer.code:
            return failure
        return Failure.of(
            answer.code,
            answer.message,
            "result",
            failure_class=answer.failure_class or failure.failure_class,
            next_action=answer.next_action,
            effect=failure.effect,
            retry_after=answer.retry_after,
            reason="declared by failed_when",
        )
    if isinstance(answer, Classified):
        return _failure(call, attempt, answer, None)
    message = answer if isinstance(answer, str) else "The tool reported that it did not do what was asked."
    return _failure(
        call, attempt, Classified(ErrorType.TOOL_ERROR, "refused", message, "declared by failed_when"), None
    )


def _failure(call: Call, attempt: Attempt, found: Classified, cause: str | None) -> Failure:
    tool = call.prepared.tool
    attempt.error_type = str(found.error_type)
    attempt.reason = writable(found.reason)
    effect = _effect(tool.effect, found.proof)
    attempt.effect = effect
    message = call.redactor.words(found.message or f"{tool.name} failed: {found.error_type}.")
    known = TAXONOMY.get(found.error_type)  # type: ignore[call-overload]
    if effect == "unknown" and tool.effect in ("write", "destructive"):
        return Failure.of(
            ErrorType.UNCERTAIN_RESULT,
            f"It is not known whether {tool.name} took effect ({found.error_type}: {message.rstrip('.')}). "
            "Do not repeat it; confirm the state first.",
            "execute",
            effect="unknown",
            retry_after=found.retry_after,
            cause=cause,
            reason=f"{found.error_type}: {found.reason}",
        )
    return Failure.of(
        found.error_type,
        message,
        "execute",
        failure_class=None if known else FailureClass.TOOL,
        effect=effect,
        retry_after=found.retry_after,
        cause=cause,
        reason=found.reason,
    )


def _effect(effect: str, proof: str) -> EffectState:
    if effect == "read":
        return "none"
    return "not_applied" if proof in ("not_sent", "refused") else "unknown"
