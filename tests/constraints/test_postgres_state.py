"""PostgreSQL as shared state, against a real server: lost connections, forks, rights, and odd names."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Iterator
from typing import Any

import pytest

from fcguard.errors import ConfigurationError, StoreClosed, StoreUnavailable

psycopg = pytest.importorskip("psycopg")

from fcguard.constraints.postgres_state import PostgresState  # noqa: E402
from fcguard.stores.postgres import PostgresStore  # noqa: E402
from tests.stores.proxy import Proxy  # noqa: E402


def add(stored: Any) -> Any:
    return (stored or 0) + 1, (stored or 0) + 1


def read(stored: Any) -> Any:
    return stored, stored


@pytest.fixture
def schema(make_place: Any) -> str:
    return str(make_place("postgres").split(":")[1])


@pytest.fixture
def make(postgres_server: Any, schema: str) -> Iterator[Any]:
    made: list[PostgresState] = []

    def make_state(url: str = postgres_server.url, **options: Any) -> PostgresState:
        made.append(PostgresState(url, **{"schema": schema, **options}))
        return made[-1]

    yield make_state
    for state in made:
        state.close()


@pytest.fixture
def admin(postgres_server: Any) -> Iterator[Any]:
    with psycopg.connect(postgres_server.url, autocommit=True) as connection:
        yield connection


def drop_connections(admin: Any) -> None:
    admin.execute(
        "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND application_name = 'fcguard'"
    )


def test_a_change_that_was_overtaken_is_done_again(make: Any) -> None:
    state, other, seen = make(), make(), []

    def overtaken(stored: Any) -> Any:
        seen.append(stored)
        if len(seen) in (1, 3):
            other.change("n", lambda _: (41 if stored is None else None, None))
        return (stored or 0) + 1, stored

    assert state.change("n", overtaken) == 41, "its insert came too late"
    assert state.change("n", overtaken) is None, "its update came too late, and so it inserts"
    assert seen == [None, 41, 42, None] and state.change("n", read) == 1

    def always(stored: Any) -> Any:
        other.change("n", add)
        return 0, None

    with pytest.raises(StoreUnavailable, match="too many"):
        make(timeout=0.3).change("n", always)


def test_a_connection_that_the_server_closed_is_replaced(make: Any, admin: Any) -> None:
    state = make()
    assert state.change("n", add) == 1
    drop_connections(admin)
    assert state.change("n", add) == 2


def test_a_connection_that_breaks_between_reading_and_writing_says_so(make: Any, admin: Any) -> None:
    state = make()
    state.change("n", add)

    def broken(stored: Any) -> Any:
        drop_connections(admin)
        return add(stored)

    with pytest.raises(StoreUnavailable, match="terminating connection"):
        state.change("n", broken)
    assert state.change("n", read) == 1 and state.change("n", add) == 2


def test_a_server_that_is_not_there_and_an_end(make: Any) -> None:
    with pytest.raises(StoreUnavailable, match="refused"):
        make("postgresql://postgres@127.0.0.1:1/postgres").change("n", add)
    state = make()
    state.change("n", add)
    state.close()
    state.close()
    with pytest.raises(StoreClosed):
        state.change("n", add)


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
def test_usable_after_a_fork(make: Any) -> None:
    state = make()
    state.change("n", add)
    child = multiprocessing.get_context("fork").Process(target=state.change, args=("n", add))
    child.start()
    child.join(60)
    assert child.exitcode == 0
    assert state.change("n", add) == 3


def test_it_lies_beside_the_ledger_whichever_comes_first(
    postgres_server: Any, make: Any, schema: str, tmp_path: Any
) -> None:
    for name, is_ledger_first in ((schema, True), (f"{schema}_b", False)):
        store = PostgresStore(postgres_server.url, schema=name, spool=tmp_path / name)
        state = make(schema=name)
        for step in (lambda store=store: list(store.heads()), lambda state=state: state.change("n", add))[
            :: 1 if is_ledger_first else -1
        ]:
            step()
        assert list(store.heads()) == [] and state.change("n", add) == 2
        store.close()


def test_a_role_that_may_not_make_the_table_is_told_what_it_needs(
    make: Any, admin: Any, postgres_server: Any, schema: str
) -> None:
    admin.execute(f"CREATE ROLE {schema}_app LOGIN")
    state = make(postgres_server.url.replace("postgres@", f"{schema}_app@"))
    with pytest.raises(StoreUnavailable, match="make the table once"):
        state.change("n", add)
    make().change("n", add)
    admin.execute(f"GRANT USAGE ON SCHEMA {schema} TO {schema}_app")
    admin.execute(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {schema}.fc_state TO {schema}_app")
    assert state.change("n", add) == 2


def test_odd_names_are_names(make: Any) -> None:
    state = make(schema='we"ird %s {x} 名')
    assert [state.change("a'%s", add) for _ in range(2)] == [1, 2]


def test_what_nobody_changed_for_long_is_forgotten(make: Any, admin: Any, schema: str) -> None:
    make().change("old", add)
    admin.execute(f"UPDATE {schema}.fc_state SET changed_at = changed_at - interval '61 s'")
    state = make(ttl_seconds=60)
    state.change("new", add)
    assert admin.execute(f"SELECT key FROM {schema}.fc_state").fetchall() == [("new",)]


def test_what_need_not_be_durable_does_not_wait_for_the_disk(make: Any) -> None:
    def setting(state: PostgresState) -> Any:
        state.change("n", add)
        connection = state._connection
        assert connection is not None
        return connection.execute("SHOW synchronous_commit").fetchone()[0]

    assert [setting(make()), setting(make(durable=False))] == ["on", "off"]


def test_a_stuck_statement_ends_at_the_timeout(make: Any, admin: Any, schema: str) -> None:
    state = make(timeout=1.0)
    state.change("n", add)
    with admin.transaction():
        admin.execute(f"LOCK TABLE {schema}.fc_state")
        with pytest.raises(StoreUnavailable, match="timeout"):
            state.change("n", add)
    assert state.change("n", add) == 2


def test_a_server_that_says_nothing_is_not_waited_for(make: Any, postgres_server: Any) -> None:
    proxy = Proxy(postgres_server.port)
    state = make(f"postgresql://postgres@127.0.0.1:{proxy.port}/postgres", timeout=1.0)
    assert state.change("n", add) == 1
    proxy.watch = lambda data: "silent"
    began = time.monotonic()
    with pytest.raises(StoreUnavailable, match="timeout|no answer"):
        state.change("n", add)
    assert time.monotonic() - began < 30
    proxy.watch = lambda data: "heard" if b"UPDATE" in data else None
    with pytest.raises(StoreUnavailable, match="no answer from the server within 2 s"):
        state.change("n", add)
    proxy.watch = lambda data: None
    assert state.change("n", read) in (1, 2), "nobody knows whether that one was made"
    proxy.close()


@pytest.mark.parametrize(
    "url", ["", "ledger.db", "mysql://h/db", "host=h dbname=d", "postgresql://u:hunter2@h:port/d?x"]
)
def test_other_urls_are_refused_without_being_shown(url: str) -> None:
    with pytest.raises(ConfigurationError, match="postgresql://user@host") as refused:
        PostgresState(url)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("options", [{"schema": ""}, {"timeout": 0}, {"ttl_seconds": float("inf")}])
def test_options_that_make_no_sense_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        PostgresState("postgresql://h/d", **options)
