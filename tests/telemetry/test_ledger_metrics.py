"""What a guard reports of its ledger: unresolved calls, and how long writes take."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from fcguard.errors import StoreUnavailable
from fcguard.guard import Guard
from fcguard.ledger_metrics import watch_ledger
from fcguard.model.states import CallState
from fcguard.stores.base import CallQuery, Command, Done
from fcguard.stores.memory import MemoryStore
from fcguard.stores.sqlite import SQLiteStore
from fcguard.telemetry import semconv as names
from fcguard.telemetry.observer import Observers, SilentObserver
from fcguard.telemetry.standard import default_observer
from tests.telemetry.telemetry_driver import Recorded

Make = Callable[..., Guard]


@pytest.fixture
def make(recorded: Recorded, tmp_path: Path) -> Iterator[Make]:
    """Makes guards on ledgers in files, whose metrics are recorded."""
    made: list[Guard] = []

    def new(store: Any = None, **options: Any) -> Guard:
        options.setdefault("meter_provider", recorded.meter_provider)
        guard = Guard(store=store or SQLiteStore(tmp_path / "ledger.db"), evidence_dir=tmp_path / "evidence", **options)
        made.append(guard)

        @guard.tool(effect="read")
        def query_order(order_id: str) -> str:
            return "paid"

        @guard.tool(effect="write")
        def create_order(order_id: str) -> str:
            if order_id.startswith("lost"):
                raise ConnectionResetError("reset by peer")
            return "created"

        return guard

    yield new
    for guard in made:
        guard.close()


def write(guard: Guard, order_id: str) -> Any:
    with guard.task(goal="order"):
        return guard.call("create_order", {"order_id": order_id})


def unresolved(recorded: Recorded) -> int | None:
    return recorded.points(names.UNRESOLVED).get(())


def test_an_uncertain_write_is_unresolved_until_a_person_has_looked(make: Make, recorded: Recorded) -> None:
    guard = make()
    assert write(guard, "A1").success
    assert unresolved(recorded) == 0
    lost = write(guard, "lost-1")
    assert lost.effect == "unknown"
    assert unresolved(recorded) == 1
    write(guard, "lost-2")
    assert unresolved(recorded) == 2
    guard.resolve(lost.request_id, applied=True, by="ann", reason="saw it")
    assert unresolved(recorded) == 1


def test_calls_of_an_earlier_process_are_counted_before_any_call(make: Make, recorded: Recorded) -> None:
    before = make(meter_provider=None)
    write(before, "lost-1")
    before.close()
    make()
    assert unresolved(recorded) == 1


def test_the_question_makes_no_ledger(make: Make, recorded: Recorded, tmp_path: Path) -> None:
    make()
    assert unresolved(recorded) == 0
    assert list(tmp_path.iterdir()) == []


def test_guards_on_one_ledger_count_its_calls_once(make: Make, recorded: Recorded, tmp_path: Path) -> None:
    write(make(), "lost-1")
    make()
    assert unresolved(recorded) == 1
    shared = MemoryStore()
    write(make(shared), "lost-2")
    make(shared)
    make(MemoryStore())
    assert unresolved(recorded) == 2


def test_a_closed_ledger_is_not_asked(make: Make, recorded: Recorded) -> None:
    guard = make()
    write(guard, "lost-1")
    guard.close()
    assert unresolved(recorded) is None
    for _ in range(8):  # whichever of the guards happens to be asked first
        again = make()
        assert write(again, "A1").success
        assert unresolved(recorded) == 1


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_each_durable_write_is_measured(make: Make, recorded: Recorded, colour: str) -> None:
    guard = make()
    if colour == "sync":
        write(guard, "A1")
    else:

        async def main() -> None:
            with guard.task(goal="order"):
                await guard.acall("create_order", {"order_id": "A1"})

        asyncio.run(main())
    assert recorded.points(names.EVIDENCE_DURATION) == {(): 2}  # the intent, and the outcome
    (metric,) = [metric for metric in recorded.metrics() if metric.name == names.EVIDENCE_DURATION]
    (point,) = metric.data.data_points
    assert 0 < point.sum < 30
    assert recorded.points(names.EVIDENCE_FAILURES) == {}


def test_a_ledger_in_memory_is_not_measured(make: Make, recorded: Recorded) -> None:
    guard = make(MemoryStore())
    write(guard, "A1")
    assert recorded.points(names.EVIDENCE_DURATION) == {}


class Down(MemoryStore):
    """A ledger that takes its time, and then nothing."""

    answers_inline = False

    def submit(self, command: Command, done: Done) -> None:
        done(StoreUnavailable("the disk is full"))

    def calls(self, query: CallQuery = CallQuery()) -> Any:
        raise StoreUnavailable("the disk is full")


def test_writes_that_fail_are_counted_and_the_gauge_is_left_out(make: Make, recorded: Recorded) -> None:
    result = write(make(Down()), "A1")
    assert result.error_type == "EVIDENCE_FAILED"
    failures = recorded.points(names.EVIDENCE_FAILURES)[()]
    assert failures >= 1
    assert recorded.points(names.EVIDENCE_DURATION) == {(): failures}
    assert unresolved(recorded) is None
    assert sum(recorded.points(names.CALLS).values()) == 1


def test_what_waits_for_a_confirmation_or_a_person_is_unresolved() -> None:
    asked: list[Any] = []

    class Asked(MemoryStore):
        def calls(self, query: CallQuery = CallQuery()) -> Any:
            asked.append(query)
            return iter(())

    reader = InMemoryMetricReader()
    provider = MeterProvider([reader], shutdown_on_exit=False)
    observer = default_observer(meter_provider=provider)
    assert watch_ledger(observer, Asked()) is not None
    reader.get_metrics_data()
    (query,) = asked
    assert query.states == {CallState.UNCERTAIN, CallState.CONFIRMING, CallState.PARKED}
    provider.shutdown()


def test_an_observer_that_does_not_care_is_left_alone() -> None:
    assert watch_ledger(SilentObserver(), MemoryStore()) is None


def test_one_of_several_observers_hears_of_the_ledger(make: Make, recorded: Recorded) -> None:
    ours = default_observer(meter_provider=recorded.meter_provider)
    guard = make(observer=Observers(ours, SilentObserver()))
    write(guard, "A1")
    assert recorded.points(names.EVIDENCE_DURATION) == {(): 2}
    write(guard, "lost-1")
    assert unresolved(recorded) == 1
