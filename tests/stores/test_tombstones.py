"""What stays of a pruned write: its key, on every ledger, through migrations, kills, interrupts and edits."""

from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fcguard import Guard, MemoryStore, SQLiteStore
from fcguard.errors import ConfigurationError, StoreCorrupt, StoreError, UsageError
from fcguard.model.states import CallState
from fcguard.stores.audit import audit
from fcguard.stores.base import Accepted, Blocked, Replayed
from fcguard.stores.checkpoint import read_checkpoint, take_checkpoint, write_checkpoint
from fcguard.stores.tombstone import Tombstone, seal_of, tombstone_in
from fcguard.testing.store_contract import ask, enter, move, note, open_call
from tests.conftest import Effect, Mode, Script, add
from tests.stores.postgres_server import Server

KEYS: dict[str, Any] = {"idempotency_scope": "s", "idempotency_key": "k", "digest": "d"}
FIRST = "fc-20260130-000001"
_WORKER = Path(__file__).with_name("prune_worker.py")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


@pytest.fixture
def store(path: Path) -> Iterator[SQLiteStore]:
    made = SQLiteStore(path)
    yield made
    made.close()


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, str, Callable[[], Any]]:
    """Answer URL, schema and a maker of stores."""
    if request.param == "sqlite":
        return str(tmp_path / "ledger.db"), "", lambda: SQLiteStore(tmp_path / "ledger.db")
    pytest.importorskip("psycopg")
    from fcguard.stores.postgres import PostgresStore

    url, schema = request.getfixturevalue("postgres_server").url, request.getfixturevalue("postgres_schema")
    return url, schema, lambda: PostgresStore(url, schema=schema, spool=tmp_path / "spool")


def write_one(store: Any) -> None:
    ask(store, open_call(1, **KEYS))
    ask(store, move(1, 1, CallState.SUCCEEDED, result={"data": 1}))


def fill(store: Any, writes: int) -> None:
    """Write many calls that took effect, without waiting for each."""
    finished = threading.Event()
    for number in range(writes):
        store.submit(
            open_call(
                number, idempotency_scope="s", idempotency_key=f"k{number}", digest="d", task_id=f"t{number % 7}"
            ),
            lambda answer: None,
        )
        store.submit(move(number, 1, CallState.SUCCEEDED, result={"n": number}), lambda answer: None)
    store.submit(enter(writes, at=4e12), lambda answer: finished.set())
    assert finished.wait(60)


# Through a guard


def test_a_repeat_of_a_pruned_write_is_not_sent_and_says_what_to_do(guard: Guard, mode: Mode) -> None:
    script = Script(Effect({"order": 7}))
    add(guard, mode, script, business_key=("order_id",))

    def order(order_id: str) -> Any:
        with guard.task("order", task_id="stable"):
            return mode.call(guard, "tool", {"order_id": order_id})

    first = order("A1")
    assert first.success and guard.store.prune(before=1e12).kept == 1  # type: ignore[attr-defined]
    again = order("A1")
    assert len(script.effects) == 1, "one effect"
    assert (again.success, again.error_type, again.data, again.attempts) == (False, "CONFLICT", None, 0)
    assert (again.effect, again.retryable, again.next_action) == ("applied", False, "confirm_state")
    assert again.blocked_by == first.request_id
    assert f"already applied by {first.request_id}" in again.message
    assert time.strftime("pruned from the ledger on %Y-%m-", time.gmtime()) in again.message
    row = guard.store.get(again.request_id)
    assert row is not None and row.state is CallState.REJECTED
    assert order("A2").success and len(script.effects) == 2
    guard.store.prune(before=1e12, keys=True)  # type: ignore[attr-defined]
    assert order("A1").success and len(script.effects) == 3


def test_other_arguments_under_the_key_of_a_pruned_write_are_a_conflict(guard: Guard, mode: Mode) -> None:
    script = Script(Effect())
    add(guard, mode, script, business_key=("order_id",))
    for quantity, is_sent in ((1, True), (2, False)):
        with guard.task("order", task_id="stable"):
            result = mode.call(guard, "tool", {"order_id": "A1", "quantity": quantity})
        assert result.success is is_sent
        guard.store.prune(before=1e12)  # type: ignore[attr-defined]
    assert (result.error_type, result.effect, result.next_action) == ("CONFLICT", "none", "abort")
    assert "other arguments was made before" in result.message and len(script.effects) == 1


