"""Failure episodes of a session: what failed, and whether it was recovered or safely stopped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from fcguard.evaluation.gold import GoldTask
from fcguard.evaluation.trace import CallRecord, Session
from fcguard.model.failure import FailureClass, class_of

__all__ = ["Episode", "EpisodeEnd", "find_episodes", "has_recovery_mechanism"]

EpisodeEnd: TypeAlias = Literal["recovered", "safely_stopped", "not_recovered"]

_STOP_IS_RIGHT = frozenset({FailureClass.POLICY, FailureClass.UNCERTAIN, FailureClass.PLATFORM, FailureClass.CONTROL})
"""Failures after which trying on is wrong, whatever the gold says."""


@dataclass(frozen=True, slots=True)
class Episode:
    """One failure and its end.

    Attributes:
        position: position of the first failing call.
        end: how it ended.
        by: position of the call that recovered it; the same position if its own retry did.
    """

    position: int
    end: EpisodeEnd
    by: int | None = None


def find_episodes(session: Session, task: GoldTask | None = None) -> tuple[Episode, ...]:
    """Find the failure episodes of a session.

    An episode begins with a call that failed, was refused or is uncertain, or that needed more than one attempt. It is
    recovered by its own retry, or by the next success of the same tool, or of the same subtask by another tool (a
    fallback). Failures of one tool up to that success are one episode. It is safely stopped if stopping is right (the
    gold says so, or the failure is of a class that must not be pressed), no call of that tool followed, and the agent
    told why.

    Args:
        session: the session.
        task: its gold.
    """
    found: list[Episode] = []
    covered: set[int] = set()
    for position, call in enumerate(session.calls):
        if position in covered:
            continue
        if call.status == "succeeded":
            if any(attempt.status in ("failed", "uncertain") for attempt in call.attempts):
                found.append(Episode(position, "recovered", position))
            continue
        if call.status == "unknown":
            continue
        same = [later for later in range(position + 1, len(session.calls)) if _continues(call, session.calls[later])]
        by = next((later for later in same if session.calls[later].status == "succeeded"), None)
        covered.update(later for later in same if by is None or later < by)
        found.append(Episode(position, _end(session, task, call, by, is_pressed=bool(same)), by))
    return tuple(found)


def _continues(failed: CallRecord, later: CallRecord) -> bool:
    if failed.subtask_id is not None and later.subtask_id == failed.subtask_id:
        return True
    return later.identity == failed.identity


def _end(session: Session, task: GoldTask | None, call: CallRecord, by: int | None, *, is_pressed: bool) -> EpisodeEnd:
    if by is not None:
        return "recovered"
    by_class = call.error_type is not None and class_of(call.error_type, FailureClass.TOOL) in _STOP_IS_RIGHT
    is_right = by_class or (task is not None and task.stop_is_right)
    if is_right and session.reason_told and not is_pressed:
        return "safely_stopped"
    return "not_recovered"


def has_recovery_mechanism(calls: Sequence[CallRecord], episodes: Sequence[Episode]) -> bool:
    """Whether the trace shows a retry or a fallback at work: a second attempt, or a call that carried an episode on."""
    if any(call.retries for call in calls):
        return True
    return any(
        episode.by is not None
        or any(_continues(calls[episode.position], later) for later in calls[episode.position + 1 :])
        for episode in episodes
    )
