"""Names of parameters: which spellings mean the same, which names are never accepted, which are close."""

from __future__ import annotations

import difflib
import functools
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

__all__ = ["RESERVED", "NameIndex", "close_names", "is_identifier", "is_reserved", "spelling"]

RESERVED: Final = frozenset({"constructor", "prototype"})
"""Reserved names without underscores around them."""
_LONGEST: Final = 256
_LONGEST_HINT: Final = 64
_HUMPS: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_ID_WORDS: Final = frozenset({"id", "ids", "uuid", "uuids", "guid", "guids", "identifier", "identifiers"})


@functools.lru_cache(maxsize=4096)
def spelling(name: str) -> str:
    """Write a name in snake_case, so that camelCase, PascalCase, kebab-case and snake_case of the same words are equal.

    Underscores at the edges are part of the name: `_timeout` is not `timeout`. Letters are only split where the case or
    a separator shows it: `orderid` is not `order_id`.
    """
    if len(name) > _LONGEST:
        return name
    tail = name.lstrip("_")
    middle = tail.rstrip("_")
    before, after = name[: len(name) - len(tail)], tail[len(middle) :]
    return before + _HUMPS.sub("_", middle).replace("-", "_").lower() + after


def is_reserved(name: str, value: object = None, *, at_root: bool = True) -> bool:
    """Answer whether a name means something to a runtime and must be declared to be used.

    Python's `__class__` and its like and `__proto__` everywhere; `constructor` and `prototype` at the root, where they
    name parameters; deeper, where they may be data, only `constructor` with a `prototype` in it.
    """
    if len(name) > 4 and name.startswith("__") and name.endswith("__"):
        return True
    if name not in RESERVED:
        return False
    return at_root or (name == "constructor" and isinstance(value, dict) and "prototype" in value)


def is_identifier(name: str) -> bool:
    """Answer whether a parameter of this name identifies something, so that only the user can know its value."""
    return spelling(name).rpartition("_")[2] in _ID_WORDS


def close_names(name: str, known: Iterable[str], limit: int = 3) -> list[str]:
    """Answer the known names that look like a name, best first; for hints only, never to act upon."""
    sought = spelling(name[:_LONGEST_HINT]).replace("_", "")
    pairs = _pairs(sought)
    folded: dict[str, str] = {}
    for item in known:
        plain = spelling(item[:_LONGEST_HINT]).replace("_", "")
        if plain == sought or not pairs.isdisjoint(_pairs(plain)):
            folded.setdefault(plain, item)
    if not folded:
        return []
    return [folded[key] for key in difflib.get_close_matches(sought, folded, n=limit, cutoff=0.6)]


def _pairs(text: str) -> set[str]:
    return {text[index : index + 2] for index in range(len(text) - 1)}


class NameIndex:
    """The declared names of one object, findable by spelling.

    Args:
        declared: the declared names.
        aliases: declared name -> other names for it.
    """

    __slots__ = ("_by_spelling",)

    def __init__(self, declared: Collection[str], aliases: Mapping[str, Sequence[str]] | None = None) -> None:
        found: dict[str, set[str]] = {}
        for name in declared:
            found.setdefault(spelling(name), set()).add(name)
        for name, others in (aliases or {}).items():
            for other in others:
                found.setdefault(spelling(other), set()).add(name)
        self._by_spelling = found

    def declared_for(self, name: str) -> str | None:
        """Answer the one declared name that another spelling stands for; None if there is none, or more than one."""
        fitting = self._by_spelling.get(spelling(name))
        return next(iter(fitting)) if fitting is not None and len(fitting) == 1 else None
