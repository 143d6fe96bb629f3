"""Look again at calls that wait for a person: only the effect itself, once it is seen, closes one."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, Literal

from fcguard.config import Config, Prepared
from fcguard.io import IO
from fcguard.model.call import Call
from fcguard.model.outcome import Applied, Confirmation
from fcguard.reconcile.history import History
from fcguard.reconcile.record import Unreadable, read_record
from fcguard.reconcile.report import Recovered
from fcguard.reconcile.restore import restore_call
from fcguard.reconcile.rows import done_with, reason_of, row_of, why_unknown
from fcguard.reconcile.takeover import Witness
from fcguard.recovery.confirm import ask_confirmation, note_on
from fcguard.steps.confirming import take_applied
from fcguard.steps.record import record_evidence
from fcguard.stores.base import Event, Note, StoredCall

__all__ = ["Looks", "When", "look_again", "next_look"]

When = Literal["late", "due", "now"]
"""Which parked calls are asked about again: late: none, only a success that the ledger holds already counts · due: those whose
next look is due · now: all."""

_FIRST_LOOK: Final = 60.0
_LONGEST_PAUSE: Final = 86_400.0


def next_look(parked_at: float, looks: int) -> float:
    """Answer the wall clock of the next look at a parked call: after a minute, then after twice as long each time, up to a day.

    Args:
        parked_at: wall clock of the last look; of the parking, before the first.
        looks: how many there were.
    """
    return parked_at + float(min(_FIRST_LOOK * 2 ** min(looks, 20), _LONGEST_PAUSE))


class Looks:
    """What is known of parked calls without reading their events again: how far they were read, and when they are due.

    A parked call costs its events once, and again when something was noted on it or its next look is due; in between it costs its
    row. Keep one over the rounds of a background recovery.
    """

    __slots__ = ("_read",)

    def __init__(self) -> None:
        self._read: dict[str, tuple[int, float]] = {}

    def __len__(self) -> int:
        return len(self._read)

    def have_nothing(self, row: StoredCall, when: When, now: float) -> bool:
        """Answer whether nothing can be done about a parked call, by its row alone.

        Args:
            row: the call.
            when: whether to ask the tool's `confirm`.
            now: wall clock in seconds, of the ledger if it has one.
        """
        if row.last_seq is None or when == "now":
            return False
        read, due_at = self._read.get(row.identity.request_id, (row.result_seq, next_look(row.updated_at, 0)))
        return row.last_seq == read and (when == "late" or now < due_at)

    def keep(self, row: StoredCall, looks: Sequence[float]) -> None:
        """Keep that the events of a call were read, up to the last one that its row told of.

        Args:
            row: the call.
            looks: wall clock of each look at it since it was parked.
        """
        if row.last_seq is not None:
            self._read[row.identity.request_id] = row.last_seq, next_look(*_since(row, looks))

    def forget(self, others_than: Collection[str]) -> None:
        """Let go of calls that are not parked any more.

        Args:
            others_than: ids of those that are.
        """
        for request_id in self._read.keys() - set(others_than):
            del self._read[request_id]


def _since(row: StoredCall, looks: Sequence[float]) -> tuple[float, int]:
    return (looks[-1] if looks else row.updated_at), len(looks)


async def look_again(
    row: StoredCall, witness: Witness, config: Config, io: IO, when: When, looks: Looks | None = None
) -> Recovered:
    """Look at a parked call once more, and close it if its effect is there.

    Nothing is ever sent, whatever licence the tool has, and "not applied" closes nothing: a person may be acting on the call. It
    stays as it is while it is looked at, and is closed only if nobody, person or machine, moved it meanwhile. What was found is
    noted on it.

    Args:
        row: the call as it was seen.
        witness: what is known of owners.
        config: tools and collaborators of the guard.
        io: the colour to do it in.
        when: whether to ask the tool's `confirm`.
        looks: what is known already; None: nothing.

    Raises:
        StoreError: the ledger cannot be read or written.
    """
    waits = row_of(row, witness, "waits", reason_of(row))
    prepared = config.tools.get(row.identity.tool)
    if prepared is None or why_unknown(prepared, row) is not None or not row.attempt:
        return waits
    if looks is not None and looks.have_nothing(row, when, io.now()):
        return waits
    try:
        history = await read_record(row, witness, config.store, io)
        call = _restored(row, history, prepared, io)
    except Unreadable as error:
        return row_of(row, witness, error.did, str(error))
    except (KeyError, TypeError, ValueError):
        return waits
    if looks is not None:
        looks.keep(row, history.looks)
    answer: Confirmation | None = _late_success(history)
    if answer is not None:
        call.basis = "late"
    elif _is_to_be_asked(row, history, prepared, when, io.now()):
        answer = await _ask(call, witness, config, io)
    if not isinstance(answer, Applied):
        return waits
    await _close(call, answer, config, io)
    return done_with(row, call, witness)


def _restored(row: StoredCall, history: History, prepared: Prepared, io: IO) -> Call:
    call = restore_call(row, history, prepared, io, history.last_send(row.attempt, io.now()))
    assert call.given is not None
    call.context = call.given
    call.ledger_version, call.ledger_state = row.version, row.state
    return call


def _late_success(history: History) -> Applied | None:
    return next((Applied(said.data) for said in history.verdicts.values() if said.effect == "applied"), None)


def _is_to_be_asked(row: StoredCall, history: History, prepared: Prepared, when: When, now: float) -> bool:
    if prepared.tool.confirm is None or when == "late":
        return False
    return when == "now" or now >= next_look(*_since(row, history.looks))


async def _ask(call: Call, witness: Witness, config: Config, io: IO) -> Confirmation:
    """Ask once, and note the answer on the call; the note moves nothing, so that it is in nobody's way."""
    answer = await ask_confirmation(call, config.child, io)
    said = note_on(call, answer, "confirm", io.now())
    body = {"request_id": call.request_id, "by": witness.here.id, "confirmations": [said]}
    await io.commit(config.store, Note(call.request_id, Event("confirm", io.now(), body)))
    return answer


async def _close(call: Call, answer: Applied, config: Config, io: IO) -> None:
    observer = config.observer
    observer.call_started(call)
    try:
        take_applied(call, call.attempts[-1], answer, config)
        await record_evidence(call, config, io)
    finally:
        observer.call_ended(call)
