"""Keep outcomes that the ledger could not take in synced files beside it, until it can."""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final, TypeAlias

from fcguard.errors import StoreError, StoreUnavailable
from fcguard.model.states import CallState
from fcguard.stores.base import Accepted, Answer, Enter, Event, Identity, Move, Note, Stale, StoredEvent
from fcguard.stores.canonical import decode, encode
from fcguard.stores.payload import body_of
from fcguard.stores.recoverable import Drained

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows, where a double drain can at worst append a note twice
    fcntl = None  # type: ignore[assignment]

__all__ = ["Spool", "Spoolable"]

Spoolable: TypeAlias = Move | Note | Enter
"""What happened already and must not be lost. An `Open` is a question: if it cannot be written, nothing may be sent."""

_FORMAT: Final = "fcguard.spool.v1"
_SUFFIX: Final = ".json"


class Spool:
    """A directory with one file for each waiting command. Several processes may share it.

    Args:
        directory: where the files go; made when the first one is kept.
    """

    def __init__(self, directory: str | os.PathLike[str]) -> None:
        self.directory = Path(directory)

    def keep(self, command: Spoolable) -> None:
        """Write a command to a file of its own; it is on the disk when this returns.

        Raises:
            StoreError: it is no outcome, cannot be written as JSON, or the disk does not take it.
        """
        data = _to_bytes(command)
        name = f"{time.time_ns():020d}-{secrets.token_hex(4)}{_SUFFIX}"
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            _write_synced(self.directory / f"{name}.part", data)
            (self.directory / f"{name}.part").rename(self.directory / name)
            _sync_directory(self.directory)
            _sync_directory(self.directory.parent)
        except OSError as error:
            raise StoreUnavailable(
                f"the outcome of {_request_id(command)!r} could not be spooled to {str(self.directory)!r}: {error}; "
                "make the directory writable and free space"
            ) from error

    def waiting(self) -> list[Path]:
        """Answer the files to drain, oldest first."""
        try:
            return sorted(path for path in self.directory.iterdir() if path.suffix == _SUFFIX)
        except OSError:
            return []

    def drain(
        self, write: Callable[[Spoolable], Answer | BaseException], events: Callable[[str], Iterable[StoredEvent]]
    ) -> Drained:
        """Write the waiting commands, oldest first, and remove each file once its command is in the ledger.

        Args:
            write: makes one command durable and answers it.
            events: answers the events of a call that the ledger holds.
        """
        outcome = {"applied": 0, "known": 0, "noted": 0}
        failed: dict[str, str] = {}
        with _alone(self.directory) as is_alone:
            for path in self.waiting() if is_alone else ():
                try:
                    outcome[_apply(_from_bytes(path.read_bytes()), write, events)] += 1
                    path.unlink()
                except StoreUnavailable as error:
                    failed[path.name] = str(error)
                    break  # the ledger is away again; the rest waits
                except (StoreError, OSError) as error:
                    failed[path.name] = str(error)
        return Drained(**outcome, failed=failed)


def _apply(
    command: Spoolable,
    write: Callable[[Spoolable], Answer | BaseException],
    events: Callable[[str], Iterable[StoredEvent]],
) -> str:
    """Write one command and answer what became of it."""
    request_id, body = _request_id(command), decode(encode(command.event.payload))
    for stored in events(request_id):
        # An earlier drain, or a commit whose answer was lost, may have written it.
        if (stored.kind, stored.at) == (command.event.kind, command.event.at) and body_of(stored) == body:
            return "known"
    answer = write(command)
    if isinstance(answer, Stale):
        answer, became = write(Note(request_id, command.event)), "noted"
    else:
        became = "applied"
    if isinstance(answer, BaseException):
        raise answer
    assert isinstance(answer, Accepted), answer
    return became


def _request_id(command: Spoolable) -> str:
    return command.identity.request_id if isinstance(command, Enter) else command.request_id


def _to_bytes(command: Spoolable) -> bytes:
    if not isinstance(command, Move | Note | Enter):
        raise StoreError(f"{type(command).__name__} is no outcome; refuse the call instead of spooling it")
    fields: dict[str, Any] = {"format": _FORMAT, "command": type(command).__name__, "event": _event(command.event)}
    if isinstance(command, Enter):
        fields |= {"identity": asdict(command.identity), "state": command.state, "attempt": command.attempt}
        fields["result"] = command.result
    elif isinstance(command, Move):
        names = ("request_id", "version", "state", "attempt", "result", "next_at", "settle_until")
        fields |= {name: getattr(command, name) for name in names}
    else:
        fields["request_id"] = command.request_id
    return encode(fields)


def _event(event: Event) -> Mapping[str, Any]:
    return {"kind": event.kind, "at": event.at, "payload": event.payload}


def _from_bytes(data: bytes) -> Spoolable:
    fields = decode(data)
    if not isinstance(fields, dict) or fields.pop("format", None) != _FORMAT:
        raise StoreError("is no spooled command of this version of fcguard; keep the file and look at it")
    try:
        kind, event = fields.pop("command"), Event(**fields.pop("event"))
        if kind == "Note":
            return Note(event=event, **fields)
        state = CallState(fields.pop("state"))
        if kind == "Move":
            return Move(event=event, state=state, **fields)
        return Enter(identity=Identity(**fields.pop("identity")), state=state, event=event, **fields)
    except (TypeError, ValueError, KeyError) as error:
        raise StoreError(f"is no whole spooled command ({error}); keep the file and look at it") from error


def _write_synced(path: Path, data: bytes) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except OSError:
        path.unlink(missing_ok=True)
        raise


def _sync_directory(path: Path) -> None:
    if os.name == "nt":  # pragma: no cover
        return  # a directory cannot be opened there, and its entries are journaled
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def _alone(directory: Path) -> Iterator[bool]:
    """Hold the spool's lock, so that two processes do not write one command twice; False if another one drains now."""
    if fcntl is None or not directory.is_dir():
        yield directory.is_dir()
        return
    handle = os.open(directory, os.O_RDONLY)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
            return
        yield True
    finally:
        os.close(handle)
