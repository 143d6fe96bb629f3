"""Tool definitions as each provider wants them."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Literal, Protocol

from fcguard.errors import ConfigurationError
from fcguard.model.failure import Effect

__all__ = [
    "SchemaFormat",
    "ToolLike",
    "definitions",
    "name_problem",
    "to_anthropic",
    "to_mcp",
    "to_openai",
    "to_openai_responses",
]

SchemaFormat = Literal["openai", "openai_responses", "anthropic", "mcp"]


class ToolLike(Protocol):
    """What a definition is made from."""

    @property
    def name(self) -> str:
        """Name under which the model calls it."""
        ...

    @property
    def title(self) -> str | None:
        """Name for people."""
        ...

    @property
    def description(self) -> str | None:
        """What the model is told about it."""
        ...

    @property
    def model_schema(self) -> Mapping[str, Any]:
        """JSON Schema of the parameters that the model may send."""
        ...

    @property
    def effect(self) -> Effect:
        """What it does to the world."""
        ...


# Limits as the APIs state them in their own error messages; MCP: specification 2025-11-25, "Tool Names".
_NAMES: Final[Mapping[SchemaFormat, tuple[re.Pattern[str], str]]] = {
    "openai": (re.compile(r"[a-zA-Z0-9_-]{1,64}"), "1 to 64 letters, digits, '_' or '-'"),
    "openai_responses": (re.compile(r"[a-zA-Z0-9_-]{1,64}"), "1 to 64 letters, digits, '_' or '-'"),
    "anthropic": (re.compile(r"[a-zA-Z0-9_-]{1,128}"), "1 to 128 letters, digits, '_' or '-'"),
    "mcp": (re.compile(r"[a-zA-Z0-9_.-]{1,128}"), "1 to 128 letters, digits, '_', '-' or '.'"),
}

_HINTS: Final[Mapping[Effect, tuple[bool, bool, bool]]] = {
    "read": (True, False, True),
    "idempotent_write": (False, False, True),
    "write": (False, False, False),
    "destructive": (False, True, False),
}
"""Effect -> MCP's readOnlyHint, destructiveHint, idempotentHint. Total over `Effect`, which a test proves."""


def name_problem(name: str, format: SchemaFormat) -> str | None:
    """Answer why a provider would refuse a tool's name, in one sentence; None if it takes it.

    Args:
        name: the tool's name.
        format: the provider's format.
    """
    pattern, allowed = _NAMES[format]
    if pattern.fullmatch(name):
        return None
    return (
        f"tool name {name!r} is not accepted by {format!r} (allowed: {allowed}); register the tool under another name"
    )


def _check(tool: ToolLike, format: SchemaFormat) -> None:
    problem = name_problem(tool.name, format)
    if problem is not None:
        raise ConfigurationError(problem)


def _parameters(tool: ToolLike) -> dict[str, Any]:
    """Copy the schema as it is; only the type that arguments have anyway is added, because providers insist on it."""
    schema = copy.deepcopy(dict(tool.model_schema))
    return schema if "type" in schema else {"type": "object", **schema}


def _described(tool: ToolLike) -> dict[str, Any]:
    return {"name": tool.name, **({"description": tool.description} if tool.description else {})}


def to_openai(tool: ToolLike) -> dict[str, Any]:
    """Define a tool for OpenAI Chat Completions and compatible servers.

    Args:
        tool: the tool; its `model_schema` is sent as it is, without `strict`, which not every schema allows.

    Returns:
        A new dict, yours to change.

    Raises:
        ConfigurationError: the provider does not accept the name.
    """
    _check(tool, "openai")
    return {"type": "function", "function": {**_described(tool), "parameters": _parameters(tool)}}


def to_openai_responses(tool: ToolLike) -> dict[str, Any]:
    """Define a tool for OpenAI Responses.

    Args:
        tool: the tool. `strict` is switched off in so many words: this API switches it on when nothing is said, and
            then refuses schemas with optional parameters.

    Returns:
        A new dict, yours to change.

    Raises:
        ConfigurationError: the provider does not accept the name.
    """
    _check(tool, "openai_responses")
    return {"type": "function", **_described(tool), "parameters": _parameters(tool), "strict": False}


def to_anthropic(tool: ToolLike) -> dict[str, Any]:
    """Define a tool for Anthropic Messages.

    Args:
        tool: the tool.

    Returns:
        A new dict, yours to change.

    Raises:
        ConfigurationError: the provider does not accept the name.
    """
    _check(tool, "anthropic")
    return {**_described(tool), "input_schema": _parameters(tool)}


def to_mcp(tool: ToolLike) -> dict[str, Any]:
    """Define a tool as an entry of an MCP `tools/list` result, in wire names.

    Args:
        tool: the tool; its effect becomes the three hints. They are hints: a client must not rely on them.

    Returns:
        A new dict, yours to change.

    Raises:
        ConfigurationError: the specification does not allow the name.
    """
    _check(tool, "mcp")
    read_only, destructive, idempotent = _HINTS[tool.effect]
    title = {"title": tool.title} if tool.title else {}
    hints = {"readOnlyHint": read_only, "destructiveHint": destructive, "idempotentHint": idempotent}
    return {**_described(tool), **title, "inputSchema": _parameters(tool), "annotations": {**title, **hints}}


_WRITERS: Final[Mapping[SchemaFormat, Callable[[ToolLike], dict[str, Any]]]] = {
    "openai": to_openai,
    "openai_responses": to_openai_responses,
    "anthropic": to_anthropic,
    "mcp": to_mcp,
}


def definitions(tools: Iterable[ToolLike], format: SchemaFormat) -> list[dict[str, Any]]:
    """Define several tools for one provider.

    Args:
        tools: the tools, in the order in which they are offered.
        format: `openai`, `openai_responses`, `anthropic` or `mcp`.

    Raises:
        ConfigurationError: the format is unknown, or names are not accepted; all of those names are listed.
    """
    writer = _WRITERS.get(format)
    if writer is None:
        raise ConfigurationError(f"format {format!r} is unknown; use one of {', '.join(map(repr, _WRITERS))}")
    offered = list(tools)
    problems = [problem for tool in offered if (problem := name_problem(tool.name, format)) is not None]
    if problems:
        raise ConfigurationError("; ".join(problems))
    return [writer(tool) for tool in offered]
