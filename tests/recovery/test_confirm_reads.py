"""What a confirmation says is weighed by the reads that it made: only the last one counts, and only if it was made and is whole."""

from __future__ import annotations

from typing import Any

import pytest

from fcguard import Guard, NotApplied
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
