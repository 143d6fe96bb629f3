"""The PostgreSQL ledger under process death, a crashing server, a lost connection, and odd input."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("psycopg")

import psycopg

from fcguard.errors import ConfigurationError, StoreError, StoreTooNew, StoreUnavailable
from fcguard.model.states import CallState
from fcguard.stores.base import Accepted, Blocked, CallQuery, Enter, Event
from fcguard.stores.chain import verify
from fcguard.stores.owner import Liveness
from fcguard.stores.postgres import PostgresStore, grant
from fcguard.testing.store_contract import ask, enter, identity, ids, move, note, open_call
from tests.stores.postgres_server import Server, running_server
from tests.stores.proxy import Proxy

_WORKER = Path(__file__).with_name("ledger_worker.py")


@pytest.fixture
def make(postgres_server: Server, postgres_schema: str, tmp_path: Path) -> Iterator[Callable[..., PostgresStore]]:
    made: list[PostgresStore] = []

    def make_store(url: str = postgres_server.url, **options: Any) -> PostgresStore:
        made.append(PostgresStore(url, schema=postgres_schema, spool=tmp_path / "spool", **options))
        return made[-1]

    yield make_store
    for store in made:
        store.close()


@pytest.fixture
def store(make: Callable[..., PostgresStore]) -> PostgresStore:
    return make()


def _start(url: str, schema: str, prefix: str, calls: int, *options: str) -> subprocess.Popen[str]:
    command = [sys.executable, str(_WORKER), url, prefix, str(calls), "--schema", schema, *options]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _assert_whole(store: PostgresStore) -> None:
    verification = verify(store.events(), heads=store.heads(), gaps=store.gaps())
    assert verification.fault is None, str(verification.fault)


# Processes


@pytest.mark.parametrize("kind", ["enter", "write"])
@pytest.mark.parametrize("seed", range(2))
def test_a_killed_process_loses_nothing_it_acknowledged(
    postgres_server: Server, postgres_schema: str, store: PostgresStore, kind: str, seed: int
) -> None:
    process = _start(postgres_server.url, postgres_schema, "k", 100_000, "--threads", "4", "--kind", kind)
    assert process.stdout is not None
    wanted = random.Random(seed).randrange(20, 200)
    lines = [process.stdout.readline() for _ in range(wanted)]
    process.kill()
    lines += process.stdout.read().splitlines(keepends=True)
    process.communicate()
    acknowledged = [line.split() for line in lines if line.endswith("\n")]
    assert len(acknowledged) >= wanted
    for word, request_id in acknowledged:
        call = store.get(request_id)
        assert call is not None, request_id
        if word == "done":
            assert (call.state, call.result) == (CallState.SUCCEEDED, {"data": int(request_id[-6:])})
    _assert_whole(store)
    if kind == "write":
        left = {call.identity.request_id for call in store.calls(CallQuery(states=frozenset({CallState.STARTED})))}
        claims = store.claim(limit=1000)
        assert {claim.call.identity.request_id for claim in claims} <= left
        assert {claim.liveness for claim in claims} <= {Liveness.DEAD}


def test_sixteen_processes_write_one_ledger(
    postgres_server: Server, postgres_schema: str, store: PostgresStore
) -> None:
    """No error, no lost record, one unbroken chain; all of them start with tables that do not exist."""
    processes = [
        _start(
            postgres_server.url, postgres_schema, f"p{number}", 20, "--threads", "2", "--task", f"shared-{number % 3}"
        )
        for number in range(16)
    ]
    for process in processes:
        out, err = process.communicate(timeout=240)
        assert (process.returncode, err, out.splitlines()[-1]) == (0, "", "finished")
    _assert_whole(store)
    assert len(ids(store.calls())) == 16 * 2 * 20
    assert [head.seq for head in sorted(store.heads(), key=lambda head: head.task_id)] == [240, 200, 200]


def test_of_many_workers_one_gets_the_effect_and_each_call_is_claimed_once(make: Callable[..., PostgresStore]) -> None:
    stores = [make() for _ in range(6)]
    start = threading.Barrier(6)
    answers: list[Any] = []
    claimed: list[str] = []

    def race(number: int) -> None:
        start.wait(60)
        answers.append(ask(stores[number], open_call(number, task_id=f"task-{number}", effect_key="e", lease=0.0)))
        for extra in range(5):
            ask(stores[number], open_call(100 + 10 * number + extra, lease=0.0))
        start.wait(60)
        while claims := stores[number].claim(limit=3, lease=60.0):
            claimed.extend(ids(claim.call for claim in claims))

    threads = [threading.Thread(target=race, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(type(answer).__name__ for answer in answers) == ["Accepted"] + ["Blocked"] * 5
    claimed += ids(claim.call for claim in stores[0].claim(limit=100))
    assert len(claimed) == len(set(claimed)) == 31
    _assert_whole(stores[0])


# A server that dies, a connection that breaks


def test_a_server_stopped_at_once_in_the_middle_of_load(tmp_path: Path) -> None:
    """`pg_ctl stop -m immediate` while eight threads write; after a restart everything answered is there."""
    with running_server() as server:
        store = PostgresStore(server.url, spool=tmp_path / "spool", timeout=5.0)
        accepted: list[str] = []
        failed: list[BaseException] = []
        enough = threading.Event()

        def load(thread: int) -> None:
            for number in range(100_000):
                command = enter(thread * 100_000 + number, task_id=f"task-{thread % 3}")
                try:
                    ask(store, command)
                except StoreUnavailable as error:
                    failed.append(error)
                    return
                accepted.append(command.identity.request_id)
                if len(accepted) > 300:
                    enough.set()

        threads = [threading.Thread(target=load, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        assert enough.wait(60)
        server.stop(signal.SIGQUIT)
        for thread in threads:
            thread.join(120)
        assert len(failed) == 8
        with pytest.raises(StoreUnavailable, match="cannot be reached"):
            store.get(accepted[0])
        server.start()
        assert ask(store, enter(900_000)) == Accepted(1), "the same store goes on"
        there = set(ids(store.calls()))
        assert set(accepted) <= there
        _assert_whole(store)
        store.close()


def _is_commit(data: bytes) -> bool:
    return b"COMMIT\0" in data


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("command", ["open", "move", "enter"])
def test_a_connection_that_breaks_at_the_commit(
    postgres_server: Server, make: Callable[..., PostgresStore], moment: str, command: str
) -> None:
    """The COMMIT is lost, or its answer is; either way the record is written once and its caller gets the answer."""
    proxy = Proxy(postgres_server.port)
    store = make(f"postgresql://postgres@127.0.0.1:{proxy.port}/postgres", timeout=10.0)
    ask(store, open_call(1))
    left = 1

    def watch(data: bytes) -> str | None:
        nonlocal left
        if not _is_commit(data) or not left:
            return None
        left -= 1
        return moment

    proxy.watch = watch
    commands = {
        "open": open_call(2, effect_key="e"),
        "move": move(1, 1, CallState.SUCCEEDED, result={}),
        "enter": enter(3),
    }
    answer = ask(store, commands[command])
    assert (proxy.dropped, answer) == (1, Accepted(2 if command == "move" else 1))
    assert len(list(store.events())) == 2
    _assert_whole(store)
    proxy.close()


def test_a_commit_whose_fate_cannot_be_learned_is_refused_and_can_be_spooled(
    postgres_server: Server, make: Callable[..., PostgresStore]
) -> None:
    """The server commits, the answer is lost and the server stays away. The outcome goes to the spool and is not doubled."""
    proxy = Proxy(postgres_server.port)
    store = make(f"postgresql://postgres@127.0.0.1:{proxy.port}/postgres", timeout=2.0)
    ask(store, open_call(1))

    def watch(data: bytes) -> str | None:
        if not _is_commit(data):
            return None
        proxy.is_down = True
        return "after"

    proxy.watch = watch
    outcome = move(1, 1, CallState.SUCCEEDED, result={"data": 1})
    with pytest.raises(StoreUnavailable, match="not known whether the record was written"):
        ask(store, outcome)
    store.spool(outcome)
    proxy.watch, proxy.is_down = lambda data: None, False
    assert store.drain().known == 1
    assert [event.kind for event in store.events()] == ["opened", "moved"]
    proxy.close()


def test_an_idle_connection_that_the_server_closed_is_replaced(
    postgres_server: Server, make: Callable[..., PostgresStore]
) -> None:
    store = make()
    ask(store, enter(1))
    assert store.get("fc-20260130-000001") is not None
    with psycopg.connect(postgres_server.url, autocommit=True) as admin:
        admin.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'fcguard'")
    assert ask(store, enter(2)) == Accepted(1)
    assert store.get("fc-20260130-000002") is not None


def test_a_connection_that_breaks_before_the_commit_is_replaced(
    postgres_server: Server, make: Callable[..., PostgresStore]
) -> None:
    """Nothing can have been written, so the group is sent again on a new connection."""
    proxy = Proxy(postgres_server.port)
    store = make(f"postgresql://postgres@127.0.0.1:{proxy.port}/postgres", timeout=10.0)
    ask(store, enter(1))
    left = 1

    def watch(data: bytes) -> str | None:
        nonlocal left
        if b"fc-20260130-000002" not in data or not left:
            return None
        left -= 1
        return "before"

    proxy.watch = watch
    assert ask(store, enter(2)) == Accepted(1)
    assert proxy.dropped == 1
    assert len(list(store.events())) == 2
    proxy.close()


def test_a_server_that_always_breaks_is_reported(postgres_server: Server, make: Callable[..., PostgresStore]) -> None:
    proxy = Proxy(postgres_server.port)
    store = make(f"postgresql://postgres@127.0.0.1:{proxy.port}/postgres", timeout=10.0)
    ask(store, enter(1))
    proxy.watch = lambda data: "before" if b"fc-20260130-000002" in data else None
    with pytest.raises(StoreUnavailable, match="the connection broke before the commit; call again"):
        ask(store, enter(2))
    proxy.watch = lambda data: "before" if _is_commit(data) else None
    with pytest.raises(StoreUnavailable, match="rolled the transaction back; call again"):
        ask(store, enter(3))
    proxy.watch = lambda data: "before" if b"BEGIN" in data else None
    with pytest.raises(StoreUnavailable, match="cannot be reached or went away"):
        ask(store, enter(4))
    proxy.watch = lambda data: None
    assert ask(store, enter(5)) == Accepted(1)
    proxy.close()


@pytest.mark.parametrize("moment", ["before", "after"])
def test_a_commit_without_events_that_breaks(
    postgres_server: Server, make: Callable[..., PostgresStore], moment: str
) -> None:
    """Keeping a blob writes no event; then the transaction's own state at the server is the proof."""
    proxy = Proxy(postgres_server.port)
    store = make(f"postgresql://postgres@127.0.0.1:{proxy.port}/postgres", timeout=10.0)
    ask(store, enter(1))
    left = 1

    def watch(data: bytes) -> str | None:
        nonlocal left
        if not _is_commit(data) or not left:
            return None
        left -= 1
        return moment

    proxy.watch = watch
    store.put_blob("d", "secret", b"x")
    assert (proxy.dropped, store.blob("d")) == (1, b"x")
    left = 1
    assert store.claim() == [], "a transaction that writes nothing cannot be lost"
    proxy.close()


