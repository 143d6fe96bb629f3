"""The page about rules: its table is the code's, and every block of it runs."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

import fcguard
from fcguard.model.failure import TAXONOMY, ErrorType
from fcguard.rules import __all__ as public
from fcguard.rules import rules_markdown, rules_table

PAGE = Path(__file__).resolve().parents[2] / "docs" / "rules.md"
TEXT = PAGE.read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", TEXT, re.MULTILINE | re.DOTALL)


def test_the_table_on_the_page_is_the_one_of_the_code() -> None:
    shown = TEXT.partition("<!-- rules:begin -->\n")[2].partition("<!-- rules:end -->")[0]
    assert shown == rules_markdown()


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_every_block_runs(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if "Guard(" in BLOCKS[number] and not hasattr(fcguard, "Guard"):
        pytest.skip("the guard is not part of this build")
    module = ModuleType("rules_example")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(BLOCKS[number], f"{PAGE.name} block {number}", "exec"), module.__dict__)


def test_every_rule_is_in_the_table_and_on_the_page() -> None:
    names = {row.name for row in rules_table()}
    others = {"ask_rule", "check_rule", "is_async", "refusal", "rule_name", "rules_markdown", "rules_table"}
    assert names == {name for name in public if name.islower()} - others
    for name in names:
        assert any(f"{name}(" in block or f"({name}," in block for block in BLOCKS) or name in (
            "all_of",
            "any_of",
            "not_",
        )
        assert f"`{name}" in TEXT


def test_codes_of_the_table_are_known_with_their_next_action() -> None:
    for row in rules_table():
        assert row.summary.endswith(".")
        for code, action in row.codes:
            if code.isupper():
                default = str(TAXONOMY[ErrorType(code)][1])
                assert action in (default, "fix_arguments", "abort")


def test_every_public_name_exists() -> None:
    assert sorted(public) == sorted(set(public))
    for name in public:
        assert getattr(fcguard.rules, name) is not None
