"""How long a write waits for another process that holds the ledger: once, whatever stands in the way, and however often it asks."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fcguard import Guard
from fcguard.errors import StoreUnavailable
from fcguard.stores.base import Accepted
from fcguard.stores.patience import Patience
from fcguard.stores.sqlite import SQLiteStore
from fcguard.telemetry.observer import SilentObserver
from fcguard.testing.store_contract import ask, enter

_HOLDER = """
import fcntl, os, sqlite3, sys
path, what = sys.argv[1:]
if "lock" in what:
    fcntl.flock(os.open(path + "-lock", os.O_RDWR), fcntl.LOCK_EX)
if "transaction" in what:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.read()
"""

HELD = ["lock", "transaction", "lock and transaction"]


@contextmanager
def held(path: Path, what: str) -> Iterator[None]:
    """Have another process hold the ledger for as long as the block lasts."""
    command = [sys.executable, "-c", _HOLDER, str(path), what]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stdin is not None
        assert process.stdout.readline() == "held\n"
        try:
            yield
        finally:
            process.stdin.close()
            process.wait(60)


class Seconds:
    """A monotonic clock that only sleeping moves on, a quarter of a second at a time."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert 0.0 < seconds <= 0.02, "pauses are short"
        self.now += 0.25


class Ledger:
    """A ledger whose waiting is counted, not slept."""

    def __init__(self, folder: Path, seconds: float = 30.0) -> None:
        self.path, self.clock = folder / "ledger.db", Seconds()
        self.store = SQLiteStore(self.path)
        patience = Patience(seconds, monotonic=self.clock, sleep=self.clock.sleep)
        self.store._options = replace(self.store._options, patience=patience)
        self.guard = Guard(store=self.store, evidence_dir=folder, observer=SilentObserver())
        self.sent = 0
        self.guard.tool(effect="write")(self.create_order)

    def create_order(self, order_id: str) -> str:
        self.sent += 1
        return order_id

    def call(self, colour: str, order_id: str) -> Any:
        async def later() -> Any:
            with self.guard.task("order", task_id=order_id):
                return await self.guard.acall("create_order", {"order_id": order_id})

        if colour == "async":
            return asyncio.run(later())
        with self.guard.task("order", task_id=order_id):
            return self.guard.call("create_order", {"order_id": order_id})


@pytest.fixture
def ledger(tmp_path: Path) -> Iterator[Ledger]:
    made = Ledger(tmp_path)
    assert ask(made.store, enter(1)) == Accepted(1)
    yield made
    made.guard.close()


@pytest.mark.parametrize("what", HELD)
@pytest.mark.parametrize("colour", ["sync", "async"])
def test_a_call_is_held_up_once_and_nothing_is_sent(ledger: Ledger, what: str, colour: str) -> None:
    """Its intent, its refusal and the withdrawal of the intent each ask for the ledger; they used to wait thirty seconds each."""
    with held(ledger.path, what):
        result = ledger.call(colour, "A1")
        assert (result.success, result.error_type, ledger.sent) == (False, "EVIDENCE_FAILED", 0)
        assert 30.0 <= ledger.clock.now <= 34.0
    assert ledger.call(colour, "A2").success
    assert ledger.guard.recover().calls == ()
    row = ledger.store.get(result.request_id)
    assert row is not None and row.state == "REJECTED", "the refusal lay in the spool"


@pytest.mark.parametrize("what", HELD)
def test_the_first_write_of_a_process_is_held_up_once_too(tmp_path: Path, what: str) -> None:
    """It has to open the ledger first."""
    first = SQLiteStore(tmp_path / "ledger.db")
    ask(first, enter(1))
    first.close()
    ledger = Ledger(tmp_path)
    with held(ledger.path, what):
        with pytest.raises(StoreUnavailable, match="another process holds it"):
            ask(ledger.store, enter(2))
        assert 30.0 <= ledger.clock.now < 31.0
    assert ask(ledger.store, enter(2)) == Accepted(1)
    ledger.guard.close()


def test_the_time_that_one_lock_took_is_not_given_to_the_next(ledger: Ledger) -> None:
    """The lock's file is let go of late; the transaction has what is left, not thirty seconds more."""
    patience = Patience(30.0, monotonic=ledger.clock, sleep=ledger.clock.sleep)
    until = patience.begin()
    while ledger.clock.now < 29.0:
        assert patience.pause(until)
    with held(ledger.path, "transaction"):
        session = ledger.store._open()
        from fcguard.stores.sqlite_schema import begin

        connection = session._connect(until)  # type: ignore[attr-defined]
        connection.execute("PRAGMA busy_timeout=0")
        with pytest.raises(Exception, match="locked"):
            begin(connection, patience, until)
        connection.close()
    assert ledger.clock.now < 31.0


def test_after_a_wait_in_vain_the_next_is_short_and_after_a_success_whole_again() -> None:
    clock = Seconds()
    patience = Patience(30.0, monotonic=clock, sleep=clock.sleep)

    def wait_in_vain() -> float:
        began, until = clock.now, patience.begin()
        while patience.pause(until):
            pass
        return clock.now - began

    assert wait_in_vain() == pytest.approx(30.0, abs=0.5)
    assert [wait_in_vain() for _ in range(3)] == pytest.approx([1.5] * 3, abs=0.5)
    clock.now += 30.0
    assert wait_in_vain() == pytest.approx(30.0, abs=0.5), "whoever held it then has been given time"
    assert wait_in_vain() == pytest.approx(1.5, abs=0.5)
    patience.succeeded()
    assert wait_in_vain() == pytest.approx(30.0, abs=0.5)


def test_without_patience_there_is_one_try(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, seconds=0.0)
    ask(ledger.store, enter(1))
    with held(ledger.path, "lock"), pytest.raises(StoreUnavailable, match="raise busy_timeout"):
        ask(ledger.store, enter(2))
    assert ledger.clock.now == 0.0
    ledger.guard.close()
