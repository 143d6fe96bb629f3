"""The folding rules: what is converted, what stays, and what is refused, decided by the parameter's schema."""

from __future__ import annotations

from typing import Any

import pytest

from fcguard.arguments import Fold
from tests.arguments.one_parameter import sent

DAY = {"type": "string", "format": "date"}
MOMENT = {"type": "string", "format": "date-time"}
TIME = {"type": "string", "format": "time"}
WORDS = {"type": "array", "items": {"type": "string"}}


FOLDED: list[tuple[str, Any, Any, Any]] = [
    ("number", {"type": "integer"}, "100", 100),
    ("number", {"type": "integer"}, "-7", -7),
    ("number", {"type": "integer"}, "0", 0),
    ("number", {"type": "integer"}, "2.0", 2),
    ("number", {"type": "integer"}, "1e3", 1000),
    ("number", {"type": "integer"}, "9007199254740993", 9007199254740993),
    ("number", {"type": "integer"}, "123456789012345678901234567890", 123456789012345678901234567890),
    ("number", {"type": "number"}, "3.14", 3.14),
    ("number", {"type": "number"}, "5", 5),
    ("number", {"type": "number"}, "-0.5e-3", -0.0005),
    ("number", {"type": "number"}, "123456789012345678901234567890", 123456789012345678901234567890),
    ("number", {"type": ["integer", "null"]}, "3", 3),
    ("number", {"type": ["integer", "boolean"]}, "3", 3),
    ("number", {"allOf": [{"type": "integer"}, {"minimum": 3}]}, "3", 3),
    ("integral_float", {"type": "integer"}, 2.0, 2),
    ("integral_float", {"type": "integer"}, 1e3, 1000),
    ("integral_float", {"type": "integer"}, -0.0, 0),
    ("integral_float", {"anyOf": [{"type": "integer"}, {"type": "null"}]}, 2.0, 2),
    ("integral_float", {"anyOf": [{"type": "integer"}, {"type": "string"}]}, 2.0, 2),
    ("integral_float", {"type": "integer", "enum": [1, 2]}, 2.0, 2),
    ("number_as_text", {"type": "string"}, 12, "12"),
    ("number_as_text", {"type": ["string", "null"]}, 12, "12"),
    ("number_as_text", {"type": "string"}, 2**70, str(2**70)),
    ("boolean", {"type": "boolean"}, "true", True),
    ("boolean", {"type": "boolean"}, "FALSE", False),
    ("boolean", {"type": ["boolean", "integer"]}, "True", True),
    ("enum", {"type": "string", "enum": ["Active", "on-hold"]}, "ACTIVE", "Active"),
    ("enum", {"type": "string", "enum": ["Active", "on-hold"]}, "on hold", "on-hold"),
    ("enum", {"enum": ["list_windows"]}, "listWindows", "list_windows"),
    ("enum", {"enum": ["list_windows"]}, " List-Windows ", "list_windows"),
    ("enum", {"enum": ["en_US", "en_GB"]}, "en-us", "en_US"),
    ("enum", {"enum": [1, 2]}, "2", 2),
    ("enum", {"type": "number", "enum": [1, 2.5]}, "2.5", 2.5),
    ("enum", {"enum": ["1", "2"]}, 2, "2"),
    ("enum", {"enum": [True, None]}, "TRUE", True),
    ("enum", {"const": "only"}, "ONLY", "only"),
    ("enum", {"enum": ["-created", "created"]}, "Created", "created"),
    ("date", DAY, "11/30/2024", "2024-11-30"),
    ("date", DAY, "30.11.2024", "2024-11-30"),
    ("date", DAY, "2024/3/4", "2024-03-04"),
    ("date", DAY, "20241130", "2024-11-30"),
    ("date", DAY, "03/03/2026", "2026-03-03"),
    ("date", DAY, "Nov 30, 2024", "2024-11-30"),
    ("date", DAY, "2024 November 30", "2024-11-30"),
    ("date", DAY, "30th November 2024", "2024-11-30"),
    ("date", DAY, "Sat, 30 Nov 2024", "2024-11-30"),
    ("date", DAY, "2024-11-30T00:00:00", "2024-11-30"),
    ("date", MOMENT, "2026-02-09 00:00:00-06:00", "2026-02-09T00:00:00-06:00"),
    ("date", MOMENT, "2026-02-09T10:00Z", "2026-02-09T10:00:00Z"),
    ("date", MOMENT, "2026-02-09T10:00:00+0200", "2026-02-09T10:00:00+02:00"),
    ("date", MOMENT, "2026-02-09 10:00:00.5 UTC", "2026-02-09T10:00:00.5Z"),
    ("date", MOMENT, "11/30/2024 2:05 PM +01", "2024-11-30T14:05:00+01:00"),
    ("date", MOMENT, "Mon, 09 Feb 2026 10:00:00 GMT", "2026-02-09T10:00:00Z"),
    ("date", TIME, "9:30Z", "09:30:00Z"),
    ("date", TIME, "12:05 am Z", "00:05:00Z"),
    ("date", {"anyOf": [DAY, {"type": "null"}]}, "11/30/2024", "2024-11-30"),
    ("json_text", WORDS, '["a", "b"]', ["a", "b"]),
    ("json_text", WORDS, " [] ", []),
    ("json_text", {"type": "object"}, '{"a": {"b": [1]}}', {"a": {"b": [1]}}),
    ("json_text", {"type": ["array", "null"]}, "[1]", [1]),
    ("json_text", {"anyOf": [WORDS, {"type": "integer"}]}, '["a"]', ["a"]),
]


