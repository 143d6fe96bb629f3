"""What a confirmation says is weighed by the reads that it made: only the last one counts, and only if it was made and is whole."""

from __future__ import annotations

from typing import Any

import pytest

from fcguard import ConfirmBy, Guard, NotApplied
from tests.conftest import Mode, Script, add


def confirm_by_reading(guard: Guard, mode: Mode, *reads: Any, **options: Any) -> tuple[Any, Script]:
    """Time out once, and let the confirmation read as often as there are steps, and then say that nothing was applied."""
    script = Script(TimeoutError(), "sent again")
    add(guard, mode, Script(*reads), "look", effect="read", retry=1, **options)

    def confirm(call: Any) -> NotApplied:
        for _ in reads:
            guard.call("look", {})
        return NotApplied()

    add(guard, mode, script, confirm=confirm, conditional=True)
    with guard.task("order"):
        return mode.call(guard, "tool", {}), script


@pytest.mark.parametrize("reads", [([],), (LookupError("no such order"),), (ConnectionError("down"), [])])
def test_not_there_is_believed_when_it_was_read(guard: Guard, mode: Mode, reads: tuple[Any, ...]) -> None:
    result, script = confirm_by_reading(guard, mode, *reads)
    assert (result.success, result.attempts, len(script.calls)) == (True, 2, 2)


@pytest.mark.parametrize(
    "reads", [(ConnectionError("down"),), (TimeoutError(),), ([], ConnectionError("down")), (["x"] * 500,)]
)
def test_not_there_is_not_believed_when_the_last_read_failed_or_was_cut(
    guard: Guard, mode: Mode, reads: tuple[Any, ...]
) -> None:
    result, script = confirm_by_reading(guard, mode, *reads, max_result_chars=200)
    assert (result.success, result.effect, result.next_action) == (False, "unknown", "confirm_state")
    assert len(script.calls) == 1 and "it says that nothing was applied, but" in result.message


def test_a_replica_that_answered_may_be_behind(guard: Guard, mode: Mode) -> None:
    add(guard, mode, Script([]), "replica", effect="read")
    result, script = confirm_by_reading(guard, mode, ConnectionError("down"), fallback=("replica",))
    assert (result.success, len(script.calls)) == (False, 1)
    assert "replica answered for look, and may be behind it" in result.message


@pytest.mark.parametrize(("found", "is_there"), [(["A1"], True), ([], False)])
def test_what_a_replica_shows_is_there_and_what_it_does_not_show_may_be(
    guard: Guard, mode: Mode, found: list[str], is_there: bool
) -> None:
    """A copy that is behind can lack an effect; it cannot make one up. It is the same for a predicate and a function."""
    script = Script(TimeoutError(), "sent again")
    add(guard, mode, Script(found), "replica", effect="read")
    add(guard, mode, Script(ConnectionError("down")), "look", effect="read", retry=1, fallback=("replica",))
    add(guard, mode, script, confirm=ConfirmBy("look", applied=bool), conditional=True)
    with guard.task("order"):
        result = mode.call(guard, "tool", {})
    assert (result.success, result.effect, len(script.calls)) == (is_there, "applied" if is_there else "unknown", 1)
    assert is_there or "replica answered for look, and may be behind it" in result.message


@pytest.mark.parametrize("seen_by", ["look", "replica"])
@pytest.mark.parametrize("applied", [lambda rows: "A1" in str(rows), bool])
def test_a_predicate_is_not_asked_about_a_cut_read(guard: Guard, mode: Mode, seen_by: str, applied: Any) -> None:
    """What is left of it looks otherwise, so that neither of its answers would mean anything."""
    script, many = Script(TimeoutError(), "sent again"), Script(["x"] * 500)
    add(guard, mode, many, "replica", effect="read", max_result_chars=200)
    first = many if seen_by == "look" else Script(ConnectionError("down"))
    add(guard, mode, first, "look", effect="read", retry=1, fallback=("replica",), max_result_chars=200)
    add(guard, mode, script, confirm=ConfirmBy("look", applied=applied), conditional=True)
    with guard.task("order"):
        result = mode.call(guard, "tool", {})
    assert (result.success, result.effect, len(script.calls)) == (False, "unknown", 1)
