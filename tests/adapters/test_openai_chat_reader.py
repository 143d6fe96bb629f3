"""Reading and answering Chat Completions."""

from __future__ import annotations

import asyncio
import json
import warnings
from types import SimpleNamespace
from typing import Any

import pytest
from adapter_fakes import CountingGuard, result
from openai.types.chat import ChatCompletion, ChatCompletionMessage

from fcguard.adapters import openai
from fcguard.errors import UsageError
from fcguard.model.intent import Usage


def call(name: Any = "query_order", arguments: Any = '{"order_id": "A1"}', **more: Any) -> dict[str, Any]:
    return {"id": "call_1", "type": "function", "function": {"name": name, "arguments": arguments}, **more}


def completion(*calls: Any, finish_reason: Any = "tool_calls", **message: Any) -> dict[str, Any]:
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 0,
        "model": "m",
        "choices": [
            {
                "index": 0,
                "finish_reason": finish_reason,
                "message": {"role": "assistant", "content": None, "tool_calls": list(calls), **message},
            }
        ],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
    }


def _construct(value: dict[str, Any]) -> ChatCompletion:
    """Build the SDK's object as its client does: leniently, all the way down."""
    return ChatCompletion.construct(**value)


@pytest.fixture(params=["dict", "sdk"])
def form(request: pytest.FixtureRequest) -> Any:
    return (lambda response: response) if request.param == "dict" else _construct


def test_reads_calls_in_order(form: Any) -> None:
    turn = openai.read(form(completion(call(), call("create_order", "{}", id="call_2"), content="Let me look.")))
    assert turn.format == "openai.chat"
    assert [intent.tool for intent in turn.intents] == ["query_order", "create_order"]
    assert [intent.position for intent in turn.intents] == [0, 1]
    assert [intent.call_id for intent in turn.intents] == ["call_1", "call_2"]
    assert turn.intents[0].arguments == '{"order_id": "A1"}'
    assert {intent.text for intent in turn.intents} == {"Let me look."}
    assert turn.usage == turn.intents[0].usage == Usage(10, 5, None)
    assert (turn.finish_reason, turn.id, turn.unread) == ("tool_calls", "chatcmpl-1", ())
    assert turn.call_ids == ("call_1", "call_2")


def test_text_alone_calls_nothing(form: Any) -> None:
    response = form(completion(content="Done.", finish_reason="stop"))
    turn = openai.read(response)
    assert turn.intents == ()
    assert (turn.intent.call, turn.intent.text, turn.text) == (False, "Done.", "Done.")
    assert openai.answer(CountingGuard(), response) == []
    assert turn.assistant_messages() == [{"role": "assistant", "content": "Done."}]


@pytest.mark.parametrize(
    ("reason", "max_tokens", "is_truncated"),
    [
        ("length", None, True),
        ("tool_calls", 5, True),
        ("tool_calls", 6, False),
        ("tool_calls", None, False),
        ("stop", None, False),
        ("content_filter", None, True),
    ],
)
def test_cut_off_is_seen(form: Any, reason: str, max_tokens: int | None, is_truncated: bool) -> None:
    turn = openai.read(form(completion(call(), finish_reason=reason)), max_tokens=max_tokens)
    assert turn.is_truncated is is_truncated
    assert turn.finish_reason == reason


def test_legacy_function_call_is_answered_by_name() -> None:
    response = completion(finish_reason="function_call", function_call={"name": "query_order", "arguments": "{}"})
    del response["choices"][0]["message"]["tool_calls"]
    turn = openai.read(response)
    assert [(intent.tool, intent.call_id) for intent in turn.intents] == [("query_order", None)]
    (message,) = openai.write(turn, [result(data=1)])
    assert (message["role"], message["name"]) == ("function", "query_order")
    assert turn.assistant_messages()[0]["function_call"] == {"name": "query_order", "arguments": "{}"}


def test_legacy_call_beside_tool_calls_is_unread() -> None:
    turn = openai.read(completion(call(), function_call={"name": "query_order", "arguments": "{}"}))
    assert len(turn.intents) == 1
    assert turn.unread == ("function_call: 'query_order'",)
    assert "function_call" not in turn.assistant_messages()[0]


def test_legacy_call_that_is_no_object_is_unread() -> None:
    turn = openai.read(completion(function_call="query_order"))
    assert (turn.intents, turn.unread) == ((), ("function_call: 'query_order'",))


