"""The walk over a return value: one loop with its own stack, so that depth, size and cycles of a value cannot hurt."""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any, Final, Literal

from fcguard.model.evidence import Evidence
from fcguard.model.outcome import Signal
from fcguard.results.limits import INLINE_BYTES, MAX_DEPTH, MAX_WORK, WORK_PER_NODE, WORK_PER_OBJECT, dump
from fcguard.results.media import media_type_of, suffix_of
from fcguard.results.reading import Attachment, Binary, Kind, Recognised, type_name
from fcguard.results.recognise import recognise
from fcguard.results.scalars import NOT_SCALAR, clean_text, integer, scalar
from fcguard.results.structures import parts_of

__all__ = ["Walk"]

_PREVIEW_BYTES: Final = 64
_LONGEST_PATH: Final = 200
_MOST_STANDINS: Final = 8
"""How often one value may stand for another (an enum's value, a model's dump) before it counts as unrepresentable."""


class _Frame:
    """A container that is being filled."""

    __slots__ = ("collisions", "entries", "form", "key", "out", "source")

    def __init__(
        self, entries: Iterator[Any], out: Any, form: Literal["fields", "items", "set"], source: Any, key: Any
    ) -> None:
        self.entries, self.out, self.form, self.source, self.key = entries, out, form, source, key
        self.collisions: dict[str, int] = {}


