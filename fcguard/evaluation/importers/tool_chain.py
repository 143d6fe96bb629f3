"""Tool-chain lists: `{step, subtask_id, tool, status, retry_count, depends_on}` a call, one chain a file or a line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from fcguard.evaluation.importers.options import ImportOptions
from fcguard.evaluation.importers.records import call_from_record, session_from_record
from fcguard.evaluation.trace import CallRecord, Session, UnreadLog

__all__ = ["read", "recognises"]

_CHAIN_KEYS = ("tool_chain", "chain", "steps")


def recognises(value: Any) -> bool:
    """Whether a value is a step of a chain, a list of steps, or an object that holds such a list."""
    if isinstance(value, list):
        return bool(value) and _is_step(value[0])
    return _is_step(value) or _chain(value) is not None


def read(values: Iterable[tuple[str, Any]], unread: UnreadLog, options: ImportOptions) -> Iterator[Session]:
    """Yield a session for each chain; loose steps on the top level together are one chain."""
    loose: list[CallRecord] = []
    for number, (where, value) in enumerate(values):
        chain = value if isinstance(value, list) else _chain(value)
        if chain is not None:
            record = value if isinstance(value, Mapping) else {}
            yield session_from_record(record, _calls(chain, where, unread), number, options.task_id)
        elif _is_step(value):
            loose.append(call_from_record(value, len(loose)))
        else:
            unread.add(where, "not a step of a tool chain: tool is needed")
    if loose:
        yield session_from_record({}, tuple(loose), 0, options.task_id)


def _calls(chain: list[Any], where: str, unread: UnreadLog) -> tuple[CallRecord, ...]:
    calls: list[CallRecord] = []
    for index, step in enumerate(chain):
        if isinstance(step, Mapping) and isinstance(step.get("tool"), str):
            calls.append(call_from_record(step, len(calls)))
        else:
            unread.add(f"{where}, step {index + 1}", "not a step of a tool chain: tool is needed")
    return tuple(calls)


def _is_step(value: Any) -> bool:
    return isinstance(value, Mapping) and "tool" in value and ("subtask_id" in value or "retry_count" in value)


def _chain(value: Any) -> list[Any] | None:
    if not isinstance(value, Mapping):
        return None
    for key in _CHAIN_KEYS:
        chain = value.get(key)
        if isinstance(chain, list) and (key == "tool_chain" or (chain and _is_step(chain[0]))):
            return chain
    return None
