"""Workers whose own clocks are off share a PostgreSQL ledger: leases and settle windows count on the server's clock."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("psycopg")

import psycopg

from fcguard import Guard, NotApplied, Tool
from fcguard.model.identity import digest_of
from fcguard.model.states import CallState
from fcguard.reconcile.report import Recovery
from fcguard.runtime import SystemClock
from fcguard.stores.base import Event, Identity, Move, Open, StoredCall
from fcguard.stores.payload import body_of
from fcguard.stores.postgres import PostgresStore
from fcguard.telemetry.observer import SilentObserver
from fcguard.testing.store_contract import ask
from tests.recovery_after_crash.crashed_world import dead_pid
from tests.stores.postgres_server import Server

HOUR = 3600.0
SETTLE = 600.0


class OffClock(SystemClock):
    """The machine's clock, off by some seconds."""

    def __init__(self, off: float) -> None:
        self.off = off

    def now(self) -> float:  # type: ignore[override]
        return time.time() + self.off


class Hosts:
    """Workers on one ledger, each with a clock of its own; a call that one of them left behind."""

    def __init__(self, server: Server, schema: str, folder: Path, colour: str) -> None:
        self.url, self.schema, self.folder, self.colour = server.url, schema, folder, colour
        self.sent: list[Any] = []
        self.made: list[Guard] = []

    def guard(self, off: float, **options: Any) -> Guard:
        store = PostgresStore(self.url, schema=self.schema, spool=self.folder / "spool", **options)
        guard = Guard(store=store, evidence_dir=self.folder, clock=OffClock(off), observer=SilentObserver())
        guard.register(
            Tool(
                name="create_order", parameters={"type": "object"}, fn=self.send, effect="write", settle=SETTLE,
                confirm=lambda call: NotApplied(),
            )
        )  # fmt: skip
        self.made.append(guard)
        return guard

    def send(self, **arguments: Any) -> str:
        self.sent.append(arguments)
        return "done"

    def leave_behind(self, *, lease: float, off: float = 0.0) -> str:
        """Open a call as a worker does before it sends, on a clock of its own."""
        store = self.guard(off).store
        now = time.time() + off
        arguments = {"order_id": "A1"}
        digest = digest_of("create_order", arguments)
        identity = Identity("fc-left", "T", "create_order", "1", "write", digest=digest, settle=SETTLE)
        body = {"arguments": arguments}
        ask(store, Open(identity, CallState.STARTED, 1, Event("opened", now, body), lease))
        return identity.request_id

    def owners(self, change: str) -> None:
        with psycopg.connect(self.url, autocommit=True) as admin:
            admin.execute(f"UPDATE {self.schema}.fc_owners SET {change}")

    def recover(self, guard: Guard, **options: Any) -> Recovery:
        return asyncio.run(guard.arecover(**options)) if self.colour == "async" else guard.recover(**options)

    def row(self, request_id: str) -> StoredCall:
        row = self.made[-1].store.get(request_id)
        assert row is not None
        return row

    def kinds(self, request_id: str) -> list[str]:
        return [event.kind for event in self.made[-1].store.events(request_id=request_id)]


@pytest.fixture(params=["sync", "async"])
def hosts(
    request: pytest.FixtureRequest, postgres_server: Server, postgres_schema: str, tmp_path: Path
) -> Iterator[Hosts]:
    made = Hosts(postgres_server, postgres_schema, tmp_path, request.param)
    yield made
    for guard in made.made:
        guard.close()


def test_a_clock_that_is_fast_takes_nothing_from_a_worker_on_another_host(hosts: Hosts) -> None:
    request_id = hosts.leave_behind(lease=60.0)
    hosts.owners("host = 'elsewhere'")
    found = hosts.recover(hosts.guard(+HOUR), wait=0.0)
    assert (found.calls, found.busy) == ((), 1)
    assert hosts.kinds(request_id) == ["opened"]


def test_a_clock_that_is_slow_takes_what_lapsed(hosts: Hosts) -> None:
    hosts.leave_behind(lease=0.0)
    hosts.owners("host = 'elsewhere'")
    (call,) = hosts.recover(hosts.guard(-HOUR), wait=0.0).calls
    assert (call.owner, call.did, hosts.sent) == ("unknown", "parked", [])


@pytest.mark.parametrize("off", [-HOUR, +HOUR])
def test_a_settle_window_begins_when_the_death_was_proved_whatever_the_prover_s_clock_says(
    hosts: Hosts, off: float
) -> None:
    """The prover dies too. With its own time for the proof, the next one would find the window over for long, or far away."""
    request_id = hosts.leave_behind(lease=60.0)
    hosts.owners(f"pid = {dead_pid()}, started = 1")
    (call,) = hosts.recover(hosts.guard(off), wait=0.0).calls
    assert (call.owner, call.did) == ("dead", "deferred")
    (claimed,) = [event for event in hosts.made[-1].store.events(request_id=request_id) if event.kind == "claimed"]
    assert body_of(claimed)["sent_until"] == pytest.approx(time.time(), abs=60.0)
    assert hosts.row(request_id).next_at == pytest.approx(time.time() + SETTLE, abs=60.0)
    hosts.owners(f"pid = {dead_pid()}, started = 1")
    found = hosts.recover(hosts.guard(0.0), wait=0.0)
    assert [one.did for one in found.calls] == ["deferred"]
    assert hosts.sent == []


@pytest.mark.parametrize("off", [-HOUR, +HOUR])
def test_a_call_that_came_due_is_due_for_a_worker_whose_clock_is_off(hosts: Hosts, off: float) -> None:
    """The window is over on the server's clock; the worker waits for it neither an hour longer nor an hour less."""
    request_id = hosts.leave_behind(lease=60.0)
    hosts.owners(f"pid = {dead_pid()}, started = 1")
    hosts.recover(hosts.guard(0.0), wait=0.0)
    with psycopg.connect(hosts.url, autocommit=True) as admin:
        admin.execute(f"UPDATE {hosts.schema}.fc_calls SET next_at = next_at - {SETTLE}, lease_until = NULL")
    late = hosts.recover(hosts.guard(off), wait=0.0)
    assert [one.did for one in late.calls] == ["deferred"], "the row was set forward, the proof in the events was not"
    assert hosts.row(request_id).next_at == pytest.approx(time.time() + SETTLE, abs=60.0)
    assert hosts.sent == []


@pytest.mark.parametrize("off", [-HOUR, +HOUR])
def test_what_the_sender_wrote_down_is_read_on_its_own_clock(hosts: Hosts, off: float) -> None:
    """It recorded that its attempt ended just now, by the clock of this host, which is off: the window is not over, or far away."""
    request_id = hosts.leave_behind(lease=60.0, off=off)
    now = time.time() + off
    summary = {"number": 1, "started_at": now - 1.0, "duration_ms": 1000.0, "effect": "unknown"}
    uncertain = Event("uncertain", now, summary)
    ask(
        hosts.made[-1].store,
        Move(request_id, 1, CallState.UNCERTAIN, 1, uncertain, next_at=time.time() - 1.0),
    )
    hosts.owners(f"pid = {dead_pid()}, started = 1")
    (call,) = hosts.recover(hosts.guard(off), wait=0.0).calls
    assert (call.owner, call.did, hosts.sent) == ("dead", "deferred", [])
    assert call.due_at == pytest.approx(time.time() + SETTLE, abs=60.0)


def test_the_ledger_tells_the_time_of_its_server(hosts: Hosts) -> None:
    assert hosts.guard(+HOUR).store.now() == pytest.approx(time.time(), abs=60.0)
