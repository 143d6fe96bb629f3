"""A ledger that fails on demand, around a real one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any, Final

from fcguard.errors import StoreUnavailable
from fcguard.model.states import TERMINAL_STATES
from fcguard.stores.base import CallQuery, Command, Done, Enter, Move, Open, Store, StoredCall, StoredEvent

__all__ = ["FaultyStore"]

_EVERYTHING: Final = CallQuery()


class FaultyStore:
    """Passes everything on to a real ledger, except what it was told to lose.

    Args:
        store: the real ledger; everything else of its interface is reachable through this object.
    """

    def __init__(self, store: Store) -> None:
        self.inner = store
        self._faults: list[tuple[str, str, Callable[[], bool]]] = []
        self._tools: dict[str, str] = {}
        self._lock = threading.Lock()

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def get(self, request_id: str) -> StoredCall | None:
        """Answer the row of a call; see `Store.get`."""
        return self.inner.get(request_id)

    def events(self, *, request_id: str | None = None, task_id: str | None = None) -> Iterator[StoredEvent]:
        """Yield events; see `Store.events`."""
        return self.inner.events(request_id=request_id, task_id=task_id)

    def calls(self, query: CallQuery = _EVERYTHING) -> Iterator[StoredCall]:
        """Yield calls; see `Store.calls`."""
        return self.inner.calls(query)

    def close(self) -> None:
        """Close the real ledger."""
        self.inner.close()

    def fail(self, tool: str, fault: str, strikes: Callable[[], bool]) -> Callable[[], None]:
        """Have commands about a tool's calls refused.

        Args:
            tool: name of the tool.
            fault: `evidence_write_failure`: the intent of a write, or the whole of a read; `evidence_lost`: how a write ended.
            strikes: asked for each such command.

        Returns:
            What takes the fault out again.
        """
        entry = (tool, fault, strikes)
        with self._lock:
            self._faults.append(entry)

        def undo() -> None:
            with self._lock:
                self._faults.remove(entry)

        return undo

    def submit(self, command: Command, done: Done) -> None:
        """Take a command, or refuse it as a full disk would; see `Store.submit`."""
        with self._lock:
            if isinstance(command, Open):
                self._tools[command.identity.request_id] = command.identity.tool
            is_lost = bool(self._faults) and self._is_lost(command)
        if is_lost:
            done(StoreUnavailable("injected: the ledger did not take the record"))
            return
        self.inner.submit(command, done)

    def _is_lost(self, command: Command) -> bool:
        tool, kind = self._about(command)
        return any(tool == name and kind == fault and strikes() for name, fault, strikes in self._faults)

    def _about(self, command: Command) -> tuple[str | None, str]:
        if isinstance(command, (Open, Enter)):
            return command.identity.tool, "evidence_write_failure"
        if isinstance(command, Move) and command.state in TERMINAL_STATES:
            return self._tools.pop(command.request_id, None), "evidence_lost"
        return None, ""
