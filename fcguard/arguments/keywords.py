"""Facts about JSON Schema as tables: where subschemas stand, and what other languages call its types."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

__all__ = ["ANY", "FOREIGN_TYPES", "TYPES", "subschemas"]

TYPES: Final = frozenset({"string", "integer", "number", "boolean", "array", "object", "null"})

ANY: Final = "any"
"""Stands for: every type."""

FOREIGN_TYPES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("dict", "dictionary", "map", "hashmap", "hash", "struct", "mapping", "record"), "object"),
    **dict.fromkeys(("float", "double", "decimal", "numeric", "real"), "number"),
    **dict.fromkeys(("int", "long", "short", "bigint", "int32", "int64", "uint"), "integer"),
    **dict.fromkeys(("str", "text", "char", "varchar"), "string"),
    **dict.fromkeys(("bool",), "boolean"),
    **dict.fromkeys(("list", "tuple", "arraylist", "set", "sequence", "vector"), "array"),
    **dict.fromkeys(("none", "nil", "nonetype", "void"), "null"),
    **dict.fromkeys(("any", "mixed", "unknown", "", "*"), ANY),
}
"""Type word of other languages, in lower case -> the JSON Schema word; its own words in another case, too."""

_ONE: Final = (
    "additionalItems",
    "additionalProperties",
    "contains",
    "else",
    "if",
    "items",
    "not",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
)
_MANY: Final = ("allOf", "anyOf", "items", "oneOf", "prefixItems")
_NAMED: Final = ("$defs", "definitions", "dependencies", "dependentSchemas", "patternProperties", "properties")


def subschemas(schema: Mapping[str, Any]) -> Iterator[tuple[tuple[str | int, ...], Any, str | int, dict[str, Any]]]:
    """Yield each direct subschema: its location, its container, its place in that, and itself (objects only)."""
    for keyword in _ONE:
        sub = schema.get(keyword)
        if isinstance(sub, dict):
            yield (keyword,), schema, keyword, sub
    for keyword in _MANY:
        subs = schema.get(keyword)
        if isinstance(subs, list):
            for index, sub in enumerate(subs):
                if isinstance(sub, dict):
                    yield (keyword, index), subs, index, sub
    for keyword in _NAMED:
        named = schema.get(keyword)
        if isinstance(named, dict):
            for name, sub in named.items():
                if isinstance(sub, dict):
                    yield (keyword, name), named, name, sub
