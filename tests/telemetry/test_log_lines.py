"""Log lines of governed calls: one at the end, through the host's structlog or stdlib logging, never in the way."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog

from fcguard.model.context import TaskContext
from fcguard.model.failure import ErrorType, Failure
from fcguard.telemetry.log import LOGGER, LogObserver
from fcguard.telemetry.standard import default_observer
from tests.telemetry.telemetry_driver import QUERY, Driver, Recorded, envelope, failed


@pytest.fixture(autouse=True)
def unconfigured() -> Iterator[None]:
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()
    yield
    structlog.reset_defaults()
    structlog.contextvars.clear_contextvars()


@pytest.fixture
def observer() -> LogObserver:
    return LogObserver()


@pytest.fixture
def driver(observer: LogObserver) -> Any:
    yield Driver(observer)
    assert observer.faults == 0


def of_fcguard(caplog: pytest.LogCaptureFixture) -> list[Any]:
    return [record for record in caplog.records if record.name == "fcguard"]


@pytest.mark.parametrize(
    ("error", "layer", "attempts", "level", "event"),
    [
        (None, "execute", 1, logging.INFO, "call completed"),
        (ErrorType.PARAM_INVALID, "schema", 0, logging.WARNING, "call rejected"),
        (ErrorType.TOOL_NOT_ALLOWED, "business", 0, logging.WARNING, "call denied"),
        (ErrorType.UNCERTAIN_RESULT, "execute", 1, logging.WARNING, "call uncertain"),
        (ErrorType.TOOL_ERROR, "execute", 1, logging.ERROR, "call failed"),
        (ErrorType.APPROVAL_REQUIRED, "approval", 0, logging.INFO, "call deferred"),
        (ErrorType.CANCELLED, "execute", 1, logging.INFO, "call cancelled"),
    ],
)
def test_one_line_per_call_with_the_level_of_its_outcome(
    driver: Driver, caplog: pytest.LogCaptureFixture, error: Any, layer: Any, attempts: int, level: int, event: str
) -> None:
    caplog.set_level(logging.INFO, "fcguard")
    call = driver.start()
    if error is not None:
        call.failure = Failure.of(error, "canary", layer)
    driver.end(call, envelope() if error is None else failed(call.failure, attempts=attempts))  # type: ignore[arg-type]
    (record,) = of_fcguard(caplog)
    assert record.levelno == level
    assert record.getMessage().startswith(f"{event} tool=create_order request_id={call.request_id} ")
    assert record.fcguard["attempts"] == attempts
    assert record.fcguard.get("layer") == (layer if level == logging.WARNING and attempts == 0 else None) or error in (
        ErrorType.APPROVAL_REQUIRED,
    )


def test_line_is_bound_to_ids(recorded: Recorded, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "fcguard")
    driver = Driver(default_observer(tracer_provider=recorded.tracer_provider))
    parent = driver.start()
    child = driver.start(QUERY, purpose="confirm", parent=parent)
    driver.end(child, envelope(task_id="task-1", step=3), TaskContext(task_id="task-1"))
    driver.end(parent)
    fields = of_fcguard(caplog)[0].fcguard
    assert fields == {
        "tool": "query_order",
        "request_id": child.request_id,
        "trace_id": child.trace_id,
        "span_id": child.span_id,
        "task_id": "task-1",
        "purpose": "confirm",
        "parent_request_id": parent.request_id,
        "step": 3,
        "basis": "returned",
        "effect": "applied",
        "attempts": 1,
        "duration_ms": 12.5,
    }


def test_line_is_written_while_the_span_is_current(recorded: Recorded) -> None:
    from opentelemetry import trace

    seen: list[Any] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            seen.append(trace.get_current_span().get_span_context().span_id)

    handler = Handler()
    LOGGER.addHandler(handler)
    try:
        driver = Driver(default_observer(tracer_provider=recorded.tracer_provider))
        driver.refuse(Failure.of(ErrorType.PARAM_INVALID, "", "schema"))
    finally:
        LOGGER.removeHandler(handler)
    assert seen == [recorded.spans[0].context.span_id]


def test_debug_lines_tell_attempts_recoveries_and_steps(driver: Driver, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "fcguard")
    assert driver.observer.wants_stages
    call = driver.start()
    driver.observer.stage(call, "context", 1.0, 1.5)
    driver.attempt(call, error_type="TIMEOUT", effect="unknown", error=TimeoutError("canary"), delay=0.5)
    driver.recover(call, "confirm", "applied")
    driver.end(call)
    told = [(record.getMessage().split(" tool=")[0], record.fcguard) for record in of_fcguard(caplog)]
    assert [event for event, _ in told] == ["step ended", "attempt ended", "recovery ended", "call completed"]
    assert told[0][1]["stage"] == "context"
    assert told[0][1]["duration_ms"] == 500.0
    attempt = told[1][1]
    assert (attempt["attempt"], attempt["effect"], attempt["error_type"]) == (1, "unknown", "TIMEOUT")
    assert (attempt["exception_type"], attempt["delay_s"]) == ("TimeoutError", 0.5)
    assert (told[2][1]["action"], told[2][1]["result"]) == ("confirm", "applied")


STRUCTLOGS_OWN = {
    "event",
    "level",
    "timestamp",
    "logger",
    "exception",
    "exc_info",
    "stack",
    "stack_info",
    "positional_args",
}
"""Keys that processors and renderers of structlog give a meaning of their own: `exception` is printed below the line."""


def test_no_line_uses_a_key_that_structlog_has_a_meaning_for(driver: Driver, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "fcguard")
    driver.confirmed_write()
    driver.refuse(Failure.of(ErrorType.PARAM_INVALID, "", "schema"))
    call = driver.start()
    driver.observer.stage(call, "context", 1.0, 1.5)
    driver.attempt(call, error_type="TOOL_ERROR", error=ValueError("canary"), delay=0.5)
    driver.end(call)
    fields = {key for record in of_fcguard(caplog) for key in record.fcguard}
    assert {"exception_type", "attempt", "error_type", "stage", "next_action", "duration_ms"} <= fields
    assert fields & STRUCTLOGS_OWN == set()


def test_no_debug_lines_at_info(driver: Driver, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "fcguard")
    assert not driver.observer.wants_stages
    call = driver.start()
    driver.observer.stage(call, "context", 1.0, 1.5)
    driver.attempt(call)
    driver.recover(call, "retry", "again")
    driver.end(call)
    assert len(of_fcguard(caplog)) == 1


def test_invented_name_is_not_logged(driver: Driver, caplog: pytest.LogCaptureFixture) -> None:
    driver.refuse(Failure.of(ErrorType.TOOL_UNKNOWN, "canary", "intent"), None, name="canary")
    (record,) = of_fcguard(caplog)
    assert record.fcguard["tool"] == "_unknown"
    assert "canary" not in record.getMessage()


def test_call_without_an_envelope_is_logged_as_failed(driver: Driver, caplog: pytest.LogCaptureFixture) -> None:
    call = driver.start()
    driver.observer.call_ended(call)
    assert of_fcguard(caplog)[0].levelno == logging.ERROR


def test_nobody_listens_and_nothing_is_put_together(driver: Driver) -> None:
    class Never:
        def __getattr__(self, name: str) -> Any:
            raise AssertionError(name)

    root = logging.getLogger()
    handlers = root.handlers[:]
    for handler in handlers:
        root.removeHandler(handler)
    try:
        driver.observer.call_ended(Never())  # type: ignore[arg-type]
        driver.observer.attempt_ended(Never(), Never())  # type: ignore[arg-type]
    finally:
        for handler in handlers:
            root.addHandler(handler)
    assert not driver.observer.wants_stages


def test_logger_that_does_not_propagate_is_heard_by_its_own_handlers_alone(
    driver: Driver, caplog: pytest.LogCaptureFixture
) -> None:
    LOGGER.propagate = False
    try:
        driver.refuse(Failure.of(ErrorType.PARAM_INVALID, "", "schema"))
    finally:
        LOGGER.propagate = True
    assert of_fcguard(caplog) == []


def test_line_says_which_module_wrote_it_and_is_not_interpolated(
    driver: Driver, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "fcguard")
    call = driver.start()
    driver.end(call, envelope(task_id="50%s"), TaskContext(task_id="50%s"))
    (record,) = of_fcguard(caplog)
    assert (record.module, record.funcName) == ("log", "_write")
    assert "_write" in Path(record.pathname).read_text().splitlines()[record.lineno - 1]
    assert " task_id=50%s " in record.getMessage()
    assert record.fcguard["task_id"] == "50%s"


def test_disabled_logger_writes_nothing(driver: Driver, caplog: pytest.LogCaptureFixture) -> None:
    LOGGER.disabled = True
    try:
        driver.end(driver.start())
    finally:
        LOGGER.disabled = False
    assert of_fcguard(caplog) == []


class Sink:
    """A structlog logger that keeps what it gets."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []

    def msg(self, text: str) -> None:
        self.lines.append(json.loads(text))

    debug = info = warning = error = msg


