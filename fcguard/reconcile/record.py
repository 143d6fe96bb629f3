"""Read the record of an open call, and refuse one that contradicts itself: nothing may be sent on the strength of it."""

from __future__ import annotations

from collections.abc import Sequence

from fcguard.errors import StoreError
from fcguard.io import IO
from fcguard.reconcile.history import History, read_history
from fcguard.reconcile.report import Deed
from fcguard.reconcile.takeover import Witness
from fcguard.stores.audit import contradiction
from fcguard.stores.base import Store, StoredCall, StoredEvent

__all__ = ["Unreadable", "read_record"]


class Unreadable(Exception):
    """The record of a call cannot be relied on, or is not the one that was seen.

    Attributes:
        did: word for the report.
    """

    def __init__(self, did: Deed, reason: str) -> None:
        self.did: Deed = did
        super().__init__(reason)


async def read_record(row: StoredCall, witness: Witness, store: Store, io: IO) -> History:
    """Read what the events tell of a call, with its times on the ledger's clock.

    Args:
        row: the call as it was seen.
        witness: what is known of owners, and of their clocks.
        store: the ledger.
        io: the colour to do it in.

    Raises:
        Unreadable: the row and its events do not agree, or are no record of a call; or it was moved meanwhile.
        StoreError: the ledger cannot be read.
    """
    request_id = row.identity.request_id
    events = await io.call(_events, store, request_id)
    found = contradiction(row, events)
    if found is not None:
        now = await io.call(store.get, request_id)
        if now is not None and now.version != row.version:
            raise Unreadable("taken_over", "another worker moved it first")
        raise Unreadable(
            "left_open",
            f"its record contradicts itself: {found.reason}. The ledger was changed by hand, or the file is damaged; "
            "run `fcguard verify`, look at the system, and close the call with `fcguard resolve`",
        )
    try:
        history = read_history(events)
    except (StoreError, KeyError, TypeError, ValueError) as error:
        raise Unreadable("left_open", f"its record cannot be read ({type(error).__name__}: {error})") from error
    history.count_on_ledger_time(witness.ahead_of(history.sender(1, row.owner)) if history.senders else None)
    return history


def _events(store: Store, request_id: str) -> Sequence[StoredEvent]:
    return list(store.events(request_id=request_id))
