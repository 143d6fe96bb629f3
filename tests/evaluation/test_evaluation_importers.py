"""Importers: every format read tolerantly, each saying what it could not read; the format is found out by itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fcguard.errors import UsageError
from fcguard.evaluation.importers import tau2, tau_bench
from fcguard.evaluation.importers.options import ImportOptions, Wrapper
from fcguard.evaluation.importers.read import detect_format, read_records, read_trace
from tests.evaluation.evaluation_builders import catalogue_of
from tests.evaluation.evaluation_samples import (
    CHAIN,
    LEDGER,
    MESSAGES,
    TAU,
    TAU2,
    export,
    read_one,
    result,
    span,
    tool_call,
)


def test_openai_messages_pair_calls_with_results() -> None:
    session, run = read_one(
        {"task_id": 7, "trial": 2, "reward": 1.0, "slice": "s", "messages": MESSAGES}, "openai_messages"
    )
    assert (session.task_id, session.trial, session.outcome, session.slice) == ("7", 2, "passed", "s")
    find, notify = session.calls
    assert (find.tool, find.arguments, find.status, find.step) == ("find", {"id": "A17"}, "succeeded", 1)
    assert (notify.status, notify.arguments, notify.step) == ("unknown", {"who": "Z99"}, 2)
    assert (find.consumed, find.consumed_by) == (True, 1)
    assert notify.consumed is False, "A17 and Z99 had been said before"
    assert session.reason_told
    assert run.unread.count == 0


def test_words_that_were_said_before_are_no_use_of_a_result() -> None:
    messages = [
        {"role": "user", "content": "is A17 there?"},
        tool_call("find", "{}"),
        result("A17"),
        {"role": "assistant", "content": "A17 it is"},
    ]
    session, _ = read_one({"messages": messages}, "openai_messages")
    assert session.calls[0].consumed is False


@pytest.mark.parametrize(
    ("message", "status"),
    [
        (result("x", is_error=True), "failed"),
        (result("x", is_error=False), "succeeded"),
        (result('{"success": false, "error_type": "TIMEOUT", "attempts": 2, "effect": "unknown"}'), "failed"),
        (result('{"success": false, "error_type": "PARAM_INVALID", "attempts": 0}'), "refused"),
        (result('{"isError": true}'), "failed"),
        (result("Error: but only in words"), "unknown"),
        (result("{broken"), "unknown"),
        (result([{"type": "text", "text": "x"}], status="error"), "failed"),
        (result({"a": 1}), "unknown"),
        (result(None), "unknown"),
    ],
)
def test_a_status_comes_from_a_declared_place_only(message: dict[str, Any], status: str) -> None:
    session, _ = read_one([tool_call("a", "{}"), message], "openai_messages")
    assert session.calls[0].status == status
    assert session.calls[0].result_hash


def test_the_responses_api_and_old_function_calls_are_read() -> None:
    items = [
        {"type": "reasoning", "summary": []},
        {"type": "function_call", "call_id": "c", "name": "a", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c", "output": "x"},
        {"role": "assistant", "function_call": {"name": "b", "arguments": "{}"}},
        {"role": "function", "name": "b", "content": "y"},
    ]
    session, run = read_one(items, "openai_messages")
    assert [call.tool for call in session.calls] == ["a", "b"]
    assert all(call.result_hash for call in session.calls)
    assert run.unread.count == 0


def test_broken_messages_are_noted_and_broken_calls_counted() -> None:
    messages = ["text", {"role": "alien"}, result("x", "none"), {"role": "assistant", "tool_calls": {"a": 1}}]
    messages += [
        {
            "role": "assistant",
            "tool_calls": ["x", {"function": {"name": 5}}, {"function": {"name": "a", "arguments": "{"}}],
        }
    ]
    session, run = read_one(messages, "openai_messages")
    assert [(call.tool, call.parse_error is not None) for call in session.calls] == [
        ("", True),
        ("", True),
        ("a", True),
    ]
    assert len({call.call_id for call in session.calls}) == 3
    assert run.unread.count == 6


def test_one_call_id_used_twice_gives_each_call_its_own_result_by_order() -> None:
    messages = [tool_call("a", "{}"), result("x"), tool_call("a", "{}"), result("y", is_error=True)]
    session, _ = read_one(messages, "openai_messages")
    first, second = session.calls
    assert first.call_id != second.call_id
    assert (first.status, second.status) == ("unknown", "failed")
    keyed, _ = read_one(messages, "openai_messages", results_by="last_id")
    assert [call.status for call in keyed.calls] == ["failed", "failed"]
    assert keyed.calls[0].result_hash == keyed.calls[1].result_hash


def test_loose_messages_are_one_session(tmp_path: Path) -> None:
    path = tmp_path / "chat.json"
    path.write_text(json.dumps(MESSAGES, indent=1), "utf-8")
    run = read_trace(path, options=ImportOptions(task_id="chat"))
    (session,) = run
    assert (run.format, session.task_id, len(session.calls)) == ("openai_messages", "chat", 2)
    noted = read_records([*MESSAGES, 5], "openai_messages")
    assert len(list(noted)) == 1
    assert noted.unread.count == 1


def test_tau_bench_results(tmp_path: Path) -> None:
    session, _ = read_one(TAU, "tau_bench")
    assert (session.session_id, session.outcome) == ("3#1", "failed")
    assert [(call.status, call.effect_state, call.confirmed_by_human) for call in session.calls] == [
        ("failed", "not_applied", True),
        ("succeeded", None, True),
    ]
    path = tmp_path / "r.json"
    path.write_text(json.dumps([TAU, {**TAU, "trial": 2}, {"x": 1}]), "utf-8")
    gold = tau_bench.read_gold(path, catalogue_of(send="write", look="read"))
    (task,) = gold
    assert [(s.effect, s.optional) for s in task.paths[0]] == [("write", False), ("read", True)]
    assert task.prompt == "do it"
    run = read_trace(path)
    assert (run.format, [s.trial for s in run], run.unread.count) == ("tau_bench", [1, 2], 1)
    path.write_text("[]", "utf-8")
    with pytest.raises(UsageError, match="no task"):
        tau_bench.read_gold(path)


@pytest.mark.parametrize(
    ("fields", "outcome"),
    [
        ({"reward": 1.0}, "passed"),
        ({"reward": None}, "unscored"),
        ({"reward": True}, "unscored"),
        ({"info": {"error": "boom"}}, "infra_error"),
    ],
)
def test_outcomes_of_tau_bench(fields: dict[str, Any], outcome: str) -> None:
    assert read_one({**TAU, **fields}, "tau_bench")[0].outcome == outcome


def test_tau2_results(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_text(json.dumps(TAU2), "utf-8")
    run = read_trace(path)
    sessions = list(run)
    assert run.format == "tau2"
    assert [s.outcome for s in sessions] == ["passed", "infra_error", "unscored"]
    (call,) = sessions[0].calls
    assert (call.tool, call.status, call.effect_state) == ("send", "failed", "not_applied")
    assert run.unread.count == 2
    gold = tau2.read_gold(path, catalogue_of(send="write"))
    assert [len(task.paths[0]) for task in gold] == [1, 0]
    assert [s.session_id for s in read_records(TAU2["simulations"][:1], "tau2")] == ["s1"]
    for content in ("[]", "{"):
        path.write_text(content, "utf-8")
        with pytest.raises(UsageError, match="no task|cannot be read"):
            tau2.read_gold(path)


@pytest.mark.parametrize("value", [CHAIN, {"task_id": "0", "tool_chain": CHAIN}, {"id": "0", "steps": CHAIN}])
def test_tool_chains(value: Any) -> None:
    assert detect_format([value]) == "tool_chain"
    session, _ = read_one(value, "tool_chain")
    first, second = session.calls
    assert (first.status, first.retries, first.subtask_id, first.has_arguments) == ("succeeded", 0, "s1", False)
    assert (second.status, second.retries, second.depends_on) == ("failed", 2, ("s1",))
    assert [attempt.status for attempt in second.attempts] == ["failed"] * 3


def test_loose_and_broken_steps_of_a_chain() -> None:
    run = read_records([*CHAIN, {"x": 1}], "tool_chain")
    (session,) = run
    assert len(session.calls) == 2
    assert run.unread.count == 1
    session, run = read_one([*CHAIN, {"subtask_id": "s3"}], "tool_chain")
    assert (len(session.calls), run.unread.count) == (2, 1)


def test_tool_lists_with_a_router_that_only_passes_calls_on() -> None:
    record = {
        "task_id": "q",
        "category": "work",
        "calls": [
            {"name": "route", "arguments": "{}"},
            {
                "name": "execute",
                "arguments": '{"server": "s", "tool": "t", "params": {"a": 1}}',
                "is_error": False,
                "result_sha256_16": "ff",
            },
            {"name": "execute", "arguments": '{"server": "s", "tool": "t", "params": "text"}', "is_error": True},
            {"name": "execute", "arguments": "{broken"},
            {"nothing": 1},
        ],
    }
    session, run = read_one(
        record, "tool_list", wrappers=(Wrapper("execute", "tool", "server", "params"),), ignore=frozenset({"route"})
    )
    first, second, third = session.calls
    assert (first.identity, first.arguments, first.result_hash, first.status) == (
        ("s", "t"),
        {"a": 1},
        "ff",
        "succeeded",
    )
    assert (second.identity, second.arguments, second.status) == (("s", "t"), None, "failed")
    assert "not an object" in (second.parse_error or "")
    assert third.tool == "execute"
    assert (session.slice, run.unread.count) == ("work", 1)


def test_plain_calls_with_a_result() -> None:
    rows = [
        {"tool": "a", "args": {"x": 1}, "result": {"y": 2}},
        {"tool": "a", "args": "{", "error": "boom"},
        {"tool": "b"},
    ]
    run = read_records(rows, "tool_list")
    (session,) = run
    assert [call.status for call in session.calls] == ["unknown", "failed", "unknown"]
    assert [call.has_arguments for call in session.calls] == [True, True, False]
    assert [bool(call.result_hash) for call in session.calls] == [True, False, False]
    assert [s.calls for s in read_records([rows], "tool_list")] == [session.calls]


def test_ledger_records() -> None:
    confirm = {**LEDGER, "request_id": "fc-2", "purpose": "confirm"}
    other = {**LEDGER, "request_id": "fc-3", "session_id": "s2", "state": "REJECTED", "attempts": 0}
    run = read_records([LEDGER, confirm, other, {**LEDGER, "request_id": "fc-4"}, {"x": 1}], "ledger")
    sessions = list(run)
    assert [s.session_id for s in sessions] == ["s", "s2", "s"]
    assert run.unread.count == 2, "a session that comes twice, and a record that is none"
    (call,) = sessions[0].calls
    assert (call.call_id, call.effect, call.effect_state, call.retries) == ("fc-1", "write", "applied", 1)
    assert call.attempts[0].error_type == "TIMEOUT"
    assert (call.tokens, call.cost, call.seconds, call.evidence) == (12, 0.5, 0.02, ("logs/x.log",))
    assert (call.confirmed_by_human, call.idempotency_key) == (True, "k")
    assert call.validation is not None
    assert len(call.validation) == 1
    assert (sessions[0].outcome, sessions[0].reason_told) == ("passed", True)
    assert sessions[1].calls[0].status == "refused"
    assert detect_format([LEDGER]) == "ledger"


def test_envelopes_are_records_too() -> None:
    envelope = {
        "success": False,
        "error_type": "PARAM_INVALID",
        "tool_name": "a",
        "request_id": "fc-1",
        "normalized_args": {"x": 1},
    }
    session, _ = read_one({**envelope, "attempts": 0, "effect": "none", "task_id": "t"}, "ledger")
    (call,) = session.calls
    assert (call.status, call.effect_state, call.arguments, call.may_have_run) == ("refused", "none", {"x": 1}, False)
    session, _ = read_one({**envelope, "attempts": 3, "evidence": "log.txt"}, "ledger")
    assert (session.calls[0].retries, session.calls[0].evidence) == (2, ("log.txt",))


def test_genai_spans() -> None:
    tool = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "send",
        "fcguard.task.id": "task",
        "fcguard.step": 4,
    }
    content = {
        "gen_ai.tool.call.arguments": '{"a": 1}',
        "gen_ai.tool.call.result": "ok",
        "fcguard.tool.effect": "write",
    }
    spans = [
        span("execute_tool send", 5, {**tool, "error.type": "TIMEOUT"}),
        span("execute_tool send", 2, {**tool, **content, "fcguard.outcome": "completed", "fcguard.request.id": "fc-1"}),
        span("fcguard.attempt send", 4, {}, parentSpanId="s2"),
        span("fcguard.attempt send", 3, {"error.type": "TIMEOUT"}, parentSpanId="s2"),
        span("execute_tool look", 6, {**tool, "fcguard.call.purpose": "confirm"}),
        span("chat model", 1, {"gen_ai.operation.name": "chat"}),
        span(
            "execute_tool other",
            7,
            {"gen_ai.conversation.id": "c2", "list": {"arrayValue": {"values": [{"intValue": "1"}]}}},
            status={"code": 2},
        ),
        "broken",
    ]
    run = read_records([export(*spans), {"x": 1}], "otlp_genai")
    first, second = run
    assert (first.session_id, first.task_id, first.trial) == ("task", "task", 0)
    done, late = first.calls
    assert (done.status, done.arguments, done.effect, done.step, done.seconds) == (
        "succeeded",
        {"a": 1},
        "write",
        4,
        1.0,
    )
    assert [attempt.status for attempt in done.attempts] == ["failed", "succeeded"]
    assert done.evidence == ("fc-1",)
    assert (late.status, late.error_type, late.has_arguments) == ("failed", "TIMEOUT", False)
    assert (second.session_id, second.calls[0].tool, second.calls[0].status) == ("c2", "other", "failed")
    assert run.unread.count == 2


def test_spans_of_unusual_shape_are_read_as_far_as_they_go() -> None:
    odd = {
        "status": "x",
        "attributes": [
            {"key": "gen_ai.operation.name", "value": {"stringValue": "execute_tool"}},
            {"key": "map", "value": {"kvlistValue": {"values": [{"key": "a", "value": {"boolValue": True}}]}}},
            {"key": "number", "value": {"intValue": "many"}},
            {"key": "nothing", "value": None},
            "broken",
        ],
    }
    (session,) = read_records([{"resource_spans": [{"scope_spans": [{"spans": [odd]}]}]}, export()], "otlp_genai")
    (call,) = session.calls
    assert (call.status, call.seconds, call.tool) == ("succeeded", None, "")
    assert list(read_records([{"resourceSpans": "x"}, {"resourceSpans": ["x"]}], "otlp_genai")) == []
