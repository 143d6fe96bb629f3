"""Hypothesis strategies: JSON values, schemas, arguments that are nearly right, and texts that are nearly JSON."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

names = st.sampled_from(["a", "b", "user_id", "userName", "max-items", "_x", "ids", "note"])
texts = st.one_of(
    st.sampled_from(
        [
            "",
            " ",
            "a",
            "A",
            "3",
            "3.0",
            "1e2",
            "true",
            "False",
            "null",
            "2026-01-31",
            "31.01.2026",
            "03/04/2026",
            "[1]",
            '{"a": 1}',
            "a, b",
            "é",
            "\u0663",
            "x-y",
            "X_Y",
        ]
    ),
    st.text(max_size=6),
)
numbers = st.one_of(
    st.integers(-5, 5),
    st.sampled_from(
        [0.0, -0.0, 1.0, 2.0, 2.5, 0.1, 0.30000000000000004, 1e20, 2**53, 2**53 + 1, 2**70, -(2**70), 1e300]
    ),
    st.floats(allow_nan=False, allow_infinity=False, width=32),
)
scalars = st.one_of(st.none(), st.booleans(), numbers, texts)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(names, inner, max_size=3)),
    max_leaves=6,
)
objects = st.dictionaries(names, values, max_size=4)

_bounds = st.sampled_from([-1, 0, 1, 2, 2.5, 3, 100, 2**53])
_patterns = st.sampled_from(["^a", "^[a-z]+$", r"^\d+$", "(a|b)+", "^(?!x)", r"\w-\w", "^$", "."])
_formats = st.sampled_from(["date", "date-time", "time", "email", "uri", "uuid", "ipv4", "ipv6", "unheard-of"])
_types = st.sampled_from(["string", "integer", "number", "boolean", "array", "object", "null"])


@st.composite
def scalar_schemas(draw: st.DrawFn) -> dict[str, Any]:
    """A schema of single values."""
    schema: dict[str, Any] = {}
    if draw(st.booleans()):
        schema["type"] = draw(st.one_of(_types, st.lists(_types, min_size=1, max_size=3, unique=True)))
    keywords = draw(
        st.lists(
            st.sampled_from(
                [
                    "enum",
                    "const",
                    "minimum",
                    "maximum",
                    "exclusiveMinimum",
                    "multipleOf",
                    "minLength",
                    "maxLength",
                    "pattern",
                    "format",
                    "default",
                ]
            ),
            max_size=3,
            unique=True,
        )
    )
    for keyword in keywords:
        schema[keyword] = draw(
            {
                "enum": st.lists(scalars, min_size=1, max_size=4, unique_by=lambda value: json.dumps(value)),
                "const": scalars,
                "minimum": _bounds,
                "maximum": _bounds,
                "exclusiveMinimum": _bounds,
                "multipleOf": st.sampled_from([1, 2, 0.5, 0.1, 0.01]),
                "minLength": st.integers(0, 3),
                "maxLength": st.integers(0, 4),
                "pattern": _patterns,
                "format": _formats,
                "default": scalars,
            }[keyword]
        )
    return schema


def _grown(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    objects_of = st.fixed_dictionaries(
        {"properties": st.dictionaries(names, inner, max_size=3)},
        optional={
            "type": st.just("object"),
            "required": st.lists(names, max_size=2, unique=True),
            "additionalProperties": st.one_of(st.booleans(), inner),
            "patternProperties": st.dictionaries(_patterns, inner, max_size=2),
            "propertyNames": st.fixed_dictionaries({"pattern": _patterns}),
            "minProperties": st.integers(0, 2),
            "maxProperties": st.integers(0, 3),
            "dependentRequired": st.dictionaries(names, st.lists(names, max_size=2, unique=True), max_size=2),
            "unevaluatedProperties": st.booleans(),
        },
    )
    arrays_of = st.fixed_dictionaries(
        {"type": st.just("array")},
        optional={
            "items": inner,
            "prefixItems": st.lists(inner, min_size=1, max_size=2),
            "minItems": st.integers(0, 2),
            "maxItems": st.integers(0, 3),
            "uniqueItems": st.booleans(),
            "contains": inner,
        },
    )
    several = st.lists(inner, min_size=1, max_size=3)
    combined = st.one_of(
        st.fixed_dictionaries({"anyOf": several}),
        st.fixed_dictionaries({"oneOf": several}),
        st.fixed_dictionaries({"allOf": several}),
        st.fixed_dictionaries({"not": inner}),
        st.fixed_dictionaries({"if": inner, "then": inner}, optional={"else": inner}),
    )
    return st.one_of(objects_of, arrays_of, combined)


subschemas = st.recursive(st.one_of(scalar_schemas(), st.booleans()), _grown, max_leaves=6)


_day = {"type": "string", "format": "date"}
plain_schemas = st.one_of(
    _types.map(lambda word: {"type": word}),
    st.sampled_from(
        [
            {"type": "integer", "minimum": 1},
            {"type": "integer", "default": 3},
            {"type": "string", "enum": ["a", "b c", "X"]},
            {"enum": [1, 2, "x"]},
            {"const": "only"},
            _day,
            {"anyOf": [_day, {"type": "null"}], "default": None},
            {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            {"anyOf": [{"type": "integer"}, {"type": "boolean"}]},
            {"type": ["integer", "null"]},
            {"type": "array", "items": {"type": "string"}},
            {"type": "array", "items": {"type": "integer"}, "maxItems": 2},
            {"type": "array", "prefixItems": [{"type": "number"}, _day], "items": False},
            {"type": "object", "properties": {"user_id": {"type": "integer"}, "a": {"type": "string", "default": "x"}}},
            {"type": "object", "properties": {"user_id": {"type": "integer"}}, "additionalProperties": False},
            {"type": "object", "additionalProperties": {"type": "integer"}},
            {"type": "object", "patternProperties": {"^a": {"type": "boolean"}}},
            {
                "oneOf": [
                    {"properties": {"a": {"const": "x"}, "b": {"type": "integer"}}, "required": ["a", "b"]},
                    {"properties": {"a": {"const": "y"}, "note": {"type": "boolean"}}, "required": ["a"]},
                ]
            },
        ]
    ),
)


@st.composite
def parameter_schemas(draw: st.DrawFn) -> dict[str, Any]:
    """A schema of a tool's parameters."""
    properties = draw(st.dictionaries(names, st.one_of(plain_schemas, subschemas), max_size=4))
    schema: dict[str, Any] = {"type": "object", "properties": properties}
    known = st.sampled_from(sorted(properties)) if properties else names
    schema["required"] = draw(st.lists(st.one_of(known, known, names), max_size=2, unique=True))
    if draw(st.booleans()):
        schema["additionalProperties"] = False
    return schema


