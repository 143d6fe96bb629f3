"""Write a call's life into the ledger: the intent before anything is sent, each change, and the end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from fcguard.errors import StoreClosed, StoreCorrupt, StoreError, StoreUnavailable
from fcguard.io import IO
from fcguard.model.call import UNFILLED, Attempt, Call, Late
from fcguard.model.context import OUTSIDE
from fcguard.model.failure import ErrorType, Failure, Halt, NextAction
from fcguard.model.frozen import thaw
from fcguard.model.identity import digest_of, effect_key_of, idempotency_key_of
from fcguard.model.secrets import Redactor, writable
from fcguard.model.states import OPEN_STATES, CallState
from fcguard.stores.base import (
    Accepted,
    Blocked,
    Enter,
    Event,
    Identity,
    Move,
    Note,
    Open,
    Parts,
    Replayed,
    Stale,
    Store,
)

__all__ = ["close_call", "derive_keys", "move_call", "start_attempt", "watch_late"]

_NO_TASK: Final = "-"
_PASSING: Final = (StoreUnavailable, StoreCorrupt, StoreClosed)
"""What a ledger answers that may take the same record later."""


def derive_keys(call: Call) -> None:
    """Fill the keys of a write: what a server may remove duplicates by, and what blocks a second open write.

    The run scope is the task; without a `business_key` it is the task's step (or the model's turn, where steps have no number),
    so that a later identical call is a new one.
    """
    tool, context = call.prepared.tool, call.context
    tenant = context.environment.tenant if context.environment is not None else None
    call.idempotency_key = idempotency_key_of(
        tenant, tool.name, tool.version, _scope(call), call.arguments, tool.business_key
    )
    if tool.effect != "idempotent_write":
        call.effect_key = effect_key_of(tenant, tool.name, call.arguments, tool.business_key)


def _scope(call: Call) -> str:
    task_id = call.context.task_id
    parent = call.parent.request_id if call.parent is not None else ""
    if call.prepared.tool.business_key is not None:
        return f"{task_id}\x1f{parent}"
    step = f"step {call.step}" if call.step is not None else f"turn {call.turn or call.request_id}"
    return f"{task_id}\x1f{parent}\x1f{step}"


async def start_attempt(call: Call, attempt: Attempt, store: Store, io: IO, lease: float) -> None:
    """Make the intent of an attempt durable; nothing may be sent before this returns.

    Raises:
        Halt: the ledger holds the answer already, the effect is still open, or the intent could not be written.
    """
    if call.ledger_version is None:
        event = Event("opened", attempt.started_at, _opening(call))
        command: Any = Open(_identity(call), CallState.STARTED, attempt.number, event, lease)
    else:
        event = Event(
            "attempt",
            attempt.started_at,
            {"request_id": call.request_id, "number": attempt.number, "delay_s": attempt.delay, **_readdressed(call)},
        )
        command = Move(call.request_id, call.ledger_version, CallState.STARTED, attempt.number, event)
    try:
        answer = await io.commit(store, command, _noting(call, CallState.STARTED, attempt.number))
    except Exception as error:
        call.is_in_doubt = call.ledger_version is None
        raise Halt(_unwritable(error)) from None
    except BaseException:
        call.is_in_doubt = call.ledger_version is None
        raise
    if isinstance(answer, Accepted):
        return
    if isinstance(answer, Replayed):
        _replay(call, answer)
        raise Halt(None)
    raise Halt(_blocked(call, answer))


def _noting(call: Call, state: CallState, attempt: int) -> Callable[[Any], None]:
    """Keep what the ledger holds of the call, also if the call is interrupted while it waits for the answer."""

    def note(answer: Any) -> None:
        if isinstance(answer, Accepted):
            call.ledger_version, call.ledger_state, call.ledger_attempt = answer.version, state, attempt

    return note


def _unwritable(error: Exception) -> Failure:
    why = str(error) if isinstance(error, StoreError) else f"the ledger raised {type(error).__name__}"
    return Failure.of(
        ErrorType.EVIDENCE_FAILED,
        f"The intent of the write could not be recorded, so nothing was sent: {why}",
        "execute",
        cause=type(error).__name__,
        reason="the ledger refused the intent",
    )


def _replay(call: Call, answer: Replayed) -> None:
    call.basis = "replayed"
    call.data = thaw(answer.result.get("data"))  # the ledger's own stays as it is, whatever the caller does to it
    call.effect = "applied"
    call.message = f"The same call already succeeded as {answer.request_id}; its stored result is returned and nothing was sent again."
    call.blocked_by = answer.request_id


def _blocked(call: Call, answer: Blocked | Stale) -> Failure:
    if isinstance(answer, Stale):
        return Failure.of(
            ErrorType.CONFLICT, "Another worker took this call over; ask the ledger for its state.", "execute"
        )
    call.blocked_by = answer.request_id
    if answer.reason == "conflict" and answer.state not in OPEN_STATES:
        return Failure.of(
            ErrorType.CONFLICT,
            f"A call with the same business key and other arguments was made before ({answer.request_id}, {answer.state}). "
            "Nothing was sent. Look at what that call did before you change it.",
            "execute",
        )
    return Failure.of(
        ErrorType.UNCERTAIN_RESULT,
        f"The same write is still open as {answer.request_id} ({answer.state}): it is pending, do not repeat it. Ask for that id.",
        "execute",
        next_action=NextAction.CONFIRM_STATE,
        reason=f"effect key held by {answer.request_id}",
    )


async def move_call(call: Call, state: CallState, kind: str, payload: Mapping[str, Any], store: Store, io: IO) -> None:
    """Record a change on the way; a store that cannot take it is flagged, the call goes on with what is true.

    Raises:
        Halt: another worker owns the call now.
    """
    if call.ledger_version is None:
        return
    event = Event(kind, io.now(), {"request_id": call.request_id, **payload})
    number = len(call.attempts)
    move = Move(call.request_id, call.ledger_version, state, number, event)
    try:
        answer = await io.commit(store, move, _noting(call, state, number))
    except Exception:
        call.flag("evidence_pending")
        return
    if isinstance(answer, Stale):
        raise Halt(_blocked(call, answer))


async def close_call(call: Call, state: CallState, record: Callable[[], dict[str, Any]], store: Store, io: IO) -> None:
    """Record how the call ended.

    Args:
        call: the call, with nothing of it left to change.
        state: how it ended.
        record: makes the envelope as the ledger may hold it; called when the ledger looks at it.
        store: the ledger.
        io: commits.

    Raises:
        StoreError: it could not be written; the caller keeps the result and flags it.
    """
    now = io.now()
    if call.ledger_version is None:
        task_id = call.context.task_id or _NO_TASK
        whole = _Whole(call, record, now)
        await _commit_ending(call, Enter.later(call.request_id, task_id, state, len(call.attempts), whole), store, io)
        return
    result = record()
    event = Event(
        "outcome" if state is not CallState.PARKED else "parked",
        now,
        {**_ending(call, {"request_id": call.request_id}), "result": result},
    )
    answer = await _commit_ending(
        call,
        Move(
            call.request_id,
            call.ledger_version,
            state,
            max(len(call.attempts), call.ledger_attempt),
            event,
            result,
            next_at=_next_at(call, state, now),
            settle_until=_settle_until(call, state, now),
        ),
        store,
        io,
    )
    if isinstance(answer, Accepted):
        call.ledger_version, call.ledger_state = answer.version, state
    elif isinstance(answer, Stale):
        call.flag("taken_over")
        await io.commit(store, Note(call.request_id, event))


def _next_at(call: Call, state: CallState, now: float) -> float | None:
    if state is not CallState.UNCERTAIN:
        return None
    return now if call.due_at is None else call.due_at


def _settle_until(call: Call, state: CallState, now: float) -> float | None:
    settle: float | None = call.prepared.tool.settle
    if settle is None or state not in (CallState.UNCERTAIN, CallState.PARKED) or call.attempts[-1].is_restored:
        return None  # not declared, over, or as it was: nothing was sent here
    return now + settle


async def _commit_ending(call: Call, command: Enter | Move, store: Store, io: IO) -> Any:
    """Commit what ends a call; what the ledger cannot take now is kept in its spool, to be written later.

    Raises:
        StoreError: it is not in the ledger yet.
    """
    commands = [command]
    try:
        return await io.commit(store, command)
    except StoreError as error:
        failed = error
    if call.is_in_doubt and isinstance(command, Enter):
        # The intent may be in the ledger after all. Nothing was sent, so it is withdrawn, in the words of the refusal: then
        # whichever of the two the ledger takes, it knows the other one when it comes.
        withdrawal = Move(call.request_id, 1, CallState.REJECTED, 1, command.event, command.result)
        commands.insert(0, withdrawal)
        try:
            return await io.commit(store, withdrawal)
        except StoreError as error:
            failed = error
    spool = getattr(store, "spool", None)
    if spool is not None and isinstance(failed, _PASSING):
        try:
            for kept in commands:
                await io.call(spool, kept)
        except StoreError:
            call.flag("evidence_unsaved")
    raise failed


class _Whole:
    """Makes the record of a whole call when the ledger looks at it.

    It keeps the few values it needs and lets go of the call, so that a ledger in memory does not keep every call alive.
    """

    __slots__ = ("_at", "_context", "_make_result", "_normalized", "_redactor", "_story", "_tool")

    def __init__(self, call: Call, make_result: Callable[[], dict[str, Any]], at: float) -> None:
        self._at, self._make_result = at, make_result
        self._tool, self._context, self._redactor = call.tool, call.context, call.redactor
        self._story = _ending(call, _story(call))
        self._normalized = call.normalized if _has_own_raw(call) else None

    def __call__(self) -> Parts:
        result = self._make_result()
        story = self._story
        if self._normalized is not None:
            _add_raw(story, self._normalized, self._redactor)
        tool, environment = self._tool, self._context.environment
        identity = Identity(
            result["request_id"],
            self._context.task_id or _NO_TASK,
            tool.name if tool is not None else "_unknown",
            tool.version if tool is not None else "",
            tool.effect if tool is not None else "read",
            story["purpose"],
            result["step"],
            story.get("parent_id"),
            environment.tenant if environment is not None else None,
        )
        story["result"] = result
        return identity, Event("call", self._at, story), result


def watch_late(
    call: Call, attempt: Attempt, store: Store, now: Callable[[], float], to_json: Callable[[Any], Any]
) -> None:
    """Have the outcome of an abandoned function appended to the ledger when it ends after all.

    Args:
        call: the call.
        attempt: the abandoned attempt.
        store: the ledger.
        now: the wall clock in seconds.
        to_json: turns what the function returned into JSON values; never raises.
    """
    late = attempt.late
    if late is None or call.ledger_version is None:
        return
    request_id, redactor = call.request_id, call.redactor

    def record(ended: Late) -> None:
        payload: dict[str, Any] = {"request_id": request_id, "attempt": attempt.number, "returned": ended.has_value}
        if ended.error is not None:
            payload["error"] = type(ended.error).__name__
        else:
            payload["value"] = redactor.value(to_json(ended.value))
        with suppress(Exception):  # this is the abandoned thread: there is nobody to tell
            store.submit(Note(request_id, Event("late", now(), payload)), _ignore)

    late.on_end(record)


def _ignore(answer: Any) -> None:
    """A late result that cannot be written changes nothing: the call is open in the ledger and will be confirmed."""


def _identity(call: Call) -> Identity:
    tool, context = call.prepared.tool, call.context
    environment = context.environment
    return Identity(
        call.request_id,
        context.task_id or _NO_TASK,
        tool.name,
        tool.version,
        tool.effect,
        call.purpose,
        call.step,
        call.parent.request_id if call.parent is not None else None,
        environment.tenant if environment is not None else None,
        digest_of(tool.name, call.arguments),
        context.task_id or _NO_TASK,
        call.idempotency_key,
        call.effect_key,
        tool.settle,
    )


def _opening(call: Call) -> dict[str, Any]:
    """Answer the story of a call before its first dispatch: who asks for what, and what the checks said."""
    payload = _story(call)
    normalized, tool = call.normalized, call.tool
    payload |= {
        "request_id": call.request_id,
        "tool": tool.name if tool is not None else None,
        "version": tool.version if tool is not None else None,
        "step": call.step,
    }
    payload["arguments"] = call.redactor.value(call.arguments)
    if call.context is not OUTSIDE:
        _add_reach(payload, call.context)
    if _has_own_raw(call):
        _add_raw(payload, normalized, call.redactor)
    return payload


def _readdressed(call: Call) -> dict[str, Any]:
    """Answer whom a later attempt is addressed to, if the environment was switched after the call was opened."""
    if not any(flag.startswith("environment:") for flag in call.flags):
        return {}
    payload: dict[str, Any] = {"arguments": call.redactor.value(call.arguments)}
    payload["digest"] = digest_of(call.prepared.tool.name, call.arguments)
    _add_context(payload, call.context)
    _add_reach(payload, call.context)
    return payload


def _add_reach(payload: dict[str, Any], context: Any) -> None:
    """Add the limits within which a later process may go on with the call."""
    environment, tools, goal = context.environment, context.tools, context.goal
    if environment is not None:
        if environment.base_urls:
            payload["base_urls"] = environment.base_urls
        if environment.data_sources:
            payload["data_sources"] = environment.data_sources
        if environment.account_pool is not None:
            payload["account_pool"] = environment.account_pool
    if tools.allow is not None:
        payload["allow"] = sorted(tools.allow)
    if goal.forbidden_actions:
        payload["forbidden"] = sorted(goal.forbidden_actions)
    if context.roles:
        payload["roles"] = sorted(context.roles)
    if context.state.session_id is not None:
        payload["session_id"] = context.state.session_id
    if context.conversation_id is not None:
        payload["conversation_id"] = context.conversation_id


def _has_own_raw(call: Call) -> bool:
    """Answer whether the raw arguments tell more than the normalized ones: a text, or something that was folded."""
    normalized = call.normalized
    return normalized is not None and (bool(normalized.folds) or not isinstance(call.proposal.arguments, dict))


def _add_raw(payload: dict[str, Any], normalized: Any, redactor: Redactor) -> None:
    payload["raw"] = redactor.words(normalized.raw)
    if normalized.folds:
        payload["folds"] = [_fold(fold, redactor) for fold in normalized.folds]


def _story(call: Call) -> dict[str, Any]:
    """Answer what the envelope does not hold: the context's identity, the checks, the trace."""
    context = call.context
    payload: dict[str, Any] = {"purpose": call.purpose, "started_at": call.started_at}
    if context is not OUTSIDE:
        _add_context(payload, context)
    if call.proposal.call_id is not None:
        payload["model_call_id"] = writable(str(call.proposal.call_id)[:200])
    if call.parent is not None:
        payload["parent_id"] = call.parent.request_id
    if call.tool is None:
        payload["asked_for"] = call.redactor.words(str(call.proposal.tool)[:200])
    elif call.tool.name != call.proposal.tool:
        payload["asked_as"] = call.redactor.words(str(call.proposal.tool)[:200])
    verdict = call.verdict
    if verdict is not UNFILLED:
        payload["passed"] = verdict.passed
        if verdict.refused_by is not None:
            payload["refused_by"] = verdict.refused_by
        if verdict.approval is not None:
            payload["approval"] = verdict.approval
    if call.span_id is not None:
        payload["trace_id"], payload["span_id"] = call.trace_id, call.span_id
    return payload


