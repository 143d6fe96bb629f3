"""The taxonomy is one total table, and everything that fails takes its words from it."""

from __future__ import annotations

import pytest

from fcguard.model.failure import (
    TAXONOMY,
    ErrorType,
    Failure,
    FailureClass,
    Halt,
    NextAction,
    Problem,
    Violation,
    class_of,
)


def test_the_taxonomy_is_total_over_types_and_classes() -> None:
    assert set(TAXONOMY) == set(ErrorType)
    assert {row[0] for row in TAXONOMY.values()} == set(FailureClass)
    assert {row[1] for row in TAXONOMY.values()} <= set(NextAction) - {NextAction.CONTINUE}


def test_names_are_their_own_values() -> None:
    assert all(one.value == one.name for one in (*ErrorType, *FailureClass))
    assert all(one.value == one.name.lower() for one in NextAction)


@pytest.mark.parametrize("error_type", list(ErrorType))
def test_a_failure_takes_class_and_action_from_the_table(error_type: ErrorType) -> None:
    failure = Failure.of(error_type, "words", "execute")
    assert (failure.failure_class, failure.next_action) == TAXONOMY[error_type]
    assert class_of(error_type) is TAXONOMY[error_type][0]
    assert type(failure.error_type) is str
    assert type(failure.next_action) is str


def test_a_rules_own_code_is_a_precondition_unless_it_says_otherwise() -> None:
    plain = Failure.of("ORDER_NOT_PAID", "pay", "business")
    assert (plain.failure_class, plain.next_action) == (FailureClass.PARAMETER, NextAction.ASK_USER)
    own = Failure.of(
        "FROZEN", "wait", "business", failure_class=FailureClass.ENVIRONMENT, next_action="call_the_office"
    )
    assert (own.failure_class, own.next_action) == (FailureClass.ENVIRONMENT, "call_the_office")
    assert class_of("FROZEN", FailureClass.ENVIRONMENT) is FailureClass.ENVIRONMENT


def test_a_problem_reads_as_one_line() -> None:
    assert str(Problem("a.b[0]", "type", "must be a number")) == "a.b[0]: must be a number"
    assert str(Problem("", "required", "give 'a'")) == "give 'a'"


def test_a_halt_names_its_reason() -> None:
    assert str(Halt(Failure.of("RATE_LIMITED", "slow", "execution"))) == "RATE_LIMITED"
    assert str(Halt(None)) == "answered"


def test_values_do_not_change() -> None:
    for value in (Failure.of("X", "y", "execute"), Problem("a", "b", "c"), Violation("X", "y")):
        with pytest.raises(AttributeError):
            value.message = "other"  # type: ignore[misc]
