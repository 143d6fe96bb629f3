"""The page about results says what the code does."""

from __future__ import annotations

import pathlib
import re

import pytest

from fcguard.results.limits import INLINE_BYTES, MAX_CHARS, MAX_DEPTH, MAX_WORK
from fcguard.results.recognise_rows import MAX_ROWS
from fcguard.results.recognise_tables import PREVIEW_ROWS
from fcguard.results.scalars import LONGEST_INTEGER_BITS

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "results.md"
TEXT = PAGE.read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_every_block_of_the_page_runs(block):
    assert "assert" in block
    exec(compile(block, str(PAGE), "exec"), {"__name__": "page"})


@pytest.mark.parametrize(
    "words",
    [
        f"default {MAX_CHARS:,}",
        f"bytes up to {INLINE_BYTES}",
        f"more than {MAX_DEPTH} containers",
        f"more than {LONGEST_INTEGER_BITS} bits",
        f"up to {MAX_ROWS:,} rows",
        f"the first {PREVIEW_ROWS} rows",
        f"at most {MAX_WORK // 1_000_000} million characters",
    ],
)
def test_the_numbers_of_the_page_are_those_of_the_code(words):
    assert words in TEXT
