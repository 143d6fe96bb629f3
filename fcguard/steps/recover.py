"""Step 7: look the plan up in one table and act on it: retry, confirm, wait, switch, fall back, or stop."""

from __future__ import annotations

from dataclasses import replace
from enum import Enum, auto
from typing import Any, Final

from fcguard.config import Config
from fcguard.constraints.admission import release
from fcguard.io import IO
from fcguard.model.attempt import Attempt
from fcguard.model.call import Call
from fcguard.model.evidence import Evidence
from fcguard.model.failure import ErrorType, Failure, NextAction
from fcguard.model.outcome import Applied, AppliedByOther, Confirmation, NotApplied
from fcguard.model.states import CallState
from fcguard.model.tool import Fallback
from fcguard.recovery.backoff import next_pause
from fcguard.recovery.confirm import ask_confirmation, has_old_key, licence_to_retry, settled_at
from fcguard.recovery.refused_repeat import refused_repeat
from fcguard.results import shape
from fcguard.steps.late import judge_late
from fcguard.stores.journal import move_call, prepare_call

__all__ = ["recover_call", "take_applied"]


class _Then(Enum):
    AGAIN = auto()  # another attempt is due
    NEXT = auto()  # this action did not help; try the plan's next one
    DONE = auto()  # the call has its answer


_BEFORE_DISPATCH: Final = frozenset({"wait", "switch", "fallback"})
_MOST_WAITS: Final = 3
_ASKS_BY_REPEATING: Final = frozenset({"idempotency_key", "conditional", "idempotent"})


async def recover_call(call: Call, config: Config, io: IO) -> bool:
    """Take the attempt's judgement, or what halted the call before it was sent, and act on it.

    Returns:
        Whether another attempt is due (the steps from normalization on run again).
    """
    halt, call.halt = call.halt, None
    if halt is not None:
        release(call, None, io.monotonic())
        if halt.failure is None:  # the ledger held the answer
            call.failure = None
            return False
        if call.attempts:  # refused between two attempts: the failure of the last one stands, and says so
            call.flag(f"stopped_by:{halt.failure.error_type}")
            if call.failure is not None:
                call.failure = refused_repeat(call.failure, halt.failure, call.prepared.tool.effect)
            return False
        failure = halt.failure
    else:
        attempt = call.attempts[-1]
        if call.admitted:
            release(call, attempt, io.monotonic())
        if not attempt.is_restored:
            config.observer.attempt_ended(call, attempt)
        if attempt.failure is None:
            call.failure, call.effect, call.basis = None, attempt.effect, "returned"
            return False
        failure = _judged_with_the_earlier(call, attempt, attempt.failure)
        if failure.effect == "unknown" and not attempt.is_restored:
            await move_call(call, CallState.UNCERTAIN, "uncertain", attempt.summary(), config.store, io)
    call.failure = failure
    return await _act(call, failure, halt is not None, config, io)


def _judged_with_the_earlier(call: Call, attempt: Attempt, failure: Failure) -> Failure:
    """Keep a write uncertain while an earlier attempt of it is: that this one was not applied proves nothing about that one."""
    if failure.effect == "unknown" or call.prepared.is_read or call.prepared.tool.effect == "idempotent_write":
        return failure
    if all(one.effect != "unknown" for one in call.attempts):
        return failure
    return Failure.of(
        ErrorType.UNCERTAIN_RESULT,
        f"The last attempt did not take effect ({failure.message}), but an earlier one may have. Confirm the state first.",
        "execute",
        effect="unknown",
        retry_after=failure.retry_after,
        cause=failure.cause,
        reason=f"{failure.error_type} after an attempt of unknown effect: {failure.reason}",
    )


async def _act(call: Call, failure: Failure, is_halted: bool, config: Config, io: IO) -> bool:
    if call.tool is None:
        return False
    for action in config.table.plan_for(failure, call.tool.effect, call.tool.recovery):
        if action == "stop" or (is_halted and action not in _BEFORE_DISPATCH):
            continue
        then = await _ACTIONS[action](call, failure, config, io)
        if then is not _Then.NEXT:
            return then is _Then.AGAIN
    return False


