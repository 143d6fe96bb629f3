"""The guard's own ledger read as a trace: from any store, and from the file of a SQLite ledger."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from fcguard import Applied, Fallback, Guard, Intent, MemoryStore, NotApplied, SQLiteStore, UsageError
from fcguard.approval import CallbackApprover, Decision
from fcguard.errors import StoreError
from fcguard.evaluation.importers.ledger_events import LedgerEvent, records_of
from fcguard.evaluation.importers.read import detect_format, read_trace
from fcguard.evaluation.metrics import Measures
from fcguard.evaluation.report.assess import assess
from fcguard.testing.clock import FakeClock
from fcguard.testing.faults import inject
from fcguard.testing.ledger_trace import ledger_records, read_ledger


def desk(store: Any, folder: Path) -> Guard:
    guard = Guard(store=store, evidence_dir=folder, clock=FakeClock())
    booked: list[str] = []

    @guard.tool(effect="read", retry=2, fallback=[Fallback("replica")])
    def look(order_id: str, depth: int = 1) -> dict[str, Any]:
        return {"order_id": order_id, "depth": depth}

    @guard.tool(effect="read")
    def replica(order_id: str, depth: int = 1) -> str:
        return f"replica {order_id}"

    @guard.tool(effect="read")
    def outer(order_id: str) -> Any:
        return guard.call("look", {"order_id": order_id}).data

    def exists(call: Any) -> Applied | NotApplied:
        guard.call("replica", {"order_id": call.arguments["order_id"]})
        return Applied() if call.arguments["order_id"] in booked else NotApplied()

    @guard.tool(effect="write", confirm=exists, settle=1.0, business_key=("order_id",))
    def book(order_id: str) -> str:
        booked.append(order_id)
        return "booked"

    @guard.tool(effect="destructive", approval="never")
    def drop(order_id: str) -> str:
        raise RuntimeError("lost on the way")

    return guard


def work(guard: Guard) -> None:
    with guard.task("one", task_id="case#2"):
        guard.call("look", {"order_id": "A1", "depth": "2"})
        guard.call("look", {"depth": "many"})
        guard.call("nowhere", {"order_id": "A1"})
        with inject(guard, "book", "write_timeout_committed", times=1):
            guard.call("book", {"order_id": "A1"})
        guard.call("drop", {"order_id": "A1"})
        with inject(guard, "look", "server_error"):
            guard.call("look", {"order_id": "A3"})
        guard.call("outer", {"order_id": "A4"})
        guard.run(Intent(tool="look", arguments='{"order_id": '))
    guard.call("look", {"order_id": "A2"})


EXPECTED = [
    ("look", "succeeded", None, 1),
    ("look", "refused", "PARAM_MISSING", 0),
    ("nowhere", "refused", "TOOL_UNKNOWN", 0),
    ("book", "succeeded", None, 1),
    ("drop", "uncertain", "UNCERTAIN_RESULT", 1),
    ("look", "succeeded", None, 2),
    ("outer", "succeeded", None, 1),
    ("look", "refused", "PARAM_TRUNCATED", 0),
]


def seen(sessions: list[Any]) -> list[tuple[Any, ...]]:
    return [(call.tool, call.status, call.error_type, len(call.attempts)) for call in sessions[0].calls]


def test_a_store_and_its_file_tell_the_same(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "ledger.db")
    with desk(store, tmp_path) as guard:
        work(guard)
        from_store = list(read_ledger(store))
        only_one = list(read_ledger(store, task_id="case#2"))
    trace = read_trace(tmp_path / "ledger.db")
    from_file = list(trace)
    assert from_file == from_store and list(trace) == from_file
    assert trace.format == "ledger" and trace.unread.count == 0
    assert only_one == from_store[:1]
    assert [(one.task_id, one.trial, one.session_id) for one in from_file] == [("case", 2, "case#2"), ("-", 0, "-")]
    assert seen(from_file) == EXPECTED


def test_a_ledger_in_memory_is_read_alike(tmp_path: Path) -> None:
    with desk(MemoryStore(), tmp_path) as guard:
        work(guard)
        sessions = list(read_ledger(guard.store))
    assert seen(sessions) == EXPECTED


def test_what_a_record_holds(tmp_path: Path) -> None:
    with desk(MemoryStore(), tmp_path) as guard:
        work(guard)
        session = next(iter(read_ledger(guard.store)))
    first, faulty, unknown, booked, dropped, fallen, _, broken = session.calls
    assert first.arguments == {"order_id": "A1", "depth": "2"} and first.effect == "read" and first.validation is None
    assert first.step == 1 and first.seconds is not None and first.result_hash is not None
    assert faulty.arguments == {"depth": "many"} and faulty.validation is not None
    assert [problem.rule for problem in faulty.validation] == ["param_missing"]
    assert unknown.effect is None and not unknown.has_arguments
    assert booked.effect_state == "applied" and booked.idempotency_key is not None
    assert [(one.status, one.error_type) for one in booked.attempts] == [("uncertain", "TIMEOUT")]
    assert dropped.effect == "destructive" and dropped.effect_state == "unknown" and dropped.validation is None
    assert [one.status for one in fallen.attempts] == ["failed", "failed"]
    assert broken.parse_error is not None and broken.arguments is None


def test_the_numbers_of_a_ledger(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "ledger.db")
    with desk(store, tmp_path) as guard:
        work(guard)
    totals = assess([read_trace(tmp_path / "ledger.db")], Measures()).partial.totals()
    assert (totals["sessions"], totals["calls"], totals["refused"], totals["errors"]) == (2, 9, 3, 1)
    assert totals["invalid"] == 1 and totals["unparsable"] == 1


def test_an_approved_call_says_so(tmp_path: Path) -> None:
    approver = CallbackApprover(lambda request: Decision(approved=True, by="ann"))
    with Guard(store=MemoryStore(), evidence_dir=tmp_path, approver=approver) as guard:

        @guard.tool(effect="write", approval="required")
        def book(order_id: str) -> str:
            return order_id

        with guard.task():
            assert guard.call("book", {"order_id": "A1"}).success
        call = next(iter(read_ledger(guard.store))).calls[0]
    assert call.confirmed_by_human is True


def event(kind: str, state: str, task: str = "t", request: str = "r", **payload: Any) -> LedgerEvent:
    call = {"tool": "book", "effect": "write", "purpose": "primary"}
    return LedgerEvent(task, request, kind, {**payload, "fc": {"state": state, "attempt": 1, "call": call}})


def test_a_call_whose_process_died_is_uncertain_and_keeps_its_place() -> None:
    events = [
        event("opened", "STARTED", request="r1", arguments={"order_id": "A1"}),
        event("call", "SUCCEEDED", request="r2", result={"tool_name": "look", "success": True, "data": 1}),
        event("late", "SUCCEEDED", request="r2"),
        event("call", "REJECTED", task="other", request="r3", result={"message": "no", "error_type": "OWN_CODE"}),
    ]
    records = list(records_of(events))
    assert [(one["request_id"], one["state"]) for one in records] == [
        ("r1", "STARTED"),
        ("r2", "SUCCEEDED"),
        ("r3", "REJECTED"),
    ]
    assert records[0]["attempts"] == [{"status": "uncertain"}] and records[0]["raw_arguments"] == {"order_id": "A1"}
    assert detect_format(records) == "ledger"


def test_what_a_person_resolved_counts_as_resolved() -> None:
    resolved = event("resolved", "SUCCEEDED")
    resolved.payload["fc"]["result"] = {"success": True, "data": {"order": 1}, "effect": "applied"}  # type: ignore[index]
    parked = event("parked", "PARKED", result={"success": False, "error_type": "UNCERTAIN_RESULT", "effect": "unknown"})
    record = next(records_of([event("opened", "STARTED"), parked, resolved]))
    assert record["state"] == "SUCCEEDED" and record["effect"] == "applied" and "error_type" not in record


def test_too_broad_arguments_are_a_fault_of_the_arguments_and_a_precondition_is_not() -> None:
    def refused(error_type: str) -> Any:
        result = {"success": False, "error_type": error_type, "message": "no"}
        return next(records_of([event("call", "REJECTED", layer="business", result=result)]))

    assert refused("PARAM_TOO_BROAD")["validation"] == [{"path": "", "rule": "too_broad", "message": "no"}]
    assert "validation" not in refused("PRECONDITION_FAILED") and "validation" not in refused("OWN_CODE")


def test_odd_payloads_do_not_stop_the_reader() -> None:
    odd = LedgerEvent("t", "r", "call", {"fc": 3, "result": "text", "attempts": [1, {"duration_ms": "x"}]})
    assert next(records_of([odd]))["attempts"] == [{"status": "succeeded"}]


def test_files_that_are_no_ledger_are_refused_and_broken_events_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE things (name TEXT)")
    connection.commit()
    with pytest.raises(UsageError, match="no ledger"):
        read_trace(path)
    connection.execute("CREATE TABLE fc_heads (task INTEGER, task_id TEXT)")
    connection.execute("CREATE TABLE fc_events (task INTEGER, seq INTEGER, request_id TEXT, kind TEXT, payload BLOB)")
    connection.execute("INSERT INTO fc_heads VALUES (1, 't')")
    rows = [(1, "r", "call", b"{broken"), (2, "r", "call", b"[]"), (3, "r", "call", b'{"fc": {"state": "REJECTED"}}')]
    connection.executemany("INSERT INTO fc_events VALUES (1, ?, ?, ?, ?)", rows)
    connection.commit()
    connection.close()
    trace = read_trace(path)
    assert [len(session.calls) for session in trace] == [1]
    assert trace.unread.count == 2
    with pytest.raises(UsageError, match="cannot be read"):
        read_trace(tmp_path / "missing.db")


def test_a_closed_store_says_so(tmp_path: Path) -> None:
    store = SQLiteStore(tmp_path / "none.db", create=False)
    with pytest.raises(StoreError):
        list(ledger_records(store))
