"""Names of tools: matched exactly, folded only where exactly one tool fits, never guessed."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcguard.config import Prepared, Toolbox, collapse
from fcguard.errors import DuplicateToolError
from fcguard.model.failure import Failure
from fcguard.model.tool import Tool

PREFIXES = ("functions.", "tools.", "default_api:")


def toolbox(*names: str, prefixes: tuple[str, ...] = PREFIXES) -> Toolbox:
    made = Toolbox(prefixes)
    for name in names:
        made.add(
            Prepared(Tool(name=name, parameters={"type": "object"}, fn=print), is_async=False, rules=(), constraints=())
        )
    return made


def everything(name: str) -> bool:
    return True


def resolved(box: Toolbox, name: str, allowed: Any = everything) -> str | None:
    found = box.resolve(name, allowed)
    return None if isinstance(found, Failure) else found.tool.name


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("create_order", "create_order"),
        ("functions.create_order", "create_order"),
        ("Create_Order", "create_order"),
        ("createOrder", "create_order"),
        ("create-order", "create_order"),
        ("shop__create_order", "create_order"),
        ("mcp__shop__create_order", "create_order"),
        ("a__" * 80 + "create_order", "create_order"),
        ("default_api:create_order", "create_order"),
        ("functions.createOrder", "create_order"),
        # never guessed
        ("create_orders", None),
        ("crete_order", None),
        ("order", None),
        ("shop.create_order", None),
        ("functions.", None),
        ("functions.functions.create_order", None),
        ("create_order()", None),
        ("!create_order", None),
        ("取消_create_order", None),
        ("create_order\n", None),
        ("create_ord\u0435r", None),
        ("create_order\u200b", None),
        ("\u212areate_order", None),
        ("x" * 300, None),
    ],
)
def test_spellings(name: str, found: str | None) -> None:
    assert resolved(toolbox("create_order", "query_order"), name) == found


def test_a_name_that_two_tools_fit_is_refused() -> None:
    box = toolbox("query", "functions_query")
    assert resolved(box, "functions_query") == "functions_query"
    assert resolved(box, "functions.query") is None
    assert resolved(box, "tools.query") == "query"


def test_characters_that_are_no_separators_do_not_vanish() -> None:
    box = toolbox("_", "order")
    assert resolved(box, "删除") is None
    assert resolved(box, "删除order") is None
    assert resolved(box, "not+order") is None


def test_a_refusal_names_the_allowed_tools_and_close_ones() -> None:
    box = toolbox("create_order", "query_order", "drop_table")
    failure = box.resolve("creat_order", lambda name: name != "drop_table")
    assert isinstance(failure, Failure)
    assert "Did you mean 'create_order'" in failure.message
    assert "Available: create_order, query_order." in failure.message
    assert "drop_table" not in failure.message


def test_a_refusal_stays_short_with_many_tools_and_long_names() -> None:
    box = toolbox(*(f"tool_{n:04}" for n in range(500)))
    failure = box.resolve("y" * 10_000, everything)
    assert isinstance(failure, Failure)
    assert "480 more" in failure.message
    assert len(failure.message) < 600


def test_without_tools_a_refusal_says_none() -> None:
    failure = toolbox().resolve("x", everything)
    assert isinstance(failure, Failure)
    assert failure.message.endswith("Available: none.")


@pytest.mark.parametrize("name", ["create_order", "createOrder", "create.order", "CREATE_ORDER"])
def test_names_that_collapse_to_one_are_refused(name: str) -> None:
    box = toolbox("create_order")
    with pytest.raises(DuplicateToolError, match="name="):
        box.add(Prepared(Tool(name=name, parameters={}, fn=print), is_async=False, rules=(), constraints=()))
    assert len(box) == 1
    assert [one.tool.name for one in box] == ["create_order"]


@given(st.text(max_size=40))
def test_no_text_finds_a_tool_that_it_does_not_spell(text: str) -> None:
    box = toolbox("create_order", "query_order", "q")
    found = resolved(box, text)
    if found is not None:
        assert text.isascii()
        assert collapse(text).endswith(collapse(found))
