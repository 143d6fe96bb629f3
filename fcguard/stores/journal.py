"""Write a call's life into the ledger: the intent before anything is sent, each change, and the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

from fcguard.errors import StoreClosed, StoreCorrupt, StoreError, StoreUnavailable
from fcguard.io import IO
from fcguard.model.attempt import Attempt, Late, LateVerdict
from fcguard.model.call import Call
from fcguard.model.context import Environment
from fcguard.model.failure import ErrorType, Failure, Halt, NextAction
from fcguard.model.frozen import thaw
from fcguard.model.identity import effect_key_of, idempotency_key_of
from fcguard.model.states import OPEN_STATES, CallState
from fcguard.stores.base import (
    Accepted,
    Blocked,
    Enter,
    Event,
    Look,
    Move,
    Note,
    Open,
    Replayed,
    Stale,
    Store,
)
from fcguard.stores.story import NO_TASK, WholeCall, ending_of, identity_of, opening_of

__all__ = [
    "close_call",
    "derive_keys",
    "look_up",
    "move_call",
    "place_of",
    "prepare_call",
    "start_attempt",
    "watch_late",
]

_PASSING: Final = (StoreUnavailable, StoreCorrupt, StoreClosed)
"""What a ledger answers that may take the same record later."""


def derive_keys(call: Call) -> None:
    """Fill the keys of a write: what a server may remove duplicates by, and what blocks a second open write.

    The place (environment and tenant) is part of both. A later identical call is a new one unless a `business_key`, or a step
    that the host fixed, says otherwise.
    """
    tool, place = call.prepared.tool, place_of(call.context.environment)
    business_key = tool.business_key
    if business_key is not None and all(call.arguments.get(name) is None for name in business_key):
        business_key = None  # nothing of it was sent: it identifies nothing
    call.idempotency_key = idempotency_key_of(
        place, tool.name, tool.version, _scope(call, business_key), call.arguments, business_key
    )
    if tool.effect != "idempotent_write":
        call.effect_key = effect_key_of(place, tool.name, call.arguments, business_key)


def place_of(environment: Environment | None) -> str:
    """Answer what of an environment is part of every key: its name and tenant."""
    return "" if environment is None else f"{environment.name}\x1f{environment.tenant or ''}"


def _scope(call: Call, business_key: tuple[str, ...] | None) -> str:
    """Answer the run in which a key counts.

    With a business key it is the task. Else it is the place of the call in the run: the step that the host fixed; a step or
    turn of this entry of the task; or the n-th call that an attempt of another call makes, so that the next attempt of that
    one replays what the last one did.
    """
    task_id, context = call.context.task_id, call.context
    if business_key is not None:
        return task_id
    if call.receiver is not None:  # an instance is no identity that a later process could know
        return f"{task_id}\x1fcall {call.request_id}"
    if call.purpose == "fallback" and call.parent is not None:
        return _scope(call.parent, None)
    if call.nested is not None and call.parent is not None:
        return f"{task_id}\x1f{call.parent.request_id}\x1fnested {call.nested}"
    if context.step is not None:
        return f"{task_id}\x1fstep {context.step}"
    entry = call.task.entry if call.task is not None else ""
    step = f"step {call.step}" if call.step is not None else f"turn {call.turn or call.request_id}"
    return f"{task_id}\x1f{entry}\x1f{step}"


async def look_up(call: Call, store: Store, io: IO) -> None:
    """Look whether the ledger holds the answer to a call that is about to be refused, or to be put before a person.

    Only for a write of which nothing is in the ledger yet. Nothing is written, and the answer is good for this moment only: what sends the write asks again.

    Raises:
        Halt: the same write succeeded already, or is still open.
    """
    if call.prepared.is_read or call.ledger_version is not None or call.attempts:
        return
    derive_keys(call)
    answer: Any = None
    with suppress(Exception):  # the refusal stands; an intent would tell what is the matter with the ledger
        answer = await io.commit(store, Look(identity_of(call)))
    if answer is None or isinstance(answer, Accepted):
        call.idempotency_key = call.effect_key = None  # an approver may change the arguments
    else:
        _take_answer(call, answer)


async def prepare_call(call: Call, store: Store, io: IO, lease: float) -> None:
    """Open the row of a write that will not be sent itself, before another tool is sent in its place.

    Raises:
        Halt: the ledger holds the answer already, the effect is still open, or the intent could not be written.
    """
    derive_keys(call)
    event = Event("prepared", io.now(), opening_of(call))
    command = Open(identity_of(call), CallState.PREPARED, 0, event, lease)
    await _commit_intent(call, command, CallState.PREPARED, store, io)


async def start_attempt(call: Call, attempt: Attempt, store: Store, io: IO, lease: float) -> None:
    """Make the intent of an attempt durable; nothing may be sent before this returns.

    Raises:
        Halt: the ledger holds the answer already, the effect is still open, or the intent could not be written.
    """
    if call.ledger_version is None:
        event = Event("opened", attempt.started_at, opening_of(call))
        command: Any = Open(identity_of(call), CallState.STARTED, attempt.number, event, lease)
    else:
        event = Event(
            "attempt",
            attempt.started_at,
            {"request_id": call.request_id, "number": attempt.number, "delay_s": attempt.delay},
        )
        command = Move(call.request_id, call.ledger_version, CallState.STARTED, attempt.number, event)
    await _commit_intent(call, command, CallState.STARTED, store, io)


async def _commit_intent(call: Call, command: Open | Move, state: CallState, store: Store, io: IO) -> None:
    try:
        answer = await io.commit(store, command, _noting(call, state, command.attempt))
    except Exception as error:
        call.is_in_doubt = call.ledger_version is None and not isinstance(error, StoreClosed)  # that one never arrived
        raise Halt(_unwritable(error)) from None
    except BaseException:
        call.is_in_doubt = call.ledger_version is None
        raise
    _take_answer(call, answer)


def _take_answer(call: Call, answer: Any) -> None:
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


def _way_out(state: CallState, request_id: str) -> str:
    if state is CallState.PARKED:
        return "A person has to find out and close it: guard.resolve(id, ...) or 'fcguard resolve'."
    return (
        f"It is being worked on, unless its process died. The host polls with guard.advance({request_id!r}), the blocked_by of "
        "this answer, until it has ended; that leaves a living worker alone, and takes the call up if there is none any more."
    )


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
        call.blocked_by = call.request_id
        return Failure.of(
            ErrorType.CONFLICT,
            f"Another worker took this call over, and may have sent it: do not repeat it. {_way_out(answer.state, call.request_id)}",
            "execute",
            next_action=NextAction.CONFIRM_STATE,
            effect="unknown",
            reason=f"the ledger holds version {answer.version} ({answer.state})",
        )
    call.blocked_by = answer.request_id
    if answer.reason == "conflict" and answer.state not in OPEN_STATES:
        return Failure.of(
            ErrorType.CONFLICT,
            f"A call with the same business key and other arguments was made before ({answer.request_id}, {answer.state}). "
            "Nothing was sent. Look at what that call did before you change it.",
            "execute",
        )
    if answer.pruned_at is not None:
        return _applied_by_pruned(answer.request_id, answer.pruned_at)
    return Failure.of(
        ErrorType.UNCERTAIN_RESULT,
        f"The same write is still open as {answer.request_id} ({answer.state}): do not repeat it. "
        f"{_way_out(answer.state, answer.request_id)}",
        "execute",
        next_action=NextAction.CONFIRM_STATE,
        reason=f"effect key held by {answer.request_id}",
    )


def _applied_by_pruned(request_id: str, pruned_at: float) -> Failure:
    """Answer that the effect is there, and that its result can only be read where it took place."""
    day = time.strftime("%Y-%m-%d", time.gmtime(pruned_at))
    return Failure.of(
        ErrorType.CONFLICT,
        f"The same write was already applied by {request_id}, whose record was pruned from the ledger on {day}: its effect is "
        "there, its result is not kept any more. Nothing was sent. Do not send it again; look its effect up with a tool that reads.",
        "execute",
        next_action=NextAction.CONFIRM_STATE,
        effect="applied",
        retryable=False,
        reason=f"key held by {request_id}, pruned on {day}",
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
        task_id = call.context.task_id or NO_TASK
        whole = WholeCall(call, record, now)
        enter = Enter.later(call.request_id, task_id, state, len(call.attempts), whole)
        try:
            await io.commit(store, enter)
        except StoreError as error:
            await _commit_otherwise(call, enter, error, store, io)
        return
    result = record()
    body = {**ending_of(call, {"request_id": call.request_id}), "result": result}
    if call.is_resumed and call.span_id is not None:  # the opening names the span of the first part
        body |= {"trace_id": call.trace_id, "span_id": call.span_id}
    event = Event("outcome" if state is not CallState.PARKED else "parked", now, body)
    move = Move(
        call.request_id,
        call.ledger_version,
        state,
        max(len(call.attempts), call.ledger_attempt),
        event,
        result,
        next_at=_next_at(call, state, now),
        settle_until=_settle_until(call, state, now),
    )

    def heard(_: Any) -> None:
        call.is_recorded = True

    try:
        answer = await io.commit(store, move, heard)
    except StoreError as error:
        answer = await _commit_otherwise(call, move, error, store, io)
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
    if settle is None or state not in (CallState.UNCERTAIN, CallState.PARKED):
        return None  # not declared, or over
    if not call.attempts or call.attempts[-1].is_restored:
        return None  # as it was: nothing was sent here
    return now + settle


async def _commit_otherwise(call: Call, command: Enter | Move, failed: StoreError, store: Store, io: IO) -> Any:
    """Withdraw an intent that is in doubt; else keep what the ledger cannot take now in its spool, to be written later.

    Args:
        call: the call.
        command: ends the call; the ledger did not take it.
        failed: why not.
        store: the ledger.
        io: commits.

    Raises:
        StoreError: it is not in the ledger yet.
    """
    commands = [command]
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


def watch_late(
    call: Call, attempt: Attempt, store: Store, now: Callable[[], float], judge: Callable[[], LateVerdict]
) -> None:
    """Have the outcome of an abandoned function appended to the ledger when it ends after all.

    Args:
        call: the call.
        attempt: the abandoned attempt.
        store: the ledger.
        now: the wall clock in seconds.
        judge: says what the end of the function proves; called once it has ended; never raises.
    """
    late = attempt.late
    if late is None or call.ledger_version is None:
        return
    request_id, redactor = call.request_id, call.redactor

    def record(ended: Late) -> None:
        verdict = judge()
        payload: dict[str, Any] = {"request_id": request_id, "attempt": attempt.number, "returned": ended.has_value}
        payload["effect"] = verdict.effect
        if verdict.error_type is not None:
            payload["error_type"] = verdict.error_type
        if ended.error is not None:
            payload["error"] = type(ended.error).__name__
        else:
            payload["value"] = redactor.value(verdict.data)
        with suppress(Exception):  # this is the abandoned thread: there is nobody to tell
            store.submit(Note(request_id, Event("late", now(), payload)), _ignore)

    late.on_end(record)


def _ignore(answer: Any) -> None:
    """A late result that cannot be written changes nothing: the call is open in the ledger and will be confirmed."""
