"""Objects that consist of named fields or of items, and how to get at them without consuming or trusting anything."""

from __future__ import annotations

import dataclasses
import types
from collections import abc
from typing import Any, Final, Literal, NamedTuple

from fcguard.results.reading import kind_names

__all__ = ["Parts", "parts_of"]

_ABSENT: Final = object()
_VIEWS: Final[tuple[type, ...]] = (type({}.keys()), type({}.values()), type({}.items()))


class Parts(NamedTuple):
    """What an object consists of.

    Attributes:
        form: `fields`: pairs of key and value; `items`: values in order; `set`: values without order; `value`: another value that
            stands for the object.
        content: an iterator, or the other value.
    """

    form: Literal["fields", "items", "set", "value"]
    content: Any


def parts_of(value: Any, cls: type) -> Parts | None:
    """Answer what an object consists of; None for one that has no declared parts (its attributes are its own business).

    Args:
        value: an object that is not of a builtin JSON type.
        cls: its type.

    Raises:
        Exception: whatever the object's own methods raise.
    """
    if ("pydantic", "BaseModel") in kind_names(cls):
        return Parts("value", _dumped(value))
    names = _field_names(cls)
    if names is not None:
        return Parts("fields", _attributes(value, names))
    if issubclass(cls, types.SimpleNamespace):
        return Parts("fields", iter(list(vars(value).items())))
    if issubclass(cls, abc.Mapping):
        return Parts("fields", ((key, value[key]) for key in value))
    if issubclass(cls, (abc.Sequence, *_VIEWS)):
        return Parts("items", iter(value))
    if issubclass(cls, abc.Set):
        return Parts("set", iter(value))
    return None


def _dumped(value: Any) -> Any:
    """Dump a model: as JSON values if it can, else as Python values; fields that the model excludes stay excluded."""
    if not hasattr(type(value), "model_dump"):
        return value.dict()
    try:
        return value.model_dump(mode="json", warnings=False)
    except Exception:  # bytes that are no UTF-8, lone surrogates, values of foreign types
        return value.model_dump(warnings=False)


def _field_names(cls: type) -> list[str] | None:
    if dataclasses.is_dataclass(cls):
        return [field.name for field in dataclasses.fields(cls)]
    if issubclass(cls, tuple):
        names = getattr(cls, "_fields", None)  # a named tuple
        return list(names) if isinstance(names, tuple) else None
    declared = getattr(cls, "__attrs_attrs__", None)
    if isinstance(declared, tuple):
        return [attribute.name for attribute in declared]
    struct = getattr(cls, "__struct_fields__", None)
    return list(struct) if isinstance(struct, tuple) else None


def _attributes(value: Any, names: list[str]) -> abc.Iterator[tuple[str, Any]]:
    for name in names:
        found = getattr(value, name, _ABSENT)
        if found is not _ABSENT:
            yield name, found
