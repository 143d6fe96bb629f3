"""The spans of one call while they are open: what they carry at their start and at their end, and how they are left."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from opentelemetry.context import Context
from opentelemetry.trace import Link, Span, SpanContext, Status, StatusCode, TraceFlags, Tracer

from fcguard.model.call import UNFILLED
from fcguard.telemetry import semconv as names
from fcguard.telemetry.current import SPAN_KEY, current, enter, leave
from fcguard.telemetry.metrics import Cell
from fcguard.telemetry.observer import Origin
from fcguard.telemetry.outcome import layer_of, word_of

if TYPE_CHECKING:
    from fcguard.model.call import Call
    from fcguard.model.result import ToolResult
    from fcguard.model.tool import Tool

__all__ = [
    "ATTEMPT_FAILED",
    "STAGE_FAILED",
    "STATUS",
    "Facts",
    "OpenSpan",
    "RootSpan",
    "add_result",
    "call_attributes",
    "enrich",
    "is_host",
    "link_to",
    "name_call",
]

# The texts are constants: an exception's text may hold what the model sent.
STATUS: Final[dict[str, Status]] = {
    "rejected": Status(StatusCode.ERROR, "the call was refused before it was sent"),
    "denied": Status(StatusCode.ERROR, "the call was forbidden"),
    "failed": Status(StatusCode.ERROR, "the call failed"),
    "uncertain": Status(StatusCode.ERROR, "the effect of the call is not known"),
}
ATTEMPT_FAILED: Final = Status(StatusCode.ERROR, "the attempt failed")
STAGE_FAILED: Final = Status(StatusCode.ERROR, "the step refused the call")


class Facts:
    """What is the same for every call of a tool.

    Attributes:
        tool: None for every name that is not registered.
        attributes: what its spans carry from the start.
        expected: effect of an attempt that goes well.
        completed, attempts: its series of the counters, once it has any.
    """

    __slots__ = ("attempt_name", "attempts", "attributes", "completed", "expected", "name", "span_name", "tool")

    def __init__(self, tool: Tool | None) -> None:
        self.tool = tool
        self.name = names.UNKNOWN_TOOL if tool is None else tool.name
        self.span_name = f"{names.EXECUTE_TOOL} {self.name}"
        self.attempt_name = f"{names.ATTEMPT_SPAN} {self.name}"
        self.attributes: dict[str, Any] = {names.OPERATION_NAME: names.EXECUTE_TOOL, names.TOOL_NAME: self.name}
        self.expected = "none" if tool is None or tool.is_read else "applied"
        self.completed: Cell | None = None
        self.attempts: Cell | None = None
        if tool is not None:
            self.attributes |= {
                names.TOOL_TYPE: "function",
                names.TOOL_EFFECT: str(tool.effect),
                names.TOOL_VERSION: tool.version,
            }
            if tool.description:
                self.attributes[names.TOOL_DESCRIPTION] = tool.description[:1024]


class OpenSpan:
    """An attempt's or a recovery's span, and how to leave its context.

    Args:
        span: the span, which is current.
        token: how to leave its context.
        required: the attribute that must stand on it, with the value it gets if nobody closes it properly.
    """

    __slots__ = ("required", "span", "token")

    def __init__(self, span: Span, token: Any, required: tuple[str, str]) -> None:
        self.span, self.token, self.required = span, token, required

    def close(self, *, is_forgotten: bool = False) -> None:
        """Leave the context and end the span."""
        leave(self.token)
        if is_forgotten:
            self.span.set_attribute(*self.required)
        self.span.end()


class RootSpan:
    """The span of a call while it is open; only a span that is recorded has one.

    Attributes:
        token: how to leave its context; None for a host's span, which is neither left nor ended.
        children: open spans below it, the innermost last.
    """

    __slots__ = ("children", "facts", "span", "token", "tracer")

    def __init__(self, tracer: Tracer, span: Span, facts: Facts, token: Any) -> None:
        self.tracer, self.span, self.facts, self.token = tracer, span, facts, token
        self.children: list[OpenSpan] = []

    def open_child(self, name: str, attributes: dict[str, Any], required: tuple[str, str]) -> OpenSpan:
        """Start a span below the current one, and make it current.

        Args:
            name: of the span.
            attributes: what it carries from the start.
            required: the attribute that must stand on it, with the value it gets if nobody closes it properly.
        """
        context = current()  # given on, since the SDK would ask for it three times
        span = self.tracer.start_span(name, context, attributes=attributes)
        child = OpenSpan(span, enter(Context({**context, SPAN_KEY: span})), required)
        self.children.append(child)
        return child

    def innermost(self, key: str) -> OpenSpan | None:
        """Answer the innermost open span that must carry an attribute; None if there is none."""
        return next((child for child in reversed(self.children) if child.required[0] == key), None)

    def close_child(self, child: OpenSpan) -> None:
        """Close a child, and before it whatever was left open inside it."""
        while child in self.children:
            last = self.children.pop()
            last.close(is_forgotten=last is not child)

    def close(self) -> None:
        """Close what is open, leave the context, and end the span unless it is the host's."""
        try:
            while self.children:
                self.children.pop().close(is_forgotten=True)
        finally:  # a span processor of the host may raise
            if self.token is not None:
                leave(self.token)
                self.span.end()