@pytest.mark.parametrize("effect", ["read", "write", "destructive"])
@pytest.mark.parametrize(("rule", "schema", "before", "after"), FOLDED)
def test_folded_and_recorded(rule: str, schema: Any, before: Any, after: Any, effect: Any) -> None:
    made = sent(schema, before, effect=effect)
    assert made.problems == ()
    assert made.value == {"p": after}
    assert type(made.value["p"]) is type(after)
    assert made.folds == (Fold("p", rule, before, after),)


STAYS: list[tuple[Any, Any]] = [
    ({"type": "string"}, "001234"),
    ({"type": "string"}, "true"),
    ({"type": "string"}, '{"as_of": "2026-04-13"}'),
    ({"type": "string"}, "[1, 2]"),
    ({"type": "string"}, "03/04/2026"),
    ({"type": "string"}, ""),
    ({"type": ["number", "string"]}, 1),
    ({"type": ["integer", "string"]}, "42"),
    ({"type": ["array", "string"]}, "[1]"),
    ({"anyOf": [{"type": "integer"}, {"type": "string"}]}, "42"),
    ({"anyOf": [{"type": "number"}, {"type": "string"}]}, 2.0),
    ({"oneOf": [{"type": "integer"}, {"type": "string"}]}, "42"),
    ({"type": "number"}, 2.0),
    ({"type": "number"}, 1e300),
    ({"type": ["integer", "number"]}, 2.0),
    ({"type": ["string", "null"]}, None),
    ({"anyOf": [{"type": "string"}, {"type": "null"}]}, None),
    ({"enum": ["a", None]}, None),
    ({"enum": ["Active", "ACTIVE"]}, "ACTIVE"),
    ({}, "3"),
    ({}, None),
    (True, [1.0]),
    (DAY, "2024-02-29"),
    (MOMENT, "2026-02-09T00:00:00-06:00"),
    (MOMENT, "2026-02-09T00:00:00Z"),
    (MOMENT, "2026-02-09t00:00:00z"),
    (TIME, "23:59:59+14:00"),
]


@pytest.mark.parametrize("effect", ["read", "write"])
@pytest.mark.parametrize(("schema", "value"), STAYS)
def test_what_is_allowed_stays_as_it_is(schema: Any, value: Any, effect: Any) -> None:
    made = sent(schema, value, effect=effect)
    assert made.problems == ()
    assert made.folds == ()
    assert repr(made.value) == repr({"p": value})


REFUSED: list[tuple[Any, Any]] = [
    *[
        ({"type": "integer"}, value)
        for value in (
            "3.14",
            "1,234",
            "50%",
            "$20",
            "5k",
            " 5",
            "5 ",
            "+5",
            "007",
            "0x10",
            "1_000",
            "",
            "five",
            "1e-3",
            "٣",
            "NaN",
            "1e999",
        )
    ],
    *[
        ({"type": "number"}, value)
        for value in ("1,5", "1.234,5", "Infinity", "1e999", ".5", "5.", "1.00000000000000000001", "")
    ],
    *[({"type": "integer"}, value) for value in (True, None, 2.5, 1e300, [1], {"a": 1})],
    *[
        ({"type": "boolean"}, value)
        for value in ("yes", "no", "1", "0", 1, 0, "on", "t", " true", "passive-ish", "", None)
    ],
    *[({"type": "string"}, value) for value in (True, 1.5, None, ["a"], {"description": "x", "type": "str"})],
    *[
        ({"type": "string", "enum": ["Active", "Cleared"]}, value)
        for value in ("Open", "Activ", "Active!", "", "Active Cleared")
    ],
    ({"enum": ["a-b", "A_B"]}, "a b"),
    ({"enum": ["12"]}, "1-2"),
    ({"enum": ["-created"]}, "created"),
    ({"enum": [None, "x"]}, "null"),
    ({"const": 5}, "6"),
    *[
        (DAY, value)
        for value in (
            "2026-02-30",
            "30/30/2026",
            "11/30/24",
            "tomorrow",
            "2026-11-30T10:00:00",
            "2026-11-30T00:00:00Z",
            "2024-W05-1",
            "Sun, 30 Nov 2024",
            20241130,
            "",
        )
    ],
    *[
        (MOMENT, value)
        for value in (
            "2026-02-09",
            "2026-02-09T00:00:00",
            "2026-02-09 25:00:00Z",
            1770595200,
            "11/30/2024 2:05 PM",
            "2026-02-09T10:00:00 CET",
        )
    ],
    *[(TIME, value) for value in ("10:00", "25:00:00Z", "13:00 pm Z", "10")],
    *[
        (WORDS, value)
        for value in (
            "[draft] release notes",
            "['a']",
            '["a"',
            '{"a": 1}',
            "a",
            "[1, 1e999]",
            '["a", "a"',
            '[{"k": 1, "k": 1}]',
            "",
        )
    ],
    ({"type": "object"}, "[1]"),
    ({"type": "object"}, "{'a': 1}"),
    ({"type": "array", "items": {"type": "integer"}}, "1, 2"),
    ({"anyOf": [{"type": "integer"}, {"type": "boolean"}]}, "x"),
]


