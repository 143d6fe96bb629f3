"""Keep the log lines that are written during a governed call as evidence of that call."""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from fcguard.model.call_info import CURRENT
from fcguard.model.evidence import Evidence
from fcguard.model.secrets import Redactor
from fcguard.telemetry.content import redactor_of

if TYPE_CHECKING:
    import os

    from fcguard.model.call import Call
    from fcguard.model.call_info import CallInfo

__all__ = ["LogCapture", "log_path"]

_UNSAFE: Final = re.compile(r"[^A-Za-z0-9._-]")
_CUT: Final = b"[log cut here: it is larger than the limit]\n"
_OWN: Final = ("fcguard", "fcguard.telemetry")


def log_path(tool: str, request_id: str) -> str:
    """Answer where the lines of a call lie below the evidence directory.

    Args:
        tool: name of the tool; characters that mean something to a file system are replaced.
        request_id: id of the call, treated alike.
    """
    return f"logs/{_safe(tool)}/{_safe(request_id)}.log"


def _safe(name: str) -> str:
    safe = _UNSAFE.sub("_", name)[:120]
    return "_" + safe if safe.startswith(".") or not safe else safe


class _Writer:
    """The open log of one running call."""

    __slots__ = ("file", "is_cut", "redactor", "ref", "size")

    def __init__(self, root: Path, path: Path, redactor: Redactor) -> None:
        self.redactor = redactor
        self.ref = path.relative_to(root).as_posix()
        path.parent.mkdir(parents=True, exist_ok=True)
        self.file: BinaryIO = path.open("ab", buffering=0)
        self.size = self.file.tell()
        self.is_cut = False

    def write(self, line: bytes, limit: int) -> None:
        if self.is_cut:
            return
        if self.size + len(line) > limit:
            line, self.is_cut = _CUT, True
        self.file.write(line)
        self.size += len(line)


class LogCapture(logging.Handler):
    """Writes each line of a running call to `logs/<tool>/<request_id>.log`, secrets masked.

    It hears what goes through stdlib `logging`, structlog's lines included where structlog hands them there; for a
    structlog that prints by itself put `capture.structlog_processor` into its chain. Lines outside a call are left
    alone, as are lines of threads that the call's context does not follow. Lines that an abandoned function writes
    after the end of its call go to `<request_id>.late.log`, so that what was recorded stays as it is.

    A line that cannot be written is dropped and counted; it never breaks the call.

    Args:
        directory: the evidence directory.
        level: least level that is kept, a number or name of `logging`.
        place: answers the evidence directory of a call and the file in it, or None for a call that is not to be heard;
            None: `logs/<tool>/<request_id>.log` below `directory`, for every call.
        max_bytes: largest log of one call; it ends with a note then.
        redactor: masks secrets beside the call's own redactor.

    Attributes:
        dropped: how many lines could not be written.
    """

    def __init__(
        self,
        directory: str | os.PathLike[str],
        *,
        place: Callable[[CallInfo], tuple[Path, Path] | None] | None = None,
        level: int | str = logging.DEBUG,
        max_bytes: int = 1 << 20,
        redactor: Redactor | None = None,
    ) -> None:
        super().__init__(level)
        root = Path(directory)
        self._place = place or (lambda info: (root, root / log_path(info.tool_name, info.request_id)))
        self._limit = max_bytes - len(_CUT)
        self._redactor = redactor or Redactor()
        self._writers: dict[str, _Writer] = {}
        self._busy = threading.local()
        self._loggers: list[logging.Logger] = []
        self.dropped = 0

    def install(self, logger: logging.Logger | None = None) -> Callable[[], None]:
        """Start to listen.

        The level of the logger is left as it is: a line that the logger drops is not heard.

        Args:
            logger: where to listen; None: the root logger.

        Returns:
            A function that stops it again; `close` does so, too.
        """
        target = logging.getLogger() if logger is None else logger
        target.addHandler(self)
        self._loggers.append(target)
        return lambda: target.removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a record, if a governed call runs here."""
        if CURRENT.get() is None or record.name in _OWN:
            return
        try:
            text = record.getMessage()
            if record.exc_info:
                text = f"{text}\n{(self.formatter or _PLAIN).formatException(record.exc_info)}"
            self._keep(record.created, record.levelname, record.name, text)
        except Exception:
            self.dropped += 1

    def structlog_processor(self, _: Any, method: str, event: Any) -> Any:
        """Keep an event of structlog, and hand it on unchanged; put it before the renderer."""
        if CURRENT.get() is not None and isinstance(event, dict):
            try:
                level = logging.getLevelName(method.upper())
                if not isinstance(level, int) or level >= self.level:
                    rest = " ".join(f"{key}={value!r}" for key, value in event.items() if key != "event")
                    with self.lock or _NO_LOCK:
                        text = f"{event.get('event', '')} {rest}".rstrip()
                        self._keep(time.time(), method.upper(), str(event.get("logger", "structlog")), text)
            except Exception:
                self.dropped += 1
        return event

    def take(self, call: Call) -> Evidence | None:
        """Close the log of a call that is over.

        Call it before the envelope is made.

        Args:
            call: the call.

        Returns:
            The reference for `call.attach`; None if nothing was written.
        """
        with self.lock or _NO_LOCK:
            writer = self._writers.pop(call.request_id, None)
            if writer is None:
                return None
            writer.file.close()
        return Evidence("log", writer.ref, media_type="text/plain", size=writer.size)

    def close(self) -> None:
        """Stop to listen, and close every open log."""
        for logger in self._loggers:
            logger.removeHandler(self)
        self._loggers.clear()
        with self.lock or _NO_LOCK:
            for writer in self._writers.values():
                writer.file.close()
            self._writers.clear()
        super().close()

    def _keep(self, created: float, level: str, logger: str, text: str) -> None:
        info = CURRENT.get()
        if info is None or getattr(self._busy, "is_set", False):
            return
        self._busy.is_set = True  # masking or writing must not log into itself
        try:
            writer = self._writer(info)
            if writer is None:
                return
            stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(created)) + f".{int(created % 1 * 1000):03d}Z"
            masked = self._redactor.text(writer.redactor.text(text))
            line = f"{stamp} {level} {logger} [{info.attempt}] {masked}\n"
            writer.write(line.encode("utf-8", "backslashreplace"), self._limit)
        finally:
            self._busy.is_set = False

    def _writer(self, info: CallInfo) -> _Writer | None:
        writer = self._writers.get(info.request_id)
        if writer is not None:
            return writer
        place = self._place(info)
        if place is None:
            return None
        root, path = place
        if path.exists():  # it was taken already, or the call has been resumed
            return _Once(root, path.with_name(f"{path.stem}.late.log"), redactor_of(info.call))
        writer = self._writers[info.request_id] = _Writer(root, path, redactor_of(info.call))
        return writer


class _Once(_Writer):
    """A log that is closed after one line."""

    __slots__ = ()

    def write(self, line: bytes, limit: int) -> None:
        with self.file:
            super().write(line, limit)


_PLAIN: Final = logging.Formatter()
_NO_LOCK: Final = threading.RLock()
