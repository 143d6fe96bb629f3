"""The memory ledger: bounded, with chains that stay checkable, and the same bytes as the durable one."""

from __future__ import annotations

import dataclasses
import sys
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fcguard.errors import ConfigurationError, StoreError
from fcguard.model.states import TERMINAL_STATES, CallState
from fcguard.stores.audit import audit
from fcguard.stores.base import Accepted, Blocked, CallQuery, Enter, Event, Identity, Replayed
from fcguard.stores.chain import verify
from fcguard.stores.memory import MemoryStore
from fcguard.stores.payload import compose, facts_of, identity_in
from fcguard.stores.sqlite import SQLiteStore
from fcguard.testing.store_contract import ask, enter, identity, ids, move, note, open_call


def test_it_keeps_at_least_one_call() -> None:
    with pytest.raises(ConfigurationError, match="max_calls=0"):
        MemoryStore(max_calls=0)


def test_the_oldest_finished_calls_leave_and_open_ones_stay() -> None:
    store = MemoryStore(max_calls=5)
    ask(store, open_call(0))
    for number in range(1, 21):
        ask(store, enter(number, task_id=f"task-{number % 3}"))
    assert [int(request_id[-6:]) for request_id in ids(store.calls())] == [20, 19, 18, 17, 16, 0]
    assert len(list(store.events())) == 6
    verification = verify(store.events(), heads=store.heads(), gaps=store.gaps())
    assert verification.fault is None
    ask(store, move(0, 1, CallState.SUCCEEDED))
    assert [int(request_id[-6:]) for request_id in ids(store.calls())] == [20, 19, 18, 17, 0]


def test_a_call_that_leaves_leaves_its_key() -> None:
    store = MemoryStore(max_calls=1)
    keys: dict[str, Any] = {"idempotency_scope": "s", "idempotency_key": "k", "digest": "d"}
    ask(store, open_call(1, **keys))
    ask(store, move(1, 1, CallState.SUCCEEDED, result={"data": 1}))
    ask(store, enter(2))
    answer = ask(store, open_call(3, **keys))
    assert isinstance(answer, Blocked) and (answer.reason, answer.request_id) == ("pruned", "fc-20260130-000001")
    assert store.get("fc-20260130-000001") is None


_MODULES = ("memory.py", "memory_rows.py", "memory_keys.py")
_HOLD_THE_LOCK = {"submit", "_whole", "_changing", "_unspool"}
"""A trace function can raise where the interpreter never does: between the end of a `with` block and the release of its lock."""


def interrupt_at(line: int) -> Any:
    """Answer a trace function that interrupts before the n-th line that is run in the modules of the store."""
    seen = count(1)

    def trace(frame: Any, event: str, _: Any) -> Any:
        code = frame.f_code
        if Path(code.co_filename).name not in _MODULES or code.co_name in _HOLD_THE_LOCK:
            return trace
        if event == "line" and next(seen) == line:
            raise KeyboardInterrupt
        return trace

    return trace


def interrupted(store: MemoryStore, line: int, act: Any) -> bool:
    """Do something, interrupted before its n-th line in the store; answer whether it has so many."""
    before = sys.gettrace()
    sys.settrace(interrupt_at(line))
    try:
        act()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


