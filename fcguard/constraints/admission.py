"""Ask the execution constraints before an attempt, and tell them afterwards how it ended."""

from __future__ import annotations

from collections.abc import Sequence
from inspect import isawaitable
from typing import Any

from fcguard.constraints.base import constraint_name
from fcguard.io import IO
from fcguard.model.attempt import Attempt
from fcguard.model.call import Call
from fcguard.model.failure import ErrorType, Failure, Violation

__all__ = ["admit", "release", "violated"]


async def admit(call: Call, constraints: Sequence[Any], io: IO) -> Failure | None:
    """Ask every constraint in order; the first refusal wins and frees those that had admitted.

    A constraint that raises or answers something else refuses the call (`RULE_FAILED`).
    """
    now = io.monotonic()
    for constraint in constraints:
        name = constraint_name(constraint)
        try:
            ask = getattr(constraint, "admit", None)
            answer = constraint(call) if ask is None else ask(call, now)
            if isawaitable(answer):
                answer = await io.call(_itself, answer)
        except Exception as error:
            release(call, None, now)
            return _broken(name, type(error).__name__)
        if answer is None:
            if ask is not None:
                call.admitted = (*call.admitted, constraint)
            continue
        release(call, None, now)
        return violated(answer, name, "execution")
    return None


async def _itself(answer: Any) -> Any:
    return await answer


def release(call: Call, attempt: Attempt | None, now: float) -> None:
    """Tell every constraint that admitted how the attempt ended, exactly once."""
    if not call.admitted:
        return
    admitted, call.admitted = call.admitted, ()
    for constraint in admitted:
        try:
            constraint.settle(call, attempt, now)
        except Exception:
            call.flag(f"constraint_failed:{constraint_name(constraint)}")


def violated(answer: Any, name: str, layer: Any) -> Failure:
    """Turn what a rule or constraint answered into a failure."""
    if not isinstance(answer, Violation):
        return _broken(name, f"answered {type(answer).__name__} instead of None or a Violation", layer)
    return Failure.of(
        answer.code,
        answer.message,
        layer,
        failure_class=answer.failure_class,
        next_action=answer.next_action,
        retry_after=answer.retry_after,
        problems=answer.problems,
        reason=f"{layer} check {name}",
    )


def _broken(name: str, what: str, layer: Any = "execution") -> Failure:
    return Failure.of(
        ErrorType.RULE_FAILED,
        f"The check {name!r} failed, so the call was refused. This is a fault of the platform, not of the call.",
        layer,
        reason=f"{name}: {what}",
        cause=what,
    )
