"""Patterns: the dialect is ECMA-262, and none of them can hang; what cannot be decided is refused."""

from __future__ import annotations

import time
from typing import Any

import pytest

from fcguard.arguments import ArgumentSchema

EVIL = "^(a+)+$"
EVIL_REFERENCE = r"^((a+)\2?)+$"  # back-references need backtracking, so that only a limit helps
VICTIM = "a" * 40 + "!"

POSITIONS: dict[str, Any] = {
    "pattern": ({"type": "string", "pattern": None}, VICTIM),
    "items": ({"type": "array", "items": {"type": "string", "pattern": None}}, [VICTIM] * 50),
    "pattern properties": ({"type": "object", "patternProperties": {None: {"type": "integer"}}}, {VICTIM: "x"}),
    "closed pattern properties": (
        {"type": "object", "patternProperties": {None: {}}, "additionalProperties": False},
        {VICTIM: "x"},
    ),
    "property names": ({"type": "object", "propertyNames": {"pattern": None}}, {VICTIM: 1}),
    "union": ({"anyOf": [{"type": "string", "pattern": None}, {"type": "integer"}]}, VICTIM),
    "exclusive union": ({"oneOf": [{"pattern": None}, {"type": "integer"}]}, VICTIM),
    "all of": ({"allOf": [{"pattern": None}, {"pattern": None}]}, VICTIM),
}
UNDECIDED_MUST_NOT_PASS: dict[str, Any] = {
    "not": ({"not": {"pattern": None}}, VICTIM),
    "if": ({"if": {"pattern": None}, "then": False}, VICTIM),
    "else": ({"if": {"pattern": None}, "else": False}, VICTIM),
    "one of": ({"oneOf": [{"pattern": None}, {"type": "string"}]}, VICTIM),
    "contains": ({"contains": {"pattern": None}, "minContains": 0, "maxContains": 0}, [VICTIM]),
    "false below a name": ({"type": "object", "patternProperties": {None: False}}, {VICTIM: 1}),
    "either way wrong": ({"patternProperties": {None: {}}, "additionalProperties": {"type": "integer"}}, {VICTIM: "x"}),
}


def with_pattern(schema: Any, pattern: str) -> Any:
    if isinstance(schema, dict):
        return {(pattern if key is None else key): with_pattern(item, pattern) for key, item in schema.items()}
    if isinstance(schema, list):
        return [with_pattern(item, pattern) for item in schema]
    return pattern if schema is None else schema


def compiled(schema: Any, pattern: str) -> ArgumentSchema:
    return ArgumentSchema.compile({"type": "object", "properties": {"p": with_pattern(schema, pattern)}})


@pytest.mark.parametrize("pattern", [EVIL, EVIL_REFERENCE])
@pytest.mark.parametrize("position", POSITIONS)
def test_no_pattern_hangs(position: str, pattern: str) -> None:
    schema, value = POSITIONS[position]
    made = compiled(schema, pattern)
    begin = time.process_time()
    answer = made.normalize({"p": value}, effect="read")
    made.check({"p": value})
    assert time.process_time() - begin < 60  # some milliseconds; backtracking would not end in years
    open_map = position == "pattern properties" and pattern == EVIL
    assert bool(answer.problems) is not open_map


@pytest.mark.parametrize("position", UNDECIDED_MUST_NOT_PASS)
def test_what_cannot_be_decided_is_refused(position: str) -> None:
    schema, value = UNDECIDED_MUST_NOT_PASS[position]
    made = compiled(schema, EVIL_REFERENCE)
    begin = time.process_time()
    assert made.normalize({"p": value}).problems
    assert time.process_time() - begin < 60  # some milliseconds; backtracking would not end in years


def test_what_cannot_be_decided_in_a_large_value_is_refused() -> None:
    schema = compiled({"items": {"oneOf": [{"pattern": None}, {"type": "string"}]}}, EVIL_REFERENCE)
    made = schema.normalize({"p": ["!"] * 6000 + [VICTIM]})
    assert [problem.rule for problem in made.problems] == ["undecided"]
    assert schema.normalize({"p": ["!"] * 6000}).problems == ()


def test_what_cannot_be_decided_has_its_own_words() -> None:
    made = compiled({"type": "string", "pattern": None}, EVIL_REFERENCE).normalize({"p": VICTIM})
    assert "in reasonable time" in made.message
    assert "must match" not in made.message


