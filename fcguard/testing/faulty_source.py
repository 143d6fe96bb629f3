"""Faults of the model: proposals that name no tool, lack a parameter, hold a wrong value, or belong to an earlier task."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal, TypeAlias

from fcguard.errors import UsageError
from fcguard.model.context import TaskContext
from fcguard.model.intent import Intent
from fcguard.model.tool import Tool

__all__ = ["FaultySource", "ProposalFault", "distort"]

ProposalFault: TypeAlias = Literal["unknown_tool", "missing_parameter", "wrong_parameter", "stale_arguments"]

_KNOWN: Final = ("unknown_tool", "missing_parameter", "wrong_parameter", "stale_arguments")


def distort(
    intent: Intent,
    fault: ProposalFault,
    *,
    chance: random.Random | None = None,
    required: Sequence[str] = (),
    earlier: Mapping[str, Any] | None = None,
) -> Intent:
    """Answer a proposal with a model's mistake in it.

    Args:
        intent: a proposal whose arguments are an object.
        fault: which mistake.
        chance: seeded; decides which parameter is hit. None: seed 0.
        required: parameters that `missing_parameter` may leave out; empty: any that was sent.
        earlier: arguments of the earlier task, for `stale_arguments`.

    Raises:
        UsageError: the fault is unknown, or cannot be put into this proposal.
    """
    if fault not in _KNOWN:
        raise UsageError(f"{fault!r} is no fault of a proposal; known: {', '.join(_KNOWN)}")
    if fault == "unknown_tool":
        return replace(intent, tool=f"{intent.tool}_v2")
    if fault == "stale_arguments":
        if earlier is None:
            raise UsageError("stale_arguments needs the earlier task's arguments: earlier={...}")
        return replace(intent, arguments=dict(earlier))
    if not isinstance(intent.arguments, Mapping) or not intent.arguments:
        raise UsageError(f"{fault} needs a proposal whose arguments are an object that is not empty")
    chance = chance or random.Random(0)
    arguments = dict(intent.arguments)
    name = chance.choice(sorted(set(required) & set(arguments)) or sorted(arguments))
    if fault == "missing_parameter":
        del arguments[name]
    else:
        arguments[name] = {"value": arguments[name]}
    return replace(intent, arguments=arguments)


class FaultySource:
    """A source of intents whose proposals are distorted a number of times; give it to `guard.step`.

    Args:
        source: the source of the proposals.
        fault: which mistake.
        times: how many proposals are hit; None: all.
        seed: the same seed hits the same parameters.
        earlier: see `distort`.
    """

    def __init__(
        self,
        source: Any,
        fault: ProposalFault,
        *,
        times: int | None = None,
        seed: int = 0,
        earlier: Mapping[str, Any] | None = None,
    ) -> None:
        self._source, self._fault, self._left, self._earlier = source, fault, times, earlier
        self._random = random.Random(seed)
        self.struck = 0

    def propose(self, context: TaskContext, tools: Sequence[Tool]) -> Intent:
        """Answer the source's next proposal, with the fault in it while it strikes."""
        intent: Intent = self._source.propose(context, tools)
        if not intent.call or self._left == 0:
            return intent
        if self._left is not None:
            self._left -= 1
        self.struck += 1
        schema = next((tool.parameters for tool in tools if tool.name == intent.tool), {})
        required = schema.get("required", ())
        return distort(intent, self._fault, chance=self._random, required=required, earlier=self._earlier)

    def record(self, result: Any) -> None:
        """Pass a result on to the source, if it wants it."""
        told = getattr(self._source, "record", None)
        if told is not None:
            told(result)
