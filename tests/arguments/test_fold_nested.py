"""Folding within values: nested schemas, references, text in text, unions, and folds that are taken back."""

from __future__ import annotations

from typing import Any

from fcguard.arguments import ArgumentSchema, Fold
from tests.arguments.one_parameter import sent

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