def host(level: int = logging.DEBUG, *, wrapper: Any = None, cache: bool = True, named: bool = True) -> Sink:
    """Configure structlog as a host does."""
    sink = Sink()
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.JSONRenderer(),
        ],
        wrapper_class=wrapper or structlog.make_filtering_bound_logger(level),
        logger_factory=(lambda *_: sink) if named else (lambda: sink),
        cache_logger_on_first_use=cache,
    )
    return sink


@pytest.mark.parametrize("cache", [True, False])
@pytest.mark.parametrize("named", [True, False])
def test_hosts_structlog_gets_the_line(
    driver: Driver, caplog: pytest.LogCaptureFixture, cache: bool, named: bool
) -> None:
    sink = host(cache=cache, named=named)
    structlog.contextvars.bind_contextvars(host_id="h-1")
    call = driver.succeed()
    driver.succeed()
    last = [line for line in sink.lines if line["event"] == "call completed"]
    assert len(last) == 2
    assert last[0]["request_id"] == call.request_id
    assert last[0]["level"] == "info"
    assert last[0]["host_id"] == "h-1"
    assert of_fcguard(caplog) == []


def test_host_that_configures_anew_is_followed(driver: Driver) -> None:
    first = host()
    driver.succeed()
    second = host()
    driver.succeed()
    assert [len([line for line in sink.lines if line["event"] == "call completed"]) for sink in (first, second)] == [
        1,
        1,
    ]


