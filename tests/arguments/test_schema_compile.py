"""Compiling schemas: what is refused with its fix, what is mended and reported, what is only reported."""

from __future__ import annotations

import copy
import re
import threading
import types
from typing import Any

import pytest
from hypothesis import given, settings

from fcguard.arguments import ArgumentSchema, Finding, normalize
from fcguard.errors import SchemaError
from tests.arguments.strategies import parameter_schemas


def findings(schema: Any, **options: Any) -> list[tuple[str, str]]:
    return [(finding.path, finding.code) for finding in ArgumentSchema.compile(schema, **options).findings]


REFUSED: list[tuple[Any, str]] = [
    (None, "must be a JSON Schema object"),
    ("object", "must be a JSON Schema object"),
    ([], "must be a JSON Schema object"),
    ({"type": "string"}, "must be an object"),
    ({"type": ["string", "array"]}, "must be an object"),
    ({"type": 5}, "must be an object, not 5"),
    ({"type": []}, "must be an object, not"),
    ({"type": "object", "properties": {"a": {"type": []}}}, "not valid at properties/a/type"),
    ({"type": "object", "properties": {"a": "string"}}, "not valid at properties/a"),
    ({"type": "object", "properties": {"a": {"minimum": "0"}}}, "not valid at properties/a/minimum"),
    ({"type": "object", "properties": ["a"]}, "not valid at properties"),
    ({"type": "object", "required": "a"}, "not valid at required"),
    ({"type": "object", "properties": {"a": {"enum": "x"}}}, "not valid at properties/a/enum"),
    ({"type": "object", "properties": {"a": {"$ref": "https://example.com/a.json"}}}, "inline what it points to"),
    ({"type": "object", "properties": {"a": {"$ref": "file:///etc/passwd"}}}, "inline what it points to"),
    ({"type": "object", "properties": {"a": {"$ref": "other.json#/a"}}}, "inline what it points to"),
    ({"type": "object", "properties": {"a": {"$ref": "#/$defs/nothing"}}}, "leads nowhere"),
    ({"$ref": "#/$defs/nothing"}, "leads nowhere"),
    ({"type": "object", "properties": {"a": {"default": float("nan")}}}, "not plain JSON"),
    ({"type": "object", "properties": {"a": {"default": object()}}}, "not plain JSON"),
    ({"type": "object", "properties": {"a": {"enum": ["\ud800"]}}}, "not plain JSON"),
    (
        {"type": "object", "properties": {"a": {"type": "string", "minLength": -1}}},
        "not valid at properties/a/minLength",
    ),
]


@pytest.mark.parametrize(("schema", "words"), REFUSED)
def test_a_schema_that_cannot_be_used_is_refused_with_its_fix(schema: Any, words: str) -> None:
    with pytest.raises(SchemaError, match=re.escape(words)):
        ArgumentSchema.compile(schema)


def test_a_schema_that_contains_itself_is_refused() -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {}}
    schema["properties"]["a"] = schema
    with pytest.raises(SchemaError, match="not plain JSON"):
        ArgumentSchema.compile(schema)


@pytest.mark.parametrize("levels", [90, 110, 400, 5000])
def test_a_schema_that_is_nested_too_deeply_is_refused(levels: int) -> None:
    deep: dict[str, Any] = {"type": "object"}
    for _ in range(levels):
        deep = {"type": "object", "properties": {"a": deep}}
    if levels < 100:
        assert ArgumentSchema.compile(deep).normalize({"a": {"a": 1}}).error_type == "PARAM_INVALID"
    else:
        with pytest.raises(SchemaError):
            ArgumentSchema.compile(deep)


def test_the_normalize_function_compiles_and_normalizes() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    assert normalize(schema, '{"a": "1"}', effect="read").value == {"a": 1}
    assert normalize(schema, {"b": 1}, closed=True).error_type == "PARAM_UNKNOWN"
    with pytest.raises(SchemaError):
        normalize({"type": "array"}, {})


FOREIGN = {
    "float": 1.5,
    "double": 1.5,
    "dict": {},
    "HashMap": {},
    "OBJECT": {},
    "String": "a",
    "str": "a",
    "int": 1,
    "long": 1,
    "Boolean": True,
    "bool": True,
    "tuple": [1],
    "ArrayList": [1],
    "none": None,
}