def _add_context(payload: dict[str, Any], context: Any) -> None:
    environment = context.environment
    if environment is not None:
        payload["environment"] = environment.name
        if environment.tenant is not None:
            payload["tenant"] = environment.tenant
        if environment.account is not None:
            payload["account"] = environment.account
    if context.actor is not None:
        payload["actor"] = context.actor
    if context.agent is not None:
        payload["agent"] = context.agent
    if context.goal.objective:
        payload["goal"] = context.goal.objective


def _fold(fold: Any, redactor: Any) -> dict[str, Any]:
    name = fold.path.rsplit(".", 1)[-1]
    pair = redactor.value({name: fold.before}), redactor.value({name: fold.after})
    return {"path": fold.path, "rule": fold.rule, "before": pair[0][name], "after": pair[1][name]}


def _ending(call: Call, payload: dict[str, Any]) -> dict[str, Any]:
    """Add how the call went, beside its envelope."""
    attempts = call.attempts
    if len(attempts) == 1 and attempts[0].failure is None:
        payload["attempt_ms"] = round(attempts[0].duration * 1000, 3)
    elif attempts:
        payload["attempts"] = [call.redactor.value(attempt.summary()) for attempt in attempts]
    if call.failure is not None:
        payload["why"] = call.redactor.words(call.failure.reason)
        payload["layer"] = call.failure.layer
    if call.confirmations:
        payload["confirmations"] = list(call.confirmations)
    if call.blocked_by is not None:
        payload["blocked_by"] = call.blocked_by
    if call.flags:
        payload["flags"] = list(call.flags)
    return payload
