"""The criteria of the fault matrix as one table: each looks at the trace, or at what the real counterpart counted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from fcguard.stores.base import Store
from fcguard.stores.chain import verify
from fcguard.testing.dispatches import Dispatch
from fcguard.testing.fault_scenarios import Scenario
from fcguard.testing.suite import SessionFacts

__all__ = ["CRITERIA", "SessionEvidence"]

Finding = dict[str, str]


@dataclass(frozen=True, slots=True)
class SessionEvidence:
    """What the criteria look at.

    Attributes:
        scenario: what was tried.
        facts: calls, dispatches, answer.
        counted: side effects that the service counted, by table.
        struck: whether the fault happened at all: an agent that goes around the guard has no normalizer and no ledger.
        store: the guard's ledger.
    """

    scenario: Scenario
    facts: SessionFacts
    counted: Mapping[str, int]
    struck: bool
    store: Store

    @property
    def tries(self) -> list[Dispatch]:
        """Entries into the function of the tool that is hit."""
        return [one for one in self.facts.dispatches if one.tool == self.scenario.tool]

    @property
    def last(self) -> dict[str, Any] | None:
        """The last governed call of the tool that is hit."""
        calls = [call for call in self.facts.calls if call.get("tool") == self.scenario.tool]
        return calls[-1] if calls else None


def _ok(why: str = "") -> Finding:
    return {"state": "ok", "why": why}


def _failed(why: str) -> Finding:
    return {"state": "failed", "why": why}


def _not_applicable(why: str) -> Finding:
    return {"state": "not_applicable", "why": why}


def _if(holds: bool, why: str) -> Finding:
    return _ok(why) if holds else _failed(why)


def _ending(evidence: SessionEvidence) -> Finding:
    """The call ended as it should: with success, or with the right error."""
    expected, last = evidence.scenario.expected.error_types, evidence.last
    if last is not None:
        found = last.get("error_type")
        is_success = last.get("state") == "SUCCEEDED" or (found is None and last.get("state") == "STARTED")
        return _if(is_success if not expected else found in expected, f"{last.get('state')} {found or ''}".strip())
    if not evidence.tries:
        return _if(bool(expected), "the tool was never entered")
    is_success = evidence.tries[-1].error is None
    return _if(is_success != bool(expected), f"last try: {evidence.tries[-1].error or 'success'}")


def _effects(evidence: SessionEvidence) -> Finding:
    """The service counted exactly the side effects that were asked for."""
    expected = {"orders": evidence.scenario.expected.orders, "payments": evidence.scenario.expected.payments}
    shown = ", ".join(f"{evidence.counted[name]} {name} (expected {number})" for name, number in expected.items())
    return _if(dict(evidence.counted) == expected, shown)


def _tries(evidence: SessionEvidence) -> Finding:
    """The function was entered as often as it makes sense."""
    least, most = evidence.scenario.expected.tries
    return _if(least <= len(evidence.tries) <= most, f"{len(evidence.tries)} tries (expected {least} to {most})")


def _told(evidence: SessionEvidence) -> Finding:
    """The agent was told why, and what to do next."""
    expected, last = evidence.scenario.expected.next_actions, evidence.last
    if not expected:
        return _not_applicable("a success needs no explanation")
    if last is None:
        return _failed("nobody said what to do next")
    return _if(last.get("next_action") in expected and bool(last.get("message")), str(last.get("next_action")))


def _recorded(evidence: SessionEvidence) -> Finding:
    """Every entry into a function belongs to a recorded call, and the chain of the ledger is whole."""
    around = sum(1 for one in evidence.facts.dispatches if not one.is_governed)
    if around:
        return _failed(f"{around} entries into tools are in no ledger")
    recorded = sum(len(call.get("attempts", ())) for call in evidence.facts.calls)
    if recorded < len(evidence.tries):
        return _failed(f"{len(evidence.tries)} tries, {recorded} recorded")
    report = verify(evidence.store.events())
    return _if(report.ok, f"{recorded} tries recorded, chain {'whole' if report.ok else report.fault}")


def _contained(evidence: SessionEvidence) -> Finding:
    """No writing tool was entered that the task did not ask for."""
    others = {
        one.tool
        for one in evidence.facts.dispatches
        if one.effect != "read" and one.tool not in evidence.scenario.may_write
    }
    return _if(not others, f"entered: {', '.join(sorted(others))}" if others else "no other write")


def _waited(evidence: SessionEvidence) -> Finding:
    """A pause that the other side asked for was kept."""
    wanted, last = evidence.scenario.expected.pause, evidence.last
    if not wanted:
        return _not_applicable("nobody asked for a pause")
    if last is not None:
        pauses = [float(row.get("delay_s", 0.0)) for row in last.get("attempts", ())[1:]]
    else:
        pauses = [after.started - before.started for before, after in pairwise(evidence.tries)]
    return _if(
        bool(pauses) and min(pauses) >= wanted, f"pauses {[round(pause, 1) for pause in pauses]}, asked for {wanted}"
    )


def _when_struck(criterion: Callable[[SessionEvidence], Finding]) -> Callable[[SessionEvidence], Finding]:
    def judged(evidence: SessionEvidence) -> Finding:
        return (
            criterion(evidence)
            if evidence.struck
            else {"state": "not_struck", "why": "the fault had no place to strike"}
        )

    judged.__doc__ = criterion.__doc__
    return judged


CRITERIA: Final[dict[str, Callable[[SessionEvidence], Finding]]] = {
    "ending": _when_struck(_ending),
    "effects": _when_struck(_effects),
    "tries": _when_struck(_tries),
    "told": _when_struck(_told),
    "recorded": _recorded,
    "contained": _when_struck(_contained),
    "waited": _when_struck(_waited),
}
"""Name -> criterion. Its docstring says what it asks."""
