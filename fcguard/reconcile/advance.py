"""Advance open calls that nobody works on: confirm, send again with a licence, or park; each by compare and set."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, Final

from fcguard.config import Config
from fcguard.io import IO
from fcguard.model.call import Call
from fcguard.model.states import OPEN_STATES, CallState
from fcguard.pipeline import govern
from fcguard.reconcile.history import History
from fcguard.reconcile.ledger_time import ledger_time
from fcguard.reconcile.parked import Looks, When, look_again
from fcguard.reconcile.record import Unreadable, read_record
from fcguard.reconcile.report import Recovered, Recovery
from fcguard.reconcile.restore import restore_call
from fcguard.reconcile.rows import Advanced, done_with, reason_of, row_of, why_unknown
from fcguard.reconcile.takeover import Witness, recoverable, take_over
from fcguard.recovery.confirm import licence_to_retry
from fcguard.stores.base import Accepted, CallQuery, StoredCall
from fcguard.stores.recoverable import Drained, RecoverableStore

__all__ = ["advance_call", "recover_calls", "witness_of"]

_OPEN: Final = CallQuery(states=frozenset(OPEN_STATES))
_SHORTEST_WAIT: Final = 0.01


@dataclass(slots=True)
class _Pass:
    """One recovery: what it found so far."""

    store: RecoverableStore
    parked: When
    drained: Drained
    looks: Looks
    busy: int = 0
    rows: dict[str, Recovered] = field(default_factory=dict)

    def report(self) -> Recovery:
        return Recovery(tuple(self.rows[name] for name in sorted(self.rows)), self.busy, self.drained)

    def lose(self, request_id: str) -> bool:
        """Note that a call which was to be taken up later went to somebody else; answer whether this recovery knew it."""
        row = self.rows.get(request_id)
        if row is not None and row.due_at is not None:
            self.rows[request_id] = replace(
                row, did="taken_over", message="another worker went on with it", due_at=None
            )
        return row is not None

    def next_due(self) -> float | None:
        return min((row.due_at for row in self.rows.values() if row.due_at is not None), default=None)


async def recover_calls(
    config: Config,
    io: IO,
    *,
    wait: float = 30.0,
    assume_dead_after: float | None = None,
    parked: When = "late",
    looks: Looks | None = None,
) -> Recovery:
    """Look whether the ledger is whole, drain the spool, then advance every open call that nobody works on.

    Args:
        config: tools and collaborators of the guard.
        io: the colour to do it in.
        wait: most seconds to wait, all together, for settle windows that are not over; what is not due by then stays
            UNCERTAIN for the next recovery.
        assume_dead_after: seconds of silence after which an owner on another host counts as dead; None: never, its calls are
            confirmed and, if they are not found, parked. A number accepts the risk that it sends after all.
        parked: which parked calls to look at again; see `look_again`.
        looks: what an earlier recovery learnt of parked calls; None: nothing.

    Raises:
        StoreError: the ledger cannot be read or written, or is damaged.
        UsageError: the store cannot be recovered from.
    """
    store = recoverable(config.store)
    await io.call(_examine, store)
    found = _Pass(store, parked, await io.call(store.drain), Looks() if looks is None else looks)
    until = io.monotonic() + wait
    while True:
        await io.call(store.heartbeat)  # so that nothing that this very process works on looks left behind
        io, witness = await witness_of(store, io, assume_dead_after)
        found.busy = 0
        rows = await io.call(_all_open, store)
        for row in rows:
            await _look(row, found, witness, config, io)
        ids = {row.identity.request_id for row in rows}
        for request_id in found.rows.keys() - ids:
            found.lose(request_id)
        found.looks.forget(ids)
        due = found.next_due()
        if due is None:
            return found.report()
        pause = max(due - io.now(), _SHORTEST_WAIT)
        if io.monotonic() + pause > until:
            return found.report()
        await io.sleep(pause)


async def _look(row: StoredCall, found: _Pass, witness: Witness, config: Config, io: IO) -> None:
    request_id, now = row.identity.request_id, io.now()
    if row.state is CallState.PARKED:
        if request_id not in found.rows:
            found.rows[request_id] = await look_again(row, witness, config, io, found.parked, found.looks)
        return
    if row.state is CallState.PREPARED and not row.attempt and row.next_at is None:
        found.rows.setdefault(request_id, row_of(row, witness, "waits", reason_of(row)))
        return
    if not witness.may_take(row, now):
        if row.next_at is not None and row.next_at > now:
            found.rows[request_id] = row_of(row, witness, "deferred", reason_of(row), due_at=row.next_at)
        elif not found.lose(request_id):
            found.busy += 1
        return
    advanced = (await advance_call(row, witness, config, io)).row
    before = found.rows.get(request_id)  # put off by this very recovery: what counts is how it was found at first
    found.rows[request_id] = advanced if before is None else replace(advanced, found=before.found, owner=before.owner)


def _examine(store: RecoverableStore) -> None:
    """Refuse a damaged ledger: calls that cannot be found in it would be left behind without a word."""
    examine = getattr(store, "examine", None)
    if examine is not None:
        examine(once=True)


def _all_open(store: RecoverableStore) -> list[StoredCall]:
    return list(store.calls(_OPEN))[::-1]


async def witness_of(store: RecoverableStore, io: IO, assume_dead_after: float | None = None) -> tuple[IO, Witness]:
    """Ask the ledger for its time, and which processes it knows; answer an IO that counts on that time, and what is known."""
    time = await ledger_time(store, io)
    owners = await io.call(store.owners)
    here = await io.call(_owner, store)
    return time, Witness(here, {owner.id: owner for owner in owners}, assume_dead_after, time.ahead)


def _owner(store: RecoverableStore) -> Any:
    return store.owner


async def advance_call(row: StoredCall, witness: Witness, config: Config, io: IO) -> Advanced:
    """Take over one open call and go on with it. Safe to run twice, and by two at once: every step is compare and set.

    Args:
        row: the call as it was seen; if anybody moved it since, nothing is done.
        witness: what is known of owners.
        config: tools and collaborators of the guard.
        io: the colour to do it in.

    Raises:
        StoreError: the ledger cannot be read, or did not take the takeover; nothing was done.
    """
    prepared = config.tools.get(row.identity.tool)
    reason = why_unknown(prepared, row)
    if prepared is None or reason is not None:
        return Advanced(row_of(row, witness, "not_mine" if prepared is None else "left_open", reason or ""))
    try:
        history = await read_record(row, witness, config.store, io)
        now = io.now()
        sent_until = history.last_send(row.attempt, now)
        call = restore_call(row, history, prepared, io, sent_until)
    except Unreadable as error:
        return Advanced(row_of(row, witness, error.did, str(error)))
    except (KeyError, TypeError, ValueError) as error:
        return Advanced(
            row_of(row, witness, "left_open", f"its record cannot be read ({type(error).__name__}: {error})")
        )
    await _find_reasons(call, row, history, witness, config, io)
    if not row.attempt and call.unsendable is not None:
        return Advanced(row_of(row, witness, "left_open", f"it cannot be sent: {call.unsendable}"))
    is_proved = row.attempt > 0 and call.unsendable is None and licence_to_retry(call, io) == "settle"
    command = take_over(row, witness.liveness(row.owner), witness.here, now, sent_until if is_proved else None)
    answer = await io.commit(config.store, command)
    if not isinstance(answer, Accepted):
        return Advanced(row_of(row, witness, "taken_over", "another worker moved it first"))
    call.ledger_version, call.ledger_state = answer.version, command.state
    await govern(call, config, io)
    advanced = Advanced(done_with(row, call, witness), call.result)
    return await _late_meanwhile(advanced, witness, config, io) if advanced.row.did == "parked" else advanced


async def _late_meanwhile(parked: Advanced, witness: Witness, config: Config, io: IO) -> Advanced:
    """Close a call whose success an earlier owner noted after its record was read, and before it was parked: nothing later tells."""
    row = await io.call(config.store.get, parked.row.request_id)
    if row is None or row.state is not CallState.PARKED:
        return parked
    again = await look_again(row, witness, config, io, "late")
    if again.did == "waits":
        return parked
    return Advanced(replace(again, found=parked.row.found, owner=parked.row.owner))


async def _find_reasons(
    call: Call, row: StoredCall, history: History, witness: Witness, config: Config, io: IO
) -> None:
    """Say why the call must not be sent again from here, if there is a reason."""
    if call.unsendable is None and call.prepared.tool.fallback and row.attempt:
        call.unsendable = await io.call(_fallback_of, config.store, row)
    if call.unsendable is None and row.attempt and licence_to_retry(call, io) == "settle":
        call.unsendable = witness.why_not_quiet(row, history, io.now())


def _fallback_of(store: RecoverableStore, row: StoredCall) -> str | None:
    identity = row.identity
    for other in store.calls(CallQuery(task_id=identity.task_id, since=row.created_at)):
        made = other.identity
        is_fallback = made.parent_id == identity.request_id and made.purpose == "fallback" and made.effect != "read"
        if is_fallback and other.state not in (CallState.FAILED, CallState.REJECTED):
            return f"its fallback {made.tool!r} was called in its place ({made.request_id}, {other.state})"
    return None
