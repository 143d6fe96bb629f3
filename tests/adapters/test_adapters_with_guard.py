"""Whole turns through the real guard: a scripted model, the real SDKs, both colours."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import anthropic as anthropic_sdk
import openai as openai_sdk
import pytest

from fcguard.adapters import anthropic, mcp, openai
from fcguard.adapters.base import AsyncGuardLike, GuardLike
from fcguard.guard import Guard
from fcguard.stores.memory import MemoryStore
from fcguard.testing.model_server import Reply, ScriptedModelServer

QUESTION = {"role": "user", "content": "Order two of S-1 and tell me whether A1 is paid."}
CALLS = [("create_order", {"order_id": "A1", "quantity": "2"}), ("query_order", {"order_id": "A1"})]
SCRIPT: list[Reply | str] = [Reply(calls=CALLS), "Done."]


class Shop:
    """Two tools and what they did."""

    def __init__(self, guard: Guard) -> None:
        self.orders: list[tuple[str, int]] = []

        @guard.tool(effect="write")
        def create_order(order_id: str, quantity: int) -> dict[str, Any]:
            """Create an order."""
            self.orders.append((order_id, quantity))
            return {"order_id": order_id}

        @guard.tool(effect="read")
        def query_order(order_id: str) -> dict[str, Any]:
            """Look an order up."""
            return {"order_id": order_id, "status": "pending_payment"}


@pytest.fixture
def guard(tmp_path: Any) -> Iterator[Guard]:
    with Guard(store=MemoryStore(), evidence_dir=tmp_path) as made:
        yield made


@pytest.fixture
def shop(guard: Guard) -> Shop:
    return Shop(guard)


def ask(server: ScriptedModelServer, guard: Guard, kind: str) -> tuple[Any, Any]:
    """Answer one real response and its adapter."""
    if kind == "anthropic":
        with anthropic_sdk.Anthropic(base_url=server.root_url, api_key="none", max_retries=0) as client:
            tools: Any = guard.schemas("anthropic")
            messages: Any = [QUESTION]
            return anthropic, client.messages.create(model="m", max_tokens=50, messages=messages, tools=tools)
    with openai_sdk.OpenAI(base_url=server.url, api_key="none", max_retries=0) as other:
        given: Any = [QUESTION]
        if kind == "responses":
            offered: Any = guard.schemas("openai_responses")
            return openai, other.responses.create(model="m", input=given, tools=offered)
        listed: Any = guard.schemas("openai")
        return openai, other.chat.completions.create(model="m", messages=given, tools=listed)


@pytest.mark.parametrize("kind", ["chat", "responses", "anthropic"])
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_a_turn_in_one_line(guard: Guard, shop: Shop, kind: str, is_async: bool) -> None:
    with ScriptedModelServer(SCRIPT) as server, guard.task(goal="order"):
        adapter, response = ask(server, guard, kind)
        messages = asyncio.run(adapter.aanswer(guard, response)) if is_async else adapter.answer(guard, response)
    assert shop.orders == [("A1", 2)]
    texts = [str(message) for message in messages]
    if kind == "anthropic":
        (message,) = messages
        texts = [str(block) for block in message["content"]]
    assert len(texts) == 2
    assert "pending_payment" in texts[1]
    assert len(server.requests[0].body["tools"]) == 2


@pytest.mark.parametrize("kind", ["chat", "responses", "anthropic"])
def test_a_cut_off_turn_runs_nothing(guard: Guard, shop: Shop, kind: str) -> None:
    with ScriptedModelServer([Reply(calls=CALLS, is_cut_off=True)]) as server, guard.task(goal="order"):
        adapter, response = ask(server, guard, kind)
        messages = adapter.answer(guard, response)
    assert shop.orders == []
    assert str(messages).count("PARAM_TRUNCATED") == 2


def test_identical_writes_of_one_response_run_once(guard: Guard, shop: Shop) -> None:
    with ScriptedModelServer([Reply(calls=[CALLS[0], CALLS[0]])]) as server, guard.task(goal="order"):
        adapter, response = ask(server, guard, "chat")
        messages = adapter.answer(guard, response)
    assert shop.orders == [("A1", 2)]
    assert [message["role"] for message in messages] == ["tool", "tool"]


@pytest.mark.parametrize("kind", ["openai", "anthropic"])
@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
def test_the_guard_asks_the_model(guard: Guard, shop: Shop, kind: str, is_async: bool) -> None:
    with (
        ScriptedModelServer([Reply(calls=CALLS[1:]), "Not yet."]) as server,
        guard.task(goal="order", allow={"query_order"}),
        asyncio.Runner() as runner,
    ):
        client: Any
        source: Any
        if kind == "openai":
            openai_kind: Any = openai_sdk.AsyncOpenAI if is_async else openai_sdk.OpenAI
            client = openai_kind(base_url=server.url, api_key="none", max_retries=0)
            source = openai.OpenAIChatSource(client, model="m", messages=[QUESTION])
        else:
            anthropic_kind: Any = anthropic_sdk.AsyncAnthropic if is_async else anthropic_sdk.Anthropic
            client = anthropic_kind(base_url=server.root_url, api_key="none", max_retries=0)
            source = anthropic.AnthropicSource(client, model="m", max_tokens=50, messages=[QUESTION])
        if is_async:
            results = [runner.run(guard.astep(source)) for _ in range(2)]
            runner.run(client.close())
        else:
            results = [guard.step(source) for _ in range(2)]
            client.close()
    assert [result.data for result in results] == [{"order_id": "A1", "status": "pending_payment"}, "Not yet."]
    offered = [tool.get("name") or tool["function"]["name"] for tool in server.requests[0].body["tools"]]
    assert offered == ["query_order"]
    assert "pending_payment" in str(server.requests[1].body["messages"])


def test_mcp_calls(guard: Guard, shop: Shop) -> None:
    with guard.task(goal="serve", allow={"query_order"}):
        (found,) = mcp.answer(guard, {"name": "query_order", "arguments": {"order_id": "A1"}})
        (refused,) = mcp.answer(guard, {"name": "create_order", "arguments": {"order_id": "A1", "quantity": 1}})
        (unknown,) = mcp.answer(guard, {"method": "tools/call", "params": None})
    assert (found["isError"], found["structuredContent"]["status"]) == (False, "pending_payment")
    assert refused["isError"] is unknown["isError"] is True
    assert shop.orders == []


def test_the_guard_fits_the_seams(guard: Guard) -> None:
    fits: GuardLike = guard
    fits_async: AsyncGuardLike = guard
    assert fits is guard
    assert fits_async is guard
