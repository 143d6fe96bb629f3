"""Plain lists of `{tool, args, result}`: loose calls are one session, `{task_id, calls: [...]}` is one session each."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from fcguard.evaluation.importers.options import ImportOptions
from fcguard.evaluation.importers.records import call_from_record, session_from_record
from fcguard.evaluation.trace import CallRecord, Session, UnreadLog

__all__ = ["read", "recognises"]

_CALL_KEYS = ("calls", "tool_calls")


def recognises(value: Any) -> bool:
    """Whether a value is a call, a list of calls, or an object that holds such a list."""
    if isinstance(value, list):
        return bool(value) and _is_call(value[0])
    return _is_call(value) or _calls_of(value) is not None


def read(values: Iterable[tuple[str, Any]], unread: UnreadLog, options: ImportOptions) -> Iterator[Session]:
    """Yield a session for each list of calls; loose calls on the top level together are one session."""
    loose: list[CallRecord] = []
    for number, (where, value) in enumerate(values):
        rows = value if isinstance(value, list) else _calls_of(value)
        if rows is not None:
            record = value if isinstance(value, Mapping) else {}
            calls: list[CallRecord] = []
            for index, row in enumerate(rows):
                _add(calls, row, f"{where}, call {index + 1}", unread, options)
            yield session_from_record(record, tuple(calls), number, options.task_id)
        else:
            _add(loose, value, where, unread, options)
    if loose:
        yield session_from_record({}, tuple(loose), 0, options.task_id)


def _add(calls: list[CallRecord], row: Any, where: str, unread: UnreadLog, options: ImportOptions) -> None:
    if not _is_call(row):
        unread.add(where, "not a call: tool or name is needed")
        return
    call = _unwrapped(call_from_record(row, len(calls)), options)
    if call.tool not in options.ignore:
        calls.append(call)


def _unwrapped(call: CallRecord, options: ImportOptions) -> CallRecord:
    """Answer the inner call of a router's call; a router's call that cannot be read stays what it is."""
    wrapper = next((item for item in options.wrappers if item.tool == call.tool), None)
    if wrapper is None or call.arguments is None or not isinstance(call.arguments.get(wrapper.inner_tool), str):
        return call
    server = call.arguments.get(wrapper.inner_server) if wrapper.inner_server else None
    inner = call.arguments.get(wrapper.inner_arguments, {})
    is_object = isinstance(inner, dict)
    return replace(
        call,
        tool=call.arguments[wrapper.inner_tool],
        server=None if server is None else str(server),
        raw_arguments=inner,
        arguments=inner if is_object else None,
        parse_error=None if is_object else f"inner arguments are a {type(inner).__name__}, not an object",
    )


def _is_call(value: Any) -> bool:
    if not isinstance(value, Mapping):
        return False
    return any(isinstance(value.get(name), str) for name in ("tool", "tool_name", "name"))


def _calls_of(value: Any) -> list[Any] | None:
    if not isinstance(value, Mapping):
        return None
    return next((value[key] for key in _CALL_KEYS if isinstance(value.get(key), list)), None)
