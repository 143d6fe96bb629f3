"""Any return value becomes strict JSON: copied, bounded, complete about what it had to replace, and never an exception."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, TypeAlias

from fcguard.model.evidence import Evidence
from fcguard.model.outcome import Signal
from fcguard.results.copying import COPY_DEPTH, LARGEST_EASY, WORST_ESCAPE, copy_dict, copy_list, is_clean
from fcguard.results.limits import MAX_CHARS, cut, dump
from fcguard.results.reading import Kind
from fcguard.results.walk import Walk

__all__ = ["Keep", "Shaped", "shape"]

Keep: TypeAlias = Callable[[bytes, str, str], Evidence]
"""`(data, media type, file name ending) -> Evidence`: stores an artifact."""


@dataclasses.dataclass(frozen=True, slots=True)
class Shaped:
    """A return value as JSON.

    Attributes:
        data: strict JSON values of builtin types; writing them as JSON and as UTF-8 cannot fail. A copy: later changes of the
            tool's own object do not show.
        kind: what the value was recognised as: `json`, `text`, `binary`, `http`, `rows`, `mcp`, `process`, `dataframe`, `page`,
            `file`, or `object` for one that has no JSON form.
        notes: what was replaced, sorted: `artifact_failed`, `bytes`, `cycle`, `depth`, `integer`, `key_collision`, `nan`,
            `surrogate`, `truncated`, `unread`, `unrepresentable`.
        failure: set if the value means failure by its shape; `fcguard.recovery.classify_signal` says which failure.
        size: characters of the whole as JSON, or of a text, or bytes, if `data` shows only a part; else None.
        evidence: artifacts that were kept for it.
    """

    data: Any
    kind: Kind = "json"
    notes: tuple[str, ...] = ()
    failure: Signal | None = None
    size: int | None = None
    evidence: tuple[Evidence, ...] = ()


def shape(value: Any, *, max_chars: int = MAX_CHARS, keep: Keep | None = None) -> Shaped:
    """Turn a tool's return value into JSON.

    Falsy values stay exactly what they are, and no value is searched for the word "error": an object means failure only by its
    shape (an HTTP response with a status of 400 or more or an unfollowed redirect, an MCP result with `isError`, a finished process with an exit code).
    Generators, iterators and coroutines are not consumed; database cursors and results are, up to a limit.

    Args:
        value: anything.
        max_chars: characters of JSON that `data` may have; beyond, `data` is a preview,
            `{"truncated": true, "size": ..., "preview": ..., "ref": ...}`.
        keep: stores the whole of what is cut, and large binary values; None: they are lost. If it raises, that is noted.

    Returns:
        The JSON form. Equal values give equal forms. Never raises an `Exception`, whatever the value's own methods do.
    """
    cls = type(value)
    if cls is dict:
        copied = None if "isError" in value else copy_dict(value, max_chars, COPY_DEPTH)
        if copied is not None:
            return _plain(copied[0])
    elif cls is str:
        if len(value) * WORST_ESCAPE + 2 <= max_chars and is_clean(value):
            return _plain(value, "text")
    elif cls is bool or value is None or (cls is int and -LARGEST_EASY < value < LARGEST_EASY):
        return _plain(value)
    elif cls is list:
        copied_list = copy_list(value, max_chars, COPY_DEPTH)
        if copied_list is not None:
            return _plain(copied_list[0])
    return _shape(value, max_chars, keep)


def _plain(data: Any, kind: Kind = "json", _new: Any = object.__new__) -> Shaped:
    """Build the common answer without the cost of a frozen dataclass's own constructor."""
    shaped = _new(Shaped)
    _set_data(shaped, data)
    _set_kind(shaped, kind)
    _set_notes(shaped, ())
    _set_failure(shaped, None)
    _set_size(shaped, None)
    _set_evidence(shaped, ())
    return shaped  # type: ignore[no-any-return]


_set_data, _set_kind, _set_notes, _set_failure, _set_size, _set_evidence = (
    Shaped.__dict__[field.name].__set__ for field in dataclasses.fields(Shaped)
)


def _shape(value: Any, max_chars: int, keep: Keep | None) -> Shaped:
    walk = Walk(keep)
    data = walk.run(value)
    kind: Kind = "text" if walk.kind == "json" and isinstance(data, str) else walk.kind
    size = walk.size
    text = data if isinstance(data, str) else dump(data)
    if len(text) > max_chars or (isinstance(data, str) and len(dump(data)) > max_chars):
        walk.notes.add("truncated")
        media_type, suffix = ("text/plain", ".txt") if isinstance(data, str) else ("application/json", ".json")
        ref = walk.keep(text.encode(), media_type, suffix)
        size = len(text) if size is None else size
        data = cut(data, len(text), max_chars, ref)
    return Shaped(data, kind, tuple(sorted(walk.notes)), walk.failure, size, tuple(walk.evidence))
