"""The page about rules: its table is the code's, every rule has a section with an example, and every block of it runs."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import fcguard
from fcguard.model.context import Environment, Goal, TaskContext, Tools
from fcguard.model.failure import TAXONOMY, ErrorType, Violation
from fcguard.rules import __all__ as public
from fcguard.rules import (
    account_matches,
    all_of,
    allowed_values,
    any_of,
    ask_rule,
    expression,
    hosts,
    not_,
    not_forbidden,
    not_too_broad,
    only_in,
    owned_by,
    paths,
    requires,
    requires_role,
    rules_markdown,
    rules_table,
    search_scope,
    shell,
    sql,
    tenant_matches,
    tool_allowed,
    when,
    write_permitted,
)
from tests.page_sections import names_used, python_blocks, sections_of

PAGE = Path(__file__).resolve().parents[2] / "docs" / "rules.md"
TEXT = PAGE.read_text(encoding="utf-8")
BLOCKS = python_blocks(TEXT)
RULES = [row.name for row in rules_table()]
FOR_THE_DOCS = {"RuleRow", "rules_markdown", "rules_table"}


def test_the_table_on_the_page_is_the_one_of_the_code() -> None:
    shown = TEXT.partition("<!-- rules:begin -->\n")[2].partition("<!-- rules:end -->")[0]
    assert shown == rules_markdown()


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_every_block_runs_on_its_own_and_asserts(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("rules_example")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(compile(BLOCKS[number], f"{PAGE.name} block {number}", "exec"), module.__dict__)
    assert "assert " in BLOCKS[number]


def test_every_rule_that_is_exported_is_in_the_table() -> None:
    others = {"ask_rule", "check_rule", "is_async", "refusal", "rule_name", "rules_markdown", "rules_table"}
    assert sorted(RULES) == sorted({name for name in public if name.islower()} - others)


@pytest.mark.parametrize("name", RULES)
def test_every_rule_has_one_section_with_an_example(name: str) -> None:
    (section,) = [section for section in sections_of(TEXT) if name in section.names]
    assert section.names == (name,)
    assert any(name in names_used(block) and "assert " in block for block in section.blocks)


def test_everything_else_that_is_exported_is_used_in_an_example() -> None:
    used = frozenset().union(*map(names_used, BLOCKS))
    assert set(public) - used - FOR_THE_DOCS == set()


def test_every_public_name_exists() -> None:
    assert sorted(public) == sorted(set(public))
    for name in public:
        assert getattr(fcguard.rules, name) is not None


# -- what the table says of refusals is what rules answer -----------------------------------------------------------------

HERE = TaskContext(
    task_id="t-1",
    goal=Goal(objective="look", forbidden_actions=frozenset({"drop_*"})),
    environment=Environment(name="live", tenant="mall-7", account="ann"),
    tools=Tools(allow=frozenset({"query_*"}), write_allowed=False),
)
NEVER = requires(lambda call: False, code="PRECONDITION_FAILED")

REFUSALS: list[tuple[str, Any, dict[str, Any], dict[str, Any]]] = [
    ("tool_allowed", tool_allowed, {}, {"tool": "send_mail"}),
    ("not_forbidden", not_forbidden, {}, {"tool": "drop_table"}),
    ("write_permitted", write_permitted, {}, {"effect": "write"}),
    ("only_in", only_in("test"), {}, {}),
    ("tenant_matches", tenant_matches(), {"tenant_id": "mall-8"}, {}),
    ("account_matches", account_matches(), {"account": "root"}, {}),
    ("owned_by", owned_by({}.get, parameter="id"), {"id": "A1"}, {}),
    ("owned_by", owned_by({}.get, parameter="ids[*]"), {"ids": "A1"}, {}),
    ("requires_role", requires_role("admin"), {}, {}),
    ("requires", requires(lambda call: False), {}, {}),
    ("requires", requires(lambda call: False, code="NOT_PAID", next_action="wait_for_payment"), {}, {}),
    ("requires", requires(lambda call: False, code="NOT_PAID"), {}, {}),
    ("allowed_values", allowed_values("a", [1]), {"a": 2}, {}),
    ("not_too_broad", not_too_broad("a"), {"a": "*"}, {}),
    ("not_too_broad", not_too_broad("a", limit="n"), {"n": "5"}, {}),
    ("hosts", hosts(), {"url": "http://a.example/"}, {}),
    ("paths", paths(root="/srv/data"), {"path": "../x"}, {}),
    ("sql", sql(), {"sql": "DROP TABLE t"}, {}),
    ("sql", sql(require_bound=True), {"sql": "SELECT * FROM t"}, {}),
    ("search_scope", search_scope(), {"query": "all"}, {}),
    ("search_scope", search_scope(), {"query": 5}, {}),
    ("expression", expression(), {"expression": "x"}, {}),
    ("shell", shell(allow=["ls"]), {"command": "rm x"}, {}),
    ("shell", shell(allow=["ls"], on_refusal="approval"), {"command": "rm x"}, {}),
    ("shell", shell(allow=["ls"]), {"command": 5}, {}),
    ("all_of", all_of(only_in("test"), NEVER), {}, {}),
    ("any_of", any_of(only_in("test"), NEVER), {}, {}),
    ("not_", not_(only_in("live")), {}, {}),
    ("not_", not_(only_in("live"), code="NOT_LIVE", next_action="go_elsewhere"), {}, {}),
    ("when", when(only_in("live"), NEVER), {}, {}),
]


COMBINED = {
    "all_of": ("of the first refusal", "of the first refusal"),
    "any_of": ("of the first rule", "of the first rule"),
    "when": ("of the rule", "of the rule"),
}
YOUR_OWN = {"requires": ("your own", "ask_user, or your own"), "not_": ("your own", "your own")}


def _row(name: str, violation: Violation) -> tuple[str, str]:
    """Answer a refusal as the table writes it."""
    if name in COMBINED:
        return COMBINED[name]
    if violation.code not in set(ErrorType):
        return YOUR_OWN[name]
    return str(violation.code), str(violation.next_action or TAXONOMY[ErrorType(violation.code)][1])


def test_the_refusals_of_the_table_are_those_that_rules_give() -> None:
    found: dict[str, set[tuple[str, str]]] = {name: set() for name in RULES}
    for name, rule, arguments, options in REFUSALS:
        violation = ask_rule(rule, arguments, context=HERE, **options)
        assert isinstance(violation, Violation), name
        found[name].add(_row(name, violation))
    assert found == {row.name: set(row.codes) for row in rules_table()}


def test_every_summary_is_a_sentence() -> None:
    assert [row.name for row in rules_table() if not row.summary.endswith(".")] == []
