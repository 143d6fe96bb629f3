"""Ask the execution constraints before an attempt, and tell them afterwards how it ended."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from contextlib import suppress
from functools import partial
from inspect import isawaitable
from typing import Any

from fcguard.constraints.base import constraint_name
from fcguard.constraints.state import new_lock
from fcguard.io import IO
from fcguard.model.attempt import Attempt
from fcguard.model.call import Call
from fcguard.model.failure import ErrorType, Failure, Violation

__all__ = ["admit", "release", "violated"]


async def admit(call: Call, constraints: Sequence[Any], io: IO) -> Failure | None:
    """Ask every constraint in order; the first refusal wins and frees those that had admitted.

    A constraint that raises or answers something else refuses the call (`RULE_FAILED`). One that is blocking is asked where no
    event loop waits for it.
    """
    now = io.monotonic()
    for constraint in constraints:
        name = constraint_name(constraint)
        try:
            ask = getattr(constraint, "admit", None)
            if ask is None:
                answer = constraint(call)
            elif _may_block(constraint, call, now):
                answer = await _ask_elsewhere(call, constraint, now, io)
            else:
                answer = ask(call, now)
            if isawaitable(answer):
                answer = await io.call(_itself, answer)
        except Exception as error:
            await _release_all(call, io)
            return _broken(name, type(error).__name__)
        if answer is None:
            if ask is not None:
                call.admitted = (*call.admitted, constraint)
            continue
        await _release_all(call, io)
        return violated(answer, name, "execution")
    return None


def _may_block(constraint: Any, call: Call, now: float) -> bool:
    blocks = getattr(constraint, "is_blocking", False)
    return bool(blocks(call, now) if callable(blocks) else blocks)


async def _ask_elsewhere(call: Call, constraint: Any, now: float, io: IO) -> Any:
    asked = _Asked(call, constraint, now)
    try:
        return await io.call(asked)
    except BaseException:
        if asked.leave():  # it had admitted in this very moment
            call.admitted = (*call.admitted, constraint)
        raise


class _Asked:
    """A question to a constraint in another thread, which takes back what it admits once its caller has left."""

    __slots__ = ("_call", "_constraint", "_is_admitted", "_is_left", "_lock", "_now")

    def __init__(self, call: Call, constraint: Any, now: float) -> None:
        self._call, self._constraint, self._now = call, constraint, now
        self._lock = new_lock()
        self._is_admitted = self._is_left = False

    def __call__(self) -> Any:
        answer = self._constraint.admit(self._call, self._now)
        with self._lock:
            self._is_admitted = answer is None
            if not (self._is_admitted and self._is_left):
                return answer
        with suppress(Exception):  # nobody is left to hear of it
            self._constraint.settle(self._call, None, self._now)
        return None

    def leave(self) -> bool:
        """Leave it; answer whether the constraint has admitted, so that the caller has to release it."""
        with self._lock:
            self._is_left = True
            return self._is_admitted


async def _itself(answer: Any) -> Any:
    return await answer


async def _release_all(call: Call, io: IO) -> None:
    rest = release(call, None, io)
    if rest is not None:
        await rest


def release(call: Call, attempt: Attempt | None, io: IO) -> Awaitable[None] | None:
    """Tell every constraint that admitted how the attempt ended, exactly once.

    Returns:
        What is left to await, for those that are blocking; they hear it even if the caller is cancelled meanwhile. None: nothing.
    """
    if not call.admitted:
        return None
    admitted, call.admitted = call.admitted, ()
    now = io.monotonic()
    blocking = []
    for constraint in admitted:
        blocks = getattr(constraint, "is_blocking", False)
        if blocks and not callable(blocks):  # one that answers for each question has only that to wait for
            blocking.append(constraint)
        else:
            _settle(constraint, call, attempt, now)
    return io.finish(partial(_settle_all, blocking, call, attempt, now)) if blocking else None


def _settle_all(admitted: Sequence[Any], call: Call, attempt: Attempt | None, now: float) -> None:
    for constraint in admitted:
        _settle(constraint, call, attempt, now)


def _settle(constraint: Any, call: Call, attempt: Attempt | None, now: float) -> None:
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
