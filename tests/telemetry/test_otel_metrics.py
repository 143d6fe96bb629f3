"""Metrics of governed calls: what is counted, and how many series there can be."""

from __future__ import annotations

import gc
import threading
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader

from fcguard.model.context import TaskContext
from fcguard.model.failure import ErrorType, Failure
from fcguard.model.tool import Tool
from fcguard.telemetry import semconv as names
from fcguard.telemetry.metrics import Counter, instruments_of
from fcguard.telemetry.otel import OtelObserver
from tests.telemetry.telemetry_driver import CREATE, QUERY, Driver, Recorded, envelope, failed

CREATED = ("gen_ai.tool.name", "create_order")


@pytest.fixture
def observer(recorded: Recorded) -> OtelObserver:
    return OtelObserver(tracer_provider=recorded.tracer_provider, meter_provider=recorded.meter_provider)


def test_calls_are_counted_by_tool_and_outcome(observer: OtelObserver, recorded: Recorded) -> None:
    driver = Driver(observer)
    for _ in range(3):
        driver.succeed()
    driver.confirmed_write()
    driver.refuse(Failure.of(ErrorType.PARAM_INVALID, "", "schema"))

    assert recorded.points(names.CALLS) == {
        (("fcguard.outcome", "completed"), CREATED): 4,
        (("fcguard.outcome", "completed"), ("gen_ai.tool.name", "query_order")): 1,
        (("fcguard.outcome", "rejected"), CREATED): 1,
    }
    assert recorded.points(names.CALL_ATTEMPTS) == {(CREATED,): 4, (("gen_ai.tool.name", "query_order"),): 1}
    assert recorded.points(names.VALIDATION_FAILURES) == {(("fcguard.validation.layer", "schema"), CREATED): 1}
    assert recorded.points(names.RECOVERIES) == {
        (("fcguard.recovery.action", "confirm"), ("fcguard.recovery.outcome", "applied"), CREATED): 1
    }
    assert observer.faults == 0


def test_duration_carries_the_error_of_the_call_alone(observer: OtelObserver, recorded: Recorded) -> None:
    driver = Driver(observer)
    driver.confirmed_write()
    driver.refuse(Failure.of(ErrorType.PARAM_INVALID, "", "schema"))
    call = driver.start()
    driver.end(call, None, TaskContext(task_id="t", agent="orders"))

    kind = ("gen_ai.tool.type", "function")
    assert recorded.points(names.DURATION) == {
        (CREATED, kind): 1,
        (("gen_ai.tool.name", "query_order"), kind): 1,
        (("error.type", "PARAM_INVALID"), CREATED, kind): 1,
        (("gen_ai.agent.name", "orders"), CREATED, kind): 1,
    }


def test_duration_is_in_seconds(observer: OtelObserver, recorded: Recorded) -> None:
    Driver(observer).end(Driver(observer).start(), envelope(duration_ms=250.0))
    (metric,) = [metric for metric in recorded.metrics() if metric.name == names.DURATION]
    (point,) = metric.data.data_points
    assert point.sum == 0.25
    assert point.explicit_bounds == tuple(pytest.approx(0.01 * 2**power) for power in range(14))
    assert point.explicit_bounds[-1] == 81.92


def test_metrics_need_no_spans(recorded: Recorded) -> None:
    observer = OtelObserver(meter_provider=recorded.meter_provider)
    Driver(observer).succeed()
    assert sum(recorded.points(names.CALLS).values()) == 1
    assert recorded.spans == []


def test_two_guards_share_the_series_of_one_provider(recorded: Recorded) -> None:
    for _ in range(2):
        Driver(OtelObserver(meter_provider=recorded.meter_provider)).succeed()
    assert recorded.points(names.CALLS) == {(("fcguard.outcome", "completed"), CREATED): 2}


def test_threads_lose_no_count(recorded: Recorded) -> None:
    driver = Driver(OtelObserver(meter_provider=recorded.meter_provider))

    def work() -> None:
        for _ in range(500):
            driver.succeed()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(recorded.points(names.CALLS).values()) == 2000
    assert sum(recorded.points(names.CALL_ATTEMPTS).values()) == 2000


def test_invented_names_and_many_calls_make_one_series(recorded: Recorded) -> None:
    driver = Driver(OtelObserver(meter_provider=recorded.meter_provider))
    failure = Failure.of(ErrorType.TOOL_UNKNOWN, "", "intent")
    for number in range(2_000):
        driver.refuse(failure, None, name=f"invented_{number}")
    for _ in range(8_000):
        driver.refuse(failure, CREATE)

    unknown = ("gen_ai.tool.name", "_unknown")
    assert recorded.points(names.CALLS) == {
        (("fcguard.outcome", "denied"), unknown): 2_000,
        (("fcguard.outcome", "denied"), CREATED): 8_000,
    }
    assert len(recorded.points(names.DURATION)) == 2


