"""A ledger of the guard as a trace: any store, through its own interface."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from fcguard.evaluation.importers.ledger_events import LedgerEvent, records_of
from fcguard.evaluation.importers.options import ImportOptions
from fcguard.evaluation.importers.read import read_records
from fcguard.evaluation.trace import Run
from fcguard.stores.base import Store

__all__ = ["ledger_records", "read_ledger"]


def ledger_records(store: Store, *, task_id: str | None = None) -> Iterator[dict[str, Any]]:
    """Yield one record for each call that an agent made, as the `ledger` importer documents it.

    Calls that belong to another call (confirmations, fallbacks, what a tool called itself) are left out.

    Args:
        store: any ledger; it is only read.
        task_id: one task; None: all, a task after the other.

    Raises:
        StoreError: the ledger cannot be read.
    """
    return records_of(
        LedgerEvent(event.task_id, event.request_id, event.kind, json.loads(event.payload))
        for event in store.events(task_id=task_id)
    )


def read_ledger(store: Store, *, task_id: str | None = None, options: ImportOptions | None = None) -> Run:
    """Read a ledger as a run. It can be iterated once; `read_trace(path)` reads a SQLite ledger from its file instead.

    Args:
        store: any ledger; it is only read.
        task_id: one task; None: all.
        options: what the ledger does not say itself.
    """
    return read_records(ledger_records(store, task_id=task_id), "ledger", options=options)
