"""The folding rules: what is converted, what stays, and what is refused, decided by the parameter's schema."""

from __future__ import annotations

from typing import Any

import pytest

from fcguard.arguments import ArgumentSchema, Fold, Normalized

DAY = {"type": "string", "format": "date"}
MOMENT = {"type": "string", "format": "date-time"}
TIME = {"type": "string", "format": "time"}
WORDS = {"type": "array", "items": {"type": "string"}}


def sent(schema: Any, value: Any, *, effect: Any = "write", required: bool = True) -> Normalized:
    parameters = {
        "type": "object",
        "properties": {"p": schema},
        "required": ["p"] if required else [],
        "additionalProperties": False,
    }
    return ArgumentSchema.compile(parameters).normalize({"p": value}, effect=effect)


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


NESTED = {
    "type": "object",
    "properties": {
        "items": {
            "type": "array",
            "items": {"$ref": "#/$defs/item"},
        },
        "point": {
            "type": "array",
            "prefixItems": [{"type": "number"}, {"type": "number"}],
            "items": {"type": "boolean"},
        },
        "limits": {
            "type": "object",
            "additionalProperties": {"type": "integer"},
            "patternProperties": {"^x-": {"type": "boolean"}},
        },
        "kind": {"type": "string"},
    },
    "$defs": {
        "item": {
            "type": "object",
            "properties": {"qty": {"type": "integer"}, "unit_price": {"type": "number"}, "note": {"type": "string"}},
            "required": ["qty"],
            "additionalProperties": False,
        }
    },
    "if": {"properties": {"kind": {"const": "day"}}, "required": ["kind"]},
    "then": {"properties": {"when": {"type": "string", "format": "date"}}},
    "else": {"properties": {"when": {"type": "integer"}}},
}


def test_folds_at_every_depth_with_their_paths() -> None:
    made = ArgumentSchema.compile(NESTED).normalize(
        {
            "items": [{"qty": 1}, {"qty": "2", "unitPrice": "2.5"}, {"qty": 3.0, "note": None}],
            "point": ["59.9", 10.7, "true"],
            "limits": {"a": "1", "x-b": "true"},
            "kind": "day",
            "when": "30.11.2024",
        }
    )
    assert made.problems == ()
    assert made.value == {
        "items": [{"qty": 1}, {"qty": 2, "unit_price": 2.5}, {"qty": 3}],
        "point": [59.9, 10.7, True],
        "limits": {"a": 1, "x-b": True},
        "kind": "day",
        "when": "2024-11-30",
    }
    assert {(fold.path, fold.rule) for fold in made.folds} == {
        ("items[1].qty", "number"),
        ("items[1].unit_price", "name"),
        ("items[1].unit_price", "number"),
        ("items[2].qty", "integral_float"),
        ("items[2].note", "null_dropped"),
        ("point[0]", "number"),
        ("point[2]", "boolean"),
        ("limits.a", "number"),
        ("limits.x-b", "boolean"),
        ("when", "date"),
    }
    other = ArgumentSchema.compile(NESTED).normalize({"kind": "other", "when": "5"})
    assert other.value == {"kind": "other", "when": 5}


def test_older_tuples_are_folded_by_position() -> None:
    schema = {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "type": "object",
        "properties": {"p": {"type": "array", "items": [{"type": "integer"}], "additionalItems": {"type": "boolean"}}},
    }
    assert ArgumentSchema.compile(schema).normalize({"p": ["1", "true"]}).value == {"p": [1, True]}


def test_keywords_beside_a_reference_count_from_2019_on() -> None:
    base = {
        "type": "object",
        "properties": {
            "q": {"type": "integer", "default": 2.0},
            "p": {"$ref": "#/definitions/s", "type": "integer"},
            "o": {"$ref": "#/definitions/o", "properties": {"b": {"default": 1}}},
        },
        "definitions": {"s": {}, "o": {"type": "object", "properties": {"a": {"default": 0}}}},
    }
    draft_7 = {"$schema": "http://json-schema.org/draft-07/schema#", **base}
    newer = ArgumentSchema.compile(base).normalize({"p": "1", "o": {}})
    older = ArgumentSchema.compile(draft_7).normalize({"q": "1", "p": "1", "o": {}})
    assert newer.value == {"p": 1, "o": {"a": 0, "b": 1}, "q": 2}
    assert older.value == {"q": 1, "p": "1", "o": {"a": 0}}