def test_custom_tool_and_refusal_stay_visible(form: Any) -> None:
    custom = {"id": "call_9", "type": "custom", "custom": {"name": "run_code", "input": "print(1)"}}
    turn = openai.read(form(completion(custom, call(), refusal="I cannot.")))
    assert [intent.tool for intent in turn.intents] == ["query_order"]
    assert turn.unread == ("tool_calls[0]: 'custom' 'run_code'", "refusal: 'I cannot.'")
    echoed = turn.assistant_messages()[0]["tool_calls"]
    assert [entry["id"] for entry in echoed] == ["call_9", "call_1"]
    assert [message["tool_call_id"] for message in openai.write(turn, [result()])] == ["call_1"]


def test_only_the_first_choice_is_read() -> None:
    response = completion(call())
    response["choices"].append(response["choices"][0])
    turn = openai.read(response)
    assert len(turn.intents) == 1
    assert turn.unread == ("choices[1]: only the first choice is read",)


@pytest.mark.parametrize("ids", [["same", "same", "same"], [None, None, None], ["", " ", "a"], [7, 7, True]])
def test_ids_are_repaired_alike_in_echo_and_answers(ids: list[Any]) -> None:
    response = completion(*(call(id=value) for value in ids))
    turn = openai.read(response)
    answered = [message["tool_call_id"] for message in openai.write(turn, [result(n) for n in range(3)])]
    assert answered == [entry["id"] for entry in turn.assistant_messages()[0]["tool_calls"]] == list(turn.call_ids)
    assert len(set(answered)) == 3
    made = [value for value, given in zip(answered, ids, strict=True) if value != str(given)]
    assert made
    assert all(len(value) == 9 and value.isalnum() for value in made)
    assert openai.read(response) == turn  # a made id does not change between two readings


def test_made_ids_differ_between_responses() -> None:
    first, second = completion(call(id=None)), completion(call(id=None))
    second["id"] = "chatcmpl-2"
    assert openai.read(first).call_ids != openai.read(second).call_ids
    del first["id"], second["id"]
    second["choices"][0]["message"]["content"] = "again"
    assert openai.read(first).call_ids != openai.read(second).call_ids


@pytest.mark.parametrize(
    ("sent", "read", "echoed"),
    [
        ({"order_id": "A1"}, {"order_id": "A1"}, '{"order_id": "A1"}'),
        (None, None, "{}"),
        ("", "", "{}"),
        ("  ", "  ", "{}"),
        ('{"a": ', '{"a": ', '{"a": '),
        (["A1"], '["A1"]', '["A1"]'),
        (3, "3", "3"),
        (b'{"a": 1}', b'{"a": 1}', '{"a": 1}'),
        (SimpleNamespace(a=1), {"a": 1}, '{"a": 1}'),
        (float("nan"), "NaN", "NaN"),
    ],
)
def test_arguments_of_any_shape(sent: Any, read: Any, echoed: str) -> None:
    turn = openai.read(completion(call(arguments=sent)))
    assert turn.intents[0].arguments == read
    assert turn.assistant_messages()[0]["tool_calls"][0]["function"]["arguments"] == echoed


@pytest.mark.parametrize(
    ("entry", "tool"),
    [
        ({}, None),
        ({"id": "x", "function": None}, None),
        ({"id": "x", "function": "query_order"}, None),
        ({"id": "x", "function": {"name": 5}}, None),
        ({"id": "x", "function": {"name": ""}}, None),
        ({"id": "x", "name": "query_order", "arguments": "{}"}, "query_order"),
        ({"id": "x", "type": "custom", "function": {"name": "query_order"}}, "query_order"),
    ],
)
def test_a_broken_call_is_still_one_call_with_one_answer(entry: Any, tool: str | None) -> None:
    turn = openai.read(completion(entry))
    assert [(intent.call, intent.tool) for intent in turn.intents] == [(True, tool)]
    assert len(openai.write(turn, [result()])) == 1
    assert turn.assistant_messages()[0]["tool_calls"][0]["function"]["name"] == (tool or "unknown")


def test_entries_that_are_no_objects_are_unread() -> None:
    turn = openai.read(completion("query_order", None))
    assert (turn.intents, turn.unread) == ((), ("tool_calls[0]: 'query_order'", "tool_calls[1]: None"))
    turn = openai.read(completion(tool_calls="query_order"))
    assert (turn.intents, turn.unread) == ((), ("tool_calls: 'query_order'",))


