"""Intent sources with the real SDKs against a model server on localhost."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import anthropic as anthropic_sdk
import openai as openai_sdk
import pytest
from adapter_fakes import CountingGuard, result

from fcguard.adapters import anthropic, openai
from fcguard.adapters.base import AsyncIntentSource, Conversation, IntentSource, Turn
from fcguard.errors import ColourError, ConfigurationError, MissingExtraError, UsageError
from fcguard.model.failure import Effect
from fcguard.testing.model_server import Reply, ScriptedModelServer

QUERY = ("query_order", {"order_id": "A1"})
LOOK_AND_SAY = [Reply(text="Let me look.", calls=[QUERY]), "It is paid."]


class Tool:
    def __init__(self, name: str = "query_order") -> None:
        self.name = name
        self.title: str | None = None
        self.effect: Effect = "read"
        self.description: str | None = "Look an order up."
        self.model_schema = {"type": "object", "properties": {"order_id": {"type": "string"}}}


TOOLS = [Tool()]
QUESTION = {"role": "user", "content": "Is A1 paid?"}


def openai_source(server: ScriptedModelServer, is_async: bool, **options: Any) -> openai.OpenAIChatSource:
    kind = openai_sdk.AsyncOpenAI if is_async else openai_sdk.OpenAI
    client = kind(base_url=server.url, api_key="none", max_retries=0)
    return openai.OpenAIChatSource(client, model="m", messages=[QUESTION], max_tokens=100, **options)


def anthropic_source(server: ScriptedModelServer, is_async: bool, **options: Any) -> anthropic.AnthropicSource:
    kind = anthropic_sdk.AsyncAnthropic if is_async else anthropic_sdk.Anthropic
    client = kind(base_url=server.root_url, api_key="none", max_retries=0)
    return anthropic.AnthropicSource(client, model="m", messages=[QUESTION], max_tokens=100, **options)


Build = Callable[..., Any]


@pytest.fixture(params=[openai_source, anthropic_source], ids=["openai", "anthropic"])
def build(request: pytest.FixtureRequest) -> Build:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture(params=[False, True], ids=["sync", "async"])
def is_async(request: pytest.FixtureRequest) -> bool:
    return request.param  # type: ignore[no-any-return]


@contextmanager
def running(build: Build, is_async: bool, script: list[Any], **options: Any) -> Iterator[tuple[Any, Any, Any]]:
    """Give server, source and a `propose` of one colour; the client is closed at the end."""
    with ScriptedModelServer(script) as server, asyncio.Runner() as runner:
        source = build(server, is_async, **options)
        client = source._client

        def propose(tools: Any = TOOLS) -> Any:
            return runner.run(source.apropose(None, tools)) if is_async else source.propose(None, tools)

        try:
            yield server, source, propose
        finally:
            if is_async:
                runner.run(client.close())
            else:
                client.close()


def test_a_conversation(build: Build, is_async: bool) -> None:
    with running(build, is_async, LOOK_AND_SAY) as (server, source, propose):
        intent = propose()
        assert (intent.call, intent.tool, intent.text) == (True, "query_order", "Let me look.")
        assert intent.usage.max_tokens == 100
        source.record(result(1, data={"paid": True}))
        last = propose()
        assert (last.call, last.text) == (False, "It is paid.")
        assert source.last_turn.text == "It is paid."
        first, second = server.requests
        assert first.body["messages"] == [QUESTION]
        roles = [message["role"] for message in second.body["messages"]]
        assert roles[:2] == ["user", "assistant"]
        assert roles[2:] in (["tool"], ["user"])
        assert '\\"paid\\": true' in json.dumps(second.body["messages"][2])
        assert source.conversation.messages[-1]["role"] == "assistant"


def test_sources_fit_the_protocols() -> None:
    chat: Any = openai.OpenAIChatSource(object(), model="m")
    messages: Any = anthropic.AnthropicSource(object(), model="m", max_tokens=5)
    for source in (chat, messages):
        assert isinstance(source, IntentSource)
        assert isinstance(source, AsyncIntentSource)


def test_requests_hold_tools_limit_and_no_parallel_calls() -> None:
    with running(openai_source, False, ["a"], options={"temperature": 0}) as (server, _, propose):
        propose()
        body = server.requests[0].body
        assert body["max_completion_tokens"] == 100
        assert body["parallel_tool_calls"] is False
        assert body["temperature"] == 0
        assert [tool["function"]["name"] for tool in body["tools"]] == ["query_order"]
    with running(openai_source, False, ["a"], limit_field="max_tokens") as (server, _, propose):
        propose()
        assert server.requests[0].body["max_tokens"] == 100
    with running(anthropic_source, False, ["a"], options={"system": "Be brief."}) as (server, _, propose):
        propose()
        body = server.requests[0].body
        assert (body["max_tokens"], body["system"]) == (100, "Be brief.")
        assert body["tool_choice"] == {"type": "auto", "disable_parallel_tool_use": True}
        assert [tool["name"] for tool in body["tools"]] == ["query_order"]


def test_without_tools_nothing_is_said_about_tools(build: Build) -> None:
    choice: Any = "auto" if build is openai_source else {"type": "any"}
    with running(build, False, ["a"], options={"tool_choice": choice}) as (server, _, propose):
        assert propose([]).text == "a"
        assert not {"tools", "tool_choice", "parallel_tool_calls"} & server.requests[0].body.keys()


def test_anthropic_tool_choice_is_kept() -> None:
    with ScriptedModelServer() as server:
        for choice, sent in (
            ({"type": "any"}, {"type": "any", "disable_parallel_tool_use": True}),
            ({"type": "none"}, {"type": "none"}),
        ):
            source = anthropic_source(server, False, options={"tool_choice": choice})
            assert source.request(TOOLS)["tool_choice"] == sent
            source._client.close()


def test_fields_are_left_out_on_demand() -> None:
    source = openai.OpenAIChatSource(object(), model="m", forbid_parallel=False)
    assert source.request([]) == {"model": "m", "messages": []}
    assert source.request(TOOLS).keys() == {"model", "messages", "tools"}


def test_several_calls_are_proposed_one_by_one(build: Build, is_async: bool) -> None:
    calls = [QUERY, ("query_order", {"order_id": "A2"})]
    with running(build, is_async, [Reply(calls=calls), "Done."]) as (server, source, propose):
        for number in range(2):
            intent = propose()
            assert (intent.position, intent.tool) == (number, "query_order")
            source.record(result(number))
        assert len(server.requests) == 1
        assert propose().call is False
        assert len(server.requests) == 2
        text = json.dumps(server.requests[1].body["messages"])
        assert text.index("fc-0") < text.index("fc-1")


def test_a_cut_off_response_is_seen(build: Build, is_async: bool) -> None:
    script = [Reply(calls=[QUERY], is_cut_off=True), Reply(calls=[QUERY], tokens=(10, 100))]
    with running(build, is_async, script) as (_, source, propose):
        assert propose().is_truncated
        source.record(result(success=False))
        assert propose().is_truncated


def test_an_intent_without_its_result_blocks_the_next(build: Build, is_async: bool) -> None:
    with running(build, is_async, [Reply(calls=[QUERY]), "Done."]) as (_, source, propose):
        propose()
        with pytest.raises(UsageError, match="no result yet"):
            propose()
        source.record(result())
        with pytest.raises(UsageError, match="no proposed call waits"):
            source.record(result())
        assert propose().text == "Done."
        source.record(result())  # the result of a proposal that calls nothing: accepted, and not told to the model
        assert [message["role"] for message in source.conversation.messages][-1] == "assistant"
        with pytest.raises(UsageError, match="no proposed call waits"):
            source.record(result())


def test_sdk_errors_pass_through_and_leave_the_conversation(build: Build, is_async: bool) -> None:
    with running(build, is_async, [Reply(status=400, text="bad request"), "Done."]) as (_, source, propose):
        with pytest.raises((openai_sdk.BadRequestError, anthropic_sdk.BadRequestError), match="bad request"):
            propose()
        assert source.conversation.messages == [QUESTION]
        assert propose().text == "Done."


def test_clients_of_the_wrong_colour_are_refused_before_anything_is_sent(build: Build) -> None:
    with running(build, False, ["a"]) as (server, source, _):
        with pytest.raises(ColourError, match="block the event loop"):
            asyncio.run(source.apropose(None, TOOLS))
        assert server.requests == []
    with running(build, True, ["a"]) as (server, source, _):
        with pytest.raises(ColourError, match="is async"):
            source.propose(None, TOOLS)
        assert server.requests == []


class FakeClient:
    """Stands for a client that is no context manager; answers the same body from both APIs."""

    def __init__(self, response: Any) -> None:
        self.chat = self.completions = self.messages = self
        self._response = response

    def create(self, **_: Any) -> Any:
        return self._response


@pytest.mark.parametrize(
    "make",
    [
        lambda client: openai.OpenAIChatSource(client, model="m"),
        lambda client: anthropic.AnthropicSource(client, model="m", max_tokens=5),
    ],
)
def test_clients_of_unknown_colour(make: Any) -> None:
    async def late() -> Any:
        return {}

    with pytest.raises(ColourError, match="apropose"):
        make(FakeClient(late())).propose(None, TOOLS)
    assert asyncio.run(make(FakeClient({"content": "a"})).apropose(None, TOOLS)).text == "a"

    async def future() -> None:
        waiting: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        with pytest.raises(ColourError, match="apropose"):
            make(FakeClient(waiting)).propose(None, TOOLS)

    asyncio.run(future())


def test_names_that_the_provider_refuses_are_reported(build: Build) -> None:
    with running(build, False, []) as (server, source, _):
        with pytest.raises(ConfigurationError, match=r"'orders.query' is not accepted"):
            source.propose(None, [Tool("orders.query")])
        assert server.requests == []


@pytest.mark.parametrize("field", ["model", "messages", "tools", "stream"])
def test_reserved_options_are_refused(field: str) -> None:
    with pytest.raises(ConfigurationError, match=field):
        openai.OpenAIChatSource(object(), model="m", options={field: 1})
    with pytest.raises(ConfigurationError, match=field):
        anthropic.AnthropicSource(object(), model="m", max_tokens=5, options={field: 1})


def test_clients_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
    made: list[tuple[Any, str]] = [
        (openai.OpenAIChatSource.from_env(model="m"), "OpenAI"),
        (openai.OpenAIChatSource.from_env(model="m", is_async=True), "AsyncOpenAI"),
        (anthropic.AnthropicSource.from_env(model="m", max_tokens=5), "Anthropic"),
        (anthropic.AnthropicSource.from_env(model="m", max_tokens=5, is_async=True), "AsyncAnthropic"),
    ]
    for source, kind in made:
        client = source._client
        assert type(client).__name__ == kind
        closing = client.close()
        if closing is not None:
            asyncio.run(closing)


def test_a_missing_sdk_names_its_pip_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    monkeypatch.setitem(sys.modules, "anthropic", None)
    with pytest.raises(MissingExtraError, match=r"fcguard\[openai\]"):
        openai.OpenAIChatSource.from_env(model="m")
    with pytest.raises(MissingExtraError, match=r"fcguard\[anthropic\]"):
        anthropic.AnthropicSource.from_env(model="m", max_tokens=5)


@pytest.mark.parametrize("module", ["openai", "anthropic", "mcp"])
def test_reading_imports_no_sdk(module: str) -> None:
    import subprocess

    code = (
        f"import sys; from fcguard.adapters import {module} as adapter; "
        "adapter.read({'choices': [], 'content': [], 'name': 'x'}); "
        "sys.exit(sum(name in sys.modules for name in ('openai', 'anthropic', 'mcp', 'httpx')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_real_responses_of_the_sdks_are_answered() -> None:
    """One scripted reply, read through three APIs and answered in each one's own words."""
    reply = Reply(text="Let me look.", calls=[QUERY, QUERY])
    with ScriptedModelServer([reply] * 3) as server:
        with openai_sdk.OpenAI(base_url=server.url, api_key="none", max_retries=0) as client:
            chat = client.chat.completions.create(model="m", messages=[QUESTION])  # type: ignore[list-item]
            response = client.responses.create(model="m", input="Is A1 paid?")
        with anthropic_sdk.Anthropic(base_url=server.root_url, api_key="none", max_retries=0) as other:
            message = other.messages.create(model="m", max_tokens=10, messages=[QUESTION])  # type: ignore[list-item]
    read: list[tuple[Any, Any, int]] = [(openai, chat, 2), (openai, response, 2), (anthropic, message, 1)]
    for adapter, given, size in read:
        turn = adapter.read(given)
        assert [intent.tool for intent in turn.intents] == ["query_order", "query_order"]
        assert (turn.text, turn.unread) == ("Let me look.", ())
        assert len(adapter.answer(CountingGuard(), given)) == size


def test_the_history_changes_only_when_a_turn_is_complete() -> None:
    turn = openai.read({"choices": [{"message": {"tool_calls": [{"id": "a"}, {"id": "b"}]}}]})
    conversation = Conversation([QUESTION], openai.write)
    assert conversation.next() is None
    assert conversation.take(turn).position == 0
    conversation.record(result(0))
    assert conversation.messages == [QUESTION]
    intent = conversation.next()
    assert intent is not None
    assert intent.position == 1
    conversation.record(result(1))
    assert [message["role"] for message in conversation.messages] == ["user", "assistant", "tool", "tool"]
    assert conversation.next() is None


def test_a_turn_can_be_given_up() -> None:
    turn = openai.read({"choices": [{"message": {"tool_calls": [{"id": "a"}]}}]})
    conversation = Conversation([QUESTION], openai.write)
    conversation.take(turn)
    conversation.give_up()
    assert conversation.next() is None
    assert conversation.messages == [QUESTION]
    with pytest.raises(UsageError, match="no proposed call waits"):
        conversation.record(result())


def test_the_empty_turn() -> None:
    turn = Turn(format="openai.chat")
    assert (turn.intent.call, turn.is_truncated, turn.assistant_messages()) == (False, False, [])
