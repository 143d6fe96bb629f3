"""Outcomes that the ledger could not take wait in synced files, each until it is in the ledger, and are written once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fcguard.errors import StoreError, StoreUnavailable
from fcguard.model.states import CallState
from fcguard.stores import spool as spool_module
from fcguard.stores.base import Accepted, Enter, Event, Move, Note
from fcguard.stores.memory import MemoryStore
from fcguard.stores.spool import Spool
from fcguard.stores.sqlite import SQLiteStore
from fcguard.testing.store_contract import ask, enter, identity, move, note, open_call
from tests.stores.test_canonical import values


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    return Spool(tmp_path / "ledger.db-spool")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SQLiteStore]:
    made = SQLiteStore(tmp_path / "ledger.db")
    yield made
    made.close()


def _drain(spool: Spool, store: Any) -> Any:
    def write(command: Any) -> Any:
        try:
            return ask(store, command)
        except StoreError as error:
            return error

    return spool.drain(write, lambda request_id: store.events(request_id=request_id))


@settings(deadline=None)
@given(
    st.dictionaries(
        st.text(st.characters(exclude_categories=("Cs",)), max_size=5).filter("fc".__ne__), values, max_size=3
    ),
    st.floats(allow_nan=False),
    st.sampled_from(["Move", "Note", "Enter"]),
)
def test_a_command_is_read_as_it_was_kept(payload: dict[str, Any], at: float, kind: str) -> None:
    event = Event("outcome", at, payload)
    commands = {
        "Move": Move("fc-1", 3, CallState.SUCCEEDED, 2, event, payload, next_at=at, settle_until=None),
        "Note": Note("fc-1", event),
        "Enter": Enter(identity(1, step=2, settle=1.5), CallState.FAILED, 1, event, payload),
    }
    assert spool_module._from_bytes(spool_module._to_bytes(commands[kind])) == commands[kind]


def test_an_open_is_a_question_and_is_not_kept(spool: Spool) -> None:
    with pytest.raises(StoreError, match="refuse the call instead"):
        spool.keep(open_call(1))  # type: ignore[arg-type]
    assert spool.waiting() == []


def test_a_payload_without_a_json_form_is_refused(spool: Spool) -> None:
    with pytest.raises(StoreError, match="no JSON form"):
        spool.keep(Note("fc-1", Event("late", 1.0, {"a": object()})))


def test_waiting_commands_are_written_oldest_first(spool: Spool) -> None:
    store = MemoryStore()
    ask(store, open_call(1))
    for command in (move(1, 1, CallState.UNCERTAIN), move(1, 2, CallState.CONFIRMING), move(1, 3, CallState.SUCCEEDED)):
        spool.keep(command)
    assert _drain(spool, store).applied == 3
    assert spool.waiting() == []
    assert [event.kind for event in store.events()] == ["opened", "moved", "moved", "moved"]


@pytest.mark.parametrize("command", [move(1, 1, CallState.SUCCEEDED), note(1), enter(2)], ids=["move", "note", "enter"])
def test_what_is_in_the_ledger_already_is_not_written_again(spool: Spool, store: SQLiteStore, command: Any) -> None:
    ask(store, open_call(1))
    ask(store, command)
    spool.keep(command)
    drained = _drain(spool, store)
    assert (drained.known, drained.applied, drained.noted, drained.failed) == (1, 0, 0, {})
    assert len(list(store.events())) == 2


def test_what_cannot_be_written_stays_and_the_rest_goes_on(spool: Spool, store: SQLiteStore) -> None:
    spool.keep(note(9))
    spool.keep(enter(1))
    (spool.directory / "00000000000000000000-torn.json").write_bytes(b'{"format":"fcguard.spool.v1","command":"Move"')
    (spool.directory / "00000000000000000000-other.json").write_bytes(b'{"format":"another"}')
    (spool.directory / "00000000000000000000-half.json").write_bytes(b'{"format":"fcguard.spool.v1","command":"Move"}')
    (spool.directory / "ignored.json.part").write_bytes(b"x")
    drained = _drain(spool, store)
    assert drained.applied == 1
    reasons = sorted(drained.failed.values())
    assert len(reasons) == 4
    assert [word for word in ("cannot be read", "not in the ledger", "is no spooled", "is no whole") if word in " ".join(reasons)] == [
        "cannot be read", "not in the ledger", "is no spooled", "is no whole",
    ]  # fmt: skip
    assert len(spool.waiting()) == 4


def test_a_ledger_that_is_away_again_keeps_everything(spool: Spool) -> None:
    spool.keep(enter(1))
    spool.keep(enter(2))
    asked = []

    def write(command: Any) -> Any:
        asked.append(command)
        return StoreUnavailable("away")

    drained = spool.drain(write, lambda request_id: ())
    assert (len(asked), len(drained.failed), len(spool.waiting())) == (1, 1, 2)


def test_only_one_drains_at_a_time(spool: Spool) -> None:
    spool.keep(enter(1))
    inside, leave = threading.Event(), threading.Event()

    def write(command: Any) -> Any:
        inside.set()
        leave.wait(60)
        return Accepted(1)

    first: list[Any] = []
    thread = threading.Thread(target=lambda: first.append(spool.drain(write, lambda request_id: ())))
    thread.start()
    assert inside.wait(60)
    second = spool.drain(write, lambda request_id: ())
    leave.set()
    thread.join()
    assert (first[0].applied, second.applied) == (1, 0)


def test_a_directory_that_takes_nothing_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    spool = Spool(tmp_path / "file" / "spool")
    with pytest.raises(StoreUnavailable, match="could not be spooled .* make the directory writable"):
        spool.keep(note(1))
    assert spool.waiting() == []
    assert spool.drain(lambda command: Accepted(1), lambda request_id: ()).applied == 0


def test_a_full_disk_leaves_no_half_file(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(StoreUnavailable, match="No space left"):
        spool.keep(note(1))
    assert list(spool.directory.iterdir()) == []


def test_the_store_drains_what_it_spooled_after_the_next_commit(store: SQLiteStore, tmp_path: Path) -> None:
    ask(store, open_call(1))
    store.spool(move(1, 1, CallState.SUCCEEDED, result={"data": 1}))
    ask(store, enter(2))
    ask(store, enter(3))
    call = store.get("fc-20260130-000001")
    assert call is not None and call.state is CallState.SUCCEEDED
    assert list((tmp_path / "ledger.db-spool").iterdir()) == []


def test_what_stays_in_the_spool_is_logged(store: SQLiteStore, caplog: pytest.LogCaptureFixture) -> None:
    store.spool(note(9))
    assert list(store.drain().failed) != []
    assert "was not written" in caplog.text
    assert ask(store, enter(1)) == Accepted(1)
