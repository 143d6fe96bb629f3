"""A recovery costs what it has to do: parked calls about which nothing is new cost their rows, and no events are read."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fcguard import Applied, Guard, Inconclusive, MemoryStore, SQLiteStore, Tool
from fcguard.config import Config
from fcguard.model.states import CallState
from fcguard.reconcile.advance import recover_calls
from fcguard.reconcile.parked import Looks
from fcguard.reconcile.report import Recovery
from fcguard.runtime import drive
from fcguard.stores.base import CallQuery, Event, Note
from fcguard.stores.postgres import PostgresStore
from fcguard.telemetry.observer import SilentObserver
from fcguard.testing.clock import FakeClock
from fcguard.testing.store_contract import ask

PARKED = 30


class Counting:
    """A ledger that counts what is asked of it."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.events_read: list[str] = []
        self.asked = 0
        self.clock = FakeClock()

    def now(self) -> float:
        return self.clock.now()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def events(self, *, request_id: str | None = None, task_id: str | None = None) -> Any:
        self.events_read.append(request_id or "")
        return self._store.events(request_id=request_id, task_id=task_id)

    def calls(self, query: CallQuery) -> Any:
        self.asked += 1
        return self._store.calls(query)

    def get(self, request_id: str) -> Any:
        self.asked += 1
        return self._store.get(request_id)


@pytest.fixture(params=["memory", "sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Counting]:
    made: Any
    if request.param == "memory":
        made = MemoryStore()
    elif request.param == "sqlite":
        made = SQLiteStore(tmp_path / "ledger.db")
    else:
        server, schema = request.getfixturevalue("postgres_server"), request.getfixturevalue("postgres_schema")
        made = PostgresStore(server.url, schema=schema, spool=tmp_path / "spool")
    yield Counting(made)
    made.close()


class Service:
    """A guard over a ledger that holds parked calls."""

    def __init__(self, store: Counting, folder: Path, colour: str) -> None:
        self.store, self.colour, self.clock = store, colour, store.clock
        self.answer: Callable[[Any], Any] = lambda call: Inconclusive("the system cannot be read")
        self.confirmed: list[str] = []
        self.looks = Looks()
        self.guard = Guard(store=store, evidence_dir=folder, observer=SilentObserver(), clock=self.clock)
        self.guard.register(Tool(name="pay", parameters={"type": "object"}, fn=lose, confirm=self.confirm))
        with self.guard.task("pay", task_id="T"):
            self.ids = [self.guard.call("pay", {"order_id": f"A{n}"}).request_id for n in range(PARKED)]
        self.clear()

    def confirm(self, call: Any) -> Any:
        self.confirmed.append(call.request_id)
        return self.answer(call)

    def clear(self) -> None:
        self.store.events_read.clear()
        self.confirmed.clear()
        self.store.asked = 0

    def recover(self, **options: Any) -> Recovery:
        self.clear()
        if self.colour == "async":
            return asyncio.run(self.guard.arecover(**options))
        return self.guard.recover(**options)

    def background(self, when: Any) -> Recovery:
        """One round of a background recovery."""
        self.clear()
        config: Config = self.guard._config
        return drive(recover_calls(config, self.guard._io, parked=when, looks=self.looks))

    def note_success(self, request_id: str) -> None:
        late = {"request_id": request_id, "attempt": 1, "returned": True, "effect": "applied", "value": {"order": 8}}
        ask(self.store, Note(request_id, Event("late", self.clock.now(), late)))


def lose(**arguments: Any) -> None:
    raise TimeoutError


@pytest.fixture(params=["sync", "async"])
def service(request: pytest.FixtureRequest, store: Counting, tmp_path: Path) -> Service:
    return Service(store, tmp_path, request.param)


def test_parked_calls_without_news_cost_one_question(service: Service) -> None:
    found = service.recover()
    assert [call.did for call in found.calls] == ["waits"] * PARKED
    assert (service.store.events_read, service.store.asked, service.confirmed) == ([], 1, [])


def test_only_a_call_with_news_is_read_and_closed(service: Service) -> None:
    service.note_success(service.ids[3])
    found = service.recover()
    assert set(service.store.events_read) == {service.ids[3]}
    assert {call.request_id: call.did for call in found.calls if call.did != "waits"} == {service.ids[3]: "late"}
    stored = service.store.get(service.ids[3])
    assert stored is not None and stored.state is CallState.SUCCEEDED


def test_with_the_word_each_is_asked_about(service: Service) -> None:
    found = service.recover(parked=True)
    assert (sorted(service.confirmed), len(found.calls)) == (sorted(service.ids), PARKED)


def test_a_background_recovery_reads_a_call_again_only_if_something_is_new_or_due(service: Service) -> None:
    service.background("due")
    assert (service.store.events_read, service.confirmed) == ([], []), "the first look is due after a minute"
    service.clock.advance(61.0)
    service.background("due")
    assert sorted(service.confirmed) == sorted(service.ids)
    service.background("due")
    assert set(service.store.events_read) == set(service.ids), "the notes of the looks are new"
    service.background("due")
    assert (service.store.events_read, service.confirmed) == ([], [])
    service.note_success(service.ids[5])
    found = service.background("due")
    assert set(service.store.events_read) == {service.ids[5]}
    assert found.totals == {"waits": PARKED - 1, "late": 1}
    service.clock.advance(125.0)
    service.answer = lambda call: Applied("there")
    assert service.background("due").totals == {"confirmed": PARKED - 1}
    assert service.background("due").calls == ()


def test_what_is_kept_of_calls_that_are_parked_no_more_is_let_go(service: Service) -> None:
    service.clock.advance(61.0)
    service.answer = lambda call: Applied("there")
    assert service.background("due").totals == {"confirmed": PARKED}
    assert len(service.looks) == PARKED
    service.background("due")
    assert len(service.looks) == 0