async def _retry(call: Call, failure: Failure, config: Config, io: IO) -> _Then:
    if _must_not_be_sent_again(call, io.now()):
        return _Then.NEXT
    pause = next_pause(call, call.prepared.policy, io.monotonic(), failure.retry_after)
    if pause is None:
        return _Then.NEXT
    config.observer.recovery_started(call, "retry")
    if pause > 0:
        await io.sleep(pause)
    call.pause = pause
    config.observer.recovery_ended(call, "retry", "again")
    return _Then.AGAIN


async def _confirm(call: Call, failure: Failure, config: Config, io: IO) -> _Then:
    if failure.effect != "unknown":
        return _Then.NEXT
    attempt = call.attempts[-1]
    config.observer.recovery_started(call, "confirm")
    await move_call(call, CallState.CONFIRMING, "confirming", {"attempt": attempt.number}, config.store, io)
    asked_at = io.monotonic()
    answer = await _ask(call, attempt, config, io)
    if isinstance(answer, NotApplied) and _was_early(call, asked_at, io.now()):
        answer = await _ask_when_settled(call, attempt, config, io)
    then = _take(call, attempt, failure, answer, config, io)
    words = {_Then.AGAIN: "not_applied", _Then.DONE: "applied", _Then.NEXT: "inconclusive"}
    config.observer.recovery_ended(call, "confirm", "not_applied" if isinstance(answer, NotApplied) else words[then])
    if then is _Then.AGAIN and call.pause > 0:
        await io.sleep(call.pause)
    return then


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
    if answer is None and call.prepared.tool.confirm is None and _asks_by_repeating(call, io.now()):
        answer, source = NotApplied("not asked: the repeat cannot be applied twice"), "licence"
    if answer is None:
        source = "confirm"
        answer = await ask_confirmation(call, config.child, io)
    note: dict[str, Any] = {"at": io.now(), "source": source, "answer": type(answer).__name__}
    reason = getattr(answer, "reason", None) or getattr(answer, "message", None)
    if reason:
        note["reason"] = call.redactor.words(str(reason)[:500])
    call.confirmations = (*call.confirmations, note)
    return answer


def _asks_by_repeating(call: Call, now: float) -> bool:
    if call.prepared.tool.effect == "destructive":
        return False
    return call.unsendable is None and licence_to_retry(call, now) in _ASKS_BY_REPEATING


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


def _was_early(call: Call, asked_at: float, now: float) -> bool:
    """Answer whether the settle window decides, and was not over when the state was read."""
    if licence_to_retry(call, now) != "settle" or call.unsendable is not None:
        return False
    return _is_running(call) or asked_at < settled_at(call)


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


def _take(call: Call, attempt: Attempt, failure: Failure, answer: Confirmation, config: Config, io: IO) -> _Then:
    tool = call.prepared.tool
    if isinstance(answer, Applied):
        take_applied(call, attempt, answer, config)
        return _Then.DONE
    if isinstance(answer, AppliedByOther):
        _park(
            call,
            failure,
            f"The wanted state is there, but it is not known who brought it about. {answer.reason}".strip(),
        )
        return _Then.NEXT
    if not isinstance(answer, NotApplied):
        _park(
            call,
            failure,
            f"The confirmation could not tell: {answer.reason}."
            if answer.reason
            else "The confirmation could not tell.",
        )
        return _Then.NEXT
    if call.unsendable is not None:
        _park(call, failure, f"The effect is not there, and it cannot be sent again from here: {call.unsendable}.")
        return _Then.NEXT
    licence = licence_to_retry(call, io.now())
    if isinstance(answer, _Unsettled):
        _park(call, failure, f"The effect is not there yet, but {answer.message}.")
        return _Then.NEXT
    if licence is None:
        why = (
            "its idempotency key is older than the server remembers it"
            if has_old_key(call, io.now())
            else "the tool declares nothing that makes a repeat safe"
        )
        _park(call, failure, f"The effect is not there yet, but a sent request may still land; {why}.")
        return _Then.NEXT
    is_proved = licence == "settle"
    if is_proved:
        for one in call.attempts:  # nothing that any of them sent can still land
            one.effect = "not_applied"
        call.failure = _proved_not_applied(failure, attempt)  # stands if nothing more can be sent
    pause = (
        None
        if tool.effect == "destructive"
        else next_pause(call, call.prepared.policy, io.monotonic(), failure.retry_after)
    )
    if pause is not None:
        call.pause = 0.0 if is_proved else pause
        return _Then.AGAIN
    if not is_proved:
        looked = call.confirmations[-1]["source"] != "licence"
        _park(
            call, failure, "The effect is not there yet, and no attempt is left." if looked else "No attempt is left."
        )
    return _Then.NEXT


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


