"""Where constraints keep what they know: one atomic operation, in memory or shared with other processes."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from time import time
from typing import Any, Final, Protocol, TypeVar, runtime_checkable

from fcguard.errors import StoreUnavailable

__all__ = [
    "PRUNE_EVERY",
    "TTL_SECONDS",
    "Change",
    "MemoryState",
    "SharedState",
    "change_text",
    "clock_of",
    "held",
    "is_blocking",
    "new_lock",
    "state_key",
    "wall_clock",
]

T = TypeVar("T")

Change = Callable[[Any], tuple[Any, T]]
"""Gets the stored JSON value (None: nothing is stored), answers the new one and what `change` should answer. Pure: it may run twice."""

wall_clock: Final[Callable[[], float]] = time
"""The wall clock in seconds since the epoch: the default of every constraint that needs a date."""

new_lock: Final = Lock
"""Makes the lock that guards a constraint's counters; held for a few operations, never across an await."""

TTL_SECONDS: Final = 30 * 86_400.0
"""How long a database keeps a value that nobody changes, unless told otherwise."""

PRUNE_EVERY: Final = 1000
"""After how many changes a process looks for values to forget; it also does so at its first."""


@runtime_checkable
class SharedState(Protocol):
    """A place for small JSON values that several constraints, threads or processes change one at a time.

    Write your own (for another database) by giving these two; `fcguard.constraints` needs nothing else. If it also has a method
    `now()`, its seconds since the epoch are what constraints keep there, instead of those of each worker's own clock.
    """

    @property
    def is_shared(self) -> bool:
        """Whether other processes see it; times are then wall-clock times: the state's, or those of workers that have to agree."""
        ...

    def change(self, key: str, change: Change[T]) -> T:
        """Read, change and write the value of `key` as one atomic step.

        Args:
            key: which value.
            change: `(stored) -> (new, answer)`; must not alter `stored`. A new value of None deletes the key.

        Returns:
            The answer of `change`.
        """
        ...


def is_blocking(state: SharedState | None) -> bool:
    """Answer whether a change of the state may take long, because other processes share it; None: it is in this process."""
    return state is not None and state.is_shared


def clock_of(state: SharedState | None, wall: Callable[[], float] | None) -> Callable[[], float]:
    """Answer the clock for times in a shared state: the given one, else the state's own, else this machine's."""
    if wall is not None:
        return wall
    told: Callable[[], float] = getattr(state, "now", wall_clock)
    return told


class MemoryState:
    """Keeps state in this process; gone when it ends."""

    __slots__ = ("_lock", "_values")

    is_shared: Final = False

    def __init__(self) -> None:
        self._lock = new_lock()
        self._values: dict[str, Any] = {}

    def change(self, key: str, change: Change[T]) -> T:
        """Read, change and write the value of `key` as one atomic step."""
        with self._lock:
            new, answer = change(self._values.get(key))
            if new is None:
                self._values.pop(key, None)
            else:
                self._values[key] = new
            return answer


def state_key(kind: str, name: str, key: Any) -> str:
    """Answer the key of a constraint's value: its kind, its name, and what the user counts apart by."""
    return f"{kind}:{name}" if key is None else f"{kind}:{name}:{key!r}"


@contextmanager
def held(lock: Lock, seconds: float, state: str) -> Iterator[None]:
    """Hold the lock of a connection that threads share; where its database does not answer, they must not wait one after another.

    Args:
        lock: the lock.
        seconds: longest wait.
        state: what the message calls the state.

    Raises:
        StoreUnavailable: another thread held it for longer.
    """
    if not lock.acquire(timeout=max(0.0, seconds)):
        raise StoreUnavailable(f"{state}: other threads of this process have been waiting for it for too long already")
    try:
        yield
    finally:
        lock.release()


def change_text(stored: str | bytes | None, change: Change[T]) -> tuple[str | bytes | None, T]:
    """Do a change on JSON text, for states that keep text.

    Args:
        stored: the stored text; None: nothing is stored.
        change: see `SharedState.change`.

    Returns:
        The new text (None: to be deleted; `stored` itself: nothing changes), and the answer of `change`.
    """
    value = None if stored is None else json.loads(stored)
    new, answer = change(value)
    if new == value:  # also one that was written anew: a refusal by an open circuit must not cost a write
        return stored, answer
    return None if new is None else json.dumps(new), answer
