"""Faults that people reported in production, as far as they are about arguments; `tests/cases/field.jsonl` where it is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fcguard.arguments import ArgumentSchema

CASES = Path(__file__).parents[1] / "cases" / "field.jsonl"
KINDS = {"json", "args", "shape", "coerce", "enum", "date", "value", "schema"}
ACTIONS = {"fix_params": "fix_arguments", "ask_user": "ask_user", "none": None}

DECIDED_OTHERWISE = {
    # an empty text that the schema allows is a value ("clear this field"); only one that it refuses is left out
    "F046": {"project_id": "42", "search": ""},
}


def cases() -> list[dict[str, Any]]:
    if not CASES.is_file():
        return []
    rows = [json.loads(line) for line in CASES.read_text("utf-8").splitlines() if line.strip()]
    return [row for row in rows if row["kind"].partition(".")[0] in KINDS and isinstance(row["call"], dict)]


@pytest.mark.parametrize(
    "case",
    cases() or [pytest.param(None, marks=pytest.mark.skip(reason="no field cases"))],
    ids=lambda case: case and case["id"],
)
def test_field_case(case: dict[str, Any]) -> None:
    governance, call, expected = case["tool_schema"]["x-governance"], case["call"], case["expected"]
    schema = ArgumentSchema.compile(case["tool_schema"]["parameters"], hidden=governance.get("injected", ()))
    raw = eval(call["arguments_python"]) if "arguments_python" in call else call.get("arguments")
    made = schema.normalize(raw, effect=governance["side_effect"])
    if expected["outcome"] in ("accepted", "normalized", "executed"):
        assert made.problems == ()
        assert made.value == DECIDED_OTHERWISE.get(case["id"], expected["normalized_args"])
        assert bool(made.folds) == (expected["outcome"] == "normalized")
    else:
        assert made.problems
        assert made.next_action == ACTIONS[expected["next_action_kind"]]


INTEGERS = {
    "type": "object",
    "properties": {"x": {"type": "integer"}, "y": {"type": "integer"}},
    "required": ["x", "y"],
    "additionalProperties": False,
}
OPTIONAL = {
    "type": "object",
    "properties": {
        "query": {"type": "string"},
        "country": {"type": "string"},
        "ids": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["query"],
    "additionalProperties": False,
}

OWN: list[tuple[Any, str, Any, Any]] = [
    (INTEGERS, "write", '{"x": 3, "y": 2}', {"x": 3, "y": 2}),
    (INTEGERS, "read", '{"x": 3, "y": 2,}', {"x": 3, "y": 2}),
    (INTEGERS, "write", '{"x": 3, "y": 2,}', "PARAM_MALFORMED"),
    (INTEGERS, "read", '{"x": 3, "y": 2}{"x": 3, "y": 2}', {"x": 3, "y": 2}),
    (INTEGERS, "write", '{"x": 3, "y": 2}{"x": 3, "y": 2}', "PARAM_MALFORMED"),
    (INTEGERS, "read", '{"x": 3, "y": 2', "PARAM_TRUNCATED"),
    (INTEGERS, "read", '{"x": 3, "y": "2.5"}', "PARAM_INVALID"),
    (INTEGERS, "read", '{"x": 3}', "PARAM_MISSING"),
    (INTEGERS, "read", '{"x": 3, "y": 2, "z": 1}', "PARAM_UNKNOWN"),
    (OPTIONAL, "write", '{"query": "a", "country": null}', {"query": "a"}),
    (OPTIONAL, "write", '{"query": "a", "country": ""}', {"query": "a", "country": ""}),
    (OPTIONAL, "read", '{"query": "a", "ids": "b, c"}', {"query": "a", "ids": ["b", "c"]}),
    (OPTIONAL, "write", '{"query": "a", "ids": "b, c"}', "PARAM_INVALID"),
]


@pytest.mark.parametrize(("schema", "effect", "raw", "answer"), OWN)
def test_own_case(schema: Any, effect: Any, raw: str, answer: Any) -> None:
    made = ArgumentSchema.compile(schema).normalize(raw, effect=effect)
    assert (made.error_type if isinstance(answer, str) else made.value) == answer
