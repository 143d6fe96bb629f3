"""Let one process at a time write to a SQLite ledger and fold its log.

SQLite orders writers itself. But up to 3.51.2 it can damage a file when one process folds the log while another commits
(https://www.sqlite.org/wal.html#walresetbug), and most systems still ship such a version. A lock around each transaction,
and the folding at its end, keeps the two apart.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from fcguard.errors import StoreUnavailable
from fcguard.stores.patience import Patience

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows: there SQLite's own order must do
    fcntl = None  # type: ignore[assignment]

__all__ = ["FileLock"]


class FileLock:
    """A lock that ends with the process that holds it; a file beside the ledger stands for it.

    Args:
        path: the ledger's file.
        patience: how long to wait for another process.
    """

    def __init__(self, path: str, patience: Patience) -> None:
        self._path, self._name, self._patience = f"{path}-lock", path, patience
        self._handle: int | None = None

    @contextmanager
    def held(self, until: float) -> Iterator[None]:
        """Hold the lock for as long as the block lasts.

        Args:
            until: what `Patience.begin` answered.

        Raises:
            StoreUnavailable: another process did not let go in time, or the file cannot be made.
        """
        if fcntl is None:  # pragma: no cover - Windows
            yield
            return
        handle = self._open()
        self._acquire(handle, until)
        try:
            yield
        finally:
            fcntl.flock(handle, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close the file."""
        handle, self._handle = self._handle, None
        if handle is not None:
            os.close(handle)

    def _open(self) -> int:
        if self._handle is None:
            try:
                self._handle = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)
            except OSError as error:
                raise StoreUnavailable(
                    f"the ledger {self._name!r} did not take the record: {error}; make the directory writable"
                ) from error
        return self._handle

    def _acquire(self, handle: int, until: float) -> None:
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                if not self._patience.pause(until):
                    raise StoreUnavailable(
                        f"the ledger {self._name!r} did not take the record: another process holds it; raise busy_timeout "
                        "or look for a stuck writer"
                    ) from None
