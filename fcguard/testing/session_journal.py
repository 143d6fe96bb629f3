"""The journal of a suite run: one line of JSON for each finished session, durable before the next begins."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

from fcguard.errors import UsageError
from fcguard.testing.suite import Suite

__all__ = ["SessionJournal"]


class SessionJournal:
    """Sessions of one suite, in memory and, if it has a path, in a file that is a trace at any moment.

    Args:
        path: the file; None: memory only. Sessions that it holds already are taken over; a last line that was cut off by
            a crash is removed.
        suite: whose sessions they are.
        resume: whether to take sessions over; False: an existing file is refused.

    Raises:
        UsageError: the file belongs to another suite or other prompts, cannot be read, or is there and must not be resumed.
    """

    def __init__(self, path: Path | None, suite: Suite, *, resume: bool = True) -> None:
        self.path, self._suite = path, suite
        self._lines: dict[tuple[str, int], dict[str, Any]] = {}
        self._lock = threading.Lock()
        if path is None:
            return
        try:
            if path.exists():
                self._take_over(path, resume)
            else:
                path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UsageError(f"journal {str(path)!r} cannot be used: {error}") from error

    def _take_over(self, path: Path, resume: bool) -> None:
        content = path.read_bytes()
        whole = content[: content.rfind(b"\n") + 1]
        if whole and not resume:
            raise UsageError(f"journal {str(path)!r} holds sessions already; resume it, or name another file")
        for number, text in enumerate(whole.splitlines(), 1):
            if text.strip():
                self._keep(self._read(text, f"{path}, line {number}"))
        if whole != content:
            os.truncate(path, len(whole))

    def _read(self, text: bytes, where: str) -> dict[str, Any]:
        try:
            line = json.loads(text)
            suite, prompts, _ = line["suite"], line["prompts"], (line["task_id"], int(line["trial"]))
        except (ValueError, KeyError, TypeError) as error:
            raise UsageError(
                f"journal {where}: no session of a suite ({type(error).__name__}); name another file"
            ) from error
        if (suite, prompts) != (self._suite.name, self._suite.gold.prompt_set_hash):
            raise UsageError(
                f"journal {where}: belongs to suite {suite!r} with prompts {prompts!r}, not to {self._suite.name!r} "
                f"with {self._suite.gold.prompt_set_hash!r}; name another file"
            )
        return line  # type: ignore[no-any-return]

    def _keep(self, line: dict[str, Any]) -> None:
        self._lines[line["task_id"], int(line["trial"])] = line

    def __contains__(self, session: tuple[str, int]) -> bool:
        return session in self._lines

    def __len__(self) -> int:
        return len(self._lines)

    @property
    def lines(self) -> list[dict[str, Any]]:
        """The finished sessions, by the order of the suite's prompts and trial."""
        order = {task_id: at for at, task_id in enumerate(self._suite.prompts)}
        with self._lock:
            return sorted(
                self._lines.values(), key=lambda line: (order.get(line["task_id"], len(order)), line["trial"])
            )

    def add(self, line: dict[str, Any]) -> None:
        """Keep a finished session; it is on the disk when this returns."""
        text = json.dumps(line, ensure_ascii=False, allow_nan=False, default=str) + "\n"
        with self._lock:
            if self.path is not None:
                with self.path.open("ab") as stream:
                    stream.write(text.encode("utf-8", "backslashreplace"))
                    stream.flush()
                    os.fsync(stream.fileno())
            self._keep(json.loads(text))
