"""Reading a ledger that is one SQLite file, without the ledger's own code: read-only, streamed, task by task."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, Final

from fcguard.errors import UsageError
from fcguard.evaluation.importers.ledger_events import LedgerEvent, records_of
from fcguard.evaluation.trace import UnreadLog

__all__ = ["is_ledger_file", "iter_ledger_file"]

_MAGIC: Final = b"SQLite format 3\x00"
_EVENTS: Final = """
SELECT heads.task_id, events.request_id, events.kind, events.payload, events.seq
FROM fc_events AS events JOIN fc_heads AS heads ON heads.task = events.task ORDER BY events.task, events.seq
"""


def is_ledger_file(path: Path) -> bool:
    """Whether a file is a SQLite database (whether a ledger is inside shows when it is read).

    Raises:
        UsageError: the file cannot be opened.
    """
    try:
        with path.open("rb") as stream:
            return stream.read(len(_MAGIC)) == _MAGIC
    except OSError as error:
        raise UsageError(f"trace {str(path)!r} cannot be read: {error}") from error


def iter_ledger_file(path: Path, unread: UnreadLog) -> Iterator[tuple[str, Any]]:
    """Yield the records of a ledger file with their places.

    Args:
        path: the file; a process may be writing it meanwhile.
        unread: where events that cannot be read are noted.

    Raises:
        UsageError: the file cannot be opened, or is no ledger.
    """
    for record in records_of(_events(path, unread)):
        yield f"call {record['request_id']}", record


def _events(path: Path, unread: UnreadLog) -> Iterator[LedgerEvent]:
    try:
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)) as connection:
            for task_id, request_id, kind, payload, seq in connection.execute(_EVENTS):
                content = _content(payload)
                if content is None:
                    unread.add(f"task {task_id}, event {seq}", "its payload is not a JSON object")
                else:
                    yield LedgerEvent(task_id, request_id, kind, content)
    except sqlite3.Error as error:
        raise UsageError(f"trace {str(path)!r} is a SQLite file, but no ledger that can be read: {error}") from error


def _content(payload: Any) -> dict[str, Any] | None:
    try:
        content = json.loads(payload)
    except (ValueError, TypeError, RecursionError):
        return None
    return content if isinstance(content, dict) else None
