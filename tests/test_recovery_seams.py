"""The seams of approval and recovery: what approvers, tables, classifiers and fallbacks may do, and what they never can."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from fcguard import (
    Applied,
    Classified,
    ConfirmBy,
    ErrorType,
    Fallback,
    Guard,
    Intent,
    MemoryStore,
    NotApplied,
    Retry,
    Tool,
    Violation,
)
from fcguard.approval.approvers import CallbackApprover
from fcguard.approval.request import Decision
from tests.conftest import ANY_OBJECT, Effect, Mode, Script, add
from tests.test_rules_and_constraints_seam import counting

# -- approval -----------------------------------------------------------------------------------------------------------


def approving(*decisions: Any) -> tuple[Any, list[Any]]:
    asked: list[Any] = []
    answers = list(decisions)

    def decide(request: Any) -> Any:
        asked.append(request)
        return answers.pop(0)

    return CallbackApprover(decide, timeout=60), asked


YES, NO = Decision(True, by="ann"), Decision(False, by="bob", reason="not today")


def test_destructive_tools_need_approval_and_nobody_means_no(guard: Guard, mode: Mode) -> None:
    script = Script("gone")
    add(guard, mode, script, "drop", effect="destructive")
    add(guard, mode, script, "clean", effect="destructive", approval="never")
    with guard.task("drop"):
        refused, passed = mode.call(guard, "drop", {}), mode.call(guard, "clean", {})
    assert (refused.error_type, refused.failure_class, refused.attempts) == ("APPROVAL_REQUIRED", "POLICY", 0)
    assert refused.next_action == "request_approval"
    assert passed.success


@pytest.mark.parametrize(("decision", "error"), [(YES, None), (NO, "APPROVAL_DENIED"), (None, "APPROVAL_DENIED")])
def test_an_approver_decides(tmp_path: Any, mode: Mode, decision: Any, error: Any) -> None:
    approver, asked = approving(decision)
    script, one = Script("done"), counting(mode)
    with Guard(store=MemoryStore(), evidence_dir=tmp_path, approver=approver) as guard:
        add(guard, mode, script, approval="required", constraints=(one,))
        with guard.task("approve"):
            result = mode.call(guard, "tool", {"n": 1, "password": "hunter2hunter2"})
    assert result.error_type == error
    assert len(script.calls) == (error is None)
    assert one.admitted == ([0] if error is None else [])
    assert [request.shown for request in asked] == [{"n": 1, "password": "[redacted]"}]


def test_an_approver_that_fails_refuses(tmp_path: Any, mode: Mode) -> None:
    def decide(request: Any) -> Any:
        raise ValueError("down")

    script = Script("x")
    with Guard(store=MemoryStore(), evidence_dir=tmp_path, approver=CallbackApprover(decide)) as guard:
        add(guard, mode, script, approval="required")
        with guard.task("approve"):
            result = mode.call(guard, "tool", {})
    assert (result.error_type, script.calls) == ("RULE_FAILED", [])


def test_rules_refuse_before_anybody_is_asked(tmp_path: Any, mode: Mode) -> None:
    approver, asked = approving(YES)
    with Guard(store=MemoryStore(), evidence_dir=tmp_path, approver=approver) as guard:
        add(guard, mode, Script("x"), approval="required", rules=(lambda call: Violation("NO", "no"),))
        with guard.task("approve"):
            assert mode.call(guard, "tool", {}).error_type == "NO"
    assert asked == []


PARAMETERS = {
    "type": "object",
    "properties": {"n": {"type": "integer", "maximum": 10}, "tenant": {"type": "string"}},
    "required": ["n", "tenant"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("modified", "error", "ran_with"),
    [
        ({"n": 2}, None, {"n": 2, "tenant": "t1"}),
        ({"n": "3"}, None, {"n": 3, "tenant": "t1"}),
        ({"n": 11}, "APPROVAL_DENIED", None),
        ({}, "APPROVAL_DENIED", None),
        ({"n": 2, "more": 1}, "APPROVAL_DENIED", None),
        ({"n": 7}, "UNLUCKY", None),
        ({"n": 2, "tenant": "t2"}, "APPROVAL_DENIED", None),
    ],
)
def test_modified_arguments_are_validated_like_any_others(
    tmp_path: Any, mode: Mode, modified: dict[str, Any], error: Any, ran_with: Any
) -> None:
    from fcguard import Environment

    def unlucky(call: Any) -> Any:
        return Violation("UNLUCKY", "seven") if call.arguments["n"] == 7 else None

    approver, _ = approving(Decision(True, by="ann", modified_arguments=modified))
    script = Script("done")
    with Guard(store=MemoryStore(), evidence_dir=tmp_path, approver=approver) as guard:
        add(
            guard,
            mode,
            script,
            approval="required",
            parameters=PARAMETERS,
            bound={"tenant": "tenant"},
            rules=(unlucky,),
        )
        with guard.task("approve", environment=Environment(name="a", tenant="t1")):
            result = mode.call(guard, "tool", {"n": 1})
    assert result.error_type == error
    assert script.calls == ([] if ran_with is None else [ran_with])
    if ran_with is not None:
        assert result.normalized_args == ran_with


def test_modified_arguments_must_be_what_the_annotations_promise(tmp_path: Any) -> None:
    from datetime import date

    days: list[date] = []

    def book(day: date) -> None:
        days.append(day)

    good, bad = (Decision(True, by="ann", modified_arguments={"day": day}) for day in ("2026-02-01", "2026-02-31"))
    approver, _ = approving(good, bad)
    with Guard(store=MemoryStore(), evidence_dir=tmp_path, approver=approver) as guard:
        guard.tool(book, approval="required")
        with guard.task("approve"):
            first, second = (guard.call("book", {"day": "2026-01-15"}) for _ in range(2))
    assert (first.error_type, second.error_type, second.attempts) == (None, "APPROVAL_DENIED", 0)
    assert days == [date(2026, 2, 1)]


def test_an_approval_rule_says_when(tmp_path: Any, mode: Mode) -> None:
    approver, asked = approving(YES)
    with Guard(store=MemoryStore(), evidence_dir=tmp_path, approver=approver) as guard:
        add(guard, mode, Script("x", "y"), approval=lambda call: call.arguments["n"] > 100)
        with guard.task("approve"):
            assert mode.call(guard, "tool", {"n": 1}).success
            assert mode.call(guard, "tool", {"n": 101}).success
    assert len(asked) == 1


# -- the table is no way around the rules of safety ---------------------------------------------------------------------


def test_a_failure_that_proves_nothing_is_never_repeated_whatever_the_table_says(tmp_path: Any, mode: Mode) -> None:
    from fcguard import Classified, RecoveryTable
    from fcguard.recovery.table import DEFAULT_TABLE

    table: RecoveryTable = DEFAULT_TABLE.replacing(
        "PLATFORM", {"write": ("retry", "wait", "switch", "fallback", "stop")}
    )
    script, other = Script(ValueError("x")), Script("elsewhere")
    unknown = Classified(ErrorType.STATE_FAILED, "unknown", "broken", "a test")
    with Guard(store=MemoryStore(), evidence_dir=tmp_path, recovery=table, classifiers=[lambda *_: unknown]) as guard:
        add(guard, mode, other, "other")
        add(guard, mode, script, retry=Retry(attempts=5), fallback=("other",), ready=lambda call: True)
        with guard.task("write"):
            result = mode.call(guard, "tool", {})
    assert (result.error_type, result.effect, result.retryable) == ("UNCERTAIN_RESULT", "unknown", False)
    assert (len(script.calls), other.calls) == (1, [])


@pytest.mark.parametrize("word", ["CONFLICT", "STATE_FAILED", "CANCELLED", "BUDGET_EXHAUSTED", "EVIDENCE_FAILED"])
def test_no_word_of_a_classifier_keeps_an_unknown_effect_from_being_confirmed(
    guard: Guard, mode: Mode, word: str
) -> None:
    script = Script(Effect(TimeoutError()))
    asked: list[str] = []

    def confirm(call: Any) -> Any:
        asked.append(call.request_id)
        return Applied("there")

    add(guard, mode, script, confirm=confirm, classifiers=(lambda outcome, call: word,))
    with guard.task("write"):
        result = mode.call(guard, "tool", {})
    assert (result.success, result.outcome_basis, asked) == (True, "confirmed", [result.request_id])


@pytest.mark.parametrize("proof", ["Unknown", "not sent", "applied", "", None])
def test_a_word_that_nobody_knows_proves_nothing(guard: Guard, mode: Mode, proof: Any) -> None:
    from fcguard import Classified

    with pytest.raises(ValueError, match="'not_sent', 'refused' or 'unknown'"):
        Classified("TIMEOUT", proof, "m", "r")
    script = Script(TimeoutError())
    add(guard, mode, script, classifiers=(lambda outcome, call: Classified("TIMEOUT", proof, "m", "r"),))
    with guard.task("write"):
        result = mode.call(guard, "tool", {})
    assert (result.error_type, result.effect, len(script.calls)) == ("UNCERTAIN_RESULT", "unknown", 1)
    assert "classifier_failed:ValueError" in result.flags


def test_a_destructive_call_is_not_sent_again_when_its_environment_is_ready(tmp_path: Any, mode: Mode) -> None:
    from fcguard.recovery.table import DEFAULT_TABLE

    table = DEFAULT_TABLE.replacing("AVAILABILITY", {"destructive": ("wait", "switch", "stop")})
    script = Script(NotApplied("busy"))
    with Guard(store=MemoryStore(), evidence_dir=tmp_path, recovery=table) as guard:
        add(guard, mode, script, effect="destructive", approval="never", ready=lambda call: True)
        with guard.task("drop"):
            result = mode.call(guard, "tool", {})
    assert (result.effect, len(script.calls)) == ("not_applied", 1)


def test_waiting_for_an_environment(guard: Guard, mode: Mode, clock: Any) -> None:
    answers = [False, False, True]
    refusals = [Violation("ENVIRONMENT_NOT_READY", "booting"), None]
    script = Script("fine")
    add(guard, mode, script, constraints=(lambda call: refusals.pop(0),), ready=lambda call: answers.pop(0))
    with guard.task("wait"):
        result = mode.call(guard, "tool", {})
    assert (result.success, len(clock.slept), len(script.calls)) == (True, 3, 1)


def test_waiting_ends_with_the_tasks_time(guard: Guard, mode: Mode, clock: Any) -> None:
    from fcguard import Budget

    add(
        guard,
        mode,
        Script("x"),
        constraints=(lambda call: Violation("ENVIRONMENT_NOT_READY", "booting"),),
        ready=lambda call: False,
    )
    with guard.task("wait", budget=Budget(seconds=3)):
        result = mode.call(guard, "tool", {})
    assert result.error_type == "ENVIRONMENT_NOT_READY"
    assert 0 < sum(clock.slept) <= 3


def test_a_ready_that_fails_is_flagged(guard: Guard, mode: Mode) -> None:
    def ready(call: Any) -> bool:
        raise ValueError

    refusal = Violation("ENVIRONMENT_NOT_READY", "booting")
    add(guard, mode, Script("x"), effect="read", constraints=(lambda call: refusal,), ready=ready)
    result = mode.call(guard, "tool", {})
    assert (result.error_type, result.flags) == ("ENVIRONMENT_NOT_READY", ("ready_failed:ValueError",))


def test_switching_to_the_next_environment_binds_again(guard: Guard, mode: Mode) -> None:
    from fcguard import Environment

    third = Environment(name="c", tenant="t3")
    second = Environment(name="b", tenant="t2")
    first = Environment(name="a", tenant="t1", alternatives=(second, third))
    asked: list[str] = []

    def constraint(call: Any) -> Any:
        asked.append(call.context.environment.name)
        return None if asked[-1] == "c" else Violation("ENVIRONMENT_NOT_READY", "down")

    script = Script("fine")
    parameters = {"type": "object", "properties": {"tenant": {"type": "string"}}, "additionalProperties": False}
    add(guard, mode, script, parameters=parameters, bound={"tenant": "tenant"}, constraints=(constraint,))
    with guard.task("switch", environment=first):
        result = mode.call(guard, "tool", {})
    assert (result.success, asked, script.calls) == (True, ["a", "b", "c"], [{"tenant": "t3"}])
    assert result.normalized_args == {"tenant": "t3"}
    assert result.flags == ("environment:b", "environment:c")
    stored = guard.store.get(result.request_id)
    assert stored is not None and stored.identity.tenant == "t3"


def test_a_classifier_that_fails_or_babbles_is_flagged_and_the_next_one_asked(guard: Guard, mode: Mode) -> None:
    def broken(outcome: Any, call: Any) -> Any:
        raise ValueError

    classifiers = (broken, lambda *_: "WHO_KNOWS", lambda *_: ErrorType.RATE_LIMITED)
    add(guard, mode, Script(ValueError("x")), effect="read", retry=1, classifiers=classifiers)
    result = mode.call(guard, "tool", {})
    assert result.error_type == "RATE_LIMITED"
    assert result.flags == ("classifier_failed:ValueError", "classifier_answer_unknown")


@pytest.mark.parametrize(
    ("answer", "error", "message"),
    [
        (None, None, ""),
        (False, None, ""),
        (True, "TOOL_ERROR", "did not do"),
        ("it said no", "TOOL_ERROR", "it said no"),
        (Violation("SOLD_OUT", "sold out", "ask_user"), "SOLD_OUT", "sold out"),
        (Violation("RATE_LIMITED", "slow", retry_after=9.0), "RATE_LIMITED", "slow"),
    ],
)
def test_a_returned_value_means_failure_only_if_it_is_declared_to(
    guard: Guard, mode: Mode, answer: Any, error: Any, message: str
) -> None:
    add(guard, mode, Script({"error": "not really"}), failed_when=lambda data: answer, retry=1)
    with guard.task("write"):
        result = mode.call(guard, "tool", {})
    assert result.error_type == error
    assert message in result.message
    assert result.effect == ("applied" if error is None else "not_applied")


class Ambiguous:
    """Neither true nor false, as the comparison of an array is."""

    def __bool__(self) -> bool:
        raise ValueError("ambiguous")


@pytest.mark.parametrize(
    ("judge", "flag"),
    [(lambda data: data["code"] != 0, "KeyError"), (lambda data: Ambiguous(), "ValueError")],
)
def test_a_failed_when_that_fails_leaves_a_write_unknown_and_a_read_as_it_is(
    guard: Guard, mode: Mode, judge: Any, flag: str
) -> None:
    add(guard, mode, Script({"error": "denied"}), failed_when=judge)
    add(guard, mode, Script({"error": "denied"}), "read", effect="read", failed_when=judge)
    with guard.task("write"):
        result = mode.call(guard, "tool", {})
        read = mode.call(guard, "read", {})
    assert (result.error_type, result.effect, result.attempts) == ("UNCERTAIN_RESULT", "unknown", 1)
    assert f"failed_when raised {flag}" in result.message
    assert (read.success, read.flags) == (True, (f"failed_when_raised:{flag}",))


def test_a_write_that_its_failed_when_could_not_judge_is_confirmed(guard: Guard, mode: Mode) -> None:
    add(guard, mode, Script({}), failed_when=lambda data: data["code"] != 0, confirm=lambda call: Applied("A1"))
    with guard.task("write"):
        result = mode.call(guard, "tool", {})
    assert (result.success, result.outcome_basis, result.data) == (True, "confirmed", "A1")


def test_a_classifier_whose_answer_cannot_be_read_is_flagged(guard: Guard, mode: Mode) -> None:
    class Answer:
        def __str__(self) -> str:
            raise RuntimeError

    add(guard, mode, Script("done"), classifiers=(lambda outcome, call: Answer(),))
    with guard.task("write"):
        result = mode.call(guard, "tool", {})
    assert (result.success, result.flags) == (True, ("classifier_failed:RuntimeError",))


def test_a_message_without_end_is_cut(guard: Guard, mode: Mode) -> None:
    add(guard, mode, Script("done"), failed_when=lambda data: "x" * 1_000_000)
    with guard.task("write"):
        result = mode.call(guard, "tool", {})
    assert len(result.message) == 10_001


def test_fallbacks_are_tried_in_turn_and_a_broken_mapping_is_flagged(guard: Guard, mode: Mode) -> None:
    broken = Fallback("first", arguments=lambda arguments: arguments["nope"])
    add(guard, mode, Script("never"), "first", effect="read")
    add(guard, mode, Script(ConnectionRefusedError()), "second", effect="read", retry=1)
    add(guard, mode, Script("third"), "third", effect="read")
    add(guard, mode, Script(ConnectionRefusedError()), effect="read", retry=1, fallback=(broken, "second", "third"))
    result = mode.call(guard, "tool", {})
    assert (result.data, result.answered_by) == ("third", "third")
    assert result.flags == ("fallback_arguments_failed:KeyError",)


def test_a_write_falls_back_only_once_it_is_proved_not_applied(guard: Guard, mode: Mode) -> None:
    other = Script(TimeoutError())
    third = Script("done")
    add(guard, mode, other, "other")
    add(guard, mode, third, "third")
    add(guard, mode, Script(NotApplied("busy")), retry=1, fallback=("other", "third"))
    with guard.task("write"):
        result = mode.call(guard, "tool", {})
    assert (result.success, result.effect, result.next_action) == (False, "unknown", "confirm_state")
    assert (len(other.calls), third.calls) == (1, [])


def test_one_guard_runs_confirmations_of_several_threads_apart(guard: Guard) -> None:
    barrier = threading.Barrier(2, timeout=60)

    def confirm(call: Any) -> Any:
        barrier.wait()
        return Applied(guard.call("look", {"n": call.arguments["n"]}).unwrap())

    def fail(n: int) -> None:
        raise TimeoutError

    guard.tool(lambda n: n, name="look", effect="read")
    guard.tool(fail, name="write", confirm=confirm)
    results: dict[int, Any] = {}

    def play(n: int) -> None:
        with guard.task("t", task_id=f"t{n}"):
            results[n] = guard.run(Intent("write", {"n": n}))

    threads = [threading.Thread(target=play, args=(n,)) for n in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert {n: result.data for n, result in results.items()} == {0: 0, 1: 1}
    for n, result in results.items():
        (child,) = [call for call in guard.store.calls() if call.identity.parent_id == result.request_id]
        assert child.identity.task_id == f"t{n}"


def test_register_and_tool_take_the_same_options(guard: Guard) -> None:
    guard.register(
        Tool(name="tool", parameters=ANY_OBJECT, fn=lambda **_: "ok", effect="read", rules=(lambda call: None,))
    )
    assert guard.call("tool").data == "ok"


@pytest.mark.parametrize("answer", ["raised", "class", "predicate"])
def test_every_way_to_say_not_applied(guard: Guard, mode: Mode, answer: str) -> None:
    def confirm(call: Any) -> Any:
        if answer == "raised":
            raise NotApplied("no such order")
        return NotApplied

    script = Script(TimeoutError(), "second")
    add(guard, mode, Script([]), "look", effect="read")
    add(guard, mode, script, confirm=ConfirmBy("look", applied=bool) if answer == "predicate" else confirm, settle=1.0)
    with guard.task("write"):
        result = mode.call(guard, "tool", {})
    assert (result.success, result.data, result.attempts) == (True, "second", 2)


def test_failed_when_may_classify(guard: Guard, mode: Mode) -> None:
    classified = Classified(ErrorType.RATE_LIMITED, "refused", "slow down", "said so", retry_after=2.0)
    add(guard, mode, Script({"busy": True}), failed_when=lambda data: classified, retry=1)
    with guard.task("write"):
        result = mode.call(guard, "tool", {})
    assert (result.error_type, result.effect, result.retry_after) == ("RATE_LIMITED", "not_applied", 2.0)
