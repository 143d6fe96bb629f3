"""Step 1: assemble what the call may rely on."""

from __future__ import annotations

from fcguard.config import Config
from fcguard.constraints.bounds import count_call, deadline_of
from fcguard.io import IO
from fcguard.model.call import Call
from fcguard.model.context import OUTSIDE

__all__ = ["assemble_context"]


async def assemble_context(call: Call, config: Config, io: IO) -> None:
    """Fill `call.context`: the given context, else the running task's, else an empty one (outside a task)."""
    task = call.task
    if call.given is not None:
        call.context = call.given
    elif task is not None:
        call.context = task.context
    else:
        call.context = OUTSIDE
    if task is not None:
        is_bounded = call.context.budget is not None or task.bounds
        if call.purpose == "primary":
            if is_bounded:
                count_call(call)
            else:
                task.calls += 1
                for outer in task.around:
                    outer.calls += 1
        if is_bounded:
            call.deadline = deadline_of(call)
