"""Calls of which nothing was sent are no executed writes, whether they are read from the ledger or from the spans."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fcguard import Applied, Guard, NotApplied, SQLiteStore
from fcguard.approval import Deferred, SQLiteApprovals
from fcguard.evaluation.catalogue import Catalogue
from fcguard.evaluation.gold import parse_gold
from fcguard.evaluation.importers.read import read_records, read_trace
from fcguard.evaluation.metrics import Measured, Measures, measure_session
from fcguard.evaluation.repeats import find_repeats
from fcguard.evaluation.report.assess import assess
from fcguard.evaluation.report.cases import case_document
from fcguard.evaluation.report.html import render_html
from fcguard.evaluation.score import logical_calls
from fcguard.telemetry import setup
from fcguard.telemetry.otel import SpanDetail
from tests.evaluation.evaluation_builders import call, catalogue_of, gold_of, session, step

TOOLS = catalogue_of(book="write", look="read", send="write")
BOOK = {"any_of": [{"tool": "book", "arguments": {"ref": "A"}}], "effect": "write"}
COMPARED = (
    "misfires",
    "misfire_sessions",
    "misfires_unproved",
    "misfire_judged",
    "blocked",
    "unjudged_calls",
    "valid",
    "invalid",
    "unknown_tool",
    "unparsable",
    "over_broad",
    "repeats",
    "repeat_sessions",
    "exact_repeats",
    "excused_not_sent",
    "excused_policy_retry",
    "attempts",
    "calls",
    "logical_calls",
    "refused",
    "replayed",
    "errors",
    "passed",
    "failed",
)


def declare(guard: Guard) -> None:
    @guard.tool(effect="write", business_key=("ref",))
    def book(ref: str) -> str:
        """Book."""
        return ref

    sent: list[str] = []

    @guard.tool(effect="write", business_key=("ref",), retry=1, confirm=lambda _: NotApplied(), settle=0.01)
    def flaky(ref: str) -> str:
        """Fail once without an effect."""
        sent.append(ref)
        if len(sent) == 1:
            raise ConnectionResetError
        return ref

    @guard.tool(effect="write", business_key=("ref",), retry=1, confirm=lambda _: Applied(7))
    def lost(ref: str) -> str:
        """Lose the answer; it is confirmed."""
        raise ConnectionResetError

    @guard.tool(effect="write", business_key=("ref",))
    def vague(ref: str) -> str:
        """Lose the answer; nobody can tell."""
        raise ConnectionResetError

    @guard.tool(effect="destructive")
    def drop(ref: str) -> str:
        """Drop."""
        return ref

    @guard.tool(effect="write")
    def inner(ref: str) -> str:
        """Write for another tool."""
        return ref

    @guard.tool(effect="write")
    def outer(ref: str) -> str:
        """Write by another tool."""
        inner(ref=ref)
        return ref


def call_sync(guard: Guard, calls: list[tuple[str, Any]]) -> list[Any]:
    return [guard.call(tool, arguments) for tool, arguments in calls]


def call_async(guard: Guard, calls: list[tuple[str, Any]]) -> list[Any]:
    async def run() -> list[Any]:
        return [await guard.acall(tool, arguments) for tool, arguments in calls]

    return asyncio.run(run())


Run = Callable[[Guard, list[tuple[str, Any]]], list[Any]]
A = {"ref": "A"}
CASES: dict[str, list[tuple[str, Any]]] = {
    "replayed": [("book", A), ("book", A), ("book", A)],
    "failed": [("flaky", A), ("flaky", A)],
    "confirmed": [("lost", A), ("lost", A)],
    "pending": [("vague", A), ("vague", A), ("vague", A)],
    "refused": [("book", {"ref": "A", "x": 1}), ("nobody", A), ("book", A)],
    "conflict": [("book", A), ("drop", A)],
    "misfire": [("book", A), ("lost", {"ref": "B"})],
    "nested": [("outer", A)],
}
"""Session -> its calls. `wanted` is what its gold asks for: the first tool that is declared, of order A."""
WANTED = {name: next(tool for tool, _ in calls if tool != "nobody") for name, calls in CASES.items()}


def record(folder: Path, run: Run, detail: SpanDetail) -> tuple[dict[str, list[Any]], Measures]:
    """Make every case, keeping a ledger and spans, and answer the envelopes and how to measure both."""
    telemetry = setup(jsonl_path=folder / "spans.jsonl")
    approvals = SQLiteApprovals(folder / "approvals.db")
    found: dict[str, list[Any]] = {}
    with Guard(
        store=SQLiteStore(folder / "ledger.db"),
        evidence_dir=folder,
        approver=Deferred(approvals, ttl_seconds=60),
        tracer_provider=telemetry.tracer_provider,
        span_detail=detail,
        capture_content="full",
    ) as guard:
        declare(guard)
        with guard.task(task_id="tools"):
            tools = guard.schemas("openai")
        for name, calls in CASES.items():
            with guard.task(task_id=f"{name}#0"):
                found[name] = run(guard, calls)
        with guard.task(task_id="approved#0"):
            (waiting,) = run(guard, [("drop", A)])
        found["approved"] = [waiting, guard.resume(waiting.request_id, approved=True, by="ann", reason="empty")]
    telemetry.shutdown()
    wanted = {**WANTED, "approved": "drop"}
    tasks = [
        {
            "id": name,
            "prompt": name,
            "min_calls": 1,
            "steps": [{"any_of": [{"tool": tool, "arguments": A}], "effect": "write"}],
        }
        for name, tool in wanted.items()
    ]
    gold = parse_gold({"version": 1, "suite": "s", "tasks": tasks})
    return found, Measures(gold, Catalogue.load(tools))


def measured(path: Path, measures: Measures) -> dict[str, Measured]:
    return {one.task_id: measure_session(one, measures) for one in read_trace(path)}


@pytest.mark.parametrize("run", [call_sync, call_async])
@pytest.mark.parametrize("detail", ["call", "attempts", "stages"])
def test_ledger_and_spans_of_one_run_give_the_same_answers(tmp_path: Path, run: Run, detail: SpanDetail) -> None:
    envelopes, measures = record(tmp_path, run, detail)
    by_ledger, by_spans = measured(tmp_path / "ledger.db", measures), measured(tmp_path / "spans.jsonl", measures)
    assert set(by_ledger) == set(by_spans) == set(envelopes)
    for name, one in by_ledger.items():
        other = by_spans[name]
        assert {key: other.counts.get(key, 0) for key in COMPARED} == {
            key: one.counts.get(key, 0) for key in COMPARED
        }, name
        assert [made.status for made in other.session.calls] == [made.status for made in one.session.calls], name
        assert [made.was_sent for made in other.session.calls] == [made.was_sent for made in one.session.calls], name
        assert [row.kind for row in other.misfires.misfires] == [row.kind for row in one.misfires.misfires], name
    for one in (by_ledger, by_spans):
        assert {name: found.counts.get("misfires", 0) for name, found in one.items() if found.misfires.misfires} == {
            "misfire": 1
        }
        assert not any(found.counts.get("repeats") for found in one.values())
        assert {name for name, found in one.items() if found.outcome == "failed"} == {"misfire"}


@pytest.mark.parametrize("run", [call_sync, call_async])
def test_attempts_are_shown_as_they_were_made(tmp_path: Path, run: Run) -> None:
    envelopes, measures = record(tmp_path, run, "attempts")
    made = {name: [one.attempts for one in answers] for name, answers in envelopes.items()}
    assert made["replayed"] == [1, 0, 0] and made["pending"] == [1, 0, 0] and made["refused"] == [0, 0, 1]
    assert made["approved"] == [0, 1]
    found = assess([read_trace(tmp_path / "ledger.db")], measures)
    page = render_html(found.document, charts=False)
    assert "succeeded, 0 attempts</small>" in page and ", 1 attempts" not in page
    for path in ("ledger.db", "spans.jsonl"):
        for name, one in measured(tmp_path / path, measures).items():
            rows = case_document(one, 0, arguments=True)["rows"]
            shown = sorted((row["call"]["number"], row["call"]["attempts"]) for row in rows if "call" in row)
            assert [attempts for _, attempts in shown] == made[name], (path, name)
            assert one.counts.get("attempts", 0) == sum(made[name]), (path, name)


UNSENT: list[dict[str, Any]] = [
    {"status": "succeeded", "sent": False, "effect_state": "applied"},
    {"status": "refused", "error_type": "UNCERTAIN_RESULT", "effect_state": "none"},
    {"status": "refused", "error_type": "CONFLICT", "effect_state": "applied"},
    {"status": "refused", "error_type": "APPROVAL_REQUIRED"},
    {"status": "uncertain", "sent": False, "effect_state": "unknown"},
]
"""A replay, the answer for an open effect, one for a pruned one, a deferral, and whatever else was not sent."""


@pytest.mark.parametrize("fields", UNSENT)
@pytest.mark.parametrize("is_first", [True, False])
def test_what_was_not_sent_counts_as_no_write_in_any_measure(fields: dict[str, Any], is_first: bool) -> None:
    sent, unsent = call("book", {"ref": "A"}, call_id="s"), call("book", {"ref": "A"}, call_id="u", **fields)
    calls = (unsent, sent) if is_first else (sent, unsent)
    found = measure_session(session(*calls), Measures(gold_of(BOOK, min_calls=1), TOOLS))
    assert (found.misfires.misfires, found.misfires.blocked) == ((), ())
    assert found.counts.get("repeats", 0) == 0 and found.counts["excused_not_sent"] == 1
    assert found.counts["attempts"] == found.counts["logical_calls"] == 1
    assert found.score.efficiency.number == 20 and found.outcome == "passed"
    assert found.counts["arguments_matched"] == 1
    without_gold = measure_session(session(sent, unsent), Measures(None, TOOLS))
    assert without_gold.misfires.misfires == () and without_gold.counts.get("repeats", 0) == 0


@pytest.mark.parametrize("fields", UNSENT)
def test_a_wrong_write_that_was_not_sent_is_counted_as_stopped(fields: dict[str, Any]) -> None:
    calls = call("book", {"ref": "A"}), call("send", {}, **fields)
    found = measure_session(session(*calls), Measures(gold_of(BOOK), TOOLS))
    assert (found.misfires.misfires, found.misfires.blocked) == ((), (1,))


def test_a_right_write_that_failed_without_an_effect_is_no_wrong_write() -> None:
    failed = call("book", {"ref": "A"}, status="failed", error_type="CONNECTION_FAILED", effect_state="not_applied")
    found = measure_session(session(failed, call("book", {"ref": "A"})), Measures(gold_of(BOOK), TOOLS))
    assert (found.misfires.misfires, found.misfires.blocked) == ((), ())


def test_repeats_are_looked_for_between_calls_that_were_sent() -> None:
    read, refused = call("look", {}, result_hash="x"), call("look", {}, status="refused")
    found = find_repeats([read, refused, read], TOOLS)
    assert [(one.position, one.first, one.reasons) for one in found] == [
        (1, 0, ("not_sent",)),
        (2, 0, ("no_progress",)),
    ]


def test_a_write_that_was_only_replayed_lies_between_no_repeats() -> None:
    read = call("look", {}, result_hash="x")
    replay = call("book", {}, sent=False)
    assert [one.reasons for one in find_repeats([read, replay, read], TOOLS)] == [("no_progress",)]
    assert [one.reasons for one in find_repeats([read, call("book", {}), read], TOOLS)] == [("write_between",)]


def test_an_effect_that_a_replay_shows_may_not_be_made_again() -> None:
    replay = call("book", {"ref": "A"}, sent=False, effect_state="applied")
    found = measure_session(session(replay, call("book", {"ref": "A"})), Measures(None, TOOLS))
    assert [(one.position, one.kind) for one in found.misfires.misfires] == [(1, "effect_repeated")]


def test_a_retry_after_a_refusal_in_between_is_still_a_retry() -> None:
    failed = call("look", {}, status="failed", error_type="TIMEOUT")
    assert logical_calls([failed, call("look", {}, status="refused"), call("look", {})]) == 1
    assert logical_calls([call("look", {}), call("look", {})]) == 2


def test_a_replay_takes_the_place_of_no_call_that_was_sent() -> None:
    parked = call("book", {"ref": "A"}, status="uncertain", effect_state="unknown")
    replay = call("book", {"ref": "A"}, sent=False, effect_state="applied")
    found = measure_session(session(parked, replay), Measures(gold_of(BOOK), TOOLS))
    assert found.misfires.misfires == ()


@pytest.mark.parametrize(
    ("fields", "status", "was_sent", "dispatches"),
    [
        ({"state": "SUCCEEDED", "attempts": []}, "succeeded", False, 0),
        ({"state": "SUCCEEDED", "outcome_basis": "replayed", "attempts": 1}, "succeeded", False, 0),
        ({"success": True, "outcome_basis": "replayed", "attempts": 0}, "succeeded", False, 0),
        ({"success": True, "outcome_basis": "returned", "attempts": 2}, "succeeded", True, 2),
        ({"success": False, "attempts": 0}, "refused", False, 0),
        ({"status": "deduplicated"}, "succeeded", False, 0),
        ({"status": "deferred"}, "refused", False, 0),
        ({"status": "success"}, "succeeded", True, 1),
    ],
)
def test_records_say_whether_anything_was_sent(
    fields: dict[str, Any], status: str, was_sent: bool, dispatches: int
) -> None:
    (one,) = read_records([{"request_id": "fc-1", "task_id": "t", "tool": "book", **fields}], "ledger")
    (made,) = one.calls
    assert (made.status, made.was_sent, made.dispatches) == (status, was_sent, dispatches)


def test_a_replayed_envelope_in_a_conversation_is_no_second_write(tmp_path: Path) -> None:
    def asked(number: int) -> dict[str, Any]:
        function = {"name": "book", "arguments": '{"ref": "A"}'}
        return {"role": "assistant", "tool_calls": [{"id": f"c{number}", "type": "function", "function": function}]}

    def answered(number: int, basis: str, attempts: int) -> dict[str, Any]:
        envelope = {"success": True, "data": "A", "effect": "applied", "outcome_basis": basis, "attempts": attempts}
        return {"role": "tool", "tool_call_id": f"c{number}", "content": json.dumps(envelope)}

    messages = [asked(1), answered(1, "returned", 1), asked(2), answered(2, "replayed", 0)]
    (tmp_path / "m.json").write_text(json.dumps(messages))
    (one,) = read_trace(tmp_path / "m.json")
    assert [made.was_sent for made in one.calls] == [True, False]
    found = measure_session(one, Measures(gold_of(BOOK, task_id=one.task_id), TOOLS))
    assert found.misfires.misfires == () and found.counts.get("repeats", 0) == 0


def test_the_steps_of_a_gold_need_no_call_that_was_sent_again() -> None:
    gold = gold_of(step("look"), BOOK)
    replay = call("book", {"ref": "A"}, sent=False, effect_state="applied")
    found = measure_session(session(call("look", {}), replay), Measures(gold, TOOLS))
    assert found.outcome == "passed" and found.counts["replayed"] == 1


def span_of(name: str, span_id: str, start: int, parent: str = "", **facts: Any) -> dict[str, Any]:
    kinds = {str: "stringValue", int: "intValue"}
    attributes = [{"key": key, "value": {kinds[type(value)]: value}} for key, value in facts.items()]
    return {
        "name": name,
        "spanId": span_id,
        "parentSpanId": parent,
        "startTimeUnixNano": start,
        "attributes": attributes,
    }


def spans_read(*spans: dict[str, Any]) -> list[Any]:
    return list(read_records([{"resourceSpans": [{"scopeSpans": [{"spans": list(spans)}]}]}], "otlp_genai"))


def test_several_spans_of_one_request_are_one_call() -> None:
    said = {"fcguard.request.id": "fc-1", "fcguard.task.id": "t#0", "fcguard.tool.effect": "write"}
    (one,) = spans_read(
        span_of(
            "fcguard.attempt book", "a1", 2, "c1", **{"fcguard.attempt.effect": "unknown", "error.type": "TIMEOUT"}
        ),
        span_of("execute_tool book", "c1", 1, **said, **{"fcguard.outcome": "uncertain", "fcguard.attempts": 1}),
        span_of("execute_tool look", "c2", 3, **{"fcguard.task.id": "t#0", "fcguard.request.id": "fc-2"}),
        span_of("fcguard.recover", "r1", 6, "c3", **{"fcguard.recovery.outcome": "applied"}),
        span_of("execute_tool book", "c3", 5, **said, **{"fcguard.outcome": "completed", "fcguard.attempts": 1}),
    )
    assert [(made.tool, made.status, made.effect_state) for made in one.calls] == [
        ("book", "succeeded", "applied"),
        ("look", "succeeded", None),
    ]
    assert [attempt.status for attempt in one.calls[0].attempts] == ["uncertain"]


@pytest.mark.parametrize(
    ("outcome", "effects", "error", "answer"),
    [
        ("failed", ["unknown"], "TIMEOUT", "not_applied"),
        ("failed", ["unknown", "applied"], "RESULT_INVALID", "applied"),
        ("failed", [], "TIMEOUT", "not_applied"),
        ("failed", [], "RESULT_INVALID", None),
        ("cancelled", ["applied"], None, "applied"),
        ("cancelled", [], "CANCELLED", None),
        ("uncertain", ["unknown"], "UNCERTAIN_RESULT", "unknown"),
        ("completed", [], None, "applied"),
    ],
)
def test_what_spans_say_of_an_effect(outcome: str, effects: list[str], error: str | None, answer: str | None) -> None:
    below = [
        span_of("fcguard.attempt book", f"a{number}", number, "c", **{"fcguard.attempt.effect": effect})
        for number, effect in enumerate(effects, 2)
    ]
    facts = {"fcguard.request.id": "fc-1", "fcguard.outcome": outcome, "fcguard.attempts": 1}
    told = {**facts, "fcguard.tool.effect": "write", **({} if error is None else {"error.type": error})}
    (one,) = spans_read(*below, span_of("execute_tool book", "c", 1, **told))
    assert one.calls[0].effect_state == answer
    read = {**told, "fcguard.tool.effect": "read"}
    (other,) = spans_read(span_of("execute_tool book", "c", 1, **read))
    assert other.calls[0].effect_state == "none"
