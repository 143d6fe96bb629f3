"""Picks, among the branches of a union that a value fits none of, the faults that the model can act on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fcguard.arguments.faults import Fault
from fcguard.arguments.records import Path
from fcguard.arguments.scalars import is_member, types_of
from fcguard.arguments.tree import SchemaTree

__all__ = ["at", "pick", "tag_of"]

_HOPS: Final = 32
_MOST_TAGS: Final = 10


def at(value: Any, path: Path) -> Any:
    """Answer what stands at a path of a value."""
    for part in path:
        value = value[part]
    return value


def pick(tree: SchemaTree, fault: Fault, arms: list[list[Fault]], instance: Any) -> list[Fault] | None:
    """Answer the faults to word in place of one fault of `anyOf` or `oneOf`.

    Args:
        tree: the schema.
        fault: the fault of the union.
        arms: the faults of each of its branches.
        instance: the value that fits none of them.

    Returns:
        The faults of the branch that a tag chooses, else of the closest branch; None if nothing is better than to say
        that no branch, or more than one, fits.
    """
    branches = [_resolved(tree, branch) for branch in fault.schema.get(fault.keyword, ())]
    if not arms or not all(arms):
        return None
    if isinstance(instance, dict):
        tagged = _by_tag(tree, fault, branches, arms, instance)
        if tagged is not None:
            return tagged
        only_lacks = all(inner.keyword == "required" and inner.path == fault.path for arm in arms for inner in arm)
        if only_lacks and not any("properties" in branch for branch in branches):
            return None
    fitting = [arm for arm in arms if not _is_other_type(arm, fault.path)]
    if not fitting:
        types = list(dict.fromkeys(word for branch in branches for word in types_of(branch)))
        return [Fault(fault.path, "type", {"types": types}, {**fault.schema, "type": types})]
    if all(len(arm) == 1 and arm[0].path == fault.path and arm[0].keyword in ("enum", "const") for arm in fitting):
        options = [option for arm in fitting for option in _options(arm[0])]
        return [Fault(fault.path, "enum", {"options": options}, {"enum": options})]
    return min(fitting, key=_distance)


def _distance(arm: list[Fault]) -> tuple[int, int]:
    """Few faults are near, and deep ones are nearer: more of the value was understood."""
    return len(arm), -max(len(inner.path) for inner in arm)


def _by_tag(
    tree: SchemaTree, fault: Fault, branches: list[Mapping[str, Any]], arms: list[list[Fault]], instance: dict[str, Any]
) -> list[Fault] | None:
    tag = tag_of(tree, branches)
    if tag is None:
        return None
    name, values = tag
    allowed = [value for options in values for value in options or ()]
    if name not in instance:
        described = {"properties": {name: {"description": f"one of {', '.join(map(str, allowed))}"}}}
        return [Fault(fault.path, "required", {"property": name}, described)]
    for options, arm in zip(values, arms, strict=True):
        if options is not None and is_member(instance[name], options):
            return arm
    return [Fault((*fault.path, name), "enum", {"options": allowed}, {"enum": allowed})]


def tag_of(tree: SchemaTree, branches: list[Mapping[str, Any]]) -> tuple[str, list[list[Any] | None]] | None:
    """Answer the property whose value tells the object branches of a union apart.

    Returns:
        Its name, and for each branch the values that choose it (None for one that is no object); None without a tag.
    """
    found: list[dict[str, list[Any]] | None] = []
    for branch in branches:
        types = types_of(branch)
        found.append(None if types and "object" not in types else _tags(tree, branch))
    tagged = [tags for tags in found if tags is not None]
    if len(tagged) < 2:
        return None
    for name in tagged[0]:
        if all(name in tags for tags in tagged):
            values = [value for tags in tagged for value in tags[name]]
            if len({repr(value) for value in values}) == len(values):
                return name, [None if tags is None else tags[name] for tags in found]
    return None


def _tags(tree: SchemaTree, branch: Mapping[str, Any]) -> dict[str, list[Any]]:
    tags: dict[str, list[Any]] = {}
    for name, sub in branch.get("properties", {}).items():
        options = _resolved(tree, sub)
        if "const" in options:
            tags[name] = [options["const"]]
        elif isinstance(options.get("enum"), list) and len(options["enum"]) <= _MOST_TAGS:
            tags[name] = options["enum"]
    return tags


def _resolved(tree: SchemaTree, schema: Any) -> Mapping[str, Any]:
    for _ in range(_HOPS):
        if not isinstance(schema, dict):
            return {}
        reference = schema.get("$ref")
        if not isinstance(reference, str):
            return schema
        schema = tree.resolve(reference)
    return {}


def _is_other_type(arm: list[Fault], path: Path) -> bool:
    return any(inner.keyword == "type" and inner.path == path for inner in arm)


def _options(fault: Fault) -> list[Any]:
    return list(fault.schema.get("enum", ())) if fault.keyword == "enum" else [fault.detail.get("expected_value")]