def test_invented_codes_make_a_bounded_number_of_series(recorded: Recorded) -> None:
    driver = Driver(OtelObserver(meter_provider=recorded.meter_provider))
    for number in range(1_000):
        driver.refuse(Failure.of(f"ORDER_{number}_NOT_PAID", "", "business"))
    assert len(recorded.points(names.DURATION)) <= 240


def test_registered_tools_beyond_the_limit_are_counted_together(recorded: Recorded) -> None:
    driver = Driver(OtelObserver(meter_provider=recorded.meter_provider))
    for number in range(2_100):
        tool = Tool(name=f"tool_{number}", parameters={}, fn=print)
        driver.end(driver.start(tool), envelope(tool_name=tool.name))

    points = recorded.points(names.CALLS)
    assert len(points) <= names.SERIES_LIMIT
    assert sum(points.values()) == 2_100
    assert points[(("fcguard.outcome", "completed"), ("gen_ai.tool.name", "_other"))] > 0
    durations = recorded.points(names.DURATION)
    assert len(durations) <= names.SERIES_LIMIT
    assert sum(durations.values()) == 2_100


@settings(deadline=None, max_examples=30)
@given(st.lists(st.tuples(st.text(max_size=3), st.text(max_size=3)), max_size=60))
def test_counter_never_exceeds_its_limit_and_never_loses_a_count(keys: list[tuple[str, str]]) -> None:
    counter = Counter(("tool", "outcome"), threading.Lock(), limit=305)
    for number in range(20):
        counter.cell(f"tool_{number}", "completed")[0] += 1
    for key in keys * 8:
        counter.cell(*key)[0] += 1
    observations = list(counter.observe(None))  # type: ignore[arg-type]
    assert len(observations) <= 305
    assert sum(observation.value for observation in observations) == 20 + 8 * len(keys)


def test_unresolved_calls_are_asked_for(observer: OtelObserver, recorded: Recorded) -> None:
    assert recorded.points(names.UNRESOLVED) == {}
    answers: list[Any] = [3, None]
    observer.watch_unresolved(lambda: answers[0])
    second = OtelObserver(meter_provider=recorded.meter_provider)
    second.watch_unresolved(lambda: 4)
    assert recorded.points(names.UNRESOLVED) == {(): 7}
    answers.pop(0)
    assert recorded.points(names.UNRESOLVED) == {(): 4}

    def down() -> int:
        raise OSError("the ledger is down")

    observer.watch_unresolved(down)
    assert recorded.points(names.UNRESOLVED) == {(): 4}
    del second
    gc.collect()
    assert sum(recorded.points(names.UNRESOLVED).values()) in (0, 4)


def test_writes_of_evidence_are_measured(observer: OtelObserver, recorded: Recorded) -> None:
    observer.evidence_written(0.002)
    observer.evidence_written(0.5, is_failed=True)
    assert recorded.points(names.EVIDENCE_DURATION) == {(): 2}
    assert recorded.points(names.EVIDENCE_FAILURES) == {(): 1}


def test_provider_that_does_nothing_is_not_counted_for() -> None:
    provider = NoOpMeterProvider()
    observer = OtelObserver(meter_provider=provider)
    Driver(observer).succeed()
    observer.evidence_written(1.0)
    instruments = instruments_of(provider)
    assert instruments.is_silent
    assert list(instruments.calls.observe(None)) == []  # type: ignore[arg-type]


def test_host_that_breaks_a_metric_does_not_break_the_call() -> None:
    class Broken(MeterProvider):
        def get_meter(self, *args: Any, **keywords: Any) -> Any:
            meter = super().get_meter(*args, **keywords)

            class Histogram:
                def record(self, *_: Any, **__: Any) -> None:
                    raise RuntimeError("broken")

            meter.create_histogram = lambda *_, **__: Histogram()  # type: ignore[method-assign,assignment]
            return meter

    provider = Broken([InMemoryMetricReader()], shutdown_on_exit=False)
    observer = OtelObserver(meter_provider=provider)
    call = Driver(observer).succeed(QUERY)
    observer.evidence_written(1.0)
    assert call.result.success
    assert observer.faults == 2
    provider.shutdown()


def test_refused_call_counts_no_attempt(observer: OtelObserver, recorded: Recorded) -> None:
    driver = Driver(observer)
    call = driver.start()
    call.failure = Failure.of(ErrorType.RULE_FAILED, "", "business")
    driver.end(call, failed(call.failure))
    assert recorded.points(names.CALL_ATTEMPTS) == {}
