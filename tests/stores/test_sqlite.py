"""The SQLite ledger on bad media and odd input: a clear error through `done`, never a silent loss."""

from __future__ import annotations

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fcguard.errors import StoreClosed, StoreCorrupt, StoreUnavailable
from fcguard.model.states import OPEN_STATES, CallState
from fcguard.stores.base import Accepted, CallQuery, Enter, Event, Move
from fcguard.stores.chain import verify
from fcguard.stores.sqlite import SQLiteStore
from fcguard.stores.sqlite_schema import APPLICATION_ID, SCHEMA_VERSION
from fcguard.testing.store_contract import ask, enter, identity, ids, move, note, open_call

_ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


@pytest.fixture
def store(path: Path) -> Iterator[SQLiteStore]:
    made = SQLiteStore(path)
    yield made
    made.close()


# Full disks, locks, concurrent use


class _Full:
    """Opens connections whose file may not grow beyond a number of pages, as on a full disk."""

    def __init__(self) -> None:
        self.pages = 0
        self.connections: list[sqlite3.Connection] = []

    def __call__(self, *arguments: Any, **options: Any) -> sqlite3.Connection:
        connection = sqlite3.connect(*arguments, **options)
        self.connections.append(connection)
        if self.pages:
            connection.execute(f"PRAGMA max_page_count={self.pages}")
        return connection

    def limit(self, pages: int) -> None:
        for connection in self.connections:
            connection.execute(f"PRAGMA max_page_count={pages}")


def test_a_full_disk_refuses_and_loses_nothing(path: Path) -> None:
    disk = _Full()
    store = SQLiteStore(path, connector=disk)
    ask(store, enter(0))
    disk.limit(40)
    accepted = []
    with pytest.raises(StoreUnavailable, match="disk is full; free space"):
        for number in range(1, 1000):
            ask(store, enter(number))
            accepted.append(number)
    with pytest.raises(StoreUnavailable, match="disk is full"):
        ask(store, enter(2000, result={"data": "x" * 200_000}))
    assert len(accepted) > 3
    disk.limit(1_000_000)
    assert ask(store, enter(3000)) == Accepted(1)
    assert len(ids(store.calls())) == len(accepted) + 2
    assert verify(store.events(), heads=store.heads()).ok
    store.close()


def test_every_caller_of_a_failed_group_is_told(path: Path) -> None:
    disk = _Full()
    store = SQLiteStore(path, connector=disk)
    ask(store, enter(0))
    disk.limit(20)
    answers: list[Any] = []
    finished = threading.Event()

    def done(answer: Any) -> None:
        answers.append(answer)
        if len(answers) == 50:
            finished.set()

    for number in range(1, 51):
        store.submit(enter(number, result={"data": "x" * 10_000}), done)
    assert finished.wait(60)
    assert {type(answer) for answer in answers} <= {StoreUnavailable, Accepted}
    failed = [answer for answer in answers if isinstance(answer, StoreUnavailable)]
    assert len(set(map(id, failed))) == len(failed) > 0, "each caller has an exception of its own"
    assert len(ids(store.calls())) == 51 - len(failed)
    store.close()


def test_a_writer_that_holds_the_file_is_waited_for(path: Path, store: SQLiteStore) -> None:
    ask(store, enter(1))
    other = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    answered = threading.Event()
    answers: list[Any] = []
    store.submit(enter(2), lambda answer: (answers.append(answer), answered.set()))
    assert not answered.wait(0.2)
    other.execute("COMMIT")
    assert answered.wait(30)
    assert answers == [Accepted(1)]
    other.close()


def test_a_writer_that_never_lets_go_is_reported(path: Path) -> None:
    store = SQLiteStore(path, busy_timeout=0.1)
    ask(store, enter(1))
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailable, match="another process holds it; raise busy_timeout"):
        ask(store, enter(2))
    other.execute("ROLLBACK")
    assert ask(store, enter(2)) == Accepted(1)
    other.close()
    store.close()


