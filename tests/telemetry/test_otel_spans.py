"""Spans of governed calls: which there are, how they nest, and what their status says."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import threading
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import StatusCode

from fcguard.errors import ConfigurationError
from fcguard.model.context import TaskContext
from fcguard.model.evidence import Evidence
from fcguard.model.failure import ErrorType, Failure, Halt, Problem
from fcguard.telemetry.observer import Origin
from fcguard.telemetry.otel import OtelObserver
from tests.telemetry.telemetry_driver import CREATE, QUERY, Driver, Recorded, envelope, failed


@pytest.fixture
def observer(recorded: Recorded) -> OtelObserver:
    return OtelObserver(tracer_provider=recorded.tracer_provider, meter_provider=recorded.meter_provider)


@pytest.fixture
def driver(observer: OtelObserver) -> Any:
    yield Driver(observer)
    assert observer.faults == 0


def attributes(span: Any) -> dict[str, Any]:
    return dict(span.attributes)


def test_worked_example_has_the_tree_of_the_design(driver: Driver, recorded: Recorded) -> None:
    driver.confirmed_write()

    assert recorded.tree() == [
        (0, "execute_tool create_order"),
        (1, "fcguard.attempt create_order"),
        (1, "fcguard.recover"),
        (2, "execute_tool query_order"),
        (3, "fcguard.attempt query_order"),
    ]
    root = recorded.span("execute_tool create_order")
    assert root.status.status_code is StatusCode.UNSET
    assert attributes(root)["fcguard.outcome"] == "completed"
    assert attributes(root)["fcguard.outcome.basis"] == "confirmed"
    assert attributes(root)["fcguard.attempts"] == 1
    attempt = recorded.span("fcguard.attempt create_order")
    assert attempt.status.status_code is StatusCode.ERROR
    assert attributes(attempt) == {
        "fcguard.attempt.number": 1,
        "fcguard.attempt.timeout": 2.0,
        "fcguard.attempt.effect": "unknown",
        "error.type": "TIMEOUT",
    }
    recover = recorded.span("fcguard.recover")
    assert attributes(recover) == {"fcguard.recovery.action": "confirm", "fcguard.recovery.outcome": "applied"}
    assert recover.status.status_code is StatusCode.UNSET
    assert attributes(recorded.span("execute_tool query_order"))["fcguard.call.purpose"] == "confirm"


def test_call_learns_its_trace_and_span_id(driver: Driver, recorded: Recorded) -> None:
    call = driver.succeed()
    context = recorded.span("execute_tool create_order").context
    assert (call.trace_id, call.span_id) == (f"{context.trace_id:032x}", f"{context.span_id:016x}")


def test_span_says_what_the_tool_and_the_task_are(driver: Driver, recorded: Recorded) -> None:
    call = driver.start(call_id="call_7")
    driver.attempt(call)
    context = TaskContext(task_id="task-1", agent="orders", conversation_id="c-9")
    driver.end(call, envelope(task_id="task-1", step=4), context)

    assert attributes(recorded.span("execute_tool create_order")) == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "create_order",
        "gen_ai.tool.type": "function",
        "gen_ai.tool.description": "Create an order.",
        "gen_ai.tool.call.id": "call_7",
        "gen_ai.agent.name": "orders",
        "gen_ai.conversation.id": "c-9",
        "fcguard.request.id": call.request_id,
        "fcguard.task.id": "task-1",
        "fcguard.step": 4,
        "fcguard.tool.effect": "write",
        "fcguard.tool.version": "3",
        "fcguard.call.purpose": "primary",
        "fcguard.outcome": "completed",
        "fcguard.outcome.basis": "returned",
        "fcguard.attempts": 1,
    }


def test_schema_refusal_is_an_error_without_attempts(driver: Driver, recorded: Recorded) -> None:
    driver.refuse(Failure.of(ErrorType.PARAM_INVALID, "quantity: canary", "schema"))

    (root,) = recorded.spans
    assert root.status.status_code is StatusCode.ERROR
    found = attributes(root)
    assert found["error.type"] == "PARAM_INVALID"
    assert found["fcguard.outcome"] == "rejected"
    assert found["fcguard.attempts"] == 0
    assert found["fcguard.validation.layer"] == "schema"
    assert found["fcguard.failure.class"] == "PARAMETER"
    assert found["fcguard.next_action"] == "fix_arguments"
    assert found["fcguard.retryable"] is False


@pytest.mark.parametrize(
    ("failure", "fields", "outcome", "is_error"),
    [
        (Failure.of(ErrorType.TOOL_NOT_ALLOWED, "", "business"), {}, "denied", True),
        (Failure.of(ErrorType.APPROVAL_DENIED, "", "approval"), {}, "denied", True),
        (Failure.of(ErrorType.APPROVAL_REQUIRED, "", "approval"), {}, "deferred", False),
        (Failure.of(ErrorType.TOOL_ERROR, "", "execute"), {"attempts": 2}, "failed", True),
        (Failure.of(ErrorType.UNCERTAIN_RESULT, "", "execute", effect="unknown"), {"attempts": 1}, "uncertain", True),
        (Failure.of(ErrorType.CANCELLED, "", "execute"), {"attempts": 1}, "cancelled", False),
        (Failure.of(ErrorType.CANCELLED, "", "execute", effect="unknown"), {"attempts": 1}, "uncertain", True),
        (Failure.of(ErrorType.CIRCUIT_OPEN, "", "execution"), {}, "rejected", True),
    ],
)
def test_outcome_decides_the_status(
    driver: Driver, recorded: Recorded, failure: Failure, fields: dict[str, Any], outcome: str, is_error: bool
) -> None:
    call = driver.start()
    call.failure = failure
    driver.end(call, failed(failure, **fields))

    (root,) = recorded.spans
    assert attributes(root)["fcguard.outcome"] == outcome
    assert (root.status.status_code is StatusCode.ERROR) is is_error
    assert attributes(root).get("error.type") == (failure.error_type if is_error else None)


def test_replay_is_no_error_and_no_attempt(driver: Driver, recorded: Recorded) -> None:
    driver.end(driver.start(), envelope(outcome_basis="replayed", attempts=1))
    found = attributes(recorded.spans[0])
    assert (found["fcguard.outcome"], found["fcguard.attempts"]) == ("deduplicated", 0)


def test_name_that_a_model_invents_is_unknown(driver: Driver, recorded: Recorded) -> None:
    driver.refuse(Failure.of(ErrorType.TOOL_UNKNOWN, "", "intent"), None, name="canary_tool")

    (root,) = recorded.spans
    assert root.name == "execute_tool _unknown"
    assert "canary" not in root.to_json()


def test_name_that_is_resolved_later_ends_up_on_the_span(driver: Driver, recorded: Recorded) -> None:
    call = driver.start(None, name="functions.create_order")
    call.tool = CREATE
    driver.attempt(call)
    driver.end(call)

    assert [span.name for span in recorded.spans] == ["execute_tool create_order", "fcguard.attempt create_order"]
    assert attributes(recorded.spans[0])["gen_ai.tool.name"] == "create_order"


def test_own_error_code_that_is_no_code_is_masked(driver: Driver, recorded: Recorded) -> None:
    driver.refuse(Failure.of("order A-17 not paid", "", "business", next_action="call 555 now"))
    found = attributes(recorded.spans[0])
    assert found["error.type"] == "_OTHER"
    assert "fcguard.next_action" not in found


def test_retry_shows_delay_and_leaves_the_root_clean(driver: Driver, recorded: Recorded) -> None:
    call = driver.start(QUERY)
    driver.attempt(call, error_type="CONNECTION_FAILED", timeout=None)
    driver.recover(call, "retry", "again")
    driver.attempt(call, delay=0.25)
    driver.end(call, envelope(tool_name="query_order", attempts=2))

    assert recorded.tree() == [
        (0, "execute_tool query_order"),
        (1, "fcguard.attempt query_order"),
        (1, "fcguard.recover"),
        (1, "fcguard.attempt query_order"),
    ]
    root, first, _, second = recorded.spans
    assert root.status.status_code is StatusCode.UNSET
    assert "fcguard.attempt.timeout" not in attributes(first)
    assert attributes(second)["fcguard.attempt.delay"] == 0.25
    assert attributes(second)["fcguard.attempt.effect"] == "none"


def test_cancelled_attempt_is_no_error(driver: Driver, recorded: Recorded) -> None:
    call = driver.start()
    driver.attempt(call, error_type="CANCELLED", effect="unknown")
    driver.end(call)
    attempt = recorded.span("fcguard.attempt create_order")
    assert attempt.status.status_code is StatusCode.UNSET
    assert attributes(attempt)["fcguard.attempt.effect"] == "unknown"


def test_tool_sees_the_attempt_as_current_span(driver: Driver, recorded: Recorded) -> None:
    seen: list[Any] = []
    call = driver.start()

    def tool() -> None:
        seen.append(trace.get_current_span().get_span_context().span_id)
        copied = contextvars.copy_context()
        thread = threading.Thread(
            target=copied.run, args=(lambda: seen.append(trace.get_current_span().get_span_context().span_id),)
        )
        thread.start()
        thread.join()

    driver.attempt(call, tool)
    driver.end(call)

    assert seen == [recorded.span("fcguard.attempt create_order").context.span_id] * 2
    assert trace.get_current_span() is trace.INVALID_SPAN


def test_spans_that_were_left_open_are_closed_with_the_call(driver: Driver, recorded: Recorded) -> None:
    from fcguard.model.attempt import Attempt

    call = driver.start()
    driver.observer.recovery_started(call, "confirm")
    attempt = Attempt(1, 0.0, 0.0, None, 0.0)
    driver.observer.attempt_started(call, attempt)
    driver.end(call)
    driver.observer.attempt_ended(call, attempt)
    driver.observer.recovery_ended(call, "confirm", "applied")

    assert attributes(recorded.span("fcguard.recover"))["fcguard.recovery.outcome"] == "interrupted"
    assert attributes(recorded.span("fcguard.attempt create_order"))["fcguard.attempt.effect"] == "unknown"
    assert trace.get_current_span() is trace.INVALID_SPAN


def test_recovery_closes_an_attempt_that_was_left_open_in_it(driver: Driver, recorded: Recorded) -> None:
    from fcguard.model.attempt import Attempt

    call = driver.start()
    driver.observer.recovery_started(call, "confirm")
    driver.observer.attempt_started(call, Attempt(1, 0.0, 0.0, None, 0.0))
    driver.observer.recovery_ended(call, "confirm", "not_applied")
    driver.end(call)
    assert [depth for depth, _ in recorded.tree()] == [0, 1, 2]


def test_detail_call_gives_one_span(recorded: Recorded) -> None:
    Driver(OtelObserver(tracer_provider=recorded.tracer_provider, span_detail="call")).confirmed_write()
    assert [span.name for span in recorded.spans] == ["execute_tool create_order", "execute_tool query_order"]


def test_detail_stages_shows_the_steps(recorded: Recorded) -> None:
    observer = OtelObserver(tracer_provider=recorded.tracer_provider, span_detail="stages")
    driver = Driver(observer)
    assert observer.wants_stages
    call = driver.start()
    call.evidence = [Evidence("log", "logs/x.log")]
    observer.stage(call, "context", 10.0, 11.0)
    observer.stage(call, "result", 11.0, 12.0)
    call.failure = Failure.of(ErrorType.PARAM_INVALID, "", "schema", problems=(Problem("a", "type", ""),) * 2)
    with contextlib.suppress(Halt):
        try:
            raise Halt(call.failure)
        finally:
            observer.stage(call, "validate", 12.0, 12.5)
    with contextlib.suppress(Halt):
        try:
            raise Halt(None)
        finally:
            observer.stage(call, "record", 12.5, 12.6)
    driver.end(call, failed(call.failure))

    context, result, validate = (recorded.span(f"fcguard.{name}") for name in ("context", "result", "validate"))
    assert (context.start_time, context.end_time) == (10_000_000_000, 11_000_000_000)
    assert context.parent is not None
    assert attributes(context) == {}
    assert attributes(result) == {"fcguard.stage.count": 1}
    assert attributes(validate) == {"fcguard.stage.count": 2, "error.type": "PARAM_INVALID"}
    assert recorded.span("fcguard.record").status.status_code is StatusCode.UNSET
    assert observer.faults == 0


def test_stages_are_silent_without_the_wish(driver: Driver, recorded: Recorded) -> None:
    call = driver.start()
    assert not driver.observer.wants_stages
    driver.observer.stage(call, "context", 10.0, 11.0)
    driver.end(call)
    assert [span.name for span in recorded.spans] == ["execute_tool create_order"]


def test_resumed_call_is_linked_to_its_first_part(driver: Driver, recorded: Recorded) -> None:
    first = driver.refuse(Failure.of(ErrorType.APPROVAL_REQUIRED, "", "approval"))
    driver.end(driver.start(observed=Origin(first.trace_id or "", first.span_id or "")))

    deferred, resumed = recorded.spans
    assert [link.context.span_id for link in resumed.links] == [deferred.context.span_id]
    assert resumed.parent is None


@pytest.mark.parametrize("origin", [Origin("", ""), Origin("zz", "1"), Origin("0" * 32, "0" * 16)])
def test_origin_that_is_none_is_passed_over(driver: Driver, recorded: Recorded, origin: Origin) -> None:
    driver.end(driver.start(observed=origin))
    assert recorded.spans[0].links == ()


def test_sampled_out_call_has_ids_but_no_spans(recorded: Recorded) -> None:
    provider = TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False)
    call = Driver(OtelObserver(tracer_provider=provider)).confirmed_write()
    assert len(call.trace_id or "") == 32
    assert recorded.spans == []
    assert trace.get_current_span() is trace.INVALID_SPAN


def test_asyncio_tasks_do_not_mix_their_calls(driver: Driver, recorded: Recorded) -> None:
    async def one(barrier: asyncio.Barrier) -> None:
        call = driver.start()
        await barrier.wait()
        driver.attempt(call)
        await barrier.wait()
        driver.end(call)

    async def both() -> None:
        barrier = asyncio.Barrier(2)
        await asyncio.gather(one(barrier), one(barrier))

    asyncio.run(both())
    assert [depth for depth, _ in recorded.tree()] == [0, 1, 0, 1]


def test_call_that_ends_in_another_context_is_quiet(
    driver: Driver, recorded: Recorded, caplog: pytest.LogCaptureFixture
) -> None:
    call = contextvars.copy_context().run(driver.start)
    driver.end(call)
    assert len(recorded.spans) == 1
    assert caplog.records == []


def test_ended_without_an_envelope_is_a_failure(driver: Driver, recorded: Recorded) -> None:
    call = driver.start()
    driver.observer.call_ended(call)
    found = attributes(recorded.spans[0])
    assert (found["fcguard.outcome"], found["error.type"]) == ("failed", "_OTHER")


@pytest.mark.parametrize("option", [{"span_detail": "all"}, {"capture_content": "yes"}])
def test_unknown_option_is_refused(option: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(option.values()))):
        OtelObserver(**option)


class Broken:
    """A tracer provider whose spans raise wherever they can."""

    def get_tracer(self, *_: Any, **__: Any) -> Any:
        return self

    def start_span(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError("broken")


class BrokenSpan(trace.NonRecordingSpan):
    """A span that records, and raises whenever it is told something."""

    def is_recording(self) -> bool:
        return True

    def set_attributes(self, attributes: Any) -> None:
        raise RuntimeError("broken")

    set_attribute = set_attributes  # type: ignore[assignment]

    def set_status(self, *_: Any, **__: Any) -> None:
        raise RuntimeError("broken")

    def end(self, end_time: int | None = None) -> None:
        raise RuntimeError("broken")


class HalfBroken(Broken):
    """A tracer provider whose spans can be started."""

    def start_span(self, *_: Any, **__: Any) -> Any:
        return BrokenSpan(trace.SpanContext(1, 1, False))


class SoonBroken(Broken):
    """A tracer provider that can start one span only."""

    def __init__(self) -> None:
        self.left = 1

    def start_span(self, *_: Any, **__: Any) -> Any:
        self.left -= 1
        if self.left < 0:
            raise RuntimeError("broken")
        return BrokenSpan(trace.SpanContext(1, 1, False))


@pytest.mark.parametrize("provider", [Broken(), HalfBroken(), SoonBroken()])
def test_broken_telemetry_never_breaks_a_call(provider: Any) -> None:
    observer = OtelObserver(tracer_provider=provider, span_detail="stages")
    driver = Driver(observer)
    call = driver.confirmed_write()
    call = driver.start()
    observer.stage(call, "record", 1.0, 2.0)
    driver.refuse(Failure.of(ErrorType.PARAM_INVALID, "", "schema"))
    driver.end(call)
    assert call.result.success
    assert observer.faults > 0
    assert trace.get_current_span() is trace.INVALID_SPAN


def test_late_endings_without_a_call_are_quiet(driver: Driver, recorded: Recorded) -> None:
    call = driver.succeed()
    driver.observer.recovery_started(call, "wait")
    driver.observer.recovery_ended(call, "wait", "gave_up")
    attempt = driver.attempt(call)
    assert attempt.observed is None
    assert len(recorded.spans) == 2


def test_sampled_out_parent_keeps_ids_valid(recorded: Recorded) -> None:
    observer = OtelObserver(tracer_provider=recorded.tracer_provider)
    with trace.use_span(trace.NonRecordingSpan(trace.SpanContext(1, 2, True))):
        call = Driver(observer).succeed()
    assert call.trace_id == "0" * 31 + "1"
    assert recorded.spans == []
