"""Stop a model that goes in circles: the same call with the same result, again and again, or a round of such calls."""

from __future__ import annotations

import marshal
from collections import OrderedDict, deque
from typing import Final

from fcguard.constraints.options import check_count, check_seconds
from fcguard.errors import ConfigurationError
from fcguard.model.call import Attempt, Call
from fcguard.model.failure import ErrorType, NextAction, Violation
from fcguard.model.identity import canonical

__all__ = ["LoopDetection", "NoProgressRepeat"]

_MOST_CALLS: Final = 256


def _fingerprint(call: Call) -> int:
    return hash((call.tool.name if call.tool is not None else "", canonical(call.arguments)))


def _mark(call: Call, attempt: Attempt) -> object:
    """Answer something that is equal for equal results; what cannot be compared is equal to nothing."""
    if attempt.failure is not None:
        return (attempt.error_type, attempt.failure.error_type, attempt.failure.message)
    for value in (attempt.value,) if call.data is None else (attempt.value, call.data):
        try:
            return hash(marshal.dumps(value, 0))
        except ValueError:  # not made of plain values
            continue
    return object()


def _is_exempt(call: Call) -> bool:
    return call.task is None or call.tool is None or call.tool.polling or call.purpose != "primary"


def _warn(call: Call, flag: str, text: str) -> None:
    call.flag(flag)
    if not call.message:
        call.message = text


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
        if warn > block:
            raise ConfigurationError(
                f"{name}: warn={warn!r} is above block={block!r}, so it never warns; give block={warn!r} or more"
            )
        self.forget_seconds = check_seconds(name, "forget_seconds", forget_seconds)

    def admit(self, call: Call, now: float) -> Violation | None:
        """Admit unless it was tried often enough."""
        if _is_exempt(call):
            return None
        notes: _Repeats = call.task.memory.setdefault(self, _Repeats())
        digest = notes.asked[call.request_id] = _fingerprint(call)
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
        streak.add(call.request_id, _mark(call, attempt), now)
        if streak.count >= self.warn:
            left = self.block - streak.count
            _warn(
                call,
                self.name,
                f"The same call gave the same result {streak.count} times. It will run {max(left, 0)} more times; change course.",
            )


class _Rounds:
    __slots__ = ("asked", "ended")

    def __init__(self, longest: int) -> None:
        self.asked: dict[str, int] = {}
        self.ended: deque[tuple[str, int, object]] = deque(maxlen=longest)


class LoopDetection:
    """Refuses a call that would begin another round of the same calls with the same results: A, B, A, B, ... (`NO_PROGRESS_REPEAT`).

    Give it to the guard, so that it hears every tool. Tools that are declared `polling=True`, confirmations, fallbacks and calls
    outside a task are left out of the rounds. One call over and over is the matter of `NoProgressRepeat`.

    Args:
        warn: equal rounds after which the model is warned.
        block: equal rounds after which the next call of the round is refused; at least 2.
        longest: most calls in a round.
        name: name for the evidence.
    """

    def __init__(self, warn: int = 2, block: int = 3, *, longest: int = 4, name: str = "loop_detection") -> None:
        self.name, self.warn, self.block = (
            name,
            check_count(name, "warn", warn, 2),
            check_count(name, "block", block, 2),
        )
        if warn > block:
            raise ConfigurationError(
                f"{name}: warn={warn!r} is above block={block!r}, so it never warns; give block={warn!r} or more"
            )
        self.longest = check_count(name, "longest", longest, 2)

    def admit(self, call: Call, now: float) -> Violation | None:
        """Admit unless it goes on with a round that was run often enough."""
        if _is_exempt(call):
            return None
        notes: _Rounds = call.task.memory.setdefault(self, _Rounds(self.longest * self.block))
        digest = _fingerprint(call)
        length = None if call.attempts else self._round(notes.ended, self.block, digest)
        if length is None:
            notes.asked[call.request_id] = digest
            return None
        return Violation(
            ErrorType.NO_PROGRESS_REPEAT,
            f"The last {length * self.block} calls are {self.block} equal rounds of {length} calls with equal results, and this one would "
            "begin another. It was not sent. Change course with what is known, or stop.",
            next_action=NextAction.ABORT,
        )

    def settle(self, call: Call, attempt: Attempt | None, now: float) -> None:
        """Note the call and its result."""
        notes: _Rounds | None = None if call.task is None else call.task.memory.get(self)
        digest = None if notes is None else notes.asked.pop(call.request_id, None)
        if notes is None or digest is None or attempt is None:
            return
        if notes.ended and notes.ended[-1][0] == call.request_id:
            notes.ended.pop()
        notes.ended.append((call.request_id, digest, _mark(call, attempt)))
        if self._round(notes.ended, self.warn, None) is not None:
            _warn(call, self.name, f"The last calls are {self.warn} equal rounds with equal results. Change course.")

    def _round(self, ended: deque[tuple[str, int, object]], rounds: int, following: int | None) -> int | None:
        """Answer the length of the round that the last calls repeat `rounds` times, and that `following` goes on with."""
        for length in range(2, self.longest + 1):
            needed = length * rounds
            if len(ended) < needed or (following is not None and ended[-length][1] != following):
                continue
            last = [row[1:] for row in list(ended)[-needed:]]
            if (
                all(last[n] == last[n - length] for n in range(length, needed))
                and len({digest for digest, _ in last[:length]}) > 1
            ):
                return length
        return None