@pytest.mark.parametrize(("word", "value"), FOREIGN.items())
def test_foreign_type_words_are_mended_and_reported(word: str, value: Any) -> None:
    schema = {"type": "dict", "properties": {"p": {"type": word}}, "required": ["p"]}
    compiled = ArgumentSchema.compile(schema)
    assert [(finding.path, finding.code) for finding in compiled.findings] == [
        ("", "unknown_type"),
        ("/properties/p", "unknown_type"),
    ]
    assert compiled.normalize({"p": value}).value == {"p": value}
    for wrong in ("x" if value != "a" else True, [[]], {"a": 1} if value != {} else 1):
        assert compiled.normalize({"p": wrong}).problems or type(wrong) is type(value)


@pytest.mark.parametrize("word", ["any", "Any", "", "unheard-of"])
def test_words_for_anything_and_words_nobody_knows_drop_the_type(word: str) -> None:
    compiled = ArgumentSchema.compile(
        {"type": "object", "properties": {"p": {"type": word, "enum": [1, "a", None, [2]]}}}
    )
    assert [finding.code for finding in compiled.findings] == ["unknown_type"]
    for value in (1, "a", None, [2]):
        assert compiled.normalize({"p": value}).problems == ()
    assert compiled.normalize({"p": "b"}).problems


def test_foreign_words_in_a_list_of_types() -> None:
    compiled = ArgumentSchema.compile(
        {
            "type": "object",
            "properties": {
                "p": {"type": ["float", "None"]},
                "q": {"type": ["any", "string"]},
                "r": {"type": ["str", "string"]},
            },
        }
    )
    assert compiled.normalize({"p": "1.5", "q": 5, "r": "x"}).value == {"p": 1.5, "q": 5, "r": "x"}
    assert len(compiled.findings) == 4


CONFLICTS: list[tuple[Any, list[Any], list[Any]]] = [
    ({"type": "integer", "enum": ["1", "2"]}, [("1", 1), (2, 2)], ["3", 3, "x"]),
    ({"type": ["integer", "null"], "enum": ["1", 2, None]}, [("1", 1), (2, 2), (None, None)], [3]),
    ({"type": "integer", "enum": ["1", "2", "dontcare"]}, [("1", "1"), (2, "2"), ("DontCare", "dontcare")], ["3", 3]),
    ({"type": "number", "enum": ["low", "high"]}, [("low", "low")], [1]),
    ({"type": "boolean", "enum": ["true", "false"]}, [("true", True), (False, False)], ["x"]),
    ({"type": "boolean", "enum": ["yes", "no"]}, [("yes", "yes")], [True]),
]


@pytest.mark.parametrize(("schema", "accepted", "refused"), CONFLICTS)
def test_an_enum_that_contradicts_its_type(schema: Any, accepted: list[Any], refused: list[Any]) -> None:
    compiled = ArgumentSchema.compile({"type": "object", "properties": {"p": schema}, "required": ["p"]})
    assert [(finding.path, finding.code) for finding in compiled.findings] == [("/properties/p", "enum_type_conflict")]
    for value, meant in accepted:
        assert compiled.normalize({"p": value}).value == {"p": meant}
        assert compiled.normalize({"p": value}).problems == ()
    for value in refused:
        assert compiled.normalize({"p": value}).problems