def test_hosts_level_is_respected(driver: Driver) -> None:
    sink = host(logging.WARNING)
    driver.succeed()
    assert not driver.observer.wants_stages
    driver.refuse(Failure.of(ErrorType.PARAM_INVALID, "", "schema"))
    assert [line["event"] for line in sink.lines] == ["call rejected"]


def test_generic_bound_logger_is_not_asked_for_its_level(driver: Driver) -> None:
    sink = host(wrapper=structlog.BoundLogger)
    driver.succeed()
    assert [line["event"] for line in sink.lines] == ["attempt ended", "call completed"]


def test_stdlib_bound_logger_of_a_host(driver: Driver, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "fcguard")
    structlog.configure(
        processors=[structlog.stdlib.render_to_log_kwargs],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
    )
    driver.succeed()
    (record,) = of_fcguard(caplog)
    assert record.getMessage() == "call completed"
    assert record.tool == "create_order"


@pytest.mark.parametrize(
    "key", ["event", "level", "logger", "exc_info", "stack_info", "timestamp", "tool", "positional_args"]
)
def test_reserved_keys_of_the_host_do_not_break_a_line(driver: Driver, key: str) -> None:
    sink = host()
    structlog.contextvars.bind_contextvars(**{key: True})
    call = driver.succeed()
    lines = [line for line in sink.lines if line["request_id"] == call.request_id]
    assert lines[-1]["event"] == "call completed"
    assert lines[-1]["tool"] == "create_order"


@pytest.mark.parametrize("key", ["name", "message", "args", "levelname", "exc_info"])
def test_reserved_keys_of_stdlib_do_not_break_a_line(
    driver: Driver, caplog: pytest.LogCaptureFixture, key: str
) -> None:
    caplog.set_level(logging.INFO, "fcguard")
    structlog.configure(
        processors=[structlog.contextvars.merge_contextvars, structlog.stdlib.render_to_log_kwargs],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
    )
    structlog.contextvars.bind_contextvars(**{key: "host"})
    driver.succeed()
    assert [record.getMessage().split(" tool=")[0] for record in of_fcguard(caplog)] == ["call completed"]


def test_handler_that_raises_breaks_no_call(observer: LogObserver) -> None:
    class Broken(logging.Handler):
        def handle(self, record: logging.LogRecord) -> bool:
            raise RuntimeError("broken")

    handler = Broken()
    LOGGER.addHandler(handler)
    LOGGER.setLevel(logging.DEBUG)
    try:
        call = Driver(observer).succeed()
    finally:
        LOGGER.removeHandler(handler)
        LOGGER.setLevel(logging.NOTSET)
    assert call.result.success
    assert observer.faults == 2


def test_structlog_that_cannot_be_bound_breaks_no_call(observer: LogObserver) -> None:
    def factory(*_: Any) -> Any:
        raise RuntimeError("broken")

    structlog.configure(logger_factory=factory)
    call = Driver(observer).succeed()
    assert call.result.success
    assert observer.faults == 2
