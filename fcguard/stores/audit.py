"""Check a whole ledger: the chains, against checkpoints too, and the rows of the calls against their events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from fcguard.errors import StoreError, UsageError
from fcguard.model.states import OPEN_STATES
from fcguard.stores.base import Gap, StoredCall, StoredEvent
from fcguard.stores.canonical import encode
from fcguard.stores.chain import Broken, ChainCheck, Fault, Verification
from fcguard.stores.checkpoint import Checkpoint
from fcguard.stores.judge import guards_key
from fcguard.stores.payload import facts_of, result_in
from fcguard.stores.recoverable import RecoverableStore
from fcguard.stores.tombstone import keys_digest_of, seal_of

__all__ = ["audit", "contradiction", "newest", "pruned_since"]


def audit(
    store: RecoverableStore, checkpoints: Iterable[Checkpoint] = (), *, rows: bool = True, unpruned: bool = False
) -> Verification:
    """Check everything that a ledger holds, and name the first record that does not hold.

    The chains prove what happened; the rows of calls only say it conveniently, so each is compared with the events. That the
    ledger was cut off or written anew as a whole shows against a checkpoint kept elsewhere, not without one.

    Args:
        store: the ledger; it may be in use, and grow meanwhile.
        checkpoints: taken earlier, in any number.
        rows: compare the rows of calls as well; costs a few queries a call.
        unpruned: nothing was pruned since the newest checkpoint: an event that left since then is a fault, and so is a key of a
            pruned write that left or came. A gap is tied to the chain, but who may delete may also declare what is deleted as pruned.

    Raises:
        StoreError: the ledger cannot be read; `StoreCorrupt` if its file is damaged where no record is, or lacks records that
            were acknowledged.
        UsageError: `unpruned` without a checkpoint.
    """
    known = list(checkpoints)
    heads = [*store.heads(), *(head for checkpoint in known for head in checkpoint.heads)]
    gaps = list(store.gaps())
    check = ChainCheck(heads, gaps)
    opened = 0
    try:
        if unpruned:
            _check_unpruned(store, gaps, known)
        for event in store.events():
            opened += "call" in check.take(event)
        check.finish()
        if rows:
            _check_rows(store, opened)
            check.tombstones = _check_tombstones(store)
        examine = getattr(store, "examine", None)
        if examine is not None:
            examine()
    except Broken as broken:
        return check.verification(broken.fault)
    return check.verification()


def pruned_since(gaps: Iterable[Gap], checkpoint: Checkpoint) -> Iterator[tuple[str, int, int]]:
    """Yield the ranges of events that a checkpoint knew and that have left as pruned since: task, first and last.

    Args:
        gaps: of the ledger now.
        checkpoint: one that notes what had been pruned then; of one that does not, everything counts as pruned since.
    """
    reach = {head.task_id: head.seq for head in checkpoint.heads}
    before: dict[str, list[Gap]] = {}
    for gap in checkpoint.gaps or ():
        before.setdefault(gap.task_id, []).append(gap)
    for gap in gaps:
        first, end = gap.first, min(gap.last, reach.get(gap.task_id, 0))
        for old in sorted(before.get(gap.task_id, ()), key=lambda old: old.first):
            if first < old.first <= end:
                yield gap.task_id, first, old.first - 1
            if old.last >= first and old.first <= end:
                first = old.last + 1
        if first <= end:
            yield gap.task_id, first, end


def newest(checkpoints: Iterable[Checkpoint]) -> Checkpoint | None:
    """Answer the newest of checkpoints; None if there is none."""
    return max(checkpoints, key=lambda checkpoint: checkpoint.at, default=None)


def _check_unpruned(store: RecoverableStore, gaps: Iterable[Gap], checkpoints: Sequence[Checkpoint]) -> None:
    checkpoint = newest(checkpoints)
    if checkpoint is None:
        raise UsageError("that nothing was pruned can be checked against a checkpoint only; give one")
    for task_id, first, last in pruned_since(gaps, checkpoint):
        reason = f"was there at the newest checkpoint and is declared as pruned since, as far as event {last}"
        raise Broken(Fault(task_id, first, None, reason))
    if checkpoint.keys is not None and keys_digest_of(store) != checkpoint.keys:
        raise Broken(Fault("-", 0, None, "the keys of pruned writes are not those of the newest checkpoint"))


def _check_rows(store: RecoverableStore, opened: int) -> None:
    count = 0
    for call in store.calls():
        count += 1
        _check_row(store, call)
    if count < opened:
        _name_missing_row(store)
    if count > opened:
        _name_second_row(store)


def _check_tombstones(store: RecoverableStore) -> int:
    """Check that the keys of pruned writes are as pruning left them; answer how many there are. That one was removed leaves no trace."""
    read = getattr(store, "tombstones", None)  # a store of somebody else may keep none
    count = 0
    for tombstone, seal in () if read is None else read():
        count += 1
        if seal_of(tombstone) != seal:
            raise Broken(Fault(tombstone.task_id, 0, tombstone.request_id, "the key of this pruned write was changed"))
        if store.get(tombstone.request_id) is not None:
            reason = "the ledger holds the call, and says that it was pruned"
            raise Broken(Fault(tombstone.task_id, 0, tombstone.request_id, reason))
    return count


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
    for name, says, known in _claims(call, events, facts):
        if says != known:
            reason = (
                f"the row says {name} {says!r}, its events say {known!r}"
                if name != "envelope"
                else "the row leads to another envelope than its events"
            )
            return Fault(task_id, events[-1].seq, request_id, reason)
    return None


def _claims(
    call: StoredCall, events: Sequence[StoredEvent], facts: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[str, Any, Any]]:
    """Yield what the row says of the call, and what its events say of the same."""
    last, listed, identity = facts[-1], call.listed, call.identity
    yield "state", str(call.state), last.get("state")
    yield "version", call.version, last.get("version")
    yield "attempt", call.attempt, last.get("attempt")
    yield "created_at", call.created_at, events[0].at
    times = [event.at for event in events]
    yield "updated_at", call.updated_at, call.updated_at if call.updated_at in times else times[-1]
    result = next((found for event in reversed(events) if (found := result_in(event.payload)) is not None), None)
    yield "envelope", *_comparable(call.result, result)
    if listed is None:
        return
    was_entered = facts[0].get("state") not in OPEN_STATES  # written whole, at its end: it holds no keys
    key = None if was_entered else identity.idempotency_key
    yield "request_id", listed.request_id, identity.request_id
    yield "tool", listed.tool, identity.tool
    yield "is_entered", listed.is_entered, was_entered
    yield "is_open", listed.is_open, call.state in OPEN_STATES
    yield "holds_key", listed.holds_key, not was_entered and guards_key(call.state)
    yield "idempotency_scope", listed.idempotency_scope, None if key is None else identity.idempotency_scope or ""
    yield "idempotency_key", listed.idempotency_key, key
    yield "effect_key", listed.effect_key, None if was_entered else identity.effect_key


def _comparable(one: Any, other: Any) -> tuple[Any, Any]:
    """Answer two envelopes so that they can be compared; a ledger in memory holds one as it came, and NaN is not equal to itself."""
    return (one, other) if one == other else (encode(one), encode(other))


def _name_missing_row(store: RecoverableStore) -> None:
    for event in store.events():
        if "call" in facts_of(event) and store.get(event.request_id) is None:
            raise Broken(Fault(event.task_id, event.seq, event.request_id, "the call has events but no row"))


def _name_second_row(store: RecoverableStore) -> None:
    seen: set[str] = set()
    for call in store.calls():
        request_id = call.identity.request_id
        if request_id in seen:
            raise Broken(Fault(call.identity.task_id, 0, request_id, "the call has more than one row"))
        seen.add(request_id)
