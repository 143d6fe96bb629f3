"""Copies values into plain JSON: JSON stays, known Python values get their JSON form, the rest is refused."""

from __future__ import annotations

import dataclasses
import enum
import math
import operator
import os
from collections.abc import Iterator, Mapping
from typing import Any, Final

import pydantic
import pydantic_core

from fcguard.arguments.numerals import MAX_EXACT
from fcguard.arguments.parse import MAX_DEPTH, MAX_SIZE, Unreadable
from fcguard.arguments.records import Fold, Path, dotted
from fcguard.model.frozen import FrozenDict, FrozenList

__all__ = ["MAX_INTEGER", "NotPlain", "copy_plain", "plain_value", "to_plain"]

MAX_INTEGER: Final = 10**4000
"""Integers of this size and more are refused; they could not be written as text again in reasonable time."""
_MAX_NODES: Final = MAX_SIZE // 4

_DICTS: Final[frozenset[type]] = frozenset((dict, FrozenDict))
_LISTS: Final[frozenset[type]] = frozenset((list, FrozenList))


class NotPlain(Exception):
    """A value needs the long way (`to_plain`, folding): it is not plain JSON, or holds what may be folded."""


def copy_plain(value: Any, depth: int = 2, budget: list[int] | None = None) -> Any:
    """Copy a plain JSON value below the root; the quick way, which leaves every oddity to the long way.

    Raises:
        NotPlain: something else than plain JSON, over the limits, a float that is a whole number, or a name to look at.
    """
    if budget is None:
        budget = [_MAX_NODES]
    budget[0] -= len(value)
    if depth > MAX_DEPTH or budget[0] < 0:
        raise NotPlain
    if type(value) in _DICTS:
        made = {}
        for key, item in value.items():
            if type(key) is not str or key[:2] == "__" or key == "constructor" or not key.isascii():
                raise NotPlain
            made[key] = item if _is_plain_scalar(item, budget) else copy_plain(item, depth + 1, budget)
        return made
    return [item if _is_plain_scalar(item, budget) else copy_plain(item, depth + 1, budget) for item in value]


def _is_plain_scalar(item: Any, budget: list[int]) -> bool:
    kind = type(item)
    if kind is str:
        budget[0] -= len(item) >> 2 if item.isascii() else len(item)
        if budget[0] < 0:
            raise NotPlain
        return True
    if kind is bool or item is None:
        return True
    if kind is int:
        if -MAX_EXACT < item < MAX_EXACT:
            return True
        raise NotPlain
    if kind is float:
        if math.isfinite(item) and not item.is_integer():
            return True
        raise NotPlain
    if kind in _DICTS or kind in _LISTS:
        return False
    raise NotPlain


def to_plain(value: Any) -> tuple[dict[str, Any], list[Fold]]:
    """Copy a mapping into plain JSON values.

    Args:
        value: a mapping, of any kind and with any content; or anything else, which is refused.

    Returns:
        The copy, and a fold for each value that was not JSON before.

    Raises:
        Unreadable: something has no JSON form, is too deep, too large, or refers to itself. No other exception,
            whatever the objects do (BaseException passes).
    """
    copier = _Copier()
    try:
        if not isinstance(value, Mapping):
            reason = f"the arguments must be one JSON object, not a {type(value).__name__}"
            raise Unreadable("not_an_object", reason)
        return copier.mapping(value, ()), copier.folds
    except Unreadable:
        raise
    except Exception as error:
        raise Unreadable(
            "python_value",
            f"reading the arguments raised {type(error).__name__}; pass plain JSON values",
            path=copier.path,
        ) from None


def plain_value(value: Any) -> Any:
    """Copy any value into plain JSON values.

    Raises:
        Unreadable: as `to_plain`.
    """
    return to_plain({"value": value})[0]["value"]


