"""What the tests of rules share: a call as a rule sees it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from fcguard.model.context import TaskContext
from fcguard.model.failure import Effect
from fcguard.model.frozen import freeze


@dataclass(frozen=True)
class FakeTool:
    """A tool, as far as rules look at it."""

    name: str = "tool"
    effect: Effect = "read"
    version: str = "1"
    parameters: Mapping[str, Any] = field(default_factory=dict)
    tags: frozenset[str] = frozenset()


@dataclass(frozen=True)
class FakeCall:
    """A call, as far as rules look at it."""

    arguments: Mapping[str, Any]
    tool: FakeTool = FakeTool()
    context: TaskContext = TaskContext()
    request_id: str = "fc-20260130-00001"
    purpose: str = "primary"


MakeCall = Callable[..., FakeCall]


@pytest.fixture(scope="session")
def make_call() -> MakeCall:
    """Build a call: `make_call({"url": ...}, effect="write", context=..., purpose=..., schema=...)`."""

    def make(
        arguments: Mapping[str, Any] | None = None,
        *,
        name: str = "tool",
        effect: Effect = "read",
        context: TaskContext | None = None,
        purpose: str = "primary",
        schema: Mapping[str, Any] | None = None,
    ) -> FakeCall:
        tool = FakeTool(name=name, effect=effect, parameters=schema or {})
        return FakeCall(freeze(dict(arguments or {})), tool, context or TaskContext(), purpose=purpose)

    return make
