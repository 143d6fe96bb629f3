"""The sql rule: what gets through a grep must not get through a parser, and plain queries must pass."""

from __future__ import annotations

import contextlib
import logging
import sqlite3
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcguard.errors import ConfigurationError
from fcguard.rules.database import sql
from tests.rules import sql_bounded_statements, sql_other_statements, sql_statements, sql_unbounded_statements
from tests.rules.sql_statements import CHANGE

TRICKS = [*sql_statements.TRICKS, *sql_other_statements.TRICKS, *sql_unbounded_statements.TRICKS]
HARMLESS = [*sql_statements.HARMLESS, *sql_other_statements.HARMLESS, *sql_bounded_statements.HARMLESS]


def test_the_tables_are_large_enough() -> None:
    assert len({text for _, _, text in TRICKS}) >= 60
    assert len({text for _, _, text in HARMLESS}) >= 60


@pytest.mark.parametrize(
    ("dialect", "options", "text"), TRICKS, ids=lambda value: value[:60] if isinstance(value, str) else None
)
def test_no_trick_gets_through(dialect: str | None, options: dict[str, Any], text: str, make_call: Any) -> None:
    violation = sql("sql", dialect=dialect, **options)(make_call({"sql": text}))
    assert violation is not None
    assert violation.code in ("PARAM_INVALID", "PARAM_TOO_BROAD")
    assert violation.next_action == "fix_arguments"
    assert violation.message.startswith("sql: ")


@pytest.mark.parametrize(
    ("dialect", "options", "text"), HARMLESS, ids=lambda value: value[:60] if isinstance(value, str) else None
)
def test_no_plain_statement_is_refused(dialect: str | None, options: dict[str, Any], text: str, make_call: Any) -> None:
    assert sql("sql", dialect=dialect, **options)(make_call({"sql": text})) is None


@pytest.mark.parametrize("value", [5, True, ["SELECT 1"], {"a": 1}, 1.5])
def test_another_type_is_refused(value: Any, make_call: Any) -> None:
    assert sql()(make_call({"sql": value})).code == "PARAM_INVALID"


def test_refusals_tell_what_would_be_accepted(make_call: Any) -> None:
    rule = sql(allow={"select", "update"}, tables={"orders"}, require_bound=True)
    assert "select, update" in rule(make_call({"sql": "DELETE FROM orders"})).message
    assert "allowed: orders" in rule(make_call({"sql": "SELECT 1 FROM users"})).message
    broad = rule(make_call({"sql": "SELECT * FROM orders"}))
    assert (broad.code, "LIMIT of at most 1000" in broad.message) == ("PARAM_TOO_BROAD", True)
    assert "LIMIT" not in rule(make_call({"sql": "UPDATE orders SET a = 1"})).message
    assert "longer" in rule(make_call({"sql": "SELECT 1" + " " * 20_000})).message