def test_references_into_lists_and_names_with_slashes() -> None:
    schema = {
        "type": "object",
        "properties": {
            "a": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "b": {"$ref": "#/properties/a/anyOf/0"},
            "c": {"$ref": "#/$defs/x~1y%20z"},
        },
        "$defs": {"x/y z": {"type": "boolean"}},
    }
    assert ArgumentSchema.compile(schema).normalize({"b": "1", "c": "true"}).value == {"b": 1, "c": True}


def test_references_by_anchor() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"$ref": "#n"}},
        "$defs": {"x": {"$anchor": "n", "type": "integer"}},
    }
    assert ArgumentSchema.compile(schema).normalize({"a": "1"}).value == {"a": 1}
    other = {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/x"}},
        "$defs": {"x": {"$dynamicRef": "#n"}, "y": {"$anchor": "n"}},
    }
    assert ArgumentSchema.compile(other).normalize({"a": "1"}).value == {"a": "1"}


def test_text_in_text_is_folded_inside() -> None:
    made = ArgumentSchema.compile(NESTED).normalize({"items": '[{"qty": "2", "unitPrice": "1"}]'})
    assert made.value == {"items": [{"qty": 2, "unit_price": 1}]}
    assert [fold.rule for fold in made.folds] == ["json_text", "name", "number", "number"]


def test_json_text_within_arguments_is_read_strictly() -> None:
    for text in ('[{"qty": 1, "qty": 1}]', '[{"qty": NaN}]', '[{"qty": 1},]', "[" * 70 + "]" * 70):
        made = ArgumentSchema.compile(NESTED).normalize({"items": text}, effect="read")
        assert made.error_type == "PARAM_INVALID"
        assert made.value == {"items": text}


def test_a_fold_that_does_not_lead_to_a_valid_value_is_taken_back() -> None:
    made = ArgumentSchema.compile(
        {
            "type": "object",
            "properties": {
                "limit": {"type": "integer", "maximum": 100},
                "items": {"type": "array", "items": {"type": "integer"}, "maxItems": 1},
                "ok": {"type": "integer"},
            },
        }
    ).normalize({"limit": "500", "items": '["1", "2"]', "ok": "7"})
    assert made.value == {"limit": "500", "items": '["1", "2"]', "ok": 7}
    assert [(fold.path, fold.rule) for fold in made.folds] == [("ok", "number")]
    assert [(problem.path, problem.rule) for problem in made.problems] == [("limit", "type"), ("items", "type")]


def test_a_rename_is_kept_when_the_conversion_at_the_same_place_is_taken_back() -> None:
    schema = {
        "type": "object",
        "properties": {"page_size": {"type": "integer", "maximum": 5}},
        "additionalProperties": False,
    }
    made = ArgumentSchema.compile(schema).normalize({"pageSize": "9"})
    assert made.value == {"page_size": "9"}
    assert made.folds == (Fold("page_size", "name", "pageSize", "page_size"),)


def test_values_are_not_moved_between_parameters() -> None:
    schema = {
        "type": "object",
        "properties": {"area": {"type": "string"}, "domain": {"enum": ["light"]}, "device_class": {"enum": ["outlet"]}},
    }
    made = ArgumentSchema.compile(schema).normalize({"area": "hall", "device_class": "light"})
    assert made.error_type == "PARAM_INVALID"


# -- unions

