"""The seam of execution constraints: they look at the world now, before every attempt, and hear how it ended."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from fcguard.model.attempt import Attempt
from fcguard.model.call import Call

__all__ = ["Constraint", "constraint_name"]


@runtime_checkable
class Constraint(Protocol):
    """Decides whether an attempt may be dispatched now.

    A plain callable `(call) -> None | Violation` also serves, if it needs no clock and hears nothing afterwards.

    One with a true attribute `is_blocking` may wait for another process in `admit` and `settle`: in async calls both run in a
    worker thread, so that no event loop waits. What it admits to a caller that was cancelled meanwhile is settled there, too.
    Where only `admit` may wait, and not for every call, `is_blocking` is a method `(call, now) -> bool` that is asked before it.
    """

    @property
    def name(self) -> str:
        """Name for the evidence."""
        ...

    def admit(self, call: Call, now: float) -> Any:
        """Answer None to admit, or a `Violation`; may be async for async tools.

        Args:
            call: the call; `call.attempts` are the earlier attempts, `call.task` the running task or None.
            now: monotonic seconds.
        """
        ...

    def settle(self, call: Call, attempt: Attempt | None, now: float) -> None:
        """Hear how the admitted attempt ended; called exactly once for every admission.

        Args:
            call: the call.
            attempt: the attempt with its classification; None if it was admitted here but not dispatched after all.
            now: monotonic seconds.
        """
        ...


def constraint_name(constraint: Any) -> str:
    """Answer the name of a constraint for the evidence."""
    name = getattr(constraint, "name", None) or getattr(constraint, "__name__", None)
    return str(name) if name else type(constraint).__name__
