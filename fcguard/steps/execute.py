"""Step 5: run the tool once, with its intent made durable first if it writes."""

from __future__ import annotations

from typing import Final

from fcguard.config import Config, Prepared
from fcguard.constraints.bounds import task_out_of_time
from fcguard.io import IO
from fcguard.model.attempt import Abandoned, Attempt, NotEntered, Unlicensed
from fcguard.model.call import Call
from fcguard.model.failure import ErrorType, Failure, Halt
from fcguard.recovery.confirm import check_licence, lacks_licence
from fcguard.stores.journal import derive_keys, start_attempt

__all__ = ["execute_tool"]


async def execute_tool(call: Call, config: Config, io: IO) -> None:
    """Add one attempt to `call.attempts`, with what the tool returned or raised.

    Raises:
        Halt: the intent could not be recorded, the effect is open elsewhere, the answer is known already, or time is up.
        BaseException: cancellation and interrupts pass, with the attempt kept.
    """
    prepared: Prepared = call.prepared
    tool = prepared.tool
    started = io.monotonic()
    timeout = tool.timeout
    if call.deadline is not None:
        timeout = _within(call, call.deadline - started, timeout)
    attempt = Attempt(len(call.attempts) + 1, io.now(), started, timeout, call.pause)
    if not prepared.is_read:
        if call.effect_key is None and call.idempotency_key is None:
            derive_keys(call)
        if call.attempts:
            check_licence(call, io)
        await start_attempt(call, attempt, config.store, io, config.lease)
        attempt.started = io.monotonic()
    call.attempts.append(attempt)
    task = call.task
    if task is not None:
        task.attempts += 1
        task.cost += tool.cost
        for outer in task.around:
            outer.attempts += 1
            outer.cost += tool.cost
    config.observer.attempt_started(call, attempt)
    try:
        if attempt.number > 1 and lacks_licence(call, io):  # the ledger took so long
            raise Unlicensed(
                ErrorType.PRECONDITION_FAILED, "What made the repeat safe holds no longer; it was not sent."
            )
        attempt.value = await io.invoke(call, attempt, timeout)
        attempt.returned = True
    except Abandoned as error:
        attempt.error, attempt.late = error, error.late
    except NotEntered as error:
        attempt.error, attempt.was_dispatched = error, False
    except Exception as error:
        attempt.error = error
    except BaseException as error:
        attempt.error = error
        raise
    finally:
        attempt.ended = io.monotonic()
        attempt.duration = attempt.ended - attempt.started


_LONGEST_WAIT: Final = 9e9
"""Seconds, some 285 years; a thread cannot wait longer, so that a budget beyond it is no limit."""


def _within(call: Call, left: float, timeout: float | None) -> float | None:
    if left <= 0:
        message = f"The time of {task_out_of_time(call)} is used up; nothing was sent."
        raise Halt(Failure.of(ErrorType.BUDGET_EXHAUSTED, message, "execution"))
    if left >= _LONGEST_WAIT:
        return timeout
    return left if timeout is None else min(left, timeout)
