"""Progress of a long run: a bar where rich is installed and somebody watches, plain lines elsewhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, Any, Literal, TypeAlias

__all__ = ["Advance", "ProgressStyle", "show_progress"]

ProgressStyle: TypeAlias = Literal["auto", "bar", "lines", "none"]
Advance: TypeAlias = Callable[[str], None]
"""Called once for each thing that is finished, with a few words about it."""


@contextmanager
def show_progress(
    title: str, total: int | None, *, done: int = 0, style: ProgressStyle = "auto", stream: IO[str] | None = None
) -> Iterator[Advance]:
    """Show how far a run is.

    Args:
        title: what is running.
        total: how many things there are; None: not known.
        done: how many were finished before.
        style: `bar` (falls back to `lines` without rich), `lines`, `none`, or `auto`: a bar on a terminal, lines elsewhere.
        stream: where to; default: standard error.
    """
    stream = stream if stream is not None else sys.stderr
    if style == "auto":
        style = "bar" if stream.isatty() else "lines"
    if style == "bar":
        bar = _bar(title, total, done, stream)
        if bar is not None:
            with bar[0]:
                yield bar[1]
            return
    if style == "none":
        yield lambda words: None
        return
    count = [done]

    def advance(words: str) -> None:
        count[0] += 1
        of = "" if total is None else f"/{total}"
        print(f"{title}: {count[0]}{of} {words}".rstrip(), file=stream, flush=True)

    yield advance


def _bar(title: str, total: int | None, done: int, stream: IO[str]) -> tuple[Any, Advance] | None:
    try:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
    except ImportError:
        return None
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    progress = Progress(*columns, TextColumn("{task.fields[words]}", markup=False), console=Console(file=stream))
    task = progress.add_task(title, total=total, completed=done, words="")

    def advance(words: str) -> None:
        progress.update(task, advance=1, words=words)

    return progress, advance
