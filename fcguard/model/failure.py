"""What can go wrong with a call: one table of error types, their class, and what to do next."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Literal

__all__ = [
    "TAXONOMY",
    "Effect",
    "EffectState",
    "ErrorType",
    "Failure",
    "FailureClass",
    "Halt",
    "Layer",
    "NextAction",
    "Problem",
    "Violation",
    "class_of",
]

_CODE: Final = re.compile(r"[A-Z][A-Z0-9_.:-]{0,127}").fullmatch
_WORD: Final = re.compile(r"[a-z][a-z0-9_]{0,63}").fullmatch

Effect = Literal["read", "idempotent_write", "write", "destructive"]
"""What a tool does to the world. Undeclared means `write`: not idempotent."""

EffectState = Literal["none", "applied", "not_applied", "unknown"]
"""What is known of a call's effect on the world. `none`: nothing was dispatched, or the tool only reads."""

Layer = Literal[
    "context", "intent", "normalize", "schema", "business", "approval", "execution", "execute", "result", "record"
]
"""Where a failure arose."""


class FailureClass(StrEnum):
    """The eight families of failure; the recovery table is keyed by them."""

    PARAMETER = "PARAMETER"
    POLICY = "POLICY"
    AVAILABILITY = "AVAILABILITY"
    ENVIRONMENT = "ENVIRONMENT"
    UNCERTAIN = "UNCERTAIN"
    TOOL = "TOOL"
    CONTROL = "CONTROL"
    PLATFORM = "PLATFORM"


class NextAction(StrEnum):
    """What the caller should do next. A business rule may also give a snake_case word of its own."""

    CONTINUE = "continue"
    FIX_ARGUMENTS = "fix_arguments"
    ASK_USER = "ask_user"
    CHOOSE_TOOL = "choose_tool"
    REQUEST_APPROVAL = "request_approval"
    RETRY_LATER = "retry_later"
    CONFIRM_STATE = "confirm_state"
    WAIT_ENVIRONMENT = "wait_environment"
    SWITCH_ENVIRONMENT = "switch_environment"
    USE_FALLBACK = "use_fallback"
    ABORT = "abort"
    ESCALATE_TO_PLATFORM = "escalate_to_platform"


class ErrorType(StrEnum):
    """The built-in error types. Rules may add codes of their own."""

    PARAM_MALFORMED = "PARAM_MALFORMED"
    PARAM_TRUNCATED = "PARAM_TRUNCATED"
    PARAM_MISSING = "PARAM_MISSING"
    PARAM_INVALID = "PARAM_INVALID"
    PARAM_UNKNOWN = "PARAM_UNKNOWN"
    PARAM_TOO_BROAD = "PARAM_TOO_BROAD"
    PRECONDITION_FAILED = "PRECONDITION_FAILED"

    TOOL_UNKNOWN = "TOOL_UNKNOWN"
    TOOL_NOT_ALLOWED = "TOOL_NOT_ALLOWED"
    PERMISSION_DENIED = "PERMISSION_DENIED"
    ENVIRONMENT_FORBIDDEN = "ENVIRONMENT_FORBIDDEN"
    DANGEROUS_OPERATION = "DANGEROUS_OPERATION"
    APPROVAL_REQUIRED = "APPROVAL_REQUIRED"
    APPROVAL_DENIED = "APPROVAL_DENIED"

    TIMEOUT = "TIMEOUT"
    CONNECTION_FAILED = "CONNECTION_FAILED"
    DEPENDENCY_ERROR = "DEPENDENCY_ERROR"
    RATE_LIMITED = "RATE_LIMITED"
    RESOURCE_EXHAUSTED = "RESOURCE_EXHAUSTED"
    CIRCUIT_OPEN = "CIRCUIT_OPEN"

    ENVIRONMENT_NOT_READY = "ENVIRONMENT_NOT_READY"
    ACCOUNT_POOL_EMPTY = "ACCOUNT_POOL_EMPTY"
    TENANT_FROZEN = "TENANT_FROZEN"
    CONFIG_NOT_EFFECTIVE = "CONFIG_NOT_EFFECTIVE"
    QUIET_WINDOW = "QUIET_WINDOW"

    UNCERTAIN_RESULT = "UNCERTAIN_RESULT"

    TOOL_ERROR = "TOOL_ERROR"
    RESULT_INVALID = "RESULT_INVALID"

    BUDGET_EXHAUSTED = "BUDGET_EXHAUSTED"
    NO_PROGRESS_REPEAT = "NO_PROGRESS_REPEAT"
    CONFLICT = "CONFLICT"
    CANCELLED = "CANCELLED"

    NORMALIZER_FAILED = "NORMALIZER_FAILED"
    RULE_FAILED = "RULE_FAILED"
    EVIDENCE_FAILED = "EVIDENCE_FAILED"
    STATE_FAILED = "STATE_FAILED"


