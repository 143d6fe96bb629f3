"""What every adapter shares: the turn read from a response, the seams to the guard, and a source's conversation."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, ParamSpec, Protocol, runtime_checkable

from fcguard.errors import ColourError, UsageError
from fcguard.model.context import TaskContext
from fcguard.model.intent import Intent, Usage
from fcguard.model.schemas import ToolLike

__all__ = [
    "AsyncGuardLike",
    "AsyncIntentSource",
    "Conversation",
    "GuardLike",
    "IntentSource",
    "ResultLike",
    "Turn",
    "TurnFormat",
    "never_raising",
    "paired",
    "require_colour",
    "text_for_model",
]

P = ParamSpec("P")

TurnFormat = Literal["openai.chat", "openai.responses", "anthropic", "mcp"]


class ResultLike(Protocol):
    """What a writer needs of a `ToolResult`."""

    @property
    def success(self) -> bool:
        """Whether the call did what it was asked to do."""
        ...

    @property
    def data(self) -> Any:
        """The tool's answer as JSON values."""
        ...

    @property
    def request_id(self) -> str:
        """Id that ties the result to its evidence."""
        ...

    @property
    def for_model(self) -> Callable[..., str]:
        """Method that answers a text for the model; takes `max_chars`."""
        ...


class GuardLike(Protocol):
    """What `answer` needs of a guard: run the calls of one response in order, one result for each."""

    @property
    def run_turn(self) -> Callable[..., Sequence[ResultLike]]:
        """Method that runs the intents it is given."""
        ...


class AsyncGuardLike(Protocol):
    """What `aanswer` needs of a guard."""

    @property
    def arun_turn(self) -> Callable[..., Any]:
        """Coroutine function that runs the intents it is given."""
        ...


@runtime_checkable
class IntentSource(Protocol):
    """Asks somebody, usually a model, for the next call."""

    def propose(self, context: TaskContext | None, tools: Sequence[ToolLike]) -> Intent:
        """Answer the next proposed call, or an intent with `call=False` if nothing is to be called.

        Args:
            context: the task; None outside one.
            tools: the tools that may be offered, and no others.
        """
        ...

    def record(self, result: ResultLike) -> None:
        """Take the result of the intent that was proposed last, so that the next proposal knows it."""
        ...


@runtime_checkable
class AsyncIntentSource(Protocol):
    """The same for async code."""

    async def apropose(self, context: TaskContext | None, tools: Sequence[ToolLike]) -> Intent:
        """Answer the next proposed call; see `IntentSource.propose`."""
        ...

    def record(self, result: ResultLike) -> None:
        """Take the result of the intent that was proposed last."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """One model response, or one MCP request, as far as it concerns tool calls.

    Results are bound to calls by position, never by id: ids may be missing or given twice.

    Attributes:
        format: the wire format it came in; a writer of another format refuses the turn.
        intents: the proposed calls in order; empty if no tool is called.
        text: what was said beside the calls.
        finish_reason: the provider's own word.
        usage: token counts.
        unread: what the response holds that fcguard does not govern (refusals, custom tools, tools that the provider
            runs, further choices, broken parts), each as `where: what`. Never dropped silently; look at it.
        call_ids: the id under which each call is answered: the model's own, or a made one where it was missing or given
            twice. None where the format answers without an id.
        assistant: the response as input of the next request, in plain values, with the ids of `call_ids`.
        meta: protocol metadata (MCP `_meta`: `progressToken`, `traceparent`, ...).
        id: id of the response; of the JSON-RPC request for MCP.
    """

    format: TurnFormat
    intents: tuple[Intent, ...] = ()
    text: str | None = None
    finish_reason: str | None = None
    usage: Usage | None = None
    unread: tuple[str, ...] = ()
    call_ids: tuple[str | None, ...] = ()
    assistant: tuple[Mapping[str, Any], ...] = ()
    meta: Mapping[str, Any] = field(default_factory=dict)
    id: str | int | None = None

    @property
    def intent(self) -> Intent:
        """The first call; an intent with `call=False` if no tool is called."""
        if self.intents:
            return self.intents[0]
        return Intent(call=False, finish_reason=self.finish_reason, usage=self.usage, text=self.text)

    @property
    def is_truncated(self) -> bool:
        """Whether the response was cut off, so that its calls are refused."""
        return self.intent.is_truncated

    def assistant_messages(self) -> list[dict[str, Any]]:
        """Answer the response as the conversation must hold it before the results.

        Returns:
            One message (Chat Completions, Anthropic), one item per output (Responses), nothing (MCP). Ids that were
            missing or given twice are repaired, and so are parts that providers refuse to read back (null fields,
            arguments that are not text). A copy, yours to change.
        """
        return [copy.deepcopy(dict(message)) for message in self.assistant]


def never_raising(format: TurnFormat) -> Callable[[Callable[P, Turn]], Callable[P, Turn]]:
    """Make a reader total: of a response whose own methods raise, no call is read, and `Turn.unread` says so.

    Args:
        format: the format of the turn that stands for such a response.
    """

    def decorate(read: Callable[P, Turn]) -> Callable[P, Turn]:
        @functools.wraps(read)
        def reading(*args: P.args, **keywords: P.kwargs) -> Turn:
            try:
                return read(*args, **keywords)
            except Exception as error:
                return Turn(format=format, unread=(f"response: reading it raised {type(error).__name__}",))

        return reading

    return decorate


def paired(
    turn: Turn, results: Iterable[ResultLike], format: TurnFormat
) -> Iterator[tuple[Intent, str | None, ResultLike]]:
    """Answer intent, answer id and result of each call, in order.

    Args:
        turn: the turn to answer.
        results: one result per intent, in order.
        format: the format that the caller writes.

    Raises:
        UsageError: the turn has another format, or there is not exactly one result per call.
    """
    if turn.format != format:
        raise UsageError(f"a turn of format {turn.format!r} is not {format!r}; write it with the adapter that read it")
    given = tuple(results)
    if len(given) != len(turn.intents):
        raise UsageError(
            f"{len(given)} results for {len(turn.intents)} calls; give one result per intent of the turn, in order"
        )
    return zip(turn.intents, turn.call_ids, given, strict=True)


def text_for_model(result: ResultLike, max_chars: int | None) -> str:
    """Answer what the model reads of a result; None leaves the length to the result's own default."""
    return result.for_model() if max_chars is None else result.for_model(max_chars=max_chars)


