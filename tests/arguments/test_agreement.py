"""The fast validator and `jsonschema` agree on what is valid; where the official test suite is at hand, on all of it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given, settings

from fcguard.arguments.engine import Engine
from fcguard.arguments.faults import Locator
from fcguard.arguments.lint import DEFAULT_DIALECT
from tests.arguments.reference import DIALECTS, reference
from tests.arguments.strategies import subschemas, values

DRAFT_4, DRAFT_6, DRAFT_7 = DIALECTS[:3]

TRICKY: list[tuple[Any, list[Any], list[Any]]] = [
    ({"type": "integer"}, [1, 1.0, -0.0, 2**70, 1e20], [1.5, True, "1", None]),
    ({"type": "number"}, [1, 1.5, 2**70], [True, False, "1"]),
    ({"type": "boolean"}, [True, False], [0, 1, "true"]),
    ({"type": "null"}, [None], [0, False, ""]),
    ({"const": 1}, [1, 1.0], [True, "1", [1]]),
    ({"const": True}, [True], [1, 1.0, "true"]),
    ({"const": 0}, [0, 0.0, -0.0], [False, None, ""]),
    ({"const": {"a": [1, 2.0]}}, [{"a": [1.0, 2]}], [{"a": [2, 1]}, {"a": [True, 2]}]),
    ({"enum": [1, "1", None]}, [1, 1.0, "1", None], [True, "one", 0]),
    ({"enum": [[False]]}, [[False]], [[0], [0.0], []]),
    (
        {"uniqueItems": True},
        [[1, True], [0, False], ["1", 1], [{"a": 1}, {"a": 2}]],
        [[1, 1], [1, 1.0], [True, True], [[1], [1.0]]],
    ),
    ({"multipleOf": 0.01}, [19.99, 0.01, 1, 4.35], [0.005]),
    ({"multipleOf": 0.1}, [0.3, 0.1, 1.1, 3], [0.35]),
    ({"multipleOf": 3}, [9, 9.0, -3, 0], [10, 1.5]),
    ({"minimum": 2**53}, [2**53, 2**53 + 1], [2**53 - 1]),
    ({"maximum": 9007199254740993}, [9007199254740993], [9007199254740994]),
    ({"exclusiveMinimum": 0.1}, [0.2, 1], [0.1, 0]),
    (
        {"minLength": 2, "maxLength": 2},
        ["ab", "é\u0301", "\U0001f600a", "\U0001f600\U0001f600"],
        ["a", "abc", "\U0001f600"],
    ),
    ({"pattern": r"^\d+$"}, ["12"], ["\u0661\u0662", "12\n", "1a"]),
    ({"pattern": r"^\w$"}, ["a", "_"], ["é", "-"]),
    ({"pattern": "a"}, ["bab", 3, None], ["b", ""]),
    ({"pattern": r"^(?!x)[a-z]+$"}, ["ab"], ["xa"]),
    ({"pattern": r"^\S+$"}, ["a"], ["a b", "\ufeff"]),
    (
        {"format": "date"},
        ["2024-02-29", 20240229],
        ["2023-02-29", "2024-2-9", "20240229", "2024-02-29T00:00:00Z", "2024-02-29\n"],
    ),
    (
        {"format": "date-time"},
        ["2024-02-29T23:59:59Z", "2024-02-29T23:59:59.123+02:00"],
        ["2024-02-29", "2024-02-29T23:59:59", "2024-02-30T00:00:00Z", "2024-02-29T24:00:00Z", "2024-02-29T23:59:59Z\n"],
    ),
    ({"format": "time"}, ["23:59:59Z", "10:00:00+02:00"], ["10:00", "10:00:00", "24:00:00Z"]),
    ({"format": "email"}, ["a@b.c", "a+b@example.com"], ["a", "a@", "@b", "a b@c.d"]),
    ({"format": "uri"}, ["https://x/y?z", "urn:a:b"], ["x", "//x", "http://a b", ""]),
    ({"format": "uuid"}, ["123e4567-e89b-12d3-a456-426614174000"], ["123e4567e89b12d3a456426614174000", "x"]),
    ({"format": "ipv4"}, ["1.2.3.4"], ["01.2.3.4", "1.2.3", "256.1.1.1", "1.2.3.4/8"]),
    ({"format": "ipv6"}, ["::1", "2001:db8::1"], ["1.2.3.4", ":::", "fe80::1%eth0"]),
    ({"format": "hostname"}, ["a.example"], ["-a", "a..b", "a b"]),
    ({"format": "duration"}, ["P1D", "PT5M", "P2W"], ["1D", "P", "PT"]),
    ({"format": "unheard-of"}, ["anything"], []),
    ({"properties": {"a": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"type": "integer"}}}, [{"a": 1}, {}], [{"a": "1"}]),
    (
        {
            "$defs": {
                "t": {
                    "properties": {"c": {"items": {"$ref": "#/$defs/t"}}, "v": {"type": "integer"}},
                    "required": ["v"],
                }
            },
            "$ref": "#/$defs/t",
        },
        [{"v": 1, "c": [{"v": 2}]}],
        [{"v": 1, "c": [{"v": "2"}]}, {"v": 1, "c": [{}]}],
    ),
    (
        {
            "if": {"properties": {"k": {"const": 1}}, "required": ["k"]},
            "then": {"required": ["x"]},
            "else": {"required": ["y"]},
        },
        [{"k": 1, "x": 0}, {"y": 0}],
        [{"k": 1}, {"k": 2}, {}],
    ),
    ({"dependentRequired": {"a": ["b"]}}, [{}, {"b": 1}, {"a": 1, "b": 1}], [{"a": 1}]),
    (
        {"dependentSchemas": {"a": {"properties": {"b": {"type": "string"}}}}},
        [{"b": 1}, {"a": 1, "b": "x"}],
        [{"a": 1, "b": 1}],
    ),
    ({"allOf": [{"properties": {"a": True}}], "unevaluatedProperties": False}, [{"a": 1}], [{"b": 1}]),
    ({"prefixItems": [{"type": "string"}], "items": False}, [["a"], []], [["a", 1], [1]]),
    (
        {"contains": {"type": "integer"}, "minContains": 2, "maxContains": 3},
        [[1, 2], [1, 2.0, 3, "a"]],
        [[1], [1, 2, 3, 4]],
    ),
    (
        {"patternProperties": {"^x_": {"type": "integer"}}, "additionalProperties": False},
        [{"x_a": 1}, {}],
        [{"x_a": "1"}, {"y": 1}],
    ),
    ({"propertyNames": {"maxLength": 2}}, [{"ab": 1}], [{"abc": 1}]),
    ({"oneOf": [{"type": "integer"}, {"minimum": 2}]}, [1, 2.5, "a"], [3]),
    ({"anyOf": [{"type": "string"}, {"maximum": 3}]}, ["a", 3], [4]),
    ({"not": {"type": ["integer", "boolean"]}}, ["a", 1.5], [1, True, 1.0]),
    ({"minProperties": 1, "maxProperties": 1}, [{"a": 1}], [{}, {"a": 1, "b": 1}]),
    ({"contentEncoding": "base64", "contentMediaType": "application/json"}, ["%%%"], []),
]


@pytest.mark.parametrize(
    ("schema", "valid", "invalid"), TRICKY, ids=lambda item: json.dumps(item)[:60] if isinstance(item, dict) else ""
)
def test_tricky_values(schema: Any, valid: list[Any], invalid: list[Any]) -> None:
    engine, other = Engine(json.loads(json.dumps(schema)), DEFAULT_DIALECT), reference(schema, DEFAULT_DIALECT)
    for value in valid:
        assert engine.is_valid(value), value
        assert other.is_valid(value), value
        assert Locator(engine).faults(value) == []
    for value in invalid:
        assert not engine.is_valid(value), value
        assert not other.is_valid(value), value
        assert Locator(engine).faults(value)


@pytest.mark.parametrize(
    ("dialect", "schema", "valid", "invalid"),
    [
        (DRAFT_4, {"type": "integer"}, [1], [1.0, 1.5]),
        (DRAFT_4, {"minimum": 1, "exclusiveMinimum": True}, [2], [1]),
        (DRAFT_6, {"exclusiveMinimum": 1}, [2], [1]),
        (DRAFT_6, {"type": "integer"}, [1.0], ["1"]),
        (DRAFT_7, {"items": [{"type": "string"}], "additionalItems": False}, [["a"]], [["a", 1], [1]]),
        (DRAFT_7, {"dependencies": {"a": ["b"]}}, [{"a": 1, "b": 1}], [{"a": 1}]),
        (DRAFT_7, {"$ref": "#/definitions/s", "type": "integer", "definitions": {"s": {"type": "string"}}}, ["a"], [1]),
        (DRAFT_7, {"if": {"type": "string"}, "then": {"minLength": 2}}, ["ab", 1], ["a"]),
        (DIALECTS[3], {"items": [{"type": "string"}], "additionalItems": False}, [["a"]], [["a", 1]]),
        (DIALECTS[3], {"$recursiveRef": "#", "properties": {"a": {"type": "string"}}}, [{"a": "b"}], [{"a": 1}]),
    ],
)
def test_drafts(dialect: str, schema: Any, valid: list[Any], invalid: list[Any]) -> None:
    engine = Engine(json.loads(json.dumps(schema)), dialect)
    if "$recursiveRef" not in schema:
        other = reference(schema, dialect)
        assert [other.is_valid(value) for value in [*valid, *invalid]] == [True] * len(valid) + [False] * len(invalid)
    assert [engine.is_valid(value) for value in [*valid, *invalid]] == [True] * len(valid) + [False] * len(invalid)


@given(schema=subschemas.filter(lambda schema: isinstance(schema, dict)), value=values)
@settings(max_examples=400, deadline=None)
def test_any_schema_and_value(schema: dict[str, Any], value: Any) -> None:
    engine, other = Engine(json.loads(json.dumps(schema)), DEFAULT_DIALECT), reference(schema, DEFAULT_DIALECT)
    verdict = engine.is_valid(value)
    assert verdict == other.is_valid(value)
    assert verdict == (not Locator(engine).faults(value))


@given(schema=subschemas.filter(lambda schema: isinstance(schema, dict)), value=values)
@settings(max_examples=300, deadline=None)
def test_the_same_places_are_faulty(schema: dict[str, Any], value: Any) -> None:
    """Where something is wrong, both see it at the same places (but `jsonschema` places the schema `false` elsewhere)."""
    engine, other = Engine(json.loads(json.dumps(schema)), DEFAULT_DIALECT), reference(schema, DEFAULT_DIALECT)
    faults = Locator(engine).faults(value)
    assume(all(fault.keyword != "falseSchema" for fault in faults))
    assert {fault.path for fault in faults} == {tuple(error.absolute_path) for error in other.iter_errors(value)}


# -- the official suite, from a checkout that JSON_SCHEMA_TEST_SUITE names

SUITE = os.environ.get("JSON_SCHEMA_TEST_SUITE")
FOLDERS = dict(zip(("draft4", "draft6", "draft7", "draft2019-09", "draft2020-12"), DIALECTS, strict=True))

NOT_OURS = {
    "content.json",  # content keywords describe; they are taken out before validation
    "format.json",  # the suite's default is that formats only describe; here they are asserted (`optional/format`)
}
DISAGREE = {"unevaluatedProperties with adjacent non-bool additionalProperties"}  # jsonschema is wrong here


def suite_cases() -> Iterator[tuple[str, str, dict[str, Any]]]:
    for folder, dialect in FOLDERS.items():
        for path in sorted((Path(SUITE or "") / "tests" / folder).rglob("*.json")):
            for case in json.loads(path.read_text("utf-8")):
                applies = isinstance(case["schema"], dict) and "http://localhost" not in json.dumps(case["schema"])
                if applies and path.name not in NOT_OURS:
                    yield f"{folder}/{path.name}", dialect, case


@pytest.mark.skipif(SUITE is None, reason="JSON_SCHEMA_TEST_SUITE does not name a checkout of the official suite")
def test_official_suite() -> None:
    wrong, total, disagree = [], 0, []
    for name, dialect, case in suite_cases():
        engine, other = Engine(json.loads(json.dumps(case["schema"])), dialect), reference(case["schema"], dialect)
        for test in case["tests"]:
            total += 1
            if engine.is_valid(test["data"]) != test["valid"]:
                wrong.append((name, case["description"], test["description"]))
            if other.is_valid(test["data"]) != test["valid"] and case["description"] not in DISAGREE:
                disagree.append((name, case["description"], test["description"]))
    assert total > 7000
    assert wrong == []
    assert disagree == [], len(disagree)
