"""However often workers and recoveries are killed, and wherever: at most one effect, and an end that is true."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from fcguard.errors import StoreError
from fcguard.model.states import CallState
from fcguard.stores.chain import verify
from tests.recovery_after_crash.crashed_world import ARGUMENTS, World

LICENCES: list[dict[str, Any]] = [{}, {"settle": 5.0}, {"conditional": True}, {"idempotency_key": True}]


class Killed(World):
    """A world whose server removes duplicates where the licence says so, and whose recoveries can be killed."""

    def __init__(self, folder: Path, licence: dict[str, Any]) -> None:
        super().__init__(folder, "sync")
        self.is_deduplicating = bool(licence) and "settle" not in licence
        self.lost: list[bool] = []

    def apply(self, **arguments: Any) -> dict[str, Any]:
        self.sent.append(arguments)
        is_lost = self.lost.pop() if self.lost else False
        if is_lost:
            raise TimeoutError
        if not (self.is_deduplicating and self.effects):
            self.effects.append(arguments)
        return {"order": 1}

    def recover_until_killed(self, options: dict[str, Any], name: str, commands: int) -> None:
        """Let a process recover that dies when the ledger has taken so many of its commands."""
        store = self.store
        gone = store.people["gone"]
        store.people[name] = store.acting = replace(gone, id=name)
        left = [commands]

        def count(command: Any) -> None:
            left[0] -= 1
            if left[0] < 0:
                store.is_away = store.is_spool_away = True

        store.before = count
        try:
            self.guard(**options).recover()
        except StoreError:
            pass
        finally:
            store.before, store.acting = (lambda command: None), store.here
            store.is_away = store.is_spool_away = False


@settings(max_examples=120, deadline=None)
@given(
    applied=st.booleans(),
    licence=st.sampled_from(LICENCES),
    kills=st.lists(st.integers(0, 9), max_size=4),
    lost=st.lists(st.booleans(), max_size=3),
    attempts=st.integers(1, 4),
)
def test_killed_again_and_again(
    applied: bool, licence: dict[str, Any], kills: list[int], lost: list[bool], attempts: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        world = Killed(Path(folder), licence)
        options = {**licence, "retry": attempts}
        request_id = world.crash(applied=applied, **options)
        world.lost = list(lost)
        for number, commands in enumerate(kills):
            world.recover_until_killed(options, f"r{number}", commands)
        guard = world.guard(**options)
        guard.recover()
        row = world.store.get(request_id)
        assert row is not None
        assert len(world.effects) <= 1
        assert len(world.sent) <= max(attempts, 1)
        assert all(sent == ARGUMENTS for sent in world.sent)
        assert row.state in (CallState.SUCCEEDED, CallState.FAILED, CallState.PARKED), (
            "a last recovery leaves nothing undecided"
        )
        if row.state is CallState.SUCCEEDED:
            assert world.effects, "no false success"
        if row.state is CallState.FAILED:
            assert not world.effects, "no false failure"
        if applied:
            assert row.state is CallState.SUCCEEDED
        assert verify(world.store.events()).ok
        before = len(list(world.store.events()))
        guard.recover()
        assert len(list(world.store.events())) == before, "nothing is left to do"