def test_a_long_text_is_no_problem_for_a_linear_pattern() -> None:
    made = compiled({"type": "string", "pattern": None}, EVIL)
    begin = time.process_time()
    assert made.normalize({"p": "a" * 500_000}).problems == ()
    assert made.normalize({"p": "a" * 500_000 + "!"}).problems
    assert time.process_time() - begin < 60  # some milliseconds; backtracking would not end in years


DIALECT: list[tuple[str, list[str], list[str]]] = [
    (r"^\d+$", ["0", "12"], ["\u0661", "\u07c0", "1\n", ""]),
    (r"^\w+$", ["aZ_9"], ["é", "-"]),
    (r"^\s$", [" ", "\t", "\u00a0", "\ufeff", "\u2028"], ["a"]),
    (r"^a$", ["a"], ["a\n", "b\na", "\na"]),
    (r"a", ["bab"], ["b"]),
    (r"^\p{L}+$", ["é", "ж"], ["1"]),
    (r"^\u0041$", ["A"], ["a"]),
    (r"^\cC$", ["\x03"], ["C"]),
    (r"^(?!secret).*$", ["public"], ["secret stuff"]),
    (r"^(?=.*[A-Z])(?=.*\d).{4,}$", ["abC1"], ["abc1", "A1"]),
    (r"^(a|b)\1$", ["aa"], ["ab"]),
    (r"^(?<year>\d{4})$", ["2026"], ["26"]),
    (r"^\/a\-b$", ["/a-b"], ["a-b"]),
    (r"^.$", ["\U0001f600"], ["ab", "\n"]),
]


@pytest.mark.parametrize(("pattern", "matching", "other"), DIALECT)
def test_the_dialect_is_ecma_262(pattern: str, matching: list[str], other: list[str]) -> None:
    schema = compiled({"type": "string", "pattern": None}, pattern)
    assert schema.findings == ()
    for text in matching:
        assert schema.is_valid({"p": text}), text
    for text in other:
        assert not schema.is_valid({"p": text}), text


@pytest.mark.parametrize("pattern", ["(", "[", "a{2,1}", r"\Aa\Z", r"\a", "*"])
def test_a_pattern_that_is_none_refuses_every_text_and_is_reported(pattern: str) -> None:
    schema = compiled({"type": ["string", "integer"], "pattern": None}, pattern)
    assert [finding.code for finding in schema.findings] == ["pattern_invalid"]
    made = schema.normalize({"p": "anything"})
    assert "cannot be accepted" in made.message
    assert schema.normalize({"p": 5}).problems == ()
    assert schema.normalize({}).problems == ()


def test_a_name_pattern_that_is_none_admits_declared_names_only() -> None:
    schema = ArgumentSchema.compile(
        {"type": "object", "properties": {"a": {}}, "patternProperties": {"(": {}, "^x": {"type": "integer"}}}
    )
    assert [finding.code for finding in schema.findings] == ["pattern_invalid"]
    assert schema.normalize({"a": 1, "x1": 2}).problems == ()
    assert schema.normalize({"(": 1}).error_type == "PARAM_UNKNOWN"


@pytest.mark.parametrize("pattern", ["^[^x]*$", "(?!x)y"])
def test_half_a_surrogate_pair_is_matched_like_any_character(pattern: str) -> None:
    schema = ArgumentSchema.compile(
        {"type": "object", "properties": {"p": {"type": "string", "pattern": pattern, "maxLength": 3}}}
    )
    assert schema.normalize({"p": "y\ud83d"}).problems == ()
    assert schema.normalize('{"p": "y\\ud83d\\ud83d"}').value == {"p": "y\ud83d\ud83d"}
    assert [problem.rule for problem in schema.normalize({"p": "x\ud83d"}).problems] == ["pattern"]
    assert [problem.rule for problem in schema.normalize({"p": "y\ud83d\ud83d\ud83d"}).problems] == ["maxLength"]


def test_the_stand_in_for_half_a_surrogate_pair_is_not_taken_for_a_member() -> None:
    schema = ArgumentSchema.compile({"type": "object", "properties": {"e": {"enum": ["\U0010f000", "a"]}}})
    assert schema.normalize({"e": "\U0010f000"}).problems == ()
    assert schema.normalize({"e": "\ud800"}).problems
