"""Rare turns of the SQLite ledger: forks in this process, failing rollbacks, races at opening, rows that lie."""

from __future__ import annotations

import json
import os
import sqlite3
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fcguard.errors import StoreError, StoreUnavailable
from fcguard.model.states import CallState
from fcguard.stores import canonical
from fcguard.stores.audit import audit
from fcguard.stores.base import Accepted, CallQuery, Enter, Event, Move
from fcguard.stores.memory import MemoryStore
from fcguard.stores.sqlite import SQLiteStore
from fcguard.testing.store_contract import ask, enter, identity, move, open_call


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


@pytest.fixture
def store(path: Path) -> Iterator[SQLiteStore]:
    made = SQLiteStore(path)
    yield made
    made.close()


def _busy(message: str = "database is locked") -> sqlite3.OperationalError:
    error = sqlite3.OperationalError(message)
    error.sqlite_errorcode = sqlite3.SQLITE_BUSY
    return error


class Faulty(sqlite3.Connection):
    """Raises the errors that a test puts into `faults`, when a statement begins with the key; each once."""

    faults: dict[str, Exception] = {}

    def execute(self, sql: str, *parameters: Any) -> sqlite3.Cursor:
        for start in list(self.faults):
            if sql.startswith(start):
                raise self.faults.pop(start)
        return super().execute(sql, *parameters)


@pytest.fixture
def faulty(path: Path) -> Iterator[SQLiteStore]:
    Faulty.faults = {}
    made = SQLiteStore(path, busy_timeout=5.0, connector=lambda *a, **k: sqlite3.connect(*a, **k, factory=Faulty))
    yield made
    made.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_fork_closes_the_connections_first(store: SQLiteStore) -> None:
    ask(store, enter(1))
    assert store.get("fc-20260130-000001") is not None
    session = store._open()
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", DeprecationWarning
        )  # Python warns of forks beside threads, which is the point here
        child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    assert session._connection is None
    assert session._readers == []
    assert store._open() is session
    store.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_store_that_was_never_used_or_is_gone_does_not_mind_a_fork(path: Path) -> None:
    unused, gone = SQLiteStore(path), SQLiteStore(path)
    unused._hook()
    ask(gone, enter(1))
    gone.close()
    del gone
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
    assert ask(unused, enter(2)) == Accepted(1)
    unused.close()


def test_a_session_of_another_process_is_left_alone(store: SQLiteStore) -> None:
    """What a fork that ran no hooks leaves behind: the pid tells."""
    ask(store, enter(1))
    inherited = store._open()
    inherited.pid = -1
    answers: list[Any] = []
    assert ask(store, enter(2)) == Accepted(1)
    assert store._open() is not inherited
    assert store._inherited == [inherited]
    inherited.pid = os.getpid()
    inherited.stop()
    assert answers == []


def test_a_file_that_is_being_opened_by_another_is_waited_for(faulty: SQLiteStore) -> None:
    Faulty.faults = {"PRAGMA journal_mode": _busy()}
    assert ask(faulty, enter(1)) == Accepted(1)
    assert Faulty.faults == {}


def test_a_migration_that_fails_leaves_nothing_and_can_be_repeated(faulty: SQLiteStore, path: Path) -> None:
    full = sqlite3.OperationalError("database or disk is full")
    full.sqlite_errorcode = sqlite3.SQLITE_FULL
    Faulty.faults = {"CREATE TABLE fc_owners": full}
    with pytest.raises(StoreUnavailable, match="disk is full"):
        ask(faulty, enter(1))
    with sqlite3.connect(path) as connection:
        assert connection.execute("SELECT count(*) FROM sqlite_master").fetchone() == (0,)
    connection.close()
    assert ask(faulty, enter(1)) == Accepted(1)


def test_a_rollback_that_fails_costs_the_connection_not_the_ledger(faulty: SQLiteStore) -> None:
    ask(faulty, enter(1))
    broken = sqlite3.OperationalError("disk I/O error")
    broken.sqlite_errorcode = sqlite3.SQLITE_IOERR
    Faulty.faults = {"COMMIT": broken, "ROLLBACK": broken}
    with pytest.raises(StoreUnavailable, match="disk failed to read or write"):
        ask(faulty, enter(2))
    assert ask(faulty, enter(3)) == Accepted(1)
    assert faulty.get("fc-20260130-000002") is None


def test_an_error_of_sqlite_without_a_name_of_ours_is_passed_on(faulty: SQLiteStore) -> None:
    ask(faulty, enter(1))
    Faulty.faults = {"SELECT": sqlite3.ProgrammingError("odd")}
    with pytest.raises(StoreError, match="ProgrammingError: odd"):
        faulty.get("fc-20260130-000001")


