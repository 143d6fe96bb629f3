"""Words for the model: what is expected, what came, what to do; no secrets, no cross products, not too many."""

from __future__ import annotations

from typing import Any

import pytest

from fcguard.arguments import ArgumentSchema, Normalized
from fcguard.arguments.explain import _MESSAGES, _SEVERAL, MAX_PROBLEMS
from fcguard.arguments.refusal import ERROR_TYPES, OWN_RULES
from fcguard.model.failure import ErrorType


def sent(schema: Any, raw: Any, **options: Any) -> Normalized:
    return ArgumentSchema.compile(schema, **options).normalize(raw)


def parameter(schema: Any, value: Any, name: str = "p", **options: Any) -> Normalized:
    return sent({"type": "object", "properties": {name: schema}}, {name: value}, **options)


WORDS: list[tuple[Any, Any, str]] = [
    ({"type": "integer"}, "five", "must be an integer, in plain digits without separators or units; got 'five'"),
    (
        {"type": "number", "description": "Price in EUR"},
        "1,5",
        "must be a number, in plain digits without separators or units (Price in EUR); got '1,5'",
    ),
    ({"type": "boolean"}, "yes", "must be true or false; got 'yes'"),
    ({"type": "array"}, "x", 'must be an array, sent as a JSON array such as ["a", "b"]; got \'x\''),
    ({"type": "string"}, [1, 2], "must be a string; got an array of 2"),
    ({"type": "string"}, {"a": 1}, "must be a string; got an object"),
    ({"type": "object"}, 5, "must be an object; got 5"),
    (
        {"type": ["integer", "null"]},
        "x",
        "must be an integer or null, in plain digits without separators or units; got 'x'",
    ),
    ({"enum": ["Active", "Cleared"]}, "Open", 'must be one of "Active", "Cleared"; got \'Open\''),
    (
        {"enum": ["Active", "Cleared"]},
        "Activ",
        "must be one of \"Active\", \"Cleared\"; got 'Activ'; did you mean 'Active'?",
    ),
    ({"const": {"a": 1}}, "x", "must be {\"a\":1}; got 'x'"),
    (
        {"type": "integer", "minimum": 0, "maximum": 100, "description": "Percent."},
        230,
        "must be at least 0 and at most 100 (Percent.); got 230",
    ),
    ({"exclusiveMinimum": 0}, 0, "must be more than 0; got 0"),
    ({"exclusiveMaximum": 5}, 7, "must be less than 5; got 7"),
    ({"type": "string", "minLength": 1}, " ", ""),
    ({"type": "string", "minLength": 3}, "ab", "must have at least 3 characters; got 'ab'"),
    ({"type": "string", "maxLength": 1}, "ab", "must have at most 1 characters; got 'ab'"),
    ({"type": "string", "minLength": 3, "maxLength": 4}, "ab", "must have 3 to 4 characters; got 'ab'"),
    ({"type": "array", "minItems": 1}, [], "must have at least 1 item; got an array of 0"),
    ({"type": "array", "maxItems": 1}, [1, 2], "must have at most 1 items; got an array of 2"),
    ({"type": "array", "minItems": 2, "maxItems": 3}, [1], "must have 2 to 3 items; got an array of 1"),
    ({"minProperties": 1}, {}, "must have at least 1 properties; got an object"),
    ({"minProperties": 1, "maxProperties": 2}, {}, "must have at least 1 and at most 2 properties; got an object"),
    ({"type": "string", "pattern": r"^A\d{10}$"}, "B1", r"must match the pattern ^A\d{10}$; got 'B1'"),
    ({"type": "string", "format": "date"}, "x", "must be a date such as 2026-01-31 (YYYY-MM-DD); got 'x'"),
    (
        {"type": "string", "format": "date-time"},
        "2026-01-31T10:00:00",
        "must be a date and time with offset, such as 2026-01-31T09:30:00Z or 2026-01-31T09:30:00+02:00; got '2026-01-31T10:00:00'",
    ),
    ({"type": "string", "format": "idn-email"}, "x", "must be of the format 'idn-email'; got 'x'"),
    ({"multipleOf": 0.5}, 0.7, "must be a multiple of 0.5; got 0.7"),
    ({"uniqueItems": True}, [1, 1], "must not hold the same item twice"),
    ({"contains": {"const": 1}}, [], "does not hold the items that it must hold, or too many of them"),
    ({"not": {"const": 1}}, 1, "is of a form that is not allowed here"),
    (False, 1, "must not be given; leave it out"),
    ({"prefixItems": [True], "items": False}, [1, 2], "must not be given; leave it out"),
    ({"prefixItems": [True], "unevaluatedItems": False}, [1, 2], "has items that are not allowed"),
    ({"propertyNames": {"maxLength": 1}}, {"ab": 1}, "has a property whose name is not allowed"),
    (
        {"anyOf": [{"type": "integer"}, {"type": "boolean"}]},
        "x",
        "must be an integer or true or false, in plain digits without separators or units; got 'x'",
    ),
    ({"anyOf": [{"enum": ["a"]}, {"const": "b"}]}, "x", 'must be one of "a", "b"; got \'x\''),
    (
        {"oneOf": [{"type": "number"}, {"minimum": 0}]},
        5.5,
        "fits more than one of the allowed forms; leave out what belongs to the others",
    ),
    ({"anyOf": [{"required": ["a"]}, {"required": ["b", "c"]}]}, {}, "needs at least one of 'a' or 'b' and 'c'"),
    ({"oneOf": [{"required": ["a"]}, {"required": ["b"]}]}, {}, "needs exactly one of 'a' or 'b'"),
    ({"anyOf": [False]}, 1, "must not be given; leave it out"),
]