def test_readers_share_few_connections(postgres_server: Server, make: Callable[..., PostgresStore]) -> None:
    store = make(pool_size=1, timeout=2.0)
    ask(store, enter(1))
    inside, leave = threading.Event(), threading.Event()
    session = store._open()
    thread = threading.Thread(target=lambda: session.read(lambda connection: (inside.set(), leave.wait(60))))
    thread.start()
    assert inside.wait(60)
    with pytest.raises(StoreUnavailable, match="no connection for reading became free"):
        store.get("fc-20260130-000001")
    leave.set()
    thread.join()
    assert store.get("fc-20260130-000001") is not None


def test_a_query_that_the_server_stops_is_reported(make: Callable[..., PostgresStore]) -> None:
    store = make(timeout=2.0)
    ask(store, enter(1))
    session = store._open()
    assert store.get("fc-20260130-000001") is not None
    with pytest.raises(StoreUnavailable, match="the server took too long"):
        session.read(lambda connection: connection.execute("SELECT pg_sleep(60)"))
    assert store.get("fc-20260130-000001") is not None, "the connection is still good"
    with pytest.raises(StoreUnavailable, match="the server took too long"):
        session.on_writer(lambda: session.transact(lambda connection, now: connection.execute("SELECT pg_sleep(60)")))
    assert ask(store, enter(2)) == Accepted(1)


