"""Count a recovery's time on the ledger's own clock: the clock of this host may be off, and leases are not its own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from fcguard.io import IO
from fcguard.stores.recoverable import RecoverableStore

__all__ = ["LedgerTime", "ledger_time"]


@dataclass(frozen=True, slots=True)
class LedgerTime:
    """An IO whose wall clock is the ledger's; everything else is that of the IO it was made from.

    Attributes:
        io: the IO of this process.
        ahead: seconds by which the ledger's clock is ahead of this process's; None: the ledger has none, and this one counts.
    """

    io: IO
    ahead: float | None

    def now(self) -> float:
        """Answer the ledger's wall clock in seconds since the epoch."""
        return self.io.now() + (self.ahead or 0.0)

    def monotonic(self) -> float:
        """Answer a clock in seconds that never jumps back."""
        return self.io.monotonic()

    async def call(self, fn: Callable[..., Any], *args: Any) -> Any:
        """Run a collaborator."""
        return await self.io.call(fn, *args)

    async def finish(self, work: Callable[[], None]) -> None:
        """Do work to its end."""
        await self.io.finish(work)

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await self.io.sleep(seconds)

    async def invoke(self, call: Any, attempt: Any, timeout: float | None) -> Any:
        """Run the tool of a call once."""
        return await self.io.invoke(call, attempt, timeout)

    async def commit(self, store: Any, command: Any, heard: Callable[[Any], None] | None = None) -> Any:
        """Hand a command to the ledger."""
        return await self.io.commit(store, command, heard)


async def ledger_time(store: RecoverableStore, io: IO) -> LedgerTime:
    """Ask the ledger for its time.

    Args:
        store: the ledger; one without `now` counts on the clock of this process.
        io: the IO of this process.

    Raises:
        StoreError: the ledger cannot be read.
    """
    tell = getattr(store, "now", None)
    if tell is None:
        return LedgerTime(io, None)
    before = io.now()
    told = float(await io.call(tell))
    return LedgerTime(io, told - (before + io.now()) / 2)
