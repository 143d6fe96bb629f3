"""Print the spans of a file as trees."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from fcguard.cli.output import reporting
from fcguard.telemetry.terminal import print_spans
from fcguard.telemetry.tree import TraceFileError, read_spans

__all__ = ["add_to"]


def add_to(app: typer.Typer) -> None:
    """Add the commands of this group."""
    app.command("trace")(print_trace)


def print_trace(
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="OTLP JSON lines, as telemetry.setup(jsonl_path=...) writes.")
    ],
) -> None:
    """Print spans as trees, one line a span."""
    with reporting():
        spans = read_spans(file)
        if not spans:
            raise TraceFileError(f"{str(file)!r} holds no spans")
        print_spans(spans, sys.stdout)
