"""The documentation says what the tables say, and its examples run."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from fcguard.evaluation.catalogue import Catalogue
from fcguard.evaluation.gate import EXIT_CODES
from fcguard.evaluation.gold import parse_gold
from fcguard.evaluation.importers.read import FORMATS
from fcguard.evaluation.indicators import INDICATORS
from fcguard.evaluation.matchers import MATCHERS
from fcguard.evaluation.metrics import COUNTS
from fcguard.evaluation.score import MAXIMUM
from tests.evaluation.evaluation_builders import call

PAGE = Path(__file__).parents[2] / "docs" / "evaluation.md"
TEXT = PAGE.read_text("utf-8")


def test_every_count_indicator_format_matcher_and_exit_code_is_explained() -> None:
    assert [name for name, meaning in COUNTS.items() if f"| `{name}` | {meaning} |" not in TEXT] == []
    for item in INDICATORS:
        assert f"| {item.priority} | {item.title} | {item.definition} | {item.not_said} |" in TEXT
        assert f"**{item.priority} {item.title}.** {item.fix}" in TEXT
    assert [name for name in FORMATS if f"| `{name}` |" not in TEXT] == []
    assert [name for name in MATCHERS if f"{{{name}" not in TEXT] == []
    assert [code for code in EXIT_CODES.values() if f"| {code} |" not in TEXT] == []
    assert [name for name, most in MAXIMUM.items() if f"| {name} | {most} |" not in TEXT] == []


def test_p0_is_mended_first() -> None:
    places = [TEXT.index(f"**{item.priority} {item.title}.**") for item in INDICATORS]
    assert places == sorted(places)


def test_pictures_are_there() -> None:
    pictures = re.findall(r"!\[[^\]]+\]\(([^)]+)\)", TEXT)
    assert len(pictures) == 3
    assert all((PAGE.parent / picture).is_file() for picture in pictures)


def test_the_gold_of_the_page_is_valid() -> None:
    (block,) = re.findall(r"```yaml\n(.*?)```", TEXT, re.DOTALL)
    gold = parse_gold(yaml.safe_load(block))
    assert list(gold.tasks) == ["refund-7", "chat"]


def test_the_code_of_the_page_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    block, _ = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    for trials, code, said in ((3, 0, "gate: pass"), (1, 3, "gate: inconclusive")):
        with pytest.raises(SystemExit) as ended:
            exec(block.replace("range(3)", f"range({trials})"), {})
        assert ended.value.code == code
        assert (tmp_path / "report.html").stat().st_size > 1_000_000
        assert said in capsys.readouterr().out


def test_the_page_says_how_tools_json_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, block = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(block, names)
    names["guard"].close()
    catalogue = Catalogue.load(tmp_path / "tools.json")
    states = [
        catalogue.check(call("refund", arguments)).state
        for arguments in ({"order_id": "A7", "cents": 100}, {"order_id": "A7", "cents": "100"})
    ]
    assert states == ["valid", "invalid"]
    assert catalogue.check(call("other", {})).state == "unknown_tool"
    tools = [{**tool, "effect": "write"} for tool in json.loads((tmp_path / "tools.json").read_text("utf-8"))]
    assert Catalogue.load(tools).effect_of(call("refund", {})) == "write"