class Walk:
    """One walk; used once.

    Attributes:
        notes: what was replaced.
        evidence: what was kept.
        kind: what the whole value was recognised as.
        failure: whether the whole value means failure by its shape.
        size: bytes of the whole value if it is binary and only shown in part.

    Args:
        keep: stores artifacts; None: they are lost.
    """

    __slots__ = ("_entered", "_frames", "_keep", "_work", "evidence", "failure", "kind", "notes", "size")

    def __init__(self, keep: Callable[[bytes, str, str], Evidence] | None) -> None:
        self.notes: set[str] = set()
        self.evidence: list[Evidence] = []
        self.kind: Kind = "json"
        self.failure: Signal | None = None
        self.size: int | None = None
        self._keep = keep
        self._work = MAX_WORK
        self._frames: list[_Frame] = []
        self._entered: dict[int, _Frame] = {}

    def run(self, value: Any) -> Any:
        """Answer the JSON form of a value."""
        top: list[Any] = []
        frames = self._frames
        frames.append(_Frame(iter((value,)), top, "items", None, None))
        while frames:
            frame = frames[-1]
            try:
                entry = next(frame.entries)
            except StopIteration:
                self._leave(frames.pop())
                continue
            except Exception:
                self.notes.add("unrepresentable")
                self._leave(frames.pop())
                continue
            if self._work <= 0:
                self.notes.add("truncated")
                self._leave(frames.pop())
                continue
            self._work -= WORK_PER_NODE
            if frame.form == "fields":
                key = self._key(entry[0], frame)
                frame.out[key] = None
                frame.out[key] = self._value(entry[1], key)
            else:
                frame.out.append(self._value(entry, len(frame.out)))
        return top[0]

    def keep(self, data: bytes, media_type: str, suffix: str) -> str | None:
        """Store an artifact and answer its reference; None without a place, or if storing failed (which is noted)."""
        if self._keep is None:
            return None
        try:
            evidence = self._keep(data, media_type, suffix)
        except Exception:
            self.notes.add("artifact_failed")
            return None
        self.evidence.append(evidence)
        return evidence.ref

    # Values ------------------------------------------------------------------------------------------------------

    def _value(self, value: Any, key: Any) -> Any:
        cls = type(value)
        if cls is str:
            return self._text(value)
        if value is None or cls is bool:
            return value
        if cls is int:
            return self._integer(value)
        if cls is float:
            return self._float(value)
        if cls is dict and (len(self._frames) > 1 or "isError" not in value):
            return self._enter("fields", iter(list(value.items())), value, key)
        if cls is list or cls is tuple:
            return self._enter("items", iter(value[:]), value, key)
        if cls is set or cls is frozenset:
            return self._enter("set", iter(list(value)), value, key)
        try:
            return self._foreign(value, key)
        except Exception:
            return self._placeholder(cls)

    def _foreign(self, value: Any, key: Any) -> Any:
        open_frame = self._entered.get(id(value))
        if open_frame is not None:
            return self._cycle(open_frame)
        self._work -= WORK_PER_OBJECT
        source = value
        for _ in range(_MOST_STANDINS):
            cls = type(value)
            if issubclass(cls, (bytes, bytearray, memoryview)):
                return self._binary(bytes(value), None)
            if cls is Binary:
                return self._binary(value.data, value.media_type)
            if issubclass(cls, Enum):
                value = value.value
                continue
            simple = self._subclass_of_builtin(value, cls)
            if simple is not NOT_SCALAR:
                return simple
            found = self._recognised(value)
            if found is not None:
                value = found.data
                continue
            if cls is dict:
                return self._enter("fields", iter(list(value.items())), source, key)
            parts = parts_of(value, cls)
            if parts is None:
                break
            if parts.form != "value":
                return self._enter(parts.form, parts.content, source, key)
            value = parts.content
        return self._placeholder(type(source))

    def _subclass_of_builtin(self, value: Any, cls: type) -> Any:
        if value is None or cls is bool:
            return value
        if issubclass(cls, str):
            return self._text(str.__str__(value))
        if issubclass(cls, int):
            return self._integer(int.__int__(value))
        if issubclass(cls, float):
            return self._float(float.__float__(value))
        text = scalar(value, cls)
        if text is None:
            self.notes.add("nan")
        return self._text(text) if type(text) is str else text

    def _recognised(self, value: Any) -> Recognised | None:
        try:
            found = recognise(value)
        except Exception:
            return None
        if found is None:
            return None
        self.notes.update(found.notes)
        if len(self._frames) == 1:
            self.kind = found.kind
            self.failure = found.failure
        elif len(self._frames) == 2 and found.kind == "rows" and not self._frames[1].out:
            self.kind = "rows"
        ref = self._attach(found.attachment) if found.attachment is not None else None
        return found if ref is None else Recognised(found.kind, {**found.data, "ref": ref}, found.failure)

    def _attach(self, attachment: Attachment) -> str | None:
        if self._keep is None:
            return None
        try:
            data = attachment.build()
        except Exception:
            self.notes.add("artifact_failed")
            return None
        return self.keep(data, attachment.media_type, attachment.suffix)

    def _text(self, text: str) -> str:
        if len(text) > self._work:
            self.notes.add("truncated")
            text = text[: max(0, self._work)]
        self._work -= len(text)
        if text.isascii():
            return text
        clean = clean_text(text)
        if clean != text:
            self.notes.add("surrogate")
        return clean

    def _integer(self, value: int) -> Any:
        shown = integer(value)
        if shown is not value:
            self.notes.add("integer")
        return shown

    def _float(self, value: float) -> float | None:
        if math.isfinite(value):
            return value
        self.notes.add("nan")
        return None

    def _binary(self, data: bytes, media_type: str | None) -> dict[str, Any]:
        self.notes.add("bytes")
        media_type = clean_text(media_type) if media_type else media_type_of(data)
        if len(self._frames) == 1:
            self.kind = "binary"
        if len(data) <= INLINE_BYTES:
            return {"$bytes": base64.b64encode(data).decode("ascii"), "media_type": media_type}
        if len(self._frames) == 1:
            self.size = len(data)
        shown: dict[str, Any] = {
            "truncated": True,
            "size": len(data),
            "media_type": media_type,
            "digest": f"sha256:{hashlib.sha256(data).hexdigest()}",
            "preview": {"$bytes": base64.b64encode(data[:_PREVIEW_BYTES]).decode("ascii")},
        }
        ref = self.keep(data, media_type, suffix_of(media_type))
        if ref is None:
            self.notes.add("truncated")
            return shown
        return {**shown, "ref": ref}

    def _placeholder(self, cls: type) -> dict[str, Any]:
        self.notes.add("unrepresentable")
        if len(self._frames) == 1:
            self.kind = "object"
        return {"$object": type_name(cls)}

    # Containers --------------------------------------------------------------------------------------------------

    def _enter(self, form: Literal["fields", "items", "set"], entries: Iterator[Any], source: Any, key: Any) -> Any:
        open_frame = self._entered.get(id(source))
        if open_frame is not None:
            return self._cycle(open_frame)
        if len(self._frames) > MAX_DEPTH:
            self.notes.add("depth")
            return {"$truncated": "depth"}
        out: Any = {} if form == "fields" else []
        frame = _Frame(entries, out, form, source, key)
        self._entered[id(source)] = frame
        self._frames.append(frame)
        return out

    def _leave(self, frame: _Frame) -> None:
        self._entered.pop(id(frame.source), None)
        if frame.form == "set":
            frame.out.sort(key=_set_order)

    def _cycle(self, frame: _Frame) -> dict[str, str]:
        self.notes.add("cycle")
        path = "$"
        for above in self._frames[2 : self._frames.index(frame) + 1]:
            path += f"[{above.key}]" if isinstance(above.key, int) else f".{above.key}"
        return {"$cycle": path if len(path) <= _LONGEST_PATH else path[: _LONGEST_PATH - 1] + "…"}

    def _key(self, key: Any, frame: _Frame) -> str:
        text = self._text(key if type(key) is str else self._key_text(key))
        if text not in frame.out:
            return text
        self.notes.add("key_collision")
        number = frame.collisions.get(text, 2)
        while f"{text}#{number}" in frame.out:
            number += 1
        frame.collisions[text] = number + 1
        return f"{text}#{number}"

    def _key_text(self, key: Any) -> str:
        """Write a key as JSON writes it (`1`, `true`, `null`), a compound one as its own JSON text."""
        inner = Walk(None)
        shown = inner.run(key)
        self.notes |= inner.notes - {"nan", "bytes"}
        return shown if isinstance(shown, str) else dump(shown)


_RANKS: Final = {type(None): 0, bool: 1, int: 2, float: 2, str: 3}


def _set_order(item: Any) -> tuple[int, Any, str]:
    rank = _RANKS.get(type(item), 4)
    return (rank, item if rank in (2, 3) else 0, dump(item) if rank in (1, 4) else "")
