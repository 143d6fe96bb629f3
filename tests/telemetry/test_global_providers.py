"""How fcguard finds out that the host has set a provider."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from opentelemetry import metrics, trace
from opentelemetry.metrics import NoOpMeterProvider
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.trace import NoOpTracerProvider

from fcguard.telemetry.otel import OtelObserver
from fcguard.telemetry.providers import GlobalMeters, GlobalTracer, is_silent, tracer_of
from tests.telemetry.telemetry_driver import Driver, Recorded


def test_answers_agree_with_the_public_way() -> None:
    assert isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)
    assert GlobalTracer().get() is None
    assert not GlobalTracer().is_set()
    assert GlobalMeters().get() is None


def traces(**variables: Any) -> Any:
    api = SimpleNamespace(provider=trace.ProxyTracerProvider(), asked=0, **variables)

    def get_tracer_provider() -> Any:
        api.asked += 1
        return api.provider

    api.get_tracer_provider = get_tracer_provider
    return api


@pytest.mark.parametrize("variables", [{}, {"_TRACER_PROVIDER": None}])
def test_tracer_provider_may_come_later(variables: dict[str, Any]) -> None:
    api = traces(**variables)
    found = GlobalTracer(api)
    assert found.get() is None
    assert api.asked == (0 if variables else 1)
    api.provider = api._TRACER_PROVIDER = TracerProvider(shutdown_on_exit=False)
    tracer = found.get()
    assert tracer is not None
    asked = api.asked
    assert found.get() is tracer
    assert api.asked == asked
    assert found.is_set()


def test_tracer_provider_that_does_nothing_is_remembered() -> None:
    api = traces()
    api.provider = NoOpTracerProvider()
    found = GlobalTracer(api)
    assert found.get() is None
    assert found.get() is None
    assert api.asked == 1
    assert found.is_set()
    assert tracer_of(api.provider) is None


@pytest.mark.parametrize("variables", [{}, {"_METER_PROVIDER": None}])
@pytest.mark.parametrize("is_nested", [True, False])
def test_meter_provider_may_come_later(recorded: Recorded, variables: dict[str, Any], is_nested: bool) -> None:
    inner = SimpleNamespace(**variables)
    api = SimpleNamespace(_internal=inner) if is_nested else inner
    api.provider = metrics.get_meter_provider()
    api.get_meter_provider = lambda: api.provider
    found = GlobalMeters(api)
    assert found.get() is None
    api.provider = inner._METER_PROVIDER = recorded.meter_provider
    assert found.get() is recorded.meter_provider
    assert found.get() is recorded.meter_provider


def test_observer_counts_from_the_moment_there_is_a_provider(recorded: Recorded) -> None:
    observer = OtelObserver()
    api = SimpleNamespace(_METER_PROVIDER=None, get_meter_provider=lambda: api._METER_PROVIDER)
    observer._global_meters = GlobalMeters(api)
    observer.watch_unresolved(lambda: 5)
    observer.evidence_written(1.0)
    driver = Driver(observer)
    driver.confirmed_write()
    api._METER_PROVIDER = recorded.meter_provider
    driver.succeed()
    assert list(recorded.points("fcguard.calls").values()) == [1]
    assert recorded.points("fcguard.calls.unresolved") == {(): 5}


def test_silent_provider() -> None:
    assert is_silent(NoOpMeterProvider())


def test_facts_of_many_tools_are_bounded(recorded: Recorded) -> None:
    from fcguard.model.tool import Tool

    observer = OtelObserver(tracer_provider=recorded.tracer_provider)
    driver = Driver(observer)
    for number in range(10_100):
        driver.succeed(Tool(name=f"tool_{number}", parameters={}, fn=print))
    assert 0 < len(observer._facts) <= 10_000
    assert len(recorded.spans) == 2 * 10_100
