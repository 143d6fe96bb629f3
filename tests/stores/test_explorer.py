"""Every order of events is walked: no duplicate effect and no false end, unless a risk is accepted or a safeguard is missing."""

from __future__ import annotations

import pytest

from fcguard.model.states import OPEN_STATES, TERMINAL_STATES, TRANSITIONS, CallState, is_transition, next_states
from tests.stores.explorer import RISKS, SAFE, SAFEGUARDS, Protocol, explore

_S = CallState


@pytest.mark.parametrize("name", SAFE)
def test_no_order_of_events_duplicates_an_effect_or_ends_falsely(name: str) -> None:
    outcome = explore(SAFE[name])
    assert outcome.finding is None, f"\n{outcome.finding}"
    assert outcome.states > 500
    assert {_S.SUCCEEDED, _S.FAILED if SAFE[name].person else _S.PARKED} <= outcome.ends or name == "a declared window"


def test_a_person_leaves_nothing_parked_and_no_worker_overrules_them() -> None:
    outcome = explore(SAFE["a person who resolves what is parked"])
    assert _S.PARKED not in outcome.ends


def test_with_a_declared_window_calls_reach_every_end() -> None:
    assert {_S.SUCCEEDED, _S.FAILED, _S.PARKED} <= explore(Protocol()).ends


@pytest.mark.parametrize("name", RISKS)
def test_every_risk_prints_the_trace_that_it_allows(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    outcome = explore(RISKS[name])
    assert outcome.finding is not None
    print(f"{name}:\n{outcome.finding}")
    printed = capsys.readouterr().out
    assert "=> " in printed
    assert "worker" in printed


@pytest.mark.parametrize("name", SAFEGUARDS)
def test_every_safeguard_is_needed(name: str) -> None:
    finding = explore(SAFEGUARDS[name]).finding
    assert finding is not None, f"{name}: nothing goes wrong without it, so it is not tested"
    assert finding.what == "the effect was applied 2 times"


def test_the_table_leaves_no_state_without_a_way_and_no_end_with_one() -> None:
    assert {row.target for row in TRANSITIONS} == set(CallState)
    for state in OPEN_STATES:
        assert next_states(state)
    for state in TERMINAL_STATES:
        assert next_states(state) == frozenset()
        assert not any(is_transition(state, target) for target in CallState)


def test_no_transition_is_listed_twice_and_no_event_leads_to_two_states_unless_a_person_decides() -> None:
    rows = [(row.source, row.event, row.target) for row in TRANSITIONS]
    assert len(rows) == len(set(rows))
    targets: dict[tuple[CallState | None, str], set[CallState]] = {}
    for row in TRANSITIONS:
        targets.setdefault((row.source, row.event), set()).add(row.target)
    assert {event for (_, event), reached in targets.items() if len(reached) > 1} == {"resolved", "entered"}


def test_every_open_state_can_come_to_an_end() -> None:
    for state in OPEN_STATES:
        reached, todo = {state}, [state]
        while todo:
            for following in next_states(todo.pop()) - reached:
                reached.add(following)
                todo.append(following)
        assert {_S.SUCCEEDED, _S.FAILED} <= reached, state