def test_one_bad_record_does_not_fail_the_others(path: Path, store: SQLiteStore) -> None:
    """An id that exists, a value no column takes, a payload without a JSON form: each is refused alone."""
    ask(store, enter(1))
    hold, holding = threading.Event(), threading.Event()
    store.submit(enter(2), lambda answer: (holding.set(), hold.wait(60)))
    assert holding.wait(60)
    commands = [
        enter(3),
        enter(1),
        Enter(identity(4), CallState.SUCCEEDED, 2**70, Event("call", 1.0, {})),
        Enter(identity(5, tool="\ud800"), CallState.SUCCEEDED, 1, Event("call", 1.0, {})),
        Enter(identity(6, tool=None), CallState.SUCCEEDED, 1, Event("call", 1.0, {})),
        Enter(identity(7), CallState.SUCCEEDED, 1, Event("call", 1.0, {"a": object()})),
        "not a command",
        open_call(8, effect_key="e"),
        open_call(9, effect_key="e"),
        note(3),
        move(8, 1, CallState.SUCCEEDED),
        open_call(10, effect_key="e"),
    ]
    answers: dict[int, Any] = {}
    finished = threading.Event()

    def taker(index: int) -> Callable[[Any], None]:
        def done(answer: Any) -> None:
            answers[index] = answer
            if len(answers) == len(commands):
                finished.set()

        return done

    for index, command in enumerate(commands):
        store.submit(command, taker(index))  # type: ignore[arg-type]
    hold.set()
    assert finished.wait(60)
    kinds = [type(answers[index]).__name__ for index in range(len(commands))]
    assert kinds == [
        "Accepted", "StoreError", "StoreError", "StoreError", "StoreError", "StoreError", "StoreError", "Accepted", "Blocked",
        "Accepted", "Accepted", "Accepted",
    ]  # fmt: skip
    assert ids(store.calls()) == [f"fc-20260130-{number:06d}" for number in (10, 8, 3, 2, 1)]
    assert verify(store.events(), heads=store.heads()).ok


def test_a_group_sees_its_own_earlier_commands(store: SQLiteStore) -> None:
    """Open, move, replay and a second id within one transaction."""
    hold, holding = threading.Event(), threading.Event()
    store.submit(enter(1), lambda answer: (holding.set(), hold.wait(60)))
    assert holding.wait(60)
    keys: dict[str, Any] = {"idempotency_scope": "s", "idempotency_key": "k", "digest": "d"}
    answers: list[Any] = []
    finished = threading.Event()
    commands = [
        open_call(2, **keys),
        open_call(3, **keys),
        move(2, 1, CallState.SUCCEEDED, result={"data": 5}),
        move(2, 1, CallState.FAILED),
        open_call(4, **keys),
        enter(5),
        enter(5),
        note(5),
    ]
    for command in commands:
        store.submit(command, lambda answer: (answers.append(answer), len(answers) == len(commands) and finished.set()))
    hold.set()
    assert finished.wait(60)
    assert [type(answer).__name__ for answer in answers] == [
        "Accepted", "Blocked", "Accepted", "Stale", "Replayed", "Accepted", "StoreError", "Accepted",
    ]  # fmt: skip
    assert answers[3].result == answers[4].result == {"data": 5}
    assert len(list(store.events(request_id="fc-20260130-000005"))) == 2


