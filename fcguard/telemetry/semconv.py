"""One table of every span, metric and attribute key that fcguard emits.

The `gen_ai.*` keys follow the OpenTelemetry semantic conventions for generative AI (status: development). Their Python
constants are deprecated, so the strings stand here, and a test compares them with the registry.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal, get_args

from fcguard.model.call import Purpose
from fcguard.model.failure import Effect, EffectState, FailureClass, NextAction
from fcguard.model.result import OutcomeBasis
from fcguard.telemetry.outcome import VALIDATION_LAYERS, Outcome

__all__ = ["ATTRIBUTES", "METRICS", "SCHEMA_URL", "SCOPE", "SPANS", "Attribute", "Metric", "SpanName"]

SCOPE: Final = "fcguard"
"""Name of the instrumentation scope."""

SCHEMA_URL: Final = "https://opentelemetry.io/schemas/gen-ai-dev/1.42.0-dev"

EXECUTE_TOOL: Final = "execute_tool"
UNKNOWN_TOOL: Final = "_unknown"
"""Stands for a name that is not registered: what a model invents never becomes a span name or a metric attribute."""
OTHER: Final = "_other"
"""Stands for every tool beyond the limit of series."""
OTHER_ERROR: Final = "_OTHER"
"""Stands for an error type that is not a code."""

OPERATION_NAME: Final = "gen_ai.operation.name"
TOOL_NAME: Final = "gen_ai.tool.name"
TOOL_TYPE: Final = "gen_ai.tool.type"
TOOL_DESCRIPTION: Final = "gen_ai.tool.description"
TOOL_CALL_ID: Final = "gen_ai.tool.call.id"
TOOL_CALL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
TOOL_CALL_RESULT: Final = "gen_ai.tool.call.result"
AGENT_NAME: Final = "gen_ai.agent.name"
CONVERSATION_ID: Final = "gen_ai.conversation.id"
ERROR_TYPE: Final = "error.type"

REQUEST_ID: Final = "fcguard.request.id"
TASK_ID: Final = "fcguard.task.id"
STEP: Final = "fcguard.step"
TOOL_EFFECT: Final = "fcguard.tool.effect"
TOOL_VERSION: Final = "fcguard.tool.version"
PURPOSE: Final = "fcguard.call.purpose"
OUTCOME: Final = "fcguard.outcome"
OUTCOME_BASIS: Final = "fcguard.outcome.basis"
ATTEMPTS: Final = "fcguard.attempts"
VALIDATION_LAYER: Final = "fcguard.validation.layer"
FAILURE_CLASS: Final = "fcguard.failure.class"
NEXT_ACTION: Final = "fcguard.next_action"
RETRYABLE: Final = "fcguard.retryable"
ATTEMPT_NUMBER: Final = "fcguard.attempt.number"
ATTEMPT_DELAY: Final = "fcguard.attempt.delay"
ATTEMPT_TIMEOUT: Final = "fcguard.attempt.timeout"
ATTEMPT_EFFECT: Final = "fcguard.attempt.effect"
RECOVERY_ACTION: Final = "fcguard.recovery.action"
RECOVERY_OUTCOME: Final = "fcguard.recovery.outcome"
STAGE_COUNT: Final = "fcguard.stage.count"

CALL, ATTEMPT, RECOVER, STAGE = "execute_tool", "attempt", "recover", "stage"
"""The four kinds of span, as `Attribute.where` names them."""

ATTEMPT_SPAN: Final = "fcguard.attempt"
RECOVER_SPAN: Final = "fcguard.recover"
STAGE_SPANS: Final = {
    name: f"fcguard.{name}" for name in ("context", "intent", "normalize", "validate", "result", "record")
}

DURATION: Final = "gen_ai.execute_tool.duration"
CALLS: Final = "fcguard.calls"
CALL_ATTEMPTS: Final = "fcguard.call.attempts"
VALIDATION_FAILURES: Final = "fcguard.validation.failures"
RECOVERIES: Final = "fcguard.recoveries"
UNRESOLVED: Final = "fcguard.calls.unresolved"
EVIDENCE_DURATION: Final = "fcguard.evidence.write.duration"
EVIDENCE_FAILURES: Final = "fcguard.evidence.write.failures"

DURATION_BUCKETS: Final = tuple(0.01 * 2**power for power in range(14))
"""Seconds, 0.01 to 81.92, as the conventions advise for tool calls."""
WRITE_BUCKETS: Final = tuple(0.0001 * 2**power for power in range(14))
"""Seconds, 0.0001 to 0.8192: one commit of the ledger."""

SERIES_LIMIT: Final = 2000
"""Most series of one instrument."""

Type = Literal["string", "int", "double", "boolean"]
Requirement = Literal["required", "conditionally_required", "recommended", "opt_in"]


@dataclass(frozen=True, slots=True)
class Attribute:
    """One attribute key.

    Attributes:
        key: name of the attribute.
        type: of its value.
        where: kinds of span that carry it.
        requirement: level in the sense of the semantic conventions.
        description: what it says, and when it is there.
        values: the closed set of values; None: open.
    """

    key: str
    type: Type
    where: tuple[str, ...]
    requirement: Requirement
    description: str
    values: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class SpanName:
    """One kind of span: how its name is made, how many there are, and which `span_detail` shows it."""

    kind: str
    name: str
    detail: str
    description: str


@dataclass(frozen=True, slots=True)
class Metric:
    """One instrument and the attribute keys of its series."""

    name: str
    instrument: Literal["histogram", "counter", "gauge"]
    unit: str
    attributes: tuple[str, ...]
    description: str
    buckets: tuple[float, ...] | None = None


_ACTIONS: Final = ("retry", "confirm", "wait", "switch", "fallback")
_RESULTS: Final = ("applied", "not_applied", "inconclusive", "again", "answered", "gave_up", "interrupted")


def _quoted(words: Iterable[str]) -> str:
    return ", ".join(f"`{word}`" for word in words)


ATTRIBUTES: Final[dict[str, Attribute]] = {
    row.key: row
    for row in (
        Attribute(OPERATION_NAME, "string", (CALL,), "required", "Always `execute_tool`.", (EXECUTE_TOOL,)),
        Attribute(
            TOOL_NAME,
            "string",
            (CALL,),
            "required",
            "The registered name; `_unknown` for a name that is not registered.",
        ),
        Attribute(
            TOOL_TYPE, "string", (CALL,), "recommended", "Always `function`, once the tool is known.", ("function",)
        ),
        Attribute(
            TOOL_DESCRIPTION,
            "string",
            (CALL,),
            "recommended",
            "What the tool's author wrote for the model, at most 1024 characters.",
        ),
        Attribute(TOOL_CALL_ID, "string", (CALL,), "recommended", "The model's own id of the call, if it gave one."),
        Attribute(
            TOOL_CALL_ARGUMENTS,
            "string",
            (CALL,),
            "opt_in",
            "Arguments as JSON, at most 8 KiB; only with `capture_content`.",
        ),
        Attribute(
            TOOL_CALL_RESULT,
            "string",
            (CALL,),
            "opt_in",
            "Data of the envelope as JSON, at most 8 KiB; only with `capture_content`.",
        ),
        Attribute(AGENT_NAME, "string", (CALL,), "conditionally_required", "`agent` of the task's context, if set."),
        Attribute(
            CONVERSATION_ID,
            "string",
            (CALL,),
            "conditionally_required",
            "`conversation_id` of the task's context, if set.",
        ),
        Attribute(
            ERROR_TYPE,
            "string",
            (CALL, ATTEMPT, STAGE),
            "conditionally_required",
            "A built-in error type or a rule's own code; there exactly if the span's status is ERROR.",
        ),
        Attribute(
            REQUEST_ID,
            "string",
            (CALL,),
            "required",
            "The one id that ties envelope, ledger, log file, artifacts and span.",
        ),
        Attribute(TASK_ID, "string", (CALL,), "conditionally_required", "Id of the task, in a task."),
        Attribute(STEP, "int", (CALL,), "conditionally_required", "Number of the step in the task, in a task."),
        Attribute(
            TOOL_EFFECT,
            "string",
            (CALL,),
            "conditionally_required",
            "What the tool does to the world, once it is known.",
            get_args(Effect),
        ),
        Attribute(TOOL_VERSION, "string", (CALL,), "conditionally_required", "Version of the tool, once it is known."),
        Attribute(
            PURPOSE,
            "string",
            (CALL,),
            "required",
            "Whether the call was asked for, or is a part of a recovery.",
            get_args(Purpose),
        ),
        Attribute(OUTCOME, "string", (CALL,), "required", "How the call ended.", get_args(Outcome)),
        Attribute(
            OUTCOME_BASIS,
            "string",
            (CALL,),
            "conditionally_required",
            "Why a success counts as one, on success.",
            get_args(OutcomeBasis),
        ),
        Attribute(ATTEMPTS, "int", (CALL,), "required", "How often the tool was started; 0 for a refused call."),
        Attribute(
            VALIDATION_LAYER,
            "string",
            (CALL,),
            "conditionally_required",
            "Which layer refused the call.",
            tuple(sorted(VALIDATION_LAYERS)),
        ),
        Attribute(
            FAILURE_CLASS,
            "string",
            (CALL,),
            "conditionally_required",
            "Family of the error, without success.",
            tuple(map(str, FailureClass)),
        ),
        Attribute(
            NEXT_ACTION,
            "string",
            (CALL,),
            "conditionally_required",
            f"What the caller should do, without success: {_quoted(NextAction)}, or a rule's own word.",
        ),
        Attribute(
            RETRYABLE,
            "boolean",
            (CALL,),
            "conditionally_required",
            "Whether the same call may be sent again without risk, without success.",
        ),
        Attribute(ATTEMPT_NUMBER, "int", (ATTEMPT,), "required", "From 1."),
        Attribute(
            ATTEMPT_DELAY,
            "double",
            (ATTEMPT,),
            "conditionally_required",
            "Pause before the attempt in seconds, if there was one.",
        ),
        Attribute(
            ATTEMPT_TIMEOUT, "double", (ATTEMPT,), "conditionally_required", "Seconds that it was given, if limited."
        ),
        Attribute(
            ATTEMPT_EFFECT,
            "string",
            (ATTEMPT,),
            "required",
            "What is known of this attempt's effect.",
            get_args(EffectState),
        ),
        Attribute(RECOVERY_ACTION, "string", (RECOVER,), "required", f"What was done: {_quoted(_ACTIONS)}."),
        Attribute(
            RECOVERY_OUTCOME,
            "string",
            (RECOVER,),
            "required",
            f"What came of it: {_quoted(_RESULTS)}, or a further word.",
        ),
        Attribute(
            STAGE_COUNT,
            "int",
            (STAGE,),
            "recommended",
            "Problems found by `normalize` and `validate`, evidence kept by `result`.",
        ),
    )
}
"""Attribute key -> row. The one list of what may be emitted."""

SPANS: Final = (
    SpanName(
        CALL,
        "execute_tool {gen_ai.tool.name}",
        "call",
        "One per governed call, all retries inside; also for confirmations and fallbacks.",
    ),
    SpanName(ATTEMPT, "fcguard.attempt {tool}", "attempts", "One per dispatch of the tool."),
    SpanName(RECOVER, RECOVER_SPAN, "attempts", "One per recovery action."),
    *(SpanName(STAGE, name, "stages", f"The step `{stage}`.") for stage, name in STAGE_SPANS.items()),
)

METRICS: Final[dict[str, Metric]] = {
    row.name: row
    for row in (
        Metric(
            DURATION,
            "histogram",
            "s",
            (TOOL_NAME, TOOL_TYPE, AGENT_NAME, ERROR_TYPE),
            "Duration of a governed call.",
            DURATION_BUCKETS,
        ),
        Metric(CALLS, "counter", "{call}", (TOOL_NAME, OUTCOME), "Governed calls by outcome."),
        Metric(CALL_ATTEMPTS, "counter", "{attempt}", (TOOL_NAME,), "Dispatches of tools, retries included."),
        Metric(VALIDATION_FAILURES, "counter", "{call}", (TOOL_NAME, VALIDATION_LAYER), "Calls that a layer refused."),
        Metric(
            RECOVERIES,
            "counter",
            "{recovery}",
            (TOOL_NAME, RECOVERY_ACTION, RECOVERY_OUTCOME),
            "Recovery actions by outcome.",
        ),
        Metric(UNRESOLVED, "gauge", "{call}", (), "Calls in the ledger whose effect nobody knows yet."),
        Metric(EVIDENCE_DURATION, "histogram", "s", (), "Duration of one durable write to the ledger.", WRITE_BUCKETS),
        Metric(EVIDENCE_FAILURES, "counter", "{write}", (), "Writes to the ledger that failed."),
    )
}
"""Metric name -> row."""
