"""Step 7: look the plan up in one table and act on it: retry, confirm, wait, switch, fall back, or stop."""

from __future__ import annotations

from typing import Final

from fcguard.config import Config
from fcguard.constraints.admission import release
from fcguard.constraints.bounds import task_out_of_time
from fcguard.io import IO
from fcguard.model.attempt import Attempt, Unlicensed
from fcguard.model.call import Call
from fcguard.model.failure import ErrorType, Failure, FailureClass
from fcguard.model.states import CallState
from fcguard.model.tool import Fallback, Plan
from fcguard.recovery.backoff import next_pause
from fcguard.recovery.confirm import Withheld, lacks_licence, may_be_applied
from fcguard.recovery.refused_repeat import refused_repeat
from fcguard.steps.confirming import Then, confirm_write
from fcguard.stores.journal import move_call, prepare_call

__all__ = ["recover_call"]


_BEFORE_DISPATCH: Final = frozenset({"wait", "switch", "fallback"})
_MOST_WAITS: Final = 3


async def recover_call(call: Call, config: Config, io: IO) -> bool:
    """Take the attempt's judgement, or what halted the call before it was sent, and act on it.

    Returns:
        Whether another attempt is due (the steps from normalization on run again).
    """
    halt, call.halt = call.halt, None
    if halt is not None:
        rest = release(call, None, io)
        if rest is not None:
            await rest
        if halt.failure is None:  # the ledger held the answer
            call.failure = None
            return False
        if isinstance(halt, Withheld):
            return await _act(call, call.failure or halt.failure, False, config, io)
        if call.attempts:
            return await _take_refusal(call, halt.failure, config, io)
        failure = halt.failure
    else:
        attempt = call.attempts[-1]
        if attempt.failure is None:  # first, so that who is cancelled from here on has done it all the same
            call.failure, call.effect, call.basis = None, attempt.effect, "returned"
        try:
            rest = release(call, attempt, io) if call.admitted else None
            if rest is not None:
                await rest
        finally:
            if not attempt.is_restored:
                config.observer.attempt_ended(call, attempt)
        if attempt.failure is None:
            return False
        failure = _judged_with_the_earlier(call, attempt, attempt.failure)
        if failure.effect == "unknown" and not attempt.is_restored:
            await move_call(call, CallState.UNCERTAIN, "uncertain", attempt.summary(), config.store, io)
    call.failure = failure
    is_due = await _act(call, failure, halt is not None, config, io)
    if not is_due:
        _note_end_of_time(call, io)
    return is_due


def _note_end_of_time(call: Call, io: IO) -> None:
    """Say of a failure that the time of the task is over, so that nobody tries again in it."""
    failure = call.failure
    if failure is None or not call.attempts or call.deadline is None or io.monotonic() < call.deadline:
        return
    words = f"The time of {task_out_of_time(call)} is used up."
    is_over = Failure.of(ErrorType.BUDGET_EXHAUSTED, words, "execution", reason="the deadline has passed")
    call.failure = refused_repeat(failure, is_over, call.prepared.tool.effect)


async def _take_refusal(call: Call, refusal: Failure, config: Config, io: IO) -> bool:
    """Take what refused the next attempt: the failure of the last one stands, and says so; another tool may still answer.

    It is the last attempt's plan that leads there, unless the refusal is one that nothing may be tried around.
    """
    call.flag(f"stopped_by:{refusal.error_type}")
    stands = call.failure
    if stands is None:
        return False
    if refusal.effect == "unknown":  # another worker has the call, and may have sent it after these attempts
        call.failure = refusal
        return False
    tool, last = call.prepared.tool, call.attempts[-1].failure or stands
    call.failure = refused_repeat(stands, refusal, tool.effect)
    if "fallback" in _plan(call, last, config) and (
        _only_ends_repeats(refusal) or "fallback" in _plan(call, refusal, config)
    ):
        await _fall_back(call, stands, config, io)
    return False


def _only_ends_repeats(refusal: Failure) -> bool:
    is_spent = refusal.error_type == ErrorType.BUDGET_EXHAUSTED
    return is_spent or refusal.failure_class is FailureClass.AVAILABILITY


def _plan(call: Call, failure: Failure, config: Config) -> Plan:
    tool = call.prepared.tool
    return config.table.plan_for(failure, tool.effect, tool.recovery)


def _judged_with_the_earlier(call: Call, attempt: Attempt, failure: Failure) -> Failure:
    """Keep a write uncertain while an earlier attempt of it is: that this one was not applied proves nothing about that one."""
    if type(attempt.error) is Unlicensed and call.failure is not None:
        return call.failure  # nothing happened since
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
    for action in _plan(call, failure, config):
        if action == "stop" or (is_halted and action not in _BEFORE_DISPATCH):
            continue
        then = await _ACTIONS[action](call, failure, config, io)
        if then is not Then.NEXT:
            return then is Then.AGAIN
    return False


async def _retry(call: Call, failure: Failure, config: Config, io: IO) -> Then:
    if _must_not_be_sent_again(call, io):
        return Then.NEXT
    pause = next_pause(call, call.prepared.policy, io.monotonic(), failure.retry_after)
    if pause is None:
        return Then.NEXT
    config.observer.recovery_started(call, "retry")
    if pause > 0:
        await io.sleep(pause)
    call.pause = pause
    config.observer.recovery_ended(call, "retry", "again")
    return Then.AGAIN


async def _wait(call: Call, failure: Failure, config: Config, io: IO) -> Then:
    tool = call.prepared.tool
    if tool.ready is None or call.waits >= _MOST_WAITS or _must_not_be_sent_again(call, io):
        return Then.NEXT
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
    return Then.AGAIN if is_ready else Then.NEXT


async def _switch(call: Call, failure: Failure, config: Config, io: IO) -> Then:
    environment = call.context.environment
    if environment is None or not environment.alternatives or _must_not_be_sent_again(call, io):
        return Then.NEXT
    if call.ledger_version is not None:  # its row and its keys belong to the environment that it was sent to
        return Then.NEXT
    first, *rest = environment.alternatives
    config.observer.recovery_started(call, "switch")
    context = call.context.model_copy(
        update={"environment": first.model_copy(update={"alternatives": (*first.alternatives, *rest)})}
    )
    call.reopen("context", "arguments", "verdict")
    call.context = context
    call.flag(f"environment:{first.name}")
    config.observer.recovery_ended(call, "switch", "again")
    return Then.AGAIN


def _must_not_be_sent_again(call: Call, io: IO) -> bool:
    """Answer whether a repeat could do harm, whatever a table says: it only ever comes after a confirmation, if at all."""
    is_destructive = call.prepared.tool.effect == "destructive"
    return (is_destructive and bool(call.attempts)) or lacks_licence(call, io)


async def _fall_back(call: Call, failure: Failure, config: Config, io: IO) -> Then:
    tool = call.prepared.tool
    if not tool.fallback or call.purpose == "fallback" or (not tool.is_read and may_be_applied(call)):
        return Then.NEXT
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
            for flag in result.flags:  # they are about this data
                call.flag(flag)
            call.data, call.returned = result.data, answered.returned
            call.basis, call.effect, call.failure = "returned", result.effect, None
            call.answered_by = result.answered_by or fallback.tool
            call.message = f"{tool.name} was not available ({failure.error_type}); {call.answered_by} answered instead."
            config.observer.recovery_ended(call, "fallback", "answered")
            return Then.DONE
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
    return Then.NEXT


_ACTIONS: Final = {
    "retry": _retry,
    "confirm": confirm_write,
    "wait": _wait,
    "switch": _switch,
    "fallback": _fall_back,
}
