"""The order of the eight steps, and nothing else."""

from __future__ import annotations

from fcguard.config import Config
from fcguard.io import IO
from fcguard.model.call import Call
from fcguard.model.failure import Halt
from fcguard.recovery.interruption import interrupted
from fcguard.steps import PLAIN, watched

__all__ = ["govern"]


async def govern(call: Call, config: Config, io: IO) -> Call:
    """Take a call through the eight steps; it comes back with `call.result`, whatever happened on the way."""
    observer = config.observer
    observer.call_started(call)
    step = watched(observer) if observer.wants_stages else PLAIN
    try:
        await step.context(call, config, io)  # 1
        await step.intent(call, config, io)  # 2
        # A call that another process left open begins with what it knows of its last attempt.
        again = not call.attempts or await step.recover(call, config, io)
        while again:
            try:
                await step.normalize(call, config, io)  # 3
                await step.validate(call, config, io)  # 4
                await step.execute(call, config, io)  # 5
                await step.result(call, config, io)  # 6
            except Halt as halt:
                call.halt = halt
            again = await step.recover(call, config, io)  # 7
    except Halt as halt:
        call.failure = halt.failure
    except BaseException as error:
        interrupted(call, error)
        if not isinstance(error, Exception):
            raise
    finally:
        try:
            await step.record(call, config, io)  # 8
        finally:
            observer.call_ended(call)
    return call
