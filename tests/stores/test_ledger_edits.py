"""What an attacker edits in the tables of a ledger: what `verify` and a recovery see, and what nobody can see."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from fcguard import Guard, NotApplied, Tool
from fcguard.errors import StoreCorrupt, StoreError, UsageError
from fcguard.model.identity import digest_of
from fcguard.model.states import CallState
from fcguard.stores.audit import audit, contradiction, pruned_since
from fcguard.stores.base import Enter, Event, Gap, Head, Identity, Move, Open
from fcguard.stores.checkpoint import Checkpoint, read_checkpoint, take_checkpoint, write_checkpoint
from fcguard.stores.memory import MemoryStore
from fcguard.stores.sqlite import SQLiteStore
from fcguard.telemetry.observer import SilentObserver
from fcguard.testing.store_contract import ask, enter, move, open_call
from tests.recovery_after_crash.crashed_world import dead_pid

OPEN, DONE, PARKED = "fc-20260130-000002", "fc-20260130-000003", "fc-20260130-000004"
SETTLE = 0.0


def _open(request_id: str, order_id: str, **keys: Any) -> Open:
    arguments = {"order_id": order_id}
    digest = digest_of("create_order", arguments)
    identity = Identity(request_id, "T", "create_order", "1", "write", digest=digest, settle=SETTLE, **keys)
    return Open(identity, CallState.STARTED, 1, Event("opened", time.time(), {"arguments": arguments}), 0.0)


def fill(store: Any) -> None:
    """A read, a write that is open, one that succeeded and one that is parked."""
    ask(store, enter(1))
    ask(store, _open(OPEN, "A2", idempotency_scope="T", idempotency_key="k2", effect_key="e2"))
    ask(store, _open(DONE, "A3", idempotency_scope="T", idempotency_key="k3", effect_key="e3"))
    ask(store, Move(DONE, 1, CallState.SUCCEEDED, 1, Event("outcome", time.time(), {}), {"success": True, "data": 3}))
    ask(store, _open(PARKED, "A4", effect_key="e4"))
    ask(
        store,
        Move(PARKED, 1, CallState.PARKED, 1, Event("parked", time.time(), {}), {"success": False, "message": "?"}),
    )


class Seen(NamedTuple):
    """What was seen of an edit, and how often the write was sent again."""

    verify: str
    recover: dict[str, str] | str
    sent: int


class Ledger:
    """A filled ledger file, edited behind its back."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.path = folder, folder / "ledger.db"
        store = SQLiteStore(self.path)
        fill(store)
        store.close()

    def edit(self, *statements: str) -> None:
        connection = sqlite3.connect(self.path, isolation_level=None)
        connection.execute("DROP TRIGGER IF EXISTS fc_events_no_update")
        connection.execute("DROP TRIGGER IF EXISTS fc_events_no_delete")
        for statement in statements:
            connection.execute(statement)
        connection.close()

    def verify(self, *checkpoints: Checkpoint, **options: Any) -> str:
        store = SQLiteStore(self.path)
        try:
            return str(audit(store, checkpoints, **options).fault or "holds")
        except StoreError as error:
            return str(error)
        finally:
            store.close()

    def checkpoint(self) -> Checkpoint:
        store = SQLiteStore(self.path)
        try:
            return read_checkpoint(write_checkpoint(take_checkpoint(store, time.time())))
        finally:
            store.close()

    def prune(self) -> None:
        store = SQLiteStore(self.path)
        store.prune(1e12)
        store.close()

    def seen(self) -> Seen:
        sent: list[Any] = []
        verify = self.verify()
        guard = Guard(store=SQLiteStore(self.path), evidence_dir=self.folder, observer=SilentObserver())
        guard.register(
            Tool(
                name="create_order", parameters={"type": "object"}, fn=lambda **given: sent.append(given), effect="write",
                confirm=lambda call: NotApplied(), settle=SETTLE,
            )
        )  # fmt: skip
        try:
            found: dict[str, str] | str = {call.request_id: call.did for call in guard.recover(wait=0.0).calls}
        except StoreCorrupt as error:
            found = str(error)
        finally:
            guard.close()
        return Seen(verify, found, len(sent))


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path)


