"""What the tests of rules share: a call as a rule sees it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from fcguard.model.context import TaskContext
from fcguard.model.failure import Effect
from fcguard.rules.trial import TrialCall, ask_rule


@pytest.fixture(scope="session")
def make_call() -> Callable[..., TrialCall]:
    """Build a call: `make_call({"url": ...}, name=..., effect=..., context=..., purpose=..., schema=...)`."""

    def make(
        arguments: Mapping[str, Any] | None = None,
        *,
        name: str = "tool",
        effect: Effect = "read",
        context: TaskContext | None = None,
        purpose: str = "primary",
        schema: Mapping[str, Any] | None = None,
    ) -> TrialCall:
        call: TrialCall = ask_rule(
            lambda call: call,
            arguments,
            tool=name,
            effect=effect,
            context=context,
            purpose=purpose,
            parameters=schema,
        )
        return call

    return make
