"""Fill the parameters that the host binds to the task; the model neither sees nor sends them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fcguard.model.context import TaskContext
from fcguard.model.failure import ErrorType, Failure, Halt

__all__ = ["bind"]


def bind(value: dict[str, Any], bound: Mapping[str, str], context: TaskContext) -> None:
    """Put the bound values into the arguments.

    Args:
        value: the arguments; changed.
        bound: parameter -> name of the context's identity.
        context: the task's context.

    Raises:
        Halt: the context does not hold what a parameter is bound to.
    """
    for parameter, name in bound.items():
        identity = context.value_of(name)
        if identity is None:
            raise Halt(
                Failure.of(
                    ErrorType.STATE_FAILED,
                    f"The parameter {parameter!r} is bound to the task's {name!r}, which the task does not give. The host must set it.",
                    "normalize",
                )
            )
        value[parameter] = identity
