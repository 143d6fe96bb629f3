"""The page about classification says what the code does."""

from __future__ import annotations

import re

import pytest

from tests.recovery.classification_page import PAGE, TABLES, render, render_page

TEXT = PAGE.read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


def test_the_tables_of_the_page_are_those_of_the_code():
    assert render_page(TEXT) == TEXT, "run: python -m tests.recovery.classification_page"
    for table in TABLES.values():
        assert render(table) in TEXT


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_every_block_of_the_page_runs(block):
    assert "assert" in block
    exec(compile(block, str(PAGE), "exec"), {"__name__": "page"})
