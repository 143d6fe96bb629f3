"""A ledger that fails: nothing is sent without a record, nothing done is called undone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fcguard import Applied, Guard, MemoryStore, NotApplied, SQLiteStore
from fcguard.errors import StoreUnavailable
from fcguard.model.states import CallState
from fcguard.stores.base import Enter, Move, Open
from tests.conftest import Mode, Script, add

# -- ledgers that fail -----------------------------------------------------------------------------------------------------


class FailingStore(MemoryStore):
    """Refuses some commands, politely or by raising."""

    def __init__(self, *refused: type, error: BaseException | None = None, is_rude: bool = False) -> None:
        super().__init__()
        self.refused, self.is_rude = refused, is_rude
        self.error = error or StoreUnavailable("the disk is full; free some space")

    def submit(self, command: Any, done: Callable[[Any], None]) -> None:
        if not isinstance(command, self.refused):
            super().submit(command, done)
        elif self.is_rude:
            raise self.error
        else:
            done(self.error)


FAULTS = [
    {},
    {"error": RuntimeError("a bug of the store")},
    {"error": StoreUnavailable("gone"), "is_rude": True},
    {"error": RuntimeError("a bug of the store"), "is_rude": True},
]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_write_whose_intent_cannot_be_recorded_is_not_sent(tmp_path: Path, mode: Mode, fault: dict[str, Any]) -> None:
    script = Script("done")
    with Guard(store=FailingStore(Open, **fault), evidence_dir=tmp_path) as guard:
        add(guard, mode, script)
        with guard.task("write"):
            result = mode.call(guard, "tool", {})
    assert (result.error_type, result.failure_class, result.attempts, result.effect) == (
        "EVIDENCE_FAILED",
        "PLATFORM",
        0,
        "none",
    )
    assert (result.next_action, result.retryable, script.calls) == ("escalate_to_platform", False, [])


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("effect", ["read", "write"])
def test_an_outcome_that_cannot_be_recorded_does_not_undo_a_success(
    tmp_path: Path, mode: Mode, fault: dict[str, Any], effect: Any
) -> None:
    with Guard(store=FailingStore(Move, Enter, **fault), evidence_dir=tmp_path) as guard:
        add(guard, mode, Script({"done": True}), effect=effect)
        with guard.task("write"):
            result = mode.call(guard, "tool", {})
    assert (result.success, result.data, result.flags) == (True, {"done": True}, ("evidence_pending",))
    assert "record" in result.message


@pytest.mark.parametrize("fault", FAULTS)
def test_a_ledger_that_fails_half_way_does_not_stop_the_confirmation(
    tmp_path: Path, mode: Mode, fault: dict[str, Any]
) -> None:
    with Guard(store=FailingStore(Move, **fault), evidence_dir=tmp_path) as guard:
        add(guard, mode, Script(TimeoutError()), confirm=lambda call: Applied("found"))
        with guard.task("write"):
            result = mode.call(guard, "tool", {})
    assert (result.success, result.outcome_basis, result.data) == (True, "confirmed", "found")
    assert "evidence_pending" in result.flags


def test_a_second_attempt_whose_intent_cannot_be_recorded_is_not_sent(tmp_path: Path, mode: Mode) -> None:
    script = Script(NotApplied("busy"), "second")
    with Guard(store=FailingStore(Move), evidence_dir=tmp_path) as guard:
        add(guard, mode, script, retry=2)
        with guard.task("write"):
            result = mode.call(guard, "tool", {})
    assert (result.success, result.effect, len(script.calls)) == (False, "not_applied", 1)
    assert "stopped_by:EVIDENCE_FAILED" in result.flags


def test_a_write_that_a_closed_ledger_refuses_is_in_it_once_it_is_open_again(tmp_path: Path, mode: Mode) -> None:
    script = Script("done")
    guard = Guard(store=SQLiteStore(tmp_path / "ledger.db"), evidence_dir=tmp_path)
    add(guard, mode, script)
    guard.close()
    with guard.task("write", task_id="t"):
        result = mode.call(guard, "tool", {})
    assert (result.error_type, result.effect, script.calls) == ("EVIDENCE_FAILED", "none", [])
    with Guard(store=SQLiteStore(tmp_path / "ledger.db"), evidence_dir=tmp_path) as again:
        drained = again.recover().drained
        assert (drained.applied, dict(drained.failed)) == (1, {})  # nothing to withdraw: the intent never arrived
        (row,) = again.store.calls()
        assert (row.identity.request_id, row.state) == (result.request_id, CallState.REJECTED)
