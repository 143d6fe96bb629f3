"""Check a whole ledger: the chains, against checkpoints too, and the rows of the calls against their events."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from fcguard.errors import StoreError
from fcguard.stores.base import StoredCall, StoredEvent
from fcguard.stores.chain import Broken, ChainCheck, Fault, Verification
from fcguard.stores.checkpoint import Checkpoint
from fcguard.stores.payload import facts_of
from fcguard.stores.recoverable import RecoverableStore

__all__ = ["audit", "contradiction"]


def audit(store: RecoverableStore, checkpoints: Iterable[Checkpoint] = (), *, rows: bool = True) -> Verification:
    """Check everything that a ledger holds, and name the first record that does not hold.

    The chains prove what happened; the rows of calls only say it conveniently, so each is compared with the events. That the
    ledger was cut off or written anew as a whole shows against a checkpoint kept elsewhere, not without one.

    Args:
        store: the ledger; it may be in use, and grow meanwhile.
        checkpoints: taken earlier, in any number.
        rows: compare the rows of calls as well; costs a few queries a call.

    Raises:
        StoreError: the ledger cannot be read.
    """
    heads = [*store.heads(), *(head for checkpoint in checkpoints for head in checkpoint.heads)]
    check = ChainCheck(heads, store.gaps())
    opened = 0
    try:
        for event in store.events():
            opened += "call" in check.take(event)
        check.finish()
        if rows:
            _check_rows(store, opened)
    except Broken as broken:
        return check.verification(broken.fault)
    return check.verification()


def _check_rows(store: RecoverableStore, opened: int) -> None:
    count = 0
    for call in store.calls():
        count += 1
        _check_row(store, call)
    if count < opened:
        _name_missing_row(store)


def _check_row(store: RecoverableStore, call: StoredCall) -> None:
    request_id = call.identity.request_id
    found = contradiction(call, list(store.events(request_id=request_id)))
    if found is not None:
        now = store.get(request_id)
        if now is not None and now.version > call.version:
            return  # it moved while it was being checked
        raise Broken(found)


def contradiction(call: StoredCall, events: Sequence[StoredEvent]) -> Fault | None:
    """Answer where the row of a call and its events do not agree; None if they do.

    Args:
        call: the row.
        events: those of the call, in order, as the row leads to them.
    """
    request_id, task_id = call.identity.request_id, call.identity.task_id
    try:
        facts = [facts_of(event) for event in events]
    except StoreError as error:
        return Fault(task_id, 0, request_id, str(error))
    if not events or "call" not in facts[0] or any(event.request_id != request_id for event in events):
        return Fault(task_id, events[0].seq if events else 0, request_id, "the row of the call has no such events")
    says = {"state": str(call.state), "version": call.version, "attempt": call.attempt}
    for name, value in says.items():
        if facts[-1].get(name) != value:
            reason = f"the row says {name} {value!r}, its last event says {facts[-1].get(name)!r}"
            return Fault(task_id, events[-1].seq, request_id, reason)
    return None


def _name_missing_row(store: RecoverableStore) -> None:
    for event in store.events():
        if "call" in facts_of(event) and store.get(event.request_id) is None:
            raise Broken(Fault(event.task_id, event.seq, event.request_id, "the call has events but no row"))
