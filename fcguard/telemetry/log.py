"""One log line per governed call, through the host's structlog where it is configured, else through stdlib logging.

Nothing is ever written to stdout: an unconfigured structlog would print there and break a server that speaks over its
standard streams. Lines carry codes, counts and ids; no arguments, no results, no exception texts.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Mapping, MutableMapping
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from fcguard.model.call import UNFILLED
from fcguard.telemetry.outcome import Outcome, code_of, layer_of, outcome_of, word_of

if TYPE_CHECKING:
    from fcguard.model.attempt import Attempt
    from fcguard.model.call import Call

__all__ = ["ENABLED", "LOGGER", "LogObserver", "is_heard", "is_quiet"]

LOGGER: Final = logging.getLogger("fcguard")
"""Where lines go unless the host has configured structlog."""
LOGGER.addHandler(logging.NullHandler())
ENABLED: Final[Mapping[int, bool]] = getattr(LOGGER, "_cache", {})
"""What `LOGGER.isEnabledFor` has found out since logging was configured last: level -> answer. A level that is missing, or
stands there as enabled, has to be asked for; one that is not enabled is known to be so without a call."""

_LEVELS: Final[dict[Outcome, int]] = {
    "completed": logging.INFO,
    "deduplicated": logging.INFO,
    "deferred": logging.INFO,
    "cancelled": logging.INFO,
    "rejected": logging.WARNING,
    "denied": logging.WARNING,
    "uncertain": logging.WARNING,
    "failed": logging.ERROR,
}
_METHODS: Final = {
    logging.DEBUG: "debug",
    logging.INFO: "info",
    logging.WARNING: "warning",
    logging.ERROR: "error",
}
_EVENTS: Final[dict[Outcome, str]] = {outcome: f"call {outcome}" for outcome in _LEVELS}

Fields = dict[str, Any]
Emit = Callable[[int, str, Fields], None]


class LogObserver:
    """Writes one line when a call ends, and debug lines for its attempts, recoveries and steps. Never raises.

    The line is info; a warning if the call was refused or its effect is not known; an error if it failed.
    """

    __slots__ = ("_host_logger", "faults")

    def __init__(self) -> None:
        self._host_logger = _HostLogger()
        self.faults = 0
        """How many lines could not be written."""

    @property
    def wants_stages(self) -> bool:
        """Whether somebody listens to debug lines."""
        return self._emit(logging.DEBUG) is not None

    def call_started(self, call: Call) -> None:
        """Do nothing; the line comes at the end."""

    def call_ended(self, call: Call) -> None:
        """Write the call's line."""
        try:
            structlog = _host()
            if structlog is None and not is_heard():
                return
            result = None if call.result is UNFILLED else call.result
            outcome: Outcome = "failed" if result is None else outcome_of(result)
            level = _LEVELS[outcome]
            emit = _write if structlog is None else self._host_logger.emitter(structlog, level)
            if emit is None or (structlog is None and not LOGGER.isEnabledFor(level)):
                return
            fields = _ids(call)
            if result is not None:
                _add_result(fields, call, result)
            emit(level, _EVENTS[outcome], fields)
        except Exception:
            self.faults += 1

    def attempt_started(self, call: Call, attempt: Attempt) -> None:
        """Do nothing; the line comes at the end."""

    def attempt_ended(self, call: Call, attempt: Attempt) -> None:
        """Write a debug line."""
        emit = self._emit(logging.DEBUG)
        if emit is not None:
            fields: Fields = {"attempt": attempt.number, "effect": str(attempt.effect)}
            fields["duration_ms"] = round(attempt.duration * 1000, 3)
            if attempt.delay:
                fields["delay_s"] = round(attempt.delay, 6)
            if attempt.error_type is not None:
                fields["error_type"] = code_of(attempt.error_type)
            if attempt.error is not None:
                fields["exception_type"] = type(
                    attempt.error
                ).__name__  # `exception` is structlog's own, for tracebacks
            self._debug(emit, "attempt ended", call, fields)

    def recovery_started(self, call: Call, action: str) -> None:
        """Do nothing; the line comes at the end."""

    def recovery_ended(self, call: Call, action: str, outcome: str) -> None:
        """Write a debug line."""
        emit = self._emit(logging.DEBUG)
        if emit is not None:
            self._debug(emit, "recovery ended", call, {"action": word_of(action), "result": word_of(outcome)})

    def stage(self, call: Call, name: str, started: float, ended: float) -> None:
        """Write a debug line."""
        emit = self._emit(logging.DEBUG)
        if emit is not None:
            duration = round((ended - started) * 1000, 3)
            self._debug(emit, "step ended", call, {"stage": name, "duration_ms": duration})

    def _debug(self, emit: Emit, event: str, call: Call, fields: Fields) -> None:
        try:
            emit(logging.DEBUG, event, _ids(call) | fields)
        except Exception:
            self.faults += 1

    def _emit(self, level: int) -> Emit | None:
        """Answer how a line of this level is written; None if nobody would see it."""
        try:
            structlog = _host()
            if structlog is not None:
                return self._host_logger.emitter(structlog, level)
            return _write if LOGGER.isEnabledFor(level) and is_heard() else None
        except Exception:
            self.faults += 1
            return None