@pytest.mark.parametrize(("schema", "value", "words"), [row for row in WORDS if row[2]])
def test_words(schema: Any, value: Any, words: str) -> None:
    made = parameter(schema, value)
    assert made.message.removeprefix("p: ").removeprefix("p[1]: ") == words


def test_every_keyword_has_words() -> None:
    assert not set(_MESSAGES) & set(_SEVERAL)
    asserting = {
        "type",
        "enum",
        "const",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "minLength",
        "maxLength",
        "pattern",
        "format",
        "minItems",
        "maxItems",
        "uniqueItems",
        "contains",
        "additionalItems",
        "unevaluatedItems",
        "minProperties",
        "maxProperties",
        "required",
        "additionalProperties",
        "unevaluatedProperties",
        "propertyNames",
        "not",
        "anyOf",
        "oneOf",
        "falseSchema",
        "undecided",
    }
    assert set(_MESSAGES) | set(_SEVERAL) == asserting


def test_error_types_of_rules() -> None:
    assert set(ERROR_TYPES.values()) <= set(ErrorType)
    assert {"normalizer", "reserved_name", "bound_parameter", "wrapper_with_siblings"} <= OWN_RULES & set(ERROR_TYPES)


def test_older_tuples_have_words() -> None:
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {"p": {"items": [{}], "additionalItems": False}},
    }
    assert sent(schema, {"p": [1, 2]}).message == "p: must not have more than 1 items"


def test_missing_parameters_are_named_with_type_and_description() -> None:
    schema = {
        "type": "object",
        "properties": {
            "sku": {"type": "string", "description": "Stock keeping\n unit"},
            "n": {"type": ["integer", "null"]},
            "any": True,
        },
        "required": ["sku", "n", "any", "undeclared"],
    }
    made = sent(schema, {})
    assert made.error_type == "PARAM_MISSING"
    assert made.next_action == "fix_arguments"
    assert [str(problem) for problem in made.problems] == [
        "sku: is required and missing; send a string (Stock keeping unit)",
        "n: is required and missing; send an integer or null",
        "any: is required and missing",
        "undeclared: is required and missing",
    ]
    assert made.message.startswith("- sku:")


def test_missing_within_an_object_and_a_name_that_was_probably_meant() -> None:
    item = {
        "type": "object",
        "properties": {"file_path": {"type": "string"}, "order_id": {}},
        "required": ["file_path", "order_id"],
    }
    made = sent(
        {"type": "object", "properties": {"files": {"type": "array", "items": item}}},
        {"files": [{"path": "/a", "order_id": 1}, {"file_path": "/b"}]},
    )
    assert [problem.path for problem in made.problems] == ["files[0].file_path", "files[1].order_id"]
    assert "'path' was sent, which is not declared" in made.problems[0].message
    assert made.next_action == "ask_user"


