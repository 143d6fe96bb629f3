"""The short way for plain results: containers of builtin scalars that are surely small are copied and judged in one pass."""

from __future__ import annotations

from typing import Any, Final

__all__ = ["COPY_DEPTH", "LARGEST_EASY", "WORST_ESCAPE", "copy_dict", "copy_list", "is_clean"]

COPY_DEPTH: Final = 8
"""Containers inside each other that the short way follows."""

LARGEST_EASY: Final = 1 << 63

WORST_ESCAPE: Final = 6
"""Characters of JSON that one character of a text may take (a control character)."""

_PUNCTUATION: Final = 30
"""More than the characters of JSON that any short integer, float or word takes, with quotes, colon and comma."""


def copy_dict(value: dict[Any, Any], room: int, depth: int) -> tuple[dict[Any, Any], int] | None:
    """Copy a dict of text keys and plain values, containers included.

    Args:
        value: of type dict exactly.
        room: characters of JSON that it may have, guessed high.
        depth: containers inside each other that are still followed.

    Returns:
        The copy and the room that is left; None if the dict needs the long way: too large, too deep, holding itself, or holding
        anything but builtin scalars, dicts and lists that JSON and UTF-8 can hold as they are.
    """
    copy: dict[Any, Any] | None = None
    try:
        for key, item in value.items():
            cls = type(item)
            if cls is str:
                if not item.isascii():
                    item.encode()
                room -= len(item) * WORST_ESCAPE
            elif cls is int:
                if not -LARGEST_EASY < item < LARGEST_EASY:
                    return None
            elif cls is float:
                if item - item != 0.0:
                    return None
            elif cls is dict or cls is list:
                inner: Any = None
                if depth > 0:
                    inner = copy_dict(item, room, depth - 1) if cls is dict else copy_list(item, room, depth - 1)
                if inner is None:
                    return None
                if copy is None:
                    copy = value.copy()
                copy[key], room = inner
            elif item is not None and cls is not bool:
                return None
            if type(key) is not str:
                return None
            if not key.isascii():
                key.encode()
            room -= len(key) * WORST_ESCAPE + _PUNCTUATION
            if room < 0:
                return None
    except (UnicodeEncodeError, RuntimeError):  # a lone surrogate; another thread changes the dict
        return None
    return (value.copy() if copy is None else copy), room


def copy_list(value: list[Any], room: int, depth: int) -> tuple[list[Any], int] | None:
    """Copy a list of plain values; as `copy_dict`."""
    copy: list[Any] = []
    for item in value:
        item_copy = item
        cls = type(item)
        if cls is str:
            if not is_clean(item):
                return None
            room -= len(item) * WORST_ESCAPE
        elif cls is int:
            if not -LARGEST_EASY < item < LARGEST_EASY:
                return None
        elif cls is float:
            if item - item != 0.0:
                return None
        elif cls is dict or cls is list:
            inner: Any = None
            if depth > 0:
                inner = copy_dict(item, room, depth - 1) if cls is dict else copy_list(item, room, depth - 1)
            if inner is None:
                return None
            item_copy, room = inner
        elif item is not None and cls is not bool:
            return None
        room -= _PUNCTUATION
        if room < 0:
            return None
        copy.append(item_copy)
    return copy, room


def is_clean(text: str) -> bool:
    """Answer whether UTF-8 can hold a text."""
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