REPORTED: list[tuple[Any, list[tuple[str, str]]]] = [
    ({"properties": {}}, [("", "missing_type")]),
    ({}, [("", "missing_type")]),
    ({"type": "object", "$schema": "http://no.such/draft"}, [("/$schema", "unknown_dialect")]),
    ({"type": "object", "$schema": "http://json-schema.org/draft-03/schema#"}, [("/$schema", "unknown_dialect")]),
    ({"type": "object", "$schema": 5}, [("/$schema", "unknown_dialect")]),
    ({"type": "object", "properties": {"a": {}}, "required": ["a", "b"]}, [("", "required_undeclared")]),
    ({"type": "object", "properties": {"a": {}}, "required": ["a", "a"]}, [("", "required_repeated")]),
    ({"type": "object", "properties": {"a": {"required": True, "type": "string"}}}, [("", "required_flag")]),
    (
        {"type": "object", "properties": {"a": {"type": "integer", "default": "x"}}},
        [("/properties/a", "default_invalid")],
    ),
    (
        {"type": "object", "properties": {"a": {"type": "string", "default": None}}},
        [("/properties/a", "default_invalid")],
    ),
    (
        {"type": "object", "properties": {"a/b~c": {"type": "string", "default": 1}}},
        [("/properties/a~1b~0c", "default_invalid")],
    ),
    (
        {"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}},
        [("/properties/a", "pattern_invalid")],
    ),
    (
        {"type": "object", "properties": {"a": {"minimum": 1, "exclusiveMinimum": True}}},
        [("/properties/a", "draft4_exclusive")],
    ),
    (
        {"type": "object", "properties": {"a": {"type": "array", "items": [{"type": "string"}]}}},
        [("/properties/a", "draft7_tuple")],
    ),
    ({"type": "object", "properties": {"a": {"type": "string", "nullable": True}}}, [("/properties/a", "nullable")]),
    (
        {"type": "object", "properties": {"a": {"type": "string", "enum": None, "description": None}}},
        [("/properties/a", "null_keyword")] * 2,
    ),
    (
        {
            "type": "object",
            "properties": {"a": {"title": 1, "examples": "x", "deprecated": "yes", "type": ["string", "string"]}},
        },
        [("/properties/a", "invalid_annotation")] * 3,
    ),
    (
        {"type": "object", "properties": {"a": {"allOf": [{"anyOf": [{"type": "float"}]}]}}},
        [("/properties/a/allOf/0/anyOf/0", "unknown_type")],
    ),
    (
        {"type": "object", "$defs": {"x": {"type": "float"}}, "items": {"type": "float"}},
        [("/items", "unknown_type"), ("/$defs/x", "unknown_type")],
    ),
    ({"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": False}, []),
]


@pytest.mark.parametrize(("schema", "found"), REPORTED)
def test_faults_that_one_can_live_with_are_reported(schema: Any, found: list[tuple[str, str]]) -> None:
    assert sorted(findings(schema)) == sorted(found)


def test_a_finding_reads_well() -> None:
    (finding,) = ArgumentSchema.compile({"type": "object", "properties": {"a": {"type": "float"}}}).findings
    assert finding == Finding("/properties/a", "unknown_type", "'float' is not a JSON Schema type; read as 'number'")
    assert str(finding).startswith("/properties/a: 'float'")


def test_a_flag_in_a_property_makes_it_required() -> None:
    compiled = ArgumentSchema.compile(
        {
            "type": "object",
            "properties": {"a": {"type": "string", "required": True}, "b": {"required": False}},
            "required": ["b"],
        }
    )
    assert compiled.normalize({"b": 1}).error_type == "PARAM_MISSING"
    assert compiled.normalize({"a": "x"}).error_type == "PARAM_MISSING"
    assert findings({"type": "object", "properties": {"a": {"items": {"required": True}}}}) == [
        ("/properties/a/items", "required_flag")
    ]


def test_draft_4_bounds_without_a_declared_draft() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"minimum": 1, "exclusiveMinimum": True}, "b": {"maximum": 1, "exclusiveMaximum": False}},
    }
    compiled = ArgumentSchema.compile(schema)
    assert compiled.check({"a": 1})
    assert not compiled.check({"a": 2, "b": 1})
    declared = ArgumentSchema.compile({"$schema": "http://json-schema.org/draft-04/schema#", **schema})
    assert declared.findings == ()
    assert declared.check({"a": 1})
    assert not declared.check({"a": 2, "b": 1})


@pytest.mark.parametrize(
    ("dialect", "whole_float_is_integer"),
    [
        ("http://json-schema.org/draft-04/schema#", False),
        ("http://json-schema.org/draft-06/schema#", True),
        ("http://json-schema.org/draft-07/schema", True),
        ("https://json-schema.org/draft/2019-09/schema", True),
        ("https://json-schema.org/draft/2020-12/schema", True),
    ],
)
def test_the_declared_draft_counts(dialect: str, whole_float_is_integer: bool) -> None:
    compiled = ArgumentSchema.compile({"$schema": dialect, "type": "object", "properties": {"a": {"type": "integer"}}})
    assert compiled.findings == ()
    assert compiled.is_valid({"a": 1.0}) is whole_float_is_integer
    assert repr(compiled.normalize({"a": 1.0}).value) == "{'a': 1}"


def test_tuples_of_draft_7_without_a_declared_draft() -> None:
    pair = {"type": "array", "items": [{"type": "string"}], "additionalItems": {"type": "integer"}}
    schema = ArgumentSchema.compile({"type": "object", "properties": {"a": pair}})
    assert schema.normalize({"a": ["x", "1"]}).value == {"a": ["x", 1]}


def test_content_keywords_only_describe() -> None:
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {"a": {"contentEncoding": "base64"}},
    }
    assert ArgumentSchema.compile(schema).check({"a": "%%%"}) == ()


# -- options