def test_an_id_of_a_transaction_that_the_server_never_saw(store: PostgresStore) -> None:
    """After a failover the new server may never have seen the transaction: nothing was written there."""
    ask(store, enter(1))
    session = store._open()
    session._witness = (1, 99, b"x")
    assert session.on_writer(lambda: session._was_committed(str(10**18))) is False


# Servers that will not do


def test_a_server_that_may_lose_commits_is_refused_unless_that_is_accepted(
    postgres_server: Server, make: Callable[..., PostgresStore]
) -> None:
    url = f"{postgres_server.url}?options=-csynchronous_commit%3Doff"
    with pytest.raises(StoreUnavailable, match="synchronous_commit=off, fsync=on; switch both on"):
        ask(make(url), enter(1))
    with pytest.raises(StoreUnavailable, match="synchronous_commit=off"):
        make(url).get("fc-1")
    assert ask(make(url, allow_lost_commits=True), enter(1)) == Accepted(1)


def test_a_missing_server_is_reported_through_done_and_by_reading(tmp_path: Path) -> None:
    store = PostgresStore("postgresql://user:hunter2@127.0.0.1:1/db", spool=tmp_path, timeout=2.0)
    with pytest.raises(StoreUnavailable, match="cannot be reached or went away") as caught:
        ask(store, enter(1))
    assert "hunter2" not in str(caught.value)
    assert "postgresql://127.0.0.1:1/db" in str(caught.value)
    with pytest.raises(StoreUnavailable):
        store.get("fc-1")
    store.close()


