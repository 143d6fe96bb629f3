"""Stop a model that makes the same call with the same result, again and again."""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from fcguard.constraints.options import check_count, check_seconds
from fcguard.constraints.sameness import fingerprint_of, is_exempt, mark_of, warn
from fcguard.model.attempt import Attempt
from fcguard.model.call import Call
from fcguard.model.failure import ErrorType, NextAction, Violation

__all__ = ["NoProgressRepeat"]

_MOST_CALLS: Final = 256


class _Streak:
    __slots__ = ("at", "before", "count", "mark", "request_id")

    def __init__(self) -> None:
        self.count, self.mark, self.request_id, self.at = 0, object(), "", 0.0
        self.before: tuple[int, object] = (0, self.mark)

    def add(self, request_id: str, mark: object, now: float) -> None:
        # Several attempts of one call are one call: the last one counts.
        if request_id == self.request_id:
            self.count, self.mark = self.before
        self.before = self.count, self.mark
        self.count = self.count + 1 if mark == self.mark else 1
        self.mark, self.request_id, self.at = mark, request_id, now


class _Repeats:
    __slots__ = ("asked", "streaks")

    def __init__(self) -> None:
        self.asked: dict[str, int] = {}
        self.streaks: OrderedDict[int, _Streak] = OrderedDict()


class NoProgressRepeat:
    """Refuses a call that was made `block` times with the same result (`NO_PROGRESS_REPEAT`); warns after `warn` times.

    The same call means the same tool and the same normalized arguments, whatever the model's call id. A result that changes is
    progress, and so is a write of something else in between, if the same instance is asked for that tool (give it to the guard).
    Tools that are declared `polling=True`, confirmations, fallbacks and calls outside a task are left alone; retries of one call
    count once. The warning is a flag of the envelope and, where it holds no other, its message.

    Args:
        warn: identical results after which the model is warned.
        block: identical results after which the call is refused.
        forget_seconds: a repetition this long after the last one begins anew.
        name: name for the evidence.
    """

    def __init__(
        self, warn: int = 2, block: int = 3, *, forget_seconds: float = 900.0, name: str = "no_progress_repeat"
    ) -> None:
        self.name, self.warn, self.block = name, check_count(name, "warn", warn), check_count(name, "block", block)
        self.forget_seconds = check_seconds(name, "forget_seconds", forget_seconds)

    def admit(self, call: Call, now: float) -> Violation | None:
        """Admit unless it was tried often enough."""
        if is_exempt(call):
            return None
        notes: _Repeats = call.task.memory.setdefault(self, _Repeats())
        digest = notes.asked[call.request_id] = fingerprint_of(call)
        streak = notes.streaks.get(digest)
        if streak is None or streak.count < self.block or streak.request_id == call.request_id:
            return None
        if now - streak.at >= self.forget_seconds:
            del notes.streaks[digest]
            return None
        del notes.asked[call.request_id]
        return Violation(
            ErrorType.NO_PROGRESS_REPEAT,
            f"The same call gave the same result {streak.count} times, so it was not sent again. Change course with what is known, or stop.",
            next_action=NextAction.ABORT,
        )

    def settle(self, call: Call, attempt: Attempt | None, now: float) -> None:
        """Compare the result with the one before."""
        notes: _Repeats | None = None if call.task is None else call.task.memory.get(self)
        digest = None if notes is None else notes.asked.pop(call.request_id, None)
        if notes is None or digest is None or attempt is None:
            return
        streaks = notes.streaks
        streak = streaks.pop(digest, None) or _Streak()
        if attempt.failure is None and call.tool is not None and not call.tool.is_read:
            streaks.clear()
        streaks[digest] = streak
        if len(streaks) > _MOST_CALLS:
            streaks.popitem(last=False)
        streak.add(call.request_id, mark_of(call, attempt), now)
        if streak.count >= self.warn:
            left = self.block - streak.count
            warn(
                call,
                self.name,
                f"The same call gave the same result {streak.count} times. It will run {max(left, 0)} more times; change course.",
            )