class Conversation:
    """The message history of an intent source.

    A response enters the history together with the results of all its calls, so that the history is valid at any
    moment, also when a turn is given up in the middle.

    Attributes:
        messages: the history; the source appends to it, and so may you between turns.
    """

    def __init__(
        self,
        messages: Iterable[Mapping[str, Any]],
        write: Callable[[Turn, Sequence[ResultLike]], list[dict[str, Any]]],
    ) -> None:
        self.messages: list[dict[str, Any]] = [dict(message) for message in messages]
        self._write = write
        self._turn: Turn | None = None
        self._results: list[ResultLike] = []
        self._is_waiting = False
        self._has_spoken = False

    def next(self) -> Intent | None:
        """Answer the next call of the current response; None if the model must be asked.

        Raises:
            UsageError: the result of the last proposed call was not recorded.
        """
        if self._is_waiting:
            raise UsageError("the last proposed call has no result yet; call record(result) or conversation.give_up()")
        if self._turn is None:
            return None
        self._is_waiting = True
        return self._turn.intents[len(self._results)]

    def take(self, turn: Turn) -> Intent:
        """Take a new response and answer its first call, or an intent with `call=False`."""
        self._has_spoken = not turn.intents
        if self._has_spoken:
            self.messages += turn.assistant_messages()
            return turn.intent
        self._turn, self._results, self._is_waiting = turn, [], True
        return turn.intents[0]

    def record(self, result: ResultLike) -> None:
        """Take the result of the last proposal; one that calls nothing adds nothing to the history.

        Raises:
            UsageError: no proposal waits for a result.
        """
        if self._has_spoken:
            self._has_spoken = False
            return
        if self._turn is None or not self._is_waiting:
            raise UsageError("no proposed call waits for a result; record(result) follows propose(), once")
        self._is_waiting = False
        self._results.append(result)
        if len(self._results) == len(self._turn.intents):
            self.messages += [*self._turn.assistant_messages(), *self._write(self._turn, self._results)]
            self._turn = None

    def give_up(self) -> None:
        """Forget a response whose calls will not all be run; the history stays as it was before it."""
        self._turn, self._is_waiting, self._has_spoken = None, False, False


def require_colour(client: Any, *, is_async: bool) -> None:
    """Refuse an SDK client whose colour does not fit the caller, before anything is sent.

    Args:
        client: an SDK client; one that is neither a context manager nor an async one passes.
        is_async: whether the caller is async.

    Raises:
        ColourError: an async client in sync code, or a client that would block the event loop.
    """
    kind = type(client)
    serves_sync, serves_async = hasattr(kind, "__enter__"), hasattr(kind, "__aenter__")
    if is_async and serves_sync and not serves_async:
        raise ColourError(f"{kind.__name__!r} would block the event loop; give the source the SDK's async client")
    if not is_async and serves_async and not serves_sync:
        raise ColourError(f"{kind.__name__!r} is async; use apropose(), or give the source the SDK's sync client")
