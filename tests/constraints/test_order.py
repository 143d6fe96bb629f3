"""Order of steps and conflicts, judged on what the task did and what recovery found out."""

from __future__ import annotations

from typing import Any

import pytest

from fcguard.constraints import ConflictsWith, Constraint, StepOrder, task_history
from fcguard.errors import ConfigurationError
from fcguard.model.context import State
from fcguard.model.failure import FailureClass, class_of


class Flow:
    """Runs calls as admission does: the history first, then the constraint."""

    def __init__(self, make_call: Any, make_attempt: Any, task: Any) -> None:
        self.make_call, self.make_attempt, self.task = make_call, make_attempt, task

    def begin(self, tool: str, constraint: Any = None, **options: Any) -> Any:
        call = self.make_call(tool, task=self.task, **options)
        task_history.admit(call, 0)
        refused = constraint.admit(call, 0) if constraint is not None else None
        if refused is not None:
            task_history.settle(call, None, 0)
        return call, refused

    def run(self, tool: str, *, error: str | None = None, effect_state: str = "none", **options: Any) -> Any:
        call, _ = self.begin(tool, **options)
        attempt = self.make_attempt(call, error_type=error)
        attempt.effect = effect_state
        task_history.settle(call, attempt, 0)
        return call


@pytest.fixture
def flow(make_call: Any, make_attempt: Any, make_task: Any) -> Flow:
    return Flow(make_call, make_attempt, make_task())


def test_a_step_waits_for_those_before_it(flow: Flow) -> None:
    order = StepOrder(requires=["create_order", "check_stock"])
    _, refused = flow.begin("pay_order", order)
    assert (refused.code, refused.next_action) == (
        "PRECONDITION_FAILED",
        "choose_tool",
    ) and "create_order" in refused.message
    flow.run("create_order")
    assert "check_stock" in flow.begin("pay_order", order)[1].message
    flow.run("check_stock")
    assert flow.begin("pay_order", order)[1] is None
    order.settle(flow.begin("pay_order")[0], None, 0)
    assert isinstance(order, Constraint) and isinstance(task_history, Constraint)


def test_completed_steps_of_the_context_count(make_call: Any, make_attempt: Any, make_task: Any) -> None:
    flow = Flow(make_call, make_attempt, make_task(state=State(completed_steps=("login",))))
    assert flow.begin("pay", StepOrder(["login"]))[1] is None
    assert flow.begin("pay", StepOrder(["login"], same=["id"]))[1] is not None


def test_another_task_does_not_count(flow: Flow, make_task: Any) -> None:
    flow.run("a")
    flow.task = make_task()
    assert flow.begin("b", StepOrder(["a"]))[1] is not None


def test_a_failed_step_does_not_count_and_an_open_one_is_said_to_be_open(flow: Flow) -> None:
    order = StepOrder(["create"])
    running, _ = flow.begin("create")
    assert flow.begin("pay", order)[1].next_action == "retry_later"
    task_history.settle(running, flow.make_attempt(running, error_type="TOOL_ERROR"), 0)
    assert flow.begin("pay", order)[1].next_action == "choose_tool"
    unsure = flow.run("create", error="UNCERTAIN_RESULT", effect_state="unknown")
    assert flow.begin("pay", order)[1].next_action == "confirm_state"
    unsure.basis = "confirmed"
    assert flow.begin("pay", order)[1] is None, "a confirmation found it"


@pytest.mark.parametrize(("effect", "action"), [("unknown", "confirm_state"), ("not_applied", "choose_tool")])
def test_what_recovery_found_out_stands(flow: Flow, effect: str, action: str) -> None:
    call = flow.run("create", error="UNCERTAIN_RESULT", effect_state="unknown")
    call.attempts[-1].effect = effect
    assert flow.begin("pay", StepOrder(["create"]))[1].next_action == action


def test_the_same_order_has_to_be_meant(flow: Flow) -> None:
    order = StepOrder("create", same="order_id")
    flow.run("create", arguments={"order_id": 1})
    assert flow.begin("pay", order, arguments={"order_id": 1})[1] is None
    assert "order_id" in flow.begin("pay", order, arguments={"order_id": 2})[1].message
    assert flow.begin("pay", order)[1] is not None


def test_conflicts_with_what_runs(flow: Flow) -> None:
    conflict = ConflictsWith("delete_order", same=["order_id"])
    running, _ = flow.begin("delete_order", arguments={"order_id": 1})
    _, refused = flow.begin("update_order", conflict, arguments={"order_id": 1})
    assert (refused.code, refused.next_action) == ("CONFLICT", "retry_later") and running.request_id in refused.message
    assert class_of(refused.code) is FailureClass.CONTROL
    assert flow.begin("update_order", conflict, arguments={"order_id": 2})[1] is None
    task_history.settle(running, flow.make_attempt(running), 1)
    assert flow.begin("update_order", conflict, arguments={"order_id": 1})[1] is None
    conflict.settle(running, None, 0)


def test_conflicts_with_what_may_still_happen_and_with_the_past(flow: Flow) -> None:
    conflict = ConflictsWith("delete_order")
    flow.run("delete_order", error="UNCERTAIN_RESULT", effect_state="unknown")
    assert flow.begin("update_order", conflict)[1].next_action == "confirm_state"
    past = ConflictsWith("close_account", earlier=True)
    assert flow.begin("pay", past)[1] is None
    flow.run("close_account")
    assert flow.begin("pay", past)[1].next_action == "abort"
    assert flow.begin("pay", ConflictsWith("close_account"))[1] is None


def test_a_call_does_not_stand_in_its_own_way(flow: Flow) -> None:
    conflict = ConflictsWith("sync", "read")
    call, refused = flow.begin("sync", conflict)
    assert refused is None
    child, refused = flow.begin("read", conflict, parent=call)
    assert refused is None
    assert flow.begin("sync", conflict)[1] is not None
    assert child.parent is call


def test_a_refused_call_is_no_running_one(flow: Flow) -> None:
    conflict = ConflictsWith("a", "b")
    flow.begin("a", StepOrder(["never"]))
    assert flow.begin("b", conflict)[1] is None


def test_many_failed_calls_are_not_kept(flow: Flow) -> None:
    for _ in range(50):
        flow.run("a", error="TOOL_ERROR")
    assert len(list(task_history.steps(flow.begin("b")[0], "a"))) <= 1


def test_without_notes_nothing_is_said_to_be_fine(make_call: Any, make_task: Any) -> None:
    for constraint in (StepOrder(["a"]), ConflictsWith("a")):
        refused = constraint.admit(make_call("b", task=make_task()), 0)
        assert refused.code == "RULE_FAILED" and "task_history" in refused.message


def test_confirmations_and_calls_outside_a_task(make_call: Any, make_attempt: Any, make_task: Any) -> None:
    confirm = make_call("b", task=make_task(), purpose="confirm")
    task_history.admit(confirm, 0)
    task_history.settle(confirm, make_attempt(confirm), 0)
    assert StepOrder(["a"]).admit(confirm, 0) is None and ConflictsWith("a").admit(confirm, 0) is None
    outside = make_call("b")
    task_history.admit(outside, 0)
    task_history.settle(outside, None, 0)
    assert ConflictsWith("a").admit(outside, 0) is None and StepOrder(["a"]).admit(outside, 0) is not None


@pytest.mark.parametrize(
    "wrong", [lambda: StepOrder([]), lambda: StepOrder([""]), ConflictsWith, lambda: ConflictsWith("a", same=[1])]
)
def test_options_that_make_no_sense_are_refused(wrong: Any) -> None:
    with pytest.raises(ConfigurationError):
        wrong()