@pytest.mark.parametrize(
    ("text", "passes"),
    [
        ("SELECT * FROM orders", True),
        ("SELECT * FROM Orders", True),
        ("SELECT * FROM public.users", True),
        ("SELECT * FROM users", False),
        ("SELECT * FROM other.orders", False),
        ("SELECT * FROM orders, secrets", False),
        ("SELECT (SELECT a FROM secrets) FROM orders", False),
        ("WITH x AS (SELECT 1) SELECT * FROM x", True),
        ("WITH x AS (SELECT * FROM orders) SELECT * FROM x JOIN orders ON 1 = 1", True),
        ("WITH x AS (SELECT * FROM secrets) SELECT * FROM x", False),
        ("WITH secrets AS (SELECT * FROM secrets) SELECT * FROM secrets", False),
        ("WITH a AS (SELECT * FROM secrets), secrets AS (SELECT 1) SELECT * FROM a", False),
        ("WITH a AS (SELECT 1), b AS (SELECT * FROM a) SELECT * FROM b", True),
        ("WITH RECURSIVE n AS (SELECT 1 AS i UNION ALL SELECT i + 1 FROM n) SELECT * FROM n LIMIT 5", True),
        ("SELECT * FROM orders WHERE id IN (WITH secrets AS (SELECT 1 AS id) SELECT id FROM secrets)", True),
        ("SELECT * FROM secrets WHERE id IN (WITH secrets AS (SELECT 1 AS id) SELECT id FROM secrets)", False),
        ('WITH secrets AS (SELECT 1) SELECT * FROM "SECRETS"', False),
        ('WITH "Mine" AS (SELECT 1) SELECT * FROM "Mine"', True),
        ("WITH secrets AS (SELECT 1) SELECT * FROM orders JOIN secrets ON true", True),
        ("SELECT * FROM x.n, (WITH n AS (SELECT 1) SELECT * FROM n) AS y", False),
    ],
)
def test_only_listed_tables(text: str, passes: bool, make_call: Any) -> None:
    assert (sql(dialect="postgres", tables=["orders", "public.users"])(make_call({"sql": text})) is None) is passes


@pytest.mark.parametrize(
    "text",
    [
        "WITH secrets AS (SELECT 1 AS id) DELETE FROM secrets WHERE id = 1",
        "WITH secrets AS (SELECT 1 AS id) UPDATE secrets SET a = 1 WHERE id = 1",
        "WITH secrets AS (SELECT 1 AS id) INSERT INTO secrets SELECT id FROM secrets",
        "WITH secrets AS (SELECT 1 AS id) INSERT INTO secrets (id) SELECT id FROM secrets",
    ],
)
def test_a_with_does_not_hide_what_is_changed(text: str, make_call: Any) -> None:
    assert "secrets" in sql(dialect="postgres", tables=["orders"], **CHANGE)(make_call({"sql": text})).message


def test_functions_can_be_allowed_and_forbidden(make_call: Any) -> None:
    text = {"sql": "SELECT my_total(a), pg_sleep(1), lower(b) FROM t"}
    assert "my_total" in sql(dialect="postgres")(make_call(text)).message
    assert "pg_sleep" in sql(dialect="postgres", allow_functions=["my_*"])(make_call(text)).message
    assert sql(dialect="postgres", allow_functions=["my_*", "PG_SLEEP"])(make_call(text)) is None
    assert (
        "lower"
        in sql(dialect="postgres", allow_functions=["my_*", "pg_sleep"], forbid_functions=["lower"])(
            make_call(text)
        ).message
    )


def test_the_largest_limit_can_be_set(make_call: Any) -> None:
    rule = sql(require_bound=True, max_limit=10)
    assert rule(make_call({"sql": "SELECT * FROM t LIMIT 10"})) is None
    assert rule(make_call({"sql": "SELECT * FROM t LIMIT 11"})) is not None
    assert sql(allow=["delete"], require_bound=False)(make_call({"sql": "DELETE FROM t"})) is None


@pytest.mark.parametrize("options", [{}, {"require_bound": ["update"]}, {"require_bound": True}])
def test_a_limit_that_is_given_bounds_every_select(options: dict[str, Any], make_call: Any) -> None:
    rule = sql(dialect="sqlite", tables={"refunds"}, max_limit=100, **options)
    for text in (
        "select * from refunds limit 100",
        "select * from refunds where id = 7",
        "select count(*) from refunds",
    ):
        assert rule(make_call({"sql": text})) is None
    for text in (
        "select * from refunds",
        "select * from refunds limit 101",
        "select * from refunds limit 5000",
        "with r as (select * from refunds) select * from r",
        "select id from refunds union all select id from refunds",
    ):
        refused = rule(make_call({"sql": text}))
        assert refused.code == "PARAM_TOO_BROAD" and "LIMIT of at most 100" in refused.message
    assert sql()(make_call({"sql": "select * from refunds"})) is None, "nothing was asked for"


