"""Members of enums in `Literal[...]`: JSON carries their values, and pydantic takes plain members as Python objects only."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from contextlib import suppress
from enum import Enum
from typing import Any

from pydantic import ValidationError
from pydantic_core import to_jsonable_python

__all__ = ["Members", "literal_members", "with_members"]

Members = tuple[tuple[Enum, Any], ...]
"""Members with their values as JSON."""


def literal_members(schema: Any) -> Members:
    """Answer the members in the literals of a core schema that pydantic does not find by their value; without members of `str` and `int` enums."""
    found: dict[int, tuple[Enum, Any]] = {}
    for member in _members(schema):
        if not isinstance(member, (str, int)):
            with suppress(ValueError):  # a value that JSON cannot carry: nothing that is sent can mean it
                found[id(member)] = member, to_jsonable_python(member.value)
    return tuple(found.values())


def _members(schema: Any) -> Iterator[Enum]:
    if isinstance(schema, Mapping):
        if schema.get("type") == "literal":
            yield from (item for item in schema.get("expected", ()) if isinstance(item, Enum))
        for part in schema.values():
            yield from _members(part)
    elif isinstance(schema, (list, tuple)):
        for part in schema:
            yield from _members(part)


def with_members(value: Any, members: Members, error: ValidationError) -> Any:
    """Answer a copy of a JSON value with members in the places where a validation misses them; None if none belongs there.

    Args:
        value: what was validated.
        members: the members of its type's literals.
        error: what the validation says.
    """
    root = [copy.deepcopy(value)]
    is_changed = False
    for item in error.errors(include_url=False):
        loc, sent = item["loc"], item["input"]
        if item["type"] == "union_tag_invalid" and isinstance(sent, Mapping):
            named = item["ctx"]["discriminator"]
            for key in [key for key in sent if repr(key) in named]:
                is_changed |= _replace(root, (*loc, key), sent[key], members, item["ctx"]["expected_tags"])
        elif item["type"] == "literal_error":
            is_changed |= _replace(root, loc, sent, members, item["ctx"]["expected"])
    return root[0] if is_changed else None


def _replace(root: list[Any], loc: tuple[int | str, ...], sent: Any, members: Members, expected: str) -> bool:
    meant = next((one for one, value in members if _is_same(value, sent) and repr(one) in expected), None)
    if meant is None:
        return False
    place: Any = root
    key: Any = 0
    for part in loc:
        here = place[key]
        if part == "[key]":
            place[meant] = place.pop(key)
            return True
        if (isinstance(here, dict) and part in here) or (
            isinstance(here, list) and isinstance(part, int) and part < len(here)
        ):
            place, key = here, part
        # Other parts name the branch of a union.
    if not _is_same(place[key], sent):
        return False
    place[key] = meant
    return True


def _is_same(value: Any, sent: Any) -> bool:
    return isinstance(value, bool) is isinstance(sent, bool) and value == sent