TAGGED = {
    "oneOf": [
        {
            "type": "object",
            "properties": {"mode": {"const": "latest"}},
            "required": ["mode"],
            "additionalProperties": False,
        },
        {
            "type": "object",
            "properties": {"mode": {"const": "window"}, "offset_id": {"type": "integer"}},
            "required": ["mode", "offset_id"],
            "additionalProperties": False,
        },
    ]
}


def test_a_union_is_folded_by_the_one_branch_that_becomes_valid() -> None:
    made = sent(TAGGED, {"mode": "window", "offsetId": "5"})
    assert made.value == {"p": {"mode": "window", "offset_id": 5}}
    assert [fold.path for fold in made.folds] == ["p.offset_id", "p.offset_id"]


def test_a_union_is_left_alone_where_two_branches_could_be_meant() -> None:
    either = {
        "anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "array", "items": {"type": "boolean"}}]
    }
    assert sent(either, ["1"]).value == {"p": [1]}
    made = sent({"anyOf": [{"type": "integer"}, {"type": "array"}, {"enum": ["[5]", "x"]}]}, " [5]")
    assert made.error_type is None or made.value == {"p": " [5]"}
    two = {
        "anyOf": [
            {"type": "integer"},
            {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]},
            {"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"]},
        ]
    }
    assert sent(two, {"a": "1"}).value == {"p": {"a": 1}}


def test_two_branches_with_different_results_are_refused() -> None:
    schema = {"anyOf": [{"enum": [1, 2]}, {"enum": ["ONE", "1 "]}]}
    assert sent(schema, "one").value == {"p": "ONE"}
    clash = {"anyOf": [{"type": "integer"}, {"enum": ["5 "]}]}
    made = sent(clash, "5")
    assert made.value == {"p": "5"}
    assert made.error_type == "PARAM_INVALID"


def test_branches_with_the_same_result_are_one_meaning() -> None:
    assert sent({"anyOf": [{"type": "integer"}, {"type": "number"}]}, "3").value == {"p": 3}


def test_only_whole_floats_are_folded_in_a_value_that_fits() -> None:
    schema = {
        "anyOf": [
            {"type": "object", "properties": {"user_id": {"type": "integer"}}, "required": ["userId"]},
            {"type": "integer"},
        ]
    }
    made = sent(schema, {"userId": "1", "user_id": 2.0})
    assert made.value == {"p": {"userId": "1", "user_id": 2}}


def test_recursive_schemas_fold_all_the_way_down() -> None:
    tree = {
        "type": "object",
        "properties": {"value": {"type": "integer"}, "children": {"type": "array", "items": {"$ref": "#"}}},
        "additionalProperties": False,
    }
    made = ArgumentSchema.compile(tree).normalize(
        {"value": "1", "children": [{"value": "2", "children": [{"value": "3"}]}]}
    )
    assert made.value == {"value": 1, "children": [{"value": 2, "children": [{"value": 3}]}]}
    assert made.folds[-1].path == "children[0].children[0].value"


def test_a_reference_to_itself_ends() -> None:
    schema = {
        "type": "object",
        "properties": {"p": {"$ref": "#/$defs/a"}},
        "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"allOf": [{"$ref": "#/$defs/a"}]}},
    }
    assert ArgumentSchema.compile(schema).normalize({"p": "1"}).value == {"p": "1"}


def test_nested_unions_stay_within_their_budget() -> None:
    node = {
        "anyOf": [
            {"type": "object", "properties": {"k": {"$ref": "#/$defs/n"}}, "required": ["k"]},
            {
                "type": "object",
                "properties": {"k": {"$ref": "#/$defs/n"}},
                "required": ["k"],
                "additionalProperties": False,
            },
            {"type": "integer"},
        ]
    }
    compiled = ArgumentSchema.compile(
        {"type": "object", "properties": {"p": {"$ref": "#/$defs/n"}}, "$defs": {"n": node}}
    )
    value: Any = "x"
    for _ in range(60):
        value = {"k": value}
    assert compiled.normalize({"p": value}).error_type == "PARAM_INVALID"


# -- defaults


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
