"""Foreign results told apart by type name and shape: responses, rows, tool results, processes, tables, images, pages, files."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from fcguard.model.outcome import Signal
from fcguard.results.reading import Binary, Recognised, has, kind_names, read, whole
from fcguard.results.recognise_http import http_response, http_status, without_query
from fcguard.results.recognise_rows import cursor, mapped_object, named_row, sqlalchemy_result, sqlite_row
from fcguard.results.recognise_tables import (
    array,
    array_scalar,
    arrow_table,
    pandas_table,
    polars_table,
    series,
)
from fcguard.results.recognise_tools import mcp_result, mcp_wire_result

__all__ = ["recognise"]

Recogniser: TypeAlias = Callable[[Any], Recognised | None]


def _image(value: Any) -> Recognised | None:
    """Write an image of the imaging library as PNG."""
    buffer = io.BytesIO()
    value.save(buffer, format="PNG")
    return Recognised("binary", Binary(buffer.getvalue(), "image/png"))


def _page(value: Any) -> Recognised | None:
    """Name the page that a browser shows; asking the browser for more could block or fail."""
    return Recognised("page", {"url": without_query(read(value, "url"))})


def _file(value: Any) -> Recognised | None:
    """Name an open file; reading it would move its position."""
    name = read(value, "name")
    return Recognised("file", {"$file": name if isinstance(name, str) else None}, notes=("unread",))


def _process(value: Any) -> Recognised | None:
    """Tell a process by `returncode`, `stdout` and `stderr`; only a finished one with its output at hand can mean failure."""
    streams = {}
    for name in ("stdout", "stderr"):
        stream = read(value, name)
        if isinstance(stream, (bytes, bytearray)):
            stream = _text_if_utf8(bytes(stream))
        streams[name] = stream
    code = whole(read(value, "returncode"))
    if any(stream is not None and not isinstance(stream, (str, Binary)) for stream in streams.values()):
        return Recognised("process", {"exit_code": code}, notes=("unread",))
    failure = None if code in (0, None) else Signal("process", _last_line(streams["stderr"]), code)
    return Recognised("process", {"exit_code": code, **streams}, failure)


def _text_if_utf8(data: bytes) -> Any:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return Binary(data)


def _last_line(stream: Any) -> str:
    lines = stream[-2000:].split("\n") if isinstance(stream, str) else []
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


_BY_NAME: Final[dict[tuple[str, str], Recogniser]] = {
    ("sqlalchemy", "Row"): named_row,
    ("sqlalchemy", "Result"): sqlalchemy_result,
    ("sqlalchemy", "FilterResult"): sqlalchemy_result,
    ("sqlalchemy", "AsyncCommon"): sqlalchemy_result,
    ("sqlite3", "Row"): sqlite_row,
    ("asyncpg", "Record"): named_row,
    ("pandas", "DataFrame"): pandas_table,
    ("pandas", "Series"): pandas_table,
    ("polars", "DataFrame"): polars_table,
    ("polars", "Series"): series,
    ("pyarrow", "Table"): arrow_table,
    ("numpy", "ndarray"): array,
    ("numpy", "generic"): array_scalar,
    ("PIL", "Image"): _image,
    ("playwright", "Page"): _page,
    ("playwright", "Frame"): _page,
    ("io", "BytesIO"): lambda value: Recognised("binary", Binary(value.getvalue())),
    ("io", "StringIO"): lambda value: Recognised("text", value.getvalue()),
}
"""(root of the module, class name) -> recogniser; roots without a leading `_`."""


def recognise(value: Any) -> Recognised | None:
    """Put a foreign object in plain terms; None if it is none of those known.

    Nothing is imported, sent, awaited or read from a network. A database cursor or result is read up to a limit, because its
    rows are the result; the rest stays unread and a note says so.

    Args:
        value: an object of any type.

    Raises:
        Exception: whatever the object's own methods raise.
    """
    cls = type(value)
    if cls is dict:
        return mcp_wire_result(value)
    for name in kind_names(cls):
        recogniser = _BY_NAME.get(name)
        if recogniser is not None:
            return recogniser(value)
    return _by_shape(value, cls)


def _may_describe(value: Any) -> bool:
    description = read(value, "description")
    return has(value, "description") and (description is None or isinstance(description, (list, tuple)))


def _by_shape(value: Any, cls: type) -> Recognised | None:
    status = http_status(value)
    if status is not None:
        return http_response(value, status)
    found = mcp_result(value)
    if found is not None:
        return found
    if whole(read(value, "returncode")) is not None and has(value, "stdout") and has(value, "stderr"):
        return _process(value)
    if callable(read(value, "fetchmany")) and _may_describe(value):
        return cursor(value)
    if issubclass(cls, io.IOBase) or ("tempfile", "_TemporaryFileWrapper") in kind_names(cls):
        return _file(value)
    return mapped_object(value)
