"""The scripted model server, asked over plain HTTP and by the SDKs."""

from __future__ import annotations

import json
import threading
import urllib.error
import urllib.request
from itertools import repeat
from typing import Any

import anthropic
import openai
import pytest

from fcguard.errors import UsageError
from fcguard.testing.model_server import Reply, ScriptedModelServer


def ask(url: str, body: Any = None, raw: bytes | None = None) -> tuple[int, Any]:
    data = json.dumps(body or {"model": "m"}).encode() if raw is None else raw
    request = urllib.request.Request(url, data=data, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def test_replies_come_in_order_and_requests_are_kept() -> None:
    with ScriptedModelServer(["one", Reply(text="two", calls=[("t", {"a": 1})])]) as server:
        first = ask(f"{server.url}/chat/completions", {"model": "m", "n": 1})[1]
        second = ask(f"{server.url}/chat/completions?x=1")[1]
    assert first["choices"][0]["message"]["content"] == "one"
    assert first["choices"][0]["finish_reason"] == "stop"
    assert second["choices"][0]["finish_reason"] == "tool_calls"
    assert second["choices"][0]["message"]["tool_calls"][0]["function"] == {"name": "t", "arguments": '{"a": 1}'}
    assert [request.body for request in server.requests] == [{"model": "m", "n": 1}, {"model": "m"}]
    assert {request.path for request in server.requests} == {"/v1/chat/completions"}


def test_a_used_up_script_says_so() -> None:
    with ScriptedModelServer() as server:
        status, body = ask(f"{server.url}/messages")
    assert (status, body["error"]["message"]) == (400, "the script has no more replies")


def test_bodies_callables_and_errors() -> None:
    script: list[Any] = [
        {"choices": None},
        lambda request: request.body["model"],
        lambda request: Reply(status=503, text="down"),
        Reply(status=500),
        lambda request: request.body["missing"],
        {"bad": object},
    ]
    with ScriptedModelServer(script) as server:
        answers = [ask(f"{server.url}/chat/completions") for _ in script]
    assert answers[0] == (200, {"choices": None})
    assert answers[1][1]["choices"][0]["message"]["content"] == "m"
    assert (answers[2][0], answers[2][1]["error"]["message"]) == (503, "down")
    assert (answers[3][0], answers[3][1]["error"]["message"]) == (500, "scripted error")
    assert (answers[4][0], answers[4][1]["error"]["message"]) == (400, "the script raised KeyError('missing')")
    assert answers[5][0] == 400


@pytest.mark.parametrize(
    ("path", "raw", "status", "message"),
    [
        ("/v1/embeddings", b"{}", 404, "no endpoint"),
        ("/v1/messages", b"{", 400, "not a JSON object"),
        ("/v1/messages", b"[]", 400, "not a JSON object"),
        ("/v1/messages", b'{"stream": true}', 400, "does not stream"),
    ],
)
def test_requests_that_it_cannot_serve(path: str, raw: bytes, status: int, message: str) -> None:
    with ScriptedModelServer(["unused"]) as server:
        code, body = ask(server.root_url + path, raw=raw)
        assert code == status
        assert message in body["error"]["message"]
        assert server.requests == []
        assert ask(f"{server.url}/messages")[1]["content"] == [{"type": "text", "text": "unused"}]


_USER = {"role": "user", "content": "hello"}
_CALLED = {"role": "assistant", "content": None, "tool_calls": [{"id": "call_1", "type": "function"}]}
_ANSWER = {"role": "tool", "tool_call_id": "call_1", "content": "42"}
_USED = {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "t", "input": {}}]}
_RESULT = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "42"}]}
_CALL_ITEM = {"type": "function_call", "call_id": "call_1", "name": "t", "arguments": "{}"}
_OUTPUT_ITEM = {"type": "function_call_output", "call_id": "call_1", "output": "42"}


