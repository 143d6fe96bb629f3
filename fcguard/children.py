"""Calls that a call causes: confirmations and fallbacks, through the same pipeline."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from fcguard.config import Config, Toolbox
from fcguard.model.call import Call, Purpose
from fcguard.model.context import TaskContext
from fcguard.model.intent import Intent
from fcguard.pipeline import govern

__all__ = ["Children", "NewCall"]

NewCall = Callable[[Intent, Purpose, Call | None, TaskContext | None], Call]


class Children:
    """Runs the child calls of a guard.

    Args:
        tools: the guard's tools.
        new_call: makes a call with its id and times.
        config: answers the guard's collaborators (made after this).
    """

    __slots__ = ("_config", "_new_call", "_tools")

    def __init__(self, tools: Toolbox, new_call: NewCall, config: Callable[[], Config]) -> None:
        self._tools, self._new_call, self._config = tools, new_call, config

    async def __call__(self, parent: Call, name: str, arguments: Mapping[str, Any], purpose: Purpose, io: Any) -> Call:
        """Run a tool for a call; answers the finished child call."""
        call = self._new_call(Intent(name, arguments), purpose, parent, parent.context)
        call.task, call.step, call.turn = parent.task, parent.step, parent.turn or parent.request_id
        prepared = self._tools.get(name)
        if prepared is not None:
            call.prepared, call.tool, call.redactor = prepared, prepared.tool, prepared.redactor
            if prepared.takes_receiver:
                call.receiver = parent.receiver
        return await govern(call, self._config(), io)

    def shared_arguments(self, name: str, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Answer those of a write's arguments that a read tool also takes."""
        prepared = self._tools.get(name)
        known = prepared.tool.parameters.get("properties", {}) if prepared is not None else {}
        return {key: value for key, value in arguments.items() if key in known}
