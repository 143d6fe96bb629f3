"""A ledger of the guard as a trace: any store, through its own interface, or the store that a URL names."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from fcguard.errors import UsageError
from fcguard.evaluation.importers import ledger
from fcguard.evaluation.importers.ledger_events import LedgerEvent, records_of
from fcguard.evaluation.importers.options import ImportOptions
from fcguard.evaluation.importers.read import read_records, read_trace
from fcguard.evaluation.trace import Run, Session, UnreadLog
from fcguard.store_urls import is_url, split_url, without_password
from fcguard.stores.base import Store
from fcguard.stores.opening import open_url

__all__ = ["ledger_records", "open_trace", "read_ledger"]


def ledger_records(
    store: Store, *, task_id: str | None = None, unread: UnreadLog | None = None
) -> Iterator[dict[str, Any]]:
    """Yield one record for each call that an agent made, as the `ledger` importer documents it.

    Calls that belong to another call (confirmations, fallbacks, what a tool called itself) are left out.

    Args:
        store: any ledger; it is only read.
        task_id: one task; None: all, a task after the other.
        unread: where events are noted whose payload is no JSON object; they are left out in either case.

    Raises:
        StoreError: the ledger cannot be read.
    """
    return records_of(_events(store, task_id, UnreadLog() if unread is None else unread))


def _events(store: Store, task_id: str | None, unread: UnreadLog) -> Iterator[LedgerEvent]:
    for event in store.events(task_id=task_id):
        try:
            payload = json.loads(event.payload)
        except (ValueError, RecursionError):
            payload = None
        if isinstance(payload, dict):
            yield LedgerEvent(event.task_id, event.request_id, event.kind, payload)
        else:
            unread.add(f"task {event.task_id}, event {event.seq}", "its payload is not a JSON object")


def read_ledger(store: Store, *, task_id: str | None = None, options: ImportOptions | None = None) -> Run:
    """Read a ledger as a run. It can be iterated once; `open_trace` reads one by its URL, `read_trace(path)` a SQLite ledger from its file.

    Args:
        store: any ledger; it is only read.
        task_id: one task; None: all.
        options: what the ledger does not say itself.
    """
    return read_records(ledger_records(store, task_id=task_id), "ledger", options=options)


def open_trace(trace: str | Path, format: str | None = None, *, said: str = "the trace") -> Run:
    """Open what a trace is said to be: the URL of a ledger, else a file as `read_trace` reads it.

    Nothing is created: a SQLite ledger that is missing is an error. The run can be iterated again; of a ledger, each time opens the
    store and closes it.

    Args:
        trace: `sqlite:///path`, `sqlite:////absolute/path`, `postgresql://user@host/database`, or the path of a file.
        format: a name of an importer; None: found out. A URL is a `ledger`.
        said: where the URL was given, for messages; these never hold the URL itself, which may hold a password.

    Raises:
        ConfigurationError: the URL is of no known kind.
        UsageError: the file cannot be opened, or the format does not fit; iterating also raises `StoreError`.
        MissingExtraError: while iterating: PostgreSQL support is not installed.
    """
    text = str(trace)
    if isinstance(trace, Path) or not is_url(text):
        return read_trace(trace, format)
    kind, place = split_url(text, said)
    if format not in (None, "ledger"):
        raise UsageError(f"{said} is the URL of a ledger; its format is 'ledger', not {format!r}")
    unread = UnreadLog()
    source = Path(place).name if kind == "sqlite" else without_password(text)
    return Run(_LedgerSessions(text, said, unread), source=source, format="ledger", unread=unread)


class _LedgerSessions:
    """Sessions of the ledger at a URL, read anew each time they are asked for."""

    def __init__(self, url: str, said: str, unread: UnreadLog) -> None:
        self._url, self._said, self._unread = url, said, unread

    def __iter__(self) -> Iterator[Session]:
        self._unread.count = 0
        self._unread.first.clear()
        with closing(open_url(self._url, self._said, create=False)) as store:
            records = ledger_records(store, unread=self._unread)
            values = ((f"call {record['request_id']}", record) for record in records)
            yield from ledger.read(values, self._unread, ImportOptions())
