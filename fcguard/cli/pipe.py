"""What becomes of a command whose reader has left, as in `fcguard list | head`."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

__all__ = ["READER_LEFT", "until_the_reader_leaves"]

READER_LEFT: Final = 141
"""The exit code a shell gives to what SIGPIPE ended."""


@contextmanager
def until_the_reader_leaves() -> Iterator[None]:
    """End the process quietly, with `READER_LEFT`, once nobody reads its output."""
    try:
        try:
            yield
        finally:
            # What is still held would else be written after the last chance to answer for it.
            sys.stdout.flush()
    except BrokenPipeError:
        # The interpreter flushes once more when it ends.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
        raise SystemExit(READER_LEFT) from None
