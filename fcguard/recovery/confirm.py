"""Find out whether an uncertain write is in the system, and whether it may be sent again."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from inspect import isawaitable
from typing import Any, Final

from fcguard.io import IO
from fcguard.model.attempt import Attempt
from fcguard.model.call import Call
from fcguard.model.failure import ErrorType, Failure, FailureClass, Halt
from fcguard.model.outcome import Applied, AppliedByOther, Confirmation, Inconclusive, NotApplied
from fcguard.model.tool import ConfirmBy

__all__ = [
    "CONFIRMING",
    "Withheld",
    "ask_confirmation",
    "asks_by_repeating",
    "check_licence",
    "has_old_key",
    "lacks_licence",
    "licence_to_retry",
    "may_be_applied",
    "note_on",
    "note_reading",
    "settled_at",
]

CONFIRMING: Final[ContextVar[Call | None]] = ContextVar("fcguard_confirming", default=None)
"""The write that is being confirmed; calls made meanwhile are its recorded child calls."""


_ASKS_BY_REPEATING: Final = frozenset({"idempotency_key", "conditional", "idempotent"})
_UNRELIABLE: Final = frozenset({"truncated", "contract_broken", "unread", "depth"})
"""Flags of a read whose answer may lack what it is asked for."""
_SAYS_SOMETHING: Final = frozenset({FailureClass.PARAMETER, FailureClass.TOOL})
"""Classes of a failed read that may be an answer: there is no such thing (404), the tool raised a `LookupError`."""
_SKEW: Final = 60.0
"""Seconds by which a wall clock may have been set back, before the age of a key that is read from it is no age."""


class Withheld(Halt):
    """A repeat was due, but what made it safe holds no longer: the state has to be confirmed first."""


async def ask_confirmation(call: Call, child: Any, io: IO) -> Confirmation:
    """Run the tool's `confirm` once; whatever goes wrong in it is `Inconclusive`, never an answer."""
    confirm = call.prepared.tool.confirm
    if confirm is None:
        return Inconclusive("the tool declares no confirm")
    before, token = CONFIRMING.get(), None
    call.readings = ()
    try:
        token = CONFIRMING.set(call)
        if isinstance(confirm, ConfirmBy):
            return await _by_tool(call, confirm, child, io)
        answer = await io.call(confirm, call)
    except NotApplied as said:
        answer = said
    except Exception as error:
        return Inconclusive(f"the confirmation raised {type(error).__name__}")
    finally:
        if token is None:  # interrupted in this very moment; left as it is, the task could only read from now on
            CONFIRMING.set(before)
        else:
            CONFIRMING.reset(token)
    if answer is NotApplied:
        answer = NotApplied()
    if isinstance(answer, NotApplied):
        return _if_read(call, answer)
    if isinstance(answer, (Applied, AppliedByOther, Inconclusive)):
        return answer
    return Inconclusive(
        f"the confirmation answered {type(answer).__name__}, not Applied, AppliedByOther, NotApplied or Inconclusive"
    )


def note_reading(read: Call) -> None:
    """Tell the write that is being confirmed how a read went that its confirmation made.

    Args:
        read: the ended child call.
    """
    write, result = read.parent, read.result
    if read.purpose != "confirm" or write is None:
        return
    name, failure = result.tool_name, read.failure
    why = ""
    if failure is not None:
        is_answer = failure.failure_class in _SAYS_SOMETHING and failure.error_type != ErrorType.RESULT_INVALID
        why = "" if is_answer else f"{name} answered {failure.error_type}"
    elif result.answered_by is not None:
        why = f"{result.answered_by} answered for {name}, and may be behind it"
    elif not _UNRELIABLE.isdisjoint(result.flags):
        why = f"the answer of {name} is not whole ({', '.join(result.flags)})"
    write.readings = (*write.readings, why)


