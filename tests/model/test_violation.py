"""Violations: one that nobody could act on is not made, and a check that makes one fails as a check."""

from __future__ import annotations

from typing import Any

import pytest

from fcguard import Guard, MemoryStore, Violation

WRONG: list[dict[str, Any]] = [
    {"code": ""},
    {"code": "not paid"},
    {"code": "Not_Paid"},
    {"code": 5},
    {"code": "A" * 200},
    {"message": ""},
    {"message": "  "},
    {"message": None},
    {"next_action": "Not A Word"},
    {"next_action": ""},
    {"next_action": 5},
]


def made(wrong: dict[str, Any]) -> Violation:
    return Violation(**{"code": "ORDER_NOT_PAID", "message": "The order is not paid.", **wrong})


@pytest.mark.parametrize("wrong", WRONG)
def test_a_violation_that_says_nothing_is_not_made(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        made(wrong)


@pytest.mark.parametrize("option", ["rules", "constraints"])
@pytest.mark.parametrize("wrong", WRONG)
def test_a_check_that_makes_one_refuses_the_call_as_a_fault_of_the_platform(option: str, wrong: dict[str, Any]) -> None:
    def check(call: Any) -> Violation:
        return made(wrong)

    with Guard(store=MemoryStore()) as guard:
        guard.tool(lambda: 1, name="look", effect="read", **{option: [check]})  # type: ignore[call-overload]
        result = guard.call("look", {})
    assert (result.error_type, result.failure_class, result.attempts) == ("RULE_FAILED", "PLATFORM", 0)
    assert result.next_action == "escalate_to_platform"


def test_one_that_says_why_is_passed_on() -> None:
    violation = made({"next_action": "ask_user"})
    assert (violation.code, violation.next_action) == ("ORDER_NOT_PAID", "ask_user")