def test_a_write_that_a_person_resolved_as_applied_stays_protected(guard: Guard, mode: Mode) -> None:
    script = Script(TimeoutError())
    add(guard, mode, script, business_key=("order_id",))
    with guard.task("order", task_id="stable"):
        lost = mode.call(guard, "tool", {"order_id": "A1"})
    assert lost.effect == "unknown"
    guard.store.prune(before=1e12)  # type: ignore[attr-defined]
    assert guard.store.get(lost.request_id) is not None, "what may have happened never leaves"
    guard.resolve(lost.request_id, applied=True, by="ann", reason="seen in the shop")
    assert guard.store.prune(before=1e12).kept == 1  # type: ignore[attr-defined]
    with guard.task("order", task_id="stable"):
        again = mode.call(guard, "tool", {"order_id": "A1"})
    assert (again.effect, again.next_action, len(script.calls)) == ("applied", "confirm_state", 1)
    with pytest.raises(UsageError, match=r"was pruned on .* its effect is applied"):
        guard.resolve(lost.request_id, applied=False, by="ann", reason="no")


# In memory


def test_eviction_keeps_keys_much_longer_than_calls_and_no_longer_than_it_says() -> None:
    store = MemoryStore(max_calls=1, max_keys=3)
    for number in range(1, 6):
        ask(store, open_call(number, idempotency_scope="s", idempotency_key=f"k{number}", digest="d"))
        ask(store, move(number, 1, CallState.SUCCEEDED, result={"data": 1}))
    assert [one.request_id[-1] for one, _ in store.tombstones()] == ["2", "3", "4"]

    def repeat(number: int) -> Any:
        return ask(store, open_call(90 + number, idempotency_scope="s", idempotency_key=f"k{number}", digest="d"))

    assert isinstance(repeat(5), Replayed)
    assert [repeat(number).reason for number in (2, 3, 4)] == ["pruned"] * 3
    assert repeat(1) == Accepted(1), "beyond max_keys it is forgotten"
    assert audit(store).ok


def test_a_memory_ledger_may_keep_no_keys() -> None:
    store = MemoryStore(max_keys=0)
    write_one(store)
    store.prune(200.0)
    assert ask(store, open_call(2, **KEYS)) == Accepted(1)
    with pytest.raises(ConfigurationError, match="max_keys=-1"):
        MemoryStore(max_keys=-1)


# From the version before; see test_ledger_versions.py


