"""The gold: read from YAML or JSON, checked by a published schema, refused with every fault named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from fcguard.errors import ConfigurationError
from fcguard.evaluation.gold import Suitability, gold_schema, load_gold, parse_gold
from tests.evaluation.evaluation_builders import gold_of, step

YAML = """
version: 1
suite: orders
suitability:
  grep: {best_for: [find_text], wrong_for: [arithmetic]}
  search: {acceptable_for: [find_text]}
tasks:
  - id: 7
    slice: refunds
    prompt: give the money back
    min_calls: 2
    allowed_effects: [read, write]
    stop_is_right: true
    best: {tokens: 100, cost: 0.5, seconds: 2}
    steps:
      - {id: find, kind: find_text}
      - id: pay
        any_of: [{tool: refund, server: bank, arguments: {amount: {$range: [1, 5]}}}]
        wrong: [transfer]
        after: [find]
        repeat: {min: 1, max: 3}
        effect: write
"""


def test_yaml_and_json_give_the_same_gold(tmp_path: Path) -> None:
    import yaml

    (tmp_path / "gold.yaml").write_text(YAML, "utf-8")
    (tmp_path / "gold.json").write_text(json.dumps(yaml.safe_load(YAML)), "utf-8")
    first, second = load_gold(tmp_path / "gold.yaml"), load_gold(tmp_path / "gold.json")
    assert first.suite == second.suite == "orders"
    assert first.prompt_set_hash == second.prompt_set_hash
    task = first.tasks["7"]
    assert (task.slice, task.min_calls, task.allowed_effects) == ("refunds", 2, {"read", "write"})
    assert (task.best_tokens, task.best_cost, task.best_seconds) == (100, 0.5, 2)
    assert task.stop_is_right
    find, pay = task.paths[0]
    assert [(choice.tool, choice.tier, choice.source) for choice in find.any_of] == [
        ("grep", "best", "catalogue"),
        ("search", "acceptable", "catalogue"),
    ]
    assert (pay.after, pay.minimum, pay.maximum, pay.effect, pay.wrong) == (("find",), 1, 3, "write", {"transfer"})
    assert pay.any_of[0].server == "bank"
    assert pay.any_of[0].arguments is not None
    assert pay.any_of[0].arguments.matches({"amount": 3})
    assert [row.task_id for row in first] == ["7"]


def test_the_catalogue_knows_what_is_wrong() -> None:
    table = Suitability.of({"calculator": {"best_for": ["sum"], "wrong_for": ["text"]}})
    assert [choice.tool for choice in table.choices("sum")] == ["calculator"]
    assert table.choices("text") == ()
    assert table.wrong_for["text"] == ("calculator",)


def test_the_prompt_set_hash_follows_prompts_and_slices_only() -> None:
    base = gold_of(step("a"), prompt="x").prompt_set_hash
    assert gold_of(step("b"), prompt="x").prompt_set_hash == base
    assert gold_of(step("a"), prompt="y").prompt_set_hash != base
    assert gold_of(step("a"), prompt="x", slice="z").prompt_set_hash != base


def test_the_published_schema_is_a_schema() -> None:
    Draft202012Validator.check_schema(gold_schema())
    assert gold_schema()["$id"].startswith("urn:fcguard")


def test_none_stands_for_no_tool() -> None:
    gold = gold_of(step("none"))
    assert gold.tasks["t"].wants_no_tool
    assert not gold_of(step("a")).tasks["t"].wants_no_tool
    assert gold_of().tasks["t"].wants_no_tool


@pytest.mark.parametrize(
    ("task", "fault"),
    [
        ({"id": "a", "steps": [{"any_of": []}]}, "any_of"),
        ({"id": "a", "steps": [{}]}, "no tool fits"),
        ({"id": "a", "steps": [{"kind": "nothing"}]}, "no tool fits"),
        ({"id": "a", "stepz": []}, "stepz"),
        ({"id": "a", "min_calls": -1}, "min_calls"),
        ({"id": "a", "steps": [step("x", effect="bad")]}, "effect"),
        ({"id": "a", "steps": [step("x", id="1"), step("y", id="1")]}, "one id"),
        ({"id": "a", "steps": [step("x", after=["zz"])]}, "unknown steps"),
        ({"id": "a", "steps": [step("x", id="p", after=["q"]), step("y", id="q", after=["p"])]}, "wait for each other"),
        ({"id": "a", "steps": [step("x", repeat={"min": 3, "max": 2})]}, "below min"),
        ({"id": "a", "steps": [{"any_of": [{"tool": "x", "arguments": {"$bad": 1}}]}]}, "matcher"),
        ({"id": "a", "steps": [], "alternatives": [[]]}, "should not be valid"),
        ({}, "'id' is a required property"),
    ],
)
def test_a_faulty_task_is_refused(task: dict[str, Any], fault: str) -> None:
    with pytest.raises(ConfigurationError, match=fault):
        parse_gold({"version": 1, "tasks": [task]})


def test_every_fault_is_named_at_once() -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_gold({"version": 2, "tasks": [{"id": "a", "min_calls": "x"}]}, where="g.json")
    assert "g.json: version" in str(caught.value)
    assert "g.json: tasks/0/min_calls" in str(caught.value)


def test_a_task_given_twice_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="given twice"):
        parse_gold({"version": 1, "tasks": [{"id": "1"}, {"id": 1}]})


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text("{", "utf-8")
    (tmp_path / "bad.yaml").write_text("a: [", "utf-8")
    for name in ("bad.json", "bad.yaml", "missing.json"):
        with pytest.raises(ConfigurationError, match="cannot be read"):
            load_gold(tmp_path / name)