def test_accumulated_stream() -> None:
    first, second = call(index=0), call("create_order", id="call_2", index=1)
    response = completion()
    response["choices"][0]["delta"] = {"role": "assistant", "tool_calls": {1: second, 0: first}}
    del response["choices"][0]["message"]
    turn = openai.read(response)
    assert [intent.tool for intent in turn.intents] == ["query_order", "create_order"]
    assert all("index" not in entry for entry in turn.assistant_messages()[0]["tool_calls"])


def test_message_alone() -> None:
    message = ChatCompletionMessage.model_validate({"role": "assistant", "content": None, "tool_calls": [call()]})
    assert [intent.tool for intent in openai.read(message).intents] == ["query_order"]


def test_content_parts() -> None:
    parts = [{"type": "text", "text": "a"}, "b", {"type": "image_url"}]
    turn = openai.read(completion(content=parts, finish_reason="stop"))
    assert (turn.text, turn.unread) == ("ab", ("content[2]: 'image_url'",))
    assert openai.read(completion(content=[])).text is None


def test_error_body_is_unread() -> None:
    turn = openai.read({"choices": None, "error": {"message": "overloaded"}})
    assert turn.intents == ()
    assert turn.unread == ("error: 'overloaded'", "response: no choices in dict")
    assert openai.read({"error": "x" * 500}).unread[0] == "error: '" + "x" * 199 + "..."
    assert openai.read({"choices": [{"message": None}]}).unread == ("choices[0].message: None",)


def test_echo_keeps_what_a_provider_needs_and_drops_what_it_refuses() -> None:
    signed = call(extra_content={"google": {"thought_signature": "s"}}, index=0, note=None)
    response = completion(
        signed, audio={"id": "audio_1", "data": "..."}, annotations=[], refusal=None, reasoning_content="hm", parsed={}
    )
    (message,) = openai.read(response).assistant_messages()
    assert message == {
        "role": "assistant",
        "content": None,
        "audio": {"id": "audio_1"},
        "reasoning_content": "hm",
        "tool_calls": [call(extra_content={"google": {"thought_signature": "s"}})],
    }


def test_sdk_objects_of_broken_shape_are_read_without_warnings() -> None:
    message: Any = ChatCompletionMessage.model_construct(tool_calls=[call(id=5)], content=3)
    response: Any = ChatCompletion.model_construct(id=None, choices=[SimpleNamespace(message=message)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        turn = openai.read(response)
    assert [(intent.tool, intent.call_id) for intent in turn.intents] == [("query_order", "5")]
    assert turn.assistant_messages()[0]["content"] is None


def test_echo_is_a_copy() -> None:
    response = completion(call())
    turn = openai.read(response)
    turn.assistant_messages()[0]["tool_calls"].clear()
    response["choices"][0]["message"]["tool_calls"].clear()
    assert len(turn.assistant_messages()[0]["tool_calls"]) == 1


def test_answer_in_one_line() -> None:
    guard = CountingGuard()
    response = completion(call(), call(id=None))
    messages = openai.answer(guard, response, context="ctx", max_chars=300)
    assert [message["role"] for message in messages] == ["tool", "tool"]
    assert [json.loads(message["content"])["data"]["position"] for message in messages] == [0, 1]
    assert guard.options == {"context": "ctx"}
    whole = openai.answer(guard, response, with_assistant=True)
    assert [message["role"] for message in whole] == ["assistant", "tool", "tool"]
    assert whole[1:] == messages
    assert asyncio.run(openai.aanswer(guard, response)) == messages
    assert asyncio.run(openai.aanswer(guard, response, with_assistant=True)) == whole


def test_answer_passes_the_limit_on() -> None:
    (message,) = openai.answer(CountingGuard(), completion(call()), max_tokens=5)
    assert '"success": false' in message["content"]


def test_max_chars_reaches_the_result() -> None:
    turn = openai.read(completion(call()))
    (message,) = openai.write(turn, [result(data="x" * 5000)], max_chars=300)
    assert len(message["content"]) <= 300


@pytest.mark.parametrize("count", [0, 1, 3])
def test_results_must_match_the_calls(count: int) -> None:
    turn = openai.read(completion(call(), call(id="call_2")))
    with pytest.raises(UsageError, match=f"{count} results for 2 calls"):
        openai.write(turn, [result(n) for n in range(count)])
