"""No false "not applied" from Redis: its client against a server that stalls, closes or refuses, beside what was applied.

`pytest -s tests/recovery/test_determinacy_redis.py` prints the table.
"""

from __future__ import annotations

import contextlib

import pytest
import redis
import redis.backoff
import redis.retry

from tests.recovery.fault_server import closed_port, full_backlog
from tests.recovery.redis_stub import RedisStub
from tests.recovery.store_findings import check, printed_table, raised_by


@pytest.fixture(scope="module", autouse=True)
def table():
    yield from printed_table()


def with_redis(port, retries=0, timeout=30.0, **options):
    retry = redis.retry.Retry(redis.backoff.NoBackoff(), retries)
    with contextlib.closing(
        redis.Redis(
            host="127.0.0.1",
            port=port,
            socket_timeout=timeout,
            socket_connect_timeout=timeout,
            retry=retry,
            protocol=2,
            **options,
        )
    ) as client:
        client.set("order", "A1")


def answer_redis(line, *, applies):
    def script(stub, connection):
        stub.applied += applies
        if line:
            connection.sendall(line)
        return bool(line)

    return script


def stall_redis(stub, connection):
    stub.applied += 1
    stub.stop.wait(60)
    return False


def gone_redis(stub, connection):
    stub.applied += 1
    stub.stop_listening()
    return False


REDIS_FAULTS = {
    "applied, then closed": (answer_redis(b"", applies=True), 0, ("CONNECTION_FAILED", "unknown")),
    "not applied, closed": (answer_redis(b"", applies=False), 0, ("CONNECTION_FAILED", "unknown")),
    "applied, then stalls": (stall_redis, 0, ("TIMEOUT", "unknown")),
    "read-only replica": (answer_redis(b"-READONLY no\r\n", applies=False), 0, ("PERMISSION_DENIED", "refused")),
    "no permission": (answer_redis(b"-NOPERM no\r\n", applies=False), 0, ("PERMISSION_DENIED", "unknown")),
    "no memory": (answer_redis(b"-OOM no\r\n", applies=False), 0, ("RESOURCE_EXHAUSTED", "unknown")),
    "loading": (answer_redis(b"-LOADING no\r\n", applies=False), 0, ("DEPENDENCY_ERROR", "unknown")),
    "some error": (answer_redis(b"-ERR no\r\n", applies=False), 0, ("TOOL_ERROR", "unknown")),
    "hidden retry: applied, then refused": (gone_redis, 1, ("CONNECTION_FAILED", "unknown")),
}


@pytest.mark.parametrize("fault", REDIS_FAULTS)
def test_redis_fails(fault):
    script, retries, expected = REDIS_FAULTS[fault]
    with RedisStub(script) as stub:
        error = raised_by(lambda: with_redis(stub.port, retries, 0.3 if "stalls" in fault else 30.0))
        applied = stub.applied
    check("redis", fault, error, applied, expected)


@pytest.mark.parametrize("retries", [0, 2])
def test_redis_cannot_be_reached(retries):
    error = raised_by(lambda: with_redis(closed_port(), retries))
    check("redis", f"nobody listens, {retries} retries", error, 0, ("CONNECTION_FAILED", "not_sent"))
    with full_backlog() as port:
        error = raised_by(lambda: with_redis(port, retries, 0.3))
    check("redis", f"connect timeout, {retries} retries", error, 0, ("TIMEOUT", "not_sent"))


def test_redis_does_not_know_who_is_asking():
    with RedisStub(answer_redis(b"+OK\r\n", applies=True), auth_error=True) as stub:
        error = raised_by(lambda: with_redis(stub.port, password="wrong"))
        applied = stub.applied
    check("redis", "wrong password", error, applied, ("PERMISSION_DENIED", "not_sent"))


def test_redis_pool_has_no_free_connection():
    with RedisStub(answer_redis(b"+OK\r\n", applies=True)) as stub:
        pool = redis.ConnectionPool(host="127.0.0.1", port=stub.port, max_connections=1, protocol=2)
        taken = pool.get_connection()
        client = redis.Redis(connection_pool=pool)
        error = raised_by(lambda: client.set("order", "A1"))
        pool.release(taken)
        pool.disconnect()
        applied = stub.applied
    check("redis", "no free connection", error, applied, ("TIMEOUT", "not_sent"))


def test_a_watched_key_changed():
    check("redis", "watched key changed", redis.WatchError("changed"), 0, ("DEPENDENCY_ERROR", "refused"))
