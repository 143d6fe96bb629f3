"""Step 2: read what the model wants: which tool, and whether its proposal arrived whole."""

from __future__ import annotations

from fcguard.config import Config
from fcguard.io import IO
from fcguard.model.call import Call
from fcguard.model.failure import ErrorType, Failure, Halt

__all__ = ["read_intent"]


async def read_intent(call: Call, config: Config, io: IO) -> None:
    """Fill `call.intent` and resolve the tool; refuse an unknown tool and a response that was cut off."""
    proposal = call.proposal
    call.intent = proposal
    if call.tool is None:
        _resolve(call, config)
    if call.prepared.takes_receiver and call.receiver is None:
        _refuse_unbound(call)
    if proposal.finish_reason is not None or proposal.usage is not None:
        _refuse_truncated(call)


def _resolve(call: Call, config: Config) -> None:
    name = call.proposal.tool
    if not isinstance(name, str) or not name:
        raise Halt(
            Failure.of(ErrorType.TOOL_UNKNOWN, "The call names no tool; name one of the available tools.", "intent")
        )
    found = config.tools.resolve(name, call.context.tools.admits)
    if isinstance(found, Failure):
        raise Halt(found)
    call.prepared, call.tool, call.redactor = found, found.tool, found.redactor


def _refuse_unbound(call: Call) -> None:
    name = call.prepared.tool.name
    raise Halt(
        Failure.of(
            ErrorType.STATE_FAILED,
            f"{name!r} is a method: call it on its instance, or leave it undecorated in its class and register the bound method: guard.tool(instance.{name}).",
            "intent",
        )
    )


def _refuse_truncated(call: Call) -> None:
    if call.proposal.is_truncated:
        raise Halt(
            Failure.of(
                ErrorType.PARAM_TRUNCATED,
                "The model's output was cut off by its length limit, so the arguments may be incomplete. Send the call again with a "
                "smaller payload, or split it into several calls.",
                "intent",
                reason=f"finish_reason={call.proposal.finish_reason!r}",
            )
        )
