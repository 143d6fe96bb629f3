"""OpenTelemetry spans and metrics of governed calls; uses the API alone, never the SDK."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Hashable
from contextvars import Token
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from opentelemetry.context import Context, attach, get_current
from opentelemetry.trace import INVALID_SPAN, Tracer, get_current_span, set_span_in_context

from fcguard.errors import ConfigurationError
from fcguard.model.call import UNFILLED
from fcguard.model.failure import Halt
from fcguard.telemetry import semconv as names
from fcguard.telemetry.content import Capture, Content, capture_mode
from fcguard.telemetry.metrics import Instruments, Watcher, instruments_of
from fcguard.telemetry.observer import Origin
from fcguard.telemetry.outcome import ERRORS, Outcome, code_of, layer_of, outcome_of, word_of
from fcguard.telemetry.providers import GlobalMeters, GlobalTracer, tracer_of
from fcguard.telemetry.spans import (
    ATTEMPT_FAILED,
    STAGE_FAILED,
    STATUS,
    Facts,
    OpenSpan,
    RootSpan,
    add_result,
    call_attributes,
    enrich,
    is_host,
    leave,
    link_to,
    name_call,
)

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

    from fcguard.model.call import Attempt, Call
    from fcguard.model.result import ToolResult
    from fcguard.model.secrets import Redactor
    from fcguard.model.tool import Tool

__all__ = ["OtelObserver", "SpanDetail"]

SpanDetail = Literal["call", "attempts", "stages"]
"""`call`: one span per call. `attempts`: also attempts and recoveries. `stages`: also the steps."""

_MOST_TOOLS: Final = 10_000
_log: Final = logging.getLogger("fcguard.telemetry")


class OtelObserver:
    """Writes spans and metrics of governed calls. Never raises, and never changes a call but for its trace and span id.

    Without a provider (none given, none set globally) a call costs a fraction of a microsecond. A global provider that
    is set later is found at the next call.

    Args:
        tracer_provider: where spans go; None: the global provider.
        meter_provider: where metrics go; None: the global provider.
        span_detail: which spans beside the call's own.
        capture_content: whether arguments and results stand on the spans; None: what the variable
            `OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT` says, `none` by default.
        redactor: masks secrets of captured content beside the call's own redactor.

    Raises:
        ConfigurationError: `span_detail` or `capture_content` is not one of its words.
    """

    __slots__ = (
        "_content",
        "_detail",
        "_facts",
        "_find_meters",
        "_find_tracer",
        "_instruments",
        "_unknown",
        "_watcher",
        "faults",
    )

    def __init__(
        self,
        *,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        span_detail: SpanDetail = "attempts",
        capture_content: Capture | None = None,
        redactor: Redactor | None = None,
    ) -> None:
        if span_detail not in get_args(SpanDetail):
            raise ConfigurationError(f"span_detail is {span_detail!r}; use 'call', 'attempts' or 'stages'")
        self._detail = span_detail
        mode = capture_mode(capture_content)
        self._content = None if mode == "none" else Content(mode, redactor)
        self._facts: dict[str, Facts] = {}
        self._unknown = Facts(None)
        if tracer_provider is None:
            self._find_tracer: Callable[[], Tracer | None] = GlobalTracer().get
        else:
            tracer = tracer_of(tracer_provider)
            self._find_tracer = lambda: tracer
        self._instruments: Instruments | None = None if meter_provider is None else instruments_of(meter_provider)
        self._find_meters = GlobalMeters().get
        self._watcher: Watcher | None = None
        self.faults = 0
        """How many errors of telemetry itself were swallowed."""

    @property
    def wants_stages(self) -> bool:
        """Whether `stage` should be called."""
        return self._detail == "stages"

    def watch_unresolved(self, ask: Callable[[], int | None], *, ledger: Hashable = None) -> None:
        """Report the number of unresolved calls as `fcguard.calls.unresolved`.

        Args:
            ask: answers the number, or None if it cannot be had now; runs on the thread of the metric reader.
            ledger: which ledger it is about: a ledger that several observers watch is counted once. None: one of its own.
        """
        self._watcher = Watcher(ask, ledger)
        instruments = self._meters()
        if instruments is not None:
            instruments.watchers.add(self._watcher)

    def evidence_written(self, seconds: float, *, is_failed: bool = False) -> None:
        """Take note of one durable write to the ledger.

        Args:
            seconds: how long it took.
            is_failed: it was not written.
        """
        try:
            instruments = self._meters()
            if instruments is not None:
                instruments.write_duration.record(seconds)
                if is_failed:
                    with instruments.lock:
                        instruments.write_failures.cell()[0] += 1
        except Exception as error:
            self._swallow(error)

    def call_started(self, call: Call) -> None:
        """Open the call's span, or find the span that the host has opened for it; set trace and span id."""
        try:
            tracer = self._find_tracer()
            if tracer is None:
                if call.observed is not None:
                    call.observed = None
                context = get_current()
                if context:  # a host without an SDK may still carry ids that it received
                    name_call(call, get_current_span(context).get_span_context())
                return
            origin, call.observed = call.observed, None
            self._open(call, tracer, origin)
        except Exception as error:
            self._swallow(error)

    def call_ended(self, call: Call) -> None:
        """Write down how the call ended, and close its span."""
        held = call.observed
        root = held if type(held) is RootSpan else None
        try:
            instruments = self._meters()
            if instruments is None and root is None:
                return
            result = None if call.result is UNFILLED else call.result
            outcome: Outcome = "failed" if result is None else outcome_of(result)
            error = code_of(None if result is None else result.error_type) if outcome in ERRORS else None
            facts = self._facts_of(call.tool)
            if instruments is not None and result is not None:
                _count(instruments, facts, call, result, outcome)
                if root is None or root.token is not None:  # the host measures its own span
                    agent = None if call.context is UNFILLED else call.context.agent
                    instruments.record_duration(result.duration_ms / 1000, facts.name, error, agent)
            if root is not None:
                self._describe(root, call, result, outcome, error)
        except Exception as fault:
            self._swallow(fault)
        finally:
            if held is not None:
                call.observed = None
                self._leave(held)

    def attempt_started(self, call: Call, attempt: Attempt) -> None:
        """Open the attempt's span and make it current, so that the tool's own spans hang below it."""
        root = call.observed
        if type(root) is not RootSpan or self._detail == "call":
            return
        try:
            facts = self._facts_of(call.tool)
            attributes: dict[str, Any] = {names.ATTEMPT_NUMBER: attempt.number, names.ATTEMPT_EFFECT: facts.expected}
            if attempt.delay:
                attributes[names.ATTEMPT_DELAY] = float(attempt.delay)
            if attempt.timeout is not None:
                attributes[names.ATTEMPT_TIMEOUT] = float(attempt.timeout)
            span = root.tracer.start_span(facts.attempt_name, attributes=attributes)
            child = attempt.observed = OpenSpan(span, (names.ATTEMPT_EFFECT, "unknown"))
            root.children.append(child)
        except Exception as error:
            self._swallow(error)

    def attempt_ended(self, call: Call, attempt: Attempt) -> None:
        """Write down how the attempt ended, and close its span."""
        root, child = call.observed, attempt.observed
        attempt.observed = None
        if child is None or type(root) is not RootSpan:
            return
        try:
            if attempt.effect != self._facts_of(call.tool).expected:  # what is as expected stands there already
                child.span.set_attribute(names.ATTEMPT_EFFECT, str(attempt.effect))
            if attempt.error_type is not None and attempt.error_type != "CANCELLED":
                child.span.set_attribute(names.ERROR_TYPE, code_of(attempt.error_type))
                child.span.set_status(ATTEMPT_FAILED)
            root.close_child(child)
        except Exception as error:
            self._swallow(error)

    def recovery_started(self, call: Call, action: str) -> None:
        """Open the recovery's span and make it current, so that child calls hang below it."""
        root = call.observed
        if type(root) is not RootSpan or self._detail == "call":
            return
        try:
            span = root.tracer.start_span(names.RECOVER_SPAN, attributes={names.RECOVERY_ACTION: _word(action)})
            root.children.append(OpenSpan(span, (names.RECOVERY_OUTCOME, "interrupted")))
        except Exception as error:
            self._swallow(error)

    def recovery_ended(self, call: Call, action: str, outcome: str) -> None:
        """Write down what came of the recovery, and close its span."""
        root = call.observed
        try:
            instruments = self._meters()
            if instruments is not None:
                with instruments.lock:
                    tool = self._facts_of(call.tool).name
                    instruments.recoveries.cell(tool, _word(action), _word(outcome))[0] += 1
            if type(root) is not RootSpan:
                return
            child = root.innermost(names.RECOVERY_OUTCOME)
            if child is not None:
                child.span.set_attribute(names.RECOVERY_OUTCOME, _word(outcome))
                root.close_child(child)
        except Exception as error:
            self._swallow(error)

    def stage(self, call: Call, name: str, started: float, ended: float) -> None:
        """Write a span for a step that is over: counts and codes, no values."""
        root = call.observed
        if type(root) is not RootSpan or self._detail != "stages":
            return
        try:
            below = set_span_in_context(root.span)  # not below the attempt, which is still current in the step `result`
            span = root.tracer.start_span(names.STAGE_SPANS[name], below, start_time=int(started * 1e9))
            halt = sys.exception()
            failure = halt.failure if isinstance(halt, Halt) else None
            if failure is not None:  # told from a `finally` while the refusal is on its way
                span.set_attributes(
                    {names.ERROR_TYPE: code_of(failure.error_type), names.STAGE_COUNT: len(failure.problems)}
                )
                span.set_status(STAGE_FAILED)
            elif name == "result":
                span.set_attribute(names.STAGE_COUNT, len(call.evidence))
            span.end(end_time=int(ended * 1e9))
        except Exception as error:
            self._swallow(error)

    def _open(self, call: Call, tracer: Tracer, origin: Any) -> None:
        facts = self._facts_of(call.tool)
        context = get_current()
        current = get_current_span(context)
        if (
            current is not INVALID_SPAN
            and call.purpose == "primary"
            and current.is_recording()
            and is_host(current, call)
        ):
            enrich(current, facts.attributes | call_attributes(call))
            name_call(call, current.get_span_context())
            call.observed = RootSpan(tracer, current, facts, None)
            return
        links = link_to(origin) if type(origin) is Origin else None
        # What differs from call to call is added at the end, if the span is recorded at all.
        span = tracer.start_span(facts.span_name, context, attributes=facts.attributes, links=links)
        name_call(call, span.get_span_context())
        token = attach(set_span_in_context(span, context))
        # Of a span that is sampled out, all that matters is how to leave it.
        call.observed = RootSpan(tracer, span, facts, token) if span.is_recording() else token

    def _leave(self, held: RootSpan | Token[Context]) -> None:
        if not isinstance(held, RootSpan):
            leave(held)
            return
        try:
            held.close()
        except Exception as error:
            self._swallow(error)

    def _describe(
        self,
        root: RootSpan,
        call: Call,
        result: ToolResult[Any] | None,
        outcome: Outcome,
        error: str | None,
    ) -> None:
        span, facts = root.span, self._facts_of(call.tool)
        attributes: dict[str, Any] = {names.OUTCOME: outcome, names.ATTEMPTS: _attempts_of(call, result)}
        if root.token is not None:
            attributes |= call_attributes(call)
        if facts is not root.facts:  # the name had to be folded, and is known since
            if root.token is None:
                enrich(span, facts.attributes)
            else:
                attributes |= facts.attributes
                span.update_name(facts.span_name)
        if error is not None:
            attributes[names.ERROR_TYPE] = error
        if result is not None:
            add_result(attributes, call, result)
            if self._content is not None:
                for key, text in (
                    (names.TOOL_CALL_ARGUMENTS, self._content.arguments(call)),
                    (names.TOOL_CALL_RESULT, self._content.result(call)),
                ):
                    if text is not None:
                        attributes[key] = text
        span.set_attributes(attributes)
        if error is not None:
            span.set_status(STATUS[outcome])

    def _meters(self) -> Instruments | None:
        instruments = self._instruments
        if instruments is None:
            provider = self._find_meters()
            if provider is None:
                return None
            instruments = self._instruments = instruments_of(provider)
            if self._watcher is not None:
                instruments.watchers.add(self._watcher)
        return None if instruments.is_silent else instruments

    def _facts_of(self, tool: Tool | None) -> Facts:
        if tool is None:
            return self._unknown
        found = self._facts.get(tool.name)
        if found is None or found.tool is not tool:
            if len(self._facts) >= _MOST_TOOLS:
                self._facts.clear()
            found = self._facts[tool.name] = Facts(tool)
        return found

    def _swallow(self, error: Exception) -> None:
        self.faults += 1
        if self.faults == 1:
            _log.debug("telemetry failed and is left out: %s", type(error).__name__)


def _word(word: str) -> str:
    return word_of(word) or names.OTHER


def _attempts_of(call: Call, result: ToolResult[Any] | None) -> int:
    """Answer how often this call started the tool; the attempts of a replayed result belong to another call."""
    if result is None:
        return len(call.attempts)
    return 0 if result.outcome_basis == "replayed" else result.attempts


def _count(instruments: Instruments, facts: Facts, call: Call, result: ToolResult[Any], outcome: Outcome) -> None:
    with instruments.lock:
        if outcome == "completed":
            completed = facts.completed
            if completed is None:
                completed = facts.completed = instruments.calls.cell(facts.name, outcome)
            completed[0] += 1
        else:
            instruments.calls.cell(facts.name, outcome)[0] += 1
            layer = layer_of(call, result)
            if layer is not None:
                instruments.refusals.cell(facts.name, layer)[0] += 1
        dispatched = _attempts_of(call, result)
        if dispatched:
            attempts = facts.attempts
            if attempts is None:
                attempts = facts.attempts = instruments.attempts.cell(facts.name)
            attempts[0] += dispatched
