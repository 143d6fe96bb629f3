"""Folds other spellings of parameter names, only where exactly one declared name can be meant."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fcguard.arguments.changes import Changes
from fcguard.arguments.engine import Engine
from fcguard.arguments.names import NameIndex
from fcguard.arguments.records import Path

__all__ = ["fold_names"]


def fold_names(
    engine: Engine,
    schema: dict[str, Any],
    value: dict[str, Any],
    path: Path,
    changes: Changes,
    *,
    known: frozenset[str],
    aliases: Mapping[str, Sequence[str]],
) -> dict[str, Any]:
    """Rename the keys of one object.

    An object deeper within the arguments that its schema takes as it stands is left alone: what is not declared there
    may be data.

    Args:
        engine: decides whether an object is valid as it stands.
        schema: the schema object with the `properties`.
        value: the object.
        path: where it stands.
        changes: gets the record; two names for one parameter are refused.
        known: every name declared for this object.
        aliases: parameter -> other names; for the root only.

    Returns:
        The object, or a copy with other names in the same order.
    """
    properties = schema["properties"]
    index = engine.tree.indexes.get(id(properties))
    if index is None:
        index = engine.tree.indexes[id(properties)] = NameIndex(properties, None if path else aliases)
    meant: dict[str, list[str]] = {}
    for key in value:
        if key not in known and (target := index.declared_for(key)) is not None:
            meant.setdefault(target, []).append(key)
    if not meant or (path and schema.get("additionalProperties") is not False and engine.fits(schema, value)):
        return value
    renamed: dict[str, str] = {}
    for target, keys in meant.items():
        given = [target, *keys] if target in value else keys
        if len(given) > 1:
            both = " and ".join(map(repr, given))
            for key in keys:
                changes.refuse((*path, key), "name_collision", f"{both} mean the same parameter; send only {target!r}")
        else:
            renamed[keys[0]] = target
            changes.note((*path, target), "name", keys[0], target)
    return {renamed.get(key, key): item for key, item in value.items()} if renamed else value
