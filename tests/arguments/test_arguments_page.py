"""The arguments page: every block runs, and its tables are those of the code."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from fcguard.arguments import ArgumentSchema
from fcguard.arguments.lint import FINDING_CODES
from fcguard.arguments.reading import WRAPPERS
from fcguard.arguments.records import FOLD_RULES

PAGE = (Path(__file__).parents[2] / "docs" / "arguments.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_the_page_runs() -> None:
    names: dict[str, Any] = {}
    for block in BLOCKS:
        exec(compile(block, "docs/arguments.md", "exec"), names)  # the page's own assertions are the test
    assert len(BLOCKS) == 9
    assert names["made"].problems == ()


def rows(heading: str) -> dict[str, str]:
    table = PAGE.split(heading)[1].split("\n\n")[0]
    return dict(re.findall(r"^\| `(\w+)` \| (.*) \|$", table, re.MULTILINE))


def test_the_tables_are_those_of_the_code() -> None:
    assert rows("| rule | what happened |") == FOLD_RULES
    assert list(rows("| rule | what happened |")) == list(FOLD_RULES)
    assert rows("| code | meaning |") == FINDING_CODES
    assert all(f"`{key}`" in PAGE for key in WRAPPERS)


P = {"type": "object", "properties": {"p": {}}}


def with_p(schema: Any) -> Any:
    return {"type": "object", "properties": {"p": schema}}


EXAMPLES: dict[str, tuple[Any, Any]] = {
    "byte_order_mark": (P, '\ufeff{"p": 1}'),
    "fence": (P, '```\n{"p": 1}\n```'),
    "json_string": (P, '"{}"'),
    "wrapper": (P, '{"args": {"p": 1}}'),
    "empty_arguments": (P, ""),
    "control_characters": (P, '{"p": "\t"}'),
    "trailing_comma": (P, '{"p": 1,}'),
    "python_literal": (P, '{"p": None}'),
    "stray_escape": (P, '{"p": \\n1}'),
    "repeated_object": (P, '{"p": 1}{"p": 1}'),
    "python_value": (P, {"p": (1,)}),
    "name": (P, {"P": 1}),
    "null_dropped": (with_p({"type": "string"}), {"p": None}),
    "empty_dropped": (with_p({"type": "integer"}), {"p": ""}),
    "normalizer": (P, {"p": "x"}),
    "number": (with_p({"type": "integer"}), {"p": "1"}),
    "integral_float": (with_p({"type": "integer"}), {"p": 1.0}),
    "number_as_text": (with_p({"type": "string"}), {"p": 1}),
    "boolean": (with_p({"type": "boolean"}), {"p": "true"}),
    "enum": (with_p({"enum": ["A"]}), {"p": "a"}),
    "date": (with_p({"type": "string", "format": "date"}), {"p": "31.01.2026"}),
    "json_text": (with_p({"type": "array"}), {"p": "[]"}),
    "comma_list": (with_p({"type": "array", "items": {"type": "string"}}), {"p": "a, b"}),
    "default": (with_p({"default": 1}), {}),
}


@pytest.mark.parametrize("rule", FOLD_RULES)
def test_every_rule_has_an_example(rule: str) -> None:
    schema, raw = EXAMPLES[rule]
    normalizers = {"p": str.upper} if rule == "normalizer" else None
    made = ArgumentSchema.compile(schema, normalizers=normalizers).normalize(raw, effect="read")
    assert made.problems == ()
    assert [fold.rule for fold in made.folds] == [rule]


def test_there_is_no_rule_without_a_row() -> None:
    source = "".join(
        path.read_text("utf-8") for path in Path(__file__).parents[2].joinpath("fcguard", "arguments").glob("*.py")
    )
    noted = set(re.findall(r"(?:Fold\([^\n]*?, |note\([^\n]*?, |convert\(\w+, |_note\(changes, )\"(\w+)\"", source))
    assert noted <= set(FOLD_RULES)
    assert len(noted) > 15
    reported = set(re.findall(r"report\(\s*\"(\w+)\"", source))
    assert reported == set(FINDING_CODES) - {"missing_type", "unknown_dialect", "default_invalid"}
