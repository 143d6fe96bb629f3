"""What a guard offers to people and services about calls that were left open: recover, advance, resolve, and a background loop."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from fcguard.background import Background
from fcguard.config import Config
from fcguard.errors import ConfigurationError
from fcguard.io import IO
from fcguard.model.result import ToolResult
from fcguard.model.states import OPEN_STATES, CallState
from fcguard.reconcile.advance import advance_call, recover_calls, witness_of
from fcguard.reconcile.parked import Looks, When
from fcguard.reconcile.report import Recovery
from fcguard.reconcile.resolve import envelope_of, find_call, resolve_call
from fcguard.reconcile.takeover import recoverable
from fcguard.recovery.table import RecoveryTable
from fcguard.runtime import AsyncioIO, BlockingIO, drive

__all__ = ["Reconciler", "Recovering"]

_log: Final = logging.getLogger("fcguard.reconcile")


class Recovering:
    """The part of a guard that takes up calls which an earlier process left open."""

    _config: Config
    _io: BlockingIO
    _aio: AsyncioIO

    @property
    def evidence_dir(self) -> Path:
        """Where artifacts and logs of calls lie; `Evidence.ref` is a path below it."""
        return self._config.artifacts.root

    @property
    def recovery_table(self) -> RecoveryTable:
        """Which actions follow which failure."""
        return self._config.table

    def recover(self, *, wait: float = 30.0, assume_dead_after: float | None = None, parked: bool = False) -> Recovery:
        """Take up what earlier processes left open: write spooled outcomes, then confirm, send again, or park each open call.

        Call it when a service starts, with the tools registered. Calls that a living process works on are left alone, and so are
        those of tools that are not registered here: they are reported as not mine. A call of another version of a tool is left
        open and reported. Safe to run in several processes at once.

        Args:
            wait: most seconds to wait for settle windows that are not over. What is not due by then stays open, for the
                next recovery.
            assume_dead_after: seconds of silence after which an owner that cannot be proved dead (another host) counts as
                dead; None: never. A number accepts the risk that it is only cut off, and that its request lands too.
            parked: whether to ask the `confirm` of parked calls again. One whose effect is there is closed as confirmed; every
                other stays parked, and is never sent. Without it, a parked call is closed only by a late success that the ledger
                holds already.

        Returns:
            What was found and done; `print` shows it.

        Raises:
            ConfigurationError: a tool names a fallback or a confirmation that is not registered; nothing was done.
            StoreError: the ledger cannot be read or written.
            UsageError: the store cannot say who owns a call.
        """
        return drive(self._recovery(self._io, wait, assume_dead_after, "now" if parked else "late"))

    async def arecover(
        self, *, wait: float = 30.0, assume_dead_after: float | None = None, parked: bool = False
    ) -> Recovery:
        """Take up what earlier processes left open, from async code; see `recover`."""
        return await self._recovery(self._aio, wait, assume_dead_after, "now" if parked else "late")

    async def _recovery(
        self, io: IO, wait: float, assume_dead_after: float | None, parked: When, looks: Looks | None = None
    ) -> Recovery:
        self._config.tools.settle_all()
        return await recover_calls(
            self._config, io, wait=wait, assume_dead_after=assume_dead_after, parked=parked, looks=looks
        )

    def advance(self, request_id: str) -> ToolResult[Any]:
        """Go on with one call as far as it can go now. Re-entrant: whoever drives it may call this again and again.

        A call that has ended answers its stored envelope. A parked call is confirmed again; nothing else takes it up without
        a person. A call that a living process works on is left alone, and the answer says that it is pending.

        Args:
            request_id: which call.

        Raises:
            ConfigurationError: the call's tool names a fallback or a confirmation that is not registered; nothing was done.
            StoreError: the ledger cannot be read or written.
            UsageError: there is no such call, or the store cannot say who owns a call.
        """
        return drive(_advance(self._config, self._io, request_id))

    async def aadvance(self, request_id: str) -> ToolResult[Any]:
        """Go on with one call from async code; see `advance`."""
        return await _advance(self._config, self._aio, request_id)

    def resolve(self, request_id: str, *, applied: bool, by: str, reason: str) -> ToolResult[Any]:
        """Close an open call as a person decides who has looked: it was applied, or it was not.

        The decision is recorded with name and reason, and the effect key is free again.

        Args:
            request_id: which call; parked, or one that nobody works on.
            applied: whether its effect is in the system.
            by: who decides.
            reason: how they know; no secrets.

        Returns:
            The call's envelope: a success with `outcome_basis` `operator`, or a failure that was not applied.

        Raises:
            StoreError: the ledger did not take it, or somebody else moved the call meanwhile.
            UsageError: there is no such call, it has ended, was never sent, or a living process works on it.
        """
        return drive(_resolve(self._config, self._io, request_id, applied, by, reason))

    def reconciler(
        self,
        interval: float = 30.0,
        *,
        wait: float = 0.0,
        assume_dead_after: float | None = None,
        parked: bool = False,
    ) -> Reconciler:
        """Make a background loop that recovers every so often; use it in a `with` statement, or `start` and `stop` it.

        Args:
            interval: seconds between two recoveries; the first begins at once.
            wait: as for `recover`; what is not due yet is taken up by a later round.
            assume_dead_after: as for `recover`.
            parked: as for `recover`, but each parked call is asked about at most after a minute, then two, four, up to once a
                day; the ledger remembers when that was, for all processes.

        Raises:
            ConfigurationError: `interval` is not above zero, or a tool names a fallback or a confirmation that is not
                registered.
        """
        self._config.tools.settle_all()
        when: When = "due" if parked else "late"
        looks = Looks()
        return Reconciler(lambda: drive(self._recovery(self._io, wait, assume_dead_after, when, looks)), interval)


async def _advance(config: Config, io: IO, request_id: str) -> ToolResult[Any]:
    store = recoverable(config.store)
    await io.call(store.heartbeat)
    row = await io.call(find_call, store, request_id)
    if row.state not in OPEN_STATES:
        return envelope_of(row)
    if not config.tools.is_settled:
        config.tools.settle(config.tools.get(row.identity.tool))
    io, witness = await witness_of(store, io)
    if row.state is not CallState.PARKED and not witness.may_take(row, io.now()):
        return envelope_of(row)
    advanced = await advance_call(row, witness, config, io)
    if advanced.result is not None:
        result: ToolResult[Any] = advanced.result
        return result
    return envelope_of(await io.call(find_call, store, request_id))


async def _resolve(config: Config, io: IO, request_id: str, applied: bool, by: str, reason: str) -> ToolResult[Any]:
    io, witness = await witness_of(recoverable(config.store), io)
    return await resolve_call(config, io, witness, request_id, applied=applied, by=by, reason=reason)


class Reconciler:
    """Recovers every so often on a daemon thread. An error is logged and does not end it.

    Attributes:
        last: what the latest finished recovery found; None before the first.
    """

    def __init__(self, recover: Callable[[], Recovery], interval: float) -> None:
        if not interval > 0:
            raise ConfigurationError(f"reconciler(interval={interval!r}): give seconds above zero")
        self._recover = recover
        self.last: Recovery | None = None
        self._thread = Background(self._run, interval, "fcguard-reconciler")

    def start(self) -> Reconciler:
        """Begin; does nothing if it runs already. Returns itself."""
        self._thread.start()
        return self

    def stop(self, timeout: float | None = 30.0) -> bool:
        """End it after the recovery that is running, if one is.

        Args:
            timeout: most seconds to wait for that; None: as long as it takes.

        Returns:
            Whether it has ended.
        """
        return self._thread.stop(timeout)

    def __enter__(self) -> Reconciler:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _run(self) -> None:
        try:
            found = self._recover()
        except Exception as error:
            _log.warning("the recovery of open calls failed, and is tried again: %s: %s", type(error).__name__, error)
            return
        self.last = found
        for call in found.calls:
            if call.did not in ("waits", "left_open", "not_mine"):
                _log.info("%s", call)
