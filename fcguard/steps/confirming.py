"""The action `confirm` of a recovery: find out what became of an uncertain write, and whether it may be sent again."""

from __future__ import annotations

from dataclasses import replace
from enum import Enum, auto

from fcguard.config import Config
from fcguard.io import IO
from fcguard.model.attempt import Attempt
from fcguard.model.call import Call
from fcguard.model.evidence import Evidence
from fcguard.model.failure import Failure, NextAction
from fcguard.model.outcome import Applied, AppliedByOther, Confirmation, Inconclusive, NotApplied
from fcguard.model.states import CallState
from fcguard.recovery.backoff import next_pause
from fcguard.recovery.confirm import (
    ask_confirmation,
    asks_by_repeating,
    has_old_key,
    licence_to_retry,
    note_on,
    settled_at,
)
from fcguard.results import shape
from fcguard.steps.late import judge_late
from fcguard.stores.journal import move_call

__all__ = ["Then", "confirm_write", "take_applied"]


class Then(Enum):
    """What follows an action of a recovery."""

    AGAIN = auto()  # another attempt is due
    NEXT = auto()  # this action did not help; try the plan's next one
    DONE = auto()  # the call has its answer


async def confirm_write(call: Call, failure: Failure, config: Config, io: IO) -> Then:
    """Find out what became of an uncertain write, and whether it may be sent again; a recovery's action."""
    if failure.effect != "unknown":
        return Then.NEXT
    attempt = call.attempts[-1]
    config.observer.recovery_started(call, "confirm")
    await move_call(call, CallState.CONFIRMING, "confirming", {"attempt": attempt.number}, config.store, io)
    asked_at = io.monotonic()
    answer = await _ask(call, attempt, config, io)
    licence = licence_to_retry(
        call, io
    )  # once: a key that grew too old between two looks would spare the settle window
    if licence is not None and _can_only_be_proved(call, failure, io):
        licence = "settle"
    if isinstance(answer, NotApplied) and licence == "settle" and _was_early(call, asked_at):
        answer = await _ask_when_settled(call, attempt, config, io)
    then = _take(call, failure, answer, licence, config, io)
    words = {Then.AGAIN: "not_applied", Then.DONE: "applied", Then.NEXT: "inconclusive"}
    config.observer.recovery_ended(call, "confirm", "not_applied" if isinstance(answer, NotApplied) else words[then])
    if then is Then.AGAIN and call.pause > 0:
        await io.sleep(call.pause)
        if licence_to_retry(call, io) != licence:  # the key grew too old meanwhile
            return await confirm_write(call, failure, config, io)
    return then


def _can_only_be_proved(call: Call, failure: Failure, io: IO) -> bool:
    """Answer whether nothing more can be sent, but time and a reading can still prove that nothing was applied."""
    tool = call.prepared.tool
    if tool.settle is None or tool.confirm is None:
        return False
    return _next_pause(call, failure, io) is None


def _next_pause(call: Call, failure: Failure, io: IO) -> float | None:
    if call.prepared.tool.effect == "destructive":
        return None
    return next_pause(call, call.prepared.policy, io.monotonic(), failure.retry_after)


async def _ask(call: Call, attempt: Attempt, config: Config, io: IO) -> Confirmation:
    """Consult the late result first, then the tool's own confirmation; keep each answer as evidence.

    Without a confirmation, a server that removes duplicates, or a condition, makes the repeat itself the question.
    """
    answer: Confirmation | None = None
    for one in call.attempts:
        answer = _from_late(call, one, config, io)
        if isinstance(answer, Applied):
            break
    if isinstance(answer, NotApplied) and any(one.effect == "unknown" for one in call.attempts if one is not attempt):
        answer = None  # only the last attempt is known not to have been applied
    source = "late result"
    if answer is None and call.prepared.tool.confirm is None and asks_by_repeating(call, io):
        answer, source = NotApplied("not asked: the repeat cannot be applied twice"), "licence"
    if answer is None:
        source = "confirm"
        answer = await ask_confirmation(call, config.child, io)
    call.confirmations = (*call.confirmations, note_on(call, answer, source, io.now()))
    return answer


def _from_late(call: Call, attempt: Attempt, config: Config, io: IO) -> Confirmation | None:
    late = attempt.late
    if late is None or late.is_running:
        return None
    verdict = judge_late(call, attempt, late, config, io)
    if verdict.effect == "applied":
        call.basis, call.returned, attempt.value = "late", late.value, late.value
        return Applied(late.value)
    if verdict.effect != "not_applied":
        return None
    attempt.effect, attempt.error_type = "not_applied", verdict.error_type or attempt.error_type
    return NotApplied(verdict.message)


def _was_early(call: Call, asked_at: float) -> bool:
    """Answer whether the settle window was not over when the state was read."""
    return call.unsendable is None and (_is_running(call) or asked_at < settled_at(call))


