"""P3: exact repeats, and which of them made no progress, each with its reason."""

from __future__ import annotations

import pytest

from fcguard.evaluation.catalogue import Catalogue, ToolSpec
from fcguard.evaluation.repeats import find_repeats, is_transient
from tests.evaluation.evaluation_builders import call, catalogue_of

TOOLS = catalogue_of(read="read", other="read", write="write")


def reasons(*calls, catalogue=TOOLS):
    return [repeat.reasons for repeat in find_repeats(calls, catalogue)]


def test_a_repeat_with_the_same_result_makes_no_progress() -> None:
    same = call("read", {"a": 1}, result_hash="x")
    assert reasons(same, same) == [("no_progress",)]
    assert reasons(same, call("read", {"a": 1.0}, result_hash="x")) == [("no_progress",)]


@pytest.mark.parametrize("arguments", [{"a": 2}, {"a": "1"}, {"a": True}, {}, {"a": 1, "b": None}])
def test_other_arguments_are_no_repeat(arguments) -> None:
    assert reasons(call("read", {"a": 1}), call("read", arguments)) == []


def test_another_tool_or_server_is_no_repeat() -> None:
    assert reasons(call("read", {}), call("other", {})) == []
    assert reasons(call("read", {}, server="a"), call("read", {}, server="b")) == []


def test_a_changed_result_is_progress() -> None:
    assert reasons(call("read", {}, result_hash="x"), call("read", {}, result_hash="y")) == [("result_changed",)]


def test_a_write_between_is_progress_but_only_if_it_succeeded() -> None:
    first = call("read", {}, result_hash="x")
    assert reasons(first, call("write", {}), first) == [("write_between",)]
    assert reasons(first, call("write", {}, status="failed"), first) == [("no_progress",)]
    assert reasons(first, call("unknown tool", {}), first) == [("no_progress",)]


def test_a_used_result_is_progress_if_it_was_used_before_the_repeat() -> None:
    again = call("read", {}, result_hash="x")
    assert reasons(call("read", {}, result_hash="x", consumed=True, consumed_by=0), again) == [("consumed",)]
    assert reasons(call("read", {}, result_hash="x", consumed=True, consumed_by=2), again) == [("no_progress",)]
    assert reasons(call("read", {}, result_hash="x", consumed=True), again) == [("consumed",)]


def test_what_is_not_recorded_does_not_excuse() -> None:
    (repeat,) = find_repeats([call("read", {}), call("read", {})], TOOLS)
    assert repeat.reasons == ("result_unknown",)
    assert repeat.is_no_progress
    assert repeat.is_same_result is None


def test_polling_and_retries_of_transient_failures_are_exempt() -> None:
    polling = Catalogue.of([ToolSpec("read", effect="read", polling=True)])
    assert reasons(call("read", {}, result_hash="x"), call("read", {}, result_hash="x"), catalogue=polling) == [
        ("polling",)
    ]
    failed = call("read", {}, status="failed", error_type="TIMEOUT", result_hash="x")
    assert reasons(failed, call("read", {}, result_hash="x")) == [("policy_retry",)]
    refused = call("read", {}, status="failed", error_type="PRECONDITION_FAILED", result_hash="x")
    assert reasons(refused, refused) == [("no_progress",)]


def test_a_cycle_of_two_tools_is_found() -> None:
    a, b = call("read", {"a": 1}, result_hash="x"), call("other", {}, result_hash="y")
    found = find_repeats([a, b, a, b], TOOLS)
    assert [(repeat.position, repeat.first, repeat.is_cycle, repeat.is_adjacent) for repeat in found] == [
        (2, 0, False, False),
        (3, 1, True, False),
    ]
    assert all(repeat.is_no_progress for repeat in found)


def test_a_repeat_is_held_against_the_latest_of_its_kind() -> None:
    a = call("read", {}, result_hash="x")
    assert [(repeat.first, repeat.is_adjacent) for repeat in find_repeats([a, a, a], TOOLS)] == [(0, True), (1, True)]


def test_a_repeated_write_counts_as_after_a_write() -> None:
    write = call("write", {}, result_hash="x")
    (repeat,) = find_repeats([write, write], TOOLS)
    assert repeat.is_after_write
    assert repeat.is_no_progress


def test_broken_arguments_can_be_repeated_and_missing_ones_cannot() -> None:
    broken = call("read", None, parse_error="not JSON")
    assert reasons(broken, broken) == [("result_unknown",)]
    assert reasons(call("read", None), call("read", None)) == []


@pytest.mark.parametrize(
    ("error_type", "status", "answer"),
    [
        ("TIMEOUT", "failed", True),
        ("ENVIRONMENT_NOT_READY", "uncertain", True),
        ("TIMEOUT", "succeeded", False),
        ("PARAM_INVALID", "failed", False),
        ("ORDER_NOT_PAID", "failed", False),
        (None, "failed", False),
    ],
)
def test_transient_failures(error_type, status, answer) -> None:
    assert is_transient(call("read", {}, status=status, error_type=error_type)) is answer
