"""The envelope as JSON: UTF-8 can hold it, whatever a model sent and whatever a tool said."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcguard import Guard, MemoryStore, ToolResult

HALF = "a\ud800"


def envelopes(text: str) -> list[ToolResult[Any]]:
    with Guard(store=MemoryStore()) as guard:

        @guard.tool(effect="read")
        def echo(text: str, more: list[str] | None = None) -> str:
            return text

        @guard.tool(effect="read")
        def fail(text: str) -> str:
            raise ValueError(text)

        return [
            guard.call("echo", {"text": text, "more": [text]}),
            guard.call("fail", {"text": text}),
            guard.call("echo", {text: 1}),
            guard.call(text, {}),
        ]


def check(text: str) -> None:
    for result in envelopes(text):
        form = result.model_dump(mode="json")
        written = [result.model_dump_json(), result.model_dump_json(indent=1), result.for_model()]
        assert json.loads(written[0].encode()) == json.loads(written[1].encode()) == form
        json.dumps(form, ensure_ascii=False).encode()
        assert written[2].encode()


@pytest.mark.parametrize("text", [HALF, "\udfff", "plain", "ü"])
def test_half_a_character_is_spelt_out(text: str) -> None:
    check(text)


@given(st.text(st.characters(codec=None, categories=None), max_size=5))
def test_any_text_can_be_written(text: str) -> None:
    check(text)


def test_it_is_spelt_as_in_the_data_and_the_arguments_stay_what_they_were() -> None:
    first = envelopes(HALF)[0]
    form = first.model_dump(mode="json")
    assert form["normalized_args"] == {"text": "a\\ud800", "more": ["a\\ud800"]}
    assert form["data"] == "a\\ud800"
    assert first.model_dump()["normalized_args"]["text"] == HALF
