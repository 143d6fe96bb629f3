"""The fault matrix as a suite: one session a fault, on a real service, judged from the trace and by what the service counted."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fcguard.evaluation.catalogue import Catalogue, ToolSpec
from fcguard.evaluation.gold import Gold, parse_gold
from fcguard.model.context import State
from fcguard.testing.clock import FakeClock
from fcguard.testing.fault_criteria import CRITERIA, SessionEvidence
from fcguard.testing.fault_scenarios import SCENARIOS, Scenario
from fcguard.testing.faults import Injection, inject
from fcguard.testing.order_service import OrderService
from fcguard.testing.order_tools import ORDER_PARAMETERS, order_guard
from fcguard.testing.suite import Judgement, SessionFacts, Stage, Suite

__all__ = ["fault_gold", "fault_suite", "matrix_rows", "render_matrix"]

_EFFECTS: Mapping[str, Any] = {"query_order": "read", "create_order": "write", "pay_order": "write"}
_BY_NAME = {scenario.name: scenario for scenario in SCENARIOS}


def fault_suite() -> Suite:
    """Make the fault matrix as a suite. A session passes if every criterion holds; pauses between attempts take no time."""
    return Suite(
        name="faults",
        prompts={scenario.name: scenario.prompt for scenario in SCENARIOS},
        gold=fault_gold(),
        catalogue=Catalogue.of(
            ToolSpec(
                name,
                schema=schema,
                effect=_EFFECTS[name],
                business_key=None if name == "query_order" else ("order_id",),
            )
            for name, schema in ORDER_PARAMETERS.items()
        ),
        stage=_stage,
        description="an order desk whose tools, ledger and model fail in every known way",
    )


def fault_gold() -> Gold:
    """Answer what a good run of each scenario does."""
    rows = [
        {
            "id": scenario.name,
            "slice": scenario.site,
            "prompt": scenario.prompt,
            "steps": [_step(scenario)],
            "allowed_effects": ["read", "write"] if scenario.may_write else ["read"],
            "free_reads": True,
            "stop_is_right": scenario.expected.error_types != frozenset(),
        }
        for scenario in SCENARIOS
    ]
    return parse_gold({"version": 1, "suite": "faults", "tasks": rows}, where="fault matrix")


def _step(scenario: Scenario) -> dict[str, Any]:
    if not scenario.is_done_by_call:
        return {"any_of": [{"tool": "none"}]}
    name, arguments = scenario.proposals[0]
    return {"any_of": [{"tool": name, "arguments": {"$exact": arguments}}]}


@contextmanager
def _stage(task_id: str, trial: int, folder: Path) -> Iterator[Stage]:
    scenario = _BY_NAME[task_id]
    with OrderService(folder / "orders.db") as service, order_guard(service, folder, clock=FakeClock()) as guard:
        for order_id, status in scenario.orders.items():
            service.add_order(order_id, status)
        before = {table: service.count(table) for table in ("orders", "payments")}
        injection: Injection | None = None
        if scenario.fault is not None:
            injection = inject(guard, scenario.tool, scenario.fault, times=scenario.times, seed=trial)
        task = {
            "allow": scenario.allow,
            "state": State(resource_state={"orders": list(scenario.of_task)}),
        }

        def judge(facts: SessionFacts) -> Judgement:
            counted = {table: service.count(table) - number for table, number in before.items()}
            struck = injection is None or injection.struck > 0
            return _judge(SessionEvidence(scenario, facts, counted, struck, guard.store))

        yield Stage(guard, task, judge)


def _judge(evidence: SessionEvidence) -> Judgement:
    criteria = {name: criterion(evidence) for name, criterion in CRITERIA.items()}
    is_failed = any(found["state"] == "failed" for found in criteria.values())
    passed = "passed" if evidence.struck else "unscored"  # nothing was shown: then the gold says what was done
    return Judgement("failed" if is_failed else passed, criteria)


_CELLS = {"ok": "ok", "failed": "FAILED", "not_applicable": "-", "not_struck": "(no fault)"}


def matrix_rows(sessions: list[dict[str, Any]]) -> list[list[str]]:
    """Answer the table fault x criterion of a run of the suite, its head first; a cell that failed in any trial is FAILED."""
    rows = [["fault", *CRITERIA]]
    for scenario in SCENARIOS:
        found = [line.get("criteria", {}) for line in sessions if line["task_id"] == scenario.name]
        if found:
            cells = [_worst([row[name]["state"] for row in found if name in row]) for name in CRITERIA]
            rows.append([scenario.name, *cells])
    return rows


def _worst(states: list[str]) -> str:
    order: Callable[[str], int] = ["failed", "ok", "not_applicable", "not_struck"].index
    return _CELLS[min(states, key=order)] if states else ""


def render_matrix(sessions: list[dict[str, Any]]) -> str:
    """Answer the table fault x criterion as Markdown."""
    head, *rows = matrix_rows(sessions)
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(row)} |" for row in lines)