def test_closed_refuses_what_is_not_declared() -> None:
    for schema in (
        {"type": "object", "properties": {"a": {}}},
        {"type": "object", "properties": {"a": {}}, "additionalProperties": True},
        {"type": "object", "properties": {"a": {}}, "additionalProperties": {"type": "integer"}},
        {"type": "object", "allOf": [{"properties": {"a": {}}}]},
        {"$ref": "#/$defs/x", "$defs": {"x": {"type": "object", "properties": {"a": {}}}}},
        {"type": "object", "anyOf": [{"properties": {"a": {}}, "required": ["a"]}, {"required": ["z"]}]},
    ):
        compiled = ArgumentSchema.compile(schema, closed=True)
        assert compiled.check({"a": 1}) == ()
        assert compiled.normalize({"a": 1}).problems == ()
        assert compiled.normalize({"a": 1, "b": 2}).error_type == "PARAM_UNKNOWN"
        assert ArgumentSchema.compile(schema).check({"a": 1, "b": 2}) == ()
    older = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {"a": {}},
        "allOf": [{}],
    }
    assert ArgumentSchema.compile(older, closed=True).normalize({"b": 2}).error_type == "PARAM_UNKNOWN"


def test_pattern_properties_of_a_closed_schema_are_declared() -> None:
    compiled = ArgumentSchema.compile(
        {"type": "object", "patternProperties": {"^x-": {"type": "integer"}}, "additionalProperties": False}
    )
    assert compiled.normalize({"x-a": "1"}).value == {"x-a": 1}
    assert compiled.normalize({"x-a": 1}).folds == ()
    assert compiled.normalize({"y": 1}).error_type == "PARAM_UNKNOWN"


def test_own_formats() -> None:
    def is_sku(text: str) -> bool:
        return text[0] == "S"

    schema = {
        "type": "object",
        "properties": {"sku": {"type": "string", "format": "sku"}, "d": {"type": "string", "format": "date"}},
    }
    compiled = ArgumentSchema.compile(schema, formats={"sku": is_sku, "date": lambda text: text == "today"})
    assert compiled.check({"sku": "S-1", "d": "today"}) == ()
    assert [problem.rule for problem in compiled.check({"sku": "x", "d": "2026-01-31"})] == ["format", "format"]
    assert compiled.check({"sku": ""})  # a check that raises refuses


def test_hidden_parameters_are_not_part_of_the_schema() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {}, "tenant": {}},
        "required": ["a", "tenant"],
        "additionalProperties": False,
    }
    compiled = ArgumentSchema.compile(schema, hidden=["tenant"])
    assert compiled.parameters == {"a"}
    assert compiled.json_schema == schema
    assert compiled.is_valid({"a": 1})
    assert not compiled.is_valid({"a": 1, "tenant": 2})


def test_the_schema_is_taken_as_it_is_when_it_is_compiled() -> None:
    schema: dict[str, Any] = {"type": "object", "properties": {"a": {"type": "integer"}}}
    before = copy.deepcopy(schema)
    compiled = ArgumentSchema.compile(schema)
    assert schema == before
    schema["properties"]["a"]["type"] = "string"
    assert compiled.check({"a": "x"})
    proxy = ArgumentSchema.compile(types.MappingProxyType(before))
    assert proxy.check({"a": 1}) == ()


@given(schema=parameter_schemas())
@settings(max_examples=200, deadline=None)
def test_compiling_leaves_the_schema_alone(schema: dict[str, Any]) -> None:
    before = repr(schema)
    compiled = ArgumentSchema.compile(schema)
    assert isinstance(compiled.findings, tuple)
    assert repr(schema) == before
    assert repr(compiled.json_schema) == before


def test_compiling_is_lazy() -> None:
    schema = {
        "type": "object",
        "properties": {f"p{number}": {"type": "integer", "description": "x" * 40} for number in range(6)},
        "required": ["p1"],
        "additionalProperties": False,
    }
    compiled = [ArgumentSchema.compile(schema) for _ in range(20)]
    assert all(item._compiled is None for item in compiled)
    assert compiled[7].normalize({"p1": 1}).problems == ()


def test_the_first_use_from_many_threads() -> None:
    compiled = ArgumentSchema.compile(
        {
            "type": "object",
            "properties": {
                "a": {"type": "integer", "default": 1},
                "b": {"anyOf": [{"type": "integer"}, {"type": "array"}]},
            },
        }
    )
    start = threading.Barrier(8)
    answers: list[Any] = []

    def use() -> None:
        start.wait()
        answers.append((compiled.normalize({"b": "2"}).value, compiled.normalize({"b": {}}).message))

    threads = [threading.Thread(target=use) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(answers) == 8
    assert len({repr(answer) for answer in answers}) == 1
    assert answers[0][0] == {"b": 2, "a": 1}