def test_requirements_of_other_parameters() -> None:
    schema = {
        "type": "object",
        "properties": {"card": {}, "address": {"type": "string"}},
        "dependentRequired": {"card": ["address"]},
    }
    assert sent(schema, {"card": 1}).message == "address: is required when 'card' is given; send a string"


def test_an_unknown_key_beside_a_missing_one_is_the_models_to_mend() -> None:
    schema = {
        "type": "object",
        "properties": {"order_id": {"type": "string"}},
        "required": ["order_id"],
        "additionalProperties": False,
    }
    made = sent(schema, {"order_idd": "1"})
    assert (made.error_type, made.next_action) == ("PARAM_UNKNOWN", "fix_arguments")
    assert "did you mean 'order_id'?" in made.message


# -- unions

KINDS = {
    "oneOf": [
        {"$ref": "#/$defs/user"},
        {
            "type": "object",
            "properties": {"kind": {"const": "company"}, "vat": {"type": "string"}},
            "required": ["kind", "vat"],
            "additionalProperties": False,
        },
        {"type": "null"},
    ]
}
USER = {
    "type": "object",
    "properties": {"kind": {"enum": ["user", "admin"]}, "name": {"type": "string"}},
    "required": ["kind", "name"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (
            {"kind": "company", "name": "x"},
            ["p.vat: is required and missing; send a string", "p.name: is not a known parameter; allowed: kind, vat"],
        ),
        ({"kind": "admin"}, ["p.name: is required and missing; send a string"]),
        ({"kind": "robot", "name": "x"}, ['p.kind: must be one of "user", "admin", "company"; got \'robot\'']),
        ({"name": "x"}, ["p.kind: is required and missing (one of user, admin, company)"]),
        (5, ["p: must be an object or null; got 5"]),
    ],
)
def test_only_the_branch_that_the_tag_chooses_is_worded(value: Any, words: list[str]) -> None:
    made = sent({"type": "object", "properties": {"p": KINDS}, "$defs": {"user": USER}}, {"p": value})
    assert sorted(map(str, made.problems)) == sorted(words)


def test_without_a_tag_the_closest_branch_is_worded() -> None:
    union = {
        "anyOf": [
            {
                "type": "object",
                "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
                "required": ["a", "b"],
            },
            {"type": "object", "properties": {"c": {"type": "integer"}}, "required": ["c"]},
            {"type": "string"},
        ]
    }
    assert [problem.path for problem in parameter(union, {"a": 1, "c": "x"}).problems] == ["p.c"]
    assert [problem.path for problem in parameter(union, {"a": 1}).problems] == ["p.b"]


def test_unions_within_unions_are_worded_along_one_branch() -> None:
    inner = {
        "anyOf": [{"type": "object", "properties": {"x": {"type": "integer"}}, "required": ["x"]}, {"type": "integer"}]
    }
    union = {"anyOf": [{"type": "object", "properties": {"deep": inner}, "required": ["deep"]}, {"type": "array"}]}
    assert [str(problem) for problem in parameter(union, {"deep": {}}).problems] == [
        "p.deep.x: is required and missing; send an integer"
    ]


def test_a_union_in_a_document_of_its_own_still_gets_words() -> None:
    schema = {
        "type": "object",
        "$defs": {"own": {"$id": "https://example.com/own", "anyOf": [{"type": "integer"}, {"type": "boolean"}]}},
        "properties": {"p": {"$ref": "https://example.com/own"}},
    }
    assert (
        "must be an integer or true or false" in sent(schema, {"p": "x"}).message
        or "fits none" in sent(schema, {"p": "x"}).message
    )
    assert sent(schema, {"p": 5}).problems == ()


# -- secrets and lengths


@pytest.mark.parametrize(
    "name", ["password", "api_key", "apiKey", "token", "authorization", "client_secret", "dbCredential"]
)
@pytest.mark.parametrize("value", ["hunter2-hunter2", 12345678, 12345678.5])
def test_values_of_telling_names_are_never_repeated(name: str, value: Any) -> None:
    for schema in (
        {"type": "boolean"},
        {"enum": ["x"]},
        {"type": ["string", "integer"], "pattern": "^x$", "maximum": 5},
        {"type": "string", "format": "date"},
    ):
        made = parameter(schema, value, name)
        assert made.problems
        assert "hunter2" not in made.message
        assert "1234567" not in made.message


