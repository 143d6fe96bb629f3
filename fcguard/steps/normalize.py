"""Step 3: parse the arguments, fold harmless noise, fill what the host binds, and freeze the result."""

from __future__ import annotations

from typing import Any

from fcguard.arguments.bound import bind
from fcguard.config import Config
from fcguard.io import IO
from fcguard.model.call import UNFILLED, Call
from fcguard.model.failure import Failure, Halt
from fcguard.model.frozen import freeze

__all__ = ["normalize_arguments"]


async def normalize_arguments(call: Call, config: Config, io: IO) -> None:
    """Fill `call.arguments` (frozen) and `call.normalized`; refuse arguments that cannot be read as an object.

    A plain retry finds them filled and leaves them: every attempt sees the same object.
    """
    if call.arguments is not UNFILLED:
        return
    prepared = call.prepared
    tool = prepared.tool
    normalized = call.normalized = prepared.schema.normalize(call.proposal.arguments, effect=tool.effect)
    value = normalized.value
    if value is None:
        raise Halt(_failure(normalized))
    if tool.bound:
        bind(value, tool.bound, call.context)
    call.arguments = freeze(value)
    if prepared.may_hold_secrets or normalized.problems:
        call.redactor = call.redactor.knowing(value)


def _failure(normalized: Any) -> Failure:
    return Failure.of(
        normalized.error_type,
        normalized.message,
        "normalize",
        next_action=normalized.next_action,
        problems=normalized.problems,
    )
