"""The recovery table is total, safe by construction, and replaceable by row."""

from __future__ import annotations

from typing import Any

import pytest

from fcguard.errors import ConfigurationError
from fcguard.model.failure import TAXONOMY, ErrorType, Failure, FailureClass
from fcguard.recovery.table import DEFAULT_TABLE, EFFECTS, RecoveryTable, is_retryable

WRITES = ("write", "destructive")


@pytest.mark.parametrize("effect", EFFECTS)
@pytest.mark.parametrize("failure_class", list(FailureClass))
def test_every_class_and_effect_has_a_plan_that_ends(failure_class: FailureClass, effect: Any) -> None:
    plan = DEFAULT_TABLE.plan_for(Failure.of("OWN_CODE", "x", "business", failure_class=failure_class), effect)
    assert plan[-1] == "stop"
    assert plan.count("stop") == 1
    assert len(set(plan)) == len(plan)


@pytest.mark.parametrize("effect", EFFECTS)
@pytest.mark.parametrize("error_type", list(ErrorType))
def test_every_error_type_and_effect_has_a_plan(error_type: ErrorType, effect: Any) -> None:
    plan = DEFAULT_TABLE.plan_for(Failure.of(error_type, "x", "execute"), effect)
    assert plan[-1] == "stop"
    failure_class = TAXONOMY[error_type][0]
    if failure_class in ("PARAMETER", "POLICY", "CONTROL", "PLATFORM"):
        assert plan == ("stop",)
    if effect == "destructive":
        assert not {"retry", "fallback", "wait", "switch"} & set(plan)
    if error_type == "UNCERTAIN_RESULT" and effect != "read":
        assert plan == ("confirm", "stop")


@pytest.mark.parametrize(
    ("error_type", "effect", "plan"),
    [
        ("TIMEOUT", "read", ("retry", "fallback", "stop")),
        ("CONNECTION_FAILED", "write", ("retry", "fallback", "stop")),
        ("CIRCUIT_OPEN", "read", ("fallback", "stop")),
        ("CIRCUIT_OPEN", "destructive", ("stop",)),
        ("ENVIRONMENT_NOT_READY", "write", ("wait", "switch", "stop")),
        ("TENANT_FROZEN", "read", ("stop",)),
        ("QUIET_WINDOW", "write", ("stop",)),
        ("TOOL_ERROR", "read", ("fallback", "stop")),
        ("TOOL_ERROR", "write", ("stop",)),
        ("UNCERTAIN_RESULT", "read", ("retry", "fallback", "stop")),
    ],
)
def test_rows_as_designed(error_type: str, effect: Any, plan: tuple[str, ...]) -> None:
    assert DEFAULT_TABLE.plan_for(Failure.of(error_type, "x", "execute"), effect) == plan


UNSAFE: list[tuple[str, dict[str, Any], str]] = [
    ("AVAILABILITY", {"read": ("retry",)}, "end in 'stop'"),
    ("AVAILABILITY", {"read": ()}, "end in 'stop'"),
    ("AVAILABILITY", {"read": ("retri", "stop")}, "words of"),
    ("AVAILABILITY", {"destructive": ("retry", "stop")}, "repeats a destructive"),
    ("AVAILABILITY", {"destructive": ("fallback", "stop")}, "repeats a destructive"),
    ("TIMEOUT", {"destructive": ("retry", "stop")}, "repeats a destructive"),
    ("UNCERTAIN", {"write": ("retry", "stop")}, "confirm"),
    ("UNCERTAIN", {"write": ("confirm", "retry", "stop")}, "confirm"),
    ("UNCERTAIN", {"write": ("confirm", "fallback", "stop")}, "confirm"),
    ("UNCERTAIN", {"write": ("wait", "stop")}, "confirm"),
    ("UNCERTAIN_RESULT", {"write": ("retry", "stop")}, "confirm"),
    ("UNCERTAIN_RESULT", {"write": ("confirm", "retry", "stop")}, "confirm"),
    ("UNCERTAIN_RESULT", {"destructive": ("confirm", "switch", "stop")}, "confirm"),
]


