"""OpenAI and compatible servers: read Chat Completions and Responses, answer their calls, ask a model for a call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, Literal

from fcguard.adapters import wire
from fcguard.adapters.base import AsyncGuardLike, GuardLike, ResultLike, Turn, never_raising
from fcguard.adapters.openai_chat import read_chat, write_chat
from fcguard.adapters.openai_responses import is_response, read_response, write_response
from fcguard.adapters.source import ModelSource, answered, own_options
from fcguard.errors import MissingExtraError
from fcguard.model.schemas import ToolLike, definitions

__all__ = ["OpenAIChatSource", "aanswer", "answer", "read", "write"]


@never_raising("openai.chat")
def read(response: Any, *, max_tokens: int | None = None) -> Turn:
    """Read a response of Chat Completions or Responses.

    Args:
        response: the SDK's object, the same as a dict, or an assistant message alone. Anything else is read as far as
            it goes; what cannot be read is named in `Turn.unread`.
        max_tokens: the limit that was asked for, in tokens. A response that used all of it counts as cut off even if
            the server says otherwise. Default: only the server's word counts (Responses state their limit themselves).

    Returns:
        The turn. Of several choices the first is read. The legacy `function_call` is read if there are no `tool_calls`.
    """
    if wire.field(response, "choices") is None and is_response(response):
        return read_response(response, max_tokens=max_tokens)
    return read_chat(response, max_tokens=max_tokens)


def write(turn: Turn, results: Iterable[ResultLike], *, max_chars: int | None = None) -> list[dict[str, Any]]:
    """Write the messages that answer a turn, one per call, in order.

    Args:
        turn: what `read` answered. Calls listed in its `unread` (custom tools) are not answered; that is up to you.
        results: one result per intent, in order.
        max_chars: longest text of one result, in characters; None: the result's own default.

    Returns:
        `tool` messages for Chat Completions (a `function` message for a legacy call), `function_call_output` items for
        Responses. They carry `turn.call_ids`; where those differ from the model's own, put `turn.assistant_messages()`
        before them.

    Raises:
        UsageError: the turn is not OpenAI's, or there is not exactly one result per call.
    """
    if turn.format == "openai.responses":
        return write_response(turn, results, max_chars=max_chars)
    return write_chat(turn, results, max_chars=max_chars)


def answer(
    guard: GuardLike,
    response: Any,
    *,
    max_tokens: int | None = None,
    max_chars: int | None = None,
    with_assistant: bool = False,
    **options: Any,
) -> list[dict[str, Any]]:
    """Run every tool call of a response through the guard and answer the messages that go back to the model.

    Args:
        guard: a `Guard`.
        response: see `read`.
        max_tokens: see `read`.
        max_chars: see `write`.
        with_assistant: put the assistant's own message first, with repaired ids, so that the answer is all that the
            conversation needs (`messages += answer(...)`). Default: only the results.
        **options: handed to `guard.run_turn`.

    Returns:
        The messages; an empty list if no tool was called and `with_assistant` is off.
    """
    turn = read(response, max_tokens=max_tokens)
    results = guard.run_turn(turn.intents, **options)
    return answered(turn, results, write, max_chars=max_chars, with_assistant=with_assistant)


async def aanswer(
    guard: AsyncGuardLike,
    response: Any,
    *,
    max_tokens: int | None = None,
    max_chars: int | None = None,
    with_assistant: bool = False,
    **options: Any,
) -> list[dict[str, Any]]:
    """Run every tool call of a response through the guard, in async code; see `answer`."""
    turn = read(response, max_tokens=max_tokens)
    results = await guard.arun_turn(turn.intents, **options)
    return answered(turn, results, write, max_chars=max_chars, with_assistant=with_assistant)


_RESERVED: Final = frozenset(
    {"model", "messages", "tools", "parallel_tool_calls", "stream", "n", "functions", "function_call"}
)


class OpenAIChatSource(ModelSource):
    """Asks a model behind the Chat Completions API for one call at a time.

    One class for both colours: `propose` needs an `OpenAI` client, `apropose` an `AsyncOpenAI` one. Only the tools that
    it is given are offered, and parallel calls are switched off; a server that sends several anyway has them proposed
    one by one, in order, before the model is asked again. The SDK's own retries are about the model call and stay as
    the client has them. Its exceptions pass through and leave the conversation as it was. Not safe for use by several
    threads at once.

    Attributes:
        conversation: the message history (`conversation.messages`); append user messages to it between turns.
        last_turn: the last response as read; None before the first.
    """

    def __init__(
        self,
        client: Any,
        *,
        model: str,
        messages: Iterable[Mapping[str, Any]] = (),
        max_tokens: int | None = None,
        limit_field: Literal["max_completion_tokens", "max_tokens"] = "max_completion_tokens",
        forbid_parallel: bool = True,
        max_chars: int | None = None,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        """Create the source.

        Args:
            client: an `openai.OpenAI` or `openai.AsyncOpenAI`, made by you.
            model: name of the model.
            messages: the conversation so far, system and user messages included.
            max_tokens: limit of one response, in tokens; default: the server's.
            limit_field: the field that carries the limit; some compatible servers know only `max_tokens`.
            forbid_parallel: send `parallel_tool_calls=False`. Some models refuse the field; without it, several calls
                of one response are still proposed one by one.
            max_chars: longest text of one result, in characters; default: the result's own.
            options: further request fields (`temperature`, `tool_choice`, ...).

        Raises:
            ConfigurationError: `options` holds a field that the source sets itself.
        """
        super().__init__(client, messages, read, write, max_tokens=max_tokens, max_chars=max_chars)
        self._model, self._limit_field = model, limit_field
        self._parallel: dict[str, Any] = {"parallel_tool_calls": False} if forbid_parallel else {}
        self._options = own_options(options, _RESERVED)

    @classmethod
    def from_env(cls, *, model: str, is_async: bool = False, **options: Any) -> OpenAIChatSource:
        """Create the source with a client that takes its key from the environment (`OPENAI_API_KEY`).

        Args:
            model: name of the model.
            is_async: make an async client, for `apropose`.
            **options: the other options of the class.

        Raises:
            MissingExtraError: the `openai` package is not installed.
        """
        try:
            import openai
        except ImportError as error:
            raise MissingExtraError("openai", "openai") from error
        return cls(openai.AsyncOpenAI() if is_async else openai.OpenAI(), model=model, **options)

    def request(self, tools: Sequence[ToolLike]) -> dict[str, Any]:
        """Answer the request that would be sent now, with these tools offered."""
        limit: dict[str, Any] = {} if self._max_tokens is None else {self._limit_field: self._max_tokens}
        body: dict[str, Any] = {
            "model": self._model,
            "messages": list(self.conversation.messages),
            **limit,
            **self._options,
        }
        if tools:
            return {**body, "tools": definitions(tools, "openai"), **self._parallel}
        body.pop("tool_choice", None)  # the API refuses a choice among no tools
        return body

    def _send(self, request: Mapping[str, Any]) -> Any:
        return self._client.chat.completions.create(**request)
