"""How commands speak: exit codes, error lines, tables for people and JSON for programs."""

from __future__ import annotations

import datetime as dt
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import IntEnum
from typing import Any, Final

import typer

from fcguard.errors import FcguardError, StoreError, UsageError
from fcguard.telemetry.tree import TraceFileError

__all__ = ["Exit", "clean", "moment", "print_json", "print_table", "reporting", "say", "seconds_of", "when"]


class Exit(IntEnum):
    """What the exit code of a command says."""

    OK = 0
    FINDING = 1
    """A record does not hold, or a call needs somebody."""
    USAGE = 2
    UNREADABLE = 3
    """The ledger or a file cannot be read or written."""


@contextmanager
def reporting() -> Iterator[None]:
    """Turn what goes wrong into one line on stderr and an exit code."""
    try:
        yield
    except (StoreError, TraceFileError, OSError) as error:
        # MissingExtraError is an ImportError, not an OSError.
        _fail(error, Exit.UNREADABLE)
    except FcguardError as error:
        _fail(error, Exit.USAGE)


def _fail(error: BaseException, code: Exit) -> None:
    print(clean(f"fcguard: {error}"), file=sys.stderr)
    raise typer.Exit(code) from None


def say(text: str) -> None:
    """Print a text for people, without what could steer the terminal."""
    print("\n".join(map(clean, text.split("\n"))))


def clean(text: str) -> str:
    """Answer a line in which every character can be printed."""
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)


def print_json(value: Any) -> None:
    """Print a value as one line of JSON."""
    print(json.dumps(value, ensure_ascii=False, default=str))


def print_table(headers: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """Print rows: a drawn table in a terminal, aligned columns elsewhere."""
    cells = [[clean("" if cell is None else str(cell)) for cell in row] for row in rows]
    if not (sys.stdout.isatty() and _draw(headers, cells)):
        widths = [max(len(line[column]) for line in (headers, *cells)) for column in range(len(headers))]
        for line in (headers, *cells):
            print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def _draw(headers: Sequence[str], cells: Sequence[Sequence[str]]) -> bool:
    """Draw a table for a terminal; answer whether that was possible: it is nicer with rich, and works without."""
    try:
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text
    except ModuleNotFoundError:
        return False
    table = Table(*headers, box=None, header_style="bold", pad_edge=False)
    for row in cells:
        table.add_row(*map(Text, row))
    Console(highlight=False).print(table)
    return True


def when(at: float | None) -> str:
    """Answer a wall clock as UTC text."""
    return "" if at is None else dt.datetime.fromtimestamp(at, dt.UTC).strftime("%Y-%m-%d %H:%M:%S")


_UNITS: Final[Mapping[str, float]] = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}
_SPAN: Final = re.compile(r"(\d+(?:\.\d+)?)([smhdw])")


def seconds_of(text: str) -> float:
    """Read a span of time: `90s`, `15m`, `2h`, `30d`, `4w`.

    Raises:
        UsageError: it is something else.
    """
    match = _SPAN.fullmatch(text.strip())
    if match is None:
        raise UsageError(f"{text!r} is no span of time; write a number and s, m, h, d or w, as in 30d")
    return float(match[1]) * _UNITS[match[2]]


def moment(text: str | None, now: float) -> float | None:
    """Read a moment: an ISO date or time (UTC unless it says otherwise), or a span of time before now.

    Raises:
        UsageError: it is neither.
    """
    if text is None:
        return None
    if _SPAN.fullmatch(text.strip()):
        return now - seconds_of(text)
    try:
        read = dt.datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"{text!r} is no moment; write 2026-01-30, 2026-01-30T12:00, or a span such as 2h") from None
    return (read if read.tzinfo is not None else read.replace(tzinfo=dt.UTC)).timestamp()
