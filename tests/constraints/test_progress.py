"""Going in circles: what repeats without progress is warned about, then refused; what moves on never is."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fcguard.constraints import Constraint, LoopDetection, NoProgressRepeat
from fcguard.errors import ConfigurationError
from fcguard.model.failure import FailureClass, class_of


class Runner:
    def __init__(self, make_call: Any, make_attempt: Any, task: Any, constraint: Any) -> None:
        self.make_call, self.make_attempt, self.task, self.constraint = make_call, make_attempt, task, constraint
        self.last: Any = None

    def __call__(
        self, tool: str = "look", value: Any = "same", *, now: float = 0.0, error: str | None = None, **options: Any
    ) -> Any:
        self.last = call = self.make_call(tool, task=self.task, **options)
        refused = self.constraint.admit(call, now)
        if refused is None:
            self.constraint.settle(call, self.make_attempt(call, value=value, error_type=error), now)
        return None if refused is None else str(refused.code)


@pytest.fixture
def runner(make_call: Any, make_attempt: Any, make_task: Any) -> Any:
    return lambda constraint: Runner(make_call, make_attempt, make_task(), constraint)


def test_the_third_identical_call_runs_and_the_fourth_does_not(runner: Any) -> None:
    run = runner(NoProgressRepeat(warn=2, block=3))
    assert run() is None and run.last.flags == () and run.last.message == ""
    assert run() is None and run.last.flags == ("no_progress_repeat",) and "1 more" in run.last.message
    assert run() is None and "0 more" in run.last.message
    assert [run() for _ in range(3)] == ["NO_PROGRESS_REPEAT"] * 3
    refused = run.constraint.admit(run.last, 0)
    assert refused.next_action == "abort" and class_of(refused.code) is FailureClass.CONTROL
    assert run(arguments={"other": 1}) is None
    assert isinstance(run.constraint, Constraint)


def test_a_message_that_is_there_stays(runner: Any) -> None:
    run = runner(NoProgressRepeat(warn=1, block=2))
    call = run.make_call("look", task=run.task)
    call.message = "something else"
    run.constraint.admit(call, 0)
    run.constraint.settle(call, run.make_attempt(call, value=1), 0)
    assert call.message == "something else" and call.flags == ("no_progress_repeat",)


def test_a_changing_result_is_progress(runner: Any) -> None:
    run = runner(NoProgressRepeat())
    assert [run(value={"percent": n}) for n in range(10)] == [None] * 10
    assert [run(value="same") for _ in range(4)] == [None, None, None, "NO_PROGRESS_REPEAT"]


@pytest.mark.parametrize("options", [{"polling": True}, {"purpose": "confirm"}, {"purpose": "fallback"}])
def test_polling_and_the_platforms_own_calls_are_exempt(runner: Any, options: Any) -> None:
    for constraint in (NoProgressRepeat(), LoopDetection()):
        run = runner(constraint)
        assert [run("ab"[n % 2], **options) for n in range(20)] == [None] * 20


def test_outside_a_task_nothing_is_counted(runner: Any) -> None:
    for constraint in (NoProgressRepeat(), LoopDetection()):
        run = runner(constraint)
        run.task = None
        assert [run() for _ in range(9)] == [None] * 9


def test_a_write_of_something_else_is_progress_and_a_read_is_not(runner: Any) -> None:
    run = runner(NoProgressRepeat())
    for n in range(4):
        assert [run("test"), run("test"), run("edit", effect="write", value=None, arguments={"n": n})] == [None] * 3
    assert [run("test"), run("look"), run("test"), run("look"), run("test")] == [None] * 5
    assert run("test") == "NO_PROGRESS_REPEAT"
    assert run("edit", effect="write", error="TOOL_ERROR", arguments={"n": 9}) is None
    assert run("test") == "NO_PROGRESS_REPEAT", "a failed write changed nothing"


def test_retries_of_one_call_count_once(runner: Any) -> None:
    run = runner(NoProgressRepeat())
    for _ in range(3):
        call = run.make_call("look", task=run.task)
        for _ in range(4):
            assert run.constraint.admit(call, 0) is None
            run.constraint.settle(call, run.make_attempt(call, error_type="TIMEOUT"), 0)
    assert run() == "NO_PROGRESS_REPEAT"


def test_the_last_attempt_of_a_call_counts(runner: Any) -> None:
    run = runner(NoProgressRepeat())
    for _ in range(3):
        call = run.make_call("look", task=run.task)
        for error in ("TIMEOUT", None):
            run.constraint.admit(call, 0)
            run.constraint.settle(call, run.make_attempt(call, error_type=error, value=1), 0)
    assert run(value=1) == "NO_PROGRESS_REPEAT"


def test_equal_failures_are_no_progress_either(runner: Any) -> None:
    run = runner(NoProgressRepeat())
    assert [run(error="TOOL_ERROR") for _ in range(4)] == [None, None, None, "NO_PROGRESS_REPEAT"]


def test_what_was_not_sent_does_not_count(runner: Any) -> None:
    for constraint in (NoProgressRepeat(), LoopDetection()):
        run = runner(constraint)
        for n in range(12):
            call = run.make_call("ab"[n % 2], task=run.task)
            assert constraint.admit(call, 0) is None
            constraint.settle(call, None, 0)
        constraint.settle(run.make_call("a", task=run.task), None, 0)


def test_after_a_long_time_it_may_be_asked_again(runner: Any) -> None:
    run = runner(NoProgressRepeat(forget_seconds=100))
    assert [run(now=n) for n in range(4)] == [None, None, None, "NO_PROGRESS_REPEAT"]
    assert run(now=101.9) == "NO_PROGRESS_REPEAT"
    assert [run(now=102 + n) for n in range(4)] == [None, None, None, "NO_PROGRESS_REPEAT"]


def test_many_different_calls_are_not_kept_for_ever(runner: Any) -> None:
    run = runner(NoProgressRepeat())
    for n in range(600):
        run(arguments={"n": n})
    assert len(run.task.memory[run.constraint].streaks) <= 256


class Opaque:
    """Something that is neither JSON nor comparable."""


def test_results_that_cannot_be_compared_are_progress(runner: Any) -> None:
    run = runner(NoProgressRepeat())
    assert [run(value=Opaque()) for _ in range(6)] == [None] * 6


def test_results_are_compared_by_their_json_if_they_are_objects(runner: Any) -> None:
    run = runner(NoProgressRepeat())
    for _ in range(3):
        call = run.make_call("look", task=run.task)
        call.data = {"status": 200}
        run.constraint.admit(call, 0)
        attempt = run.make_attempt(call)
        attempt.value = Opaque()
        run.constraint.settle(call, attempt, 0)
    assert run() == "NO_PROGRESS_REPEAT"


def test_a_result_that_is_changed_in_place_is_another_result(runner: Any) -> None:
    run, value = runner(NoProgressRepeat()), []
    for n in range(8):
        value.append(n)
        assert run(value=value) is None


def test_rounds_of_two_are_warned_about_and_then_stopped(runner: Any) -> None:
    run = runner(LoopDetection(warn=2, block=3))
    assert [run(tool) for tool in "ABA"] == [None] * 3 and run.last.flags == ()
    assert run("B") is None and run.last.flags == ("loop_detection",) and "2 equal rounds" in run.last.message
    assert [run(tool) for tool in "ABAB"] == [None, None, "NO_PROGRESS_REPEAT", None]
    assert isinstance(run.constraint, Constraint)


@pytest.mark.parametrize("round_", ["AB", "ABC", "AAB", "ABCD"])
def test_rounds_of_any_length(runner: Any, round_: str) -> None:
    run = runner(LoopDetection(block=2))
    assert [run(tool) for tool in round_ * 2] == [None] * (2 * len(round_))
    assert run(round_[0]) == "NO_PROGRESS_REPEAT"
    assert run("Z") is None, "something else is always possible"


def test_longer_rounds_other_results_and_one_call_over_and_over_are_no_loop(runner: Any) -> None:
    for calls in (list("ABCDE" * 4), list("A" * 20)):
        run = runner(LoopDetection())
        assert [run(tool) for tool in calls] == [None] * len(calls)
    run = runner(LoopDetection())
    assert [run("AB"[n % 2], value=n) for n in range(30)] == [None] * 30


def test_retries_are_one_call_of_a_round(runner: Any) -> None:
    run = runner(LoopDetection())
    for tool in "ABABAB":
        call = run.make_call(tool, task=run.task)
        for _ in range(2):
            assert run.constraint.admit(call, 0) is None
            run.constraint.settle(call, run.make_attempt(call, error_type="TIMEOUT"), 0)
    assert run("A") == "NO_PROGRESS_REPEAT"


@settings(max_examples=200, deadline=None)
@given(calls=st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from([1, 2])), max_size=40), block=st.integers(1, 4))
def test_repeat_against_a_model(
    make_call: Any, make_attempt: Any, make_task: Any, calls: list[Any], block: int
) -> None:
    run = Runner(make_call, make_attempt, make_task(), NoProgressRepeat(warn=1, block=block))
    last: dict[str, tuple[Any, int]] = {}
    for tool, value in calls:
        previous, count = last.get(tool, (None, 0))
        expected = "NO_PROGRESS_REPEAT" if count >= block else None
        assert run(tool, value) == expected
        if expected is None:
            last[tool] = (value, count + 1 if previous == value else 1)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: NoProgressRepeat(warn=0),
        lambda: NoProgressRepeat(forget_seconds=0),
        lambda: LoopDetection(warn=1),
        lambda: LoopDetection(longest=1),
    ],
)
def test_options_that_make_no_sense_are_refused(wrong: Any) -> None:
    with pytest.raises(ConfigurationError):
        wrong()
