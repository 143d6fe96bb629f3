"""What every ledger must do, as tests: derive a class, override one fixture, and pytest runs them against your store."""

# ruff: noqa: D102, PT018 - the name of a test says what it checks
from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fcguard.errors import StoreClosed, StoreError
from fcguard.model.states import OPEN_STATES, TERMINAL_STATES, CallState, is_transition
from fcguard.stores.base import (
    Accepted,
    Answer,
    Blocked,
    CallQuery,
    Command,
    Enter,
    Event,
    Identity,
    Look,
    Move,
    Note,
    Open,
    Replayed,
    Stale,
    Store,
)
from fcguard.stores.chain import verify
from fcguard.stores.payload import body_of, facts_of

__all__ = ["MakeStore", "StoreContract", "ask", "enter", "identity", "ids", "move", "note", "open_call"]

MakeStore = Callable[[], Any]
"""Makes a store. Called again in the same test it opens the same ledger, if the store is durable."""

_S = CallState


def ask(store: Store, command: Command, timeout: float = 60.0) -> Answer:
    """Submit a command, wait for its answer, and raise it if it is an error.

    Args:
        store: ledger to ask.
        command: what to write.
        timeout: seconds.
    """
    answered = threading.Event()
    answers: list[Answer | BaseException] = []

    def done(answer: Answer | BaseException) -> None:
        answers.append(answer)
        answered.set()

    store.submit(command, done)
    if not answered.wait(timeout):
        raise TimeoutError(f"{type(store).__name__} did not answer {type(command).__name__} within {timeout} s")
    if len(answers) != 1:
        raise AssertionError(f"{type(store).__name__} answered {len(answers)} times")
    if isinstance(answers[0], BaseException):
        raise answers[0]
    return answers[0]


def identity(number: int, **fields: Any) -> Identity:
    """Make the identity of a write whose id sorts by `number`."""
    given: dict[str, Any] = {"task_id": "task", "tool": "create_order", "tool_version": "1", "effect": "write"} | fields
    return Identity(f"fc-20260130-{number:06d}", **given)


def open_call(
    number: int, *, state: CallState = _S.STARTED, lease: float = 60.0, at: float = 100.0, **fields: Any
) -> Open:
    """Make an intent; its attempt is 1 if it is started, else 0."""
    event = Event("opened", at, {"arguments": {"order_id": f"A{number}"}})
    return Open(identity(number, **fields), state, 1 if state is _S.STARTED else 0, event, lease)


def enter(
    number: int, *, state: CallState = _S.SUCCEEDED, at: float = 100.0, result: Any = None, **fields: Any
) -> Enter:
    """Make a whole read."""
    given = {"tool": "query_order", "effect": "read"} | fields
    return Enter(
        identity(number, **given),
        state,
        1,
        Event("call", at, {"n": number}),
        {"data": number} if result is None else result,
    )


def move(number: int, version: int, state: CallState, *, attempt: int = 1, at: float = 101.0, **fields: Any) -> Move:
    """Make a change of state."""
    return Move(f"fc-20260130-{number:06d}", version, state, attempt, Event("moved", at, {"to": state}), **fields)


def note(number: int) -> Note:
    """Make a note on a call."""
    return Note(f"fc-20260130-{number:06d}", Event("late", 102.0, {"value": number}))


_PATHS: dict[CallState, tuple[CallState, ...]] = {
    _S.PREPARED: (_S.PREPARED,),
    _S.STARTED: (_S.STARTED,),
    _S.UNCERTAIN: (_S.STARTED, _S.UNCERTAIN),
    _S.CONFIRMING: (_S.STARTED, _S.CONFIRMING),
    _S.PARKED: (_S.STARTED, _S.PARKED),
    _S.SUCCEEDED: (_S.STARTED, _S.SUCCEEDED),
    _S.FAILED: (_S.STARTED, _S.FAILED),
    _S.REJECTED: (_S.PREPARED, _S.REJECTED),
}
"""A way to bring a fresh call to each state."""