def test_a_ledger_that_cannot_be_told_of_the_end_is_closed_all_the_same(
    faulty: SQLiteStore, caplog: pytest.LogCaptureFixture
) -> None:
    ask(faulty, enter(1))
    Faulty.faults = {"UPDATE fc_owners": _busy()}
    faulty.close()
    assert "was not told that this process ends" in caplog.text


def test_erasing_what_was_never_kept_before_anything_was_written(store: SQLiteStore) -> None:
    assert store.erase_blob("nothing") is False


def test_a_move_that_cannot_be_written_changes_nothing(store: SQLiteStore) -> None:
    ask(store, open_call(1))
    with pytest.raises(StoreError, match="no JSON form"):
        ask(store, Move("fc-20260130-000001", 1, CallState.UNCERTAIN, 2, Event("e", 1.0, {"a": object()})))
    call = store.get("fc-20260130-000001")
    assert call is not None and (call.state, call.version, call.attempt) == (CallState.STARTED, 1, 1)
    assert ask(store, move(1, 1, CallState.SUCCEEDED)) == Accepted(2)


def test_a_call_entered_late_is_made_by_the_writer(store: SQLiteStore) -> None:
    made = []

    def make() -> Any:
        made.append(1)
        return identity(1), Event("call", 1.0, {"a": 1}), {"data": 1}

    command = Enter.later("fc-20260130-000001", "task", CallState.SUCCEEDED, 1, make)
    assert ask(store, command) == Accepted(1)
    assert made == [1]


def test_a_call_that_cannot_be_made_is_refused() -> None:
    def make() -> Any:
        raise StoreError("cannot be made")

    memory = MemoryStore()
    command = Enter.later("fc-20260130-000001", "task", CallState.PREPARED, 1, make)
    with pytest.raises(StoreError, match="cannot be made"):
        ask(memory, command)


def _tamper(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("DROP TRIGGER fc_events_no_update")
    for statement in statements:
        connection.execute(statement)
    connection.close()


def test_a_row_that_names_another_first_event_is_reported(path: Path, store: SQLiteStore) -> None:
    ask(store, open_call(1))
    ask(store, move(1, 1, CallState.SUCCEEDED))
    _tamper(path, "UPDATE fc_calls SET first_seq = 2")
    with pytest.raises(StoreError, match="not the first event of a call"):
        store.get("fc-20260130-000001")
    with pytest.raises(StoreError, match="not the first event of a call"):
        list(store.calls(CallQuery()))


def test_a_row_that_moved_while_it_was_checked_holds(store: SQLiteStore) -> None:
    """The audit reads a row, then its events; a move in between is no fault."""
    ask(store, open_call(1))

    class Moving:
        """Moves the call once, after its row was read."""

        def __getattr__(self, name: str) -> Any:
            return getattr(store, name)

        def calls(self, *arguments: Any) -> Iterator[Any]:
            rows = list(store.calls(*arguments))
            ask(store, move(1, 1, CallState.UNCERTAIN))
            return iter(rows)

    assert audit(Moving()).ok  # type: ignore[arg-type]


def test_events_whose_bytes_cannot_be_read_are_named_with_their_row(store: SQLiteStore) -> None:
    """The chain was written anew with bytes that are no event's, and only the rows are left to tell."""
    ask(store, enter(1))

    class Lying:
        def __getattr__(self, name: str) -> Any:
            return getattr(store, name)

        def events(self, **narrow: Any) -> Iterator[Any]:
            for event in store.events(**narrow):
                if narrow:
                    event = type(event)(
                        event.task_id, event.seq, event.request_id, event.kind, event.at, b"[]", event.hash
                    )
                yield event

    fault = audit(Lying()).fault  # type: ignore[arg-type]
    assert fault is not None and "are not an event's" in fault.reason


def test_an_interpreter_without_the_c_encoder_writes_the_same_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    values = {"b": [1, None, "ü", 1.5], "a": {"z": True, "y": "\ud800"}}
    fast = canonical.encode(values)
    monkeypatch.setattr(json.encoder, "c_make_encoder", None)
    slow = canonical._text_encoder()
    assert slow(values).encode("utf-8", "backslashreplace") == fast


def test_a_cycle_behind_a_value_that_needs_a_tag_is_refused() -> None:
    cycle: list[Any] = [float("nan")]
    cycle.append(cycle)
    with pytest.raises(StoreError, match="nested too deeply"):
        canonical.encode(cycle)
