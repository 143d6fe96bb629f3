"""Laws of the hash chain: what holds verifies, and any tampering is found at the first bad record."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fcguard.model.states import CallState
from fcguard.stores.base import Gap, Head, StoredEvent
from fcguard.stores.chain import GENESIS, link, verify
from fcguard.stores.memory import MemoryStore
from fcguard.testing.store_contract import ask, enter, move, note, open_call


def _ledger() -> MemoryStore:
    """Two tasks: `task` with events 1 to 6, `other` with events 1 to 3."""
    store = MemoryStore()
    ask(store, open_call(1))
    ask(store, enter(2))
    ask(store, open_call(3, task_id="other"))
    ask(store, move(1, 1, CallState.UNCERTAIN))
    ask(store, enter(4, task_id="other"))
    ask(store, move(1, 2, CallState.CONFIRMING))
    ask(store, move(1, 3, CallState.SUCCEEDED, result={"data": 1}))
    ask(store, note(1))
    ask(store, move(3, 1, CallState.FAILED))
    return store


def _events() -> list[StoredEvent]:
    return list(_ledger().events())


def _first_bad(events: list[StoredEvent], heads: list[Head] | None = None) -> tuple[str, int] | None:
    fault = verify(events, heads=heads or []).fault
    return None if fault is None else (fault.task_id, fault.seq)


def test_the_link_is_the_published_formula() -> None:
    payload = b'{"a":1}'
    expected = hashlib.sha256(
        b"fcguard.event.v1\n" + GENESIS + (1).to_bytes(8, "big") + hashlib.sha256(payload).digest()
    ).digest()
    assert link(GENESIS, 1, payload) == expected


def test_a_whole_ledger_verifies() -> None:
    store = _ledger()
    verification = verify(store.events(), heads=store.heads(), gaps=store.gaps())
    assert (verification.ok, verification.events, verification.tasks, verification.pruned) == (True, 9, 2, 0)


def test_nothing_verifies() -> None:
    assert verify([]).ok


@settings(deadline=None)
@given(st.data())
def test_a_flipped_bit_is_found_where_it_is(data: st.DataObject) -> None:
    events = _events()
    index = data.draw(st.integers(0, len(events) - 1))
    event = events[index]
    field = data.draw(st.sampled_from(["payload", "hash"]))
    raw = bytearray(getattr(event, field))
    bit = data.draw(st.integers(0, len(raw) * 8 - 1))
    raw[bit // 8] ^= 1 << bit % 8
    events[index] = replace(event, **{field: bytes(raw)})
    assert _first_bad(events) == (event.task_id, event.seq)


@pytest.mark.parametrize(
    "change",
    [{"kind": "other"}, {"at": 1.0}, {"request_id": "fc-20260130-000009"}],
    ids=lambda change: next(iter(change)),
)
@pytest.mark.parametrize("index", range(9))
def test_a_changed_column_is_found(index: int, change: dict[str, object]) -> None:
    events = _events()
    events[index] = replace(events[index], **change)  # type: ignore[arg-type]
    assert _first_bad(events) == (events[index].task_id, events[index].seq)


@pytest.mark.parametrize("index", range(9))
def test_a_removed_event_is_found(index: int) -> None:
    store = _ledger()
    events, heads = list(store.events()), list(store.heads())
    removed = events.pop(index)
    fault = verify(events, heads=heads).fault
    assert fault is not None
    assert (fault.task_id, fault.seq, fault.request_id) == (removed.task_id, removed.seq, None)
    assert "is missing" in str(fault)


def test_a_cut_end_shows_against_the_heads_only() -> None:
    store = _ledger()
    events, heads = list(store.events()), list(store.heads())
    cut = [event for event in events if event.task_id != "task" or event.seq <= 4]
    assert verify(cut).ok, "a shorter chain is whole in itself"
    assert _first_bad(cut, heads) == ("task", 5)
    gone = [event for event in events if event.task_id != "task"]
    assert _first_bad(gone, heads) == ("task", 1)
    assert _first_bad([], heads) == ("task", 1)


def test_a_chain_written_anew_shows_against_the_heads() -> None:
    store = _ledger()
    heads = list(store.heads())
    forged: list[StoredEvent] = []
    prev = GENESIS
    for event in store.events(task_id="other"):
        payload = event.payload.replace(b'"A3"', b'"A9"')
        prev = link(prev, event.seq, payload)
        forged.append(replace(event, payload=payload, hash=prev))
    assert verify(forged).ok
    assert _first_bad(forged, [head for head in heads if head.task_id == "other"]) == ("other", 3)


@settings(deadline=None)
@given(st.integers(0, 5), st.integers(0, 5))
def test_swapped_events_are_found(first: int, second: int) -> None:
    events = [event for event in _events() if event.task_id == "task"]
    events[first], events[second] = events[second], events[first]
    expected = None if first == second else ("task", min(first, second) + 1)
    assert _first_bad(events) == expected


@settings(deadline=None)
@given(st.integers(0, 5), st.integers(0, 5))
def test_swapped_contents_are_found(first: int, second: int) -> None:
    events = [event for event in _events() if event.task_id == "task"]
    one, two = events[first], events[second]
    events[first], events[second] = replace(two, seq=one.seq), replace(one, seq=two.seq)
    expected = None if first == second else ("task", min(first, second) + 1)
    assert _first_bad(events) == expected


def test_a_chain_moved_to_another_task_is_found() -> None:
    moved = [replace(event, task_id="elsewhere") for event in _events() if event.task_id == "other"]
    assert _first_bad(moved) == ("elsewhere", 1)


def test_an_added_event_is_found() -> None:
    events = _events()
    assert _first_bad([*events[:2], replace(events[1], seq=3), *events[2:]]) == ("task", 3)
    assert _first_bad([*events[:2], events[1], *events[2:]]) == ("task", 3)


def test_a_task_that_comes_twice_is_found() -> None:
    events = _events()
    assert _first_bad([*events, events[0]]) == ("task", 1)


def test_a_grown_chain_holds_against_an_older_head() -> None:
    store = _ledger()
    heads = list(store.heads())
    ask(store, enter(9))
    ask(store, enter(10, task_id="new"))
    assert verify(store.events(), heads=heads).ok


def test_bytes_that_are_no_event_are_named() -> None:
    payload = b"[]"
    event = StoredEvent("task", 1, "fc-1", "call", 1.0, payload, link(GENESIS, 1, payload))
    fault = verify([event]).fault
    assert fault is not None
    assert "are not an event's" in fault.reason


def test_declared_gaps_are_believed_and_counted() -> None:
    store = _ledger()
    events = [event for event in store.events() if event.task_id == "task"]
    gap = Gap("task", 2, 3, events[2].hash)
    verification = verify([events[0], *events[3:]], heads=store.heads(), gaps=[gap, Gap("other", 1, 3, bytes(32))])
    assert verification.fault is not None
    assert (verification.fault.task_id, verification.fault.seq) == ("other", 3), "the head knows another hash there"
    whole = verify([events[0], *events[3:]], heads=[Head("task", 6, events[5].hash)], gaps=[gap])
    assert (whole.ok, whole.events, whole.pruned) == (True, 4, 2)
    assert not verify([events[0], *events[3:]], gaps=[replace(gap, hash=bytes(32))]).ok
    assert verify(events[:2], heads=[Head("task", 6, events[5].hash)], gaps=[Gap("task", 3, 6, events[5].hash)]).ok
