"""Find out whether an uncertain write is in the system, and whether it may be sent again."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from inspect import isawaitable
from typing import Any, Final

from fcguard.io import IO
from fcguard.model.attempt import Attempt
from fcguard.model.call import Call
from fcguard.model.outcome import Applied, AppliedByOther, Confirmation, Inconclusive, NotApplied
from fcguard.model.tool import ConfirmBy

__all__ = [
    "CONFIRMING",
    "ask_confirmation",
    "asks_by_repeating",
    "has_old_key",
    "licence_to_retry",
    "note_on",
    "settled_at",
]

CONFIRMING: Final[ContextVar[Call | None]] = ContextVar("fcguard_confirming", default=None)
"""The write that is being confirmed; calls made meanwhile are its recorded child calls."""


_ASKS_BY_REPEATING: Final = frozenset({"idempotency_key", "conditional", "idempotent"})
_UNRELIABLE: Final = frozenset({"truncated", "contract_broken", "unread", "depth"})
"""Flags of a read whose answer may lack what it is asked for."""


async def ask_confirmation(call: Call, child: Any, io: IO) -> Confirmation:
    """Run the tool's `confirm` once; whatever goes wrong in it is `Inconclusive`, never an answer."""
    confirm = call.prepared.tool.confirm
    if confirm is None:
        return Inconclusive("the tool declares no confirm")
    before, token = CONFIRMING.get(), None
    try:
        token = CONFIRMING.set(call)
        if isinstance(confirm, ConfirmBy):
            return await _by_tool(call, confirm, child, io)
        answer = await io.call(confirm, call)
    except NotApplied as said:
        return said
    except Exception as error:
        return Inconclusive(f"the confirmation raised {type(error).__name__}")
    finally:
        if token is None:  # interrupted in this very moment; left as it is, the task could only read from now on
            CONFIRMING.set(before)
        else:
            CONFIRMING.reset(token)
    if answer is NotApplied:
        return NotApplied()
    if isinstance(answer, (Applied, AppliedByOther, NotApplied, Inconclusive)):
        return answer
    return Inconclusive(
        f"the confirmation answered {type(answer).__name__}, not Applied, AppliedByOther, NotApplied or Inconclusive"
    )


def note_on(call: Call, answer: Confirmation, source: str, now: float) -> dict[str, Any]:
    """Answer what the record says of an answer about a call.

    Args:
        call: the write.
        answer: what was found.
        source: who found it: `confirm`, `late result` or `licence`.
        now: wall clock in seconds.
    """
    note: dict[str, Any] = {"at": now, "source": source, "answer": type(answer).__name__}
    reason = getattr(answer, "reason", None) or getattr(answer, "message", None)
    if reason:
        note["reason"] = call.redactor.words(str(reason)[:500])
    return note


async def _by_tool(call: Call, confirm: ConfirmBy, child: Any, io: IO) -> Confirmation:
    arguments: Mapping[str, Any]
    if confirm.arguments is not None:
        arguments = confirm.arguments(call.arguments)
    else:
        arguments = child.shared_arguments(confirm.tool, call.arguments)
    answered: Call = await child(call, confirm.tool, arguments, "confirm", io)
    result = answered.result
    if not result.success:
        return Inconclusive(f"{confirm.tool} answered {result.error_type}")
    if result.answered_by is not None:
        return Inconclusive(f"{result.answered_by} answered for {confirm.tool}, and may be behind it")
    if not _UNRELIABLE.isdisjoint(result.flags):
        return Inconclusive(f"the answer of {confirm.tool} is not whole ({', '.join(result.flags)})")
    applied = confirm.applied(result.data)
    if isawaitable(applied):
        raise TypeError("ConfirmBy.applied is async; it must answer at once")
    if applied is True:
        return Applied(result.data)
    if applied is False:
        return NotApplied()
    return Inconclusive(f"what {confirm.tool} answered does not tell")


def licence_to_retry(call: Call, now: float) -> str | None:
    """Answer what makes a second send of this write safe after a confirmation said *not applied*; None if nothing does.

    Args:
        call: the call.
        now: wall clock in seconds; a server that removes duplicates has forgotten a key that is older than its lifetime.
    """
    tool = call.prepared.tool
    if tool.effect == "idempotent_write":
        return "idempotent"
    if tool.idempotency_key and not has_old_key(call, now):
        return "idempotency_key"
    if tool.conditional:
        return "conditional"
    return "settle" if tool.settle is not None else None


def asks_by_repeating(call: Call, now: float) -> bool:
    """Answer whether a repeat itself tells what became of a write, because it cannot be applied twice."""
    if call.prepared.tool.effect == "destructive" or call.unsendable is not None:
        return False
    return licence_to_retry(call, now) in _ASKS_BY_REPEATING


def has_old_key(call: Call, now: float) -> bool:
    """Answer whether the first attempt was made longer ago than a server remembers its idempotency key."""
    tool = call.prepared.tool
    if not tool.idempotency_key or tool.idempotency_lifetime is None:
        return False
    first = call.attempts[0].started_at if call.attempts else call.started_at
    return bool(now - first > tool.idempotency_lifetime)


def settled_at(call: Call) -> float:
    """Answer the monotonic second after which nothing that was sent can still land, unless a thread still runs.

    The window begins with the last moment at which anything can have been sent: the end of the last attempt, or of an abandoned
    function.
    """
    return max(_last_send(attempt) for attempt in call.attempts) + (call.prepared.tool.settle or 0.0)


def _last_send(attempt: Attempt) -> float:
    late = attempt.late
    return attempt.ended if late is None or late.ended_at is None else max(attempt.ended, late.ended_at)
