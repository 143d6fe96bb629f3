"""What a model asks for: to call a tool or not, which one, with which arguments. One call, never a plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

__all__ = ["Intent", "Usage"]


@dataclass(frozen=True, slots=True)
class Usage:
    """Token counts of the response an intent came from; None where the provider did not say."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    max_tokens: int | None = None


@dataclass
class Intent:
    """One proposed tool call. A value: nobody changes one after it was made (one is built for every call, so it is cheap).

    Attributes:
        tool: name as the model wrote it; None if the model calls nothing.
        arguments: exact raw text, or an object where the wire had one; None: not sent.
        call: whether a tool is to be called at all.
        call_id: the model's id of the call; kept as metadata, never trusted to be unique.
        finish_reason: the provider's own word (`stop`, `tool_calls`, `length`, `max_tokens`, ...).
        usage: token counts.
        text: what the model said beside the call.
        position: number of the call within its response, from 0.
        server: name of the server the tool lives on, where the protocol has one.
    """

    tool: str | None = None
    arguments: str | bytes | Mapping[str, Any] | None = None
    call: bool = True
    call_id: str | None = None
    finish_reason: str | None = None
    usage: Usage | None = None
    text: str | None = None
    position: int = 0
    server: str | None = None

    @classmethod
    def of(cls, tool: str, arguments: Any) -> Intent:
        """Build a proposal that comes from code: a name and arguments, the rest at its defaults, at a third of the cost."""
        intent = object.__new__(cls)
        intent.tool, intent.arguments = tool, arguments
        return intent

    @property
    def tool_text(self) -> str:
        """The name for messages and records: at most 200 characters; what is no text is named by its type."""
        tool: Any = self.tool
        if isinstance(tool, str):
            return tool[:200]
        return "" if tool is None else f"<{type(tool).__name__}>"

    @property
    def is_truncated(self) -> bool:
        """Whether the response was cut off by length, so that its arguments may be incomplete."""
        if self.finish_reason in _CUT_OFF:
            return True
        usage = self.usage
        if usage is None or usage.completion_tokens is None or usage.max_tokens is None:
            return False
        return usage.completion_tokens >= usage.max_tokens > 0


_CUT_OFF = frozenset(
    {"length", "max_tokens", "max_output_tokens", "MAX_TOKENS", "incomplete", "model_context_window_exceeded"}
)