AS_EVER = {OPEN: "parked", PARKED: "waits"}
"""What a recovery does with an honest ledger: this very process opened the call, so that its owner is not proved dead."""


def test_an_honest_ledger(ledger: Ledger) -> None:
    assert ledger.seen() == Seen("holds", AS_EVER, 0)


def call(change: str, request_id: str) -> str:
    return f"UPDATE fc_calls SET {change} WHERE request_id = '{request_id}'"


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        (call("state = 'UNCERTAIN'", PARKED), "state 'UNCERTAIN', its events say 'PARKED'"),
        (call("version = 9", OPEN), "version 9, its events say 1"),
        (call("attempt = 7", OPEN), "attempt 7, its events say 1"),
        (call("tool = 'refund'", OPEN), "tool 'refund', its events say 'create_order'"),
        (call("effect_key = NULL", OPEN), "effect_key None, its events say 'e2'"),
        (call("idempotency_key = 'x'", OPEN), "idempotency_key 'x', its events say 'k2'"),
        (call("created_at = 1", OPEN), "created_at 1.0, its events say"),
    ],
)
def test_an_edited_open_call_is_named_and_not_acted_upon(ledger: Ledger, statement: str, says: str) -> None:
    ledger.edit(statement)
    seen = ledger.seen()
    assert says in seen.verify
    assert isinstance(seen.recover, dict)
    assert "left_open" in seen.recover.values()
    assert seen.sent == 0


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        (call("state = 'SUCCEEDED'", OPEN), "state 'SUCCEEDED', its events say 'STARTED'"),
        (call("state = 'STARTED'", DONE), "state 'STARTED', its events say 'SUCCEEDED'"),
        (call("is_open = 0", OPEN), "is_open False, its events say True"),
        (call("is_open = 1", DONE), "is_open True, its events say False"),
    ],
)
def test_a_call_that_is_hidden_from_recovery_stops_it(ledger: Ledger, statement: str, says: str) -> None:
    ledger.edit(statement)
    seen = ledger.seen()
    assert says in seen.verify
    assert isinstance(seen.recover, str)
    assert "is open depends on where one looks" in seen.recover
    assert seen.sent == 0


@pytest.mark.parametrize(
    ("statement", "says"),
    [
        (call("holds_key = 0", DONE), "holds_key False, its events say True"),
        (call("idempotency_key = 'x'", DONE), "idempotency_key 'x', its events say 'k3'"),
        (call("idempotency_scope = 'x'", DONE), "idempotency_scope 'x', its events say 'T'"),
        (call("is_entered = 1", DONE), "is_entered True, its events say False"),
        (call("updated_at = 1", DONE), "updated_at 1.0, its events say"),
        (call("result_seq = NULL", DONE), "leads to another envelope than its events"),
        (call("result_seq = first_seq", DONE), "leads to another envelope than its events"),
        (f"DELETE FROM fc_calls WHERE request_id = '{DONE}'", "the call has events but no row"),
        (f"UPDATE fc_events SET back = NULL WHERE request_id = '{DONE}'", "has no such events"),
    ],
)  # fmt: skip
def test_an_edited_call_that_has_ended_is_named_by_verify_only(ledger: Ledger, statement: str, says: str) -> None:
    """Each of them would let a finished write be sent again, or answer for it what it did not answer. A recovery reads open calls."""
    ledger.edit(statement)
    seen = ledger.seen()
    assert says in seen.verify
    assert (seen.recover, seen.sent) == (AS_EVER, 0)


@pytest.mark.parametrize(
    ("statement", "recover"),
    [
        (call("owner = 'nobody'", OPEN), AS_EVER),
        (call("settle_until = 1e12", OPEN), AS_EVER),
        (call("lease_until = 1e12", OPEN), {PARKED: "waits"}),
        (call("next_at = 1e12", OPEN), {OPEN: "deferred", PARKED: "waits"}),
        ("DELETE FROM fc_owners", AS_EVER),
    ],
)
def test_owners_leases_and_due_times_are_not_covered_by_the_chain(
    ledger: Ledger, statement: str, recover: dict[str, str]
) -> None:
    """An edit delays a recovery, which shows as busy or deferred; it does not let the call be lost."""
    ledger.edit(statement)
    assert ledger.seen() == Seen("holds", recover, 0)