@pytest.mark.parametrize("effect", ["read", "write"])
@pytest.mark.parametrize(("schema", "value"), REFUSED)
def test_what_is_not_certain_is_refused(schema: Any, value: Any, effect: Any) -> None:
    made = sent(schema, value, effect=effect)
    assert made.error_type == "PARAM_INVALID"
    assert made.value == {"p": value}
    assert made.folds == ()


@pytest.mark.parametrize(
    ("text", "words"),
    [("red, blue", ["red", "blue"]), ("a,b", ["a", "b"]), ("New York, Oslo ", ["New York", "Oslo"])],
)
def test_a_comma_list_is_split_for_read_tools_only(text: str, words: list[str]) -> None:
    made = sent(WORDS, text, effect="read")
    assert made.value == {"p": words}
    assert made.folds == (Fold("p", "comma_list", text, words),)
    assert sent(WORDS, text, effect="write").error_type == "PARAM_INVALID"


@pytest.mark.parametrize("text", ["one", "a,", ",a", "a,,b", '"a", b', "a; b, c", "[a, b]", "f(a, b)", "a,\nb"])
def test_what_is_no_plain_comma_list_is_not_split(text: str) -> None:
    assert sent(WORDS, text, effect="read").error_type == "PARAM_INVALID"


def test_pieces_of_a_comma_list_must_be_valid() -> None:
    schema = {"type": "array", "items": {"type": "string", "pattern": "^[a-z]+$"}}
    assert sent(schema, "red, blue", effect="read").value == {"p": ["red", "blue"]}
    made = sent(schema, "red, Blue", effect="read")
    assert made.value == {"p": "red, Blue"}
    assert made.problems[0].rule == "type"


@pytest.mark.parametrize(
    ("value", "form", "both"),
    [
        ("03/04/2026", DAY, ("2026-03-04", "2026-04-03")),
        ("3.4.2026", DAY, ("2026-03-04", "2026-04-03")),
        ("01022024", DAY, ("2024-01-02", "2024-02-01")),
        ("03/04/2026 10:00Z", MOMENT, ("2026-03-04T10:00:00Z", "2026-04-03T10:00:00Z")),
        ("03/04/2026", {"anyOf": [DAY, {"type": "null"}]}, ("2026-03-04", "2026-04-03")),
        ("03/04/2026", {"anyOf": [DAY, MOMENT]}, ("2026-03-04", "2026-04-03")),
    ],
)
def test_two_readings_of_a_date_are_named_and_asked_about(value: str, form: Any, both: tuple[str, str]) -> None:
    made = sent(form, value)
    assert made.next_action == "ask_user"
    assert made.error_type == "PARAM_INVALID"
    assert [problem.rule for problem in made.problems] == ["ambiguous_date"]
    assert all(reading in made.message for reading in both)
    assert made.value == {"p": value}


@pytest.mark.parametrize(
    "schema", [{"type": "string"}, {"type": "integer"}, {"enum": ["a"]}, WORDS, {"type": "object"}, DAY]
)
def test_null_for_an_optional_parameter_is_left_out(schema: Any) -> None:
    made = sent(schema, None, required=False)
    assert made.value == {}
    assert made.folds == (Fold("p", "null_dropped", None, None),)
    assert sent(schema, None).error_type == "PARAM_INVALID"


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "integer"},
        {"type": "string", "minLength": 1},
        {"enum": ["a"]},
        WORDS,
        {"type": "object"},
        DAY,
        {"type": "string", "pattern": "."},
    ],
)
def test_an_empty_text_for_an_optional_parameter_that_refuses_it_is_left_out(schema: Any) -> None:
    made = sent(schema, "", required=False)
    assert made.value == {}
    assert made.folds == (Fold("p", "empty_dropped", "", None),)
    assert sent(schema, "").error_type == "PARAM_INVALID"


def test_an_allowed_empty_text_survives() -> None:
    assert sent({"type": "string"}, "", required=False).value == {"p": ""}


def test_zero_and_false_are_not_empty() -> None:
    assert sent({"type": "integer"}, 0, required=False).value == {"p": 0}
    assert sent({"type": "boolean"}, False, required=False).value == {"p": False}


def test_nulls_in_arrays_and_free_maps_are_not_left_out() -> None:
    assert sent(WORDS, ["a", None], required=False).error_type == "PARAM_INVALID"
    assert (
        sent({"type": "object", "additionalProperties": {"type": "string"}}, {"a": None}).error_type == "PARAM_INVALID"
    )
