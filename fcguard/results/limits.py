"""How much of a result is looked at, and how a result that is too large is cut so that it stays JSON."""

from __future__ import annotations

import json
from typing import Any, Final

__all__ = ["INLINE_BYTES", "MAX_CHARS", "MAX_DEPTH", "MAX_WORK", "WORK_PER_NODE", "WORK_PER_OBJECT", "cut", "dump"]

MAX_CHARS: Final = 100_000
"""Characters of JSON that a result may have in the envelope, by default."""

MAX_DEPTH: Final = 64
"""Containers inside each other that are followed."""

MAX_WORK: Final = 64_000_000
"""Work spent on one result: one for each character of text, `WORK_PER_NODE` for each value, `WORK_PER_OBJECT` more for
each that is not of a builtin type. What lies beyond is cut."""

WORK_PER_NODE: Final = 64
WORK_PER_OBJECT: Final = 512

INLINE_BYTES: Final = 2048
"""Longest binary value that is written into `data` itself."""

_MIN_SHARE: Final = 64
"""Least room that a field of a cut object is given; the fields beyond are dropped."""

_encode = json.JSONEncoder(ensure_ascii=False, check_circular=False, allow_nan=False, separators=(",", ":")).encode


def dump(value: Any) -> str:
    """Write a shaped value as compact JSON text."""
    return _encode(value)


def cut(data: Any, size: int, room: int, ref: str | None) -> dict[str, Any]:
    """Answer a preview of a shaped value that is too large: `{"truncated", "size", "items"?, "preview", "ref"?}`.

    A text keeps its first characters, a list its first items, an object its fields with long values cut in turn.

    Args:
        data: shaped value.
        size: characters of a text, or of the whole as JSON.
        room: characters that the answer may have as JSON; a room below about 100 is exceeded by the frame itself.
        ref: where the whole is kept; None: nowhere.
    """
    frame: dict[str, Any] = {"truncated": True, "size": size}
    if isinstance(data, (list, dict)):
        frame["items"] = len(data)
    end = {} if ref is None else {"ref": ref}
    taken, _ = _take(data, max(0, room - len(dump({**frame, "preview": None, **end})) + len("null")))
    return {**frame, "preview": taken, **end}


def _take(value: Any, room: int) -> tuple[Any, int]:
    """Answer as much of a value as fits into `room` characters of JSON, and how many it takes."""
    if isinstance(value, str):
        return _take_text(value, room)
    if isinstance(value, list):
        return _take_list(value, room)
    if isinstance(value, dict):
        return _take_object(value, room)
    used = len(dump(value))
    return (value, used) if used <= room else (None, 4)


def _take_text(text: str, room: int) -> tuple[str, int]:
    kept = text[: max(0, room - 2)]
    used = len(dump(kept))
    while used > room and kept:  # quotes and control characters take more room than they have characters
        kept = kept[: max(0, min(len(kept) - 1, len(kept) * (room - 2) // used))]
        used = len(dump(kept))
    return kept, used


def _take_list(items: list[Any], room: int) -> tuple[list[Any], int]:
    taken: list[Any] = []
    used = 2
    for item in items:
        part, size = _take(item, room - used - 1)
        fits = used + size + 1 <= room
        if fits and (part == item or not taken):
            taken.append(part)
            used += size + 1
        if not fits or part != item:
            break
    return taken, used


def _take_object(fields: dict[str, Any], room: int) -> tuple[dict[str, Any], int]:
    taken: dict[str, Any] = {}
    used, left = 2, len(fields)
    for name, value in fields.items():
        label = len(dump(name)) + 2
        share = max((room - used) // left, _MIN_SHARE)
        part, size = _take(value, min(share, room - used) - label)
        if used + label + size > room:
            break
        taken[name] = part
        used += label + size
        left -= 1
    return taken, used
