"""The eight steps by name, plain or with each of them told to whoever watches stages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple, TypeAlias

from fcguard.config import Config
from fcguard.io import IO
from fcguard.model.call import Call
from fcguard.steps.context import assemble_context
from fcguard.steps.execute import execute_tool
from fcguard.steps.intent import read_intent
from fcguard.steps.normalize import normalize_arguments
from fcguard.steps.record import record_evidence
from fcguard.steps.recover import recover_call
from fcguard.steps.result import shape_result
from fcguard.steps.validate import validate_call
from fcguard.telemetry.observer import Observer

__all__ = ["PLAIN", "Step", "Steps", "watched"]

Step: TypeAlias = Callable[[Call, Config, IO], Awaitable[Any]]


class Steps(NamedTuple):
    """The eight steps in their order."""

    context: Step
    intent: Step
    normalize: Step
    validate: Step
    execute: Step
    result: Step
    recover: Step
    record: Step


PLAIN: Final = Steps(
    assemble_context,
    read_intent,
    normalize_arguments,
    validate_call,
    execute_tool,
    shape_result,
    recover_call,
    record_evidence,
)

_TOLD_BY_THEMSELVES: Final = frozenset({"execute", "recover"})
"""Steps that tell their observer more than a stage: each attempt, each recovery action."""


def watched(observer: Observer) -> Steps:
    """Answer the steps, each telling the observer when it began and ended."""

    def tell(name: str, step: Step) -> Step:
        if name in _TOLD_BY_THEMSELVES:
            return step

        async def told(call: Call, config: Config, io: IO) -> Any:
            began = io.now()
            try:
                return await step(call, config, io)
            finally:
                observer.stage(call, name, began, io.now())

        return told

    return Steps(*[tell(name, step) for name, step in PLAIN._asdict().items()])
