"""Anthropic Messages: read a message, answer its tool calls, ask a model for a call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from fcguard.adapters import wire
from fcguard.adapters.base import AsyncGuardLike, GuardLike, ResultLike, Turn, never_raising, paired, text_for_model
from fcguard.adapters.source import ModelSource, answered, own_options
from fcguard.errors import MissingExtraError
from fcguard.model.intent import Intent
from fcguard.model.schemas import ToolLike, definitions

__all__ = ["AnthropicSource", "aanswer", "answer", "read", "write"]

_SILENT: Final = frozenset({"thinking", "redacted_thinking"})
"""Blocks that ask for nothing and do nothing."""

_PROMPT_TOKENS: Final = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
"""Anthropic counts cached tokens beside `input_tokens`; together they are the prompt."""


@never_raising("anthropic")
def read(message: Any, *, max_tokens: int | None = None) -> Turn:
    """Read a message.

    Args:
        message: the SDK's `Message`, or the same as a dict. Anything else is read as far as it goes; what cannot be
            read is named in `Turn.unread`, and so are tools that Anthropic runs itself (`server_tool_use`).
        max_tokens: the limit that was asked for, in tokens. A message that used all of it counts as cut off even if its
            `stop_reason` says otherwise. Default: only the server's word counts.

    Returns:
        The turn; the `input` of a call stays the object that it is on the wire.
    """
    unread = wire.error_of(message)
    blocks, texts = _read_blocks(message, unread)
    text = "".join(texts) or None
    reason = wire.text(wire.field(message, "stop_reason"))
    usage = wire.usage_of(wire.field(message, "usage"), _PROMPT_TOKENS, "output_tokens", max_tokens)
    calls = [block for block in blocks if wire.field(block, "type") == "tool_use"]
    ids = wire.bind_ids([wire.field(call, "id") for call in calls], wire.seed_of(message, blocks))
    intents = tuple(
        Intent(
            tool=wire.text(wire.field(call, "name")),
            arguments=wire.arguments_of(wire.field(call, "input")),
            call_id=wire.given_id(wire.field(call, "id")),
            finish_reason=wire.complete_reason(reason),
            usage=usage,
            text=text,
            position=position,
        )
        for position, call in enumerate(calls)
    )
    return Turn(
        format="anthropic",
        intents=intents,
        text=text,
        finish_reason=reason,
        usage=usage,
        unread=tuple(unread),
        call_ids=ids,
        assistant=_echo(blocks, ids),
        id=wire.identity(wire.field(message, "id")),
    )


def write(turn: Turn, results: Iterable[ResultLike], *, max_chars: int | None = None) -> list[dict[str, Any]]:
    """Write the one user message that answers a turn: a `tool_result` block per call, in order.

    Args:
        turn: what `read` answered.
        results: one result per intent, in order.
        max_chars: longest text of one result, in characters; None: the result's own default.

    Returns:
        A list with one message; an empty list if no tool was called. The blocks carry `turn.call_ids`; where those
        differ from the model's own, put `turn.assistant_messages()` before the message.

    Raises:
        UsageError: the turn is not Anthropic's, or there is not exactly one result per call.
    """
    blocks = [
        {
            "type": "tool_result",
            "tool_use_id": call_id,
            "content": text_for_model(result, max_chars),
            "is_error": not result.success,
        }
        for _, call_id, result in paired(turn, results, "anthropic")
    ]
    return [{"role": "user", "content": blocks}] if blocks else []


def answer(
    guard: GuardLike,
    message: Any,
    *,
    max_tokens: int | None = None,
    max_chars: int | None = None,
    with_assistant: bool = False,
    **options: Any,
) -> list[dict[str, Any]]:
    """Run every tool call of a message through the guard and answer the messages that go back to the model.

    Args:
        guard: a `Guard`.
        message: see `read`.
        max_tokens: see `read`.
        max_chars: see `write`.
        with_assistant: put the assistant's own message first, with repaired ids, so that the answer is all that the
            conversation needs (`messages += answer(...)`). Default: only the results.
        **options: handed to `guard.run_turn`.

    Returns:
        The messages; an empty list if no tool was called and `with_assistant` is off.
    """
    turn = read(message, max_tokens=max_tokens)
    results = guard.run_turn(turn.intents, **options)
    return answered(turn, results, write, max_chars=max_chars, with_assistant=with_assistant)


async def aanswer(
    guard: AsyncGuardLike,
    message: Any,
    *,
    max_tokens: int | None = None,
    max_chars: int | None = None,
    with_assistant: bool = False,
    **options: Any,
) -> list[dict[str, Any]]:
    """Run every tool call of a message through the guard, in async code; see `answer`."""
    turn = read(message, max_tokens=max_tokens)
    results = await guard.arun_turn(turn.intents, **options)
    return answered(turn, results, write, max_chars=max_chars, with_assistant=with_assistant)


def _read_blocks(message: Any, unread: list[str]) -> tuple[list[Any], list[str]]:
    """Answer the content blocks that are objects, and the texts among them."""
    content = wire.field(message, "content")
    if isinstance(content, str):
        content = [{"type": "text", "text": content}]
    blocks: list[Any] = []
    texts: list[str] = []
    entries = wire.sequence(content)
    if not entries and content != []:
        unread.append(f"content: {wire.label(content)}")
    for position, block in enumerate(entries):
        if not wire.is_object(block):
            unread.append(f"content[{position}]: {wire.label(block)}")
            continue
        blocks.append(block)
        kind = wire.text(wire.field(block, "type"))
        if kind == "text":
            texts.append(wire.text(wire.field(block, "text")) or "")
        elif kind != "tool_use" and kind not in _SILENT:
            unread.append(f"content[{position}]: {wire.label(kind)} {wire.label(wire.field(block, 'name'))}")
    return blocks, texts


def _echo(blocks: Sequence[Any], ids: Sequence[str]) -> tuple[dict[str, Any], ...]:
    """Copy the blocks as the API takes them back: no empty texts, no nulls, inputs that are objects."""
    remaining = iter(ids)
    content: list[dict[str, Any]] = []
    for block in blocks:
        copied = wire.present(wire.plain_object(block))
        kind = wire.field(block, "type")
        if kind == "tool_use":
            name = wire.text(copied.get("name")) or "unknown"
            copied.update(type=kind, id=next(remaining), name=name, input=_echo_input(copied.get("input")))
        elif kind == "text" and not wire.text(copied.get("text")):
            continue
        content.append(copied)
    return ({"role": "assistant", "content": content},) if content else ()


def _echo_input(value: Any) -> dict[str, Any]:
    if value is None:
        return {}
    return value if isinstance(value, dict) else {"input": value}


_RESERVED: Final = frozenset({"model", "messages", "tools", "max_tokens", "stream"})


class AnthropicSource(ModelSource):
    """Asks a model behind the Messages API for one call at a time.

    One class for both colours: `propose` needs an `Anthropic` client, `apropose` an `AsyncAnthropic` one. Only the
    tools that it is given are offered, and parallel calls are switched off; a model that sends several anyway has them
    proposed one by one, in order, before it is asked again. The SDK's own retries are about the model call and stay as
    the client has them. Its exceptions pass through and leave the conversation as it was. Not safe for use by several
    threads at once.

    Attributes:
        conversation: the message history (`conversation.messages`); append user messages to it between turns.
        last_turn: the last message as read; None before the first.
    """

    def __init__(
        self,
        client: Any,
        *,
        model: str,
        max_tokens: int,
        messages: Iterable[Mapping[str, Any]] = (),
        max_chars: int | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        """Create the source.

        Args:
            client: an `anthropic.Anthropic` or `anthropic.AsyncAnthropic`, made by you.
            model: name of the model.
            max_tokens: limit of one response, in tokens; the API wants one.
            messages: the conversation so far.
            max_chars: longest text of one result, in characters; default: the result's own.
            options: further request fields (`system`, `temperature`, `tool_choice`, ...).

        Raises:
            ConfigurationError: `options` holds a field that the source sets itself.
        """
        super().__init__(client, messages, read, write, max_tokens=max_tokens, max_chars=max_chars)
        self._model = model
        self._options = own_options(options, _RESERVED)

    @classmethod
    def from_env(cls, *, model: str, max_tokens: int, is_async: bool = False, **options: Any) -> AnthropicSource:
        """Create the source with a client that takes key and address from the environment (`ANTHROPIC_API_KEY`).

        Args:
            model: name of the model.
            max_tokens: limit of one response, in tokens.
            is_async: make an async client, for `apropose`.
            **options: the other options of the class.

        Raises:
            MissingExtraError: the `anthropic` package is not installed.
        """
        try:
            import anthropic
        except ImportError as error:
            raise MissingExtraError("anthropic", "anthropic") from error
        client = anthropic.AsyncAnthropic() if is_async else anthropic.Anthropic()
        return cls(client, model=model, max_tokens=max_tokens, **options)

    def request(self, tools: Sequence[ToolLike]) -> dict[str, Any]:
        """Answer the request that would be sent now, with these tools offered."""
        body = {
            "model": self._model,
            "max_tokens": self._max_tokens,
            "messages": list(self.conversation.messages),
            **self._options,
        }
        choice = body.pop("tool_choice", None) or {"type": "auto"}
        if tools:
            body["tools"] = definitions(tools, "anthropic")
            body["tool_choice"] = (
                choice if choice.get("type") == "none" else {**choice, "disable_parallel_tool_use": True}
            )
        return body

    def _send(self, request: Mapping[str, Any]) -> Any:
        return self._client.messages.create(**request)
