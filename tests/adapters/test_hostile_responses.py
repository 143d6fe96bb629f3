"""No response makes a reader raise, and what is answered can always be sent: strict JSON in UTF-8."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from fcguard import Guard
from fcguard.adapters import anthropic, mcp, openai, wire
from fcguard.stores.memory import MemoryStore

HUGE = 10**5000
RESPONSES: dict[str, tuple[Any, Any]] = {
    "chat": (
        openai,
        {
            "id": "r",
            "choices": [
                {
                    "finish_reason": "stop",
                    "message": {
                        "content": "hi",
                        "refusal": None,
                        "audio": {"id": "a"},
                        "tool_calls": [
                            {"id": "c", "type": "function", "function": {"name": "echo", "arguments": "{}"}}
                        ],
                    },
                }
            ],
            "usage": {"prompt_tokens": 1, "completion_tokens": 2},
            "error": None,
        },
    ),
    "legacy": (openai, {"choices": [{"message": {"function_call": {"name": "echo", "arguments": "{}"}}}]}),
    "custom": (
        openai,
        {"choices": [{"message": {"content": [{"text": "q"}], "tool_calls": [{"type": "custom", "custom": {}}]}}]},
    ),
    "responses": (
        openai,
        {
            "object": "response",
            "status": "completed",
            "incomplete_details": {"reason": None},
            "max_output_tokens": 3,
            "output": [
                {"type": "message", "content": [{"type": "output_text", "text": "hi"}, {"type": "refusal"}]},
                {"type": "function_call", "call_id": "c", "name": "echo", "arguments": "{}", "status": "completed"},
            ],
        },
    ),
    "anthropic": (
        anthropic,
        {
            "id": "m",
            "stop_reason": "tool_use",
            "content": [{"type": "text", "text": "hi"}, {"type": "tool_use", "id": "u", "name": "echo", "input": {}}],
            "usage": {"input_tokens": 1, "output_tokens": 2},
        },
    ),
    "mcp": (
        mcp,
        {"id": 1, "method": "tools/call", "params": {"name": "echo", "arguments": {}, "_meta": {"traceparent": "x"}}},
    ),
}


class Raises:
    """Raises whatever is asked of it."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(name)

    def __eq__(self, other: object) -> bool:
        raise RuntimeError

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        raise RuntimeError


class RaisingDict(dict[str, Any]):
    def get(self, *_: Any) -> Any:
        raise RuntimeError

    def items(self) -> Any:
        raise RuntimeError


class RaisingText(str):
    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        raise RuntimeError

    def __repr__(self) -> str:
        raise RuntimeError

    __hash__ = None  # type: ignore[assignment]


class RaisingKey(str):
    __slots__ = ()

    def __str__(self) -> str:
        raise RuntimeError


class Endless(Mapping[str, Any]):
    """Has itself below every key, and never the same object twice."""

    def __getitem__(self, key: str) -> Any:
        return Endless()

    def __iter__(self) -> Iterator[str]:
        return iter("ab")

    def __len__(self) -> int:
        return 2


VALUES: dict[str, Any] = {
    "huge integer": HUGE,
    "huge integer inside": {"a": [-HUGE]},
    "huge integer as key": {HUGE: 1},
    "huge position": {"9" * 5000: {"function": {"name": "echo"}}},
    "infinity": float("inf"),
    "surrogate": {"\ud800": "\ud800", "id": "\udfff"},
    "surrogate text": "\ud800",
    "raises": Raises(),
    "raising dict": RaisingDict(a=1),
    "raising text": RaisingText("echo"),
    "raising key": {RaisingKey("a"): 1},
}


def _with(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    copied = dict(value) if isinstance(value, dict) else list(value)
    copied[path[0]] = _with(copied[path[0]], path[1:], new)
    return copied


def _paths(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, entry in entries:
        yield from _paths(entry, (*path, key))


def _send(messages: Any) -> bytes:
    """Write messages as the clients of the providers do (httpx)."""
    return json.dumps(messages, ensure_ascii=False, allow_nan=False).encode()


@pytest.fixture
def guard() -> Guard:
    guard = Guard(store=MemoryStore())

    @guard.tool(effect="read")
    def echo(value: Any = None) -> Any:
        return value

    return guard


@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize(("adapter", "response"), RESPONSES.values(), ids=RESPONSES)
def test_a_hostile_value_anywhere_in_a_response_raises_nothing(
    guard: Guard, adapter: Any, response: Any, value: str
) -> None:
    for path in _paths(response):
        hostile = _with(response, path, VALUES[value])
        turn = adapter.read(hostile)
        _send([turn.assistant_messages(), adapter.answer(guard, hostile)])


@pytest.mark.parametrize("kind", [Raises, RaisingDict])
@pytest.mark.parametrize("adapter", [openai, anthropic, mcp])
def test_a_response_that_cannot_be_read_calls_nothing_and_says_so(adapter: Any, kind: type) -> None:
    turn = adapter.read(kind())
    assert turn.intents == ()
    assert turn.unread == ("response: reading it raised RuntimeError",)
    assert adapter.write(turn, []) == []


def test_an_argument_that_is_too_long_a_number_is_refused_and_the_conversation_goes_on(guard: Guard) -> None:
    call = {"type": "tool_use", "id": "u", "name": "echo", "input": {"value": HUGE}}
    said, answered = anthropic.answer(guard, {"content": [call]}, with_assistant=True)
    assert said["content"] == [{**call, "input": {"value": "..."}}]
    (block,) = answered["content"]
    assert block["is_error"]
    assert "the integer has too many digits" in block["content"]


def test_an_id_of_half_a_surrogate_pair_is_the_same_in_call_and_answer(guard: Guard) -> None:
    call = {"id": "\ud800", "type": "function", "function": {"name": "echo", "arguments": "{}"}}
    said, answered = openai.answer(guard, {"choices": [{"message": {"tool_calls": [call]}}]}, with_assistant=True)
    assert said["tool_calls"][0]["id"] == answered["tool_call_id"] == "\\ud800"


def test_an_object_without_an_end_is_cut() -> None:
    copied = wire.plain(Endless())
    for _ in range(100):
        copied = copied["a"]
    assert copied == "..."


@pytest.mark.parametrize(
    ("value", "copied"),
    [
        (10**4000, 10**4000),
        (10**4300, "..."),
        (-(10**4400), "..."),
        (float("inf"), "Infinity"),
        (float("-inf"), "-Infinity"),
        (float("nan"), "NaN"),
        ("a\udc00", "a\\udc00"),
        ({True: True, None: None, 1.5: 1.5}, {"True": True, "None": None, "1.5": 1.5}),
    ],
    ids=lambda value: repr(value)[:9] if not isinstance(value, int) else "integer",
)
def test_what_strict_json_cannot_hold_is_written_in_words(value: Any, copied: Any) -> None:
    assert wire.plain(value) == copied
