"""A ledger of the version before is brought up to date, by whoever may, and keeps what it held."""

from __future__ import annotations

import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest

from fcguard import SQLiteStore
from fcguard.errors import StoreError, StoreTooNew
from fcguard.model.states import CallState
from fcguard.stores.audit import audit
from fcguard.stores.base import Blocked, Replayed
from fcguard.stores.sqlite_schema import MIGRATIONS
from fcguard.testing.store_contract import ask, move, open_call
from tests.stores.postgres_server import Server

KEYS: dict[str, Any] = {"idempotency_scope": "s", "idempotency_key": "k", "digest": "d"}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.db"


def write_one(store: Any) -> None:
    ask(store, open_call(1, **KEYS))
    ask(store, move(1, 1, CallState.SUCCEEDED, result={"data": 1}))


def as_the_version_before(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        for statement in (
            "DROP TABLE fc_tombstones",
            "UPDATE fc_meta SET value = 1 WHERE key = 'schema'",
            "PRAGMA user_version = 1",
        ):
            connection.execute(statement)
    connection.close()


def test_a_file_of_the_version_before_is_brought_up_to_date(path: Path) -> None:
    old = SQLiteStore(path)
    write_one(old)
    old.close()
    as_the_version_before(path)
    connection = sqlite3.connect(path)
    with sqlite3.connect(":memory:") as first:
        first.executescript(MIGRATIONS[0])
        schema = "SELECT type, name, sql FROM sqlite_master ORDER BY 1, 2"
        assert connection.execute(schema).fetchall() == first.execute(schema).fetchall(), "it is as version 1 made it"
    connection.close()
    first.close()
    store = SQLiteStore(path)
    assert isinstance(ask(store, open_call(2, **KEYS)), Replayed), "what it held counts"
    assert store.prune(200.0).kept == 1
    assert isinstance(ask(store, open_call(2, **KEYS)), Blocked)
    assert audit(store).ok
    store.close()
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (2,)
        assert connection.execute("SELECT value FROM fc_meta WHERE key = 'schema'").fetchone() == (2,)
    connection.close()


def test_of_many_that_open_an_older_file_while_another_writes_one_brings_it_up_to_date(path: Path) -> None:
    old = SQLiteStore(path)
    write_one(old)
    old.close()
    as_the_version_before(path)
    writing = sqlite3.connect(path, isolation_level=None)
    writing.execute("BEGIN IMMEDIATE")  # as a process of the version before has it open
    stores, answers, errors = [SQLiteStore(path) for _ in range(6)], list[Any](), list[BaseException]()

    def use(number: int) -> None:
        try:
            answers.append(ask(stores[number], open_call(2 + number, **KEYS)))
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=use, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    assert writing.execute("SELECT count(*) FROM fc_calls").fetchone() == (1,)
    writing.execute("COMMIT")
    for thread in threads:
        thread.join(60)
    assert (len(answers), errors) == (6, []) and all(isinstance(answer, Replayed) for answer in answers)
    writing.execute("BEGIN IMMEDIATE")
    writing.execute("UPDATE fc_calls SET lease_until = 0")  # who had it open goes on
    writing.execute("COMMIT")
    writing.close()
    assert audit(stores[0]).ok
    for store in stores:
        store.close()


def test_an_older_version_that_opens_a_file_while_a_newer_one_brings_it_up_to_date_refuses_it(path: Path) -> None:
    old = SQLiteStore(path)
    write_one(old)
    old.close()
    as_the_version_before(path)

    class Overtaken(sqlite3.Connection):
        def execute(self, statement: str, *args: Any) -> sqlite3.Cursor:
            if statement == "BEGIN IMMEDIATE":
                other = sqlite3.connect(path)
                other.execute("PRAGMA user_version = 99")
                other.close()
            return super().execute(statement, *args)

    store = SQLiteStore(path, connector=lambda *args, **options: sqlite3.connect(*args, factory=Overtaken, **options))
    with pytest.raises(StoreTooNew, match="has schema 99, .* upgrade fcguard"):
        ask(store, open_call(2, **KEYS))
    store.close()


def test_a_server_s_ledger_of_the_version_before_is_brought_up_to_date(
    postgres_server: Server, postgres_schema: str, tmp_path: Path
) -> None:
    psycopg = pytest.importorskip("psycopg")
    from fcguard.stores.postgres import PostgresStore, grant

    def opened(url: str) -> Any:
        return PostgresStore(url, schema=postgres_schema, spool=tmp_path / "spool")

    old, role = opened(postgres_server.url), f"app_{postgres_schema}"
    write_one(old)
    old.close()
    with psycopg.connect(postgres_server.url, autocommit=True) as admin:
        admin.execute(f"CREATE ROLE {role} LOGIN")
        grant(admin, role, postgres_schema)
        admin.execute(f"SET search_path TO {postgres_schema}")
        admin.execute("DROP TABLE fc_tombstones; DROP FUNCTION fc_tombstones_stay")
        admin.execute("UPDATE fc_meta SET value = '1' WHERE key = 'schema'")
    store = opened(postgres_server.url)
    assert store.prune(200.0).kept == 1
    app = opened(f"postgresql://{role}@127.0.0.1:{postgres_server.port}/postgres")
    answer = ask(app, open_call(2, **KEYS))
    assert isinstance(answer, Blocked) and answer.reason == "pruned", "a role that had its rights before reads the keys"
    with psycopg.connect(postgres_server.url, autocommit=True) as admin:
        for statement in (
            "DELETE FROM {}.fc_tombstones",
            "UPDATE {}.fc_tombstones SET digest = ''",
            "TRUNCATE {}.fc_tombstones",
        ):
            with pytest.raises(psycopg.errors.RaiseException, match="stay as they are"):
                admin.execute(statement.format(postgres_schema))
    assert audit(store).tombstones == 1
    store.close()
    app.close()


def test_the_rights_of_a_role_are_given_again_after_an_update(
    postgres_server: Server, postgres_schema: str, tmp_path: Path
) -> None:
    """What a role without rights is told to have done, works: the owner need not open the ledger first."""
    psycopg = pytest.importorskip("psycopg")
    from fcguard.stores.postgres import PostgresStore, grant

    role = f"app_{postgres_schema}"
    url = f"postgresql://{role}@127.0.0.1:{postgres_server.port}/postgres"
    with psycopg.connect(postgres_server.url, autocommit=True) as admin:
        admin.execute(f"CREATE ROLE {role} LOGIN")
        path = admin.execute("SHOW search_path").fetchone()
        grant(admin, role, postgres_schema)  # makes the tables
        assert admin.execute("SHOW search_path").fetchone() == path
        app = PostgresStore(url, schema=postgres_schema, spool=tmp_path / "spool")
        write_one(app)
        app.close()
        admin.execute(f"DROP TABLE {postgres_schema}.fc_tombstones; DROP FUNCTION {postgres_schema}.fc_tombstones_stay")
        admin.execute(f"UPDATE {postgres_schema}.fc_meta SET value = '1' WHERE key = 'schema'")
        app = PostgresStore(url, schema=postgres_schema, spool=tmp_path / "spool")
        with pytest.raises(
            StoreError, match=r"lacks rights; let the owner run fcguard\.stores\.postgres\.grant for it"
        ):
            ask(app, open_call(2, **KEYS))
        grant(admin, role, postgres_schema)
        assert isinstance(ask(app, open_call(2, **KEYS)), Replayed)
        app.close()


def test_whoever_brings_a_ledger_up_to_date_its_owner_can_prune_it(
    postgres_server: Server, postgres_schema: str, tmp_path: Path
) -> None:
    """An administrator may do it, in whose name nothing else is in the schema."""
    psycopg = pytest.importorskip("psycopg")
    from fcguard.stores.postgres import PostgresStore, grant

    owner, app = f"owner_{postgres_schema}", f"app_{postgres_schema}"
    url = f"postgresql://{owner}@127.0.0.1:{postgres_server.port}/postgres"
    with psycopg.connect(postgres_server.url, autocommit=True) as admin:
        admin.execute(f"CREATE ROLE {owner} LOGIN; CREATE ROLE {app} LOGIN")
        admin.execute(f"CREATE SCHEMA {postgres_schema} AUTHORIZATION {owner}; SET search_path TO {postgres_schema}")
        admin.execute(f"GRANT CREATE ON DATABASE postgres TO {owner}")
        store = PostgresStore(url, schema=postgres_schema, spool=tmp_path / "spool")
        write_one(store)
        store.close()
        admin.execute("DROP TABLE fc_tombstones; DROP FUNCTION fc_tombstones_stay")
        admin.execute("UPDATE fc_meta SET value = '1' WHERE key = 'schema'")
        grant(admin, app, postgres_schema)
        admin.execute(f"REVOKE CREATE ON DATABASE postgres FROM {owner}")
    store = PostgresStore(url, schema=postgres_schema, spool=tmp_path / "spool")
    assert store.prune(200.0).kept == 1
    assert store.prune(200.0, keys=True).forgotten == 1
    store.close()
