"""Defaults: which absent parameters are filled, and when they are left out."""

from __future__ import annotations

from typing import Any

import pytest

from fcguard.arguments import ArgumentSchema, Fold
from tests.arguments.one_parameter import sent


def test_defaults_are_filled_last_and_recorded() -> None:
    schema = {
        "type": "object",
        "properties": {
            "limit": {"type": "integer", "default": 10},
            "sort": {"type": "string", "default": "asc"},
            "tags": {"type": "array", "items": {"type": "string"}, "default": ["x"]},
            "page": {"type": "object", "properties": {"size": {"type": "integer", "default": 5}}, "default": {}},
            "maybe": {
                "anyOf": [
                    {"type": "object", "properties": {"deep": {"type": "integer", "default": 1}}},
                    {"type": "null"},
                ]
            },
            "list": {"type": "array", "items": {"$ref": "#/$defs/line"}},
        },
        "$defs": {"line": {"type": "object", "properties": {"qty": {"type": "integer", "default": 1}}}},
    }
    compiled = ArgumentSchema.compile(schema)
    made = compiled.normalize({"sort": None, "maybe": {}, "list": [{}, {"qty": 2}]})
    assert made.value == {
        "limit": 10,
        "sort": "asc",
        "tags": ["x"],
        "page": {"size": 5},
        "maybe": {"deep": 1},
        "list": [{"qty": 1}, {"qty": 2}],
    }
    assert ("limit", "default", None, 10) in {
        (f.path, f.rule, f.before, f.after) for f in made.folds if f.path == "limit"
    }
    assert {fold.path for fold in made.folds if fold.rule == "default"} == {
        "limit",
        "sort",
        "tags",
        "page",
        "page.size",
        "maybe.deep",
        "list[0].qty",
    }
    assert made.value is not None
    made.value["tags"].append("y")
    assert compiled.normalize({}).value["tags"] == ["x"]  # type: ignore[index]


def test_flat_defaults() -> None:
    compiled = ArgumentSchema.compile(
        {"type": "object", "properties": {"a": {"type": "integer", "default": 1}, "b": {"type": "string"}}}
    )
    assert compiled.normalize({"b": "x"}).value == {"b": "x", "a": 1}
    assert compiled.normalize({"b": "x"}).folds == (Fold("a", "default", None, 1),)
    assert compiled.normalize("").value == {"a": 1}
    assert compiled.normalize({"a": "2"}).value == {"a": 2}


def test_only_what_is_absent_gets_a_default() -> None:
    schema = {"type": "object", "properties": {"passive": {"type": "boolean", "default": False}}}
    made = ArgumentSchema.compile(schema).normalize({"passive": "passive-ish"})
    assert made.error_type == "PARAM_INVALID"


def test_a_required_parameter_is_not_filled_from_its_default() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer", "default": 1}}, "required": ["a"]}
    assert ArgumentSchema.compile(schema).normalize({}).error_type == "PARAM_MISSING"


@pytest.mark.parametrize(
    "more",
    [
        {"maxProperties": 1},
        {"dependentRequired": {"a": ["c"]}},
        {"oneOf": [{"required": ["a"]}, {"required": ["b"]}]},
        {"not": {"required": ["a"]}},
    ],
)
def test_defaults_that_would_break_the_whole_are_not_filled(more: Any) -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "integer", "default": 1}, "b": {"type": "integer"}},
        **more,
    }
    made = ArgumentSchema.compile(schema).normalize({"b": 2})
    assert (made.value, made.folds, made.problems) == ({"b": 2}, (), ())


def test_defaults_are_not_filled_within_real_unions() -> None:
    schema = {
        "anyOf": [
            {"type": "object", "properties": {"a": {"default": 1}}, "required": ["x"]},
            {"type": "object", "required": ["y"]},
        ]
    }
    assert sent(schema, {"x": 1}).value == {"p": {"x": 1}}


def test_defaults_of_all_parts_of_a_schema() -> None:
    schema = {"type": "object", "allOf": [{"properties": {"a": {"default": 1}}}, {"properties": {"b": {"default": 2}}}]}
    assert ArgumentSchema.compile(schema).normalize({}).value == {"a": 1, "b": 2}


def test_a_whole_float_default_is_an_integer() -> None:
    made = sent({"type": "object", "properties": {"n": {"type": "integer", "default": 2.0}}}, {})
    assert repr(made.value) == "{'p': {'n': 2}}"