def test_threads_that_open_the_store_together_share_it(path: Path) -> None:
    store = SQLiteStore(path)
    before = set(threading.enumerate())
    start = threading.Barrier(8)
    answers: list[Any] = []

    def use(number: int) -> None:
        start.wait(60)
        answers.append(ask(store, enter(number)))
        assert store.get(f"fc-20260130-{number:06d}") is not None

    threads = [threading.Thread(target=use, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [Accepted(1)] * 8
    (writer,) = set(threading.enumerate()) - before
    store.close()
    assert not writer.is_alive()


def test_a_callback_that_fails_harms_nobody(store: SQLiteStore, caplog: pytest.LogCaptureFixture) -> None:
    def fail(answer: Any) -> None:
        raise RuntimeError("the loop is closed")

    store.submit(enter(1), fail)
    assert ask(store, enter(2)) == Accepted(1)
    assert store.get("fc-20260130-000001") is not None
    assert "a caller's callback failed" in caplog.text


def test_what_nobody_waits_for_does_not_pile_up(path: Path) -> None:
    store = SQLiteStore(path, max_queued=10)
    most = 0
    for number in range(200):
        command = enter(number)
        command.wait = False
        store.submit(command, lambda answer: None)
        most = max(most, store._open().writer.waiting())
    store.close()
    assert most <= 11
    with pytest.raises(StoreClosed, match="was closed; make a new SQLiteStore"):
        store.get("fc-20260130-000001")


def test_a_callback_may_use_the_store(store: SQLiteStore) -> None:
    answers: list[Any] = []
    finished = threading.Event()

    def again(answer: Any) -> None:
        answers.append(store.claim())
        store.submit(enter(2), lambda inner: (answers.append(inner), finished.set()))

    store.submit(enter(1), again)
    assert finished.wait(60)
    assert answers == [[], Accepted(1)]


# The tables


def test_events_cannot_be_changed_or_deleted(path: Path, store: SQLiteStore) -> None:
    ask(store, enter(1))
    connection = sqlite3.connect(path)
    for statement in ("UPDATE fc_events SET kind = 'x'", "DELETE FROM fc_events"):
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            connection.execute(statement)
    connection.close()


def test_the_file_says_that_it_is_a_ledger(path: Path, store: SQLiteStore) -> None:
    ask(store, enter(1))
    connection = sqlite3.connect(path)
    assert connection.execute("PRAGMA application_id").fetchone() == (APPLICATION_ID,)
    assert connection.execute("SELECT value FROM fc_meta WHERE key = 'schema'").fetchone() == (SCHEMA_VERSION,)
    connection.close()


def test_open_calls_and_keys_are_found_by_index(path: Path, store: SQLiteStore) -> None:
    statements: list[str] = []

    def connector(*arguments: Any, **options: Any) -> sqlite3.Connection:
        connection = sqlite3.connect(*arguments, **options)
        connection.set_trace_callback(statements.append)
        return connection

    traced = SQLiteStore(path, connector=connector)
    ask(traced, open_call(1, idempotency_key="k", effect_key="e"))
    list(traced.calls(CallQuery(states=OPEN_STATES)))
    list(traced.calls(CallQuery(task_id="task")))
    traced.claim()
    traced.get("fc-20260130-000001")
    list(traced.events(request_id="fc-20260130-000001"))
    traced.close()
    connection = sqlite3.connect(path)
    selects = [text for text in statements if text.startswith("SELECT") and "fc_calls" in text]
    assert len(selects) >= 5
    for statement in selects:
        plan = " / ".join(row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}"))
        assert "SCAN c" not in plan.replace("SCAN c USING INDEX fc_calls_open", ""), (statement, plan)
        assert "SCAN fc_calls" not in plan.replace("SCAN fc_calls USING INDEX fc_calls_open", ""), (statement, plan)
        assert "SCAN e" not in plan, (statement, plan)
    connection.close()


def test_a_missing_result_is_reported_as_corrupt(path: Path, store: SQLiteStore) -> None:
    keys: dict[str, Any] = {"idempotency_key": "k", "digest": "d"}
    ask(store, open_call(1, **keys))
    ask(store, move(1, 1, CallState.SUCCEEDED, result={"data": 1}))
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("DROP TRIGGER fc_events_no_delete")
    connection.execute("DELETE FROM fc_events")
    connection.close()
    with pytest.raises(StoreCorrupt, match="is missing; run `fcguard verify`"):
        ask(store, open_call(2, **keys))


def test_erased_bytes_are_in_no_file(path: Path, store: SQLiteStore) -> None:
    canary = b"canary-5f1c9a" * 20
    store.put_blob("digest", "secret", canary)
    ask(store, enter(1))
    assert any(canary in file.read_bytes() for file in path.parent.iterdir())
    assert store.erase_blob("digest")
    assert not any(b"canary-5f1c9a" in file.read_bytes() for file in path.parent.iterdir() if file.is_file())
    assert verify(store.events(), heads=store.heads()).ok


# Time


def test_a_clock_that_jumps_back_changes_no_order(path: Path) -> None:
    now = 1000.0
    store = SQLiteStore(path, clock=lambda: now)
    ask(store, open_call(1, at=now))
    now = 10.0
    ask(store, Move("fc-20260130-000001", 1, CallState.UNCERTAIN, 1, Event("uncertain", now, {}), next_at=now))
    ask(store, enter(2, at=now))
    assert [event.seq for event in store.events()] == [1, 2, 3]
    assert verify(store.events(), heads=store.heads()).ok
    assert ids(claim.call for claim in store.claim()) == ["fc-20260130-000001"]
    store.close()


def test_the_writer_renews_leases_by_itself(path: Path) -> None:
    """The lease is 0.3 s; three renewals by the writer's own beat are seen in the row."""
    store = SQLiteStore(path, lease=0.3)
    ask(store, open_call(1, lease=0.3))
    ask(store, open_call(2, lease=0.3))
    ask(store, move(2, 1, CallState.PARKED))
    seen: set[float | None] = set()
    while len(seen) < 4:
        call = store.get("fc-20260130-000001")
        assert call is not None
        seen.add(call.lease_until)
    parked = store.get("fc-20260130-000002")
    assert parked is not None and parked.lease_until is None
    store.close()


@pytest.mark.skipif(os.name == "nt", reason="the lock is POSIX's")
def test_processes_write_one_after_the_other(path: Path) -> None:
    """The lock beside the ledger is held for each transaction, and waited for no longer than the busy timeout."""
    import fcntl

    store = SQLiteStore(path, busy_timeout=0.1)
    ask(store, enter(1))
    with open(f"{path}-lock", "rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(StoreUnavailable, match="another process holds it"):
            ask(store, enter(2))
        assert store.get("fc-20260130-000001") is not None, "reading does not wait"
        answered = threading.Event()
        patient = SQLiteStore(path)
        patient.submit(enter(3), lambda answer: answered.set())
        assert not answered.wait(0.1)
        fcntl.flock(lock, fcntl.LOCK_UN)
        assert answered.wait(30)
    patient.close()
    store.close()


def test_a_lock_that_cannot_be_made_is_reported(path: Path, store: SQLiteStore) -> None:
    path.with_name("ledger.db-lock").mkdir()
    with pytest.raises(StoreUnavailable, match="make the directory writable"):
        ask(store, enter(1))
