"""Read OpenAI Chat Completions and answer them; `fcguard.adapters.openai` is the public door."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from fcguard.adapters import wire
from fcguard.adapters.base import ResultLike, Turn, paired, text_for_model
from fcguard.model.intent import Intent

__all__ = ["read_chat", "write_chat"]


class _Call(NamedTuple):
    """One entry of `tool_calls`; `function` holds name and arguments, None for a custom tool."""

    entry: Any
    function: Any


def read_chat(response: Any, *, max_tokens: int | None = None) -> Turn:
    """Read a Chat Completion, or an assistant message alone; see `fcguard.adapters.openai.read`."""
    unread = wire.error_of(response)
    choice, message = _first_choice(response, unread)
    entries = _read_calls(message, unread)
    legacy = _read_legacy(message, entries, unread)
    text = _read_text(message, unread)
    reason = wire.text(wire.field(choice, "finish_reason"))
    usage = wire.usage_of(wire.field(response, "usage"), ("prompt_tokens",), "completion_tokens", max_tokens)
    functions = [call.function for call in entries if call.function is not None]
    given = [wire.field(call.entry, "id") for call in entries if call.function is not None]
    ids = wire.bind_ids(given, wire.seed_of(response, message))
    if legacy is not None:
        functions, given = [legacy], [None]
    shared = Intent(finish_reason=wire.complete_reason(reason), usage=usage, text=text)
    return Turn(
        format="openai.chat",
        intents=tuple(
            _intent(shared, function, position, wire.given_id(given[position]))
            for position, function in enumerate(functions)
        ),
        text=text,
        finish_reason=reason,
        usage=usage,
        unread=tuple(unread),
        call_ids=ids if legacy is None else (None,),
        assistant=_echo(message, entries, ids, legacy),
        id=wire.identity(wire.field(response, "id")),
    )


def write_chat(turn: Turn, results: Iterable[ResultLike], *, max_chars: int | None = None) -> list[dict[str, Any]]:
    """Write one `tool` message per call, in order; a `function` message for a legacy call.

    Args:
        turn: what `read_chat` answered.
        results: one result per intent, in order.
        max_chars: longest text of one result, in characters; None: the result's own default.

    Raises:
        UsageError: the turn has another format, or there is not exactly one result per call.
    """
    messages: list[dict[str, Any]] = []
    for intent, call_id, result in paired(turn, results, "openai.chat"):
        content = text_for_model(result, max_chars)
        if call_id is None:
            messages.append({"role": "function", "name": intent.tool or "unknown", "content": content})
        else:
            messages.append({"role": "tool", "tool_call_id": call_id, "content": content})
    return messages


def _first_choice(response: Any, unread: list[str]) -> tuple[Any, Any]:
    choices = wire.sequence(wire.field(response, "choices"))
    unread.extend(f"choices[{position}]: only the first choice is read" for position in range(1, len(choices)))
    if not choices:
        if any(wire.field(response, name) is not None for name in _MESSAGE_FIELDS):
            return None, response
        unread.append(f"response: no choices in {wire.label(response)}")
        return None, None
    choice = choices[0]
    message = wire.field(choice, "message")
    if message is None:
        message = wire.field(choice, "delta")
    if not wire.is_object(message):
        unread.append(f"choices[0].message: {wire.label(message)}")
    return choice, message


def _read_calls(message: Any, unread: list[str]) -> list[_Call]:
    calls: list[_Call] = []
    raw = wire.field(message, "tool_calls")
    entries = wire.sequence(raw)
    if raw and not entries:
        unread.append(f"tool_calls: {wire.label(raw)}")
    for position, entry in enumerate(entries):
        if not wire.is_object(entry):
            unread.append(f"tool_calls[{position}]: {wire.label(entry)}")
            continue
        kind, function = wire.field(entry, "type"), wire.field(entry, "function")
        if kind not in (None, "", "function") and function is None:
            unread.append(f"tool_calls[{position}]: {wire.label(kind)} {wire.label(_custom_name(entry, kind))}")
            calls.append(_Call(entry, None))
        else:  # some servers put name and arguments into the call itself
            calls.append(_Call(entry, entry if function is None else function))
    return calls


def _custom_name(entry: Any, kind: Any) -> Any:
    return wire.field(wire.field(entry, kind), "name") if isinstance(kind, str) else None


def _read_legacy(message: Any, calls: Sequence[_Call], unread: list[str]) -> Any:
    """Answer the `function_call` of the old API; where `tool_calls` are there too, it only repeats one of them."""
    legacy = wire.field(message, "function_call")
    if legacy is None or (wire.is_object(legacy) and not calls):
        return legacy
    unread.append(f"function_call: {wire.label(wire.field(legacy, 'name') or legacy)}")
    return None


def _read_text(message: Any, unread: list[str]) -> str | None:
    refusal = wire.field(message, "refusal")
    if refusal:
        unread.append(f"refusal: {wire.label(refusal)}")
    content = wire.field(message, "content")
    if content is None or isinstance(content, str):
        return content or None
    parts: list[str] = []
    for position, part in enumerate(wire.sequence(content)):
        text = part if isinstance(part, str) else wire.field(part, "text")
        if isinstance(text, str):
            parts.append(text)
        else:
            unread.append(f"content[{position}]: {wire.label(wire.field(part, 'type'))}")
    return "".join(parts) or None


def _intent(shared: Intent, function: Any, position: int, call_id: str | None) -> Intent:
    return replace(
        shared,
        tool=wire.text(wire.field(function, "name")),
        arguments=wire.arguments_of(wire.field(function, "arguments")),
        call_id=call_id,
        position=position,
    )


_MESSAGE_FIELDS = ("tool_calls", "function_call", "content", "refusal")
_REWRITTEN = ("role", "content", "tool_calls", "function_call", "audio")
_RESPONSE_ONLY = ("parsed", "annotations")


def _echo(message: Any, calls: Sequence[_Call], ids: Sequence[str], legacy: Any) -> tuple[dict[str, Any], ...]:
    """Copy the assistant's message for the next request, so that a provider takes it back."""
    if not wire.is_object(message):
        return ()
    copied = wire.plain_object(message)
    content, audio = copied.get("content"), copied.get("audio")
    echo: dict[str, Any] = {"role": "assistant", "content": content if isinstance(content, (str, list)) else None}
    echo.update(wire.present(copied, *_REWRITTEN, *_RESPONSE_ONLY))
    if isinstance(audio, Mapping) and "id" in audio:
        echo["audio"] = {"id": audio["id"]}
    if calls:
        remaining = iter(ids)
        echo["tool_calls"] = [_echo_call(call, remaining) for call in calls]
    elif legacy is not None:
        echo["function_call"] = _echo_function(legacy)
    is_empty = not any(echo.get(name) for name in ("content", "refusal", "audio", "tool_calls", "function_call"))
    return () if is_empty else (echo,)


def _echo_call(call: _Call, ids: Iterator[str]) -> dict[str, Any]:
    copied = wire.plain_object(call.entry)
    if call.function is None:
        return wire.present(copied, "index")
    extra = wire.present(copied, "index", "id", "type", "function", "name", "arguments")
    return {"id": next(ids), "type": "function", "function": _echo_function(call.function), **extra}


def _echo_function(function: Any) -> dict[str, Any]:
    name = wire.text(wire.field(function, "name")) or "unknown"
    return {"name": name, "arguments": wire.argument_text(wire.field(function, "arguments"))}
