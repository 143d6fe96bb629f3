"""A recovery acts with the tools that the guard has, so what those name must be registered before it begins."""

from __future__ import annotations

from typing import Any

import pytest

from fcguard import ConfigurationError, ConfirmBy, Fallback, Tool
from tests.conftest import ANY_OBJECT
from tests.recovery_after_crash.crashed_world import World

MISSPELT: list[dict[str, Any]] = [
    {"confirm": ConfirmBy("qery_order", applied=bool)},
    {"fallback": (Fallback("qery_order"),)},
]


def query() -> Tool:
    return Tool(name="query_order", parameters=ANY_OBJECT, fn=lambda **_: [], effect="read")


@pytest.mark.parametrize("options", MISSPELT)
def test_a_recovery_that_cannot_confirm_says_so_and_leaves_everything_as_it_was(
    world: World, options: dict[str, Any]
) -> None:
    request_id = world.crash(applied=True)
    before = world.kinds(request_id)
    world.others = [query()]
    with pytest.raises(ConfigurationError, match="qery_order.* is not registered; did you mean 'query_order'"):
        world.recover(world.guard(**options))
    with pytest.raises(ConfigurationError, match="qery_order.* is not registered"):
        world.guard(**options).reconciler()
    with pytest.raises(ConfigurationError, match="qery_order.* is not registered"):
        world.advance(world.guard(**options), request_id)
    assert world.kinds(request_id) == before


@pytest.mark.parametrize("options", MISSPELT)
def test_a_tool_that_came_later_is_looked_at_too(world: World, options: dict[str, Any]) -> None:
    guard = world.guard()
    assert world.recover(guard).calls == ()
    guard.register(Tool(name="later", parameters=ANY_OBJECT, fn=lambda **_: None, **options))
    with pytest.raises(ConfigurationError, match="tool 'later': its .* 'qery_order' is not registered"):
        world.recover(guard)


def test_another_tool_s_mistake_does_not_keep_a_call_from_being_advanced(world: World) -> None:
    request_id = world.crash(applied=True)
    guard = world.guard()
    assert world.advance(guard, request_id).success
    guard.register(Tool(name="later", parameters=ANY_OBJECT, fn=lambda **_: None, **MISSPELT[0]))
    assert world.advance(guard, request_id).success
