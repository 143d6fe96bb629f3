"""The governed calls that are timed: one small tool, with more and more asked of its guard."""

from __future__ import annotations

import asyncio
import json
import logging
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import pydantic
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, ParentBased, TraceIdRatioBased
from opentelemetry.trace import Tracer, set_span_in_context

from fcguard import Guard, MemoryStore, SQLiteStore, Violation
from fcguard.arguments import ArgumentSchema
from fcguard.constraints import AttemptBudget, CallBudget, CircuitBreaker, Concurrency, RateLimit
from fcguard.rules import allowed_values, not_too_broad
from fcguard.telemetry.observer import SilentObserver
from tests.benchmarks.harness import Case, finished
from tests.benchmarks.tools import BAD, GOOD, NESTED, Shipment, ShipmentModel, flat_tool, nested_tool, runs

__all__ = ["COMMIT", "MEMORY", "SILENT", "SQLITE", "VALIDATE", "WATCHED", "governed_cases", "telemetry_cases"]

MEMORY = "fcguard (memory ledger)"
SQLITE = "fcguard (SQLite ledger)"
VALIDATE = "pydantic.validate_call"
COMMIT = "one bare SQLite insert and commit"
SILENT = "fcguard without telemetry (SilentObserver)"


class _SpansAlone(SilentObserver):
    """Starts and ends the two spans of a recorded call, with as many attributes, and does nothing else.

    What that costs is the SDK's; it is timed around a governed call, since the caches hold less of it there than in a loop.
    """

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    def call_started(self, call: Any) -> None:
        call.observed = self._tracer.start_span("execute_tool create_refund", attributes=_FIVE)

    def call_ended(self, call: Any) -> None:
        root, call.observed = call.observed, None
        root.set_attributes(_FIVE_MORE)
        root.end()

    def attempt_started(self, call: Any, attempt: Any) -> None:
        context = set_span_in_context(call.observed)
        attempt.observed = self._tracer.start_span("fcguard.attempt create_refund", context, attributes=_TWO)

    def attempt_ended(self, call: Any, attempt: Any) -> None:
        attempt.observed.end()
        attempt.observed = None


_FIVE, _FIVE_MORE = ({f"key.{when}.{number}": "value" for number in range(5)} for when in ("start", "end"))
_TWO = {"fcguard.attempt.number": 1, "fcguard.attempt.effect": "none"}

WATCHED: dict[str, Callable[[], dict[str, Any]]] = {
    SILENT: lambda: {"observer": SilentObserver()},
    "telemetry, no provider": dict,
    "telemetry, sampled out": lambda: _tracing(is_recorded=False),
    "telemetry, sampled out by ratio": lambda: {
        "tracer_provider": TracerProvider(sampler=ParentBased(TraceIdRatioBased(0.0)), shutdown_on_exit=False)
    },
    "telemetry, sampled out, with counters": lambda: _tracing(is_recorded=False) | _counting(),
    "telemetry, recorded, one span a call": lambda: _tracing(is_recorded=True) | {"span_detail": "call"},
    "telemetry, recorded": lambda: _tracing(is_recorded=True),
    "telemetry, recorded, what the SDK takes of it": lambda: {
        "observer": _SpansAlone(_tracing(is_recorded=True)["tracer_provider"].get_tracer("fcguard"))
    },
    "telemetry, JSON log line": dict,
}
"""What a guard with the memory ledger is told of telemetry, each beside the one that has none at all."""


def _small(call: Any) -> Violation | None:
    return Violation("PARAM_INVALID", "too much") if call.arguments["amount_cents"] > 50_000 else None


def _explained(call: Any) -> Violation | None:
    return Violation("PARAM_INVALID", "say why") if call.arguments["reason"] == "other" else None


def _short(call: Any) -> Violation | None:
    return Violation("PARAM_INVALID", "too long") if len(call.arguments["order_id"]) > 40 else None


THREE_RULES = (_small, _explained, _short)


def _ten_rules() -> list[Any]:
    named = [allowed_values("reason", ["damaged", "late"]), not_too_broad("order_id"), not_too_broad("note")]
    return [*THREE_RULES, *named, *[partial(rule) for rule in THREE_RULES], _small]


