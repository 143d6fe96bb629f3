"""What asking a model for its next call is like behind every API: one conversation, both colours, one call at a time."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from fcguard.adapters.base import Conversation, ResultLike, Turn, require_colour
from fcguard.errors import ColourError, ConfigurationError
from fcguard.model.context import TaskContext
from fcguard.model.intent import Intent
from fcguard.model.schemas import ToolLike

__all__ = ["ModelSource", "Write", "answered", "own_options"]


class Write(Protocol):
    """Writes the messages that answer a turn; see `fcguard.adapters.openai.write`."""

    def __call__(
        self, turn: Turn, results: Iterable[ResultLike], *, max_chars: int | None = None
    ) -> list[dict[str, Any]]:
        """Answer the messages, in order."""
        ...


def answered(
    turn: Turn, results: Iterable[ResultLike], write: Write, *, max_chars: int | None, with_assistant: bool
) -> list[dict[str, Any]]:
    """Answer the messages that go back to the model, the assistant's own first if they are wanted."""
    before = turn.assistant_messages() if with_assistant else []
    return [*before, *write(turn, results, max_chars=max_chars)]


def own_options(options: Mapping[str, Any] | None, reserved: frozenset[str]) -> dict[str, Any]:
    """Answer further fields of a request.

    Raises:
        ConfigurationError: one of them is set by the source itself.
    """
    clash = sorted(reserved & (options or {}).keys())
    if clash:
        raise ConfigurationError(f"options {clash!r} are set by the source itself; leave them out")
    return dict(options or {})


class ModelSource(ABC):
    """An `IntentSource` and an `AsyncIntentSource`; a provider's own says what is sent, and how.

    Attributes:
        conversation: the message history (`conversation.messages`); append user messages to it between turns.
        last_turn: the last response as read; None before the first.

    Args:
        client: the SDK's client, sync or async.
        messages: the conversation so far.
        read: reads a response; takes `max_tokens`.
        write: writes the results of a turn.
        max_tokens: limit of one response, in tokens; None: the server's.
        max_chars: longest text of one result, in characters; None: the result's own.
    """

    def __init__(
        self,
        client: Any,
        messages: Iterable[Mapping[str, Any]],
        read: Callable[..., Turn],
        write: Write,
        *,
        max_tokens: int | None,
        max_chars: int | None,
    ) -> None:
        self._client, self._read, self._max_tokens = client, read, max_tokens
        self.conversation = Conversation(messages, lambda turn, results: write(turn, results, max_chars=max_chars))
        self.last_turn: Turn | None = None

    @abstractmethod
    def request(self, tools: Sequence[ToolLike]) -> dict[str, Any]:
        """Answer the request that would be sent now, with these tools offered."""

    @abstractmethod
    def _send(self, request: Mapping[str, Any]) -> Any:
        """Send a request; an async client answers something to await."""

    def propose(self, context: TaskContext | None, tools: Sequence[ToolLike]) -> Intent:
        """Ask the model for the next call; see `IntentSource.propose`.

        Raises:
            ColourError: the client is async.
            ConfigurationError: a tool's name is not accepted by the provider.
            UsageError: the result of the last proposed call was not recorded.
        """
        waiting = self.conversation.next()
        if waiting is not None:
            return waiting
        require_colour(self._client, is_async=False)
        response = self._send(self.request(tools))
        if inspect.isawaitable(response):
            if inspect.iscoroutine(response):
                response.close()
            raise ColourError("the client is async; use apropose(), or give the source the SDK's sync client")
        return self._take(response)

    async def apropose(self, context: TaskContext | None, tools: Sequence[ToolLike]) -> Intent:
        """Ask the model for the next call, in async code; see `propose`."""
        waiting = self.conversation.next()
        if waiting is not None:
            return waiting
        require_colour(self._client, is_async=True)
        response = self._send(self.request(tools))
        return self._take(await response if inspect.isawaitable(response) else response)

    def record(self, result: ResultLike) -> None:
        """Take the result of the last proposed call, so that the model sees it in the next request.

        Raises:
            UsageError: no proposed call waits for a result.
        """
        self.conversation.record(result)

    def _take(self, response: Any) -> Intent:
        self.last_turn = self._read(response, max_tokens=self._max_tokens)
        return self.conversation.take(self.last_turn)
