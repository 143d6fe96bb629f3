"""The case that decides everything, under everything that can go wrong: one order at most, and no envelope that says what is not so."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fcguard import ToolResult
from tests.recovery.deciding_case import CONFIRMS, LIFETIME, POLICIES, SENDS, TROUBLES, Case, Trial

COLOURS = ("sync", "async")


def combine(*words: Any) -> list[tuple[str, ...]]:
    return list(product(*words))


def play(case: Case, folder: Path) -> tuple[Trial, ToolResult[Any] | None]:
    """Run a case, recover, and let a model ask for the same order again and again; check after each step."""
    trial = Trial(case, folder)
    result = trial.run()
    trial.check(result)
    if result is not None and result.retryable:
        trial.check(trial.repeat())
    for pause in (30.0, 2 * LIFETIME):
        trial.clock.advance(pause)
        trial.recover()
        trial.check(None)
        trial.check(trial.repeat())
    return trial, result


@pytest.mark.parametrize(("policy", "confirm", "colour"), combine(POLICIES, CONFIRMS, COLOURS))
def test_the_server_had_committed(tmp_path: Path, policy: str, confirm: str, colour: str) -> None:
    """Whoever can see the order finds it; nobody makes a second one."""
    trial, result = play(Case(policy, ("commit", "ok"), confirm, colour=colour), tmp_path)
    assert len(trial.shop.effects()) == 1
    assert result is not None
    if confirm in ("honest", "slow", "by tool", "careless") and policy not in (
        "none",
        "conditional",
    ):
        assert result.success, result.message


@pytest.mark.parametrize(("policy", "colour"), combine(("settle", "key and settle"), COLOURS))
def test_the_server_had_not_committed(tmp_path: Path, policy: str, colour: str) -> None:
    trial, result = play(Case(policy, ("lost", "ok"), colour=colour), tmp_path)
    assert result is not None and result.success and result.attempts == 2
    assert len(trial.shop.effects()) == 1


CASES = st.builds(
    Case,
    policy=st.sampled_from(sorted(POLICIES)),
    sends=st.lists(st.sampled_from(SENDS), min_size=1, max_size=4).map(tuple),
    confirm=st.sampled_from(CONFIRMS),
    trouble=st.sampled_from(TROUBLES),
    colour=st.sampled_from(COLOURS),
)
DEATHS = st.builds(
    Case,
    policy=st.sampled_from(sorted(POLICIES)),
    sends=st.lists(st.sampled_from(SENDS), min_size=1, max_size=4).map(tuple),
    confirm=st.sampled_from(CONFIRMS),
    kill_at=st.integers(1, 8),
    is_written=st.booleans(),
    colour=st.sampled_from(COLOURS),
)
MANY = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@MANY
@given(case=CASES)
def test_whatever_goes_wrong_there_is_one_order_at_most(tmp_path: Path, case: Case) -> None:
    play(case, tmp_path)


@MANY
@given(case=DEATHS)
def test_wherever_the_process_dies_there_is_one_order_at_most(tmp_path: Path, case: Case) -> None:
    play(case, tmp_path)


@pytest.mark.parametrize(("confirm", "colour"), combine(("careless of failure", "careless of a cut"), COLOURS))
@pytest.mark.parametrize("policy", ["settle", "none"])
def test_a_confirmation_that_overlooks_a_failed_or_cut_read_has_seen_nothing(
    tmp_path: Path, policy: str, confirm: str, colour: str
) -> None:
    """It would otherwise license a second order, or close the first one as not made."""
    trial, result = play(Case(policy, ("commit", "ok"), confirm, colour=colour), tmp_path)
    assert result is not None
    assert (result.success, result.effect, result.next_action) == (False, "unknown", "confirm_state")
    assert "it says that nothing was applied, but" in result.message
    assert trial.shop.sends == 1