_C, _N, _E = FailureClass, NextAction, ErrorType

TAXONOMY: Final[dict[ErrorType, tuple[FailureClass, NextAction]]] = {
    _E.PARAM_MALFORMED: (_C.PARAMETER, _N.FIX_ARGUMENTS),
    _E.PARAM_TRUNCATED: (_C.PARAMETER, _N.FIX_ARGUMENTS),
    _E.PARAM_MISSING: (_C.PARAMETER, _N.ASK_USER),
    _E.PARAM_INVALID: (_C.PARAMETER, _N.FIX_ARGUMENTS),
    _E.PARAM_UNKNOWN: (_C.PARAMETER, _N.FIX_ARGUMENTS),
    _E.PARAM_TOO_BROAD: (_C.PARAMETER, _N.FIX_ARGUMENTS),
    _E.PRECONDITION_FAILED: (_C.PARAMETER, _N.ASK_USER),
    _E.TOOL_UNKNOWN: (_C.POLICY, _N.CHOOSE_TOOL),
    _E.TOOL_NOT_ALLOWED: (_C.POLICY, _N.CHOOSE_TOOL),
    _E.PERMISSION_DENIED: (_C.POLICY, _N.ABORT),
    _E.ENVIRONMENT_FORBIDDEN: (_C.POLICY, _N.ABORT),
    _E.DANGEROUS_OPERATION: (_C.POLICY, _N.ABORT),
    _E.APPROVAL_REQUIRED: (_C.POLICY, _N.REQUEST_APPROVAL),
    _E.APPROVAL_DENIED: (_C.POLICY, _N.ABORT),
    _E.TIMEOUT: (_C.AVAILABILITY, _N.RETRY_LATER),
    _E.CONNECTION_FAILED: (_C.AVAILABILITY, _N.RETRY_LATER),
    _E.DEPENDENCY_ERROR: (_C.AVAILABILITY, _N.RETRY_LATER),
    _E.RATE_LIMITED: (_C.AVAILABILITY, _N.RETRY_LATER),
    _E.RESOURCE_EXHAUSTED: (_C.AVAILABILITY, _N.RETRY_LATER),
    _E.CIRCUIT_OPEN: (_C.AVAILABILITY, _N.RETRY_LATER),
    _E.ENVIRONMENT_NOT_READY: (_C.ENVIRONMENT, _N.WAIT_ENVIRONMENT),
    _E.ACCOUNT_POOL_EMPTY: (_C.ENVIRONMENT, _N.WAIT_ENVIRONMENT),
    _E.TENANT_FROZEN: (_C.ENVIRONMENT, _N.ABORT),
    _E.CONFIG_NOT_EFFECTIVE: (_C.ENVIRONMENT, _N.WAIT_ENVIRONMENT),
    _E.QUIET_WINDOW: (_C.ENVIRONMENT, _N.RETRY_LATER),
    _E.UNCERTAIN_RESULT: (_C.UNCERTAIN, _N.CONFIRM_STATE),
    _E.TOOL_ERROR: (_C.TOOL, _N.ABORT),
    _E.RESULT_INVALID: (_C.TOOL, _N.ABORT),
    _E.BUDGET_EXHAUSTED: (_C.CONTROL, _N.ABORT),
    _E.NO_PROGRESS_REPEAT: (_C.CONTROL, _N.ABORT),
    _E.CONFLICT: (_C.CONTROL, _N.ABORT),
    _E.CANCELLED: (_C.CONTROL, _N.ABORT),
    _E.NORMALIZER_FAILED: (_C.PLATFORM, _N.ESCALATE_TO_PLATFORM),
    _E.RULE_FAILED: (_C.PLATFORM, _N.ESCALATE_TO_PLATFORM),
    _E.EVIDENCE_FAILED: (_C.PLATFORM, _N.ESCALATE_TO_PLATFORM),
    _E.STATE_FAILED: (_C.PLATFORM, _N.ESCALATE_TO_PLATFORM),
}
"""Error type -> (failure class, default next action). Total over `ErrorType`, which a test proves."""


