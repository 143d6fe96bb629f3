"""What a ledger must do so that calls survive their process, as tests."""

# ruff: noqa: D102, PT018 - the name of a test says what it checks
from __future__ import annotations

from typing import Any, Final

import pytest

from fcguard.errors import UsageError
from fcguard.model.states import CallState
from fcguard.stores.audit import audit
from fcguard.stores.base import Accepted, Blocked, CallQuery, Stale
from fcguard.stores.chain import verify
from fcguard.stores.owner import Liveness
from fcguard.stores.recoverable import Pruned, RecoverableStore
from fcguard.stores.tombstone import Tombstone, seal_of
from fcguard.testing.store_contract import StoreContract, ask, enter, ids, move, open_call

__all__ = ["RecoverableStoreContract"]

_S = CallState
_KEYS: Final[dict[str, Any]] = {
    "idempotency_scope": "s", "idempotency_key": "k", "effect_key": "e", "digest": "d",
}  # fmt: skip


class RecoverableStoreContract(StoreContract):
    """Tests of the `RecoverableStore` protocol, in which one process is the only owner."""

    def test_a_call_belongs_to_the_process_that_opened_it(self, store: RecoverableStore) -> None:
        ask(store, open_call(1))
        call = store.get("fc-20260130-000001")
        assert call is not None and call.lease_until is not None
        assert call.owner == store.owner.id
        assert store.owner in [owner for owner in store.owners() if owner.id == store.owner.id] or store.owners()

    def test_leases_count_on_the_clock_that_the_ledger_tells(self, store: RecoverableStore) -> None:
        before = store.now()
        ask(store, open_call(1, lease=1000.0))
        call = store.get("fc-20260130-000001")
        assert call is not None and call.lease_until is not None
        assert before <= call.lease_until - 1000.0 <= store.now()

    def test_a_whole_ledger_raises_no_alarm(self, store: RecoverableStore) -> None:
        store.examine(once=True)
        ask(store, open_call(1, idempotency_key="k", effect_key="e", lease=0.0))
        ask(store, enter(2, task_id="other"))
        store.examine()
        store.claim()
        ask(store, move(1, 2, _S.SUCCEEDED, result={"data": 1}, at=101.0))
        store.prune(before=1e12)
        store.examine()
        store.examine(once=True)
        ask(store, enter(3, at=1e13))
        verification = audit(store)
        assert (verification.fault, ids(store.calls())) == (None, ["fc-20260130-000003"])

    def test_what_is_worked_on_is_not_claimed(self, store: RecoverableStore) -> None:
        ask(store, open_call(1))
        ask(store, open_call(2))
        ask(store, move(2, 1, _S.CONFIRMING))
        assert store.claim() == []

    @pytest.mark.parametrize("state", [_S.STARTED, _S.UNCERTAIN, _S.CONFIRMING])
    def test_a_lapsed_lease_lets_a_call_be_claimed_once(self, store: RecoverableStore, state: CallState) -> None:
        ask(store, open_call(1, lease=0.0))
        version = 1
        if state is not _S.STARTED:
            ask(store, move(1, 1, state, next_at=0.0))
            version = 2
        (claim,) = store.claim(lease=60.0)
        assert (claim.call.identity.request_id, claim.call.state) == ("fc-20260130-000001", state)
        assert claim.call.version == version + 1
        assert claim.liveness is Liveness.SELF
        assert claim.call == store.get("fc-20260130-000001")
        assert ask(store, move(1, version, _S.SUCCEEDED)) == Stale(version + 1, state, None)
        assert [event.kind for event in store.events(request_id="fc-20260130-000001")][-1] == "claimed"
        assert verify(store.events()).ok

    def test_a_call_is_not_claimed_before_its_time(self, store: RecoverableStore) -> None:
        ask(store, open_call(1, lease=0.0))
        ask(store, move(1, 1, _S.UNCERTAIN, next_at=4e9))
        assert store.claim() == []

    def test_what_waits_for_a_person_is_not_claimed(self, store: RecoverableStore) -> None:
        ask(store, open_call(1, lease=0.0))
        ask(store, move(1, 1, _S.PARKED))
        ask(store, open_call(2, lease=0.0, state=_S.PREPARED))
        assert store.claim() == []

    def test_a_call_that_waits_for_its_next_attempt_is_claimed(self, store: RecoverableStore) -> None:
        ask(store, open_call(1))
        ask(store, move(1, 1, _S.PREPARED, next_at=0.0))
        assert ids(claim.call for claim in store.claim()) == ["fc-20260130-000001"]

    def test_claims_are_limited(self, store: RecoverableStore) -> None:
        for number in range(5):
            ask(store, open_call(number, lease=0.0))
        first, rest = store.claim(limit=2), store.claim()
        assert (len(first), len(rest)) == (2, 3)
        assert not set(ids(claim.call for claim in first)) & set(ids(claim.call for claim in rest))

    def test_a_worker_claims_only_calls_of_its_tools(self, store: RecoverableStore) -> None:
        for number, tool in enumerate(["create_order", "refund", "create_order", "ship"]):
            ask(store, open_call(number, tool=tool, lease=0.0))
        assert store.claim(tools=[]) == []
        assert store.claim(tools={"create_orders", "REFUND"}) == []
        claims = store.claim(tools={"refund", "ship"}, limit=1) + store.claim(tools=["refund", "ship"])
        assert [claim.call.identity.tool for claim in claims] == ["refund", "ship"]
        left = [store.get(f"fc-20260130-{number:06d}") for number in (0, 2)]
        assert [(call.version, call.owner) for call in left if call is not None] == [(1, store.owner.id)] * 2
        assert ids(claim.call for claim in store.claim()) == ["fc-20260130-000000", "fc-20260130-000002"]

    def test_one_name_is_no_list_of_tools(self, store: RecoverableStore) -> None:
        ask(store, open_call(1, lease=0.0))
        with pytest.raises(UsageError, match=r"tools=\['create_order'\]"):
            store.claim(tools="create_order")
        assert len(store.claim(tools=("create_order",))) == 1

    def test_a_heartbeat_renews_leases(self, store: RecoverableStore) -> None:
        ask(store, open_call(1, lease=0.0))
        store.heartbeat()
        assert store.claim() == []

    def test_finished_calls_are_not_claimed(self, store: RecoverableStore) -> None:
        ask(store, open_call(1, lease=0.0))
        ask(store, move(1, 1, _S.SUCCEEDED))
        assert store.claim() == []

    def test_a_spooled_outcome_is_drained_once(self, store: RecoverableStore) -> None:
        ask(store, open_call(1))
        store.spool(move(1, 1, _S.SUCCEEDED, result={"data": 3}))
        assert store.drain().applied == 1
        call = store.get("fc-20260130-000001")
        assert call is not None and (call.state, call.result) == (_S.SUCCEEDED, {"data": 3})
        assert store.drain().applied == 0
        assert len(list(store.events())) == 2

    def test_a_spooled_outcome_of_a_call_that_moved_on_is_noted(self, store: RecoverableStore) -> None:
        ask(store, open_call(1))
        store.spool(move(1, 1, _S.SUCCEEDED, at=105.0))
        ask(store, move(1, 1, _S.PARKED))
        drained = store.drain()
        assert drained.failed == {}
        assert [(event.kind, event.at) for event in store.events()] == [
            ("opened", 100.0),
            ("moved", 101.0),
            ("moved", 105.0),
        ]
        call = store.get("fc-20260130-000001")
        assert call is not None and call.state is _S.PARKED

    def test_pruning_keeps_open_calls_and_checkable_chains(self, store: RecoverableStore) -> None:
        ask(store, open_call(1))
        for number in range(2, 7):
            ask(store, enter(number, at=100.0 + number))
        ask(store, open_call(7, task_id="other", at=100.0))
        ask(store, move(7, 1, _S.SUCCEEDED, at=102.0, result={}))
        heads = list(store.heads())
        pruned = store.prune(before=104.0)
        assert (pruned.calls, pruned.events) == (3, 4)
        assert store.get("fc-20260130-000002") is None
        assert ids(store.calls(CallQuery())) == [f"fc-20260130-{number:06d}" for number in (6, 5, 4, 1)]
        ask(store, enter(8, task_id="task"))
        assert verify(store.events(), gaps=store.gaps()).fault is None
        assert not verify(store.events()).ok
        assert [(head.task_id, head.seq) for head in heads] == [("task", 6), ("other", 2)]
        store.prune(before=200.0)
        assert verify(store.events(), gaps=store.gaps()).fault is None
        assert ids(store.calls(CallQuery())) == ["fc-20260130-000001"]

    def test_pruning_keeps_the_keys_of_writes_that_took_effect(self, store: RecoverableStore) -> None:
        ask(store, open_call(1, tool="refund", **_KEYS))
        ask(store, move(1, 1, _S.SUCCEEDED, result={"data": 5}))
        before = store.now()
        pruned = store.prune(before=200.0)
        assert (pruned.calls, pruned.kept, pruned.forgotten) == (1, 1, 0)
        assert store.get("fc-20260130-000001") is None and ids(store.calls()) == []
        buried = store.tombstone("fc-20260130-000001")
        assert buried is not None and before <= buried.pruned_at <= store.now()
        assert buried == Tombstone(
            "s", "k", "d", "fc-20260130-000001", "task", "refund", _S.SUCCEEDED, 101.0, buried.pruned_at
        )
        assert list(store.tombstones()) == [(buried, seal_of(buried))]
        again = ask(store, open_call(2, **_KEYS))
        assert again == Blocked("pruned", "fc-20260130-000001", _S.SUCCEEDED, buried.pruned_at)
        other = ask(store, open_call(2, **_KEYS | {"digest": "x"}))
        assert other == Blocked("conflict", "fc-20260130-000001", _S.SUCCEEDED, buried.pruned_at)
        assert store.get("fc-20260130-000002") is None, "nothing is opened"
        assert ask(store, open_call(2, **_KEYS | {"idempotency_scope": "other"})) == Accepted(1)

    def test_a_key_without_scope_stays_too(self, store: RecoverableStore) -> None:
        ask(store, open_call(1, idempotency_key="k", digest="d"))
        ask(store, move(1, 1, _S.SUCCEEDED))
        store.prune(before=200.0)
        answer = ask(store, open_call(2, idempotency_key="k", digest="d"))
        assert isinstance(answer, Blocked) and answer.reason == "pruned"
        assert ask(store, open_call(3, idempotency_key="k", idempotency_scope="s", digest="d")) == Accepted(1)

    @pytest.mark.parametrize("state", [_S.FAILED, _S.REJECTED])
    def test_a_pruned_call_that_changed_nothing_leaves_nothing(self, store: RecoverableStore, state: CallState) -> None:
        start = _S.STARTED if state is _S.FAILED else _S.PREPARED
        ask(store, open_call(1, state=start, **_KEYS))
        ask(store, move(1, 1, state))
        ask(store, enter(2, **_KEYS))
        pruned = store.prune(before=200.0)
        assert (pruned.calls, pruned.kept, pruned.forgotten) == (2, 0, 0)
        assert list(store.tombstones()) == [] and store.tombstone("fc-20260130-000001") is None
        assert ask(store, open_call(3, **_KEYS)) == Accepted(1)

    @pytest.mark.parametrize("state", [_S.UNCERTAIN, _S.PARKED, _S.CONFIRMING])
    def test_a_write_that_may_have_taken_effect_stays_whole(self, store: RecoverableStore, state: CallState) -> None:
        ask(store, open_call(1, **_KEYS))
        ask(store, move(1, 1, state))
        assert store.prune(before=1e12, keys=True).calls == 0
        assert ask(store, open_call(2, **_KEYS)) == Blocked("pending", "fc-20260130-000001", state)

    def test_keys_leave_only_if_that_is_asked_for(self, store: RecoverableStore) -> None:
        for number in (1, 2, 3):
            ask(store, open_call(number, idempotency_scope="s", idempotency_key=f"k{number}", digest="d"))
            ask(store, move(number, 1, _S.SUCCEEDED, at=100.0 + number))
        assert store.prune(before=103.0).kept == 2
        assert store.prune(before=102.0, keys=True).forgotten == 1, "the tombstone of a call that ended before"
        assert [one.request_id for one, _ in store.tombstones()] == ["fc-20260130-000002"]
        pruned = store.prune(before=104.0, keys=True)
        assert (pruned.calls, pruned.kept, pruned.forgotten) == (1, 0, 2)
        assert list(store.tombstones()) == []
        for number in (1, 2, 3):
            command = open_call(10 + number, idempotency_scope="s", idempotency_key=f"k{number}", digest="d")
            assert ask(store, command) == Accepted(1)
        assert audit(store).ok

    def test_keys_stay_for_as_long_as_one_prunes(self, store: RecoverableStore) -> None:
        ask(store, open_call(1, **_KEYS))
        ask(store, move(1, 1, _S.SUCCEEDED))
        for number in range(2, 5):
            store.prune(before=1e12)
            ask(store, enter(number, at=100.0))
        answer = ask(store, open_call(9, **_KEYS))
        assert isinstance(answer, Blocked) and answer.request_id == "fc-20260130-000001"
        found = audit(store)
        assert (found.fault, found.tombstones) == (None, 1)

    def test_pruning_many_tells_how_far_it_is(self, store: RecoverableStore) -> None:
        for number in range(1200):
            store.submit(enter(number, at=100.0 + number % 2), lambda answer: None)
        ask(store, open_call(1200, **_KEYS))
        ask(store, move(1200, 1, _S.SUCCEEDED))
        told: list[Pruned] = []
        pruned = store.prune(before=101.0, progress=told.append)
        assert (pruned.calls, pruned.events, pruned.kept) == (600, 600, 0)
        assert told[-1] == pruned and [part.calls for part in told] == sorted(part.calls for part in told)
        assert store.prune(before=102.0) == Pruned(601, 602, kept=1)
        assert verify(store.events(), gaps=store.gaps()).fault is None

    def test_a_blob_is_kept_until_it_is_erased(self, store: RecoverableStore) -> None:
        store.put_blob("digest", "secret", b"value and salt")
        store.put_blob("digest", "secret", b"another")
        assert store.blob("digest") == b"value and salt"
        assert store.erase_blob("digest") is True
        assert store.blob("digest") is None
        assert store.erase_blob("digest") is False