@pytest.mark.parametrize(
    ("path", "body", "message"),
    [
        (
            "/chat/completions",
            {"messages": [_USER, _ANSWER]},
            "must be a response to a preceding message with 'tool_calls'",
        ),
        ("/chat/completions", {"messages": [_USER, _CALLED, _USER, _ANSWER]}, "messages.[3].role"),
        ("/chat/completions", {"messages": [_CALLED, {**_ANSWER, "tool_call_id": "other"}]}, "'other' is no id"),
        ("/chat/completions", {"messages": [_CALLED, _ANSWER, {"role": "tool"}]}, "messages.[2].tool_call_id: None"),
        ("/responses", {"input": [_OUTPUT_ITEM]}, "no tool call found for function call output with call_id 'call_1'"),
        ("/responses", {"input": [_OUTPUT_ITEM, _CALL_ITEM]}, "no tool call found"),
        ("/messages", {"messages": [_USER, _RESULT]}, "messages.1: unexpected tool_use_id 'toolu_1'"),
        ("/messages", {"messages": [_USED, _USER, _RESULT]}, "messages.2: unexpected tool_use_id"),
    ],
)
def test_a_result_without_its_call_is_refused_as_providers_do(path: str, body: dict[str, Any], message: str) -> None:
    with ScriptedModelServer(["unused"]) as server:
        status, answer = ask(server.url + path, body)
        assert status == 400
        assert message in answer["error"]["message"]
        assert server.requests == []
        assert ask(f"{server.url}/messages")[1]["content"] == [{"type": "text", "text": "unused"}]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/chat/completions", {"messages": [_USER, _CALLED, _ANSWER, _USER]}),
        ("/chat/completions", {"messages": [_CALLED, _ANSWER, _ANSWER]}),
        ("/chat/completions", {"messages": "no list"}),
        ("/chat/completions", {"messages": [1, None, _USER]}),
        ("/responses", {"input": [_CALL_ITEM, _USER, _OUTPUT_ITEM]}),
        ("/responses", {"input": [_OUTPUT_ITEM], "previous_response_id": "resp_1"}),
        ("/responses", {"input": [_OUTPUT_ITEM], "conversation": "conv_1"}),
        ("/responses", {"input": "text"}),
        ("/messages", {"messages": [_USER, _USED, _RESULT]}),
        ("/messages", {"messages": [_USER]}),
    ],
)
def test_conversations_that_providers_take_are_taken(path: str, body: dict[str, Any]) -> None:
    with ScriptedModelServer(["taken"]) as server:
        assert ask(server.url + path, body)[0] == 200


def test_the_sdks_read_its_replies() -> None:
    reply = Reply(text="hm", calls=[("t", {"a": 1})], tokens=(7, 3))
    cut = Reply(text="hm", is_cut_off=True)
    with (
        ScriptedModelServer([reply, cut] * 3) as server,
        openai.OpenAI(base_url=server.url, api_key="none", max_retries=0) as client,
        anthropic.Anthropic(base_url=server.root_url, api_key="none", max_retries=0) as other,
    ):
        chat, chat_cut = (client.chat.completions.create(model="m", messages=[]) for _ in range(2))
        response, response_cut = (client.responses.create(model="m", input="x") for _ in range(2))
        message, message_cut = (other.messages.create(model="m", max_tokens=5, messages=[]) for _ in range(2))
    assert chat.usage is not None
    assert (chat.usage.prompt_tokens, chat.usage.completion_tokens) == (7, 3)
    assert (chat.choices[0].finish_reason, chat_cut.choices[0].finish_reason) == ("tool_calls", "length")
    assert [item.type for item in response.output] == ["message", "function_call"]
    assert response.output_text == "hm"
    assert (response.status, response_cut.status) == ("completed", "incomplete")
    assert [block.type for block in message.content] == ["text", "tool_use"]
    assert (message.stop_reason, message_cut.stop_reason) == ("tool_use", "max_tokens")


def test_raw_arguments_are_sent_as_they_are() -> None:
    with ScriptedModelServer([Reply(calls=[("t", '{"a": ')])] * 3) as server:
        chat = ask(f"{server.url}/chat/completions")[1]
        response = ask(f"{server.url}/responses")[1]
        message = ask(f"{server.url}/messages")[1]
    assert chat["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] == '{"a": '
    assert response["output"][0]["arguments"] == '{"a": '
    assert message["content"][0]["input"] == '{"a": '


def test_life_cycle() -> None:
    server = ScriptedModelServer(repeat("again"))
    with pytest.raises(UsageError, match="not running"):
        _ = server.url
    assert server.start() is server.start()
    url = server.url
    assert ask(f"{url}/responses")[1]["output"][0]["content"][0]["text"] == "again"
    server.close()
    server.close()
    with pytest.raises(UsageError, match="not running"):
        _ = server.root_url
    with pytest.raises(urllib.error.URLError):
        ask(f"{url}/responses")


def test_threads_at_once_use_each_step_once() -> None:
    texts: list[str] = []
    with ScriptedModelServer([str(number) for number in range(8)]) as server:

        def work() -> None:
            answers = [ask(f"{server.url}/chat/completions")[1] for _ in range(2)]
            texts.extend(answer["choices"][0]["message"]["content"] for answer in answers)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(texts) == [str(number) for number in range(8)]
    assert len(server.requests) == 8