def call_attributes(call: Call) -> dict[str, Any]:
    """Answer what a call's span says of the call itself, whatever comes of it."""
    attributes: dict[str, Any] = {names.REQUEST_ID: call.request_id, names.PURPOSE: call.purpose}
    call_id = call.proposal.call_id
    if call_id:
        attributes[names.TOOL_CALL_ID] = call.redactor.text(str(call_id)[:256])
    return attributes


def name_call(call: Call, context: SpanContext) -> None:
    """Put trace and span id on the call, if they are valid."""
    trace_id, span_id = context[0], context[1]  # a tuple; its properties take longer than all the rest of this
    if trace_id and span_id:
        # What OpenTelemetry formats with `032x` and `016x`, in less than half the time.
        call.trace_id, call.span_id = trace_id.to_bytes(16).hex(), span_id.to_bytes(8).hex()


def is_host(span: Span, call: Call) -> bool:
    """Answer whether the host has opened this span for the very tool call, and no other governed call has taken it."""
    attributes = getattr(span, "attributes", None)
    if not attributes or attributes.get(names.OPERATION_NAME) != names.EXECUTE_TOOL or names.REQUEST_ID in attributes:
        return False
    if getattr(getattr(span, "instrumentation_scope", None), "name", None) == names.SCOPE:
        return False
    name = call.proposal.tool if call.tool is None else call.tool.name
    return attributes.get(names.TOOL_NAME) == name or getattr(span, "name", None) == f"{names.EXECUTE_TOOL} {name}"


def enrich(span: Span, attributes: dict[str, Any]) -> None:
    """Add what the host's span does not say yet."""
    known = getattr(span, "attributes", None) or {}
    span.set_attributes({key: value for key, value in attributes.items() if key not in known})


def link_to(origin: Any) -> list[Link] | None:
    """Answer a link to an earlier part of the call; None if it is no `Origin`, or its ids are none."""
    if not isinstance(origin, Origin):
        return None
    try:
        context = SpanContext(int(origin.trace_id, 16), int(origin.span_id, 16), True, TraceFlags(TraceFlags.SAMPLED))
    except ValueError:
        return None
    return [Link(context)] if context.is_valid else None


def add_result(attributes: dict[str, Any], call: Call, result: ToolResult[Any]) -> None:
    """Add what the envelope says."""
    if result.success:
        attributes[names.OUTCOME_BASIS] = str(result.outcome_basis or "returned")
    else:
        attributes[names.RETRYABLE] = result.retryable
        if result.failure_class is not None:
            attributes[names.FAILURE_CLASS] = str(result.failure_class)
        action = word_of(result.next_action)
        if action is not None:
            attributes[names.NEXT_ACTION] = action
        layer = layer_of(call, result)
        if layer is not None:
            attributes[names.VALIDATION_LAYER] = layer
    if result.task_id:
        attributes[names.TASK_ID] = result.task_id
        if result.step is not None:
            attributes[names.STEP] = result.step
    context = call.context
    if context is not UNFILLED:
        if context.agent:
            attributes[names.AGENT_NAME] = context.agent
        if context.conversation_id:
            attributes[names.CONVERSATION_ID] = context.conversation_id
