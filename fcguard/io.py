"""The port through which steps reach the world; `runtime` implements it twice, blocking and on asyncio."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

__all__ = ["IO", "Clock"]


class Clock(Protocol):
    """Where time comes from. Tests give their own."""

    def now(self) -> float:
        """Answer the wall clock in seconds since the epoch."""
        ...

    def monotonic(self) -> float:
        """Answer a clock in seconds that never jumps back."""
        ...

    def sleep(self, seconds: float) -> None:
        """Block this thread."""
        ...

    async def asleep(self, seconds: float) -> None:
        """Suspend this asyncio task."""
        ...


class IO(Protocol):
    """Everything a step may await, and the clock.

    A step never knows its colour: on the blocking implementation no await ever suspends.
    """

    def now(self) -> float:
        """Answer the wall clock in seconds since the epoch."""
        ...

    def monotonic(self) -> float:
        """Answer a clock in seconds that never jumps back."""
        ...

    async def call(self, fn: Callable[..., Any], *args: Any) -> Any:
        """Run a collaborator (rule, confirmation, classifier) and answer what it returns or resolves to."""
        ...

    async def finish(self, work: Callable[[], None]) -> None:
        """Do work that may wait for another machine, where no event loop waits for it, to its end.

        Cancellation passes, but not before the work has ended (or has not for long: then it ends without its caller).
        """
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait without holding an event loop."""
        ...

    async def invoke(self, call: Any, attempt: Any, timeout: float | None) -> Any:
        """Run the tool of `call` once and answer what it returned; raises what it raised.

        Raises:
            fcguard.model.attempt.Abandoned: the time was over and a thread still runs the function.
            fcguard.model.attempt.NotEntered: the function was never entered.
            TimeoutError: the time was over and the function was stopped.
        """
        ...

    async def commit(self, store: Any, command: Any, heard: Callable[[Any], None] | None = None) -> Any:
        """Hand a command to the ledger and answer once it is durable.

        Cancellation and interrupts pass, but not before the ledger has answered (or has not for long).

        Args:
            store: the ledger.
            command: what to write.
            heard: gets the ledger's answer also if the caller is interrupted; None: nobody needs it then.
        """
        ...