@pytest.mark.parametrize("kind", ["create", "drop", "alter", "truncate", "merge"])
def test_other_kinds_can_be_allowed(kind: str, make_call: Any) -> None:
    texts = {
        "create": "CREATE TABLE t (a INT)",
        "drop": "DROP TABLE IF EXISTS t",
        "alter": "ALTER TABLE t DROP COLUMN a",
        "truncate": "TRUNCATE TABLE t",
        "merge": "MERGE INTO t USING u ON t.id = u.id WHEN MATCHED THEN UPDATE SET a = 1",
    }
    allow = {kind, "update"} if kind == "merge" else {kind}
    assert sql(allow=allow)(make_call({"sql": texts[kind]})) is None
    for other, text in texts.items():
        if other != kind:
            assert sql(allow=allow)(make_call({"sql": text})) is not None


@pytest.mark.parametrize(
    "options",
    [
        {"allow": []},
        {"allow": "select"},
        {"allow": ["selct"]},
        {"dialect": "klingon"},
        {"require_bound": ["drop"]},
        {"require_bound": "select"},
        {"max_limit": 0},
        {"max_limit": True},
        {"max_limit": 10, "require_bound": False},
        {"tables": "orders"},
    ],
)
def test_options_are_checked_when_the_rule_is_built(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="sql"):
        sql(**options)


@pytest.mark.parametrize(
    "text", ["SELECT " + "(" * 6000 + "1" + ")" * 6000, "SELECT " + "f(" * 6000, "SELECT " + "NOT " * 4500 + "1"]
)
def test_deep_nesting_is_refused(text: str, make_call: Any) -> None:
    assert sql()(make_call({"sql": text})).code == "PARAM_INVALID"


_WORDS = [
    "SELECT",
    "1",
    "a",
    "FROM",
    "t",
    ";",
    "DROP TABLE t",
    "DELETE FROM t",
    "--",
    "/*",
    "*/",
    "'",
    '"',
    "\n",
    " ",
    "UNION",
    "(",
    ")",
    "WHERE",
    "=",
    ",",
    "`",
    "\\",
    "#",
    "$$",
    "AS",
    "*",
]


@given(text=st.lists(st.sampled_from(_WORDS), max_size=14).map(" ".join))
def test_what_passes_changes_nothing_in_a_real_database(text: str, make_call: Any) -> None:
    """Whatever the rule for SQLite lets through is run by SQLite itself, which tells every write it would do."""
    if sql(dialect="sqlite")(make_call({"sql": text})) is not None:
        return
    writes: list[int] = []
    connection = sqlite3.connect(":memory:")
    connection.execute("CREATE TABLE t (a)")
    reading = (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE)
    connection.set_authorizer(
        lambda action, *_: sqlite3.SQLITE_OK if action in reading else writes.append(action) or sqlite3.SQLITE_OK
    )
    with contextlib.suppress(sqlite3.Error):
        connection.execute(text)
    connection.close()
    assert writes == []


def test_the_parser_logs_nothing_of_a_statement(make_call: Any, caplog: pytest.LogCaptureFixture) -> None:
    secret = "SELECT 1 INTO x WITH y AS z = UPDATE t SET password = 'hunter2'"
    assert sql()(make_call({"sql": secret})) is not None
    assert sql(allow=["alter"])(make_call({"sql": "ALTER TABLE t DROP C 'hunter2'"})) is not None
    assert caplog.records == []
    logging.getLogger("sqlglot").warning("its own words are still heard")
    assert len(caplog.records) == 1


def test_sqlglot_is_missing() -> None:
    code = (
        "import sys; sys.modules['sqlglot'] = None\n"
        "from fcguard.rules import sql\n"
        "try:\n    sql()\n"
        "except ImportError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600, check=True)
    assert "pip install 'fcguard[sql]'" in done.stdout
