"""A hand-driven pipeline: calls that go through an observer just as the real one tells it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from fcguard.model.attempt import Attempt
from fcguard.model.call import Call, Purpose
from fcguard.model.context import TaskContext
from fcguard.model.failure import Failure
from fcguard.model.intent import Intent
from fcguard.model.result import ToolResult
from fcguard.model.secrets import Redactor
from fcguard.model.tool import Tool
from fcguard.telemetry.observer import Observer

_numbers = itertools.count(1)

CREATE = Tool(name="create_order", parameters={}, fn=print, description="Create an order.", effect="write", version="3")
QUERY = Tool(name="query_order", parameters={}, fn=print, effect="read")


def envelope(**fields: Any) -> ToolResult[Any]:
    """Answer a plain success with some fields changed."""
    plain: dict[str, Any] = {
        "success": True,
        "error_type": None,
        "retryable": False,
        "tool_name": "create_order",
        "request_id": "fc-20260130-1",
        "normalized_args": None,
        "data": None,
        "evidence": (),
        "message": "",
        "next_action": "continue",
        "failure_class": None,
        "effect": "applied",
        "outcome_basis": "returned",
        "attempts": 1,
        "duration_ms": 12.5,
        "trace_id": None,
        "tool_version": "3",
        "task_id": None,
        "step": None,
    }
    return ToolResult(**(plain | fields))


def failed(failure: Failure, **fields: Any) -> ToolResult[Any]:
    """Answer the envelope of a failure."""
    plain: dict[str, Any] = {
        "success": False,
        "error_type": failure.error_type,
        "failure_class": failure.failure_class,
        "next_action": failure.next_action,
        "effect": failure.effect,
        "message": failure.message,
        "outcome_basis": None,
        "attempts": 0,
    }
    return envelope(**(plain | fields))


class Driver:
    """Takes calls through an observer in the order in which the pipeline does."""

    def __init__(self, observer: Observer) -> None:
        self.observer = observer

    def start(
        self,
        tool: Tool | None = CREATE,
        *,
        name: str | None = None,
        arguments: Any = None,
        call_id: str | None = None,
        purpose: Purpose = "primary",
        parent: Call | None = None,
        observed: Any = None,
    ) -> Call:
        """Start a call."""
        proposal = Intent(tool=name or (tool.name if tool else None), arguments=arguments, call_id=call_id)
        call = Call(f"fc-20260130-{next(_numbers):05d}", proposal, purpose, parent, None)
        call.tool, call.observed, call.redactor = tool, observed, Redactor()
        self.observer.call_started(call)
        return call

    def attempt(self, call: Call, run: Callable[[], Any] = lambda: None, **judged: Any) -> Attempt:
        """Make one attempt; `judged` is what its classification says."""
        attempt = Attempt(len(call.attempts) + 1, 0.0, 0.0, judged.pop("timeout", 2.0), judged.pop("delay", 0.0))
        call.attempts.append(attempt)
        self.observer.attempt_started(call, attempt)
        run()
        attempt.effect = "none" if call.tool is None or call.tool.is_read else "applied"
        for key, value in judged.items():
            setattr(attempt, key, value)
        self.observer.attempt_ended(call, attempt)
        return attempt

    def recover(self, call: Call, action: str, outcome: str, run: Callable[[], Any] = lambda: None) -> None:
        """Go through one recovery action."""
        self.observer.recovery_started(call, action)
        run()
        self.observer.recovery_ended(call, action, outcome)

    def end(self, call: Call, result: ToolResult[Any] | None = None, context: TaskContext | None = None) -> Call:
        """End a call with an envelope; None: a plain success."""
        call.context = context or TaskContext()
        call.result = result or envelope(attempts=len(call.attempts))
        self.observer.call_ended(call)
        return call

    def refuse(self, failure: Failure, tool: Tool | None = CREATE, **options: Any) -> Call:
        """Take a call through that is refused before it is sent."""
        call = self.start(tool, **options)
        call.failure = failure
        return self.end(call, failed(failure))

    def succeed(self, tool: Tool = CREATE, **options: Any) -> Call:
        """Take a call through that succeeds at the first attempt."""
        call = self.start(tool, **options)
        self.attempt(call)
        return self.end(call)

    def confirmed_write(self) -> Call:
        """Take the worked example through: a write times out, and a read finds that it has happened."""
        call = self.start()
        self.attempt(call, error_type="TIMEOUT", effect="unknown", error=TimeoutError("canary-in-exception"))

        def confirm() -> None:
            read = self.start(QUERY, purpose="confirm", parent=call)
            self.attempt(read)
            self.end(read, envelope(tool_name="query_order", effect="none"))

        self.recover(call, "confirm", "applied", confirm)
        return self.end(call, envelope(outcome_basis="confirmed"))


class Recorded:
    """Everything that a pair of providers took."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.tracer_provider = TracerProvider(shutdown_on_exit=False)
        self.tracer_provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.reader = InMemoryMetricReader()
        self.meter_provider = MeterProvider([self.reader], shutdown_on_exit=False)

    @property
    def spans(self) -> list[ReadableSpan]:
        """Finished spans, first started first."""
        return sorted(self.exporter.get_finished_spans(), key=lambda span: span.start_time or 0)

    def span(self, name: str) -> ReadableSpan:
        """The one span of this name."""
        (found,) = [span for span in self.spans if span.name == name]
        return found

    def tree(self) -> list[tuple[int, str]]:
        """Depth and name of every span, parents before children."""
        children: dict[int | None, list[ReadableSpan]] = {}
        ids = {span.context.span_id for span in self.spans}
        for span in self.spans:
            parent = span.parent.span_id if span.parent is not None and span.parent.span_id in ids else None
            children.setdefault(parent, []).append(span)

        def walk(parent: int | None, depth: int) -> Iterator[tuple[int, str]]:
            for span in children.get(parent, ()):
                yield depth, span.name
                yield from walk(span.context.span_id, depth + 1)

        return list(walk(None, 0))

    def metrics(self) -> Iterator[Any]:
        """Every metric of fcguard, collected now."""
        data = self.reader.get_metrics_data()
        for resource in data.resource_metrics if data else ():
            for scope in resource.scope_metrics:
                if scope.scope.name == "fcguard":
                    yield from scope.metrics

    def points(self, name: str) -> dict[tuple[tuple[str, Any], ...], Any]:
        """Points of a metric by their sorted attributes; a histogram's point is its count."""
        found: dict[tuple[tuple[str, Any], ...], Any] = {}
        for metric in self.metrics():
            if metric.name == name:
                for point in metric.data.data_points:
                    key = tuple(sorted((point.attributes or {}).items()))
                    found[key] = point.count if hasattr(point, "count") else point.value
        return found

    def close(self) -> None:
        """Stop both providers."""
        self.tracer_provider.shutdown()
        self.meter_provider.shutdown()
