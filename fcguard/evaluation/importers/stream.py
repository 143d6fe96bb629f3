"""Reading values one after the other from a file of any size: JSON Lines, one array, one value, or a ledger."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Final

from fcguard.errors import UsageError
from fcguard.evaluation.importers.ledger_file import is_ledger_file, iter_ledger_file
from fcguard.evaluation.trace import UnreadLog

__all__ = ["iter_values"]

_CHUNK: Final = 1 << 16
_FIRST_LINE: Final = 1 << 20
_SPACE: Final = " \t\r\n"


def iter_values(path: Path, unread: UnreadLog) -> Iterator[tuple[str, Any]]:
    """Yield each value of a file with its place (`line 3`, `item 7`).

    JSON Lines are read line by line and an array element by element, so memory holds one value at a time. One other
    value is read whole. A line that is not JSON is noted and skipped; in an array nothing can be found after a fault,
    so reading ends there, and the note says so. Of a SQLite ledger the records of its calls are read.

    Args:
        path: the file.
        unread: where faults are noted.

    Raises:
        UsageError: the file cannot be opened or is neither text nor a ledger.
    """
    if is_ledger_file(path):
        yield from iter_ledger_file(path, unread)
        return
    try:
        with path.open(encoding="utf-8-sig") as stream:
            first = stream.readline(_FIRST_LINE)
            while first and not first.strip():
                first = stream.readline(_FIRST_LINE)
            if first.lstrip().startswith("{") and not first.endswith("\n"):
                first += stream.readline()
            is_line = first.endswith("\n") and _is_json(first) and _has_more(stream)
            stream.seek(0)
            if is_line or (path.suffix.lower() in (".jsonl", ".ndjson") and first.strip() != "["):
                yield from _lines(stream, unread)
            elif first.lstrip().startswith("["):
                yield from _items(stream, unread)
            else:
                yield from _whole(stream, unread)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"trace {str(path)!r} cannot be read: {error}") from error


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _has_more(stream: IO[str]) -> bool:
    return any(line.strip() for line in stream)


def _lines(stream: IO[str], unread: UnreadLog) -> Iterator[tuple[str, Any]]:
    for number, line in enumerate(stream, 1):
        if not line.strip():
            continue
        try:
            yield f"line {number}", json.loads(line)
        except (ValueError, RecursionError) as error:
            unread.add(f"line {number}", f"not JSON: {error}")


def _whole(stream: IO[str], unread: UnreadLog) -> Iterator[tuple[str, Any]]:
    try:
        yield "file", json.load(stream)
    except (ValueError, RecursionError) as error:
        unread.add("file", f"not JSON: {error}")


def _items(stream: IO[str], unread: UnreadLog) -> Iterator[tuple[str, Any]]:
    """Decode an array element by element; the buffer doubles while an element is incomplete, so time stays linear."""
    decoder = json.JSONDecoder()
    buffer = stream.read(_CHUNK).lstrip()[1:]
    number, wanted = 0, _CHUNK
    while True:
        buffer = buffer.lstrip(_SPACE + ",")
        if buffer.startswith("]"):
            return
        try:
            value, end = decoder.raw_decode(buffer)
            is_whole = end < len(buffer) or isinstance(value, (dict, list))
        except RecursionError:
            unread.add(f"item {number + 1}", "nested too deeply; nothing after it was read")
            return
        except ValueError as error:
            is_whole, fault = False, error
        else:
            fault = ValueError("the file ends inside it")
        if is_whole:
            number += 1
            yield f"item {number}", value
            buffer, wanted = buffer[end:], _CHUNK
            continue
        more = stream.read(wanted)
        if not more:
            where = f"item {number + 1}"
            unread.add(where, f"not JSON: {fault}; nothing after it was read" if buffer else "the array is not closed")
            return
        buffer, wanted = buffer + more, wanted * 2
