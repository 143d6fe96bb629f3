"""P3, repeats: every exact repeat of a call, and which of them made no progress, each with its reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from fcguard.evaluation.catalogue import Catalogue
from fcguard.evaluation.trace import CallRecord
from fcguard.model.failure import FailureClass, class_of

__all__ = ["Repeat", "RepeatReason", "find_repeats", "is_transient"]

RepeatReason: TypeAlias = Literal[
    "no_progress",
    "result_changed",
    "write_between",
    "consumed",
    "polling",
    "policy_retry",
    "not_sent",
    "result_unknown",
]
"""Why an exact repeat counts (`no_progress`) or does not. `result_unknown` counts too: nothing shows progress."""

_TRANSIENT = frozenset({FailureClass.AVAILABILITY, FailureClass.ENVIRONMENT})


@dataclass(frozen=True, slots=True)
class Repeat:
    """One exact repeat: same tool and same canonical arguments as an earlier call of the session.

    Attributes:
        position: position of the repeat.
        first: position of the latest earlier call that it repeats; of a call that was sent, the latest that was sent.
        reasons: every reason that excuses it, or `no_progress` / `result_unknown`.
        is_adjacent: whether nothing lay between the two.
        is_cycle: whether it belongs to a cycle of several tools (A, B, A, B).
        is_same_result: whether both results are recorded and equal; None if one is not recorded.
        is_after_write: whether a write succeeded since, the earlier call itself included.
    """

    position: int
    first: int
    reasons: tuple[RepeatReason, ...]
    is_adjacent: bool
    is_cycle: bool
    is_same_result: bool | None
    is_after_write: bool

    @property
    def is_no_progress(self) -> bool:
        """Whether it counts for P3."""
        return self.reasons[0] in ("no_progress", "result_unknown")


def is_transient(call: CallRecord) -> bool:
    """Whether a call failed for a reason that a retry may cure (availability or environment)."""
    if call.status not in ("failed", "uncertain") or call.error_type is None:
        return False
    return class_of(call.error_type) in _TRANSIENT


def find_repeats(calls: Sequence[CallRecord], catalogue: Catalogue) -> tuple[Repeat, ...]:
    """Find every exact repeat in a session and say whether it made progress.

    A repeat makes no progress if the earlier result was not used before it, the result is the same, and no write
    succeeded between the two. Polling tools and retries after a transient failure are exempt, and so is a repeat where one
    of the two was not sent (a replay, a refusal, a deferral): nothing was done twice. A condition that the trace does not
    record does not excuse.

    Args:
        calls: the calls of one session, in order.
        catalogue: tells effects and polling tools.
    """
    latest: dict[tuple[str, str, str], int] = {}
    latest_sent: dict[tuple[str, str, str], int] = {}
    found: list[Repeat] = []
    prints = [call.fingerprint for call in calls]
    last_write = -1
    for position, call in enumerate(calls):
        key = prints[position]
        if key is not None:
            first = latest_sent.get(key, latest.get(key)) if call.was_sent else latest.get(key)
            if first is not None:
                found.append(_judge(calls, first, position, last_write, prints, catalogue))
            latest[key] = position
            if call.was_sent:
                latest_sent[key] = position
        if call.was_sent and call.status == "succeeded" and catalogue.effect_of(call) not in (None, "read"):
            last_write = position
    return tuple(found)


def _judge(
    calls: Sequence[CallRecord],
    first: int,
    position: int,
    last_write: int,
    prints: list[tuple[str, str, str] | None],
    catalogue: Catalogue,
) -> Repeat:
    earlier, call = calls[first], calls[position]
    is_same: bool | None = None
    if earlier.result_hash is not None and call.result_hash is not None:
        is_same = earlier.result_hash == call.result_hash
    spec = catalogue.find(call)
    used_by = earlier.consumed_by
    excuses: list[RepeatReason] = []
    if not (earlier.was_sent and call.was_sent):
        excuses.append("not_sent")
    if spec is not None and spec.polling:
        excuses.append("polling")
    if is_transient(earlier):
        excuses.append("policy_retry")
    if is_same is False:
        excuses.append("result_changed")
    if first < last_write:
        excuses.append("write_between")
    if earlier.consumed and (used_by is None or used_by < position):
        excuses.append("consumed")
    if not excuses:
        excuses.append("result_unknown" if is_same is None else "no_progress")
    return Repeat(
        position=position,
        first=first,
        reasons=tuple(excuses),
        is_adjacent=position == first + 1,
        is_cycle=_is_cycle(prints, first, position),
        is_same_result=is_same,
        is_after_write=first <= last_write,
    )


def _is_cycle(prints: list[tuple[str, str, str] | None], first: int, position: int) -> bool:
    """Whether the calls just before the earlier one are repeated just before this one: A, B, A, B."""
    gap = position - first
    if gap < 2 or position + 1 < 2 * gap:
        return False
    return prints[position - gap + 1 : position + 1] == prints[position - 2 * gap + 1 : position - gap + 1]