def without_tombstones(url: str, schema: str, act: Callable[[], None]) -> None:
    """Do something as a process of the version before does it, which does not look at tombstones."""
    if not schema:
        with sqlite3.connect(url, isolation_level=None) as file:
            rows = file.execute("SELECT * FROM fc_tombstones").fetchall()
            file.executescript(
                "INSERT INTO fc_meta VALUES ('pruning', 1); DELETE FROM fc_tombstones; DELETE FROM fc_meta WHERE key = 'pruning'"
            )
            act()
            file.executemany("INSERT INTO fc_tombstones VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)
        file.close()
        return
    psycopg = pytest.importorskip("psycopg")
    with psycopg.connect(url, autocommit=True) as server:
        server.execute(f"SET search_path TO {schema}; SET fcguard.pruning = 'on'")
        rows = server.execute("DELETE FROM fc_tombstones RETURNING *").fetchall()
        act()
        server.cursor().executemany("INSERT INTO fc_tombstones VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s)", rows)


def test_a_write_that_an_older_version_sent_again_can_be_pruned(place: tuple[str, str, Callable[[], Any]]) -> None:
    url, schema, make = place
    store = make()
    write_one(store)
    store.prune(200.0)

    def send_again() -> None:
        assert ask(store, open_call(2, **KEYS)) == Accepted(1)
        ask(store, move(2, 1, CallState.SUCCEEDED))

    without_tombstones(url, schema, send_again)
    ask(store, enter(3))
    pruned = store.prune(200.0)
    assert (pruned.calls, pruned.kept) == (2, 0), "its key is kept already"
    again = ask(store, open_call(4, **KEYS))
    assert (again.reason, again.request_id) == ("pruned", FIRST)
    assert audit(store).ok and audit(store).tombstones == 1
    store.close()


# Killed and interrupted


@pytest.mark.parametrize("seed", range(4))
def test_a_prune_that_is_killed_leaves_the_call_or_its_key(
    place: tuple[str, str, Callable[[], Any]], seed: int
) -> None:
    url, schema, make = place
    writes, chance = 3000, random.Random(seed)
    store = make()
    fill(store, writes)
    process = subprocess.Popen([sys.executable, str(_WORKER), url, schema], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for _ in range(chance.randrange(1, 4)):
        process.stdout.readline()
    time.sleep(chance.uniform(0, 0.05))  # anywhere within a part
    process.kill()
    process.communicate()
    buried = {tombstone.request_id for tombstone, _ in store.tombstones()}
    held = {call.identity.request_id for call in store.calls()}
    ids = {f"fc-20260130-{number:06d}" for number in range(writes)}
    assert buried | (held & ids) == ids, "never neither"
    assert not buried & held, "never both"
    assert audit(store).ok
    for number in chance.sample(range(writes), 20):
        answer = ask(store, open_call(9000 + number, idempotency_scope="s", idempotency_key=f"k{number}", digest="d"))
        assert isinstance(answer, Replayed | Blocked)
    store.prune(1e12)
    assert {tombstone.request_id for tombstone, _ in store.tombstones()} == ids, "who prunes again goes on"
    store.close()


def test_no_repeat_slips_through_while_another_process_prunes(place: tuple[str, str, Callable[[], Any]]) -> None:
    """In a task of its own, so that no lock of the chain keeps the two apart."""
    writes = 1500
    store, other = place[2](), place[2]()
    fill(store, writes)
    pruning = threading.Thread(target=lambda: other.prune(1e12))
    pruning.start()
    answers = [
        ask(
            store,
            open_call(9000 + number, idempotency_scope="s", idempotency_key=f"k{number}", digest="d", task_id="mine"),
        )
        for number in range(0, writes, 5)
    ]
    pruning.join()
    assert {type(answer) for answer in answers} <= {Replayed, Blocked}, "never accepted, and never called damaged"
    assert {answer.reason for answer in answers if isinstance(answer, Blocked)} <= {"pruned"}
    assert len(list(store.tombstones())) == writes and audit(store).ok
    store.close()
    other.close()


class Disturbed:
    """A connection before whose n-th statement something happens elsewhere."""

    def __init__(self, connection: Any, statement: int, happen: Callable[[], Any]) -> None:
        self._connection, self.left, self._happen = connection, statement, happen

    def execute(self, *args: Any) -> Any:
        self.left -= 1
        if not self.left:
            self._happen()
        return self._connection.execute(*args)


def test_a_call_that_is_pruned_while_its_repeat_looks_at_it_is_pruned_to_the_repeat(
    postgres_server: Server, postgres_schema: str, tmp_path: Path
) -> None:
    """Before each statement of the repeat's transaction in turn: it answers what was, or what is now, or begins anew."""
    psycopg = pytest.importorskip("psycopg")
    from fcguard.stores.batch import Batch
    from fcguard.stores.postgres import PostgresStore
    from fcguard.stores.postgres_rows import PostgresView

    store = PostgresStore(postgres_server.url, schema=postgres_schema, spool=tmp_path / "spool")
    said: list[str] = []
    with psycopg.connect(postgres_server.url, autocommit=True) as connection:
        for statement in range(1, 20):
            keys = {**KEYS, "idempotency_key": f"k{statement}"}
            ask(store, open_call(statement, **keys))
            ask(store, move(statement, 1, CallState.SUCCEEDED, result={"data": 1}))
            connection.execute(f"SET search_path TO {postgres_schema}")
            disturbed = Disturbed(connection, statement, lambda: store.prune(200.0))
            view = PostgresView(disturbed)  # type: ignore[arg-type]
            again = open_call(100 + statement, task_id="mine", **keys)
            try:
                with connection.transaction():
                    view.prepare([again], careful=False)
                    answer = Batch(view, "me", 0.0, lease=1.0, careful=False).apply(again)
                said.append(answer.reason if isinstance(answer, Blocked) else type(answer).__name__)
            except psycopg.errors.SerializationFailure:
                said.append("again")
            if disturbed.left > 0:
                break
    store.close()
    assert set(said) == {"pruned", "again", "Replayed"}, said
    assert disturbed.left > 0, "every statement was tried"


def test_an_interrupt_between_two_parts_loses_nothing(store: SQLiteStore) -> None:
    fill(store, 1200)

    def interrupt(done: Any) -> None:
        if done.calls >= 500:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.prune(1e12, progress=interrupt)
    assert (len(list(store.tombstones())), len(list(store.calls()))) == (500, 701)
    assert store.prune(1e12).kept == 700
    assert audit(store).tombstones == 1200


def test_writers_go_on_between_the_parts(store: SQLiteStore) -> None:
    fill(store, 1200)
    answers: list[Any] = []
    store.prune(1e12, progress=lambda done: answers.append(ask(store, enter(5000 + done.calls, at=4e12))))
    assert answers == [Accepted(1)] * 3


def test_a_part_leaves_alone_what_is_no_longer_to_go(store: SQLiteStore) -> None:
    """Between the look and the removal another process may have pruned the call."""
    fill(store, 3)
    session = store._open()
    ids = session.prunable(1e12, "")
    assert store.prune(1e12).calls == 3
    again = session.on_writer(lambda: session.prune(ids, 1e12, keys=False))
    assert (again.calls, again.events, again.kept) == (0, 0, 0)
    assert audit(store).ok


# Edited


@pytest.mark.parametrize(
    ("edit", "says"),
    [
        ("UPDATE fc_tombstones SET idempotency_key = 'other'", "the key of this pruned write was changed"),
        ("UPDATE fc_tombstones SET digest = 'other'", "the key of this pruned write was changed"),
        ("UPDATE fc_tombstones SET pruned_at = 1.0", "the key of this pruned write was changed"),
        ("UPDATE fc_tombstones SET seal = zeroblob(32)", "the key of this pruned write was changed"),
        ("UPDATE fc_tombstones SET tool = x'00'", "cannot be read"),
        ("UPDATE fc_tombstones SET task = 99", "cannot be read"),
        ("UPDATE fc_tombstones SET state = 'GONE'", "cannot be read"),
    ],
)
def test_an_edited_key_is_named(path: Path, store: SQLiteStore, edit: str, says: str) -> None:
    write_one(store)
    store.prune(200.0)
    ask(store, enter(2))
    with sqlite3.connect(path) as connection:
        with pytest.raises(sqlite3.IntegrityError, match="stay as they are"):
            connection.execute(edit)
        connection.execute("DROP TRIGGER fc_tombstones_no_update")
        connection.execute(edit)
    connection.close()
    try:
        said = str(audit(store).fault)
    except StoreError as error:
        said = str(error)
    assert says in said


def test_a_removed_key_is_refused_by_the_table_and_shows_against_a_checkpoint(path: Path, store: SQLiteStore) -> None:
    write_one(store)
    store.prune(200.0)
    checkpoint = read_checkpoint(write_checkpoint(take_checkpoint(store, 300.0)))
    assert audit(store, [checkpoint], unpruned=True).ok
    with sqlite3.connect(path) as connection:
        with pytest.raises(sqlite3.IntegrityError, match="stay as they are"):
            connection.execute("DELETE FROM fc_tombstones")
        connection.execute("DROP TRIGGER fc_tombstones_no_delete")
        connection.execute("DELETE FROM fc_tombstones")
    connection.close()
    assert (audit(store).ok, audit(store).tombstones) == (True, 0), "by itself it is a ledger whose keys were pruned"
    assert audit(store, [checkpoint]).ok
    assert "the keys of pruned writes are not those" in str(audit(store, [checkpoint], unpruned=True).fault)
    older = replace(checkpoint, keys=None)
    assert audit(store, [older], unpruned=True).ok, "one that noted no keys knows of none"


def test_a_call_that_is_there_and_pruned_is_named(path: Path, store: SQLiteStore) -> None:
    write_one(store)
    forged = Tombstone("s", "other", "d", FIRST, "task", "create_order", CallState.SUCCEEDED, 1.0, 2.0)
    with sqlite3.connect(path) as connection:
        connection.execute(
            "INSERT INTO fc_tombstones VALUES ('s', 'other', 'd', ?, 1, 'create_order', 'SUCCEEDED', 1.0, 2.0, ?)",
            (FIRST, seal_of(forged)),
        )
    connection.close()
    assert "holds the call, and says that it was pruned" in str(audit(store).fault)


def test_what_is_no_tombstone_is_refused() -> None:
    with pytest.raises(StoreCorrupt, match="cannot be read"):
        tombstone_in(["s", "k", "d", "r", "t", "tool", "SUCCEEDED", "noon", 2.0, b""])


@pytest.mark.parametrize("seq", [1, 2])
def test_a_damaged_call_is_not_pruned_and_says_so(place: tuple[str, str, Callable[[], Any]], seq: int) -> None:
    """Its key could not be kept, or its events not be removed."""
    url, schema, make = place
    store = make()
    write_one(store)
    if schema:
        psycopg = pytest.importorskip("psycopg")
        with psycopg.connect(url, autocommit=True) as server:
            server.execute(f"SET search_path TO {schema}; SET fcguard.pruning = 'on'")
            server.execute("DELETE FROM fc_events WHERE seq = %s", (seq,))
    else:
        with sqlite3.connect(url) as file:
            file.execute("DROP TRIGGER fc_events_no_delete")
            file.execute("DELETE FROM fc_events WHERE seq = ?", (seq,))
        file.close()
    with pytest.raises(StoreCorrupt, match=f"event( {seq})? of {FIRST!r} is missing; run `fcguard verify`"):
        store.prune(200.0)
    assert isinstance(ask(store, note(1)), Accepted), "the call is still there"
    store.close()
