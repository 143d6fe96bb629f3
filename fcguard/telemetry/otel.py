"""OpenTelemetry spans and metrics of governed calls; uses the API alone, never the SDK."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from opentelemetry.context import Context
from opentelemetry.trace import NonRecordingSpan, Span, Tracer, get_current_span

from fcguard.errors import ConfigurationError
from fcguard.model.call import UNFILLED
from fcguard.model.failure import Halt
from fcguard.telemetry import semconv as names
from fcguard.telemetry.content import Capture, Content, capture_mode
from fcguard.telemetry.current import SPAN_KEY, below, current, enter, leave
from fcguard.telemetry.metrics import Instruments, Watcher, instruments_of
from fcguard.telemetry.outcome import ERRORS, Outcome, code_of, layer_of, outcome_of, word_of
from fcguard.telemetry.providers import GlobalMeters, GlobalTracer, tracer_of
from fcguard.telemetry.spans import (
    ATTEMPT_FAILED,
    STAGE_FAILED,
    STATUS,
    Facts,
    RootSpan,
    add_result,
    call_attributes,
    enrich,
    is_host,
    link_to,
    name_call,
)

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import NonRecordingSpan, Span, TracerProvider

    from fcguard.model.attempt import Attempt
    from fcguard.model.call import Call
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
        "_global_meters",
        "_global_tracer",
        "_instruments",
        "_tracer",
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
        self._tracer: Tracer | None = None if tracer_provider is None else tracer_of(tracer_provider)
        self._global_tracer = GlobalTracer() if tracer_provider is None else None
        self._watcher: Watcher | None = None
        self._instruments: Instruments | None = None
        self._global_meters: GlobalMeters | None = GlobalMeters()
        if meter_provider is not None:
            self._measure_with(meter_provider)
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
            tracer, origin, context = self._tracer, call.observed, current()
            if origin is not None:
                call.observed = None
            if tracer is None and self._global_tracer is not None and self._global_tracer.look() is not None:
                tracer = self._tracer = self._global_tracer.get()
            if tracer is None:
                if context:  # a host without an SDK may still carry ids that it received
                    name_call(call, get_current_span(context).get_span_context())
                return
            tool = call.tool
            facts = self._unknown if tool is None else self._facts.get(tool.name)
            if facts is None or facts.tool is not tool:
                facts = self._facts_of(tool)
            if context and call.purpose == "primary" and _is_joined(call, tracer, facts, get_current_span(context)):
                return
            links = None if origin is None else link_to(origin)
            # What differs from call to call is added at the end, if the span is recorded at all.
            span = tracer.start_span(facts.span_name, context, attributes=facts.attributes, links=links)
            name_call(call, span.get_span_context())
            is_recorded = span.__class__ is not NonRecordingSpan and span.is_recording()
            token = enter(Context({**context, SPAN_KEY: span}))  # `below` in line: most calls are sampled out
            # Of a span that is sampled out, all that matters is how to leave it.
            call.observed = RootSpan(tracer, span, facts, token) if is_recorded else token
        except Exception as error:
            self._swallow(error)

    def call_ended(self, call: Call) -> None:
        """Write down how the call ended, and close its span."""
        held, instruments, found = call.observed, self._instruments, self._global_meters
        can_measure = instruments is not None or (found is not None and found.look() is not None)
        if held.__class__ is not RootSpan and not can_measure:
            if held is not None:  # nobody wants to know how it ended
                call.observed = None
                try:  # `leave` in line
                    held.var.reset(held)
                except Exception:
                    leave(held)
            return
        root: RootSpan | None = held if held.__class__ is RootSpan else None
        try:
            if instruments is None and can_measure:
                instruments = self._meters()
            result = None if call.result is UNFILLED else call.result
            outcome: Outcome = "failed" if result is None else outcome_of(result)
            error = code_of(None if result is None else result.error_type) if outcome in ERRORS else None
            facts = root.facts if root is not None and root.facts.tool is call.tool else self._facts_of(call.tool)
            if instruments is not None and result is not None:
                _count(instruments, facts, call, result, outcome)
                # The host measures its own span; a call that is taken up later lasted until then, whatever its tool took.
                if not call.is_resumed and (root is None or root.token is not None):
                    agent = None if call.context is UNFILLED else call.context.agent
                    instruments.record_duration(result.duration_ms / 1000, facts.name, error, agent, current())
            if root is not None:
                self._describe(root, facts, call, result, outcome, error)
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
            facts = root.facts if root.facts.tool is call.tool else self._facts_of(call.tool)
            attributes: dict[str, Any] = {names.ATTEMPT_NUMBER: attempt.number, names.ATTEMPT_EFFECT: facts.expected}
            if attempt.delay:
                attributes[names.ATTEMPT_DELAY] = float(attempt.delay)
            if attempt.timeout is not None:
                attributes[names.ATTEMPT_TIMEOUT] = float(attempt.timeout)
            attempt.observed = root.open_child(facts.attempt_name, attributes, (names.ATTEMPT_EFFECT, "unknown"))
        except Exception as error:
            self._swallow(error)

    def attempt_ended(self, call: Call, attempt: Attempt) -> None:
        """Write down how the attempt ended, and close its span."""
        root, child = call.observed, attempt.observed
        attempt.observed = None
        if child is None or type(root) is not RootSpan:
            return
        try:
            facts = root.facts if root.facts.tool is call.tool else self._facts_of(call.tool)
            if attempt.effect != facts.expected:  # what is as expected stands there already
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
            attributes = {names.RECOVERY_ACTION: _word(action)}
            root.open_child(names.RECOVER_SPAN, attributes, (names.RECOVERY_OUTCOME, "interrupted"))
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
            # Not below the attempt, which is still current in the step `result`.
            context = below(root.span, current())
            span = root.tracer.start_span(names.STAGE_SPANS[name], context, start_time=int(started * 1e9))
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

    def _leave(self, held: Any) -> None:
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
        facts: Facts,
        call: Call,
        result: ToolResult[Any] | None,
        outcome: Outcome,
        error: str | None,
    ) -> None:
        span = root.span
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
        """Answer the instruments; None while there is no provider, and if it does nothing."""
        found = self._global_meters
        provider = None if found is None else found.get()
        if provider is not None:
            self._measure_with(provider)
        return self._instruments

    def _measure_with(self, provider: MeterProvider) -> None:
        instruments = instruments_of(provider)
        if self._watcher is not None:
            instruments.watchers.add(self._watcher)
        self._instruments = None if instruments.is_silent else instruments
        self._global_meters = None  # nothing is left to be found

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


def _is_joined(call: Call, tracer: Tracer, facts: Facts, host: Span) -> bool:
    """Take the current span for the call's own, if the host has opened it for the very call, and answer whether it has."""
    if not (host.is_recording() and is_host(host, call)):
        return False
    enrich(host, facts.attributes | call_attributes(call))
    name_call(call, host.get_span_context())
    call.observed = RootSpan(tracer, host, facts, None)
    return True


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
        if call.is_resumed:  # those that another process made were counted there
            dispatched = sum(not attempt.is_restored for attempt in call.attempts)
        else:
            dispatched = _attempts_of(call, result)
        if dispatched:
            attempts = facts.attempts
            if attempts is None:
                attempts = facts.attempts = instruments.attempts.cell(facts.name)
            attempts[0] += dispatched