def _five_constraints() -> list[Any]:
    everything = 10**9
    return [
        CircuitBreaker(),
        RateLimit(1000, 0.001),
        Concurrency(64),
        CallBudget(everything),
        AttemptBudget(everything),
    ]


class _Nowhere(SpanExporter):
    """Drops what the batch processor hands to it."""

    def export(self, spans: Any) -> SpanExportResult:
        return SpanExportResult.SUCCESS


def _tracing(*, is_recorded: bool) -> dict[str, Any]:
    provider = TracerProvider(sampler=None if is_recorded else ALWAYS_OFF, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(_Nowhere()))
    return {"tracer_provider": provider}


def _counting() -> dict[str, Any]:
    return {"meter_provider": MeterProvider([InMemoryMetricReader()], shutdown_on_exit=False)}


class _JsonFormatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        return json.dumps({"level": record.levelname, "event": record.msg, **getattr(record, "fcguard", {})})


class _Discard:
    def write(self, text: str) -> int:
        return len(text)

    def flush(self) -> None:
        """Nothing is kept."""


@contextmanager
def json_lines() -> Iterator[None]:
    """Write a JSON line for each call meanwhile."""
    logger, handler = logging.getLogger("fcguard"), logging.StreamHandler(_Discard())
    handler.setFormatter(_JsonFormatter())
    level, propagate = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagate


class Scenarios:
    """Makes the cases of one colour; the guards share a directory for their ledgers.

    Args:
        colour: `sync` or `async`.
        directory: where SQLite ledgers are written.
        stack: closes the guards.
    """

    def __init__(self, colour: str, directory: Path, stack: ExitStack) -> None:
        self.colour, self._directory, self._stack = colour, directory, stack
        self.cases: list[Case] = []

    def add(
        self,
        name: str,
        run: Callable[[], Any],
        *,
        calls: int = 1,
        reference: str = VALIDATE,
        around: Callable[[], AbstractContextManager[Any]] = nullcontext,
    ) -> None:
        """Add a case of this colour."""
        is_awaited = self.colour == "async" or calls > 1
        self.cases.append(Case(name, self.colour, run, reference, is_awaited, calls, around))

    def governed(
        self,
        name: str,
        *,
        store: Any = None,
        options: dict[str, Any] | None = None,
        reference: str = VALIDATE,
        **guard: Any,
    ) -> Guard:
        """Add the call of the flat tool of a new guard, and answer the guard."""
        made = Guard(store=store if store is not None else MemoryStore(), **guard)
        self._stack.callback(made.close)
        tool = made.tool(flat_tool(self.colour), **{"effect": "read", **(options or {})})
        is_write = (options or {}).get("effect") == "write"
        around: Callable[[], AbstractContextManager[Any]] = partial(made.task, "refunds") if is_write else nullcontext
        if name.endswith("JSON log line"):
            around = json_lines
        self.add(name, lambda: tool(**GOOD), reference=reference, around=around)
        if isinstance(store, SQLiteStore) and self.colour == "async":
            self.add(f"{name}, 100 in flight", lambda: _together(tool, 100), calls=100, around=around)
        return made

    def sqlite(self, name: str) -> SQLiteStore:
        """Make a ledger file of its own."""
        return SQLiteStore(self._directory / f"{name}-{self.colour}.db")

    def memory_cases(self) -> None:
        """Add what is done in memory."""
        validated = pydantic.validate_call(flat_tool(self.colour))
        self.add(VALIDATE, lambda: validated(**GOOD))
        guard = self.governed(MEMORY)
        by_name = guard.acall if self.colour == "async" else guard.call
        text = json.dumps(GOOD)
        self.governed(f"{MEMORY}, three rules", options={"rules": THREE_RULES})
        self._nested("nested tool", Shipment)
        self._nested("nested tool with pydantic models", ShipmentModel)
        self.add(f"{MEMORY}, by name with JSON text", lambda: by_name("create_refund", text))
        self.add("fcguard refusal, all errors worded", lambda: by_name("create_refund", BAD))
        everything = {"rules": _ten_rules(), "constraints": _five_constraints()}
        self.governed(f"{MEMORY}, ten rules and five constraints", options=everything)
        self.governed(f"{MEMORY}, write", options={"effect": "write"})
        schema = ArgumentSchema.compile(guard.tools[0].parameters)
        if self.colour == "sync":
            self.add("fcguard validation alone (ArgumentSchema.normalize)", lambda: schema.normalize(GOOD))

    def watched_cases(self) -> None:
        """Add spans, metrics and log lines."""
        self.governed(f"{MEMORY}, span sampled out", **_tracing(is_recorded=False))
        self.governed(f"{MEMORY}, span recorded", **_tracing(is_recorded=True))
        self.governed(f"{MEMORY}, JSON log line")
        # A sync tool with a timeout runs in a worker thread; without one there is no thread.
        full = {"rules": THREE_RULES, **({"timeout": 5.0} if self.colour == "async" else {})}
        for is_recorded, name in ((False, "span sampled out"), (True, "span recorded, JSON log line")):
            watching = _tracing(is_recorded=is_recorded) | _counting()
            self.governed(f"fcguard full call: rules, deadline, counters, {name}", options=full, **watching)

    def durable_cases(self) -> None:
        """Add the SQLite ledger, beside one bare commit per record."""
        if self.colour == "sync":
            self.add(COMMIT, _committing(self._directory / "bare.db"))
        self.governed(SQLITE, store=self.sqlite("read"))
        self.governed(f"{SQLITE}, write", store=self.sqlite("write"), options={"effect": "write"})

    def _nested(self, what: str, shape: Any) -> None:
        reference = f"{VALIDATE}, {what}"
        validated = pydantic.validate_call(nested_tool(self.colour, shape))
        self.add(reference, lambda: validated(**NESTED), reference=reference)
        tool = Guard(store=MemoryStore()).tool(nested_tool(self.colour, shape), effect="read")
        self.add(f"{MEMORY}, {what}", lambda: tool(**NESTED), reference=reference)


