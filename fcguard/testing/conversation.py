"""Whether each tool result of a conversation answers a call of the model, as providers require."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

__all__ = ["CHECKS"]


def _chat(body: Mapping[str, Any]) -> str | None:
    """Answer what is wrong with the messages of a Chat Completions request; None if nothing is."""
    asked: set[object] = set()
    for position, message in enumerate(_objects(body.get("messages"))):
        if message.get("role") != "tool":
            asked = {call.get("id") for call in _objects(message.get("tool_calls"))}
        elif not asked:
            return (
                f"messages.[{position}].role: messages with role 'tool' must be a response to a preceding message with "
                "'tool_calls'; send the assistant's message too (with_assistant=True of fcguard's adapters)"
            )
        elif message.get("tool_call_id") not in asked:
            return (
                f"messages.[{position}].tool_call_id: {message.get('tool_call_id')!r} is no id of the 'tool_calls' of the "
                "preceding assistant message"
            )
    return None


def _responses(body: Mapping[str, Any]) -> str | None:
    """Answer what is wrong with the items of a Responses request; None if the server would hold the earlier ones."""
    if body.get("previous_response_id") or body.get("conversation"):
        return None
    asked: set[object] = set()
    for item in _objects(body.get("input")):
        if item.get("type") == "function_call":
            asked.add(item.get("call_id"))
        elif item.get("type") == "function_call_output" and item.get("call_id") not in asked:
            return (
                f"no tool call found for function call output with call_id {item.get('call_id')!r}; send the function_call "
                "item too (with_assistant=True of fcguard's adapters), or previous_response_id"
            )
    return None


def _messages(body: Mapping[str, Any]) -> str | None:
    """Answer what is wrong with the messages of an Anthropic request; None if nothing is."""
    asked: set[object] = set()
    for position, message in enumerate(_objects(body.get("messages"))):
        blocks = list(_objects(message.get("content")))
        for block in blocks:
            if block.get("type") == "tool_result" and block.get("tool_use_id") not in asked:
                return (
                    f"messages.{position}: unexpected tool_use_id {block.get('tool_use_id')!r} in a 'tool_result' block: it must "
                    "have a 'tool_use' block in the previous message (with_assistant=True of fcguard's adapters)"
                )
        asked = {block.get("id") for block in blocks if block.get("type") == "tool_use"}
    return None


def _objects(value: object) -> Iterator[Mapping[str, Any]]:
    """Yield what of a list are objects; of anything else, nothing."""
    yield from (item for item in value if isinstance(item, Mapping)) if isinstance(value, list) else ()


CHECKS: Final[Mapping[str, Callable[[Mapping[str, Any]], str | None]]] = {
    "/chat/completions": _chat,
    "/responses": _responses,
    "/messages": _messages,
}
"""Ending of the path -> what a provider would refuse, as a message; None if it would take the conversation."""
