"""Read OpenAI Responses and write the items that answer them; `fcguard.adapters.openai` is the public door."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from fcguard.adapters import wire
from fcguard.adapters.base import ResultLike, Turn, paired, text_for_model
from fcguard.model.intent import Intent

__all__ = ["is_response", "read_response", "write_response"]

_SILENT = frozenset({"reasoning", "compaction"})
"""Items that ask for nothing and do nothing."""


def is_response(value: Any) -> bool:
    """Answer whether a value looks like a Responses object."""
    return wire.field(value, "object") == "response" or isinstance(wire.field(value, "output"), (list, tuple))


def read_response(response: Any, *, max_tokens: int | None = None) -> Turn:
    """Read a Responses object, a dict or the SDK's own.

    Args:
        response: the response.
        max_tokens: the limit that was asked for, in tokens; default: the one that the response states.

    Returns:
        The turn. A response whose status is not `completed` marks its calls as incomplete, so that they are refused.
    """
    unread = wire.error_of(response)
    reason = _finish(response, unread)
    limit = wire.count(wire.field(response, "max_output_tokens")) if max_tokens is None else max_tokens
    usage = wire.usage_of(wire.field(response, "usage"), ("input_tokens",), "output_tokens", limit)
    said: list[str] = []
    calls: list[tuple[int, Any]] = []
    echo: list[dict[str, Any]] = []
    for position, item in enumerate(wire.sequence(wire.field(response, "output"))):
        where = f"output[{position}]"
        if not wire.is_object(item):
            unread.append(f"{where}: {wire.label(item)}")
            continue
        kind = _kind(item)
        if kind == "function_call":
            calls.append((len(echo), item))
        elif kind == "message":
            _read_message(item, where, said, unread)
        elif kind not in _SILENT:
            unread.append(f"{where}: {wire.label(kind)} {wire.label(wire.field(item, 'name'))}")
        echo.append(_echo(item))
    text = "".join(said) or None
    seed = wire.seed_of(response, echo)
    ids = wire.bind_ids([wire.field(item, "call_id") for _, item in calls], seed)
    for (place, item), call_id in zip(calls, ids, strict=True):
        echo[place] = _echo_call(echo[place], item, call_id)
    shared = Intent(finish_reason=reason, usage=usage, text=text)
    return Turn(
        format="openai.responses",
        intents=tuple(_intent(shared, item, position) for position, (_, item) in enumerate(calls)),
        text=text,
        finish_reason=reason,
        usage=usage,
        unread=tuple(unread),
        call_ids=ids,
        assistant=tuple(echo),
        id=wire.identity(wire.field(response, "id")),
    )


def write_response(turn: Turn, results: Iterable[ResultLike], *, max_chars: int | None = None) -> list[dict[str, Any]]:
    """Write one `function_call_output` item per call, in order.

    Args:
        turn: what `read_response` answered.
        results: one result per intent, in order.
        max_chars: longest text of one result, in characters; None: the result's own default.

    Raises:
        UsageError: the turn has another format, or there is not exactly one result per call.
    """
    return [
        {"type": "function_call_output", "call_id": call_id, "output": text_for_model(result, max_chars)}
        for _, call_id, result in paired(turn, results, "openai.responses")
    ]


def _finish(response: Any, unread: list[str]) -> str | None:
    """Answer the finish reason: `completed`, `max_output_tokens`, or `incomplete` for every other way to end."""
    status = wire.text(wire.field(response, "status"))
    why = wire.text(wire.field(wire.field(response, "incomplete_details"), "reason"))
    if status in (None, "completed") and why is None:
        return status
    if why == "max_output_tokens":
        return why
    # Failed, cancelled, filtered or still running: its calls may be cut anywhere, as by a length limit.
    unread.append(f"status: {wire.label(status)} {why or ''}".rstrip())
    return "incomplete"


def _kind(item: Any) -> str | None:
    kind = wire.text(wire.field(item, "type"))
    if kind is None and wire.field(item, "name") is not None and wire.field(item, "arguments") is not None:
        return "function_call"
    return kind


def _read_message(item: Any, where: str, said: list[str], unread: list[str]) -> None:
    content = wire.field(item, "content")
    if isinstance(content, str):
        said.append(content)
        return
    for position, part in enumerate(wire.sequence(content)):
        kind = wire.field(part, "type")
        if kind == "output_text" and (text := wire.text(wire.field(part, "text"))) is not None:
            said.append(text)
        elif kind == "refusal":
            unread.append(f"{where}.content[{position}]: refusal: {wire.label(wire.field(part, 'refusal'))}")
        elif kind != "output_text":
            unread.append(f"{where}.content[{position}]: {wire.label(kind)}")


def _intent(shared: Intent, item: Any, position: int) -> Intent:
    is_cut = wire.field(item, "status") in ("incomplete", "in_progress")
    reason = shared.finish_reason
    return replace(
        shared,
        tool=wire.text(wire.field(item, "name")),
        arguments=wire.arguments_of(wire.field(item, "arguments")),
        call_id=wire.given_id(wire.field(item, "call_id")),
        finish_reason="incomplete" if is_cut and reason in (None, "completed") else reason,
        position=position,
    )


def _echo(item: Any) -> dict[str, Any]:
    """Copy an item for the next request: without nulls and without what only the SDK's own parsing added."""
    copied = wire.present(wire.plain_object(item), "parsed_arguments")
    if isinstance(copied.get("content"), list):
        copied["content"] = [
            wire.present(part, "parsed") if isinstance(part, Mapping) else part for part in copied["content"]
        ]
    return copied


def _echo_call(copied: Mapping[str, Any], item: Any, call_id: str) -> dict[str, Any]:
    return {
        **copied,
        "type": "function_call",
        "call_id": call_id,
        "name": wire.text(wire.field(item, "name")) or "unknown",
        "arguments": wire.argument_text(wire.field(item, "arguments")),
    }