def test_whoever_edits_the_owners_can_have_a_write_sent_again(ledger: Ledger) -> None:
    """What `docs/ledger.md` says of it: the proof of a death rests on a table that no chain covers."""
    ledger.edit(f"UPDATE fc_owners SET pid = {dead_pid()}, started = 1")
    assert ledger.seen() == Seen("holds", {OPEN: "returned", PARKED: "waits"}, 1)


def test_an_open_call_that_was_deleted_with_its_row_is_found_by_verify_only(ledger: Ledger) -> None:
    ledger.edit(f"DELETE FROM fc_calls WHERE request_id = '{OPEN}'")
    seen = ledger.seen()
    assert "the call has events but no row" in seen.verify
    assert seen.recover == {PARKED: "waits"}


def test_a_second_row_with_the_columns_of_a_whole_call_is_found(ledger: Ledger) -> None:
    ledger.edit(
        "INSERT INTO fc_calls (request_id, task, tool, state, version, attempt, created_at, updated_at, first_seq, last_seq, "
        "result_seq) SELECT 'fc-twin', task, tool, state, version, attempt, created_at, updated_at, first_seq, last_seq, result_seq "
        "FROM fc_calls WHERE request_id = 'fc-20260130-000001'"
    )
    assert "request_id 'fc-twin', its events say 'fc-20260130-000001'" in ledger.verify()


def test_two_rows_for_one_call_of_any_store_are_found() -> None:
    class Twice(MemoryStore):
        def calls(self, *query: Any) -> Iterator[Any]:
            for row in super().calls(*query):
                yield row
                yield row

    store = Twice()
    fill(store)
    assert "the call has more than one row" in str(audit(store).fault)


def test_a_ledger_in_memory_holds_envelopes_as_they_came() -> None:
    store = MemoryStore()
    odd = {"nan": float("nan"), "pair": (1, 2), "big": 2**70}
    ask(store, Enter(Identity("fc-1", "T", "look", "1", "read"), CallState.SUCCEEDED, 1, Event("call", 1.0, {}), odd))
    assert audit(store).ok


def test_a_call_that_moves_while_it_is_checked_is_no_fault() -> None:
    class Busy(MemoryStore):
        def events(self, *, request_id: str | None = None, task_id: str | None = None) -> Iterator[Any]:
            if request_id == OPEN:
                row = self.get(OPEN)
                assert row is not None
                ask(self, Move(OPEN, row.version, CallState.CONFIRMING, 1, Event("confirming", time.time(), {})))
            return super().events(request_id=request_id, task_id=task_id)

    store = Busy()
    fill(store)
    assert audit(store).ok


def test_bytes_that_are_no_event_s_contradict_every_row() -> None:
    store = MemoryStore()
    fill(store)
    row = store.get(OPEN)
    assert row is not None
    events = [replace(event, payload=b"[]") for event in store.events(request_id=OPEN)]
    assert "are not an event's" in str(contradiction(row, events))
    assert "has no such events" in str(contradiction(row, []))


# Deleted, and declared as pruned


def delete_as_pruned(ledger: Ledger, request_id: str) -> None:
    """Remove a call as pruning does, by hand."""
    where = f"FROM fc_events WHERE request_id = '{request_id}'"
    ledger.edit(
        f"INSERT INTO fc_gaps SELECT task, min(seq), max(seq), (SELECT hash {where} ORDER BY seq DESC LIMIT 1) {where}",
        f"DELETE {where}",
        f"DELETE FROM fc_calls WHERE request_id = '{request_id}'",
    )


def test_a_gap_is_tied_to_the_chain(ledger: Ledger) -> None:
    """It holds the hash of the last event that left, and what follows was hashed with it."""
    delete_as_pruned(ledger, DONE)
    assert ledger.verify() == "holds"
    for change in ("hash = zeroblob(32)", "last = last + 1", "first = first + 1"):
        other = Ledger(ledger.folder.joinpath(change.partition(" ")[0]))
        delete_as_pruned(other, DONE)
        other.edit(f"UPDATE fc_gaps SET {change}")
        assert other.verify() != "holds", change


