"""The tools that were offered: read from every usual file, and never a crash for a bad call or a bad schema."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fcguard.errors import ConfigurationError
from fcguard.evaluation.catalogue import TOO_BROAD, Catalogue, ToolSpec
from fcguard.model.failure import Problem
from tests.evaluation.evaluation_builders import call

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


@pytest.mark.parametrize(
    ("content", "identities"),
    [
        ([{"type": "function", "function": {"name": "a", "parameters": SCHEMA}}], [("", "a")]),
        ({"tools": [{"name": "a", "inputSchema": SCHEMA}]}, [("", "a")]),
        ([{"name": "a", "input_schema": SCHEMA}], [("", "a")]),
        ([{"name": "host", "tools": {"s1": {"tools": [{"name": "a", "inputSchema": SCHEMA}]}}}], [("s1", "a")]),
        ({"tools": [{"name": "a", "parameters": SCHEMA}], "side_effect": {"a": "write"}}, [("", "a")]),
    ],
)
def test_usual_files_are_read(tmp_path: Path, content: object, identities: list[tuple[str, str]]) -> None:
    path = tmp_path / "tools.json"
    path.write_text(json.dumps(content), "utf-8")
    found = Catalogue.load(path)
    assert list(found.tools) == identities
    assert found.check(call("a", {"n": 1})).state == "valid"
    assert found.check(call("a", {})).state == "invalid"
    assert Catalogue.load(content).schema_hash == found.schema_hash


def test_effects_are_read_from_words_and_from_hints() -> None:
    def effect(**fields: object) -> str | None:
        return Catalogue.load([{"name": "a", "inputSchema": {}, **fields}]).effect_of(call("a", {}))

    assert effect(annotations={"readOnlyHint": True}) == "read"
    assert effect(annotations={"destructiveHint": True}) == "destructive"
    assert effect(annotations={"idempotentHint": True}) == "idempotent_write"
    assert effect(annotations={"readOnlyHint": False}) is None
    assert effect(effect="write") == "write"
    assert effect() is None
    assert Catalogue.load({"tools": [{"name": "a"}], "side_effect": {"a": "think"}}).effect_of(call("a", {})) == "read"
    assert Catalogue().effect_of(call("a", {})) is None


def test_a_file_without_tools_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no tool definition"):
        Catalogue.load({"x": 1})
    with pytest.raises(ConfigurationError, match="cannot be read"):
        Catalogue.load(tmp_path / "missing.json")


def test_the_state_of_arguments_is_told_apart() -> None:
    def broad(arguments: dict[str, object]) -> list[Problem]:
        return [Problem("n", TOO_BROAD, "asks for everything")] if arguments["n"] == 0 else []

    tools = Catalogue.of([ToolSpec("a", schema=SCHEMA, semantic=(broad,)), ToolSpec("loose")])
    assert tools.check(call("a", {"n": 1})).state == "valid"
    assert tools.check(call("a", {"n": 0})).state == "over_broad"
    assert tools.check(call("a", {"n": "1"})).state == "invalid"
    assert tools.check(call("a", None)).state == "unchecked"
    assert tools.check(call("a", None, parse_error="x")).state == "unparsable"
    assert tools.check(call("b", {"n": 1})).state == "unknown_tool"
    assert tools.check(call("loose", {"n": 1})).state == "unchecked"
    assert tools.check(call("loose", {}, validation=())).state == "valid"
    assert tools.check(call("a", {"n": 1}, validation=(Problem("n", "rule", "no"),))).state == "invalid"
    assert Catalogue().check(call("a", {})).state == "unchecked"


def test_a_tool_is_found_by_server_or_by_a_unique_name() -> None:
    tools = Catalogue.of([ToolSpec("a", "s1"), ToolSpec("a", "s2"), ToolSpec("b", "s1")])
    assert tools.find(call("a", {}, server="s2")) is tools.tools["s2", "a"]
    assert tools.find(call("a", {})) is None
    assert tools.find(call("b", {})) is tools.tools["s1", "b"]
    assert tools.find(call("b", {}, server="s9")) is None


def test_a_schema_that_cannot_be_used_leaves_its_calls_unchecked() -> None:
    tools = Catalogue.of([ToolSpec("a", schema={"type": 12})])
    assert tools.check(call("a", {})).state == "unchecked"
    assert ("", "a") in tools.unusable
    assert tools.unusable["", "a"]