KEYS: dict[str, Any] = {"idempotency_scope": "s", "idempotency_key": "k", "digest": "d", "effect_key": "e"}
ACTS: dict[str, Any] = {
    "a read": lambda store: store.submit(enter(50), lambda answer: None),
    "an intent": lambda store: store.submit(open_call(50, **KEYS), lambda answer: None),
    "a success": lambda store: store.submit(move(1, 1, CallState.SUCCEEDED, result={"data": 1}), lambda answer: None),
    "a failure": lambda store: store.submit(move(1, 1, CallState.FAILED), lambda answer: None),
    "a change": lambda store: store.submit(move(1, 1, CallState.UNCERTAIN, next_at=0.0), lambda answer: None),
    "a note": lambda store: store.submit(note(1), lambda answer: None),
    "a claim": lambda store: store.claim(),
    "pruning": lambda store: store.prune(103.0),
    "draining": lambda store: store.drain(),
}


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("is_looked_at", [True, False])
def test_an_interrupt_at_any_line_loses_nothing_and_leaves_nothing_for_ever(act: str, is_looked_at: bool) -> None:
    """A read, an intent and a finished call are there; then something is interrupted before each of its lines in turn."""
    for line in count(1):
        store = MemoryStore(max_calls=4)
        opened = act != "an intent"
        for number in range(2, 6):
            ask(store, enter(number, at=100.0 + number))
        ask(store, open_call(1, lease=0.0, at=100.0, **(KEYS if opened else {})))
        if act == "draining":
            store.spool(move(1, 1, CallState.SUCCEEDED, result={"data": 1}))
        if is_looked_at:
            list(store.events())  # bytes and hashes are made
        was_interrupted = interrupted(store, line, partial(ACTS[act], store))
        _assert_whole(store)
        row = store.get("fc-20260130-000001")
        assert row is not None, "an open call, or one that has just ended, does not leave"
        facts = facts_of(list(store.events(request_id="fc-20260130-000001"))[-1])
        assert (facts["state"], facts["version"]) == (row.state, row.version)
        answer = ask(store, open_call(60, **KEYS))
        if row.state is CallState.SUCCEEDED:
            assert isinstance(answer, Replayed)
        elif opened and row.state is not CallState.FAILED:
            assert isinstance(answer, Blocked)
        elif act == "an intent" and store.get("fc-20260130-000050") is not None:
            assert isinstance(answer, Blocked)
        else:
            assert answer == Accepted(1)
        for number in range(70, 90):
            ask(store, enter(number))
        finished = [call for call in store.calls() if call.state in TERMINAL_STATES]
        assert [int(call.identity.request_id[-6:]) for call in finished] == [89, 88, 87, 86], "nothing stays for ever"
        _assert_whole(store)
        if not was_interrupted:
            assert line > 3
            return


@pytest.mark.parametrize("leaving", ["pruned", "pushed out"])
def test_an_interrupt_while_a_write_leaves_loses_neither_the_call_nor_its_key(leaving: str) -> None:
    for line in count(1):
        store = MemoryStore(max_calls=2, max_keys=1)
        ask(store, open_call(1, **KEYS))
        ask(store, move(1, 1, CallState.SUCCEEDED, result={"data": 1}))
        ask(store, enter(2))
        act = partial(store.prune, 200.0) if leaving == "pruned" else partial(store.submit, enter(3), lambda _: None)
        was_interrupted = interrupted(store, line, act)
        assert isinstance(ask(store, open_call(9, **KEYS)), Replayed | Blocked), "never neither"
        assert (store.get("fc-20260130-000001") is None) == (store.tombstone("fc-20260130-000001") is not None)
        _assert_whole(store)
        assert audit(store).ok
        if not was_interrupted:
            assert line > 10
            return


def _assert_whole(store: MemoryStore) -> None:
    verification = verify(store.events(), heads=store.heads(), gaps=store.gaps())
    assert verification.fault is None, str(verification.fault)


def test_a_spooled_outcome_survives_an_interrupt_of_its_draining() -> None:
    for line in count(1):
        store = MemoryStore()
        ask(store, open_call(1))
        store.spool(move(1, 1, CallState.SUCCEEDED, result={"data": 1}))
        was_interrupted = interrupted(store, line, store.drain)
        store.drain()
        row = store.get("fc-20260130-000001")
        assert row is not None and row.state is CallState.SUCCEEDED
        if not was_interrupted:
            return


def test_nothing_is_left_of_tasks_that_left() -> None:
    store = MemoryStore(max_calls=10)
    for number in range(1000):
        ask(store, enter(number, task_id=f"task-{number}"))
    assert len(list(store.heads())) == 10


