"""Let one process at a time write to a SQLite ledger and fold its log.

SQLite orders writers itself. But up to 3.51.2 it can damage a file when one process folds the log while another commits
(https://www.sqlite.org/wal.html#walresetbug), and most systems still ship such a version. A lock around each transaction,
and the folding at its end, keeps the two apart.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from fcguard.errors import StoreUnavailable
from fcguard.stores.patience import Patience

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows: there SQLite's own order must do
    fcntl = None  # type: ignore[assignment]

__all__ = ["FileLock"]

_MARK: Final = b"fcguard.reached.v1 "
_MOST: Final = len(_MARK) + 1 + 255 + 4
"""Bytes of the file that a record can take, with its length before and its checksum behind it."""


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

    def note(self, record: bytes) -> None:
        """Write a short record into the lock's file, for whoever holds the lock later; it is not synced.

        The record may be lost with the machine, or be older than the ledger; it is never newer than what is on the disk.
        """
        if self._handle is not None and fcntl is not None:
            data = b"%s%c%s%s" % (_MARK, len(record), record, zlib.crc32(record).to_bytes(4, "big"))
            with suppress(
                OSError
            ):  # the ledger has taken what it is about; a full disk must not turn that into a failure
                os.pwrite(self._handle, data, 0)

    def noted(self) -> bytes | None:
        """Answer the record that was noted last, or None if there is none that is whole."""
        try:
            with Path(self._path).open("rb") as file:
                data = file.read(_MOST)
        except OSError:
            return None
        start = len(_MARK) + 1
        if len(data) < start or not data.startswith(_MARK):
            return None
        end = start + data[start - 1]
        record = data[start:end]
        return record if zlib.crc32(record).to_bytes(4, "big") == data[end : end + 4] else None

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
