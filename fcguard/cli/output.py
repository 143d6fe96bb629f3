"""How commands speak: exit codes, error lines, tables for people and JSON for programs."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import IntEnum
from typing import Any

import typer

from fcguard.cli.pipe import READER_LEFT
from fcguard.errors import FcguardError, StoreError
from fcguard.telemetry.tree import TraceFileError

__all__ = ["Exit", "clean", "print_json", "print_table", "reporting", "say"]


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
    """Turn what goes wrong into a message on stderr (one line, where the fault itself has one) and an exit code."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        # Said as an OSError, it would be a fault of a file; nobody is there to be told.
        raise SystemExit(READER_LEFT) from None
    except (StoreError, TraceFileError, OSError) as error:
        # MissingExtraError is an ImportError, not an OSError.
        _fail(error, Exit.UNREADABLE)
    except FcguardError as error:
        _fail(error, Exit.USAGE)


def _fail(error: BaseException, code: Exit) -> None:
    print("\n  ".join(map(clean, f"fcguard: {error}".splitlines())), file=sys.stderr)
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
