"""One door to every importer: `read_trace(path)` finds out the format, streams the sessions, and notes what it could not read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, Final

from fcguard.errors import UsageError
from fcguard.evaluation.importers import ledger, openai_messages, otlp_genai, tau2, tau_bench, tool_chain, tool_list
from fcguard.evaluation.importers.options import ImportOptions
from fcguard.evaluation.importers.stream import iter_values
from fcguard.evaluation.trace import Run, Session, UnreadLog

__all__ = ["FORMATS", "Importer", "detect_format", "read_records", "read_trace"]


@dataclass(frozen=True, slots=True)
class Importer:
    """One format: how to recognise a first value, and how to read them all."""

    recognises: Callable[[Any], bool]
    read: Callable[[Iterable[tuple[str, Any]], UnreadLog, ImportOptions], Iterator[Session]]


FORMATS: Final[dict[str, Importer]] = {
    "tau_bench": Importer(tau_bench.recognises, tau_bench.read),
    "tau2": Importer(tau2.recognises, tau2.read),
    "otlp_genai": Importer(otlp_genai.recognises, otlp_genai.read),
    "ledger": Importer(ledger.recognises, ledger.read),
    "openai_messages": Importer(openai_messages.recognises, openai_messages.read),
    "tool_chain": Importer(tool_chain.recognises, tool_chain.read),
    "tool_list": Importer(tool_list.recognises, tool_list.read),
}
"""Name -> importer, the most telling shape first: a file is read by the first that recognises its first value."""


def detect_format(values: Iterable[Any]) -> str | None:
    """Answer the first format that recognises one of the first values of a trace; None if none does."""
    for value in values:
        for name, importer in FORMATS.items():
            if importer.recognises(value):
                return name
    return None


class _Sessions:
    """Sessions of a file, read anew each time they are asked for."""

    def __init__(self, path: Path, importer: Importer, unread: UnreadLog, options: ImportOptions) -> None:
        self._path, self._importer, self._unread, self._options = (path, importer, unread, options)

    def __iter__(self) -> Iterator[Session]:
        self._unread.count = 0
        self._unread.first.clear()
        return self._importer.read(iter_values(self._path, self._unread), self._unread, self._options)


def read_trace(path: str | Path, format: str | None = None, *, options: ImportOptions | None = None) -> Run:
    """Open a trace of any known format.

    Nothing but the first values is read yet: iterate the run to stream its sessions; it can be iterated again. What could
    not be read is in `run.unread` once it has been read to the end.

    Args:
        path: JSON, JSON Lines, or the SQLite file of a ledger.
        format: a name of `FORMATS`; None: found out from the first values.
        options: what the trace does not say itself.

    Returns:
        The run.

    Raises:
        UsageError: the file cannot be opened, the name is unknown, or no format fits (the message lists the formats); or it is
            the URL of a ledger, which `fcguard.testing.ledger_trace.open_trace` opens.
    """
    if isinstance(path, str) and "://" in path:
        raise UsageError(
            "the trace is the URL of a ledger; open it with fcguard.testing.ledger_trace.open_trace(url), or name its SQLite file"
        )
    path = Path(path)
    name = format or detect_format(value for _, value in islice(iter_values(path, UnreadLog()), 5))
    if name is None:
        known = ", ".join(sorted(FORMATS))
        raise UsageError(f"trace {str(path)!r}: no known format fits its first values; name one of {known}")
    importer = _importer(name)
    unread = UnreadLog()
    sessions = _Sessions(path, importer, unread, options or ImportOptions())
    return Run(sessions, source=path.name, format=name, unread=unread)


def _importer(name: str) -> Importer:
    if name not in FORMATS:
        raise UsageError(f"unknown trace format {name!r}; known: {', '.join(sorted(FORMATS))}")
    return FORMATS[name]


def read_records(records: Iterable[Any], format: str = "ledger", *, options: ImportOptions | None = None) -> Run:
    """Read a run from values that are in memory or come from a generator; such a run can be iterated once.

    Args:
        records: values of the format, e.g. dicts of a ledger.
        format: a name of `FORMATS`.
        options: what the records do not say themselves.

    Raises:
        UsageError: the name is unknown.
    """
    importer, unread = _importer(format), UnreadLog()
    values = ((f"record {number}", value) for number, value in enumerate(records, 1))
    return Run(importer.read(values, unread, options or ImportOptions()), source="", format=format, unread=unread)
