"""A disk under SQLite that logs every write and sync, can fail on demand, and can be cut off from power at any moment."""

from __future__ import annotations

import itertools
import random
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import apsw

SECTOR = 512
"""Bytes that a disk writes whole or not at all."""

_names = itertools.count()


class Disk(apsw.VFS):
    """Passes everything to the real file system and keeps the log.

    Attributes:
        log: what happened, in order: `(path, "create")`, `(path, "write", offset, data)`, `(path, "truncate", size)`,
            `(path, "sync")`, `(path, "delete", synced)`, and whatever the test adds.
        fault: called with the name of an operation before it; raises to make it fail.
    """

    def __init__(self) -> None:
        self.name = f"disk-{next(_names)}"
        self.log: list[tuple[Any, ...]] = []
        self.fault: Callable[[str], None] = lambda operation: None
        super().__init__(self.name, "unix")

    def xOpen(self, name: Any, flags: list[int]) -> _File:
        path = name.filename() if isinstance(name, apsw.URIFilename) else str(name)
        if not Path(path).exists():
            self.log.append((path, "create"))
        return _File(self, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        super().xDelete(filename, syncdir)
        self.log.append((filename, "delete", bool(syncdir)))

    def connect(self, path: str, **options: Any) -> Any:
        """Open a connection that looks like one of the `sqlite3` module; to be given to `SQLiteStore(connector=)`."""
        return _Connection(path, self.name, options.get("timeout", 5.0))

    def image(self, length: int, chance: random.Random) -> dict[str, bytes]:
        """Answer the files after power went off when the log had `length` entries.

        What was synced is there. Of every later write, each sector is there or not, by chance. A removed file may come
        back until its directory is synced, which SQLite does with the first sync of a new log or journal.
        """
        ghosts: dict[str, bytearray] = {}
        is_new: set[str] = set()
        durable: dict[str, bytearray] = {}
        pending: dict[str, list[tuple[Any, ...]]] = {}
        for path, operation, *rest in self.log[:length]:
            if operation == "create":
                is_new.add(path)
                ghosts.pop(path, None)
            elif operation in {"write", "truncate"}:
                pending.setdefault(path, []).append((operation, *rest))
            elif operation == "sync":
                for change in pending.pop(path, []):
                    _apply(durable.setdefault(path, bytearray()), change)
                if path in is_new and not path.endswith(".db"):
                    is_new.discard(path)
                    ghosts.clear()
            elif operation == "delete":
                pending.pop(path, None)
                ghosts[path] = durable.pop(path, bytearray())
                if rest[0]:
                    ghosts.clear()
        durable |= {path: content for path, content in ghosts.items() if chance.random() < 0.5}
        for path, changes in pending.items():
            for change in changes:
                for part in _sectors(change):
                    if chance.random() < 0.5:
                        _apply(durable.setdefault(path, bytearray()), part)
        return {path: bytes(content) for path, content in durable.items() if not path.endswith("-shm")}


def _apply(content: bytearray, change: tuple[Any, ...]) -> None:
    if change[0] == "truncate":
        del content[change[1] :]
        content.extend(bytes(change[1] - len(content)))
        return
    _, offset, data = change
    content.extend(bytes(max(0, offset + len(data) - len(content))))
    content[offset : offset + len(data)] = data


def _sectors(change: tuple[Any, ...]) -> Iterable[tuple[Any, ...]]:
    if change[0] == "truncate":
        return [change]
    _, offset, data = change
    return [("write", offset + start, data[start : start + SECTOR]) for start in range(0, len(data), SECTOR)]


class _File(apsw.VFSFile):
    def __init__(self, disk: Disk, name: Any, flags: list[int]) -> None:
        self._disk = disk
        self._path = name.filename() if isinstance(name, apsw.URIFilename) else str(name)
        super().__init__("unix", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:
        self._disk.fault("write")
        super().xWrite(data, offset)
        self._disk.log.append((self._path, "write", offset, bytes(data)))

    def xTruncate(self, size: int) -> None:
        self._disk.fault("truncate")
        super().xTruncate(size)
        self._disk.log.append((self._path, "truncate", size))

    def xSync(self, flags: int) -> None:
        self._disk.fault("sync")
        super().xSync(flags)
        self._disk.log.append((self._path, "sync"))


class _Connection:
    """The part of `sqlite3.Connection` that the store uses, over apsw."""

    def __init__(self, path: str, vfs: str, timeout: float) -> None:
        with _translated():
            self._connection = apsw.Connection(path, vfs=vfs)
            self._connection.set_busy_timeout(int(timeout * 1000))

    def execute(self, sql: str, parameters: Any = ()) -> _Cursor:
        with _translated():
            rows = list(self._connection.execute(sql, parameters))
            return _Cursor(rows, self._connection.last_insert_rowid(), self._connection.changes())

    def executemany(self, sql: str, rows: Any) -> None:
        for row in rows:
            self.execute(sql, row)

    @property
    def in_transaction(self) -> bool:
        return self._connection.in_transaction

    def close(self) -> None:
        with _translated():
            self._connection.close()


class _Cursor:
    def __init__(self, rows: list[Any], lastrowid: int, rowcount: int) -> None:
        self._rows, self.lastrowid, self.rowcount = rows, lastrowid, rowcount

    def fetchone(self) -> Any:
        return self._rows[0] if self._rows else None

    def fetchall(self) -> list[Any]:
        return self._rows

    def __iter__(self) -> Iterator[Any]:
        return iter(self._rows)


class _translated:
    """Raise apsw's errors as those of the `sqlite3` module."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if isinstance(error, apsw.Error):
            code = getattr(error, "extendedresult", 1)
            family = sqlite3.IntegrityError if isinstance(error, apsw.ConstraintError) else sqlite3.OperationalError
            translated = family(str(error))
            translated.sqlite_errorcode = code
            raise translated from error


def write_image(image: dict[str, bytes], directory: Path) -> None:
    """Write the files of an image into a directory."""
    directory.mkdir()
    for path, content in image.items():
        (directory / Path(path).name).write_bytes(content)
