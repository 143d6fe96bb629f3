"""Samples of every trace format, shared by the tests of the importers."""

from __future__ import annotations

from typing import Any

from fcguard.evaluation.importers.options import ImportOptions
from fcguard.evaluation.importers.read import read_records
from fcguard.evaluation.trace import Run, Session


def tool_call(name: Any, arguments: Any, call_id: Any = "1") -> dict[str, Any]:
    return {
        "role": "assistant",
        "tool_calls": [{"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}],
    }


def result(content: Any, call_id: Any = "1", **fields: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content, **fields}


def read_one(record: Any, format: str, **options: Any) -> tuple[Session, Run]:
    run = read_records([record], format, options=ImportOptions(**options))
    (session,) = run
    return session, run


MESSAGES = [
    {"role": "system", "content": "be good"},
    {"role": "user", "content": "order A17 please"},
    tool_call("find", '{"id": "A17"}', "c1"),
    result('{"success": true, "owner": "Z99"}', "c1"),
    tool_call("notify", {"who": "Z99"}, "c2"),
    result("done", "c2"),
    {"role": "assistant", "content": "Z99 was told."},
]


TAU = {
    "task_id": 3,
    "trial": 1,
    "reward": 0.0,
    "info": {
        "task": {
            "instruction": "do it",
            "actions": [{"name": "send", "kwargs": {"to": "a"}}, {"name": "look", "kwargs": {}}],
        }
    },
    "traj": [
        {"role": "user", "content": "yes, go ahead"},
        tool_call("send", '{"to": "b"}'),
        result("Error: no such user"),
        tool_call("send", '{"to": "a"}', "2"),
        result("ok", "2"),
    ],
}


TAU2 = {
    "tasks": [
        {
            "id": "t1",
            "evaluation_criteria": {
                "actions": [
                    {"name": "send", "arguments": {"to": "a"}},
                    {"name": "push_button", "arguments": {}, "requestor": "user"},
                ]
            },
        },
        {"id": "t2", "evaluation_criteria": None},
    ],
    "simulations": [
        {
            "id": "s1",
            "task_id": "t1",
            "trial": 0,
            "termination_reason": "user_stop",
            "reward_info": {"reward": 1.0},
            "messages": [
                {
                    "role": "user",
                    "content": "hi",
                    "tool_calls": [{"id": "u", "name": "push_button", "arguments": {}, "requestor": "user"}],
                },
                {"role": "tool", "id": "u", "content": "pushed", "error": False, "requestor": "user"},
                {
                    "role": "assistant",
                    "tool_calls": [{"id": "c", "name": "send", "arguments": {"to": "a"}, "requestor": "assistant"}],
                },
                {
                    "role": "tool",
                    "tool_messages": [
                        {"role": "tool", "id": "c", "content": "no", "error": True, "requestor": "assistant"}
                    ],
                },
                "broken",
            ],
        },
        {"id": "s2", "task_id": "t2", "messages": [], "termination_reason": "unexpected_error"},
        {"id": "s3", "task_id": "t2", "messages": [], "termination_reason": "max_steps", "reward_info": None},
        {"id": "s4"},
    ],
}


CHAIN = [
    {"step": 1, "subtask_id": "s1", "tool": "search", "status": "success", "retry_count": 0, "depends_on": []},
    {"step": 2, "subtask_id": "s2", "tool": "calc", "status": "failed", "retry_count": 2, "depends_on": ["s1"]},
]


LEDGER = {
    "request_id": "fc-1",
    "session_id": "s",
    "task_id": "t",
    "tool": "create_order",
    "tool_effect": "write",
    "raw_arguments": '{"n": 1}',
    "state": "SUCCEEDED",
    "effect": "applied",
    "validation": [{"path": "n", "rule": "minimum", "message": "too small"}, "x"],
    "attempts": [{"status": "failed", "error_type": "TIMEOUT", "seconds": 2.0}, {"status": "succeeded"}],
    "result_digest": "dd",
    "idempotency_key": "k",
    "approved": True,
    "tokens": 12,
    "cost": 0.5,
    "duration_ms": 20.0,
    "evidence": [{"type": "log", "ref": "logs/x.log"}],
    "outcome": "passed",
    "reason_told": True,
}


def attribute(key: str, value: Any) -> dict[str, Any]:
    kind = {str: "stringValue", bool: "boolValue", int: "intValue", float: "doubleValue"}.get(type(value))
    if kind is None:
        return {"key": key, "value": value}
    return {"key": key, "value": {kind: str(value) if kind == "intValue" else value}}


def span(name: str, start: int, attributes: dict[str, Any], **fields: Any) -> dict[str, Any]:
    rows = [attribute(key, value) for key, value in attributes.items()]
    return {
        "traceId": "t1",
        "spanId": f"s{start}",
        "name": name,
        "startTimeUnixNano": str(start * 10**9),
        "endTimeUnixNano": str((start + 1) * 10**9),
        "attributes": rows,
        **fields,
    }


def export(*spans: Any) -> dict[str, Any]:
    return {"resourceSpans": [{"scopeSpans": [{"spans": list(spans)}]}]}


SAMPLES: dict[str, Any] = {
    "tau_bench": TAU,
    "tau2": TAU2,
    "otlp_genai": export(span("execute_tool a", 1, {})),
    "ledger": LEDGER,
    "openai_messages": {"messages": MESSAGES},
    "tool_chain": CHAIN,
    "tool_list": {"calls": [{"tool": "a", "args": {}}]},
}
