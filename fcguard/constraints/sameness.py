"""When are two calls, and two results, the same?"""

from __future__ import annotations

import marshal

from fcguard.model.attempt import Attempt
from fcguard.model.call import Call
from fcguard.model.identity import canonical

__all__ = ["fingerprint_of", "is_exempt", "mark_of", "warn"]


def fingerprint_of(call: Call) -> int:
    """Answer a number that is equal for calls of one tool with equal arguments, in this process."""
    return hash((call.tool.name if call.tool is not None else "", canonical(call.arguments)))


def mark_of(call: Call, attempt: Attempt) -> object:
    """Answer something that is equal for equal results; what cannot be compared is equal to nothing."""
    if attempt.failure is not None:
        return (attempt.error_type, attempt.failure.error_type, attempt.failure.message)
    for value in (attempt.value,) if call.data is None else (attempt.value, call.data):
        try:
            return hash(marshal.dumps(value, 0))
        except ValueError:  # not made of plain values
            continue
    return object()


def is_exempt(call: Call) -> bool:
    """Answer whether repeating a call is nobody's fault: polling tools, the platform's own calls, calls outside a task."""
    return call.task is None or call.tool is None or call.tool.polling or call.purpose != "primary"


def warn(call: Call, flag: str, text: str) -> None:
    """Flag a call, and put the warning where the model reads it if nothing else stands there."""
    call.flag(flag)
    if not call.message:
        call.message = text
