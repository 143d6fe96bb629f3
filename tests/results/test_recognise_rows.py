"""Rows, cursors, results and mapped objects of real databases."""

from __future__ import annotations

import contextlib
import sqlite3

import aiosqlite
import pytest
import sqlalchemy
from sqlalchemy import orm

from fcguard.results import shape
from fcguard.results.recognise_rows import MAX_ROWS

ROWS = [{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]
SCHEMA = "CREATE TABLE orders (id INTEGER PRIMARY KEY, name TEXT); INSERT INTO orders VALUES (1, 'a'), (2, 'b')"


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "orders.db"
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.executescript(SCHEMA)
    return path


@pytest.fixture
def connection(path):
    with contextlib.closing(sqlite3.connect(path)) as connection:
        yield connection


@pytest.fixture
def engine(path):
    engine = sqlalchemy.create_engine(f"sqlite:///{path}")
    yield engine
    engine.dispose()


def test_a_cursor_of_a_query(connection):
    shaped = shape(connection.execute("SELECT * FROM orders"))
    assert (shaped.kind, shaped.notes) == ("rows", ())
    assert shaped.data == {"rows": ROWS, "row_count": 2}


def test_columns_of_one_name_are_kept_apart(connection):
    shaped = shape(connection.execute("SELECT id, id, name AS id FROM orders LIMIT 1"))
    assert shaped.data["rows"] == [{"id": 1, "id#2": 1, "id#3": "a"}]


def test_a_cursor_of_a_write(connection):
    assert shape(connection.execute("INSERT INTO orders VALUES (3, 'c')")).data == {
        "rows": [],
        "row_count": 1,
        "last_row_id": 3,
    }
    assert shape(connection.execute("DELETE FROM orders")).data["row_count"] == 3


def test_a_cursor_that_was_closed_is_unread(connection):
    cursor = connection.execute("SELECT * FROM orders")
    cursor.close()
    shaped = shape(cursor)
    assert (shaped.data, shaped.notes) == ({"rows": None, "row_count": None}, ("unread",))


def test_a_cursor_with_very_many_rows_is_read_in_part(connection):
    query = f"WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < {MAX_ROWS + 5}) SELECT x FROM n"
    shaped = shape(connection.execute(query), max_chars=10_000_000)
    assert len(shaped.data["rows"]) == MAX_ROWS
    assert shaped.data["truncated"] is True
    assert shaped.notes == ("truncated",)


def test_rows_of_sqlite(connection):
    connection.row_factory = sqlite3.Row
    cursor = connection.execute("SELECT * FROM orders")
    assert shape(cursor).data["rows"] == ROWS
    rows = connection.execute("SELECT * FROM orders").fetchall()
    assert (shape(rows).data, shape(rows).kind) == (ROWS, "rows")
    assert (shape(rows[0]).data, shape(rows[0]).kind) == (ROWS[0], "rows")
    assert shape({"row": rows[0]}).kind == "json"


def test_rows_of_sqlalchemy(engine):
    with engine.connect() as connection:
        query = sqlalchemy.text("SELECT * FROM orders")
        assert shape(connection.execute(query)).data == {"rows": ROWS, "row_count": 2}
        rows = connection.execute(query).fetchall()
        assert shape(rows).data == ROWS
        assert shape(rows[0]).data == ROWS[0]
        assert shape(rows[0]._mapping).data == ROWS[0]
        assert shape(connection.execute(query).mappings()).data["rows"] == ROWS
        assert shape(connection.execute(query).scalars()).data["rows"] == [1, 2]
        done = connection.execute(sqlalchemy.text("UPDATE orders SET name = 'x'"))
        assert shape(done).data == {"rows": [], "row_count": 2}
        closed = connection.execute(query)
        closed.close()
        assert shape(closed).notes == ("unread",)


class Base(orm.DeclarativeBase):
    pass


class Order(Base):
    __tablename__ = "orders"
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    name: orm.Mapped[str]
    lines: orm.Mapped[list[Line]] = orm.relationship(back_populates="order")


class Line(Base):
    __tablename__ = "lines"
    id: orm.Mapped[int] = orm.mapped_column(primary_key=True)
    order_id: orm.Mapped[int] = orm.mapped_column(sqlalchemy.ForeignKey("orders.id"))
    order: orm.Mapped[Order] = orm.relationship(back_populates="lines")


def test_a_mapped_object_shows_what_is_loaded_and_loads_nothing(engine):
    Base.metadata.create_all(engine)
    with orm.Session(engine) as session:
        session.add(Line(order_id=1))
        session.flush()
        order = session.get(Order, 1)
        shaped = shape(order)
        assert (shaped.data, shaped.kind) == (ROWS[0], "rows")
        assert "lines" not in vars(order)
        assert order.lines[0].order is order
        shown = shape(order).data
        assert shown["lines"][0]["order"] == {"$cycle": "$"}
    assert shape(order).data["name"] == "a"


def test_an_asynchronous_cursor_stays_unread(path):
    import asyncio

    async def run():
        async with aiosqlite.connect(path) as connection, connection.execute("SELECT * FROM orders") as cursor:
            shaped = shape(cursor)
            return shaped, await cursor.fetchall()

    shaped, rows = asyncio.run(run())
    assert shaped.notes == ("unread",)
    assert len(rows) == 2


class AsyncCursor:
    description = (("id",),)
    rowcount = -1

    def fetchmany(self, count):
        async def fetch():
            return [(1,)]

        return fetch()


class Record:
    __module__ = "asyncpg.protocol"

    def items(self):
        return [("id", 1)]


def test_a_cursor_that_answers_with_a_coroutine_is_unread():
    assert shape(AsyncCursor()).data == {"rows": None, "row_count": None}


def test_a_record_by_its_items():
    assert shape([Record()]).data == [{"id": 1}]


class NotMapped:
    _sa_instance_state = "no state"


def test_an_object_that_only_has_the_name_of_a_state():
    assert shape(NotMapped()).kind == "object"
