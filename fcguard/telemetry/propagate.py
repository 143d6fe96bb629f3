"""Carry the trace over process borders: W3C `traceparent` in HTTP headers and in the `_meta` of MCP messages.

Only the trace context travels. Baggage does not: it may hold what the host told its own services in confidence.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from opentelemetry.context import Context, attach, get_current
from opentelemetry.trace import get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from fcguard.telemetry.current import leave

__all__ = ["context_from", "continued", "with_headers", "with_meta"]

_PROPAGATOR: Final = TraceContextTextMapPropagator()
_LONGEST: Final = 1024
_KEYS: Final = frozenset(_PROPAGATOR.fields)


def with_headers(headers: Mapping[str, str] | None = None) -> dict[str, str]:
    """Answer HTTP headers with the current trace in them.

    Args:
        headers: further headers; they stay, but for an older `traceparent` and `tracestate` in any case.

    Returns:
        A new dict; without a current trace just a copy, with no trace headers at all.
    """
    carrier = {key: value for key, value in (headers or {}).items() if key.lower() not in _KEYS}
    _PROPAGATOR.inject(carrier)
    return carrier


def with_meta(meta: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Answer the `_meta` of an MCP request with the current trace in it.

    Args:
        meta: further entries (`progressToken`, ...); they stay, but for an older trace.

    Returns:
        A new dict for `params._meta`; without a current trace just a copy, with no trace keys at all.
    """
    carrier: dict[str, Any] = {key: value for key, value in (meta or {}).items() if key not in _KEYS}
    _PROPAGATOR.inject(carrier)
    return carrier


def context_from(carrier: Mapping[str, Any] | None) -> Context:
    """Answer the context that an incoming message continues.

    Args:
        carrier: headers, or the `_meta` of an MCP request; None and anything malformed mean no trace.

    Returns:
        The current context, with the sender's span as the current one if there was a valid one.
    """
    found: dict[str, str] = {}
    for key, value in (carrier or {}).items():
        if isinstance(key, str) and isinstance(value, str) and key.lower() in _KEYS and len(value) <= _LONGEST:
            found[key.lower()] = value
    return _PROPAGATOR.extract(found, context=get_current())


@contextmanager
def continued(carrier: Mapping[str, Any] | None, *, unless_traced: bool = False) -> Iterator[None]:
    """Run a block as a part of the sender's trace; calls in it hang below the sender's span.

    Args:
        carrier: headers, or the `_meta` of an MCP request; None and anything malformed leave everything as it is.
        unless_traced: leave everything as it is also if a span is current already: a server that is instrumented has
            continued the trace by itself.
    """
    is_traced = unless_traced and get_current_span().get_span_context().is_valid
    token = attach(get_current() if is_traced else context_from(carrier))
    try:
        yield
    finally:
        leave(token)