def is_quiet(level: int) -> bool:
    """Answer, at the cost of a look-up or two, whether nobody can want a line of this level; False: it has to be found out."""
    if ENABLED.get(level, True) and LOGGER.isEnabledFor(level):
        return False
    structlog = sys.modules.get("structlog")
    return structlog is None or not getattr(structlog, "is_configured", bool)()


def _host() -> Any:
    """Answer structlog if the host has configured it; it is not imported for the question."""
    structlog = sys.modules.get("structlog")
    if structlog is None or not getattr(structlog, "is_configured", bool)():
        return None
    return structlog


def is_heard(logger: logging.Logger | None = LOGGER) -> bool:
    """Answer whether a handler would get a line: without one, nothing need be put together."""
    while logger is not None:
        for handler in logger.handlers:
            if type(handler) is not logging.NullHandler:
                return True
        logger = logger.parent if logger.propagate else None
    return False


class _HostLogger:
    """The host's bound logger, kept while its configuration stays the same and allows keeping."""

    __slots__ = ("_bound", "_config", "_is_enabled")

    def __init__(self) -> None:
        self._config: tuple[Any, ...] = ()
        self._bound: Any = None
        self._is_enabled: Callable[[Any, int], bool] | None = None

    def emitter(self, structlog: Any, level: int) -> Emit | None:
        """Answer how to write a line of this level; None if the host's logger would drop it."""
        config = structlog.get_config()
        key = (config["processors"], config["wrapper_class"], config["logger_factory"])
        if not config["cache_logger_on_first_use"] or any(a is not b for a, b in zip(key, self._config, strict=False)):
            self._config = ()
        if not self._config:
            try:
                self._bound = structlog.get_logger("fcguard").bind()
            except TypeError:  # a logger factory that takes no name
                self._bound = structlog.get_logger().bind()
            # Asked of the class: a generic bound logger answers every unknown attribute with a method that logs.
            kind = type(self._bound)
            self._is_enabled = getattr(kind, "is_enabled_for", None) or getattr(kind, "isEnabledFor", None)
            self._config = key
        if self._is_enabled is not None and not self._is_enabled(self._bound, level):
            return None
        return self._emit

    def _emit(self, level: int, event: str, fields: Fields) -> None:
        try:
            getattr(self._bound, _METHODS[level])(event, **fields)
        except Exception:  # the host has bound a key that its own pipeline cannot take
            _write(level, event, fields)


def _write(level: int, event: str, fields: Fields) -> None:
    getattr(_private_logger(), _METHODS[level])(event, **fields)


@cache
def _private_logger() -> Any:
    """Make fcguard's own structlog logger; the global configuration is neither read nor changed."""
    import structlog

    return structlog.wrap_logger(
        _Records(),
        processors=[_to_stdlib],
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG),
        context_class=dict,
        cache_logger_on_first_use=True,
    )


def _to_stdlib(_: Any, method: str, event: MutableMapping[str, Any]) -> tuple[tuple[int, str, Fields], dict[str, Any]]:
    """Make the arguments of `_Records`: the level, a readable text, and the fields."""
    text = event.pop("event")
    fields = dict(event)
    return (_LEVEL_OF[method], " ".join([text, *[f"{key}={value}" for key, value in fields.items()]]), fields), {}


class _Records:
    """Hands a line to stdlib logging, with its fields in `record.fcguard` for formatters.

    One attribute holds all fields, since `extra` must not contain names that a log record uses itself. Whoever asked is known,
    so that it need not be looked for on the stack, which takes a third of the time of `LOGGER.log`.
    """

    __slots__ = ()

    def debug(self, level: int, text: str, fields: Fields) -> None:
        """Write a line."""
        LOGGER.handle(
            LOGGER.makeRecord(LOGGER.name, level, __file__, _WRITE_LINE, text, (), None, "_write", {"fcguard": fields})
        )

    info = warning = error = debug


_WRITE_LINE: Final = _write.__code__.co_firstlineno
_LEVEL_OF: Final = {method: level for level, method in _METHODS.items()}


def _ids(call: Call) -> Fields:
    tool = call.tool
    fields: Fields = {"tool": "_unknown" if tool is None else tool.name, "request_id": call.request_id}
    if call.trace_id is not None:
        fields["trace_id"], fields["span_id"] = call.trace_id, call.span_id
    context = call.context
    if context is not UNFILLED and context.task_id:
        fields["task_id"] = context.task_id
    if call.purpose != "primary":
        fields["purpose"] = call.purpose
        if call.parent is not None:
            fields["parent_request_id"] = call.parent.request_id
    return fields


def _add_result(fields: Fields, call: Call, result: Any) -> None:
    if result.step is not None:
        fields["step"] = result.step
    if result.success:
        fields["basis"] = result.outcome_basis
    else:
        fields["error_type"], fields["retryable"] = code_of(result.error_type), result.retryable
        if result.failure_class is not None:
            fields["failure_class"] = str(result.failure_class)
        layer = layer_of(call, result)
        if layer is not None:
            fields["layer"] = layer
        fields["next_action"] = word_of(result.next_action)
    fields["effect"], fields["attempts"] = result.effect, result.attempts
    fields["duration_ms"] = round(result.duration_ms, 3)
