"""Reading and answering Responses."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from adapter_fakes import CountingGuard, result
from openai.types.responses import Response

from fcguard.adapters import anthropic, openai
from fcguard.errors import UsageError
from fcguard.model.intent import Usage


def function_call(**more: Any) -> dict[str, Any]:
    return {
        "type": "function_call",
        "id": "fc_1",
        "call_id": "call_1",
        "name": "query_order",
        "arguments": '{"order_id": "A1"}',
        "status": "completed",
        **more,
    }


def said(text: str, **more: Any) -> dict[str, Any]:
    content = [{"type": "output_text", "text": text, "annotations": [], **more}]
    return {"type": "message", "id": "msg_1", "role": "assistant", "status": "completed", "content": content}


def response(*output: Any, **more: Any) -> dict[str, Any]:
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 0,
        "model": "m",
        "status": "completed",
        "output": list(output),
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": {
            "input_tokens": 10,
            "output_tokens": 5,
            "total_tokens": 15,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        },
        **more,
    }


def _construct(value: dict[str, Any]) -> Response:
    """Build the SDK's object as its client does: leniently, all the way down."""
    return Response.construct(**value)


@pytest.fixture(params=["dict", "sdk"])
def form(request: pytest.FixtureRequest) -> Any:
    return (lambda value: value) if request.param == "dict" else _construct


REASONING = {"type": "reasoning", "id": "rs_1", "summary": []}


def test_reads_items_in_order(form: Any) -> None:
    second = function_call(id="fc_2", call_id="call_2", name="create_order")
    turn = openai.read(form(response(REASONING, said("Let me look."), function_call(), second)))
    assert turn.format == "openai.responses"
    assert [(intent.tool, intent.call_id, intent.position) for intent in turn.intents] == [
        ("query_order", "call_1", 0),
        ("create_order", "call_2", 1),
    ]
    assert turn.intents[0].arguments == '{"order_id": "A1"}'
    assert (turn.text, turn.usage, turn.finish_reason, turn.id) == (
        "Let me look.",
        Usage(10, 5, None),
        "completed",
        "resp_1",
    )
    assert turn.unread == ()
    assert openai.write(turn, [result(0), result(1)])[1]["call_id"] == "call_2"
    assert [item["type"] for item in turn.assistant_messages()] == [
        "reasoning",
        "message",
        "function_call",
        "function_call",
    ]


def test_text_alone_calls_nothing(form: Any) -> None:
    turn = openai.read(form(response(said("Done."))))
    assert (turn.intents, turn.text) == ((), "Done.")


@pytest.mark.parametrize(
    ("fields", "max_tokens", "reason", "is_truncated"),
    [
        ({}, None, "completed", False),
        ({}, 5, "completed", True),
        ({"max_output_tokens": 5}, None, "completed", True),
        ({"max_output_tokens": 5}, 6, "completed", False),
        (
            {"status": "incomplete", "incomplete_details": {"reason": "max_output_tokens"}},
            None,
            "max_output_tokens",
            True,
        ),
        ({"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}, None, "incomplete", True),
        ({"status": "failed"}, None, "incomplete", True),
        ({"status": "in_progress"}, None, "incomplete", True),
        ({"status": "cancelled"}, None, "incomplete", True),
    ],
)
def test_cut_off_is_seen(form: Any, fields: Any, max_tokens: int | None, reason: str, is_truncated: bool) -> None:
    turn = openai.read(form(response(function_call(), **fields)), max_tokens=max_tokens)
    assert (turn.finish_reason, turn.is_truncated) == (reason, is_truncated)
    assert bool(turn.unread) is (reason == "incomplete")


def test_one_cut_item_is_refused_alone(form: Any) -> None:
    turn = openai.read(form(response(function_call(), function_call(call_id="call_2", status="incomplete"))))
    assert [intent.is_truncated for intent in turn.intents] == [False, True]


def test_what_is_not_governed_stays_visible(form: Any) -> None:
    refusal = {**said(""), "content": [{"type": "refusal", "refusal": "I cannot."}]}
    custom = {"type": "custom_tool_call", "id": "ct_1", "call_id": "call_9", "name": "run_code", "input": "1"}
    action = {"type": "search", "query": "x"}
    search = {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": action}
    turn = openai.read(form(response(refusal, custom, search, function_call())))
    assert turn.unread == (
        "output[0].content[0]: refusal: 'I cannot.'",
        "output[1]: 'custom_tool_call' 'run_code'",
        "output[2]: 'web_search_call' None",
    )
    assert len(turn.intents) == 1
    assert len(turn.assistant_messages()) == 4


def test_broken_items() -> None:
    odd = {"type": "message", "content": [{"type": "output_text", "text": None}, {"type": ["x"]}, 5]}
    bare = {"name": "query_order", "arguments": {"a": None}}
    turn = openai.read(response(7, {"type": {}}, odd, bare, {"type": "message", "content": "t"}))
    assert [(intent.tool, intent.arguments, intent.call_id) for intent in turn.intents] == [
        ("query_order", {"a": None}, None)
    ]
    assert turn.text == "t"
    assert turn.unread == (
        "output[0]: 7",
        "output[1]: None None",
        "output[2].content[1]: list",
        "output[2].content[2]: None",
    )
    call = turn.assistant_messages()[2]
    assert (call["type"], call["call_id"], call["arguments"]) == ("function_call", turn.call_ids[0], '{"a": null}')


def test_error_is_unread() -> None:
    turn = openai.read(response(status="failed", error={"code": "server_error", "message": "sorry"}))
    assert turn.unread == ("error: 'sorry'", "status: 'failed'")


def test_double_ids_are_repaired() -> None:
    turn = openai.read(response(function_call(), function_call()))
    answered = [item["call_id"] for item in openai.write(turn, [result(0), result(1)])]
    assert answered == [item["call_id"] for item in turn.assistant_messages()]
    assert len(set(answered)) == 2


def test_echo_drops_nulls_and_parsed_fields() -> None:
    item = function_call(status=None, parsed_arguments={"a": 1}, namespace=None)
    message = said("x", parsed={"a": 1}, logprobs=None)
    message["content"].append("kept")
    echoed = openai.read(response(item, message)).assistant_messages()
    assert echoed[0] == {key: value for key, value in function_call().items() if key != "status"}
    assert echoed[1]["content"] == [{"type": "output_text", "text": "x", "annotations": []}, "kept"]


def test_answer_in_one_line() -> None:
    whole = openai.answer(CountingGuard(), response(function_call()), with_assistant=True)
    assert [item["type"] for item in whole] == ["function_call", "function_call_output"]
    assert asyncio.run(openai.aanswer(CountingGuard(), response(function_call()))) == whole[1:]


def test_a_turn_is_written_by_its_own_adapter() -> None:
    turn = openai.read(response(function_call()))
    with pytest.raises(UsageError, match=r"'openai.responses' is not 'anthropic'"):
        anthropic.write(turn, [result()])