@st.composite
def spoiled_texts(draw: st.DrawFn) -> str:
    """JSON text of an object, with a few characters put in, taken out or repeated."""
    text = json.dumps(draw(objects), ensure_ascii=draw(st.booleans()))
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.integers(0, len(text)))
        cut = draw(st.integers(0, 3))
        put = draw(
            st.sampled_from(
                [
                    "",
                    ",",
                    "}",
                    "{",
                    '"',
                    "'",
                    "\\",
                    "\\n",
                    "\n",
                    "None",
                    "NaN",
                    "1e999",
                    "```",
                    "\ufeff",
                    "\ud800",
                    text,
                ]
            )
        )
        text = text[:place] + put + text[place + cut :]
    return text


anything = st.one_of(
    st.text(),
    st.binary(),
    st.none(),
    values,
    spoiled_texts(),
    spoiled_texts().map(lambda text: text.encode("utf-8", "surrogatepass")),
)


_NOISE: dict[str, st.SearchStrategy[Any]] = {
    "string": st.one_of(
        st.integers(-3, 300), st.just(""), st.none(), st.sampled_from(["a", "A", "x y", "31.01.2026", "03/04/2026"])
    ),
    "integer": st.one_of(st.integers(-3, 3), st.sampled_from(["3", "-1", "2.0", "1e1", 2.0, "x", "", None, True])),
    "number": st.sampled_from([1, 1.5, "1.5", "3", "", None, "1,5", "50%"]),
    "boolean": st.sampled_from([True, "true", "FALSE", "yes", 1, "", None]),
    "array": st.one_of(
        st.lists(st.sampled_from(["a", 1, "1", 2.0, None, ""]), max_size=3),
        st.sampled_from(["a, b", "[1]", '["a"]', "", "[", None]),
    ),
    "object": st.one_of(st.dictionaries(names, scalars, max_size=2), st.sampled_from(['{"a": 1}', "{}", "", None])),
    "null": st.sampled_from([None, "null", ""]),
}


def _respelt(name: str) -> st.SearchStrategy[str]:
    return st.sampled_from(
        [
            name,
            name.replace("_", "-"),
            name.replace("-", "_"),
            name[:1].upper() + name[1:],
            "userId" if name == "user_id" else name,
        ]
    )


@st.composite
def nearly(draw: st.DrawFn, schema: Any) -> Any:
    """A value that a model may send for a schema: right, noisy or wrong."""
    if not isinstance(schema, dict) or draw(st.integers(0, 9)) == 0:
        return draw(values)
    for keyword in ("enum", "const"):
        if keyword in schema:
            member = schema[keyword] if keyword == "const" else draw(st.sampled_from(schema[keyword]))
            return (
                member.upper()
                if isinstance(member, str) and draw(st.booleans())
                else str(member)
                if draw(st.booleans())
                else member
            )
    for keyword in ("anyOf", "oneOf", "allOf"):
        if keyword in schema:
            return draw(nearly(draw(st.sampled_from(schema[keyword]))))
    if "properties" in schema:
        made = {}
        for name, sub in schema["properties"].items():
            if name in schema.get("required", ()) or draw(st.booleans()):
                made[draw(_respelt(name))] = draw(nearly(sub))
        return json.dumps(made) if draw(st.integers(0, 9)) == 0 and schema.get("type") == "object" else made
    types = schema.get("type", ["string", "integer"])
    kind = draw(st.sampled_from(types)) if isinstance(types, list) else types
    if kind == "array" and "items" in schema:
        items = draw(st.lists(nearly(schema["items"]), max_size=3))
        return json.dumps(items) if draw(st.booleans()) else items
    return draw(_NOISE[kind])


@st.composite
def schemas_and_objects(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    """A schema of parameters and arguments that are nearly right for it."""
    schema = draw(parameter_schemas())
    made: dict[str, Any] = {}
    for name, sub in schema["properties"].items():
        if name in schema["required"] or draw(st.booleans()):
            made[draw(_respelt(name))] = draw(nearly(sub))
    made.update(draw(st.dictionaries(names, values, max_size=1)))
    return schema, made