def _bring(store: Store, number: int, state: CallState, **fields: Any) -> int:
    """Bring a new call to a state; answer its version."""
    first, *rest = _PATHS[state]
    ask(store, open_call(number, state=first, **fields))
    for version, target in enumerate(rest, start=1):
        ask(store, move(number, version, target, attempt=1 if first is _S.STARTED else 0))
    return 1 + len(rest)


def ids(calls: Any) -> list[str]:
    """Answer the request ids of calls."""
    return [call.identity.request_id for call in calls]


class StoreContract:
    """Tests of the `Store` protocol.

    ::

        class TestMyStore(StoreContract):
            @pytest.fixture
            def make_store(self, tmp_path):
                return lambda: MyStore(tmp_path / "ledger")
    """

    @pytest.fixture
    def make_store(self) -> MakeStore:
        """Override: answer a function that makes the store under test."""
        raise NotImplementedError("override the fixture make_store")

    @pytest.fixture
    def store(self, make_store: MakeStore) -> Iterator[Any]:
        """One store, closed after the test."""
        made = make_store()
        yield made
        made.close()

    # What is written can be read

    def test_an_opened_call_can_be_read(self, store: Store) -> None:
        command = open_call(
            1, step=3, parent_id="fc-parent", tenant="mall", digest="d", idempotency_scope="s", idempotency_key="k",
            effect_key="e", settle=2.5,
        )  # fmt: skip
        assert ask(store, command) == Accepted(1)
        call = store.get(command.identity.request_id)
        assert call is not None
        assert call.identity == command.identity
        assert (call.state, call.version, call.attempt, call.result) == (_S.STARTED, 1, 1, None)
        assert (call.created_at, call.updated_at) == (100.0, 100.0)

    def test_an_entered_call_can_be_read(self, store: Store) -> None:
        command = enter(1, result={"data": [1, None, "ü"]})
        assert ask(store, command) == Accepted(1)
        call = store.get(command.identity.request_id)
        assert call is not None
        assert (call.identity, call.state, call.result) == (command.identity, _S.SUCCEEDED, {"data": [1, None, "ü"]})

    def test_an_unknown_call_is_none(self, store: Store) -> None:
        assert store.get("fc-unknown") is None
        assert list(store.events(request_id="fc-unknown")) == []
        assert list(store.events(task_id="unknown")) == []

    def test_a_move_changes_the_row(self, store: Store) -> None:
        ask(store, open_call(1))
        assert ask(store, move(1, 1, _S.UNCERTAIN, next_at=150.0, settle_until=130.0)) == Accepted(2)
        call = store.get("fc-20260130-000001")
        assert call is not None
        assert (call.state, call.version, call.next_at, call.settle_until) == (_S.UNCERTAIN, 2, 150.0, 130.0)
        assert (call.created_at, call.updated_at) == (100.0, 101.0)
        ask(store, move(1, 2, _S.CONFIRMING))
        call = store.get("fc-20260130-000001")
        assert call is not None
        assert (call.next_at, call.settle_until) == (None, 130.0), (
            "next_at is replaced, settle_until stays unless given"
        )

    def test_events_carry_the_payload_and_the_stores_own_facts(self, store: Store) -> None:
        ask(store, open_call(1))
        ask(store, move(1, 1, _S.SUCCEEDED, result={"data": 7}))
        ask(store, note(1))
        events = list(store.events(request_id="fc-20260130-000001"))
        assert [event.kind for event in events] == ["opened", "moved", "late"]
        assert [event.at for event in events] == [100.0, 101.0, 102.0]
        assert [body_of(event) for event in events] == [
            {"arguments": {"order_id": "A1"}},
            {"to": "SUCCEEDED"},
            {"value": 1},
        ]
        facts = [facts_of(event) for event in events]
        assert [(fact["state"], fact["version"]) for fact in facts] == [
            ("STARTED", 1),
            ("SUCCEEDED", 2),
            ("SUCCEEDED", 2),
        ]
        assert facts[0]["call"]["tool"] == "create_order"

    def test_a_result_is_kept_for_replay(self, store: Store) -> None:
        result = {"data": {"id": 2**60, "text": "$int:5"}, "success": True}
        ask(store, open_call(1))
        ask(store, move(1, 1, _S.SUCCEEDED, result=result))
        call = store.get("fc-20260130-000001")
        assert call is not None and call.result == result

    def test_a_result_that_is_in_the_payload_too_is_kept(self, store: Store) -> None:
        result = {"data": 7}
        ask(store, open_call(1))
        ask(store, Move("fc-20260130-000001", 1, _S.PARKED, 1, Event("parked", 1.0, {"result": result}), result))
        ask(store, move(1, 2, _S.CONFIRMING))
        call = store.get("fc-20260130-000001")
        assert call is not None and call.result == result, "a later move without a result keeps the earlier one"

    # Refusals

    @pytest.mark.parametrize("make", [open_call, enter])
    def test_a_request_id_is_used_once(self, store: Store, make: Callable[[int], Command]) -> None:
        ask(store, open_call(1))
        with pytest.raises(StoreError, match="already in the ledger"):
            ask(store, make(1))
        ask(store, enter(2))
        with pytest.raises(StoreError, match="already in the ledger"):
            ask(store, make(2))

    @pytest.mark.parametrize("state", sorted(TERMINAL_STATES | {_S.UNCERTAIN, _S.CONFIRMING, _S.PARKED}))
    def test_a_call_is_not_opened_in_a_later_state(self, store: Store, state: CallState) -> None:
        with pytest.raises(StoreError, match="must be PREPARED or STARTED"):
            ask(store, open_call(1, state=state))
        assert store.get("fc-20260130-000001") is None

    @pytest.mark.parametrize("state", sorted(OPEN_STATES))
    def test_an_open_call_is_not_entered(self, store: Store, state: CallState) -> None:
        with pytest.raises(StoreError, match="must be REJECTED, SUCCEEDED or FAILED"):
            ask(store, enter(1, state=state))

    @pytest.mark.parametrize("source", sorted(CallState))
    def test_only_the_transitions_of_the_table_are_allowed(self, store: Store, source: CallState) -> None:
        for number, target in enumerate(sorted(CallState), start=1):
            version = _bring(store, number, source)
            if is_transition(source, target):
                assert ask(store, move(number, version, target, attempt=2)) == Accepted(version + 1)
            else:
                with pytest.raises(StoreError, match="is not a transition"):
                    ask(store, move(number, version, target, attempt=2))
                call = store.get(f"fc-20260130-{number:06d}")
                assert call is not None and (call.state, call.version) == (source, version)

    def test_an_attempt_does_not_go_back(self, store: Store) -> None:
        ask(store, open_call(1))
        with pytest.raises(StoreError, match="attempt 1 is behind"):
            ask(store, move(1, 1, _S.STARTED, attempt=1))
        assert ask(store, move(1, 1, _S.STARTED, attempt=2)) == Accepted(2)
        with pytest.raises(StoreError, match="attempt 1 is behind"):
            ask(store, move(1, 2, _S.UNCERTAIN, attempt=1))

    def test_a_move_or_note_needs_its_call(self, store: Store) -> None:
        with pytest.raises(StoreError, match="not in the ledger"):
            ask(store, move(1, 1, _S.SUCCEEDED))
        with pytest.raises(StoreError, match="not in the ledger"):
            ask(store, note(1))

    def test_a_stale_move_writes_nothing_and_tells_what_is_true(self, store: Store) -> None:
        ask(store, open_call(1))
        ask(store, move(1, 1, _S.SUCCEEDED, result={"data": 1}))
        assert ask(store, move(1, 1, _S.UNCERTAIN)) == Stale(2, _S.SUCCEEDED, {"data": 1})
        assert ask(store, move(1, 9, _S.UNCERTAIN)) == Stale(2, _S.SUCCEEDED, {"data": 1})
        assert len(list(store.events(request_id="fc-20260130-000001"))) == 2

    def test_the_stores_own_payload_key_is_refused(self, store: Store) -> None:
        with pytest.raises(StoreError, match="belongs to the store"):
            ask(store, Enter(identity(1), _S.SUCCEEDED, 1, Event("call", 1.0, {"fc": 1})))
        ask(store, open_call(2))
        with pytest.raises(StoreError, match="belongs to the store"):
            ask(store, Note("fc-20260130-000002", Event("late", 1.0, {"fc": 1})))
        assert ask(store, move(2, 1, _S.SUCCEEDED)) == Accepted(2)

    def test_a_closed_store_refuses(self, make_store: MakeStore) -> None:
        store = make_store()
        ask(store, enter(1))
        store.close()
        store.close()
        with pytest.raises(StoreClosed):
            ask(store, enter(2))

    # Keys

    @pytest.mark.parametrize("state", sorted(OPEN_STATES))
    def test_an_open_call_holds_its_keys(self, store: Store, state: CallState) -> None:
        _bring(store, 1, state, digest="d", idempotency_scope="s", idempotency_key="k", effect_key="e")
        holder = "fc-20260130-000001"
        same = ask(store, open_call(2, digest="d", idempotency_scope="s", idempotency_key="k"))
        assert same == Blocked("pending", holder, state)
        other = ask(store, open_call(2, digest="x", idempotency_scope="s", idempotency_key="k"))
        assert other == Blocked("conflict", holder, state)
        assert ask(store, open_call(2, effect_key="e")) == Blocked("pending", holder, state)
        assert store.get("fc-20260130-000002") is None
        assert ask(store, open_call(2, idempotency_scope="other", idempotency_key="k", effect_key="f")) == Accepted(1)

    def test_a_look_answers_what_an_intent_would_and_writes_nothing(self, store: Store) -> None:
        keys: dict[str, Any] = {"idempotency_scope": "s", "idempotency_key": "k", "effect_key": "e"}
        look = Look(identity(2, digest="d", **keys))
        assert ask(store, look) == Accepted(0)
        assert (list(store.calls()), list(store.events())) == ([], [])
        ask(store, open_call(1, digest="d", **keys))
        assert ask(store, look) == Blocked("pending", "fc-20260130-000001", _S.STARTED)
        assert ask(store, Look(identity(2, effect_key="e"))) == Blocked("pending", "fc-20260130-000001", _S.STARTED)
        ask(store, move(1, 1, _S.SUCCEEDED, result={"data": 5}))
        assert ask(store, look) == Replayed("fc-20260130-000001", {"data": 5})
        assert ask(store, Look(identity(2, digest="x", **keys))) == Blocked(
            "conflict", "fc-20260130-000001", _S.SUCCEEDED
        )
        assert len(list(store.events())) == 2 and store.get("fc-20260130-000002") is None

    def test_a_succeeded_call_is_replayed_and_frees_its_effect(self, store: Store) -> None:
        keys: dict[str, Any] = {"idempotency_scope": "s", "idempotency_key": "k", "effect_key": "e"}
        ask(store, open_call(1, digest="d", **keys))
        ask(store, move(1, 1, _S.SUCCEEDED, result={"data": 5}))
        assert ask(store, open_call(2, digest="d", **keys)) == Replayed("fc-20260130-000001", {"data": 5})
        assert ask(store, open_call(2, digest="x", **keys)) == Blocked("conflict", "fc-20260130-000001", _S.SUCCEEDED)
        assert ask(store, open_call(3, effect_key="e")) == Accepted(1)

    @pytest.mark.parametrize("state", [_S.FAILED, _S.REJECTED])
    def test_a_call_that_changed_nothing_frees_its_keys(self, store: Store, state: CallState) -> None:
        keys: dict[str, Any] = {"idempotency_scope": "s", "idempotency_key": "k", "effect_key": "e"}
        _bring(store, 1, state, digest="d", **keys)
        assert ask(store, open_call(2, digest="x", **keys)) == Accepted(1)

    def test_a_key_without_scope_is_a_scope_of_its_own(self, store: Store) -> None:
        ask(store, open_call(1, idempotency_key="k", digest="d"))
        assert ask(store, open_call(2, idempotency_key="k", digest="d")) == Blocked(
            "pending", "fc-20260130-000001", _S.STARTED
        )
        assert ask(store, open_call(3, idempotency_key="k", idempotency_scope="s", digest="d")) == Accepted(1)

    def test_an_entered_call_takes_no_keys(self, store: Store) -> None:
        keys: dict[str, Any] = {"idempotency_scope": "s", "idempotency_key": "k", "effect_key": "e", "digest": "d"}
        ask(store, enter(1, **keys))
        assert ask(store, enter(2, **keys)) == Accepted(1)
        assert ask(store, open_call(3, **keys)) == Accepted(1)

    def test_of_many_at_once_one_gets_the_key(self, store: Store) -> None:
        answers: list[Any] = []
        answered = threading.Barrier(9)

        def race(number: int) -> None:
            answers.append(ask(store, open_call(number, effect_key="e")))
            answered.wait(60)

        threads = [threading.Thread(target=race, args=(number,)) for number in range(8)]
        for thread in threads:
            thread.start()
        answered.wait(60)
        for thread in threads:
            thread.join()
        assert sum(isinstance(answer, Accepted) for answer in answers) == 1
        assert sum(isinstance(answer, Blocked) for answer in answers) == 7

    # Lists

    def test_calls_are_listed_newest_first(self, store: Store) -> None:
        for number in range(1, 6):
            ask(store, enter(number, at=100.0 + number))
        assert ids(store.calls(CallQuery())) == [f"fc-20260130-{number:06d}" for number in (5, 4, 3, 2, 1)]
        assert ids(store.calls(CallQuery(limit=2))) == ["fc-20260130-000005", "fc-20260130-000004"]
        assert ids(store.calls(CallQuery(limit=0))) == []

    def test_each_filter_narrows(self, store: Store) -> None:
        ask(store, enter(1, at=101.0, task_id="a"))
        ask(store, open_call(2, at=102.0, task_id="a"))
        ask(store, enter(3, at=103.0, task_id="b", state=_S.REJECTED))
        ask(store, open_call(4, at=104.0, task_id="b", state=_S.PREPARED))
        found = {
            name: [id_[-1] for id_ in ids(store.calls(query))]
            for name, query in {
                "task": CallQuery(task_id="a"),
                "no task": CallQuery(task_id="c"),
                "tool": CallQuery(tool="query_order"),
                "open": CallQuery(states=OPEN_STATES),
                "mixed": CallQuery(states=frozenset({_S.PREPARED, _S.REJECTED})),
                "since": CallQuery(since=103.0),
                "until": CallQuery(until=103.0),
                "all": CallQuery(task_id="b", tool="create_order", states=OPEN_STATES, since=104.0, until=105.0),
            }.items()
        }
        assert found == {
            "task": ["2", "1"], "no task": [], "tool": ["3", "1"], "open": ["4", "2"], "mixed": ["4", "3"], "since": ["4", "3"],
            "until": ["2", "1"], "all": ["4"],
        }  # fmt: skip

    def test_long_lists_are_whole(self, store: Store) -> None:
        left = 600
        finished = threading.Event()

        def done(answer: Any) -> None:
            nonlocal left
            assert answer == Accepted(1)
            left -= 1
            if not left:
                finished.set()

        for number in range(600):
            store.submit(enter(number, task_id=f"task-{number % 2}"), done)
        assert finished.wait(60)
        assert len(set(ids(store.calls(CallQuery())))) == 600
        assert len(list(store.events())) == 600
        assert [event.seq for event in store.events(task_id="task-1")] == list(range(1, 301))

    # The chain

    def test_each_task_has_its_own_chain(self, store: Store) -> None:
        ask(store, open_call(1, task_id="a"))
        ask(store, enter(2, task_id="b"))
        ask(store, move(1, 1, _S.SUCCEEDED))
        ask(store, enter(3, task_id="a"))
        assert [(event.request_id[-1], event.seq) for event in store.events(task_id="a")] == [
            ("1", 1),
            ("1", 2),
            ("3", 3),
        ]
        assert [event.seq for event in store.events(task_id="b")] == [1]
        verification = verify(store.events())
        assert (verification.fault, verification.events, verification.tasks) == (None, 4, 2)

    def test_bytes_and_hashes_stay(self, store: Store) -> None:
        ask(store, open_call(1))
        before = list(store.events())
        ask(store, move(1, 1, _S.SUCCEEDED, result={"data": 1}))
        assert list(store.events())[:1] == before