def class_of(error_type: str, default: FailureClass = FailureClass.PARAMETER) -> FailureClass:
    """Look a failure class up; a rule's own code has the class that its rule gave it (`default`)."""
    row = TAXONOMY.get(error_type)  # type: ignore[call-overload]
    return default if row is None else row[0]


@dataclass(frozen=True, slots=True)
class Problem:
    """One fault in the arguments or in a result, in words that a model can act on.

    Attributes:
        path: where, as dotted keys and `[index]`; empty for the whole object.
        rule: which rule was broken, a JSON Schema keyword or a word of ours (`duplicate_key`).
        message: what to change. Holds no secret value.
    """

    path: str
    rule: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


@dataclass(frozen=True, slots=True)
class Violation:
    """What a business rule or an execution constraint answers when it refuses a call.

    Attributes:
        code: a built-in `ErrorType` or the rule's own upper-case code (`ORDER_NOT_PAID`).
        message: why, in words that a model or a person can act on. No secrets.
        next_action: a `NextAction` or a snake_case word; default: what the taxonomy says for `code`.
        failure_class: only for own codes; default `PARAMETER` (a precondition).
        retry_after: seconds after which the same call could pass; None if unknown.
        problems: details by path, if the refusal is about arguments.
    """

    code: str
    message: str
    next_action: str | None = None
    failure_class: FailureClass | None = None
    retry_after: float | None = None
    problems: tuple[Problem, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what a caller could not act on.

        Raises:
            ValueError: `code`, `message` or `next_action` is not what the attributes say.
        """
        if not isinstance(self.code, str) or not _CODE(self.code):
            raise ValueError(f"code={self.code!r} must be upper case, e.g. 'ORDER_NOT_PAID'")
        if not isinstance(self.message, str) or not self.message.strip():
            raise ValueError(f"message={self.message!r} must say why")
        if self.next_action is not None and not (isinstance(self.next_action, str) and _WORD(self.next_action)):
            raise ValueError(f"next_action={self.next_action!r} must be a snake_case word, e.g. 'ask_user'")


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a call, or one attempt of it, did not succeed.

    Attributes:
        error_type: a built-in `ErrorType` or a rule's own code.
        failure_class: its family.
        message: one or more sentences for the model; no secrets, no stack trace.
        next_action: what to do now.
        layer: where it arose.
        effect: what is known of the effect on the world.
        retry_after: seconds the other side asked to wait; None if it did not say.
        problems: details by path.
        cause: class name of the exception behind it, if there was one.
        reason: why it was classified so (for the evidence).
        retryable: whether the same call may be sent again without risk; None: decided by class and effect.
    """

    error_type: str
    failure_class: FailureClass
    message: str
    next_action: str
    layer: Layer
    effect: EffectState = "none"
    retry_after: float | None = None
    problems: tuple[Problem, ...] = ()
    cause: str | None = None
    reason: str = ""
    retryable: bool | None = None

    @classmethod
    def of(cls, error_type: str, message: str, layer: Layer, **fields: Any) -> Failure:
        """Build a failure whose class and next action come from the taxonomy unless given."""
        row = TAXONOMY.get(error_type)  # type: ignore[call-overload]
        default_class, default_action = row or (FailureClass.PARAMETER, NextAction.ASK_USER)
        failure_class = fields.pop("failure_class", None) or default_class
        next_action = fields.pop("next_action", None) or default_action
        return cls(str(error_type), failure_class, message, str(next_action), layer, **fields)


class Halt(Exception):
    """Ends the way of a call through the steps; control flow of the pipeline, never seen by users.

    Attributes:
        failure: why the call goes no further; None if it already has its answer (a replay).
    """

    def __init__(self, failure: Failure | None) -> None:
        self.failure = failure
        super().__init__(failure.error_type if failure is not None else "answered")
