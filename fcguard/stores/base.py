"""What a ledger must do: take four commands durably, answer a handful of questions.

Commands and events are values: nobody changes one after it was made. They are not declared frozen because one is built for
every call, and a frozen dataclass costs several times a plain one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from fcguard.model.failure import Effect
from fcguard.model.states import CallState

__all__ = [
    "Accepted",
    "Answer",
    "Blocked",
    "CallQuery",
    "Command",
    "Done",
    "Enter",
    "Event",
    "Gap",
    "Head",
    "Identity",
    "Listed",
    "Look",
    "Move",
    "Note",
    "Open",
    "Replayed",
    "Stale",
    "Store",
    "StoredCall",
    "StoredEvent",
]


@dataclass(slots=True)
class Event:
    """One thing that happened to a call, appended to the chain of its task.

    Attributes:
        kind: `opened`, `attempt`, `outcome`, `confirm`, `late`, `parked`, `resolved`, `call` (a whole read or refused call), ...
        at: wall clock in seconds.
        payload: JSON values only (no secrets). Built fresh for the event; the store may keep a reference.
    """

    kind: str
    at: float
    payload: Mapping[str, Any]


@dataclass(slots=True)
class Identity:
    """The columns of a call that never change.

    Attributes:
        request_id: `fc-YYYYMMDD-` + sortable unique suffix.
        task_id: task it belongs to; the chain is per task. `-` outside a task.
        tool, tool_version, effect: what is called.
        purpose: `primary`, `confirm`, `fallback`.
        step: number of the step in the task, or None.
        parent_id: call that caused this one, or None.
        tenant: tenant, or None.
        digest: digest of tool and normalized arguments.
        idempotency_scope, idempotency_key: unique together while the call is open or succeeded; None: no guard.
        effect_key: blocks a second open write of the same effect; None: no guard.
        settle: seconds in which a sent request can still land; None: not declared.
    """

    request_id: str
    task_id: str
    tool: str
    tool_version: str
    effect: Effect
    purpose: str = "primary"
    step: int | None = None
    parent_id: str | None = None
    tenant: str | None = None
    digest: str = ""
    idempotency_scope: str | None = None
    idempotency_key: str | None = None
    effect_key: str | None = None
    settle: float | None = None


@dataclass(slots=True)
class Open:
    """Write the intent of a call before anything is sent; the durable promise behind every write.

    The store checks the two keys in the same transaction: it answers `Replayed` (same idempotency scope and key, same digest,
    succeeded), `Blocked` (`conflict`: same key, other digest; `pending`: an open call holds the key or the effect key; `pruned`:
    the same call succeeded, and only its key is left).
    """

    identity: Identity
    state: CallState
    attempt: int
    event: Event
    lease: float = 60.0


@dataclass(slots=True)
class Move:
    """Change the state of an open call, if it still has the version that the caller saw (compare and set).

    Attributes:
        request_id: which call.
        version: version seen; every accepted move adds one.
        state: new state.
        attempt: number of the attempt that this is about.
        event: what happened.
        result: the envelope as JSON values, on a terminal state (kept for replay); None otherwise.
        next_at: wall clock when the next automatic action is due; None: nothing is due.
        settle_until: wall clock until which a sent request may still land; None: unchanged.
    """

    request_id: str
    version: int
    state: CallState
    attempt: int
    event: Event
    result: Mapping[str, Any] | None = None
    next_at: float | None = None
    settle_until: float | None = None


class Enter:
    """Write a whole call at once, at its end: reads and refused calls, which need no intent.

    Its parts may be made only when the store looks at them, which for most stores is on their own thread.

    Attributes:
        request_id, task_id: those of the identity, known without making it.
        state: a terminal state.
        attempt: number of attempts made.
        wait: whether the caller waits until it is durable.
        identity, event, result: made at first sight.
    """

    __slots__ = ("_make", "_parts", "attempt", "request_id", "state", "task_id", "wait")

    def __init__(
        self,
        identity: Identity,
        state: CallState,
        attempt: int,
        event: Event,
        result: Mapping[str, Any] | None = None,
        wait: bool = True,
    ) -> None:
        self.request_id, self.task_id = identity.request_id, identity.task_id
        self.state, self.attempt, self.wait = state, attempt, wait
        self._make: Callable[[], Parts] | None = None
        self._parts: Parts | None = (identity, event, result)

    @classmethod
    def later(cls, request_id: str, task_id: str, state: CallState, attempt: int, make: Callable[[], Parts]) -> Enter:
        """Build one whose identity, event and result are made by `make` when they are first looked at.

        What `make` reads must not change any more.
        """
        self = cls.__new__(cls)
        self.request_id, self.task_id, self.state, self.attempt, self.wait = request_id, task_id, state, attempt, True
        self._make, self._parts = make, None
        return self

    @property
    def is_made(self) -> bool:
        """Whether the parts have been made."""
        return self._parts is not None

    @property
    def parts(self) -> Parts:
        """Identity, event and result."""
        parts = self._parts
        if parts is None:
            assert self._make is not None
            parts = self._parts = self._make()
            self._make = None
        return parts

    @property
    def identity(self) -> Identity:
        """The columns of the call that never change."""
        return self.parts[0]

    @property
    def event(self) -> Event:
        """The one event: the whole call."""
        return self.parts[1]

    @property
    def result(self) -> Mapping[str, Any] | None:
        """The envelope as JSON values."""
        return self.parts[2]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Enter):
            return NotImplemented
        return (self.parts, self.state, self.attempt, self.wait) == (
            other.parts,
            other.state,
            other.attempt,
            other.wait,
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Enter({self.request_id!r}, {self.state}, attempt={self.attempt})"


@dataclass(slots=True)
class Note:
    """Append an event to an existing call without changing its state (a late result, a stale writer's finding)."""

    request_id: str
    event: Event


@dataclass(slots=True)
class Look:
    """Ask what an `Open` of this identity would be answered, and write nothing; `Accepted(0)`: nothing is in its way."""

    identity: Identity


Parts: TypeAlias = tuple[Identity, Event, Mapping[str, Any] | None]
Command: TypeAlias = Open | Move | Enter | Note | Look


@dataclass(frozen=True, slots=True)
class Accepted:
    """The command is durable. `version` is the call's version now."""

    version: int


@dataclass(frozen=True, slots=True)
class Replayed:
    """The same call already succeeded; `result` is its stored envelope."""

    request_id: str
    result: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Blocked:
    """The write must not be sent.

    Attributes:
        reason: `conflict` (same key, other arguments), `pending` (still open) or `pruned` (it took effect, its record is gone).
        request_id, state: call that holds the key.
        pruned_at: wall clock in seconds when the record of that call was pruned; None: it is there.
    """

    reason: str
    request_id: str
    state: CallState
    pruned_at: float | None = None


@dataclass(frozen=True, slots=True)
class Stale:
    """Somebody else moved the call; nothing was written. Holds what is true now."""

    version: int
    state: CallState
    result: Mapping[str, Any] | None = None


Answer: TypeAlias = Accepted | Replayed | Blocked | Stale

Done: TypeAlias = Callable[[Answer | BaseException], None]
"""Called exactly once, from any thread, when the command is durable or has failed."""


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """An event as the ledger holds it: `payload` are the exact bytes that `hash` covers."""

    task_id: str
    seq: int
    request_id: str
    kind: str
    at: float
    payload: bytes
    hash: bytes


@dataclass(frozen=True, slots=True)
class Head:
    """The last event of a task's chain."""

    task_id: str
    seq: int
    hash: bytes


@dataclass(frozen=True, slots=True)
class Gap:
    """Events `first` to `last` of a task that were pruned on purpose; `hash` is the hash of event `last`."""

    task_id: str
    first: int
    last: int
    hash: bytes


@dataclass(frozen=True, slots=True)
class Listed:
    """What a database finds a call by, as its columns say it. The events say the same, or somebody changed the columns.

    Attributes:
        request_id, tool: which call.
        is_entered: whether it was written whole, at its end, and so holds no keys.
        is_open: whether it is among the open calls.
        holds_key: whether it keeps others from its idempotency key.
        idempotency_scope, idempotency_key, effect_key: its keys, as they are compared with those of others.
    """

    request_id: str
    tool: str
    is_entered: bool
    is_open: bool
    holds_key: bool
    idempotency_scope: str | None
    idempotency_key: str | None
    effect_key: str | None


@dataclass(frozen=True, slots=True)
class StoredCall:
    """The current row of a call.

    Attributes:
        listed: what it is found by; None where that is not kept apart from the call itself.
        last_seq: number of its last event in the chain; None: the ledger does not tell.
        result_seq: number of the event that holds `result`; None: none does, or the ledger does not tell. What comes after it
            are notes, and moves without a result.
    """

    identity: Identity
    state: CallState
    version: int
    attempt: int
    created_at: float
    updated_at: float
    result: Mapping[str, Any] | None = None
    owner: str | None = None
    lease_until: float | None = None
    next_at: float | None = None
    settle_until: float | None = None
    listed: Listed | None = field(default=None, compare=False, repr=False)
    last_seq: int | None = field(default=None, compare=False, repr=False)
    result_seq: int | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class CallQuery:
    """Which calls to list; every field narrows, empty means all. Newest first."""

    task_id: str | None = None
    tool: str | None = None
    states: frozenset[CallState] = field(default_factory=frozenset)
    since: float | None = None
    until: float | None = None
    limit: int | None = None


class Store(Protocol):
    """A ledger. Thread-safe; usable from several processes where the implementation says so.

    A store whose `submit` always calls `done` before it returns may say so with `answers_inline = True`: nobody waits then.
    """

    def submit(self, command: Command, done: Done) -> None:
        """Take a command; `done` gets the answer once it is durable, or the `StoreError` that refused it.

        May call `done` before it returns. Never raises for a fault of the medium; that goes to `done`.
        """
        ...

    def get(self, request_id: str) -> StoredCall | None:
        """Answer the row of a call, or None."""
        ...

    def events(self, *, request_id: str | None = None, task_id: str | None = None) -> Iterator[StoredEvent]:
        """Yield events in chain order: of one call, of one task, or all."""
        ...

    def calls(self, query: CallQuery = ...) -> Iterator[StoredCall]:
        """Yield calls that match."""
        ...

    def close(self) -> None:
        """Finish what was submitted and release the medium. Idempotent."""
        ...