def test_declared_secrets_are_never_repeated() -> None:
    properties = {
        "a": {"type": "integer", "writeOnly": True},
        "b": {"type": "integer", "format": "password"},
        "c": {"type": "integer"},
        "d": {"type": "object", "properties": {"a": {"type": "boolean"}}},
    }
    made = sent(
        {"type": "object", "properties": properties},
        {"a": "s3cr3t", "b": "s3cr3t", "c": "s3cr3t", "d": {"a": "s3cr3t"}},
        secret=["c"],
    )
    assert len(made.problems) == 4
    assert "s3cr3t" not in made.message
    assert "that is not shown" in made.message


@pytest.mark.parametrize(
    "raw",
    [
        '{"password": hunter2-hunter2"}',
        '{"a": 1, "password": "x" hunter2-hunter2}',
        "password=hunter2-hunter2",
        "Authorization: Bearer hunter2-hunter2",
    ],
)
def test_secrets_in_text_that_is_no_json_are_not_repeated(raw: str) -> None:
    made = sent({"type": "object", "properties": {"password": {"type": "string"}}}, raw)
    assert made.error_type == "PARAM_MALFORMED"
    assert "hunter2" not in made.message


def test_a_secret_date_is_not_repeated() -> None:
    made = parameter({"type": "string", "format": "date"}, "03/04/2026", "pin_token")
    assert made.next_action == "ask_user"
    assert "03/04" not in made.message


def test_what_is_repeated_is_short() -> None:
    long = "x" * 5000
    for schema, value in (
        ({"type": "integer"}, long),
        ({"type": "string", "pattern": f"^({'ab' * 500})$"}, long),
        ({"enum": [long]}, "y"),
        ({"type": "integer", "description": long}, "y"),
        ({"type": "boolean"}, 10**300),
    ):
        assert len(parameter(schema, value).message) < 400
    assert len(sent({"type": "object", "additionalProperties": False}, {long: 1}).message) < 300
    many = parameter({"enum": [f"value-{number}" for number in range(500)]}, "value-499x")
    assert len(many.message) < 1000
    assert "and 470 more" in many.message
    assert "did you mean 'value-499'" in many.message


def test_long_and_unprintable_names_do_not_fill_the_message() -> None:
    schema = {"type": "object", "properties": {"p": {"type": "object", "additionalProperties": {"type": "boolean"}}}}
    made = sent(schema, {"p": {"x" * 5000: "y", "a\nb\x00": "y"}})
    assert len(made.message) < 400
    assert "a\\nb\\x00" in made.message


def test_the_number_of_problems_is_limited() -> None:
    schema = {"type": "object", "properties": {"p": {"type": "array", "items": {"type": "boolean"}}}}
    made = sent(schema, {"p": ["x"] * 50})
    assert len(made.problems) == MAX_PROBLEMS + 1
    assert str(made.problems[-1]) == "and 30 more problems"
    large = sent(schema, {"p": ["x"] * 50_000})
    assert [problem.path for problem in large.problems] == ["p[0]"]
    unknown = sent({"type": "object", "additionalProperties": False}, {f"k{number}": 1 for number in range(100)})
    assert len(unknown.problems) == MAX_PROBLEMS + 1


def test_own_problems_say_all_about_their_place() -> None:
    made = sent(
        {"type": "object", "properties": {"p": {"type": "integer"}}, "additionalProperties": False},
        {"p": 1e300, "__class__": 1},
    )
    assert [(problem.path, problem.rule) for problem in made.problems] == [
        ("__class__", "reserved_name"),
        ("p", "inexact"),
    ]
    assert made.error_type == "PARAM_UNKNOWN"


def test_check_words_what_is_wrong_without_folding() -> None:
    compiled = ArgumentSchema.compile({"type": "object", "properties": {"p": {"type": "integer"}}})
    assert [str(problem) for problem in compiled.check({"p": "5"})] == [
        "p: must be an integer, in plain digits without separators or units; got '5'"
    ]
    assert compiled.check({"p": 5}) == ()
