"""What a call answers whose next attempt was refused: what happened, what refused the repeat, and what can be done now."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from fcguard.model.failure import Effect, Failure, NextAction
from fcguard.recovery.table import is_retryable

__all__ = ["refused_repeat"]

_LATER: Final = frozenset({NextAction.RETRY_LATER.value, NextAction.WAIT_ENVIRONMENT.value})


def refused_repeat(failure: Failure, refusal: Failure, effect: Effect) -> Failure:
    """Add a refused repeat to the failure of the last attempt; the stricter of the two says what to do now.

    Args:
        failure: of the last attempt; its error type, class and effect stay.
        refusal: why no other attempt was sent.
        effect: of the tool.
    """
    is_final = refusal.next_action not in _LATER and not is_retryable(refusal, effect)
    next_action = failure.next_action
    if next_action in _LATER:
        is_open = is_final and failure.effect == "unknown"  # no repeat will settle it any more
        next_action = NextAction.CONFIRM_STATE.value if is_open else refusal.next_action
    sentence = failure.message if failure.message.endswith((".", "!", "?", "。")) else f"{failure.message}."
    waits = [one.retry_after for one in (refusal, failure) if one.retry_after is not None]
    return replace(
        failure,
        message=f"{sentence} The repeat was refused ({refusal.error_type}): {refusal.message}",
        next_action=next_action,
        retry_after=refusal.retry_after if is_final else max(waits, default=None),
        retryable=False if is_final else failure.retryable,
        reason=f"{failure.reason}; repeat refused: {refusal.error_type}, {refusal.reason}",
    )
