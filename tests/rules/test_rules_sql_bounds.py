"""Bounds of the sql rule against a real database: what passes as bounded never takes all rows of a table; and it ends soon."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from datetime import date, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fcguard.rules.database import sql

ROWS = 1500  # more than the largest LIMIT that counts


@pytest.fixture(scope="module")
def database() -> Iterator[sqlite3.Connection]:
    """Two tables whose columns hold a value of their own in each row, with days before and after today."""
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT, created_at TEXT, ref INTEGER)")
    connection.execute("CREATE TABLE u (uid INTEGER PRIMARY KEY, label TEXT, tid INTEGER)")
    for row in range(1, ROWS + 1):
        day = date.today() + timedelta(days=(row - 1000) * 10)
        connection.execute("INSERT INTO t VALUES (?, ?, ?, ?)", (row, f"name{row:05d}", day.isoformat(), ROWS - row))
        connection.execute("INSERT INTO u VALUES (?, ?, ?)", (row, f"label{row:05d}", row))
    connection.commit()
    yield connection
    connection.close()


COLUMNS = st.sampled_from(
    [
        "id",
        "t.id",
        "name",
        "created_at",
        '"id"',
        '"zz"',
        "rowid",
        "uid",
        "u.uid",
        "u.tid",
        "x.k",
        "k",
        "x.id",
        "ref",
        "label",
    ]
    + ["lower(name)", "trim(name, 'name0123456789')", "CAST(id AS TEXT)", "date(created_at)", "id + 0"]
)
VALUES = st.sampled_from(
    [
        "1",
        "5",
        "0",
        "-1",
        "99999",
        "'a'",
        "'name00005'",
        "'2025-01-01'",
        "date('now', '-7 days')",
        "NULL",
        "TRUE",
        "id",
        "'zz'",
    ]
    + [
        "'%a%'",
        "'name0000%'",
        "'%'",
        "(SELECT id)",
        "(SELECT max(uid) FROM u)",
        "(SELECT t.id FROM u LIMIT 1)",
        "(SELECT 5)",
    ]
)
LISTS = st.sampled_from(
    [
        "SELECT id",
        "SELECT id FROM u WHERE uid = 5",
        "SELECT u.uid FROM u WHERE u.uid = 5",
        "SELECT t.id FROM u WHERE uid = 5",
    ]
    + ["SELECT id FROM u LIMIT 5", "SELECT id FROM t WHERE name = 'name00001'", "1, 2", "1, id", "VALUES (id)"]
    + ["SELECT 5 UNION SELECT id", "SELECT x.id FROM (SELECT 1 AS k, id FROM t LIMIT 5) x"]
)
OPERATORS = st.sampled_from(
    ["=", "=", "=", "<>", "<", ">", "<=", ">=", "LIKE", "NOT LIKE", "GLOB", "IS NOT DISTINCT FROM"]
)
COMPARISONS = st.one_of(
    st.tuples(COLUMNS, OPERATORS, VALUES).map(" ".join),
    st.tuples(COLUMNS, st.sampled_from(["IN", "NOT IN"]), LISTS.map("({})".format)).map(" ".join),
    st.tuples(COLUMNS, VALUES, VALUES).map(lambda parts: "{} BETWEEN {} AND {}".format(*parts)),
    st.tuples(COLUMNS, st.sampled_from(["IS NULL", "IS NOT NULL", "IS NOT 5"])).map(" ".join),
)
CONDITIONS = st.recursive(
    COMPARISONS,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["AND", "OR"]), inner).map(lambda parts: f"({' '.join(parts)})"),
        inner.map("NOT {}".format),
    ),
    max_leaves=4,
)
ORIGINS = st.sampled_from(
    [
        "t",
        "t JOIN u ON t.id = u.tid",
        "t LEFT JOIN u ON t.id = u.tid",
        "u LEFT JOIN t ON t.id = u.tid",
        "t, u",
        "t NATURAL JOIN u",
    ]
    + [
        "t JOIN u ON t.id = t.id",
        "t JOIN u ON t.id = u.tid OR 1 = 1",
        "t FULL JOIN u ON t.id = u.tid",
        "(SELECT 1 AS k, t.* FROM t) x",
    ]
    + [
        "(SELECT id, name FROM t) x",
        "t, (SELECT 1 AS k) x",
        "t JOIN (SELECT 1 AS k, id FROM t LIMIT 5) x ON t.id = x.id",
    ]
    + ["t LEFT JOIN (SELECT 1 AS k, id FROM t LIMIT 5) x ON t.id = x.id", "u, (SELECT t.id FROM t LIMIT 1) x"]
    + ["(SELECT t.*, u.uid FROM t, u WHERE u.uid < 3) x", "(SELECT t.*, u.uid FROM t JOIN u ON t.id = u.tid) x"]
)
SHOWN = st.sampled_from(["*", "1 AS k, *", "count(*)", "json_group_array(1)", "id AS k, 1"])
STATEMENTS = st.one_of(
    CONDITIONS.map("DELETE FROM t WHERE {}".format),
    CONDITIONS.map("UPDATE t SET ref = 1 WHERE {}".format),
    st.tuples(SHOWN, ORIGINS, CONDITIONS).map(lambda parts: "SELECT {} FROM {} WHERE {}".format(*parts)),
)


@settings(max_examples=400, deadline=None)
@given(text=STATEMENTS)
def test_what_passes_as_bounded_does_not_take_all_rows(text: str, make_call: Any, database: sqlite3.Connection) -> None:
    rule = sql(dialect="sqlite", allow={"select", "update", "delete"}, require_bound=True)
    if rule(make_call({"sql": text})) is not None:
        return
    try:
        cursor = database.execute(text)
        rows = cursor.fetchmany(ROWS)
        taken = cursor.rowcount if cursor.description is None else len(rows)
        if "json_group" in text and rows:
            taken = str(rows[0][0]).count(",") + 1
    except sqlite3.Error:
        return  # the parser knows no schema
    finally:
        database.rollback()
    assert taken < ROWS * 0.9


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM " + ", ".join(f"t{n}" for n in range(1500)) + " WHERE t1.id = 5",
        "SELECT * FROM t WHERE " + " AND ".join(f"c{n} <> {n}" for n in range(1200)),
        "SELECT * FROM t0 " + " ".join(f"JOIN t{n} ON t{n}.a = t{n - 1}.a" for n in range(1, 600)) + " WHERE t1.id = 5",
        "WITH x0 AS (SELECT * FROM t)"
        + "".join(f", x{n} AS (SELECT * FROM x{n - 1} a JOIN x{n - 1} b ON a.id = b.id)" for n in range(1, 60))
        + " SELECT * FROM x59 WHERE id = 5",
    ],
    ids=["sources", "conditions", "joins", "doubled"],
)
def test_the_work_does_not_explode(text: str, make_call: Any) -> None:
    began = time.process_time()
    sql(dialect="postgres", require_bound=True)(make_call({"sql": text}))
    assert time.process_time() - began < 5.0
