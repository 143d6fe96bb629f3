"""Every store keeps its promises: decided once, taken once, granted no more often than said, also across processes."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fcguard.approval import ANY, ApprovalStore, Decision, Glob, Grant, GrantStore
from fcguard.approval.store import time_of
from fcguard.errors import UsageError
from tests.approval import places
from tests.approval.places import opened

_SAME_STORE = [HealthCheck.function_scoped_fixture]


def test_stores_are_stores(store: Any) -> None:
    assert isinstance(store, ApprovalStore) and isinstance(store, GrantStore)


def test_life_of_a_request(store: Any, request_for: Any, now: float) -> None:
    request = request_for(now=now)
    assert store.get(request.request_id) is None and store.find(request.subject, now) is None
    assert store.put(request, now).state == "pending"
    assert store.find(request.subject, now).request == request
    assert store.take(request.request_id, now) is None
    assert store.decide(request.request_id, request.approve("bob", reason="fine"), now + 1)
    assert not store.decide(request.request_id, request.deny("eve"), now + 2), "decided once"
    [stored] = store.requests("approved")
    assert (stored.decision.by, stored.request.arguments) == ("bob", {"env": "prod"})
    assert now <= stored.decided_at < request.expires_at
    assert store.find(request.subject, now).state == "approved"
    assert store.take(request.request_id, now + 99.9).decision.reason == "fine"
    assert store.take(request.request_id, now + 99.9) is None
    assert store.get(request.request_id).state == "used" and store.requests("pending") == []
    assert store.find(request.subject, now) is None and len(store.requests()) == 1


def test_the_same_question_is_one_request_until_it_is_over(store: Any, request_for: Any, now: float) -> None:
    over, first, again = request_for(now=now - 500), request_for(now=now), request_for(now=now + 1)
    assert over.subject == first.subject == again.subject
    assert store.put(over, now).request == over
    assert store.put(first, now).request == first, "the one before has expired"
    assert store.put(again, now).request == first
    assert store.decide(first.request_id, first.deny("bob"), now)
    assert store.put(again, now).state == "denied", "the answer stands"
    other = request_for({"env": "test"}, now=now)
    assert store.put(replace(other, request_id=first.request_id), now).request == first, "an id is taken once"
    assert [stored.request.request_id for stored in store.requests()] == [over.request_id, first.request_id]
    approved = store.put(other, now).request
    assert store.decide(approved.request_id, approved.approve("bob"), now)
    assert store.take(approved.request_id, now) is not None
    assert store.put(replace(other, request_id="fc-next"), now).state == "pending", "a yes is for one call"


def test_what_does_not_count(store: Any, request_for: Any, now: float) -> None:
    request = request_for(now=now)
    assert not store.decide("fc-unknown", Decision(True, "bob"), now)
    assert store.take("fc-unknown", now) is None
    store.put(request, now)
    other = request_for({"env": "other"}, now=now)
    assert not store.decide(request.request_id, other.approve("bob"), now), "a decision about another request"
    late = request_for({"env": "late"}, now=now - 200)
    store.put(late, now)
    assert not store.decide(late.request_id, late.approve("bob"), now), "too late"
    assert store.get(late.request_id).state == "pending"
    assert store.decide(request.request_id, request.approve("bob", expires_at=now - 1), now)
    assert store.take(request.request_id, now) is None, "approved, and expired since"


SECRETS: list[dict[str, Any]] = [
    {"amount": 5, "password": "hunter2-long"},
    {"amount": 5, "to": {"card": "hunter2-long"}},
    {"amount": 5, "lines": [{"api_key": "hunter2-long"}]},
    {"amount": 5, "note": "Authorization: Bearer hunter2-long"},
]


@pytest.mark.parametrize("modified", [*SECRETS, {"amount": {5}}], ids=str)
def test_what_may_not_be_written_down_is_no_modification(
    store: Any, request_for: Any, now: float, modified: dict[str, Any]
) -> None:
    request = request_for({"amount": 500, "to": {"card": "hunter1-long"}}, now=now, redact=("card",))
    store.put(request, now)
    with pytest.raises(UsageError, match="modified_arguments") as refused:
        store.decide(request.request_id, request.approve("bob", modified_arguments=modified), now)
    assert "hunter" not in str(refused.value) and store.get(request.request_id).state == "pending"
    left_as_shown = {"amount": 5, "to": {"card": "[redacted]"}, "password": "[redacted]"}
    assert store.decide(request.request_id, request.approve("bob", modified_arguments=left_as_shown), now)
    assert store.get(request.request_id).decision.modified_arguments == left_as_shown


def test_an_altered_expiry_voids_the_request(store: Any, request_for: Any, now: float) -> None:
    request = replace(request_for(now=now), expires_at=9e9)
    store.put(request, now)
    assert not store.decide(request.request_id, Decision(True, "bob"), now)


def test_prune_removes_what_has_expired_whatever_became_of_it(store: Any, request_for: Any, now: float) -> None:
    over = [request_for({"n": n}, now=now - 1000 - n, ttl=100.0) for n in range(1200)]
    pending, approved, used = (request_for({"env": env}, now=now) for env in ("a", "b", "c"))
    recent = request_for({"env": "d"}, now=now - 200, ttl=100.0)
    for request in (*over, pending, approved, used, recent):
        store.put(request, request.created_at)
    for request in (approved, used):
        assert store.decide(request.request_id, request.approve("bob"), now)
    assert store.take(used.request_id, now) is not None
    store.add(Grant("deploy", None, by="bob", expires_at=now - 900))
    assert store.prune(now - 900 - 600) == 599, "those that expired before, and not the one that expired then"
    assert store.prune(now - 150) == 601 and store.prune(now - 150) == 0
    left = [stored.request.request_id for stored in store.requests()]
    assert left == [one.request_id for one in (pending, approved, used, recent)]
    assert store.take(approved.request_id, now) is not None and len(store.grants()) == 1
    assert store.put(over[0], now).request == over[0], "its id is free again"


@pytest.mark.parametrize("before", [4e9, float("nan"), float("inf"), "2026-01-01", None, True])
def test_prune_takes_no_open_request_along(store: Any, request_for: Any, now: float, before: Any) -> None:
    store.put(request_for(now=now), now)
    with pytest.raises(UsageError, match=r"prune\(before=.*seconds since the epoch"):
        store.prune(before)
    assert len(store.requests()) == 1


def test_texts_of_every_script_come_back(store: Any, request_for: Any, now: float) -> None:
    request = request_for({"名": ["值", 1.5, None, "a\0b", "%s {x}", "\ud83d"]}, now=now)
    store.put(request, now)
    stored = store.get(request.request_id)
    assert stored.request == request and stored.request.shown == request.shown
    store.add(Grant("工具", {"名": "值'%s", "x": Glob("*.py"), "y": ANY}, by="ann"))
    assert store.use("工具", "1", {"名": "值'%s", "x": "a.py"}, {}, now) is not None


def test_a_grant_from_its_first_use_to_its_last(store: Any, now: float) -> None:
    first = Grant("deploy", {"env": "test"}, by="bob", uses=2, expires_at=now + 100, identity={"tenant": "acme"})
    over = Grant("deploy", None, by="bob", uses=9, expires_at=now - 1)
    store.add(over)
    store.add(first)
    assert store.grants() == [(over, 9), (first, 2)]
    for arguments, identity in (({"env": "prod"}, {"tenant": "acme"}), ({"env": "test"}, {"tenant": "other"})):
        assert store.use("deploy", "1", arguments, identity, now) is None
    assert store.use("other", "1", {"env": "test"}, {"tenant": "acme"}, now) is None
    uses = [store.use("deploy", "1", {"env": "test"}, {"tenant": "acme"}, now) for _ in range(3)]
    assert uses == [first, first, None]
    assert store.grants() == [(over, 9), (first, 0)]
    assert store.revoke(first.grant_id) and not store.revoke(first.grant_id)
    assert store.grants() == [(over, 9)]


def test_the_same_grant_is_not_added_twice(store: Any, now: float) -> None:
    grant = Grant("deploy", None, by="bob", uses=2)
    store.add(grant)
    assert store.use("deploy", "1", {}, {}, now) == grant
    with pytest.raises(UsageError, match="already"):
        store.add(grant)
    assert store.grants() == [(grant, 1)], "and its uses are not given back"


@settings(max_examples=10, deadline=None, suppress_health_check=_SAME_STORE)
@given(uses=st.lists(st.integers(1, 5), max_size=4), asked=st.integers(0, 25))
def test_threads_never_use_a_grant_beyond_its_count(store: Any, uses: list[int], asked: int) -> None:
    for grant, _ in store.grants():
        store.revoke(grant.grant_id)
    for n in uses:
        store.add(Grant("t", None, by="bob", uses=n))
    with ThreadPoolExecutor(4) as pool:
        got = list(pool.map(lambda _: store.use("t", "1", {}, {}, 0.0), range(asked)))
    assert sum(grant is not None for grant in got) == min(asked, sum(uses))


@settings(max_examples=3, deadline=None, suppress_health_check=_SAME_STORE)
@given(uses=st.lists(st.integers(1, 9), min_size=1, max_size=3))
def test_four_processes_use_a_grant_up_and_never_beyond_its_count(processes: Any, place: str, uses: list[int]) -> None:
    with opened(place) as store:
        for grant, _ in store.grants():
            store.revoke(grant.grant_id)
        for n in uses:
            store.add(Grant("deploy", {"env": "prod"}, by="bob", uses=n))
        used = processes.starmap(places.use_often, [(place, 8)] * 4)
        assert sum(used) == min(sum(uses), 32)
        assert sum(left for _, left in store.grants()) == sum(uses) - sum(used)


def test_four_processes_take_an_approval_once(processes: Any, place: str, request_for: Any) -> None:
    with opened(place) as store:
        now = time_of(store, 1000.0)
        for n in range(5):
            request = request_for({"n": n}, now=now)
            store.put(request, now)
            assert store.decide(request.request_id, request.approve("bob"), now)
            assert sum(processes.starmap(places.take, [(place, request.request_id)] * 8, chunksize=1)) == 1
            assert store.get(request.request_id).state == "used"


def test_four_processes_that_ask_at_once_make_one_request(processes: Any, place: str, request_for: Any) -> None:
    with opened(place) as store:
        now = time_of(store, 1000.0)
        for n in range(5):
            asking = [(place, request_for({"n": n}, now=now)) for _ in range(4)]
            assert len(set(processes.starmap(places.put, asking, chunksize=1))) == 1
        assert len(store.requests("pending")) == 5


def test_four_processes_decide_once(processes: Any, place: str, request_for: Any) -> None:
    with opened(place) as store:
        now = time_of(store, 1000.0)
        for n in range(5):
            request = request_for({"n": n}, now=now)
            store.put(request, now)
            answers = [request.approve("ann"), request.deny("bob"), request.approve("cyd"), request.deny("dan")]
            won = processes.starmap(
                places.decide, [(place, request.request_id, answer) for answer in answers], chunksize=1
            )
            [winner] = [answer for answer, has_won in zip(answers, won, strict=True) if has_won]
            assert store.get(request.request_id).decision == winner


def test_two_processes_that_resume_send_once(processes: Any, place: str, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    with opened(place) as store, places.make_guard(store, ran) as guard:
        for n in range(4):
            waiting = places.ask(guard, f"t{n}").blocked_by
            ended = processes.starmap(places.resume, [(place, waiting, str(ran))] * 2, chunksize=1)
            assert ended.count("sent") == 1, ended
            [other] = [text for text in ended if text != "sent"]
            assert "cannot be decided" in other
    assert places.have_run(ran) == ["t0", "t1", "t2", "t3"]


def test_processes_that_send_an_approved_call_again_send_it_once(processes: Any, place: str, tmp_path: Path) -> None:
    """Somebody approves; then two hosts repeat the call: one has the yes, the other asks anew."""
    ran = tmp_path / "ran"
    with opened(place) as store, places.make_guard(store, ran) as guard:
        for n in range(4):
            waiting = places.ask(guard, f"t{n}")
            stored = store.get(waiting.blocked_by)
            assert store.decide(waiting.blocked_by, stored.request.approve("ann"), time.time())
            ended = processes.starmap(places.ask_again, [(place, f"t{n}", str(ran))] * 2, chunksize=1)
            [(refused, next_one), (sent, _)] = sorted(ended)
            assert (refused, sent) == ("APPROVAL_REQUIRED", "None")
            assert next_one != waiting.blocked_by and store.get(next_one).state == "pending"
    assert places.have_run(ran) == ["t0", "t1", "t2", "t3"]


def test_of_a_decision_and_an_expiry_one_wins(place: str, request_for: Any) -> None:
    """Requests expire while they are decided; the one who asks anew afterwards is a request of its own exactly if the first is over."""
    ends = {"in time": 0, "too late": 0}
    with opened(place) as one, opened(place) as other, ThreadPoolExecutor(2) as pool:
        for n in range(24):
            now = time_of(one, time.time())
            request = request_for({"n": n}, now=now - 50, ttl=50 + (100 if n < 2 else -1 if n < 4 else 0.001 * (n - 3)))
            one.put(request, now)
            again = request_for({"n": n}, now=now)
            deciding = pool.submit(
                lambda request=request: one.decide(request.request_id, request.deny("ann"), time.time())
            )
            asking = pool.submit(lambda again=again: other.put(again, time.time()))
            won, found = deciding.result(), asking.result()
            stored = one.get(request.request_id)
            ends["in time" if won else "too late"] += 1
            assert stored.state == ("denied" if won else "pending")
            assert not won or stored.decided_at < request.expires_at
            if found.request == again:
                assert time_of(one, time.time()) >= request.expires_at, "asked anew only when the first was over"
            else:
                assert found.state in ("pending", "denied")
            assert not one.decide(request.request_id, request.approve("eve"), time.time()) or not won
    assert min(ends.values()) >= 2, ends