class _Copier:
    __slots__ = ("budget", "folds", "open", "path")

    def __init__(self) -> None:
        self.folds: list[Fold] = []
        self.budget = MAX_SIZE
        self.open: set[int] = set()
        self.path: Path = ()

    def mapping(self, value: Any, path: Path) -> dict[str, Any]:
        self._enter(value, path)
        made: dict[str, Any] = {}
        for key, item in value.items():
            name = key if type(key) is str else self._key(key, path)
            if name in made:
                raise Unreadable("duplicate_key", f"the key {name!r} is given more than once", path=(*path, name))
            _check_key(name, path)
            self.budget -= _bytes(name)
            made[name] = self.value(item, (*path, name))
        self.open.discard(id(value))
        return made

    def sequence(self, value: Any, path: Path) -> list[Any]:
        self._enter(value, path)
        made = [self.value(item, (*path, index)) for index, item in enumerate(value)]
        self.open.discard(id(value))
        return made

    def value(self, item: Any, path: Path) -> Any:
        self.path = path
        self.budget -= 1
        kind = type(item)
        if kind is str:
            self.budget -= _bytes(item)
        if self.budget < 0:
            raise Unreadable("size", f"the arguments are larger than {MAX_SIZE} bytes; send a smaller payload")
        if kind is str or kind is bool or item is None:
            return item
        if kind is int:
            return _integer(item, path)
        if kind is float:
            return _float(item, path)
        if kind in _DICTS:
            return self.mapping(item, path)
        if kind in _LISTS:
            return self.sequence(item, path)
        return self._foreign(item, path)

    def _foreign(self, item: Any, path: Path) -> Any:
        """Give a Python value its JSON form, and record it."""
        made = self._converted(item, path)
        self.folds.append(Fold(dotted(path), "python_value", _named(item), made))
        return made

    def _converted(self, item: Any, path: Path) -> Any:
        if isinstance(item, enum.Enum):
            return self.value(item.value, path)
        if isinstance(item, str):
            return str.__str__(item)
        if isinstance(item, int):
            return _integer(int.__index__(item), path)
        if isinstance(item, float):
            return _float(float.__float__(item), path)
        if isinstance(item, Mapping):
            return self.mapping(item, path)
        if isinstance(item, list | tuple):
            return self.sequence(item, path)
        if isinstance(item, set | frozenset):
            return sorted(self.sequence(item, path), key=lambda made: (type(made).__name__, repr(made)))
        if isinstance(item, pydantic.BaseModel):
            return self._fields(item, item.model_dump(by_alias=True), path)
        if dataclasses.is_dataclass(item) and not isinstance(item, type):
            return self._fields(
                item, {field.name: getattr(item, field.name) for field in dataclasses.fields(item)}, path
            )
        if isinstance(item, Iterator | type) or callable(item):
            raise _no_form(item, path)
        if isinstance(item, os.PathLike):
            return self.value(os.fspath(item), path)
        if hasattr(item, "__index__"):
            return _integer(operator.index(item), path)
        return self._by_pydantic(item, path)

    def _fields(self, item: Any, fields: dict[str, Any], path: Path) -> dict[str, Any]:
        self._enter(item, path)
        made = self.mapping(fields, path)
        self.open.discard(id(item))
        return made

    def _by_pydantic(self, item: Any, path: Path) -> Any:
        """Dates, times, UUID, Decimal, paths, bytes, addresses: what pydantic has a JSON form for."""
        try:
            made = pydantic_core.to_jsonable_python(item)
        except Exception:
            raise _no_form(item, path) from None
        return self.value(made, path)

    def _key(self, key: Any, path: Path) -> str:
        if isinstance(key, enum.Enum):
            key = key.value
        if not isinstance(key, str):
            raise Unreadable("python_value", f"keys must be strings, not {type(key).__name__}", path=path)
        return str.__str__(key)

    def _enter(self, value: Any, path: Path) -> None:
        if len(path) >= MAX_DEPTH:
            raise Unreadable(
                "depth",
                f"the arguments are nested deeper than {MAX_DEPTH} levels; send a flatter structure",
                path=path[:3],
            )
        if id(value) in self.open:
            raise Unreadable("python_value", "the value contains itself", path=path)
        self.open.add(id(value))


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _check_key(name: str, path: Path) -> None:
    if not name.isascii() and any("\ud800" <= character <= "\udfff" for character in name):
        raise Unreadable(
            "key_surrogate", f"the key {name!r} holds half of a surrogate pair; use valid Unicode", path=path
        )


def _integer(number: int, path: Path) -> int:
    if -MAX_INTEGER < number < MAX_INTEGER:
        return number
    raise Unreadable("number_range", "the integer has too many digits", path=path)


def _float(number: float, path: Path) -> float:
    if math.isfinite(number):
        return number
    raise Unreadable("not_a_number", f"{number} is not JSON; leave the value out, or send null or a number", path=path)


def _no_form(item: Any, path: Path) -> Unreadable:
    return Unreadable("python_value", f"a {type(item).__name__} has no JSON form; pass plain JSON values", path=path)


def _named(item: Any) -> str:
    return f"<{type(item).__module__}.{type(item).__qualname__}>"
