"""The current context of OpenTelemetry, read and changed directly, is the one that everybody else sees."""

from __future__ import annotations

import contextvars
import logging
import os
import subprocess
import sys
from typing import Any

import pytest
from opentelemetry.context import Context, get_current, set_value
from opentelemetry.trace import INVALID_SPAN, NonRecordingSpan, SpanContext, get_current_span, set_span_in_context

from fcguard.guard import Guard
from fcguard.model.call import Call, _lay_out
from fcguard.model.intent import Intent
from fcguard.stores.memory import MemoryStore
from fcguard.telemetry import current as module
from fcguard.telemetry.current import below, current, enter, leave
from fcguard.telemetry.log import ENABLED, LOGGER, is_quiet
from fcguard.telemetry.otel import OtelObserver
from tests.telemetry.telemetry_driver import Recorded

SPAN = NonRecordingSpan(SpanContext(trace_id=7, span_id=9, is_remote=False))


def test_what_is_entered_is_current_for_everybody_and_is_left_again() -> None:
    before = get_current()
    token = enter(below(SPAN, current()))
    assert get_current_span() is SPAN
    assert current() is get_current()
    leave(token)
    assert get_current_span() is INVALID_SPAN
    assert current() is get_current() is before


def test_a_context_below_a_span_keeps_what_else_is_in_it() -> None:
    context = set_value("mine", 1, Context())
    assert below(SPAN, context) == set_span_in_context(SPAN, context)
    assert isinstance(below(SPAN, context), Context)
    assert dict(context) == {"mine": 1}


def test_leaving_from_another_context_is_harmless(caplog: pytest.LogCaptureFixture) -> None:
    token = contextvars.copy_context().run(lambda: enter(below(SPAN, Context())))
    leave(token)
    assert get_current_span() is INVALID_SPAN
    assert caplog.records == []


def test_another_kind_of_context_is_asked_through_its_functions() -> None:
    held = [Context()]

    def attach(context: Context) -> Any:
        held.append(context)
        return "no token of a variable"

    get, set_ = module._ways(lambda: held[-1], attach)
    assert set_ is attach
    assert get() is held[-1]


CHOSEN = """
from opentelemetry.context.contextvars_context import ContextVarsRuntimeContext
import opentelemetry.context as api

class Stack:
    '''A context that knows nothing of context variables.'''
    def __init__(self): self.held = [api.Context()]
    def attach(self, context): self.held.append(context); return len(self.held) - 1
    def get_current(self): return self.held[-1]
    def detach(self, token): del self.held[token:]

api._RUNTIME_CONTEXT = Stack()
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from fcguard import Guard, MemoryStore
provider, exporter = TracerProvider(), InMemorySpanExporter()
provider.add_span_processor(SimpleSpanProcessor(exporter))
guard = Guard(store=MemoryStore(), tracer_provider=provider)
guard.tool(lambda: 1, name="one", description="One.", effect="read")
with provider.get_tracer("host").start_as_current_span("host"):
    assert guard.call("one").success
attempt, call, host = exporter.get_finished_spans()
print(attempt.parent.span_id == call.context.span_id, call.parent.span_id == host.context.span_id)
print(len(api._RUNTIME_CONTEXT.held))
"""


def test_spans_nest_in_a_context_that_the_host_has_chosen() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CHOSEN], capture_output=True, text=True, check=False, timeout=600, env=dict(os.environ)
    )
    assert done.stderr == ""
    assert done.stdout.split() == ["True", "True", "1"]


@pytest.mark.parametrize("level", [logging.DEBUG, logging.INFO, logging.WARNING])
def test_what_the_logger_has_found_out_follows_its_configuration(level: int) -> None:
    before = LOGGER.level
    try:
        for wanted in (logging.DEBUG, logging.INFO, logging.ERROR, logging.DEBUG):
            LOGGER.setLevel(wanted)
            assert ENABLED.get(level) is None  # forgotten, so that it has to be asked for
            assert LOGGER.isEnabledFor(level) is (level >= wanted)
            assert ENABLED.get(level) is (level >= wanted)
            assert is_quiet(level) is (level < wanted)
        LOGGER.disabled = True
        assert is_quiet(level)
        LOGGER.disabled = False
        logging.disable(level)
        assert ENABLED.get(level) is None
        assert is_quiet(level)
    finally:
        logging.disable(logging.NOTSET)
        LOGGER.disabled = False
        LOGGER.setLevel(before)


class Watching(OtelObserver):
    """Remembers the calls that ended."""

    __slots__ = ("seen",)

    def call_ended(self, call: Call) -> None:
        self.seen.append(call)
        super().call_ended(call)


def test_a_plain_call_with_a_span_sets_nothing_beside_the_common_layout(recorded: Recorded) -> None:
    """CPython keeps 30 attributes of a class in one layout; calls that go beyond it are slower."""
    usual = Call("", Intent(), "primary", None, None)
    _lay_out(usual)
    observer = Watching(tracer_provider=recorded.tracer_provider)
    observer.seen = []
    guard = Guard(store=MemoryStore(), observer=observer)
    guard.tool(lambda: 1, name="one", description="One.", effect="read")
    assert guard.call("one").success
    assert {"trace_id", "span_id"} <= set(vars(observer.seen[0])) <= set(vars(usual))
    assert len(vars(usual)) <= 30
