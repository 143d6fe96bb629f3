"""The trace model: a run holds sessions, a session holds call records; all frozen, all plain data."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from fcguard.evaluation.canonical import canonical
from fcguard.evaluation.values import Value, not_applicable, ok, ratio, unknown, untested
from fcguard.model.failure import Effect, EffectState, Problem

__all__ = [
    "Attempt",
    "CallRecord",
    "CallStatus",
    "Outcome",
    "Run",
    "RunIdentity",
    "Session",
    "Unread",
    "UnreadLog",
    "Value",
    "not_applicable",
    "ok",
    "ratio",
    "unknown",
    "untested",
]

CallStatus: TypeAlias = Literal["succeeded", "failed", "refused", "uncertain", "unknown"]
"""How a call ended. `refused`: nothing was sent. `unknown`: there is a result, but the format does not say which kind."""

Outcome: TypeAlias = Literal["passed", "failed", "infra_error", "unscored"]
"""How a session ended. `infra_error`: the run broke for a reason that is not the agent's."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One dispatch of a call.

    Attributes:
        status: how it ended.
        error_type: why it failed, if it did.
        seconds: how long it took; None if not recorded.
    """

    status: CallStatus = "unknown"
    error_type: str | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class CallRecord:
    """One logical call of a tool, as recorded.

    Attributes:
        call_id: the trace's own id of the call; unique within its session (importers see to it).
        tool: name as the model wrote it.
        server: name of the server the tool lives on; the identity of a tool is (server, tool).
        step: number of the model turn the call came from; calls of one turn share it.
        raw_arguments: the text or object as recorded; None if the trace holds none.
        arguments: the parsed object, None if there is none or it cannot be read.
        parse_error: why the arguments cannot be read; a broken call is still a call.
        executed_arguments: what the arguments were folded to, without what the host filled; None if not recorded, or as sent.
        defaults: dotted places of `executed_arguments` that a default filled.
        validation: faults recorded by the system that ran the call; None if it recorded none.
        attempts: the dispatches of this one call, retries included, in order; empty if not recorded.
        status: how the call ended.
        sent: whether anything was dispatched. False for a replay (answered from the ledger), a refusal and an answer about an
            effect that is still open; None if not recorded, which counts as sent unless the call was refused.
        error_type: a word of the failure taxonomy or the trace's own.
        effect: what this call does to the world; None if not recorded.
        effect_state: what is known of its effect; None if not recorded.
        result_hash: digest of the result; None if not recorded.
        idempotency_key: the key under which a repeat has no second effect.
        confirmed_by_human: whether a person agreed to it; None if not recorded.
        consumed: whether its result was used later; None if not known.
        consumed_by: position (from 0) of the last call made when its result was first used.
        cost, tokens, seconds: what it took; None if not recorded.
        depends_on: ids of calls or steps that it needed.
        subtask_id: id of the gold step the trace says it belongs to.
        evidence: references to what proves it.
    """

    call_id: str
    tool: str
    server: str | None = None
    step: int = 0
    raw_arguments: Any = None
    arguments: dict[str, Any] | None = None
    parse_error: str | None = None
    executed_arguments: dict[str, Any] | None = None
    defaults: tuple[str, ...] = ()
    validation: tuple[Problem, ...] | None = None
    attempts: tuple[Attempt, ...] = ()
    status: CallStatus = "unknown"
    sent: bool | None = None
    error_type: str | None = None
    effect: Effect | None = None
    effect_state: EffectState | None = None
    result_hash: str | None = None
    idempotency_key: str | None = None
    confirmed_by_human: bool | None = None
    consumed: bool | None = None
    consumed_by: int | None = None
    cost: float | None = None
    tokens: int | None = None
    seconds: float | None = None
    depends_on: tuple[str, ...] = ()
    subtask_id: str | None = None
    evidence: tuple[str, ...] = ()

    @property
    def has_arguments(self) -> bool:
        """Whether the trace recorded arguments at all, readable or not."""
        return self.arguments is not None or self.parse_error is not None

    @property
    def acting_arguments(self) -> dict[str, Any] | None:
        """The arguments that the effect comes from: as executed where that is recorded, else as sent."""
        return self.arguments if self.executed_arguments is None else self.executed_arguments

    @property
    def identity(self) -> tuple[str, str]:
        """Server and tool; the server is empty if the trace names none."""
        return (self.server or "", self.tool)

    @property
    def fingerprint(self) -> tuple[str, str, str] | None:
        """Tool and canonical arguments: two calls of one fingerprint ask the same thing. None if none were recorded."""
        if self.arguments is not None:
            return (self.server or "", self.tool, canonical(self.arguments))
        if self.parse_error is not None:
            return (self.server or "", self.tool, f"raw:{self.raw_arguments!r}")
        return None

    @property
    def was_sent(self) -> bool:
        """Whether anything was dispatched: not refused, and not known to have been answered without that."""
        return self.status != "refused" and self.sent is not False

    @property
    def is_replay(self) -> bool:
        """Whether the call was answered with the stored result of an earlier one, and nothing was dispatched."""
        return self.sent is False and self.status == "succeeded"

    @property
    def may_have_run(self) -> bool:
        """Whether the call itself may have had an effect: it was sent, and is not proved to have had none."""
        return self.was_sent and self.effect_state not in ("not_applied", "none")

    @property
    def dispatches(self) -> int:
        """How often the tool was started for this call: as recorded, one if that is not recorded, none if nothing was sent."""
        return max(1, len(self.attempts)) if self.was_sent else 0

    @property
    def retries(self) -> int:
        """Dispatches beyond the first."""
        return max(0, len(self.attempts) - 1)


@dataclass(frozen=True, slots=True)
class Session:
    """One trial of one task.

    Attributes:
        session_id: id of the session in the trace.
        task_id: id of the task in the gold.
        trial: number of the trial of that task, from 0.
        slice: name of the part of the suite it belongs to; empty if none. The gold's own slice goes first.
        outcome: what the trace says about success.
        calls: the calls in order.
        reason_told: whether the agent told the user why it stopped; None if not recorded.
        detail: why the session broke, or what else its reader should see.
    """

    session_id: str
    task_id: str
    trial: int = 0
    slice: str = ""
    outcome: Outcome = "unscored"
    calls: tuple[CallRecord, ...] = ()
    reason_told: bool | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Unread:
    """One thing in a trace that could not be read."""

    where: str
    reason: str

    def __str__(self) -> str:
        return f"{self.where}: {self.reason}"


@dataclass(slots=True)
class UnreadLog:
    """Counts what could not be read and keeps the first few, so that memory stays flat.

    Attributes:
        count: how many things could not be read.
        first: the first of them.
        limit: how many are kept.
    """

    count: int = 0
    first: list[Unread] = field(default_factory=list)
    limit: int = 50

    def add(self, where: str, reason: str) -> None:
        """Note one thing that could not be read."""
        self.count += 1
        if len(self.first) < self.limit:
            self.first.append(Unread(where, reason))


@dataclass(frozen=True, slots=True)
class RunIdentity:
    """What makes two runs comparable.

    Attributes:
        version: version of the agent or skill under test.
        model: the model it ran on.
        prompt_set_hash: digest of the prompts, usually `Gold.prompt_set_hash`.
        schema_hash: digest of the tool definitions, usually `Catalogue.schema_hash`.
    """

    version: str = ""
    model: str = ""
    prompt_set_hash: str = ""
    schema_hash: str = ""


class Run:
    """A recorded run: sessions that are read when they are asked for, and a note of what could not be read.

    Attributes:
        source: where it came from.
        format: name of the importer.
        unread: filled while the sessions are read; complete once they have been read to the end.
    """

    def __init__(
        self, sessions: Iterable[Session], *, source: str = "", format: str = "", unread: UnreadLog | None = None
    ) -> None:
        self._sessions = sessions
        self.source = source
        self.format = format
        self.unread = unread if unread is not None else UnreadLog()

    def __iter__(self) -> Iterator[Session]:
        return iter(self._sessions)
