"""Reading foreign objects without trusting them: no attribute access raises, no library is imported, nothing is consumed."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Literal, TypeAlias

from fcguard.model.outcome import Signal

__all__ = [
    "Attachment",
    "Binary",
    "Kind",
    "Recognised",
    "has",
    "kind_names",
    "read",
    "records",
    "type_name",
    "whole",
]

_ABSENT: Final = object()

Kind = Literal["json", "text", "binary", "http", "rows", "mcp", "process", "dataframe", "page", "file", "object"]
"""What a returned value was recognised as."""

Names: TypeAlias = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Binary:
    """Bytes whose media type is known; None: look at the first bytes."""

    data: bytes
    media_type: str | None = None


@dataclass(frozen=True, slots=True)
class Attachment:
    """A whole that `data` shows only the start of; built when there is a place to keep it.

    Attributes:
        build: answers the bytes; may raise.
        media_type: IANA media type.
        suffix: ending of the file name, with its dot.
    """

    build: Callable[[], bytes]
    media_type: str
    suffix: str


@dataclass(frozen=True, slots=True)
class Recognised:
    """A foreign object in plain terms; `data` may hold further objects to be shaped.

    Attributes:
        kind: what it is.
        data: its content.
        failure: set if it means failure by its shape.
        notes: what could not be shown.
        attachment: the whole behind a preview.
    """

    kind: Kind
    data: Any
    failure: Signal | None = None
    notes: tuple[str, ...] = ()
    attachment: Attachment | None = None


def read(value: Any, name: str) -> Any:
    """Answer an attribute, or None if there is none or reading it raises."""
    try:
        return getattr(value, name)
    except Exception:
        return None


def has(value: Any, name: str) -> bool:
    """Answer whether there is an attribute without computing it: the content of an unread response would be fetched, or raise."""
    if inspect.getattr_static(value, name, _ABSENT) is not _ABSENT:
        return True
    return hasattr(type(value), "__getattr__") and read(value, name) is not None


def whole(value: Any) -> int | None:
    """Answer an integer that is no bool as a plain int (an `HTTPStatus` too), else None."""
    return int(value) if isinstance(value, int) and not isinstance(value, bool) else None


def type_name(cls: type) -> str:
    """Answer `module.Class`, without the module of builtins; never raises."""
    try:
        module, name = type.__getattribute__(cls, "__module__"), type.__getattribute__(cls, "__qualname__")
        text = name if module == "builtins" else f"{module}.{name}"
        return text.encode("ascii", "backslashreplace").decode()[:200]
    except Exception:
        return "object"


def kind_names(cls: type) -> Names:
    """Answer (root of the module, class name) of a class and its bases, in order; a leading `_` of the root does not count."""
    try:
        return _kind_names(cls)
    except Exception:
        return ()


@lru_cache(maxsize=1024)
def _kind_names(cls: type) -> Names:
    bases = type.__dict__["__mro__"].__get__(cls)
    return tuple((str(base.__module__).partition(".")[0].lstrip("_"), str(base.__name__)) for base in bases)


def records(columns: Sequence[Any], rows: Iterable[Any]) -> list[dict[Any, Any]]:
    """Answer rows as objects; a column name that comes again gets `#2`, `#3`, ..."""
    names: list[Any] = []
    seen: set[Any] = set()
    for column in columns:
        name, number = column, 2
        while name in seen:
            name, number = f"{column}#{number}", number + 1
        seen.add(name)
        names.append(name)
    return [dict(zip(names, row, strict=False)) for row in rows]