def test_hashes_that_were_read_hold_when_earlier_events_leave() -> None:
    store = MemoryStore(max_calls=4)
    for number in range(4):
        ask(store, enter(number))
    seen = {event.seq: event.hash for event in store.events()}
    ask(store, enter(4))
    ask(store, enter(5))
    now = {event.seq: event.hash for event in store.events()}
    assert {seq: now[seq] for seq in (3, 4)} == {seq: seen[seq] for seq in (3, 4)}
    gaps = list(store.gaps())
    assert [(gap.first, gap.last, gap.hash) for gap in gaps] == [(1, 2, seen[2])]
    assert verify(store.events(), heads=store.heads(), gaps=gaps).ok


def test_a_payload_without_a_json_form_is_found_at_reading() -> None:
    store = MemoryStore()
    assert ask(store, Enter(identity(1), CallState.SUCCEEDED, 1, Event("call", 1.0, {"a": object()}))) == Accepted(1)
    with pytest.raises(StoreError, match="no JSON form"):
        list(store.events())


@pytest.mark.parametrize("of_task", ["task", "other"])
def test_events_of_a_call_in_a_task(of_task: str) -> None:
    store = MemoryStore()
    ask(store, enter(1))
    events = list(store.events(request_id="fc-20260130-000001", task_id=of_task))
    assert len(events) == (1 if of_task == "task" else 0)


def test_a_spooled_command_that_fails_stays() -> None:
    store = MemoryStore()
    store.spool(note(1))
    drained = store.drain()
    assert list(drained.failed.values()) == ["the call 'fc-20260130-000001' is not in the ledger; open it first"]
    ask(store, enter(1))
    assert store.drain().applied == 1


_commands = st.lists(
    st.one_of(
        st.builds(enter, st.integers(0, 5), task_id=st.sampled_from(["a", "b"])),
        st.builds(
            open_call, st.integers(0, 5), effect_key=st.sampled_from([None, "e"]), task_id=st.sampled_from(["a", "b"])
        ),
        st.builds(move, st.integers(0, 5), st.integers(1, 3), st.sampled_from(CallState), attempt=st.integers(1, 2)),
        st.builds(note, st.integers(0, 5)),
    ),
    max_size=25,
)


@settings(deadline=None)  # it opens a file on the disk
@given(commands=_commands)
def test_it_answers_and_holds_what_the_durable_ledger_does(
    tmp_path_factory: pytest.TempPathFactory, commands: list[Any]
) -> None:
    """The same commands: the same answers, rows, bytes and hashes."""
    path: Path = tmp_path_factory.mktemp("twin") / "ledger.db"
    memory, durable = MemoryStore(), SQLiteStore(path, synchronous="NORMAL")

    def answer(store: Any, command: Any) -> Any:
        try:
            return ask(store, command)
        except StoreError as error:
            return str(error)

    assert [answer(memory, command) for command in commands] == [answer(durable, command) for command in commands]
    assert sorted(memory.events(), key=lambda e: (e.task_id, e.seq)) == sorted(
        durable.events(), key=lambda e: (e.task_id, e.seq)
    )
    for number in range(6):
        one, other = memory.get(f"fc-20260130-{number:06d}"), durable.get(f"fc-20260130-{number:06d}")
        assert (one is None) is (other is None)
        if one is not None and other is not None:
            assert (one.identity, one.state, one.version, one.result) == (
                other.identity,
                other.state,
                other.version,
                other.result,
            )
    assert sorted(ids(memory.calls(CallQuery()))) == sorted(ids(durable.calls(CallQuery())))
    durable.close()


def test_every_column_of_an_identity_is_in_the_first_event() -> None:
    """The bytes of the first event are where a durable ledger reads the identity from."""
    given = {field.name: field.name for field in dataclasses.fields(Identity)} | {
        "step": 3,
        "settle": 1.5,
        "effect": "write",
    }
    whole = Identity(**given)
    assert (
        identity_in(
            compose(
                Event("opened", 1.0, {}),
                ("task_id", "request_id"),
                CallState.STARTED,
                version=1,
                attempt=1,
                identity=whole,
            )
        )
        == whole
    )
