"""tau2-bench results: one object with `simulations` and `tasks`, or one simulation a line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from fcguard.errors import UsageError
from fcguard.evaluation.catalogue import Catalogue
from fcguard.evaluation.gold import Gold
from fcguard.evaluation.importers.messages import envelope_status, read_messages
from fcguard.evaluation.importers.options import ImportOptions
from fcguard.evaluation.importers.tau_bench import actions_task
from fcguard.evaluation.trace import CallStatus, Outcome, Session, UnreadLog
from fcguard.model.failure import EffectState

__all__ = ["read", "read_gold", "recognises"]

_INFRA = frozenset({"infrastructure_error", "unexpected_error"})


def recognises(value: Any) -> bool:
    """Whether a value is a result file of tau2, or one of its simulations."""
    return isinstance(value, Mapping) and (isinstance(value.get("simulations"), list) or _is_simulation(value))


def _is_simulation(value: Any) -> bool:
    return isinstance(value, Mapping) and isinstance(value.get("messages"), list) and "termination_reason" in value


def read(values: Iterable[tuple[str, Any]], unread: UnreadLog, options: ImportOptions) -> Iterator[Session]:
    """Yield a session for each simulation. Calls that the simulated user makes are not the agent's; they are left out."""
    for where, value in values:
        inside = value.get("simulations") if isinstance(value, Mapping) else None
        for index, simulation in enumerate(inside if isinstance(inside, list) else [value]):
            place = f"{where}, simulation {index + 1}" if inside else where
            if _is_simulation(simulation):
                yield _session(simulation, place, unread)
            else:
                unread.add(place, "not a simulation: messages and termination_reason are needed")


def _session(simulation: Mapping[str, Any], where: str, unread: UnreadLog) -> Session:
    reader = read_messages(_agent_side(simulation["messages"]), unread, where, _result)
    task_id, trial = str(simulation.get("task_id", "")), simulation.get("trial")
    outcome, detail = _outcome(simulation)
    return Session(
        session_id=str(simulation.get("id") or f"{task_id}#{trial}"),
        task_id=task_id,
        trial=trial if isinstance(trial, int) else 0,
        outcome=outcome,
        calls=tuple(reader.calls),
        reason_told=bool(reader.reason_told),
        detail=detail,
    )


def _agent_side(messages: list[Any]) -> Iterator[Any]:
    for message in messages:
        if not isinstance(message, Mapping):
            yield message
            continue
        if message.get("role") == "tool" and "tool_messages" in message:
            yield from _agent_side(message["tool_messages"])
        elif message.get("role") == "user":
            yield {"role": "user", "content": message.get("content")}
        elif message.get("requestor", "assistant") == "assistant":
            yield message


def _result(message: Mapping[str, Any], text: str) -> tuple[CallStatus, str | None, EffectState | None]:
    status, error_type, state = envelope_status(message, text)
    return (status, "PRECONDITION_FAILED", "not_applied") if status == "failed" else (status, error_type, state)


def _outcome(simulation: Mapping[str, Any]) -> tuple[Outcome, str]:
    reason = str(simulation.get("termination_reason") or "")
    if reason in _INFRA:
        return "infra_error", reason
    info = simulation.get("reward_info")
    reward = info.get("reward") if isinstance(info, Mapping) else None
    if isinstance(reward, bool) or not isinstance(reward, (int, float)):
        return "unscored", reason
    return ("passed" if abs(reward - 1.0) < 1e-6 else "failed"), reason


def read_gold(path: str | Path, catalogue: Catalogue | None = None, *, suite: str = "tau2-bench") -> Gold:
    """Read the reference actions of the agent from a result or task file.

    Raises:
        UsageError: the file cannot be read or holds no task.
    """
    try:
        content = json.loads(Path(path).read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{str(path)!r} cannot be read: {error}") from error
    rows = content.get("tasks", ()) if isinstance(content, dict) else content
    tasks = {}
    for row in rows:
        criteria = row.get("evaluation_criteria") or {}
        actions = [
            (action.get("name", ""), action.get("arguments") or {})
            for action in criteria.get("actions") or ()
            if action.get("requestor", "assistant") == "assistant"
        ]
        tasks[str(row["id"])] = actions_task(str(row["id"]), actions, catalogue)
    if not tasks:
        raise UsageError(f"{str(path)!r} holds no task of tau2")
    return Gold(suite, tasks)
