"""Tool definitions as each provider wants them."""

from __future__ import annotations

from typing import Any, get_args

import pytest
from anthropic.types import ToolParam
from mcp import types as mcp_types
from openai.types.chat import ChatCompletionFunctionToolParam
from openai.types.responses import FunctionToolParam
from pydantic import TypeAdapter

from fcguard.errors import ConfigurationError
from fcguard.model.failure import Effect
from fcguard.model.schemas import (
    SchemaFormat,
    definitions,
    name_problem,
    to_anthropic,
    to_mcp,
    to_openai,
    to_openai_responses,
)
from fcguard.model.tool import Tool

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"order_id": {"type": "string"}, "tenant": {"type": "string"}},
    "required": ["order_id", "tenant"],
}
SHOWN = {"type": "object", "properties": {"order_id": {"type": "string"}}, "required": ["order_id"]}


def tool(**more: Any) -> Tool:
    fields = {"name": "query_order", "description": "Look an order up.", "title": "Order", "effect": "read"}
    return Tool(parameters=SCHEMA, fn=print, **{"bound": {"tenant": "tenant"}, **fields, **more})


def test_each_provider_gets_its_shape() -> None:
    described = {"name": "query_order", "description": "Look an order up."}
    assert to_openai(tool()) == {"type": "function", "function": {**described, "parameters": SHOWN}}
    assert to_openai_responses(tool()) == {"type": "function", **described, "parameters": SHOWN, "strict": False}
    assert to_anthropic(tool()) == {**described, "input_schema": SHOWN}
    assert to_mcp(tool()) == {
        **described,
        "title": "Order",
        "inputSchema": SHOWN,
        "annotations": {"title": "Order", "readOnlyHint": True, "destructiveHint": False, "idempotentHint": True},
    }


def test_the_sdks_accept_them() -> None:
    TypeAdapter(ChatCompletionFunctionToolParam).validate_python(to_openai(tool()))
    TypeAdapter(FunctionToolParam).validate_python(to_openai_responses(tool()))
    TypeAdapter(ToolParam).validate_python(to_anthropic(tool()))
    assert mcp_types.Tool.model_validate(to_mcp(tool())).name == "query_order"


def test_what_is_not_there_is_left_out() -> None:
    bare = tool(description=None, title=None)
    assert "description" not in to_openai(bare)["function"]
    assert to_mcp(bare).keys() == {"name", "inputSchema", "annotations"}
    assert "title" not in to_mcp(bare)["annotations"]


def test_only_the_type_is_added_to_a_schema() -> None:
    odd = {"anyOf": [{"required": ["a"]}, {"required": ["b"]}], "x-vendor": 1}
    made = Tool(name="t", parameters=odd, fn=print)
    assert to_anthropic(made)["input_schema"] == {"type": "object", **odd}


def test_definitions_share_nothing_with_the_tool() -> None:
    registered = Tool(name="t", parameters=SCHEMA, fn=print)
    to_openai(registered)["function"]["parameters"]["properties"].clear()
    assert SCHEMA["properties"]


@pytest.mark.parametrize("effect", get_args(Effect))
def test_hints_are_total_over_effects(effect: Effect) -> None:
    hints = to_mcp(tool(effect=effect))["annotations"]
    assert hints["readOnlyHint"] is (effect == "read")
    assert hints["destructiveHint"] is (effect == "destructive")
    assert hints["idempotentHint"] is (effect in ("read", "idempotent_write"))


@pytest.mark.parametrize(
    ("name", "refused_by"),
    [
        ("query_order", set()),
        ("query-order-2", set()),
        ("orders.query", {"openai", "openai_responses", "anthropic"}),
        ("a" * 64, set()),
        ("a" * 65, {"openai", "openai_responses"}),
        ("a" * 129, {"openai", "openai_responses", "anthropic", "mcp"}),
        ("", {"openai", "openai_responses", "anthropic", "mcp"}),
        ("query order", {"openai", "openai_responses", "anthropic", "mcp"}),
        ("bestellung_prüfen", {"openai", "openai_responses", "anthropic", "mcp"}),
        ("query_order\n", {"openai", "openai_responses", "anthropic", "mcp"}),
    ],
)
def test_names(name: str, refused_by: set[str]) -> None:
    assert {known for known in get_args(SchemaFormat) if name_problem(name, known)} == refused_by


@pytest.mark.parametrize("write", [to_openai, to_openai_responses, to_anthropic, to_mcp])
def test_a_refused_name_is_reported_with_the_remedy(write: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"'query order' is not accepted .* under another name"):
        write(tool(name="query order"))


def test_definitions_keep_order_and_list_every_bad_name() -> None:
    tools = [tool(name=name) for name in ("b", "a")]
    assert [entry["name"] for entry in definitions(tools, "anthropic")] == ["b", "a"]
    with pytest.raises(ConfigurationError, match=r"'x.y'.*'z.z'"):
        definitions([tool(name="x.y"), tool(), tool(name="z.z")], "openai")


def test_unknown_format() -> None:
    with pytest.raises(ConfigurationError, match="'gemini' is unknown; use one of 'openai'"):
        definitions([], "gemini")  # type: ignore[arg-type]
