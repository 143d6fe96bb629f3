"""Whether a call is approved: the answer is no unless a genuine yes covers exactly this call."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcguard.approval import (
    ANY,
    Approved,
    CallbackApprover,
    Decision,
    Deferred,
    Glob,
    Grant,
    MemoryApprovals,
    Modified,
    needs_approval,
    review,
)
from fcguard.approval.request import make_request
from fcguard.model.failure import FailureClass, Violation, class_of
from fcguard.model.identity import canonical

INVITES = ("try again", "rephrase", "other arguments", "instead", "different", "you may")


def yes(request: Any) -> Decision:
    return request.approve("bob")


def no(request: Any) -> Decision:
    return request.deny("bob", reason="not on a friday")


@pytest.mark.parametrize("effect", ["read", "idempotent_write", "write", "destructive"])
def test_destructive_tools_need_approval_by_default(make_call: Any, effect: str) -> None:
    call = make_call(effect=effect)
    assert needs_approval(call.tool, call) is (effect == "destructive")
    for approval, expected in (("required", True), ("never", False)):
        call = make_call(effect=effect, approval=approval)
        assert needs_approval(call.tool, call) is expected
    assert needs_approval(call.tool, make_call(purpose="confirm")) is False


def test_a_rule_says_when(make_call: Any, ask: Any) -> None:
    def rule(call: Any) -> Violation | None:
        return Violation("BIG", "more than 100 euros") if call.arguments["amount"] > 100 else None

    assert ask(make_call(arguments={"amount": 5}, approval=rule, effect="write")) is None
    seen = []
    refused = ask(make_call(arguments={"amount": 500}, approval=rule, effect="write"), lambda r: seen.append(r))
    assert refused.code == "APPROVAL_REQUIRED" and seen[0].reason == "more than 100 euros"


def test_an_async_rule_is_awaited(make_call: Any, ask: Any) -> None:
    async def never(call: Any) -> bool:
        return False

    async def always(call: Any) -> bool:
        return True

    assert ask(make_call(approval=never)) is None
    assert ask(make_call(approval=always)).code == "APPROVAL_REQUIRED"


def test_without_an_approver_the_answer_is_no(make_call: Any, ask: Any) -> None:
    refused = ask(make_call())
    assert (refused.code, class_of(refused.code)) == ("APPROVAL_REQUIRED", FailureClass.POLICY)


def test_yes_and_no(make_call: Any, ask: Any) -> None:
    assert ask(make_call(), yes) is None
    refused = ask(make_call(), no)
    assert refused.code == "APPROVAL_DENIED" and "not on a friday" in refused.message
    assert not any(word in refused.message.lower() for word in INVITES)


@pytest.mark.parametrize("answer", [True, "yes", 1, {"approved": True}])
def test_only_a_decision_is_an_answer(make_call: Any, ask: Any, answer: Any) -> None:
    assert ask(make_call(), lambda request: answer).code == "RULE_FAILED"


@pytest.mark.parametrize("where", ["approver", "rule", "grants"])
def test_what_fails_refuses(make_call: Any, ask: Any, where: str) -> None:
    def broken(*_: Any) -> Any:
        raise KeyError("s3cret-detail")

    class Grants:
        use = staticmethod(broken)

    call = make_call(approval=broken) if where == "rule" else make_call()
    refused = ask(call, broken if where == "approver" else yes, Grants() if where == "grants" else None)
    assert refused.code == "RULE_FAILED" and "s3cret" not in refused.message


def test_silence_is_a_no_that_says_timed_out(make_call: Any, ask: Any) -> None:
    async def nothing(request: Any) -> None:
        return None

    for silent in (lambda request: None, nothing):
        refused = ask(make_call(), CallbackApprover(silent))
        assert refused.code == "APPROVAL_DENIED" and "timed out" in refused.message
        assert not any(word in refused.message.lower() for word in INVITES)


def test_an_approver_that_has_not_decided_leaves_the_question_open(make_call: Any, ask: Any) -> None:
    refused = ask(make_call(), lambda request: None)
    assert refused.code == "APPROVAL_REQUIRED" and "yet" in refused.message


def test_a_callback_that_does_not_answer_in_time(make_call: Any, ask: Any) -> None:
    never, decided = threading.Event(), []

    def late(request: Any) -> Decision:
        never.wait()
        decided.append(request)
        return request.approve("bob")

    refused = ask(make_call(), CallbackApprover(late, timeout=0.05))
    assert refused.code == "APPROVAL_DENIED" and "timed out" in refused.message and not decided
    never.set()

    async def slow(request: Any) -> Decision:
        await asyncio.Event().wait()
        return request.approve("bob")

    refused = ask(make_call(), CallbackApprover(slow, timeout=0.05))
    assert "timed out" in refused.message


def test_callbacks_answer_in_both_colours(make_call: Any, ask: Any) -> None:
    async def later(request: Any) -> Decision:
        return request.approve("bob")

    class Callable:
        async def __call__(self, request: Any) -> Decision:
            return request.deny("eve")

    assert ask(make_call(), CallbackApprover(yes)) is None
    assert ask(make_call(), CallbackApprover(later)) is None
    assert ask(make_call(), CallbackApprover(Callable())).code == "APPROVAL_DENIED"
    assert ask(make_call(), CallbackApprover(lambda request: later(request))).code == "RULE_FAILED"


def test_errors_of_a_callback_are_its_own(make_call: Any, ask: Any) -> None:
    def sync(request: Any) -> None:
        raise TimeoutError("mine")

    async def later(request: Any) -> None:
        raise TimeoutError("mine")

    assert ask(make_call(), CallbackApprover(sync)).code == "RULE_FAILED"
    assert ask(make_call(), CallbackApprover(later)).code == "RULE_FAILED"


def test_an_answer_after_the_expiry_does_not_count(make_call: Any, ask: Any, port: Any) -> None:
    def slow(request: Any) -> Decision:
        port.time += 10_000
        return request.approve("bob")

    refused = ask(make_call(), slow)
    assert refused.code == "APPROVAL_REQUIRED" and "expired" in refused.message
    short = ask(make_call(), lambda request: request.approve("bob", expires_at=port.time - 1))
    assert short.code == "APPROVAL_REQUIRED"


def test_a_decision_about_another_request_asks_again(make_call: Any, ask: Any) -> None:
    reviewed = []
    ask(make_call("record_value", {"message": "reviewed-value"}), lambda r: reviewed.append(r.approve("bob")))
    changed = make_call("record_value", {"message": "changed-value"})
    refused = ask(changed, lambda request: reviewed[0])
    assert refused.code == "APPROVAL_REQUIRED"


CHANGES: list[dict[str, Any]] = [
    {"arguments": {"env": "test"}},
    {"arguments": {"env": "prod", "force": True}},
    {"tool": "deploy2"},
    {"version": "2"},
    {"tenant": "other"},
    {"environment": "staging"},
    {"actor": "eve"},
    {"actor": None},
    {"task_id": "t-2"},
]


@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_a_stored_yes_covers_only_the_very_same_call(
    make_call: Any, ask: Any, store: Any, port: Any, change: Any
) -> None:
    approver, call = Deferred(store), make_call()
    assert ask(call, approver).code == "APPROVAL_REQUIRED"
    assert store.decide(call.request_id, Decision(True, "bob"), port.now())
    assert ask(make_call(**change), approver).code == "APPROVAL_REQUIRED"
    assert ask(make_call(), approver, policy_version="2").code == "APPROVAL_REQUIRED"
    assert ask(make_call(), approver) is None


def test_key_order_does_not_matter_but_types_do(make_call: Any, ask: Any, store: Any, port: Any) -> None:
    approver, call = Deferred(store), make_call(arguments={"a": 1, "b": [2]})
    ask(call, approver)
    store.decide(call.request_id, Decision(True, "bob"), port.now())
    for other in ({"a": True, "b": [2]}, {"a": "1", "b": [2]}, {"a": 1, "b": ["2"]}):
        assert ask(make_call(arguments=other), approver).code == "APPROVAL_REQUIRED"
    assert ask(make_call(arguments={"b": [2], "a": 1}), approver) is None


def test_deferred_resumes_exactly_once(make_call: Any, ask: Any, store: Any, port: Any) -> None:
    approver, call = Deferred(store), make_call()
    first = ask(call, approver)
    assert call.request_id in first.message and first.code == "APPROVAL_REQUIRED"
    again = ask(make_call(), approver)
    assert call.request_id in again.message, "the same question is not asked twice"
    assert [stored.request.request_id for stored in store.requests("pending")] == [call.request_id]
    assert store.decide(call.request_id, Decision(True, "bob"), port.now())
    assert ask(call, approver) is None
    refused = ask(call, approver)
    assert refused.code == "APPROVAL_REQUIRED" and "used" in refused.message
    asked = make_call()
    assert asked.request_id in ask(asked, approver).message, "a new call is a new question"


def test_deferred_no_stands_for_the_same_call(make_call: Any, ask: Any, told_store: Any, port: Any) -> None:
    approver, call = Deferred(told_store), make_call()
    ask(call, approver)
    told_store.decide(call.request_id, Decision(False, "bob", "no"), port.now())
    assert ask(make_call(), approver).code == "APPROVAL_DENIED"
    port.time += 100_000
    assert ask(make_call(), approver).code == "APPROVAL_REQUIRED"


def test_deferred_approval_expires(make_call: Any, ask: Any, told_store: Any, port: Any) -> None:
    approver, call = Deferred(told_store, ttl_seconds=60), make_call()
    ask(call, approver)
    told_store.decide(call.request_id, Decision(True, "bob", expires_at=port.now() + 10), port.now())
    port.time += 10
    assert ask(call, approver).code == "APPROVAL_REQUIRED"
    other = make_call(arguments={"env": "x"})
    ask(other, approver)
    port.time += 60
    assert not told_store.decide(other.request_id, Decision(True, "bob"), port.now())


def test_a_call_that_moved_to_another_environment_asks_again(make_call: Any, ask: Any, store: Any, port: Any) -> None:
    approver, call = Deferred(store), make_call()
    ask(call, approver)
    store.decide(call.request_id, Decision(True, "bob"), port.now())
    moved = make_call(environment="prod-2")
    moved.request_id = call.request_id
    refused = ask(moved, approver)
    assert refused.code == "APPROVAL_REQUIRED" and f"{call.request_id}." in refused.message
    assert ask(call, approver) is None


class Raced(MemoryApprovals):
    """Another call is let through right before this one looks whether it is; then something else may happen."""

    def __init__(self, then: Callable[[Raced], None] = lambda store: None) -> None:
        super().__init__()
        self.then = then

    def take(self, request_id: str, now: float) -> Any:
        assert super().take(request_id, now) is not None
        self.then(self)
        return None


def test_who_loses_an_approval_to_another_call_waits_for_a_request_of_its_own(
    make_call: Any, ask: Any, port: Any
) -> None:
    store = Raced()
    approver, first, lost = Deferred(store), make_call(), make_call()
    ask(first, approver)
    store.decide(first.request_id, Decision(True, "bob"), port.now())
    refused = ask(lost, approver)
    assert refused.code == "APPROVAL_REQUIRED" and f"request {lost.request_id}" in refused.message
    assert lost.blocked_by == lost.request_id
    assert [stored.request.request_id for stored in store.requests("pending")] == [lost.request_id]


def test_who_loses_an_approval_is_told_what_became_of_the_next_one(make_call: Any, ask: Any, port: Any) -> None:
    def decided(approved: bool) -> Callable[[Raced], None]:
        def then(store: Raced) -> None:
            store.put(make_request(other, other.tool, now=port.now(), ttl=60, policy_version="1"), port.now())
            store.decide(other.request_id, Decision(approved, "eve"), port.now())

        return then

    for approved, code, blocked_by in ((True, "APPROVAL_REQUIRED", True), (False, "APPROVAL_DENIED", False)):
        store, other, lost = Raced(decided(approved)), make_call(), make_call()
        approver, first = Deferred(store), make_call()
        ask(first, approver)
        store.decide(first.request_id, Decision(True, "bob"), port.now())
        assert ask(lost, approver).code == code, "nothing is sent, and nobody waits in a circle"
        assert lost.blocked_by == (other.request_id if blocked_by else None)


def test_a_call_whose_own_approval_was_used_asks_no_more(make_call: Any, ask: Any, port: Any) -> None:
    store = Raced()
    approver, call = Deferred(store), make_call()
    ask(call, approver)
    store.decide(call.request_id, Decision(True, "bob"), port.now())
    assert "was used" in ask(call, approver).message


def test_modify_and_approve(make_call: Any, ask: Any) -> None:
    call = make_call("pay", {"amount": 500, "password": "hunter2-long", "to": {"iban": "X", "token": "abcd1234"}})

    def smaller(request: Any) -> Decision:
        changed = {**request.shown, "amount": 50}
        return request.approve("bob", modified_arguments=changed)

    answer = ask(call, smaller)
    assert isinstance(answer, Modified)
    assert answer.arguments == {"amount": 50, "password": "hunter2-long", "to": {"iban": "X", "token": "abcd1234"}}
    assert answer.approval.by == "bob"


def test_a_nested_change_keeps_the_secret_beside_it(make_call: Any, ask: Any) -> None:
    call = make_call("pay", {"to": {"iban": "X", "token": "abcd1234"}, "list": ["a"]})

    def other(request: Any) -> Decision:
        return request.approve(
            "bob", modified_arguments={"to": {**request.shown["to"], "iban": "Y"}, "list": ["b"], "note": "n"}
        )

    assert ask(call, other).arguments == {"to": {"iban": "Y", "token": "abcd1234"}, "list": ["b"], "note": "n"}


@pytest.mark.parametrize(
    "modified", [{"amount": "[redacted]"}, {"amount": ["[redacted]"]}, {"amount": {"x": "[redacted]"}}]
)
def test_a_mask_that_stands_for_nothing_is_refused(make_call: Any, ask: Any, modified: Any) -> None:
    call = make_call("pay", {"amount": 500})
    assert ask(call, lambda r: r.approve("bob", modified_arguments=modified)).code == "APPROVAL_DENIED"


def test_what_the_host_binds_is_not_the_approvers_to_change(make_call: Any, ask: Any) -> None:
    call = make_call("pay", {"amount": 500, "tenant_id": "acme"}, bound={"tenant_id": "tenant"})
    kept = ask(call, lambda r: r.approve("bob", modified_arguments={"amount": 5, "tenant_id": "acme"}))
    assert kept.arguments == {"amount": 5}
    assert (
        ask(call, lambda r: r.approve("bob", modified_arguments={"amount": 5, "tenant_id": "evil"})).code
        == "APPROVAL_DENIED"
    )


def test_modification_of_a_stored_request(make_call: Any, ask: Any, store: Any, port: Any) -> None:
    approver, call = Deferred(store), make_call("pay", {"amount": 500, "pin": "1234-5678"})
    ask(call, approver)
    stored = store.get(call.request_id)
    assert stored.request.shown == {"amount": 500, "pin": "[redacted]"}
    store.decide(
        call.request_id,
        stored.request.approve("bob", modified_arguments={"amount": 5, "pin": "[redacted]"}),
        port.now(),
    )
    assert ask(call, approver).arguments == {"amount": 5, "pin": "1234-5678"}


def test_grants_go_before_asking_and_are_counted(make_call: Any, ask: Any, store: Any) -> None:
    store.add(Grant("edit", {"path": "a.txt"}, by="bob", uses=1))
    edit = {"effect": "write", "approval": "required"}
    assert ask(make_call("edit", {"path": "a.txt"}, **edit), None, store) is None
    assert ask(make_call("edit", {"path": "a.txt"}, **edit), None, store).code == "APPROVAL_REQUIRED"
    store.add(Grant("edit", {"path": "a.txt"}, by="bob"))
    assert ask(make_call("edit", {"path": "/etc/app.conf"}, **edit), None, store).code == "APPROVAL_REQUIRED"
    assert ask(make_call("edit", {"path": "a.txt", "mode": "777"}, **edit), None, store).code == "APPROVAL_REQUIRED"


def test_grants_are_scoped(make_call: Any, ask: Any, told_store: Any, port: Any) -> None:
    scope = {"tenant": "acme", "environment": "prod"}
    told_store.add(
        Grant(
            "deploy", {"env": Glob("pro?"), "note": ANY}, by="bob", uses=9, version="1", identity=scope, expires_at=2000
        )
    )
    assert ask(make_call(), None, told_store) is None
    assert ask(make_call(arguments={"env": "prod", "note": "x"}), None, told_store) is None
    for change in (
        {"tenant": "other"},
        {"version": "2"},
        {"tool": "deploy2"},
        {"arguments": {"note": "x"}},
        {"arguments": {"env": "pro/"}},
    ):
        assert ask(make_call(**change), None, told_store) is not None
    port.time = 2000
    assert ask(make_call(), None, told_store) is not None
    [(grant, left)] = told_store.grants()
    assert (left, grant.arguments) == (7, {"env": Glob("pro?"), "note": ANY})
    assert told_store.revoke(grant.grant_id) and not told_store.revoke(grant.grant_id)


def test_review_says_who_and_how(make_call: Any, port: Any) -> None:
    store = MemoryApprovals()
    grant = Grant("deploy", None, by="carol")
    store.add(grant)
    answer = asyncio.run(review(make_call(), None, store, port, port.now()))
    assert answer == Approved("carol", "grant", grant.grant_id)
    decided = asyncio.run(review(make_call(), yes, None, port, port.now()))
    assert (decided.by, decided.source, len(decided.digest)) == ("bob", "decision", 64)
    assert asyncio.run(review(make_call(effect="read"), yes, None, port, port.now())) is None


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)
ARGUMENTS = st.dictionaries(st.text(min_size=1, max_size=4), VALUES, max_size=3)


@given(one=ARGUMENTS, other=ARGUMENTS)
def test_subjects_are_equal_exactly_when_the_arguments_are(make_call: Any, one: Any, other: Any) -> None:
    first, second = (make_call(arguments=a) for a in (one, other))
    requests = [make_request(c, c.tool, now=0, ttl=9, policy_version="1") for c in (first, second)]
    assert (requests[0].subject == requests[1].subject) == (canonical(one) == canonical(other))
    assert all(request.is_genuine for request in requests)
