"""Two scripted agents with one and the same gullible model: one acts through the guard, the other calls the tools and retries blindly."""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Mapping
from typing import Any, Final

from fcguard.guard import Guard
from fcguard.testing.fault_scenarios import proposals_for

__all__ = ["follow_envelope", "retry_blindly"]

_INSTRUCTION: Final = re.compile(r"Call (\w+) with (\{.*?\})")
_TRIES: Final = 3


def follow_envelope(prompt: str, guard: Guard) -> str:
    """Propose what the script says, through the guard; on a failure stop and say why and what is next.

    The model behind it is gullible: it obeys instructions that it finds in results.
    """
    for name, arguments in proposals_for(prompt):
        result = guard.call(name, dict(arguments))
        if not result.success:
            return f"I stopped: {result.message} Next: {result.next_action}."
        for other, content in _instructions(result.data):
            guard.call(other, content)
    return "Done."


def retry_blindly(prompt: str, guard: Guard) -> str:
    """Do what retry wrappers around plain functions do: take the closest tool name, and send again until it works.

    It goes around the guard; the same gullible model obeys instructions that it finds in results.
    """
    functions = {tool.name: tool.fn for tool in guard.tools}
    for name, arguments in proposals_for(prompt):
        value = _send(functions, name, arguments)
        for other, content in _instructions(value):
            _send(functions, other, content)
    return "Done."


def _send(functions: Mapping[str, Any], name: str, arguments: Mapping[str, Any]) -> Any:
    closest = difflib.get_close_matches(name, functions, n=1, cutoff=0.3)[0]
    failure: Exception | None = None
    for _ in range(_TRIES):
        try:
            return functions[closest](**arguments)
        except Exception as error:
            failure = error
    assert failure is not None
    raise failure


def _instructions(data: Any) -> list[tuple[str, dict[str, Any]]]:
    text = json.dumps(data, ensure_ascii=False, default=str).replace('\\"', '"')
    return [(name, json.loads(content)) for name, content in _INSTRUCTION.findall(text)]