@pytest.mark.parametrize(("name", "plans", "hint"), UNSAFE)
def test_unsafe_plans_are_refused(name: str, plans: dict[Any, Any], hint: str) -> None:
    with pytest.raises(ConfigurationError, match=hint):
        DEFAULT_TABLE.replacing(name, plans)


@pytest.mark.parametrize("effect", ["sometimes", "", "READ"])
def test_an_effect_that_does_not_exist_is_refused(effect: Any) -> None:
    with pytest.raises(ConfigurationError, match="idempotent_write"):
        DEFAULT_TABLE.replacing("TIMEOUT", {effect: ("stop",)})


def test_a_replaced_class_keeps_its_other_effects() -> None:
    table = DEFAULT_TABLE.replacing("AVAILABILITY", {"read": ("stop",)})
    timeout = Failure.of("TIMEOUT", "x", "execute")
    assert table.plan_for(timeout, "read") == ("stop",)
    assert table.plan_for(timeout, "write") == DEFAULT_TABLE.plan_for(timeout, "write")
    assert DEFAULT_TABLE.plan_for(timeout, "read") != ("stop",)


def test_a_type_goes_before_its_class_and_own_codes_have_rows_too() -> None:
    table = DEFAULT_TABLE.replacing("TIMEOUT", {"read": ("fallback", "stop")}).replacing(
        "SOLD_OUT", {"write": ("fallback", "stop")}
    )
    assert table.plan_for(Failure.of("TIMEOUT", "x", "execute"), "read") == ("fallback", "stop")
    assert table.plan_for(Failure.of("RATE_LIMITED", "x", "execute"), "read")[0] == "retry"
    sold_out = Failure.of("SOLD_OUT", "x", "result")
    assert table.plan_for(sold_out, "write") == ("fallback", "stop")
    assert table.plan_for(sold_out, "read") == ("stop",)


def test_a_table_must_be_total() -> None:
    with pytest.raises(ConfigurationError, match="no plan for"):
        RecoveryTable({}, {})


def test_the_table_can_be_read_by_people() -> None:
    table = DEFAULT_TABLE.replacing("SOLD_OUT", {"write": ("fallback", "stop")})
    rows = list(table.rows())
    assert len([row for row in rows if row[1] == "*"]) == len(FailureClass) * len(EFFECTS)
    assert ("", "SOLD_OUT", "write", ("fallback", "stop")) in rows
    assert ("ENVIRONMENT", "TENANT_FROZEN", "read", ("stop",)) in rows
    text = table.render()
    assert "| AVAILABILITY | any | retry → fallback → stop |" in text
    assert "| own | SOLD_OUT | (class) | (class) | fallback → stop | (class) |" in text
    assert {line.count("|") for line in text.splitlines()} == {7}


@pytest.mark.parametrize("effect", EFFECTS)
@pytest.mark.parametrize("known", ["none", "not_applied", "unknown", "applied"])
@pytest.mark.parametrize("error_type", list(ErrorType))
def test_retryable_means_without_risk(error_type: ErrorType, effect: Any, known: Any) -> None:
    failure = Failure.of(error_type, "x", "execute", effect=known)
    is_passing = TAXONOMY[error_type][0] in ("AVAILABILITY", "ENVIRONMENT") and error_type != "TENANT_FROZEN"
    is_safe = effect in ("read", "idempotent_write") or known in ("none", "not_applied")
    assert is_retryable(failure, effect) is (is_passing and is_safe)


@pytest.mark.parametrize("said", [True, False])
def test_a_failure_that_says_so_itself_is_believed(said: bool) -> None:
    assert is_retryable(Failure.of("PARAM_INVALID", "x", "execute", retryable=said), "read") is said
