"""The field cases about SQL, hosts, paths, shells and policies come out as reported users expect."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fcguard.model.context import State, TaskContext
from fcguard.model.failure import TAXONOMY, ErrorType, class_of
from fcguard.rules import hosts, paths, requires, shell, sql

HERE = Path(__file__).resolve()
FILES = (HERE.parents[1] / "cases" / "field.jsonl", HERE.parents[3] / "shared" / "cases" / "field.jsonl")
KINDS = ("sql.", "net.", "path.", "shell.", "policy.")


def _cases() -> list[dict[str, Any]]:
    file = next((file for file in FILES if file.exists()), None)
    lines = file.read_text(encoding="utf-8").splitlines() if file else []
    return [case for case in map(json.loads, lines) if case["kind"].startswith(KINDS)]


def _rule(governance: dict[str, Any]) -> Any:
    if "sql_policy" in governance:
        return sql("sql", dialect=governance.get("dialect"))
    if "root_dir" in governance:
        return paths("path", root=governance["root_dir"])
    if "auto_approve_prefixes" in governance:
        return shell("command", allow=governance["auto_approve_prefixes"], on_refusal="approval")
    if "rules" in governance:
        return requires(
            lambda call: not call.context.state.resource_state.get("freeze"),
            code="TENANT_FROZEN",
            message="a freeze is active",
        )
    return hosts(
        "url",
        allow=governance.get("allowed_domains", ["*"]),
        allow_subdomains=governance.get("allow_subdomains", False),
    )


ACTIONS = {"fix_params": "fix_arguments", "request_approval": "request_approval", "abort": "abort"}


@pytest.mark.parametrize("case", _cases(), ids=lambda case: f"{case['id']} {case['kind']}")
def test_field_case(case: dict[str, Any], make_call: Any) -> None:
    rule = _rule(case["tool_schema"]["x-governance"])
    calls = case["call"] if isinstance(case["call"], list) else [case["call"]]
    frozen = any("freeze" in str(call.get("environment")) for call in calls)
    context = TaskContext(task_id="t", state=State(resource_state={"freeze": frozen}))
    expected = case["expected"]
    for call in calls:
        violation = rule(
            make_call(json.loads(call["arguments"]), context=context, schema=case["tool_schema"]["parameters"])
        )
        if expected["outcome"] == "accepted":
            assert violation is None
            continue
        assert violation is not None
        action = violation.next_action or _default_action(violation.code)
        assert action == ACTIONS[expected["next_action_kind"]]
        assert expected["failure_class"] in (None, class_of(violation.code))


def _default_action(code: str) -> str:
    return str(TAXONOMY[ErrorType(code)][1])


def test_there_are_field_cases() -> None:
    assert len(_cases()) >= 10 or not any(file.exists() for file in FILES)
