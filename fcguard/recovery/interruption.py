"""What a cancelled, interrupted or broken call leaves behind: never silence, never a false 'not done'."""

from __future__ import annotations

from fcguard.model.call import Call
from fcguard.model.failure import ErrorType, Failure

__all__ = ["interrupted"]


def interrupted(call: Call, error: BaseException) -> None:
    """Set the failure of a call that did not reach its end.

    A write that was dispatched and not judged is uncertain; so is one whose earlier attempt was left unknown, or was just found to
    be applied, and one that was handed to a fallback. A call whose attempt was judged a success keeps it.
    """
    word = type(error).__name__
    is_ours = isinstance(error, Exception)
    attempt = call.attempts[-1] if call.attempts else None
    if attempt is not None and attempt.failure is None and call.basis == "returned":
        return
    call.was_interrupted = True
    is_write = call.tool is not None and not call.tool.is_read
    if attempt is not None and attempt.failure is None:
        attempt.error_type = ErrorType.STATE_FAILED if is_ours else ErrorType.CANCELLED
        attempt.effect = "unknown" if is_write and attempt.was_dispatched else "none"
        attempt.reason = f"interrupted by {word}"
    if is_write and (call.is_delegated or any(one.effect in ("unknown", "applied") for one in call.attempts)):
        call.failure = Failure.of(
            ErrorType.UNCERTAIN_RESULT,
            "The call was interrupted after the write was sent; it is not known whether it took effect. Confirm the state first.",
            "execute",
            effect="unknown",
            cause=word,
            reason=f"interrupted by {word}",
        )
    elif is_ours:
        call.failure = Failure.of(
            ErrorType.STATE_FAILED,
            "The guard itself failed, so the call was stopped. This is a fault of the platform, not of the call.",
            "execute",
            cause=word,
            reason=f"{word} inside the guard at {_place(error)}",
        )
    else:
        call.failure = Failure.of(
            ErrorType.CANCELLED, "The call was cancelled.", "execute", cause=word, reason=f"interrupted by {word}"
        )
    call.basis = None


def _place(error: BaseException) -> str:
    """Answer where an exception was raised; its text is left out, it may hold secrets."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return "an unknown place"
    code = trace.tb_frame.f_code
    return f"{code.co_filename.rpartition('/')[2]}:{trace.tb_lineno} in {code.co_name}"
