"""Let nobody use a connection while the process forks."""

from __future__ import annotations

import threading
from types import TracebackType

__all__ = ["Gate"]


class Gate:
    """A door that many may be inside of at once (`with gate:`), until somebody shuts it and waits for them to leave."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside = 0
        self._is_shut = False

    def __enter__(self) -> None:
        with self._changed:
            while self._is_shut:
                self._changed.wait()
            self._inside += 1

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._changed:
            self._inside -= 1
            self._changed.notify_all()

    def shut(self) -> None:
        """Let nobody in any more, and wait until everybody has left."""
        with self._changed:
            self._is_shut = True
            while self._inside:
                self._changed.wait()

    def open(self) -> None:
        """Let them in again."""
        with self._changed:
            self._is_shut = False
            self._changed.notify_all()