async def _ask_when_settled(call: Call, attempt: Attempt, config: Config, io: IO) -> Confirmation:
    """Wait until nothing that was sent can still land, then read again: only that reading counts."""
    while True:
        is_running = _is_running(call)  # first: a function that ends after this look has moved the window
        until = settled_at(call)
        left = until - io.monotonic()
        if call.deadline is not None and until >= call.deadline:
            return _Unsettled("the task's time ends before a sent request must have landed")
        if left <= 0:
            break
        if call.is_resumed:  # nobody waits for the answer; meanwhile others can be taken up
            call.due_at = io.now() + left
            return _Unsettled("its settle window is not over")
        await io.sleep(left)
    if is_running:
        return _Unsettled("the abandoned function still runs and may still send")
    return await _ask(call, attempt, config, io)


def _is_running(call: Call) -> bool:
    return any(attempt.late is not None and attempt.late.is_running for attempt in call.attempts)


class _Unsettled(NotApplied):
    """Read as not applied, but too early to rely on it."""


def _take(call: Call, failure: Failure, answer: Confirmation, licence: str | None, config: Config, io: IO) -> Then:
    attempt = call.attempts[-1]
    if isinstance(answer, Applied):
        take_applied(call, attempt, answer, config)
        return Then.DONE
    why = _why_not_again(call, answer, licence, io)
    if why is not None:
        _park(call, failure, why)
        return Then.NEXT
    is_proved = licence == "settle"
    if is_proved:
        for one in call.attempts:  # nothing that any of them sent can still land
            one.effect = "not_applied"
        call.failure = _proved_not_applied(failure, _last_sent(call))  # stands if nothing more can be sent
    pause = _next_pause(call, failure, io)
    if pause is not None:
        call.pause = 0.0 if is_proved else pause
        return Then.AGAIN
    if not is_proved:
        looked = call.confirmations[-1]["source"] != "licence"
        _park(
            call, failure, "The effect is not there yet, and no attempt is left." if looked else "No attempt is left."
        )
    return Then.NEXT


def _why_not_again(
    call: Call, answer: AppliedByOther | NotApplied | Inconclusive, licence: str | None, io: IO
) -> str | None:
    """Answer why a person must decide about a call that was not found applied; None if it may be sent again."""
    if isinstance(answer, AppliedByOther):
        return f"The wanted state is there, but it is not known who brought it about. {answer.reason}".strip()
    if not isinstance(answer, NotApplied):
        return f"The confirmation could not tell{f': {answer.reason}' if answer.reason else ''}."
    if call.unsendable is not None:
        return f"The effect is not there, and it cannot be sent again from here: {call.unsendable}."
    if isinstance(answer, _Unsettled):
        return f"The effect is not there yet, but {answer.message}."
    if licence is None:
        why = (
            "its idempotency key is older than the server remembers it"
            if has_old_key(call, io)
            else "the tool declares nothing that makes a repeat safe"
        )
        return f"The effect is not there yet, but a sent request may still land; {why}."
    return None


def take_applied(call: Call, attempt: Attempt, answer: Applied, config: Config) -> None:
    """Take what was found in the world for the outcome of a call: it is a success, confirmed or late."""
    tool = call.prepared.tool
    shaped = shape(
        answer.data,
        max_chars=tool.max_result_chars,
        keep=config.artifacts_of(call).keeper(tool.name, call.request_id, call.redactor),
    )
    call.data = shaped.data
    for evidence in shaped.evidence:
        call.attach(evidence)
    for child in call.children:
        call.attach(Evidence("call", child))
    if call.basis != "late":
        call.basis = "confirmed"
    attempt.effect = call.effect = "applied"
    call.failure = None
    if attempt.is_restored:
        call.message = f"{tool.name} took effect before its outcome was recorded: {call.basis}."
    elif attempt.error_type == "TIMEOUT":
        call.message = f"{tool.name} did not answer in time, but it took effect: {call.basis}."
    else:
        call.message = ""


def _park(call: Call, failure: Failure, why: str) -> None:
    call.failure = replace(
        failure,
        message=call.redactor.text(f"{failure.message} {why}"),
        next_action=NextAction.CONFIRM_STATE.value,
        reason=f"{failure.reason}; {why}",
    )


def _last_sent(call: Call) -> Attempt:
    return next((one for one in reversed(call.attempts) if one.was_dispatched), call.attempts[-1])


def _proved_not_applied(failure: Failure, attempt: Attempt) -> Failure:
    return Failure.of(
        attempt.error_type or failure.error_type,
        f"{failure.reason.partition(':')[0]}: it was confirmed that nothing was applied.",
        "execute",
        effect="not_applied",
        retry_after=failure.retry_after,
        cause=failure.cause,
        reason=f"{failure.reason}; confirmed as not applied after the settle window",
    )
