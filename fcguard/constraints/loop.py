"""Stop a model that goes round in a circle of calls: A, B, A, B, ..."""

from __future__ import annotations

from collections import deque

from fcguard.constraints.options import check_count
from fcguard.constraints.sameness import fingerprint_of, is_exempt, mark_of, warn
from fcguard.model.attempt import Attempt
from fcguard.model.call import Call
from fcguard.model.failure import ErrorType, NextAction, Violation

__all__ = ["LoopDetection"]


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
        self.longest = check_count(name, "longest", longest, 2)

    def admit(self, call: Call, now: float) -> Violation | None:
        """Admit unless it goes on with a round that was run often enough."""
        if is_exempt(call):
            return None
        notes: _Rounds = call.task.memory.setdefault(self, _Rounds(self.longest * self.block))
        digest = fingerprint_of(call)
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
        notes.ended.append((call.request_id, digest, mark_of(call, attempt)))
        if self._round(notes.ended, self.warn, None) is not None:
            warn(call, self.name, f"The last calls are {self.warn} equal rounds with equal results. Change course.")

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
