"""Laws of all readers and writers: anything gives a turn, and answers keep order and count."""

from __future__ import annotations

import json
from typing import Any

import pytest
from adapter_fakes import CountingGuard, result
from hypothesis import given, settings
from hypothesis import strategies as st

from fcguard.adapters import anthropic, mcp, openai, wire
from fcguard.adapters.base import Turn

NAMES = """
choices message delta tool_calls function function_call name arguments id type audio content text refusal output status
call_id incomplete_details reason usage input stop_reason finish_reason params method _meta object error index custom
root prompt_tokens completion_tokens input_tokens output_tokens 0 1
"""
KEYS = st.sampled_from(NAMES.split())
WORDS = st.sampled_from(
    ["function", "custom", "function_call", "message", "tool_use", "text", "output_text", "response", "tools/call", ""]
)
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | WORDS
JUNK = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS | st.text(max_size=3), inner, max_size=6),
    max_leaves=30,
)
READERS = {"openai": openai, "anthropic": anthropic, "mcp": mcp}


def shaped(entries: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Junk in the places where calls are looked for."""
    lists = st.lists(entries, max_size=4)
    return st.one_of(
        st.builds(lambda calls: {"choices": [{"message": {"tool_calls": calls}}]}, lists),
        st.builds(lambda items: {"object": "response", "output": items}, lists),
        st.builds(lambda blocks: {"content": blocks}, lists),
        st.builds(lambda params: {"method": "tools/call", "params": params}, entries),
    )


@pytest.mark.parametrize("adapter", READERS.values(), ids=READERS)
@settings(max_examples=300, deadline=None)
@given(junk=JUNK | shaped(JUNK))
def test_anything_gives_a_turn_that_can_be_answered(adapter: Any, junk: Any) -> None:
    turn = adapter.read(junk)
    assert isinstance(turn, Turn)
    assert len(turn.intents) == len(turn.call_ids)
    written = adapter.write(turn, [result(n) for n in range(len(turn.intents))])
    json.dumps([written, turn.assistant_messages()])  # plain values only
    if not isinstance(junk, dict) or not junk:
        assert turn.unread  # never silent


IDS = st.lists(st.none() | st.integers(0, 3) | st.sampled_from(["", "a", "b", "call_1"]), max_size=8)


def _chat(ids: list[Any]) -> Any:
    calls = [{"id": value, "type": "function", "function": {"name": f"t{n}"}} for n, value in enumerate(ids)]
    return openai, {"choices": [{"message": {"tool_calls": calls}}]}


def _responses(ids: list[Any]) -> Any:
    output = [{"type": "function_call", "call_id": value, "name": f"t{n}"} for n, value in enumerate(ids)]
    return openai, {"object": "response", "output": output}


def _anthropic(ids: list[Any]) -> Any:
    return anthropic, {"content": [{"type": "tool_use", "id": value, "name": f"t{n}"} for n, value in enumerate(ids)]}


def _answered(messages: list[dict[str, Any]]) -> list[tuple[str, int]]:
    """Answer id and position of every result in the written messages."""
    found: list[tuple[str, int]] = []
    for message in messages:
        for block in message["content"] if message.get("role") == "user" else [message]:
            answer_id = block.get("tool_call_id") or block.get("call_id") or block.get("tool_use_id")
            text = block.get("output") or block.get("content")
            found.append((str(answer_id), json.loads(str(text))["data"]["position"]))
    return found


def _echoed(messages: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Answer id and tool of every call in the echo."""
    found: list[tuple[str, str]] = []
    for message in messages:
        for entry in message.get("tool_calls") or message.get("content") or [message]:
            function = entry.get("function") or entry
            found.append((entry.get("call_id") or entry["id"], function["name"]))
    return found


@pytest.mark.parametrize("build", [_chat, _responses, _anthropic])
@given(ids=IDS)
def test_round_trip_keeps_order_and_count_whatever_the_ids(build: Any, ids: list[Any]) -> None:
    adapter, response = build(ids)
    turn = adapter.read(response)
    answered = _answered(adapter.answer(CountingGuard(), response))
    assert [position for _, position in answered] == list(range(len(ids)))
    echoed = _echoed(turn.assistant_messages())
    assert [name for _, name in echoed] == [f"t{n}" for n in range(len(ids))]
    assert [answer_id for answer_id, _ in answered] == [answer_id for answer_id, _ in echoed]
    assert len({answer_id for answer_id, _ in answered}) == len(ids)


@given(given=IDS, seed=st.text())
def test_binding_ids_keeps_the_first_of_each_and_makes_the_rest(given: list[Any], seed: str) -> None:
    bound = wire.bind_ids(given, seed)
    assert len(set(bound)) == len(bound) == len(given)
    assert wire.bind_ids(given, seed) == bound
    for position, value in enumerate(given):
        if value not in (None, "") and str(value) not in [str(other) for other in given[:position]]:
            assert bound[position] == str(value)


FINITE = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=6),
    max_leaves=30,
)


@given(value=FINITE)
def test_plain_values_are_copied_as_they_are(value: Any) -> None:
    assert repr(wire.plain(value)) == repr(value)
