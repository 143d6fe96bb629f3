"""The page about constraints: its table is the code's, every constraint has a section with an example, and every block runs."""

from __future__ import annotations

import inspect
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import fcguard
from fcguard import constraints
from fcguard.constraints import (
    AttemptBudget,
    CallBudget,
    CircuitBreaker,
    Concurrency,
    ConflictsWith,
    ConstraintRow,
    Daily,
    DependencyHealth,
    Freeze,
    LoopDetection,
    NoProgressRepeat,
    QuietWindow,
    RateLimit,
    ResourcePool,
    RetryTokenBucket,
    StepOrder,
    TaskBudget,
    TaskHistory,
    constraints_markdown,
    constraints_table,
    task_history,
)
from fcguard.model.context import Budget
from fcguard.model.failure import TAXONOMY, ErrorType, Violation
from tests.page_sections import names_used, python_blocks, sections_of

PAGE = Path(__file__).resolve().parents[2] / "docs" / "constraints.md"
TEXT = PAGE.read_text(encoding="utf-8")
BLOCKS = python_blocks(TEXT)
CONSTRAINTS = [row.name for row in constraints_table()]
FOR_THE_DOCS = {"ConstraintRow", "constraints_markdown", "constraints_table"}


def test_the_table_on_the_page_is_the_one_of_the_code() -> None:
    shown = TEXT.partition("<!-- constraints:begin -->\n")[2].partition("<!-- constraints:end -->")[0]
    assert shown == constraints_markdown()


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_every_block_runs_on_its_own_and_asserts(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("FCGUARD_LEDGER", raising=False)
    module = ModuleType("constraints_example")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    try:
        exec(compile(BLOCKS[number], f"{PAGE.name} block {number}", "exec"), module.__dict__)
    finally:
        for value in module.__dict__.values():
            if isinstance(value, fcguard.Guard):
                value.close()
    assert "assert " in BLOCKS[number]


def test_every_constraint_that_is_exported_is_in_the_table() -> None:
    exported = {name: getattr(constraints, name) for name in constraints.__all__}
    deciding = {
        name
        for name, thing in exported.items()
        if inspect.isclass(thing) and hasattr(thing, "admit") and not getattr(thing, "_is_protocol", False)
    }
    assert sorted(CONSTRAINTS) == sorted(deciding)


@pytest.mark.parametrize("name", CONSTRAINTS)
def test_every_constraint_has_one_section_with_an_example(name: str) -> None:
    (section,) = [section for section in sections_of(TEXT) if name in section.names]
    assert section.names == (name,)
    assert any(name in names_used(block) and "assert " in block for block in section.blocks)


def test_everything_else_that_is_exported_is_used_in_an_example() -> None:
    used = frozenset().union(*map(names_used, BLOCKS))
    assert set(constraints.__all__) - used - FOR_THE_DOCS == set()


# -- what the table says of refusals is what constraints answer ------------------------------------------------------------


class Cases:
    """Brings each constraint to every refusal that it has."""

    def __init__(self, make_call: Any, make_attempt: Any, make_task: Any) -> None:
        self.call, self.attempt, self.task = make_call, make_attempt, make_task

    def refusals(self, kind: type) -> list[Violation]:
        simple: dict[str, Any] = {
            "CircuitBreaker": CircuitBreaker(minimum_calls=1),
            "CallBudget": CallBudget(0),
            "AttemptBudget": AttemptBudget(0),
            "TaskBudget": TaskBudget(),
            "RateLimit": RateLimit(1, 60),
            "RetryTokenBucket": RetryTokenBucket(1),
            "Concurrency": Concurrency(1),
            "ResourcePool": ResourcePool("accounts", ["ann"]),
            "QuietWindow": QuietWindow(Daily("00:00", "24:00")),
            "DependencyHealth": DependencyHealth(lambda: False),
            "Freeze": Freeze(lambda: True),
            "NoProgressRepeat": NoProgressRepeat(),
            "LoopDetection": LoopDetection(),
            "TaskHistory": TaskHistory(),
        }
        if kind.__name__ in simple:
            return self._pressed(simple[kind.__name__])
        options = {"requires": ["other"]} if kind is StepOrder else {}
        return [*self._in_order(kind, **options), *([] if kind is StepOrder else self._in_order(kind, earlier=True))]

    def _pressed(self, constraint: Any) -> list[Violation]:
        """Call, and fail, and retry, until it refuses."""
        task = self.task(budget=Budget(attempts=1))
        found = []
        for number in range(8):
            call = self.call(
                "ab"[number % 2] if isinstance(constraint, LoopDetection) else "a", effect="write", task=task
            )
            for _ in range(2 if isinstance(constraint, RetryTokenBucket) else 1):
                refused = constraint.admit(call, float(number))
                if refused is not None:
                    found.append(refused)
                    break
                attempt = self.attempt(call, value="same", error_type=self._ends_with(constraint))
                if not isinstance(constraint, Concurrency | ResourcePool):
                    constraint.settle(call, attempt, float(number))
        return found

    def _ends_with(self, constraint: Any) -> str | None:
        return "CONNECTION_FAILED" if isinstance(constraint, CircuitBreaker | RetryTokenBucket) else None

    def _in_order(self, kind: type, **options: Any) -> list[Violation]:
        """Meet the other tool before it began, while it runs, in doubt, and when it is done."""
        constraint = kind("other", **options) if kind is ConflictsWith else kind(**options)
        found = []
        for state in ("none", "running", "unknown", "done"):
            task = self.task()
            if state != "none":
                other = self.call("other", effect="write", task=task)
                task_history.admit(other, 0)
                if state != "running":
                    attempt = self.attempt(other, error_type="UNCERTAIN_RESULT" if state == "unknown" else None)
                    attempt.effect = "unknown" if state == "unknown" else "none"
                    task_history.settle(other, attempt, 0)
            call = self.call("mine", effect="write", task=task)
            task_history.admit(call, 0)
            refused = constraint.admit(call, 0)
            found += [] if refused is None else [refused]
        return found


@pytest.mark.parametrize("row", constraints_table(), ids=CONSTRAINTS)
def test_the_refusals_of_the_table_are_those_that_constraints_give(
    row: ConstraintRow, make_call: Any, make_attempt: Any, make_task: Any
) -> None:
    found = Cases(make_call, make_attempt, make_task).refusals(getattr(constraints, row.name))
    shown = {(str(one.code), str(one.next_action or TAXONOMY[ErrorType(one.code)][1])) for one in found}
    assert shown == set(row.codes)
    assert all((one.retry_after is not None) is row.tells_wait for one in found)


def test_every_summary_is_a_sentence() -> None:
    assert [row.name for row in constraints_table() if not row.summary.endswith(".")] == []
