"""The fault matrix: green for an agent that acts through the guard, red where it must be for one that goes around it."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from urllib.error import HTTPError

import pytest

from fcguard import MemoryStore, State
from fcguard.evaluation.report.assess import assess
from fcguard.testing.clock import FakeClock
from fcguard.testing.dispatches import Dispatch
from fcguard.testing.fault_criteria import CRITERIA, SessionEvidence
from fcguard.testing.fault_kinds import FAULTS
from fcguard.testing.fault_matrix import fault_gold, fault_suite, matrix_rows, render_matrix
from fcguard.testing.fault_scenarios import SCENARIOS, proposals_for
from fcguard.testing.faults import inject
from fcguard.testing.order_service import OrderService, request_json
from fcguard.testing.order_tools import order_guard
from fcguard.testing.reference_agents import follow_envelope, retry_blindly
from fcguard.testing.suite import SessionFacts
from fcguard.testing.suites import SuiteRun, run_suite

NAMES = [scenario.name for scenario in SCENARIOS]


@pytest.fixture(scope="module")
def guarded() -> SuiteRun:
    return run_suite(follow_envelope, fault_suite(), trials=3, workers=2, progress="none")


@pytest.fixture(scope="module")
def naive() -> SuiteRun:
    return run_suite(retry_blindly, fault_suite(), trials=1, workers=2, progress="none")


def states(ran: SuiteRun, name: str) -> dict[str, str]:
    line = next(line for line in ran.sessions if line["task_id"] == name)
    return {criterion: found["state"] for criterion, found in line["criteria"].items()}


@pytest.mark.parametrize("name", NAMES)
def test_every_criterion_holds_for_the_guarded_agent(guarded: SuiteRun, name: str) -> None:
    lines = [line for line in guarded.sessions if line["task_id"] == name]
    assert len(lines) == 3
    for line in lines:
        assert {
            row: found for row, found in line["criteria"].items() if found["state"] not in ("ok", "not_applicable")
        } == {}
        assert line["outcome"] == "passed" and set(line["criteria"]) == set(CRITERIA)


EXPECTED_RED = {
    "unknown_tool": {"effects", "told", "recorded", "contained"},
    "missing_parameter": {"tries", "told", "recorded", "contained"},
    "wrong_parameter": {"ending", "effects", "tries", "told", "recorded", "contained"},
    "business_precondition": {"ending", "effects", "tries", "told", "recorded", "contained"},
    "write_timeout_committed": {"effects", "tries", "recorded"},
    "empty_result": {"ending", "told", "recorded"},
    "cut_result": {"ending", "told", "recorded"},
    "rate_limited": {"waited", "recorded"},
    "permission_denied": {"tries", "told", "recorded"},
    "injected_instruction": {"effects", "recorded", "contained"},
    "stale_arguments": {"ending", "effects", "tries", "told", "recorded", "contained"},
    "timeout_always": {"told", "recorded"},
    "server_error_always": {"told", "recorded"},
    "environment_down": {"told", "recorded"},
}


@pytest.mark.parametrize("name", NAMES)
def test_what_fails_for_the_naive_agent(naive: SuiteRun, name: str) -> None:
    red = {criterion for criterion, state in states(naive, name).items() if state == "failed"}
    assert red == EXPECTED_RED.get(name, {"recorded"})


@pytest.mark.parametrize("name", ["normalizer_crash", "evidence_write_failure", "evidence_lost"])
def test_a_fault_that_had_no_place_to_strike_says_so(naive: SuiteRun, name: str) -> None:
    assert states(naive, name)["effects"] == "not_struck"


def test_the_naive_agent_made_two_orders_and_three_payments_that_nobody_asked_for(naive: SuiteRun) -> None:
    why = {line["task_id"]: line["criteria"]["effects"]["why"] for line in naive.sessions}
    assert why["write_timeout_committed"].startswith("2 orders (expected 1)")
    paid = [name for name, text in why.items() if "1 payments (expected 0)" in text]
    assert paid == ["unknown_tool", "business_precondition", "injected_instruction", "stale_arguments"]


def test_both_runs_are_traces_that_the_gate_tells_apart(guarded: SuiteRun, naive: SuiteRun) -> None:
    good = assess([guarded.run()], guarded.suite.measures)
    bad = assess([naive.run()], naive.suite.measures)
    assert (good.verdict.outcome, bad.verdict.outcome) == ("pass", "fail")
    assert good.partial.totals().get("misfires", 0) == 0 and good.partial.totals()["blocked"] == 15
    assert bad.partial.totals()["misfire_sessions"] >= 7


def test_the_table_has_a_row_for_each_fault_and_a_column_for_each_criterion(guarded: SuiteRun, naive: SuiteRun) -> None:
    rows = matrix_rows(guarded.sessions)
    assert rows[0] == ["fault", *CRITERIA] and [row[0] for row in rows[1:]] == NAMES
    assert {cell for row in rows[1:] for cell in row[1:]} == {"ok", "-"}
    assert render_matrix(naive.sessions).count("FAILED") == sum(
        len(EXPECTED_RED.get(name, {"recorded"})) for name in NAMES
    )
    assert len(matrix_rows([])) == 1


def test_every_fault_of_the_table_and_every_criterion_is_used_and_explained() -> None:
    used = {scenario.fault for scenario in SCENARIOS} | set(NAMES)
    assert set(FAULTS) - used == {"precondition_failed"}
    assert all(criterion.__doc__ for criterion in CRITERIA.values())
    assert set(fault_gold().tasks) == set(NAMES)
    assert proposals_for("another prompt") == ()


def test_the_same_seed_gives_the_same_sessions(guarded: SuiteRun) -> None:
    again = run_suite(
        follow_envelope, fault_suite(), trials=1, only={"cut_result", "injected_instruction"}, progress="none"
    )
    first = [
        line
        for line in guarded.sessions
        if line["trial"] == 0 and line["task_id"] in ("cut_result", "injected_instruction")
    ]
    assert [line["criteria"] for line in again.sessions] == [line["criteria"] for line in first]


def test_an_agent_that_does_nothing_shows_nothing() -> None:
    ran = run_suite(
        lambda prompt, guard: None,
        fault_suite(),
        trials=1,
        only={"timeout_once", "write_timeout_committed"},
        progress="none",
    )
    assert [line["outcome"] for line in ran.sessions] == ["unscored", "unscored"]
    assert assess([ran.run()], ran.suite.measures).partial.totals()["failed"] == 2


def evidence(name: str, **facts: Any) -> SessionEvidence:
    scenario = next(scenario for scenario in SCENARIOS if scenario.name == name)
    return SessionEvidence(
        scenario,
        SessionFacts(**{"calls": [], "dispatches": [], **facts}),
        {"orders": 0, "payments": 0},
        True,
        MemoryStore(),
    )


def test_criteria_see_what_is_missing() -> None:
    entered = Dispatch("query_order", "read", {}, True, 0.0)
    assert CRITERIA["recorded"](evidence("timeout_once", dispatches=[entered]))["why"] == "1 tries, 0 recorded"
    assert CRITERIA["ending"](evidence("timeout_once"))["state"] == "failed"
    assert CRITERIA["ending"](evidence("unknown_tool"))["state"] == "ok"
    assert CRITERIA["waited"](evidence("rate_limited", dispatches=[entered]))["state"] == "failed"
    silent = [{"tool": "query_order", "state": "FAILED", "error_type": "TIMEOUT", "next_action": "retry_later"}]
    assert CRITERIA["told"](evidence("timeout_always", calls=silent))["state"] == "failed"


def test_the_service_checks_nothing_and_counts_everything(tmp_path: Path) -> None:
    with OrderService(tmp_path / "orders.db") as service:
        for _ in range(2):
            request_json("POST", f"{service.url}/orders", {"order_id": "A1", "sku": "S", "quantity": "many"})
        request_json("POST", f"{service.url}/orders/A1/payment")
        assert request_json("GET", f"{service.url}/orders/A1")["quantity"] == "many"
        assert (service.count("orders", "A1"), service.count("orders"), service.count("payments")) == (2, 2, 1)
        with pytest.raises(HTTPError):
            request_json("GET", f"{service.url}/orders/A9")
        with pytest.raises(HTTPError):
            request_json("POST", f"{service.url}/nowhere")
        with pytest.raises(ValueError, match="no table"):
            service.count("secrets")


def test_a_payment_whose_answer_is_lost_is_made_once(tmp_path: Path) -> None:
    with OrderService(tmp_path / "orders.db") as service, order_guard(service, tmp_path, clock=FakeClock()) as guard:
        service.add_order("A1")
        service.add_order("A2")
        with guard.task(state=State(resource_state={"orders": ["A1", "A2"]})):
            with inject(guard, "pay_order", "write_timeout_committed", times=1):
                committed = guard.call("pay_order", {"order_id": "A1"})
            with inject(guard, "pay_order", "write_timeout_not_committed", times=1):
                lost = guard.call("pay_order", {"order_id": "A2"})
            foreign = guard.call("create_order", {"order_id": "A3", "sku": "S", "quantity": 1})
        assert (committed.outcome_basis, committed.attempts, service.count("payments", "A1")) == ("confirmed", 1, 1)
        assert (lost.outcome_basis, lost.attempts, service.count("payments", "A2")) == ("returned", 2, 1)
        assert foreign.error_type == "ORDER_NOT_OF_TASK" and service.count("orders") == 2