# Of two equal writes at once the second would be refused, as it should be.
_ORDERS = [{**GOOD, "order_id": f"ORD-{number:08}"} for number in range(100)]


async def _together(tool: Callable[..., Any], number: int) -> None:
    for result in await asyncio.gather(*[tool(**order) for order in _ORDERS[:number]]):
        if not result.success:
            raise RuntimeError(f"a call failed: {result.message}")


def _committing(path: Path) -> Callable[[], Any]:
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in ("PRAGMA journal_mode=WAL", "PRAGMA synchronous=FULL", "CREATE TABLE record (body TEXT)"):
        connection.execute(statement)
    record = json.dumps({"request_id": "fc-20260130-0000000000000000000", "arguments": GOOD, "story": "x" * 600})
    return lambda: connection.execute("INSERT INTO record VALUES (?)", (record,))


async def telemetry_cases(colour: str, stack: ExitStack) -> list[Case]:
    """Make the cases of a colour that differ in their telemetry alone, each compared with none at all."""
    scenarios = Scenarios(colour, Path(), stack)
    for name, options in WATCHED.items():
        scenarios.governed(name, reference=SILENT, **options())
    return await _checked(scenarios)


async def governed_cases(colour: str, directory: Path, stack: ExitStack) -> list[Case]:
    """Make the cases of a colour, each checked to run the tool once (or to refuse the call) before it is timed."""
    scenarios = Scenarios(colour, directory, stack)
    scenarios.memory_cases()
    scenarios.watched_cases()
    scenarios.durable_cases()
    return await _checked(scenarios)


async def _checked(scenarios: Scenarios) -> list[Case]:
    for case in scenarios.cases:
        before = runs[0]
        with case.around():
            await finished(case.run())
        expected = 0 if "refusal" in case.name or "alone" in case.name or case.name == COMMIT else case.calls
        if runs[0] - before != expected:
            raise RuntimeError(f"{case.name} ({case.colour}) ran the tool {runs[0] - before} times, not {expected}")
    return scenarios.cases