def _if_read(call: Call, answer: NotApplied) -> Confirmation:
    """Answer *not applied* only if it was read: a confirmation that overlooks that its last read failed has seen nothing."""
    why = _unread(call)
    return Inconclusive(f"it says that nothing was applied, but {why}") if why else answer


def _unread(call: Call) -> str:
    return call.readings[-1] if call.readings else ""


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
    if not _UNRELIABLE.isdisjoint(result.flags):  # what is left of it is not what the predicate was written for
        return Inconclusive(_unread(call))
    applied = confirm.applied(result.data)
    if isawaitable(applied):
        raise TypeError("ConfirmBy.applied is async; it must answer at once")
    if applied is True:
        return Applied(result.data)
    if applied is False:
        return _if_read(call, NotApplied())
    return Inconclusive(f"what {confirm.tool} answered does not tell")


def licence_to_retry(call: Call, io: IO) -> str | None:
    """Answer what makes a second send of this write safe after a confirmation said *not applied*; None if nothing does.

    Args:
        call: the call.
        io: the clocks; a server that removes duplicates has forgotten a key that is older than its lifetime.
    """
    tool = call.prepared.tool
    if tool.effect == "idempotent_write":
        return "idempotent"
    if tool.idempotency_key and not has_old_key(call, io):
        return "idempotency_key"
    if tool.conditional:
        return "conditional"
    return "settle" if tool.settle is not None else None


def asks_by_repeating(call: Call, io: IO) -> bool:
    """Answer whether a repeat itself tells what became of a write, because it cannot be applied twice."""
    if call.prepared.tool.effect == "destructive" or call.unsendable is not None:
        return False
    return licence_to_retry(call, io) in _ASKS_BY_REPEATING


def has_old_key(call: Call, io: IO) -> bool:
    """Answer whether the first attempt may have been made longer ago than a server remembers its idempotency key.

    The longer of two ages counts, by the wall clock and, in the process that made the attempt, by the one that never jumps back. An
    attempt that lies in the future has no age that could be relied on.
    """
    tool = call.prepared.tool
    if not tool.idempotency_key or tool.idempotency_lifetime is None or not call.attempts:
        return False
    first = call.attempts[0]
    age = io.now() - first.started_at
    if not first.is_restored:
        age = max(age, io.monotonic() - first.started)
    return not -_SKEW <= age <= tool.idempotency_lifetime - first.doubt


def may_be_applied(call: Call) -> bool:
    """Answer whether an attempt of a write took effect, or may have."""
    return any(attempt.effect in ("unknown", "applied") for attempt in call.attempts)


def lacks_licence(call: Call, io: IO) -> bool:
    """Answer whether a write that may be applied already has nothing, now, that makes sending it once more safe."""
    if call.prepared.tool.effect in ("read", "idempotent_write") or not may_be_applied(call):
        return False
    return not asks_by_repeating(call, io)


def check_licence(call: Call, io: IO) -> None:
    """Look at the licence once more, right before a repeat: what licensed it may have passed during a pause.

    Raises:
        Withheld: the call must be confirmed first.
    """
    if lacks_licence(call, io):
        raise Withheld(
            Failure.of(
                ErrorType.UNCERTAIN_RESULT,
                f"It is not known whether {call.prepared.tool.name} took effect, and what made a repeat safe holds no longer. "
                "Do not repeat it; confirm the state first.",
                "execute",
                effect="unknown",
                reason="the licence of the repeat ended before it was sent",
            )
        )


def settled_at(call: Call) -> float:
    """Answer the monotonic second after which nothing that was sent can still land, unless a thread still runs.

    The window begins with the last moment at which anything can have been sent: the end of the last attempt, or of an abandoned
    function.
    """
    return max(_last_send(attempt) for attempt in call.attempts) + (call.prepared.tool.settle or 0.0)


def _last_send(attempt: Attempt) -> float:
    late = attempt.late
    return attempt.ended if late is None or late.ended_at is None else max(attempt.ended, late.ended_at)
