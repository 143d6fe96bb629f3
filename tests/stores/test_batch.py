"""A group of commands is applied to a working copy; what it writes is what the commands one by one would have written."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from fcguard.errors import StoreCorrupt, StoreError
from fcguard.model.states import CallState
from fcguard.stores.base import Accepted, CallQuery, Command, Enter, Event, Identity, Move, Note, Open
from fcguard.stores.batch import Batch
from fcguard.stores.chain import verify
from fcguard.stores.sqlite_rows import SQLiteView, flush, pages_of_calls, pages_of_events, read_call_events, read_heads
from fcguard.stores.sqlite_schema import MIGRATIONS

_S = CallState


def _identity(number: int, key: int | None) -> Identity:
    task = f"task-{number % 2}"
    return Identity(
        f"fc-{number}", task, "create_order", "1", "write", digest="d",
        idempotency_scope=None if key is None else "s", idempotency_key=None if key is None else f"k{key}",
        effect_key=None if key is None else f"e{key}",
    )  # fmt: skip


_numbers = st.integers(0, 4)
_keys = st.none() | st.integers(0, 1)
_results = st.none() | st.just({"success": True})
_states = st.sampled_from(list(CallState))
_events = st.sampled_from(["call", "outcome", "late"]).map(lambda kind: Event(kind, 1.5, {"note": kind}))
_commands = st.one_of(
    st.builds(Enter, st.builds(_identity, _numbers, st.none()), _states, st.integers(0, 1), _events, _results),
    st.builds(Open, st.builds(_identity, _numbers, _keys), _states, st.integers(0, 1), _events),
    st.builds(
        Move,
        _numbers.map(lambda number: f"fc-{number}"),
        st.integers(1, 3),
        _states,
        st.integers(0, 2),
        _events,
        _results,
    ),
    st.builds(Note, _numbers.map(lambda number: f"fc-{number}"), _events),
)


def _connect() -> sqlite3.Connection:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    for script in MIGRATIONS:
        connection.executescript(script)
    return connection


def _write(groups: list[list[Command]]) -> tuple[list[Any], list[Any], list[Any]]:
    """Apply each group in a transaction of its own; answer the answers, and the calls and events that the ledger then holds."""
    connection = _connect()
    answers = []
    for group in groups:
        connection.execute("BEGIN")
        # With care, as a group is applied again of which a command was at fault.
        batch = Batch(SQLiteView(connection), "owner", 10.0, lease=60.0, careful=True)
        answers += [batch.apply(command) for command in group]
        flush(connection, batch)
        connection.execute("COMMIT")

    def run(query: Any) -> Any:
        return query(connection)

    calls = [call for page in pages_of_calls(run, CallQuery()) for call in page]
    events = [event for page in pages_of_events(run, None) for event in page]
    assert verify(events, heads=read_heads(connection)).ok
    assert sorted(events, key=lambda event: (event.task_id, event.seq)) == sorted(
        (event for call in calls for event in read_call_events(connection, call.identity.request_id)),
        key=lambda event: (event.task_id, event.seq),
    )
    connection.close()
    return [str(answer) if isinstance(answer, StoreError) else answer for answer in answers], calls, events


@settings(deadline=None)
@given(st.lists(_commands, max_size=12), st.data())
def test_a_group_writes_what_its_commands_would_write_one_by_one(commands: list[Command], data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, len(commands)))
    one_by_one = _write([[command] for command in commands])
    assert _write([commands]) == one_by_one
    assert _write([commands[:cut], commands[cut:]]) == one_by_one


def test_a_call_that_is_entered_and_noted_in_one_group_is_written_once_with_both_events() -> None:
    entered = Enter(_identity(1, None), _S.SUCCEEDED, 1, Event("call", 1.5, {}), {"success": True})
    answers, calls, events = _write([[entered, Note("fc-1", Event("late", 2.5, {})), entered]])
    assert answers[:2] == [Accepted(1), Accepted(1)]
    assert "already in the ledger" in answers[2]
    assert [(call.state, call.result, call.owner) for call in calls] == [(_S.SUCCEEDED, {"success": True}, None)]
    assert [event.kind for event in events] == ["call", "late"]


def test_a_key_whose_holder_cannot_be_found_lets_nothing_be_sent() -> None:
    """A damaged file: the index knows the key, and the call that holds it is not whole any more."""
    connection = _connect()
    for number, is_whole in ((1, True), (2, False)):
        connection.execute("BEGIN")
        identity = replace(_identity(number, 1), task_id=f"t{number}")
        if not is_whole:
            connection.execute("DELETE FROM fc_heads")
        batch = Batch(SQLiteView(connection), "owner", 10.0, lease=60.0, careful=False)
        answer = batch.apply(Open(identity, _S.STARTED, 1, Event("opened", 1.0, {})))
        flush(connection, batch)
        connection.execute("COMMIT")
    connection.close()
    assert isinstance(answer, StoreCorrupt)
    assert "the call 'fc-1', which holds the key, is missing; run `fcguard verify`" in str(answer)
