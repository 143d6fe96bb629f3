"""What the ledger knows of a write comes before a refusal that says "later", and before a person is asked."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fcguard import Budget, Guard, MemoryStore, NotApplied
from fcguard.approval import MemoryApprovals
from fcguard.constraints import CircuitBreaker, Freeze
from fcguard.stores.sqlite import SQLiteStore
from fcguard.testing.clock import FakeClock
from tests.conftest import Effect, Mode, Script, add
from tests.test_keys import ORDER

A = {"order_id": "A"}


@pytest.fixture(params=["memory", "sqlite"])
def approvals_and_guard(request: Any, tmp_path: Path) -> Iterator[tuple[MemoryApprovals, Guard]]:
    store = MemoryStore() if request.param == "memory" else SQLiteStore(tmp_path / "ledger.db")
    approvals = MemoryApprovals()
    with Guard(store=store, evidence_dir=tmp_path, clock=FakeClock(), approvals=approvals) as guard:
        yield approvals, guard


def ask(guard: Guard, mode: Mode) -> Any:
    with guard.task("cancel", task_id="t"):
        return mode.call(guard, "tool", A)


def approve(approvals: MemoryApprovals, guard: Guard) -> None:
    (pending,) = approvals.requests("pending")
    approvals.decide(pending.request.request_id, pending.request.approve("ann"), guard.store.now())


@pytest.mark.parametrize("effect", ["write", "destructive"])
def test_nobody_is_asked_to_approve_a_write_that_is_open_or_done(
    approvals_and_guard: tuple[MemoryApprovals, Guard], mode: Mode, effect: str
) -> None:
    approvals, guard = approvals_and_guard
    script = Script(TimeoutError())
    add(guard, mode, script, effect=effect, approval="required", business_key=("order_id",), parameters=ORDER)
    assert ask(guard, mode).error_type == "APPROVAL_REQUIRED"
    approve(approvals, guard)
    sent = ask(guard, mode)
    assert (sent.error_type, sent.effect) == ("UNCERTAIN_RESULT", "unknown")
    again = ask(guard, mode)
    assert (again.error_type, again.next_action, again.blocked_by) == (
        "UNCERTAIN_RESULT",
        "confirm_state",
        sent.request_id,
    )
    guard.resolve(sent.request_id, applied=True, by="ann", reason="seen")
    done = ask(guard, mode)
    assert (done.success, done.outcome_basis, done.blocked_by) == (True, "replayed", sent.request_id)
    assert [one.state for one in approvals.requests()] == ["used"] and len(script.calls) == 1


def test_a_write_that_the_ledger_does_not_know_asks_for_approval(
    approvals_and_guard: tuple[MemoryApprovals, Guard], mode: Mode
) -> None:
    approvals, guard = approvals_and_guard
    add(guard, mode, Script(Effect("ok")), approval="required", business_key=("order_id",), parameters=ORDER)
    first, second = ask(guard, mode), ask(guard, mode)
    assert [first.error_type, second.error_type] == ["APPROVAL_REQUIRED"] * 2
    assert len(approvals.requests("pending")) == 1


@pytest.mark.parametrize("kind", ["circuit", "freeze"])
def test_a_refusal_that_says_later_does_not_hide_what_the_ledger_knows(guard: Guard, mode: Mode, kind: str) -> None:
    frozen = []
    circuit = CircuitBreaker("orders", minimum_calls=1, failure_rate=0.5, open_seconds=1e6)
    constraint = circuit if kind == "circuit" else Freeze(lambda: bool(frozen))
    script = Script(Effect("ok"), TimeoutError())
    add(guard, mode, script, constraints=(constraint,), business_key=("order_id",), parameters=ORDER)
    with guard.task("t"):
        done = mode.call(guard, "tool", A)
        lost = mode.call(guard, "tool", {"order_id": "B"})
        frozen.append("from now on")
        replayed = mode.call(guard, "tool", A)
        blocked = mode.call(guard, "tool", {"order_id": "B"})
        refused = mode.call(guard, "tool", {"order_id": "C"})
    assert refused.error_type == ("CIRCUIT_OPEN" if kind == "circuit" else "TENANT_FROZEN")
    assert (refused.effect, len(script.calls)) == ("none", 2)
    assert (replayed.outcome_basis, replayed.blocked_by) == ("replayed", done.request_id)
    assert (blocked.error_type, blocked.blocked_by) == ("UNCERTAIN_RESULT", lost.request_id)


def test_a_spent_budget_stays_a_spent_budget(guard: Guard, mode: Mode) -> None:
    add(guard, mode, Script(Effect("ok")), business_key=("order_id",), parameters=ORDER)
    with guard.task("t", budget=Budget(calls=1)):
        assert mode.call(guard, "tool", A).success
        assert mode.call(guard, "tool", A).error_type == "BUDGET_EXHAUSTED"


# -- what is left when nothing more can be sent -----------------------------------------------------------------------------


@pytest.mark.parametrize("licence", [{}, {"idempotency_key": True}, {"conditional": True}])
def test_a_settle_window_proves_a_write_lost_whatever_else_licenses_a_repeat(
    guard: Guard, mode: Mode, licence: dict[str, Any]
) -> None:
    script = Script(ConnectionResetError())
    add(guard, mode, script, confirm=lambda call: NotApplied(), settle=5.0, **licence)
    with guard.task("t"):
        result = mode.call(guard, "tool", {})
    assert (result.error_type, result.effect, result.retryable) == ("CONNECTION_FAILED", "not_applied", True)
    assert len(script.calls) == 2


def test_without_a_confirmation_the_window_proves_nothing(guard: Guard, mode: Mode) -> None:
    add(guard, mode, Script(ConnectionResetError()), idempotency_key=True, settle=5.0)
    with guard.task("t"):
        result = mode.call(guard, "tool", {})
    assert (result.error_type, result.effect, result.next_action) == ("UNCERTAIN_RESULT", "unknown", "confirm_state")


def test_advance_closes_what_the_window_has_proved_lost_meanwhile(guard: Guard, mode: Mode, clock: FakeClock) -> None:
    script, answers = Script(ConnectionResetError()), [NotApplied(), RuntimeError(), RuntimeError()]

    def confirm(call: Any) -> Any:
        answer = answers.pop(0) if answers else NotApplied()
        if isinstance(answer, Exception):
            raise answer
        return answer

    add(guard, mode, script, confirm=confirm, settle=5.0, idempotency_key=True)
    with guard.task("t"):
        lost = mode.call(guard, "tool", {})
    assert (lost.error_type, lost.effect) == ("UNCERTAIN_RESULT", "unknown")
    answers.clear()
    clock.advance(60.0)
    closed = guard.advance(lost.request_id)
    assert (closed.error_type, closed.effect) == ("CONNECTION_FAILED", "not_applied")
    assert "not recorded" not in closed.message and len(script.calls) == 2


# -- the end of a task's time -----------------------------------------------------------------------------------------------


def test_a_failure_at_the_end_of_the_tasks_time_invites_nobody_to_try_again(
    guard: Guard, mode: Mode, clock: FakeClock
) -> None:
    class Late(Script):
        def next(self, keywords: dict[str, Any]) -> Any:
            clock.advance(10.0)
            return super().next(keywords)

    add(guard, mode, Late(ConnectionRefusedError("no")), effect="read")
    with guard.task("t", budget=Budget(seconds=5.0)):
        result = mode.call(guard, "tool", {})
        after = mode.call(guard, "tool", {})
    assert (result.error_type, result.retryable, result.next_action) == ("CONNECTION_FAILED", False, "abort")
    assert result.message.endswith(". The repeat was refused (BUDGET_EXHAUSTED): The time of this task is used up.")
    assert (after.error_type, after.next_action) == ("BUDGET_EXHAUSTED", "abort")
