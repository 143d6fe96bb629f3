"""Folding of single values: what a text or a number means for a type, an enum or a date format."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from fcguard.arguments.numerals import integer_from, number_from
from fcguard.arguments.parse import Unreadable, parse_text

__all__ = ["comma_list", "enum_member", "is_member", "is_same", "json_equal", "text_as", "types_of"]

_BOOLEANS: Final = {"true": True, "false": False}
_SEPARATORS: Final = re.compile(r"(?<=[^\W_])[\s_-]+(?=[^\W_])")
_DIGITS_APART: Final = re.compile(r"\d[\s_-]+\d")
_NOT_IN_LIST: Final = re.compile(r"""["'\[\]{}()\n\r;]""")
_LONGEST_ENUM: Final = 200


def types_of(schema: Mapping[str, Any]) -> tuple[str, ...]:
    """Answer the types that a schema names itself; none means: not restricted."""
    named = schema.get("type")
    return (named,) if isinstance(named, str) else tuple(named) if isinstance(named, list) else ()


def json_equal(left: Any, right: Any) -> bool:
    """Compare JSON values as JSON Schema does: `1` equals `1.0`, and neither equals `true`."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(json_equal(left[key], right[key]) for key in left)
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(json_equal(a, b) for a, b in zip(left, right, strict=True))
    return bool(left == right)


def is_member(value: Any, members: list[Any]) -> bool:
    """Answer whether a value is one of an enum's members."""
    return any(json_equal(value, member) for member in members)


def enum_member(value: Any, members: list[Any]) -> Any:
    """Answer the one member that a value means, apart from case, spaces, `-` and `_` between words; else None.

    A number means the text of its digits and the other way round. A member that is None is never meant.
    """
    fitting: list[Any] = []
    if isinstance(value, str) and len(value) <= _LONGEST_ENUM:
        plain = _plain(value)
        fitting = [member for member in members if isinstance(member, str) and plain and _plain(member) == plain]
        for number in (number_from(value), _BOOLEANS.get(value.lower())):
            fitting += [member for member in members if number is not None and json_equal(member, number)]
    elif isinstance(value, int) and not isinstance(value, bool) and all(isinstance(member, str) for member in members):
        fitting = [member for member in members if member == str(value)]
    return fitting[0] if len(fitting) == 1 else None


def _plain(text: str) -> str:
    """Drop what is noise between words; digits stay apart (`1-2` is not `12`), and signs at the edges stay."""
    text = text.strip().casefold()
    return text if _DIGITS_APART.search(text) else _SEPARATORS.sub("", text)


def text_as(text: str, types: tuple[str, ...], max_depth: int) -> list[Any]:
    """Answer every value of the types that a text is the plain spelling of; the text is of none of the types itself.

    Args:
        text: what was sent.
        types: the wanted JSON Schema types.
        max_depth: deepest nesting of an object or array.
    """
    found: list[Any] = []
    for kind in types:
        reader = _READERS.get(kind)
        value = None if reader is None else reader(text, max_depth)
        if value is not None and not any(is_same(value, other) for other in found):
            found.append(value)
    return found


def is_same(left: Any, right: Any) -> bool:
    """Compare JSON values more strictly: `1` and `1.0` differ."""
    return type(left) is type(right) and json_equal(left, right)


def _container(text: str, opening: str, max_depth: int) -> Any:
    if not text.lstrip(" \t\r\n").startswith(opening):
        return None
    try:
        return parse_text(text, max_depth)
    except (Unreadable, ValueError):
        return None


_READERS: Final[Mapping[str, Callable[[str, int], Any]]] = {
    "integer": lambda text, _: integer_from(text),
    "number": lambda text, _: number_from(text),
    "boolean": lambda text, _: _BOOLEANS.get(text.lower()),
    "array": lambda text, max_depth: _container(text, "[", max_depth),
    "object": lambda text, max_depth: _container(text, "{", max_depth),
}
"""Type -> how a text is read as it; None: it is not one."""


def comma_list(text: str) -> list[str] | None:
    """Split `red, blue`; None if it is no list of at least two plain words, or its commas could mean something else."""
    if "," not in text or _NOT_IN_LIST.search(text):
        return None
    parts = [part.strip() for part in text.split(",")]
    return parts if all(parts) else None