def test_a_missing_database_is_named(postgres_server: Server, tmp_path: Path) -> None:
    store = PostgresStore(
        f"postgresql://postgres@127.0.0.1:{postgres_server.port}/nowhere", spool=tmp_path, timeout=2.0
    )
    with pytest.raises(StoreUnavailable, match='database "nowhere" does not exist'):
        ask(store, enter(1))
    store.close()


@pytest.mark.parametrize(
    ("url", "options"),
    [("sqlite:///x", {}), ("127.0.0.1", {}), ("postgresql://h/d", {"lease": 0}), ("postgresql://h/d", {"timeout": 0}),
     ("postgresql://h/d", {"pool_size": 0}), ("postgresql://h/d", {"schema": ""})],
)  # fmt: skip
def test_options_without_meaning_are_refused(url: str, options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        PostgresStore(url, **options)


def test_a_newer_schema_is_refused(
    postgres_server: Server, postgres_schema: str, make: Callable[..., PostgresStore]
) -> None:
    ask(make(), enter(1))
    with psycopg.connect(postgres_server.url) as admin:
        admin.execute(f"UPDATE {postgres_schema}.fc_meta SET value = '99'")
    with pytest.raises(StoreTooNew, match="upgrade fcguard"):
        ask(make(), enter(2))


# Rights and tables


def test_the_role_of_an_application_can_write_but_not_rewrite(
    postgres_server: Server, postgres_schema: str, make: Callable[..., PostgresStore]
) -> None:
    owner = make()
    ask(owner, enter(1))
    with psycopg.connect(postgres_server.url, autocommit=True) as admin:
        admin.execute(f"CREATE ROLE app_{postgres_schema} LOGIN")
        grant(admin, f"app_{postgres_schema}", postgres_schema)
    url = f"postgresql://app_{postgres_schema}@127.0.0.1:{postgres_server.port}/postgres"
    app = make(url)
    ask(app, open_call(2, effect_key="e", lease=0.0))
    ask(app, note(2))
    assert ids(claim.call for claim in app.claim()) == ["fc-20260130-000002"]
    assert ask(app, move(2, 2, CallState.SUCCEEDED, result={})) == Accepted(3)
    app.put_blob("d", "secret", b"x")
    assert app.erase_blob("d")
    app.heartbeat()
    for keys in (False, True):
        with pytest.raises(StoreUnavailable, match="prune it as the role that owns its tables"):
            app.prune(before=1e12, keys=keys)
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in ("UPDATE {}.fc_events SET kind = 'x'", "DELETE FROM {}.fc_events", "TRUNCATE {}.fc_events"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                connection.execute(statement.format(postgres_schema))
    assert owner.prune(before=1e12).calls == 2
    _assert_whole(owner)


def test_a_role_that_may_not_make_tables_is_told_so(
    postgres_server: Server, make: Callable[..., PostgresStore]
) -> None:
    with psycopg.connect(postgres_server.url, autocommit=True) as admin:
        admin.execute("CREATE ROLE powerless LOGIN")
    with pytest.raises(StoreUnavailable, match="lacks rights"):
        ask(make(f"postgresql://powerless@127.0.0.1:{postgres_server.port}/postgres"), enter(1))


def test_not_even_the_owner_changes_events(postgres_server: Server, postgres_schema: str, store: PostgresStore) -> None:
    ask(store, enter(1))
    with psycopg.connect(postgres_server.url, autocommit=True) as admin:
        for statement in ("UPDATE {}.fc_events SET kind = 'x'", "DELETE FROM {}.fc_events", "TRUNCATE {}.fc_events"):
            with pytest.raises(psycopg.errors.RaiseException, match="append-only"):
                admin.execute(statement.format(postgres_schema))


# Odd input


def test_one_bad_record_does_not_fail_the_others(store: PostgresStore) -> None:
    ask(store, enter(1))
    hold, holding = threading.Event(), threading.Event()
    store.submit(enter(2), lambda answer: (holding.set(), hold.wait(60)))
    assert holding.wait(60)
    commands = [
        enter(3),
        enter(1),
        Enter(identity(4), CallState.SUCCEEDED, 2**70, Event("call", 1.0, {})),
        Enter(identity(5, tool="\ud800"), CallState.SUCCEEDED, 1, Event("call", 1.0, {})),
        Enter(identity(6, tool="a\0b"), CallState.SUCCEEDED, 1, Event("call", 1.0, {})),
        Enter(identity(7), CallState.SUCCEEDED, 1, Event("call", 1.0, {"a": object()})),
        open_call(8, effect_key="e"),
        open_call(9, effect_key="e"),
    ]
    answers: list[Any] = []
    finished = threading.Event()
    for command in commands:
        store.submit(command, lambda answer: (answers.append(answer), len(answers) == len(commands) and finished.set()))
    hold.set()
    assert finished.wait(60)
    assert [type(answer) for answer in answers] == [Accepted, *[StoreError] * 5, Accepted, Blocked]
    assert ids(store.calls()) == [f"fc-20260130-{number:06d}" for number in (8, 3, 2, 1)]
    _assert_whole(store)


def test_open_calls_are_found_by_index(postgres_server: Server, postgres_schema: str, store: PostgresStore) -> None:
    ask(store, open_call(1))
    with psycopg.connect(postgres_server.url) as admin:
        admin.execute(f"SET search_path TO {postgres_schema}; SET enable_seqscan = off")
        for statement in (
            "SELECT request_id FROM fc_calls WHERE is_open ORDER BY request_id",
            "SELECT request_id FROM fc_calls WHERE is_open AND effect_key = 'e'",
            "SELECT request_id FROM fc_calls WHERE holds_key AND idempotency_scope = 's' AND idempotency_key = 'k'",
        ):
            plan = " / ".join(row[0] for row in admin.execute(f"EXPLAIN {statement}"))
            assert "Index" in plan, plan