async def _wait(call: Call, failure: Failure, config: Config, io: IO) -> _Then:
    tool = call.prepared.tool
    if tool.ready is None or call.waits >= _MOST_WAITS or _must_not_be_sent_again(call, io.now()):
        return _Then.NEXT
    config.observer.recovery_started(call, "wait")
    call.waits += 1
    limit = io.monotonic() + call.prepared.policy.max_wait
    if call.deadline is not None:
        limit = min(limit, call.deadline)
    pause = failure.retry_after or 0.2
    is_ready = False
    while not is_ready and io.monotonic() + pause <= limit:
        await io.sleep(pause)
        pause = min(pause * 2, 5.0)
        try:
            is_ready = bool(await io.call(tool.ready, call))
        except Exception as error:
            call.flag(f"ready_failed:{type(error).__name__}")
            break
    config.observer.recovery_ended(call, "wait", "again" if is_ready else "gave_up")
    return _Then.AGAIN if is_ready else _Then.NEXT


async def _switch(call: Call, failure: Failure, config: Config, io: IO) -> _Then:
    environment = call.context.environment
    if environment is None or not environment.alternatives or _must_not_be_sent_again(call, io.now()):
        return _Then.NEXT
    if call.ledger_version is not None:  # its row and its keys belong to the environment that it was sent to
        return _Then.NEXT
    first, *rest = environment.alternatives
    config.observer.recovery_started(call, "switch")
    context = call.context.model_copy(
        update={"environment": first.model_copy(update={"alternatives": (*first.alternatives, *rest)})}
    )
    call.reopen("context", "arguments", "verdict")
    call.context = context
    call.flag(f"environment:{first.name}")
    config.observer.recovery_ended(call, "switch", "again")
    return _Then.AGAIN


def _must_not_be_sent_again(call: Call, now: float) -> bool:
    """Answer whether a repeat could do harm, whatever a table says: it only ever comes after a confirmation, if at all."""
    effect = call.prepared.tool.effect
    if effect in ("read", "idempotent_write") or not call.attempts:
        return False
    return effect == "destructive" or (_may_be_applied(call) and not _asks_by_repeating(call, now))


def _may_be_applied(call: Call) -> bool:
    return any(attempt.effect in ("unknown", "applied") for attempt in call.attempts)


async def _fall_back(call: Call, failure: Failure, config: Config, io: IO) -> _Then:
    tool = call.prepared.tool
    if not tool.fallback or call.purpose == "fallback" or (not tool.is_read and _may_be_applied(call)):
        return _Then.NEXT
    if not tool.is_read and call.ledger_version is None:  # the effect that the other tool may have is this call's own
        await prepare_call(call, config.store, io, config.lease)
    config.observer.recovery_started(call, "fallback")
    for entry in tool.fallback:
        fallback = entry if isinstance(entry, Fallback) else Fallback(entry)
        try:
            arguments = call.arguments if fallback.arguments is None else fallback.arguments(call.arguments)
        except Exception as error:
            call.flag(f"fallback_arguments_failed:{type(error).__name__}")
            continue
        call.is_delegated = not tool.is_read
        answered: Call = await config.child(call, fallback.tool, arguments, "fallback", io)
        result = answered.result
        call.evidence = (*call.evidence, *result.evidence)
        if result.success:
            call.data, call.returned = result.data, answered.returned
            call.basis, call.effect, call.failure = "returned", result.effect, None
            call.answered_by = result.answered_by or fallback.tool
            call.message = f"{tool.name} was not available ({failure.error_type}); {call.answered_by} answered instead."
            config.observer.recovery_ended(call, "fallback", "answered")
            return _Then.DONE
        if result.effect == "unknown":
            call.failure = Failure.of(
                ErrorType.UNCERTAIN_RESULT,
                f"{fallback.tool} was asked instead of {tool.name}: {result.message}",
                "execution",
                effect="unknown",
                reason=f"the fallback {answered.request_id} is of unknown effect",
            )
            break
        call.is_delegated = False
    config.observer.recovery_ended(call, "fallback", "gave_up")
    return _Then.NEXT


_ACTIONS: Final = {
    "retry": _retry,
    "confirm": _confirm,
    "wait": _wait,
    "switch": _switch,
    "fallback": _fall_back,
}
