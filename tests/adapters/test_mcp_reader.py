"""Reading and answering MCP `tools/call`, with plain dicts, the SDK's types, and a session of the SDK."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest
from adapter_fakes import CountingGuard, result
from mcp import types

from fcguard.adapters import mcp
from fcguard.errors import UsageError
from fcguard.model.failure import Effect
from fcguard.model.schemas import to_mcp

META = {"progressToken": 7, "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}
PARAMS: dict[str, Any] = {"name": "query_order", "arguments": {"order_id": "A1"}, "_meta": META}
REQUEST: dict[str, Any] = {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": PARAMS}


@pytest.mark.parametrize(
    "request_",
    [
        REQUEST,
        types.JSONRPCRequest.model_validate(REQUEST),
        SimpleNamespace(message=types.JSONRPCRequest.model_validate(REQUEST)),
        SimpleNamespace(message=SimpleNamespace(root=types.JSONRPCRequest.model_validate(REQUEST))),
    ],
)
def test_reads_a_request(request_: Any) -> None:
    turn = mcp.read(request_)
    assert turn.format == "mcp"
    assert [(intent.tool, intent.arguments, intent.call_id) for intent in turn.intents] == [
        ("query_order", {"order_id": "A1"}, "3")
    ]
    assert (turn.id, dict(turn.meta), turn.unread) == (3, META, ())
    assert turn.assistant_messages() == []


@pytest.mark.parametrize(
    "params",
    [
        PARAMS,
        {"params": PARAMS},
        types.CallToolRequestParams.model_validate(PARAMS),
        types.CallToolRequest.model_validate({"method": "tools/call", "params": PARAMS}),
    ],
)
def test_reads_params_alone(params: Any) -> None:
    turn = mcp.read(params)
    assert [(intent.tool, intent.arguments, intent.call_id) for intent in turn.intents] == [
        ("query_order", {"order_id": "A1"}, None)
    ]
    assert (turn.id, dict(turn.meta), turn.unread) == (None, META, ())


def test_no_arguments_and_no_meta() -> None:
    turn = mcp.read({"name": "ping"})
    assert (turn.intents[0].arguments, dict(turn.meta)) == (None, {})
    assert mcp.read({"name": "ping", "_meta": "x"}).meta == {}


def test_arguments_that_are_no_object() -> None:
    assert mcp.read({"name": "ping", "arguments": [1]}).intents[0].arguments == "[1]"
    assert mcp.read({"name": "ping", "arguments": '{"a": 1}'}).intents[0].arguments == '{"a": 1}'


@pytest.mark.parametrize(
    ("request_", "unread"),
    [
        ({"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, "method: 'tools/list'"),
        ({"method": ["tools/call"], "params": PARAMS}, "method: list"),
        ([REQUEST], "request: list"),
        (None, "request: None"),
        ({}, "request: dict"),
        ("tools/call", "request: 'tools/call'"),
    ],
)
def test_other_requests_are_unread(request_: Any, unread: str) -> None:
    turn = mcp.read(request_)
    assert (turn.intents, turn.unread) == ((), (unread,))
    assert mcp.write(turn, []) == []


@pytest.mark.parametrize("params", [None, {}, "query_order", [1], {"name": 5}])
def test_a_call_without_a_tool_is_refused_and_answered(params: Any) -> None:
    (answer,) = mcp.answer(CountingGuard(), {"id": 1, "method": "tools/call", "params": params})
    assert answer["isError"] is True


def test_what_fcguard_does_not_do_stays_visible() -> None:
    turn = mcp.read({"name": "ping", "task": {"ttl": 5}})
    assert turn.unread == ("params: 'task'",)
    assert len(turn.intents) == 1


@pytest.mark.parametrize(
    ("data", "structured"),
    [({"a": 1}, {"a": 1}), ([1, 2], {"result": [1, 2]}), ("x", {"result": "x"}), (0, {"result": 0}), (None, None)],
)
def test_writes_a_result_that_the_sdk_reads(data: Any, structured: Any) -> None:
    (written,) = mcp.write(mcp.read(PARAMS), [result(5, data=data)])
    read = types.CallToolResult.model_validate(written)
    assert (read.is_error, read.structured_content) == (False, structured)
    assert written["_meta"] == {"fcguard/request_id": "fc-5"}
    assert json.loads(written["content"][0]["text"])["success"] is True


def test_a_failure_has_a_reason_and_no_structure() -> None:
    (written,) = mcp.write(mcp.read(PARAMS), [result(success=False, data={"a": 1})])
    assert written["isError"] is True
    assert "structuredContent" not in written
    assert "PARAM_INVALID" in written["content"][0]["text"]


def test_structured_content_is_a_copy() -> None:
    data = {"rows": [1]}
    (written,) = mcp.write(mcp.read(PARAMS), [result(data=data)])
    written["structuredContent"]["rows"].append(2)
    assert data == {"rows": [1]}


def test_json_rpc_response() -> None:
    response = mcp.respond(mcp.read(REQUEST), result(data=1), max_chars=300)
    assert (response["jsonrpc"], response["id"], response["result"]["isError"]) == ("2.0", 3, False)
    assert types.JSONRPCResponse.model_validate(response).id == 3
    with pytest.raises(UsageError, match="no JSON-RPC id"):
        mcp.respond(mcp.read(PARAMS), result())
    with pytest.raises(UsageError, match="1 results for 0 calls"):
        mcp.respond(mcp.read({"id": 1, "method": "ping"}), result())


def test_answer_in_one_line() -> None:
    guard = CountingGuard()
    (written,) = mcp.answer(guard, REQUEST, context="ctx", max_chars=300)
    assert written["structuredContent"] == {"position": 0}
    assert guard.options == {"context": "ctx"}
    assert asyncio.run(mcp.aanswer(guard, REQUEST)) == [written]


class QueryOrder:
    name: str = "query_order"
    title: str | None = "Order"
    description: str | None = "Look an order up."
    effect: Effect = "read"

    @property
    def model_schema(self) -> dict[str, Any]:
        return {"type": "object", "properties": {"order_id": {"type": "string"}}}


def test_a_session_of_the_sdk() -> None:
    """A real client lists and calls the tools of a real server whose handlers are the adapter."""
    from mcp import Client
    from mcp.server.lowlevel import Server

    guard = CountingGuard()
    seen: list[Any] = []

    async def list_tools(context: Any, params: Any) -> types.ListToolsResult:
        return types.ListToolsResult.model_validate({"tools": [to_mcp(QueryOrder())]})

    async def call_tool(context: Any, params: Any) -> types.CallToolResult:
        seen.append(mcp.read(params))
        (written,) = await mcp.aanswer(guard, params)
        return types.CallToolResult.model_validate(written)

    async def run() -> tuple[Any, Any]:
        server = Server("orders", on_list_tools=list_tools, on_call_tool=call_tool)
        async with Client(server) as client:
            listed = await client.list_tools()
            return listed, await client.call_tool("query_order", {"order_id": "A1"})

    listed, called = asyncio.run(run())
    (tool,) = listed.tools
    assert (tool.name, tool.title, tool.annotations.read_only_hint) == ("query_order", "Order", True)
    assert (called.is_error, called.structured_content) == (False, {"position": 0})
    assert [(intent.tool, intent.arguments) for intent in guard.seen] == [("query_order", {"order_id": "A1"})]
    assert seen[0].unread == ()
