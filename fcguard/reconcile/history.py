"""Read what the ledger's events tell of an open call: who sent it when, and what came back."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from fcguard.model.attempt import LateVerdict
from fcguard.stores.base import Store, StoredEvent
from fcguard.stores.payload import body_of
from fcguard.telemetry.observer import Origin

__all__ = ["SKEW", "History", "Takeover", "origin_of", "read_history"]

SKEW: Final = 60.0
"""Seconds by which the clocks of two hosts may differ."""


class Takeover(NamedTuple):
    """A `claimed` event: the call left one owner for another.

    Attributes:
        owner: id of the earlier owner, as far as it is known.
        liveness: what was known of it then.
        by: id of the later owner.
    """

    owner: str | None
    liveness: str
    by: str


@dataclass(slots=True)
class History:
    """The story of an open call.

    Attributes:
        opening: what was written before the first dispatch.
        address: what the latest attempt was addressed with: `opening`, or what an attempt said after the environment changed.
        started: wall clock of each attempt's start, by number.
        senders: who started it, by number; None: whoever opened the call.
        summaries: what is known of the end of attempts, by number.
        ended: wall clock of that end, by number; infinity if it is not known on this clock.
        takeovers: in order.
        sent_until: wall clock of the last moment at which an attempt can have sent something, by number, where a takeover
            proved one.
        verdicts: what the end of abandoned attempts proves, as it was judged then, and what writers that had lost the call
            answered after all, by number.
        late_at: when abandoned attempts ended after all, by number; as `ended`.
        looks: wall clock of each look at the call since it was parked.
        doubt: seconds by which the opener's clock may be ahead of the ledger's, where that is not known.
    """

    opening: Mapping[str, Any] = field(default_factory=dict)
    address: Mapping[str, Any] = field(default_factory=dict)
    started: dict[int, float] = field(default_factory=dict)
    senders: dict[int, str | None] = field(default_factory=dict)
    summaries: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    ended: dict[int, float] = field(default_factory=dict)
    takeovers: list[Takeover] = field(default_factory=list)
    sent_until: dict[int, float] = field(default_factory=dict)
    verdicts: dict[int, LateVerdict] = field(default_factory=dict)
    late_at: dict[int, float] = field(default_factory=dict)
    looks: list[float] = field(default_factory=list)
    doubt: float = 0.0

    def sender(self, number: int, owner: str | None) -> str | None:
        """Answer the id of the owner that started an attempt; `owner` is the call's owner now."""
        return self.senders[number] or (self.takeovers[0].owner if self.takeovers else owner)

    def is_running(self, number: int) -> bool:
        """Tell whether an abandoned attempt may still run in its process: nothing says that it ended."""
        return bool(self.summaries.get(number, {}).get("abandoned")) and number not in self.late_at

    def last_send(self, number: int, now: float) -> float:
        """Answer the last moment at which an attempt can have sent something; `now` if nothing bounds it earlier.

        For a process that died without a word it is the moment at which its death was first proved.
        """
        fixed = self.sent_until.get(number)
        if fixed is not None:
            return fixed
        if number not in self.summaries or self.is_running(number):
            return now
        return min(now, self.late_at.get(number, self.ended.get(number, now)))

    def count_on_ledger_time(self, ahead: float | None) -> None:
        """Bring what the opener of the call wrote down to the ledger's clock; recoveries count on that one anyway.

        Args:
            ahead: seconds by which the ledger's clock is ahead of the opener's; None: unknown, so that its times bound nothing.
        """
        self.doubt = SKEW if ahead is None else 0.0
        for number, sender in self.senders.items():
            if sender is not None:
                continue
            if ahead is not None:
                self.started[number] += ahead
            for times in (self.ended, self.late_at):
                if number in times:
                    times[number] = math.inf if ahead is None else times[number] + ahead


def read_history(events: Iterable[StoredEvent]) -> History:
    """Read the events of one call, in order.

    Raises:
        StoreError: bytes are not an event's.
        KeyError, TypeError, ValueError: an event lacks what its kind must hold.
    """
    history = History()
    last = 0
    for event in events:
        body = body_of(event)
        if event.kind == "opened":
            history.opening = history.address = body
            last = 1
            history.started[1], history.senders[1] = event.at, None
        elif event.kind == "attempt":
            last = int(body["number"])
            history.started[last] = event.at
            history.senders[last] = history.takeovers[-1].by if history.takeovers else None
            if "arguments" in body:
                history.address = {**history.opening, **body}
        else:
            _take(history, event, body, last)
    return history


def _take(history: History, event: StoredEvent, body: Mapping[str, Any], last: int) -> None:
    if event.kind == "uncertain":
        _take_summary(history, body)
    elif event.kind in ("outcome", "parked"):
        for summary in body.get("attempts", ()):
            if not summary.get("restored"):  # else it says nothing about when the attempt ended
                _take_summary(history, summary)
        # The call is open, so a success among its events was written by a worker that had lost it: it holds all the same.
        if event.kind == "parked":
            history.looks.clear()
        if body.get("result", {}).get("success") is True:
            history.verdicts[last] = LateVerdict("applied", data=body["result"].get("data"))
    elif event.kind == "late":
        number = int(body["attempt"])
        history.late_at[number] = event.at
        _take_verdict(history, number, body)
    elif event.kind == "confirm":
        history.looks.append(event.at)
    elif event.kind == "claimed":
        history.takeovers.append(Takeover(body.get("from"), str(body["liveness"]), str(body["by"])))
        if "sent_until" in body:
            history.sent_until[last] = float(body["sent_until"])


def _take_summary(history: History, summary: Mapping[str, Any]) -> None:
    number = int(summary["number"])
    history.summaries[number] = summary
    history.ended[number] = float(summary["started_at"]) + float(summary["duration_ms"]) / 1000 + 0.001


def _take_verdict(history: History, number: int, body: Mapping[str, Any]) -> None:
    """Take what was judged when the object was at hand; a word that was not judged proves nothing."""
    effect, known = body.get("effect"), history.verdicts.get(number)
    if effect == "applied" and body["returned"] and "value" in body:
        history.verdicts[number] = LateVerdict("applied", data=body["value"])
    elif effect == "not_applied" and known is None:
        history.verdicts[number] = LateVerdict("not_applied", body.get("error_type"), "the late result says so")


def origin_of(store: Store, request_id: str) -> Origin | None:
    """Answer where a call was traced; None if it was not, or the ledger does not know it or cannot be read."""
    with suppress(Exception):  # a link that is missing must not stop a call that was just approved
        for event in store.events(request_id=request_id):
            body = body_of(event)
            if "trace_id" in body:
                return Origin(str(body["trace_id"]), str(body["span_id"]))
    return None
