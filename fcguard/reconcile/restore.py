"""Build a call from its record, so that another process can go on with it."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from fcguard.config import Prepared, Verdict
from fcguard.io import IO
from fcguard.model.attempt import Attempt, Late
from fcguard.model.call import Call
from fcguard.model.context import Environment, Goal, State, TaskContext, Tools
from fcguard.model.evidence import Evidence
from fcguard.model.failure import ErrorType, Failure
from fcguard.model.frozen import freeze, thaw
from fcguard.model.identity import digest_of
from fcguard.model.intent import Intent
from fcguard.reconcile.history import History
from fcguard.recovery.confirm import licence_to_retry
from fcguard.stores.base import Identity, StoredCall
from fcguard.telemetry.observer import Origin

__all__ = ["restore_call"]

_OUTSIDE = "-"


def restore_call(row: StoredCall, history: History, prepared: Prepared, io: IO, sent_until: float) -> Call:
    """Build the call as it stood when its process ended.

    What the record does not hold is left empty: the task's counters and budget, rules' notes, alternatives of the environment.

    Args:
        row: its row.
        history: its events.
        prepared: its tool.
        io: the clocks.
        sent_until: last moment (wall clock) at which its last attempt can have sent something.

    Returns:
        A call whose last attempt failed without a known outcome; without attempts if nothing was sent.

    Raises:
        KeyError, TypeError, ValueError: the record lacks something.
    """
    identity, tool = row.identity, prepared.tool
    address = history.address
    arguments = freeze(address["arguments"])
    call = Call(
        identity.request_id, Intent(tool.name, arguments), _purpose(identity), None, _context(identity, address)
    )
    call.prepared, call.tool, call.redactor = prepared, tool, prepared.redactor.knowing(arguments)
    call.arguments = arguments
    call.step = identity.step
    call.idempotency_key, call.effect_key = identity.idempotency_key, identity.effect_key
    call.is_resumed = True
    now = io.now()
    call.started_at = row.created_at
    call.started = io.monotonic() - max(0.0, now - row.created_at)
    if prepared.takes_receiver:
        call.receiver = _LOST
    for item in (row.result or {}).get("evidence", ()):
        call.attach(Evidence(**item))
    if history.opening.get("trace_id"):
        call.observed = Origin(history.opening["trace_id"], history.opening["span_id"])
    call.unsendable = _why_unsendable(identity, address, prepared)
    if row.attempt:
        call.verdict = Verdict(tuple(history.opening.get("passed", ())), approval=history.opening.get("approval"))
        call.attempts = [_attempt(number, row, history, prepared) for number in range(1, row.attempt + 1)]
        _leave_unknown(call, history, sent_until - now + io.monotonic(), io)
    else:  # it is checked again like any other call, but for what the host filled in
        shown = {name: thaw(value) for name, value in arguments.items() if name not in tool.hidden}
        call.normalized = prepared.schema.normalize(shown, effect=tool.effect)
    return call


class _Lost:
    """Stands for the instance of a method, which no record can hold; the method is not called."""


_LOST = _Lost()


def _purpose(identity: Identity) -> Any:
    return identity.purpose


def _context(identity: Identity, address: Mapping[str, Any]) -> TaskContext:
    environment = None
    if "environment" in address:
        environment = Environment(
            name=address["environment"],
            tenant=address.get("tenant"),
            account=address.get("account"),
            account_pool=address.get("account_pool"),
            base_urls=tuple(address.get("base_urls", ())),
            data_sources=tuple(address.get("data_sources", ())),
        )
    allow = address.get("allow")
    return TaskContext(
        goal=Goal(
            objective=address.get("goal", ""),
            entry=address.get("entry", "api"),
            success_criteria=tuple(address.get("success_criteria", ())),
            forbidden_actions=frozenset(address.get("forbidden", ())),
        ),
        environment=environment,
        state=State(session_id=address.get("session_id")),
        tools=Tools(allow=None if allow is None else frozenset(allow)),
        task_id="" if identity.task_id == _OUTSIDE else identity.task_id,
        step=identity.step,
        risk=address.get("risk", "medium"),
        agent=address.get("agent"),
        actor=address.get("actor"),
        conversation_id=address.get("conversation_id"),
        roles=frozenset(address.get("roles", ())),
    )


def _why_unsendable(identity: Identity, address: Mapping[str, Any], prepared: Prepared) -> str | None:
    if digest_of(prepared.tool.name, address["arguments"]) != address.get("digest", identity.digest):
        return "its arguments hold secrets, which the record does not keep"
    if prepared.takes_receiver:
        return "it is a method, and its instance ended with its process"
    return None


def _attempt(number: int, row: StoredCall, history: History, prepared: Prepared) -> Attempt:
    summary = history.summaries.get(number, {})
    started_at = history.started.get(number, row.created_at)
    attempt = Attempt(number, started_at, 0.0, summary.get("timeout_s"), float(summary.get("delay_s", 0.0)))
    attempt.duration = float(summary.get("duration_ms", 0.0)) / 1000
    attempt.error_type = summary.get("error_type", ErrorType.CANCELLED.value)
    attempt.is_restored = True
    attempt.doubt = history.doubt if history.senders.get(number) is None else 0.0
    attempt.effect = summary.get("effect", "unknown")
    attempt.reason = summary.get("why", "its process ended before the outcome was recorded")
    what = attempt.error_type if summary else "its outcome was not recorded"
    attempt.failure = _failure(prepared.tool.name, what, attempt.reason)
    return attempt


def _leave_unknown(call: Call, history: History, ended: float, io: IO) -> None:
    *earlier, last = call.attempts
    if licence_to_retry(call, io) == "settle":
        for attempt in earlier:  # the next one would not have been started otherwise
            attempt.effect = "not_applied"
    last.effect, last.ended = "unknown", ended
    for attempt in call.attempts:
        verdict = history.verdicts.get(attempt.number)
        if verdict is not None:
            attempt.late = Late.judged(verdict)
    call.failure = last.failure
    if call.prepared.tool.effect == "idempotent_write" and call.prepared.policy.attempts <= last.number:
        # Sending it once more is safe, and the only way to an answer; after that a person is asked.
        call.prepared = copy.copy(call.prepared)
        call.prepared.policy = replace(call.prepared.policy, attempts=last.number + 1)


def _failure(name: str, what: str, reason: str) -> Failure:
    return Failure.of(
        ErrorType.UNCERTAIN_RESULT,
        f"It is not known whether {name} took effect ({what}). Do not repeat it; confirm the state first.",
        "execute",
        effect="unknown",
        reason=reason,
    )
