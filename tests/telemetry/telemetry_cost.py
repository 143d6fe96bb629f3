"""Counts the Python functions that one governed read calls: what telemetry costs, the same on every machine.

Run: `python -m tests.telemetry.telemetry_cost`. In an interpreter of its own, where nobody has set up anything else.
"""

from __future__ import annotations

import asyncio
import io
import json
import logging
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

from fcguard import Guard, MemoryStore
from fcguard.telemetry.observer import SilentObserver

CALLS = 10
WARM = 20


def _tracing(*, is_sampled: bool) -> TracerProvider:
    return TracerProvider(sampler=None if is_sampled else ALWAYS_OFF, shutdown_on_exit=False)


def _metering() -> MeterProvider:
    return MeterProvider([InMemoryMetricReader()], shutdown_on_exit=False)


CASES: dict[str, Callable[[], dict[str, Any]]] = {
    "without telemetry": lambda: {"observer": SilentObserver()},
    "no provider": dict,
    "sampled out": lambda: {"tracer_provider": _tracing(is_sampled=False)},
    "sampled out, meter provider": lambda: {
        "tracer_provider": _tracing(is_sampled=False),
        "meter_provider": _metering(),
    },
    "recorded, one span": lambda: {"tracer_provider": _tracing(is_sampled=True), "span_detail": "call"},
    "recorded": lambda: {"tracer_provider": _tracing(is_sampled=True)},
    "log line": dict,
}


def layer_of(filename: str) -> str:
    """Answer whose a function is by the file that it stands in."""
    path = filename.replace("\\", "/")
    if "/fcguard/telemetry/" in path:
        return "telemetry"
    if "/fcguard/" in path and "/tests/" not in path:
        return "pipeline"
    return "opentelemetry" if "/opentelemetry/" in path else "other"


class Counting:
    """Counts the functions that are entered meanwhile on this thread, by layer."""

    def __init__(self) -> None:
        self.seen: Counter[str] = Counter()

    def __enter__(self) -> Counting:
        sys.setprofile(self._note)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _note(self, frame: Any, event: str, _: Any) -> None:
        if event == "call":
            self.seen[layer_of(frame.f_code.co_filename)] += 1


def of_sync(guard: Guard) -> dict[str, float]:
    """Answer how many functions of each layer a sync read calls."""

    @guard.tool(effect="read")
    def query_order(order_id: str) -> str:
        return "paid"

    for _ in range(WARM):
        query_order(order_id="A1")
    with Counting() as counting:
        for _ in range(CALLS):
            query_order(order_id="A1")
    return {layer: number / CALLS for layer, number in counting.seen.items()}


async def of_async(guard: Guard) -> dict[str, float]:
    """Answer how many functions of each layer an async read calls."""

    @guard.tool(effect="read")
    async def query_order(order_id: str) -> str:
        return "paid"

    for _ in range(WARM):
        await query_order(order_id="A1")
    with Counting() as counting:
        for _ in range(CALLS):
            await query_order(order_id="A1")
    return {layer: number / CALLS for layer, number in counting.seen.items()}


def count(name: str) -> dict[str, dict[str, float]]:
    """Count one case in both colours."""
    found = {}
    for colour, run in (("sync", of_sync), ("async", lambda guard: asyncio.run(of_async(guard)))):
        options, logger = CASES[name](), logging.getLogger("fcguard")
        with ExitStack() as stack:
            if "tracer_provider" in options:
                options["tracer_provider"].add_span_processor(SimpleSpanProcessor(InMemorySpanExporter()))
            if name == "log line":
                handler = logging.StreamHandler(io.StringIO())
                logger.addHandler(handler)
                logger.setLevel(logging.INFO)
                stack.callback(logger.setLevel, logging.NOTSET)
                stack.callback(logger.removeHandler, handler)
            guard = Guard(store=MemoryStore(), **options)
            stack.callback(guard.close)
            found[colour] = run(guard)
    return found


if __name__ == "__main__":
    sys.stdout.write(json.dumps({name: count(name) for name in CASES}) + "\n")
