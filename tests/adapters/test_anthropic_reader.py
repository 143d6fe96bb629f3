"""Reading and answering Anthropic messages."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from adapter_fakes import CountingGuard, result
from anthropic.types import Message

from fcguard.adapters import anthropic, openai
from fcguard.errors import UsageError
from fcguard.model.intent import Usage


def tool_use(**more: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": "toolu_1", "name": "query_order", "input": {"order_id": "A1"}, **more}


def message(*content: Any, **more: Any) -> dict[str, Any]:
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": list(content),
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "usage": {
            "input_tokens": 10,
            "cache_read_input_tokens": 20,
            "cache_creation_input_tokens": None,
            "output_tokens": 5,
        },
        **more,
    }


TEXT = {"type": "text", "text": "Let me look."}
THINKING = {"type": "thinking", "thinking": "hm", "signature": "s"}


def _construct(value: dict[str, Any]) -> Message:
    """Build the SDK's object as its client does: leniently, all the way down."""
    return Message.construct(**value)


@pytest.fixture(params=["dict", "sdk"])
def form(request: pytest.FixtureRequest) -> Any:
    return (lambda value: value) if request.param == "dict" else _construct


def test_reads_calls_in_order(form: Any) -> None:
    turn = anthropic.read(form(message(THINKING, TEXT, tool_use(), tool_use(id="toolu_2", name="create_order"))))
    assert turn.format == "anthropic"
    assert [(intent.tool, intent.call_id, intent.position) for intent in turn.intents] == [
        ("query_order", "toolu_1", 0),
        ("create_order", "toolu_2", 1),
    ]
    assert turn.intents[0].arguments == {"order_id": "A1"}
    assert (turn.text, turn.finish_reason, turn.id, turn.unread) == ("Let me look.", "tool_use", "msg_1", ())
    assert turn.usage == Usage(30, 5, None)  # cached tokens are part of the prompt
    (echoed,) = turn.assistant_messages()
    assert echoed == {
        "role": "assistant",
        "content": [THINKING, TEXT, tool_use(), tool_use(id="toolu_2", name="create_order")],
    }


@pytest.mark.parametrize(
    ("reason", "max_tokens", "is_truncated"),
    [
        ("tool_use", None, False),
        ("tool_use", 5, True),
        ("tool_use", 6, False),
        ("max_tokens", None, True),
        ("model_context_window_exceeded", None, True),
        ("refusal", None, True),
        ("end_turn", None, False),
    ],
)
def test_cut_off_is_seen(form: Any, reason: str, max_tokens: int | None, is_truncated: bool) -> None:
    turn = anthropic.read(form(message(tool_use(), stop_reason=reason)), max_tokens=max_tokens)
    assert (turn.finish_reason, turn.is_truncated) == (reason, is_truncated)


def test_one_user_message_answers_all_calls(form: Any) -> None:
    turn = anthropic.read(form(message(tool_use(), tool_use(id="toolu_2"))))
    (answer,) = anthropic.write(turn, [result(0), result(1, success=False)])
    assert answer["role"] == "user"
    assert [(block["type"], block["tool_use_id"], block["is_error"]) for block in answer["content"]] == [
        ("tool_result", "toolu_1", False),
        ("tool_result", "toolu_2", True),
    ]
    assert json.loads(answer["content"][1]["content"])["error_type"] == "PARAM_INVALID"


def test_text_alone_is_not_answered(form: Any) -> None:
    response = form(message(TEXT, stop_reason="end_turn"))
    assert anthropic.answer(CountingGuard(), response) == []
    whole = anthropic.answer(CountingGuard(), response, with_assistant=True)
    assert whole == [{"role": "assistant", "content": [TEXT]}]
    assert anthropic.read(response).intent.call is False


def test_tools_that_the_provider_runs_stay_visible(form: Any) -> None:
    block = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}}
    turn = anthropic.read(form(message(block, tool_use())))
    assert turn.unread == ("content[0]: 'server_tool_use' 'web_search'",)
    assert [intent.tool for intent in turn.intents] == ["query_order"]
    assert turn.assistant_messages()[0]["content"][0] == block


def test_missing_and_double_ids_are_repaired() -> None:
    turn = anthropic.read(message(tool_use(), tool_use(), tool_use(id=None)))
    (answer,) = anthropic.write(turn, [result(n) for n in range(3)])
    answered = [block["tool_use_id"] for block in answer["content"]]
    assert answered == [block["id"] for block in turn.assistant_messages()[0]["content"]] == list(turn.call_ids)
    assert answered[0] == "toolu_1"
    assert len(set(answered)) == 3


@pytest.mark.parametrize(
    ("sent", "read", "echoed"),
    [
        ({"a": None}, {"a": None}, {"a": None}),
        (None, None, {}),
        ('{"a": 1}', '{"a": 1}', {"input": '{"a": 1}'}),
        ([1], "[1]", {"input": [1]}),
    ],
)
def test_input_of_any_shape(sent: Any, read: Any, echoed: Any) -> None:
    turn = anthropic.read(message(tool_use(input=sent)))
    assert turn.intents[0].arguments == read
    assert turn.assistant_messages()[0]["content"][0]["input"] == echoed


def test_broken_shapes() -> None:
    empty = {"type": "text", "text": ""}
    turn = anthropic.read(message(5, empty, {"type": []}, {"type": "tool_use", "name": 3}, {"type": "text", "text": 4}))
    assert [intent.tool for intent in turn.intents] == [None]
    assert turn.text is None
    assert turn.unread == ("content[0]: 5", "content[2]: None None")
    kinds = [block["type"] for block in turn.assistant_messages()[0]["content"]]
    assert kinds == [[], "tool_use"]
    assert turn.assistant_messages()[0]["content"][1]["name"] == "unknown"


def test_content_as_text_and_error_bodies() -> None:
    assert anthropic.read({"content": "Done."}).text == "Done."
    assert anthropic.read({"content": []}).unread == ()
    assert anthropic.read({"type": "error", "error": {"message": "overloaded"}}).unread == (
        "error: 'overloaded'",
        "content: None",
    )


def test_answer_in_one_line() -> None:
    guard = CountingGuard()
    whole = anthropic.answer(guard, message(TEXT, tool_use()), with_assistant=True, context="ctx")
    assert [entry["role"] for entry in whole] == ["assistant", "user"]
    assert guard.options == {"context": "ctx"}
    assert asyncio.run(anthropic.aanswer(guard, message(TEXT, tool_use()))) == whole[1:]
    assert asyncio.run(anthropic.aanswer(guard, message(TEXT, tool_use()), with_assistant=True)) == whole
    (cut,) = anthropic.answer(guard, message(tool_use()), max_tokens=5)
    assert cut["content"][0]["is_error"] is True


def test_a_turn_is_written_by_its_own_adapter() -> None:
    with pytest.raises(UsageError, match=r"'anthropic' is not 'openai.chat'"):
        openai.write(anthropic.read(message(tool_use())), [result()])
