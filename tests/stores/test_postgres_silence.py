"""The PostgreSQL ledger when nothing comes back: the connection stands, and the server, or a proxy before it, says nothing."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("psycopg")

from fcguard import Guard
from fcguard.errors import StoreUnavailable
from fcguard.model.states import CallState
from fcguard.stores.base import Accepted
from fcguard.stores.postgres import PostgresStore
from fcguard.testing.store_contract import ask, enter, move, open_call
from tests.conftest import Mode, Script, add
from tests.stores.postgres_server import Server
from tests.stores.proxy import Proxy

Made = tuple[PostgresStore, Proxy]
LONG = 30.0
"""Seconds; far more than everything here may take, and without a bound each of it would take for ever."""


@pytest.fixture
def made(postgres_server: Server, postgres_schema: str, tmp_path: Path) -> Iterator[Made]:
    proxy = Proxy(postgres_server.port)
    url = f"postgresql://postgres@127.0.0.1:{proxy.port}/postgres"
    store = PostgresStore(url, schema=postgres_schema, spool=tmp_path / "spool", timeout=1.5)
    ask(store, open_call(1))
    yield store, proxy
    proxy.watch = lambda data: None
    store.close()
    proxy.close()


def once(text: bytes, order: str) -> Callable[[bytes], str | None]:
    """Give an order at the first message that holds a text."""
    left = [order]
    return lambda data: left.pop() if left and text in data else None


@pytest.mark.parametrize("mode", ["sync", "async"], indirect=True)
def test_a_call_ends_though_the_ledger_is_silent(made: Made, mode: Mode, tmp_path: Path) -> None:
    store, proxy = made
    guard = Guard(store=store, evidence_dir=tmp_path)
    script = Script("done")
    add(guard, mode, script, "query", effect="read")
    add(guard, mode, script, "create", effect="write")
    proxy.watch = lambda data: "silent"
    began = time.monotonic()
    with guard.task("t"):
        read, write = mode.call(guard, "query", {}), mode.call(guard, "create", {})
    assert time.monotonic() - began < LONG
    assert (read.success, read.flags) == (True, ("evidence_pending",))
    assert (write.success, write.error_type, len(script.calls)) == (False, "EVIDENCE_FAILED", 1)
    proxy.watch = lambda data: None
    with guard.task("t"):
        assert mode.call(guard, "create", {}).success
    assert store.get(read.request_id) is not None, "the spool was drained"


@pytest.mark.parametrize("order", ["silent", "heard"])
@pytest.mark.parametrize("text", [b"BEGIN", b"fc-20260130-000002", b"COMMIT\0"])
def test_a_line_that_goes_silent_is_given_up_and_the_record_written_once(made: Made, text: bytes, order: str) -> None:
    """Also where the server heard the COMMIT and only its answer is missing."""
    store, proxy = made
    proxy.watch = once(text, order)
    began = time.monotonic()
    assert ask(store, enter(2)) == Accepted(1)
    assert (proxy.dropped, time.monotonic() - began < LONG) == (1, True)
    assert [event.request_id for event in store.events()] == ["fc-20260130-000001", "fc-20260130-000002"]


def test_a_reader_does_not_wait_for_ever_either(made: Made) -> None:
    store, proxy = made
    assert store.get("fc-20260130-000001") is not None
    proxy.watch = once(b"fc_calls", "silent")
    row: Any = store.get("fc-20260130-000001")
    assert (row.state, proxy.dropped) == (CallState.STARTED, 1), "it was read on a new connection"
    proxy.watch = lambda data: "silent"
    with pytest.raises(StoreUnavailable):
        store.get("fc-20260130-000001")
    with pytest.raises(StoreUnavailable):
        ask(store, move(1, 1, CallState.SUCCEEDED, result={}))