@pytest.mark.parametrize("request_id", [OPEN, DONE])
def test_what_was_deleted_and_declared_as_pruned_shows_against_a_checkpoint(ledger: Ledger, request_id: str) -> None:
    checkpoint = ledger.checkpoint()
    assert ledger.verify(checkpoint, unpruned=True) == "holds"
    delete_as_pruned(ledger, request_id)
    assert ledger.verify() == "holds", "in itself this is a ledger that was pruned"
    assert ledger.verify(checkpoint) == "holds"
    said = ledger.verify(checkpoint, unpruned=True)
    assert "was there at the newest checkpoint and is declared as pruned since" in said


def test_what_was_pruned_before_the_checkpoint_is_no_fault(ledger: Ledger) -> None:
    older = ledger.checkpoint()
    ledger.prune()
    newer = replace(ledger.checkpoint(), at=older.at + 1.0)
    assert ledger.verify(older, newer, unpruned=True) == "holds", "the newest one counts"
    assert "is declared as pruned since" in ledger.verify(older, unpruned=True)
    unknown = replace(newer, gaps=None, at=newer.at + 1.0)
    assert "is declared as pruned since" in ledger.verify(unknown, unpruned=True), (
        "one that noted no gaps knows of none"
    )


def test_pruning_is_compared_with_checkpoints_only(ledger: Ledger) -> None:
    store = SQLiteStore(ledger.path)
    with pytest.raises(UsageError, match="give one"):
        audit(store, unpruned=True)
    store.close()


@pytest.mark.parametrize(
    ("then", "now", "since"),
    [
        ([], [(1, 3)], [(1, 3)]),
        ([(1, 3)], [(1, 3)], []),
        ([(2, 3)], [(1, 5)], [(1, 1), (4, 5)]),
        ([(2, 3), (5, 5)], [(1, 20)], [(1, 1), (4, 4), (6, 10)]),
        ([(1, 10)], [(1, 20)], []),
        ([(1, 2)], [(1, 2), (11, 15)], []),
        ([(4, 6)], [(1, 2), (4, 8)], [(1, 2), (7, 8)]),
    ],
)
def test_what_left_since_a_checkpoint(
    then: list[tuple[int, int]], now: list[tuple[int, int]], since: list[tuple[int, int]]
) -> None:
    """The chain reached event 10 then; what came later was never known to it."""

    def gaps(ranges: list[tuple[int, int]]) -> tuple[Gap, ...]:
        return tuple(Gap("T", first, last, bytes(32)) for first, last in ranges)

    checkpoint = Checkpoint(1.0, (Head("T", 10, bytes(32)),), gaps=gaps(then))
    assert list(pruned_since(gaps(now), checkpoint)) == [("T", first, last) for first, last in since]


def test_a_signature_covers_what_had_been_pruned(ledger: Ledger) -> None:
    signing = pytest.importorskip("fcguard.stores.signing")
    private, public = signing.make_key()
    ledger.prune()
    signed = read_checkpoint(write_checkpoint(signing.sign(ledger.checkpoint(), private)))
    assert signed.gaps
    signing.check_signature(signed, public)
    for gaps in ((), None, (*signed.gaps, Gap("T", 90, 91, bytes(32)))):
        with pytest.raises(StoreError, match="was changed after it was signed"):
            signing.check_signature(replace(signed, gaps=gaps), public)


# The same on a server


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ("holds_key = false", "holds_key False, its events say True"),
        ("effect_key = 'x'", "effect_key 'x', its events say 'e'"),
        ("updated_at = 1", "updated_at 1.0"),
        ("result_seq = first_seq", "another envelope"),
    ],
)
def test_edits_of_a_server_s_tables_are_named(
    request: pytest.FixtureRequest, postgres_schema: str, tmp_path: Path, change: str, says: str
) -> None:
    psycopg = pytest.importorskip("psycopg")
    from fcguard.stores.postgres import PostgresStore

    server = request.getfixturevalue("postgres_server")
    store = PostgresStore(server.url, schema=postgres_schema, spool=tmp_path / "spool")
    ask(store, open_call(1, effect_key="e"))
    ask(store, move(1, 1, CallState.SUCCEEDED, result={"data": 1}))
    assert audit(store).ok
    with psycopg.connect(server.url, autocommit=True) as admin:
        admin.execute(f"UPDATE {postgres_schema}.fc_calls SET {change}")
    assert says in str(audit(store).fault)
    store.close()
