"""Step 3: parse the arguments, fold harmless noise, fill what the host binds, and freeze the result."""

from __future__ import annotations

from typing import Any

from fcguard.config import Config
from fcguard.io import IO
from fcguard.model.call import UNFILLED, Call
from fcguard.model.failure import ErrorType, Failure, Halt
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
        _bind(call, value)
    call.arguments = freeze(value)


def _bind(call: Call, value: dict[str, Any]) -> None:
    for parameter, name in call.prepared.tool.bound.items():
        bound = call.context.value_of(name)
        if bound is None:
            raise Halt(
                Failure.of(
                    ErrorType.STATE_FAILED,
                    f"The parameter {parameter!r} is bound to the task's {name!r}, which the task does not give. The host must set it.",
                    "normalize",
                )
            )
        value[parameter] = bound


def _failure(normalized: Any) -> Failure:
    return Failure.of(
        normalized.error_type,
        normalized.message,
        "normalize",
        next_action=normalized.next_action,
        problems=normalized.problems,
    )
