"""Database rows, mapped objects, cursors and results as lists of objects."""

from __future__ import annotations

import inspect
from typing import Any, Final

from fcguard.results.reading import Recognised, kind_names, read, records, whole

__all__ = ["MAX_ROWS", "cursor", "mapped_object", "named_row", "sqlalchemy_result", "sqlite_row"]

MAX_ROWS: Final = 10_000
"""Most rows that are read from a cursor or a result."""


def sqlite_row(value: Any) -> Recognised:
    """Name the columns of a `sqlite3.Row`."""
    return Recognised("rows", records(value.keys(), [tuple(value)])[0])


def named_row(value: Any) -> Recognised:
    """Name the columns of a row that knows them (`_fields`, or `items()`)."""
    fields = read(value, "_fields")
    if isinstance(fields, (tuple, list)):
        return Recognised("rows", records(fields, [tuple(value)])[0])
    return Recognised("rows", dict(value.items()))


def mapped_object(value: Any) -> Recognised | None:
    """Take the loaded attributes of a mapped object; nothing is loaded. None if it is no mapped object."""
    state = read(value, "_sa_instance_state")
    if state is None or ("sqlalchemy", "InstanceState") not in kind_names(type(state)):
        return None
    return Recognised("rows", {name: item for name, item in vars(value).items() if not name.startswith("_")})


def sqlalchemy_result(value: Any) -> Recognised:
    """Read a result's rows, up to `MAX_ROWS`; an asynchronous one stays unread."""
    if read(value, "returns_rows") is False:
        return Recognised("rows", {"rows": [], "row_count": _count(value)})
    fetched = _fetch(value)
    if fetched is None:
        return Recognised("rows", {"rows": None, "row_count": _count(value)}, notes=("unread",))
    return _table(fetched, _count(value))


def cursor(value: Any) -> Recognised:
    """Read a DB-API cursor's rows, up to `MAX_ROWS`; one without a result set answers its row count."""
    description = read(value, "description")
    if not description:
        data: dict[str, Any] = {"rows": [], "row_count": _count(value)}
        last = whole(read(value, "lastrowid"))
        return Recognised("rows", data if last is None else {**data, "last_row_id": last})
    fetched = _fetch(value)
    if fetched is None:
        return Recognised("rows", {"rows": None, "row_count": _count(value)}, notes=("unread",))
    columns = [column[0] for column in description]
    if all(type(row) is tuple for row in fetched):
        fetched = records(columns, fetched)
    return _table(fetched, _count(value))


def _count(value: Any) -> int | None:
    count = whole(read(value, "rowcount"))
    return None if count is None or count < 0 else count


def _fetch(value: Any) -> list[Any] | None:
    fetch = read(value, "fetchmany")
    if fetch is None or inspect.iscoroutinefunction(fetch):
        return None
    try:
        fetched = fetch(MAX_ROWS + 1)
    except Exception:  # closed, or of another thread: the rows are out of reach, the call is done all the same
        return None
    if inspect.iscoroutine(fetched):
        fetched.close()
    return list(fetched) if isinstance(fetched, (list, tuple)) else None


def _table(fetched: list[Any], count: int | None) -> Recognised:
    if len(fetched) > MAX_ROWS:
        data = {"rows": fetched[:MAX_ROWS], "row_count": count, "truncated": True}
        return Recognised("rows", data, notes=("truncated",))
    return Recognised("rows", {"rows": fetched, "row_count": len(fetched) if count is None else count})
