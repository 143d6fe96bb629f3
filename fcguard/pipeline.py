"""The order of the eight steps, and nothing else."""

from __future__ import annotations

from fcguard.config import Config
from fcguard.io import IO
from fcguard.model.call import Call
from fcguard.model.failure import Halt
from fcguard.recovery.interruption import interrupted
from fcguard.steps.context import assemble_context
from fcguard.steps.execute import execute_tool
from fcguard.steps.intent import read_intent
from fcguard.steps.normalize import normalize_arguments
from fcguard.steps.record import record_evidence
from fcguard.steps.recover import recover_call
from fcguard.steps.result import shape_result
from fcguard.steps.validate import validate_call

__all__ = ["govern"]


async def govern(call: Call, config: Config, io: IO) -> Call:
    """Take a call through the eight steps; it comes back with `call.result`, whatever happened on the way."""
    config.observer.call_started(call)
    try:
        await assemble_context(call, config, io)  # 1
        await read_intent(call, config, io)  # 2
        again = True
        while again:
            try:
                await normalize_arguments(call, config, io)  # 3
                await validate_call(call, config, io)  # 4
                await execute_tool(call, config, io)  # 5
                await shape_result(call, config, io)  # 6
            except Halt as halt:
                call.halt = halt
            again = await recover_call(call, config, io)  # 7
    except Halt as halt:
        call.failure = halt.failure
    except BaseException as error:
        interrupted(call, error)
        if not isinstance(error, Exception):
            raise
    finally:
        await record_evidence(call, config, io)  # 8
        config.observer.call_ended(call)
    return call
