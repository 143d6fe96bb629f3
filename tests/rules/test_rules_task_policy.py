"""The rules that every call meets, and those about the task's identity, environment and roles."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fcguard.errors import ConfigurationError
from fcguard.model.context import Environment, Goal, State, TaskContext, Tools
from fcguard.model.failure import FailureClass, Violation
from fcguard.rules import (
    account_matches,
    all_of,
    allowed_values,
    is_async,
    not_forbidden,
    only_in,
    owned_by,
    requires,
    requires_role,
    tenant_matches,
    tool_allowed,
    write_permitted,
)

TASK = "t-1"


def context(**fields: Any) -> TaskContext:
    return TaskContext(task_id=TASK, **fields)


def allow(*names: str, **fields: Any) -> TaskContext:
    return context(tools=Tools(allow=frozenset(names)), **fields)


@pytest.mark.parametrize(
    ("tool", "task", "purpose", "effect", "is_allowed"),
    [
        ("query_order", context(), "primary", "read", True),
        ("query_order", allow("query_order"), "primary", "read", True),
        ("query_order", allow("query_*"), "primary", "read", True),
        ("query_order", allow("query_orde?"), "primary", "read", True),
        ("query_order", allow("query_[op]rder"), "primary", "read", True),
        ("query_order", allow(), "primary", "read", False),
        ("query_order", allow("query"), "primary", "read", False),
        ("query_order", allow("query_orders"), "primary", "read", False),
        ("query_order", allow("Query_Order"), "primary", "read", False),
        ("query_order", allow("order"), "primary", "read", False),
        ("query_order", allow("*_orders"), "primary", "read", False),
        ("query_order", allow(".*"), "primary", "read", False),
        ("query_order", allow("create_order"), "confirm", "read", True),
        ("create_order", allow("query_order"), "confirm", "write", False),
        ("query_order", allow("create_order"), "fallback", "read", False),
    ],
)
def test_the_whitelist(
    tool: str, task: TaskContext, purpose: str, effect: Any, is_allowed: bool, make_call: Any
) -> None:
    violation = tool_allowed(make_call(name=tool, context=task, purpose=purpose, effect=effect))
    assert (violation is None) is is_allowed
    if violation is not None:
        assert violation.code == "TOOL_NOT_ALLOWED"
        assert repr(tool) in violation.message


@pytest.mark.parametrize(
    ("forbidden", "purpose", "is_allowed"),
    [
        (frozenset(), "primary", True),
        ({"drop_table"}, "primary", True),
        ({"delete_*"}, "primary", True),
        ({"query_order"}, "primary", False),
        ({"query_*"}, "primary", False),
        ({"*"}, "primary", False),
        ({"query_order"}, "confirm", False),
        ({"query_*"}, "fallback", False),
    ],
)
def test_forbidden_actions(forbidden: Any, purpose: str, is_allowed: bool, make_call: Any) -> None:
    task = context(goal=Goal(forbidden_actions=frozenset(forbidden)))
    violation = not_forbidden(make_call(name="query_order", context=task, purpose=purpose))
    assert (violation is None) is is_allowed
    if violation is not None:
        assert (violation.code, violation.next_action) == ("TOOL_NOT_ALLOWED", "abort")


@pytest.mark.parametrize(
    ("effect", "task", "purpose", "part"),
    [
        ("read", TaskContext(), "primary", None),
        ("read", context(tools=Tools(write_allowed=False)), "primary", None),
        ("read", TaskContext(), "confirm", None),
        ("write", context(), "primary", None),
        ("destructive", context(), "primary", None),
        ("idempotent_write", context(), "fallback", None),
        ("write", TaskContext(), "primary", "guard.task"),
        ("idempotent_write", TaskContext(), "primary", "guard.task"),
        ("destructive", TaskContext(), "primary", "guard.task"),
        ("write", context(tools=Tools(write_allowed=False)), "primary", "write_allowed"),
        ("write", context(), "confirm", "only read"),
    ],
)
def test_writing(effect: Any, task: TaskContext, purpose: str, part: str | None, make_call: Any) -> None:
    violation = write_permitted(make_call(effect=effect, context=task, purpose=purpose))
    if part is None:
        assert violation is None
    else:
        assert violation is not None
        assert violation.code == "PERMISSION_DENIED"
        assert part in violation.message


@pytest.mark.parametrize(
    ("names", "environment", "is_allowed"),
    [
        (("test-a",), "test-a", True),
        (("sandbox-*",), "sandbox-7", True),
        (("test-a", "sandbox-*"), "sandbox-7", True),
        (("test-a",), "test-ab", False),
        (("test-a",), "TEST-A", False),
        (("sandbox",), "sandbox-7", False),
        (("test-*",), "prod", False),
        (("test-a",), None, False),
    ],
)
def test_only_in(names: tuple[str, ...], environment: str | None, is_allowed: bool, make_call: Any) -> None:
    task = context(environment=Environment(name=environment) if environment else None)
    violation = only_in(*names)(make_call(context=task))
    assert (violation is None) is is_allowed
    if violation is not None:  # type: ignore[unreachable]
        assert violation.code == "ENVIRONMENT_FORBIDDEN"


MALL = context(
    environment=Environment(name="test-a", tenant="42", account="tester"),
    actor="li",
    roles=frozenset({"support", "refunds"}),
)


@pytest.mark.parametrize(
    ("arguments", "is_allowed"),
    [
        ({"tenant_id": "42"}, True),
        ({"tenant_id": 42}, True),
        ({"tenant_id": "43"}, False),
        ({"tenant_id": "42 "}, False),
        ({"tenant_id": "042"}, False),
        ({"tenant_id": 42.0}, False),
        ({"tenant_id": True}, False),
        ({"tenant_id": ["42"]}, False),
        ({"tenant_id": {"$ne": "x"}}, False),
        ({"tenant_id": None}, False),
        ({"tenant_id": ""}, False),
        ({}, False),
    ],
)
def test_the_tenant_matches(arguments: dict[str, Any], is_allowed: bool, make_call: Any) -> None:
    violation = tenant_matches()(make_call(arguments, context=MALL))
    assert (violation is None) is is_allowed
    if violation is not None:  # type: ignore[unreachable]
        assert violation.code == "PERMISSION_DENIED"
        assert "42" not in violation.message


def test_identities_may_be_optional_nested_or_unknown(make_call: Any) -> None:
    assert tenant_matches(optional=True)(make_call({}, context=MALL)) is None
    assert tenant_matches(optional=True)(make_call({"tenant_id": None}, context=MALL)) is None
    assert (
        tenant_matches("orders[*].tenant")(make_call({"orders": [{"tenant": "42"}, {"tenant": "43"}]}, context=MALL))
        .problems[0]
        .path
        == "orders[1].tenant"
    )
    assert "no tenant" in tenant_matches()(make_call({"tenant_id": "42"}, context=context())).message
    assert account_matches()(make_call({"account": "tester"}, context=MALL)) is None
    assert account_matches()(make_call({"account": "root"}, context=MALL)).code == "PERMISSION_DENIED"
    with pytest.raises(ConfigurationError, match="has no parameter"):
        tenant_matches("tenant")(make_call({}, context=MALL, schema={"properties": {"tenant_id": {}}}))


OWNERS = {"A1": "42", "A2": "43", "A3": {"42", "7"}, "A4": None, 5: 42}


@pytest.mark.parametrize("colour", ["sync", "async"])
@pytest.mark.parametrize(
    ("value", "code"),
    [
        ("A1", None),
        ("A2", "PERMISSION_DENIED"),
        ("A3", None),
        ("A4", "PERMISSION_DENIED"),
        ("A9", "PERMISSION_DENIED"),
        (5, None),
    ]
    + [(None, "PERMISSION_DENIED"), (True, "PARAM_INVALID"), (["A1"], "PARAM_INVALID"), ({"a": 1}, "PARAM_INVALID")],
)
def test_ownership_is_looked_up(colour: str, value: Any, code: str | None, make_call: Any) -> None:
    async def look_up_later(order: Any) -> Any:
        await asyncio.sleep(0)
        return OWNERS.get(order)

    rule = owned_by(OWNERS.get if colour == "sync" else look_up_later, parameter="order_id")
    assert is_async(rule) is (colour == "async")
    verdict: Any = rule(make_call({"order_id": value}, context=MALL))
    violation = asyncio.run(verdict) if colour == "async" else verdict
    assert (violation and violation.code) == code


def test_ownership_of_every_item_and_by_other_identities(make_call: Any) -> None:
    rule = owned_by({"a": "li", "b": "wang"}.get, parameter="ids[*]", identity="actor")
    assert rule(make_call({"ids": ["a", "a"]}, context=MALL)) is None
    assert rule(make_call({"ids": ["a", "b"]}, context=MALL)).problems[0].path == "ids[1]"  # type: ignore[union-attr]
    assert rule(make_call({"ids": ["a"]}, context=context())).code == "PERMISSION_DENIED"  # type: ignore[union-attr]
    assert rule(make_call({"ids": []}, context=MALL)).code == "PERMISSION_DENIED"  # type: ignore[union-attr]
    same = owned_by(OWNERS.get, parameter="x"), owned_by(OWNERS.get, parameter="x")
    missing, foreign = (
        one(make_call({"x": order}, context=MALL)).message for one, order in zip(same, ("A9", "A2"), strict=True)
    )  # type: ignore[union-attr]
    assert missing == foreign
    with pytest.raises(ConfigurationError, match="identity"):
        owned_by(OWNERS.get, parameter="x", identity="owner")
    with pytest.raises(ConfigurationError, match="has no parameter"):
        owned_by(OWNERS.get, parameter="y").check({"properties": {"x": {}}})


def test_roles(make_call: Any) -> None:
    call = make_call(context=MALL)
    assert requires_role("refunds")(call) is None
    assert requires_role("admin", "support")(call) is None
    assert requires_role("support", "refunds", every=True)(call) is None
    assert requires_role("admin", "support", every=True)(call).code == "PERMISSION_DENIED"
    assert "admin" in requires_role("admin")(call).message
    assert requires_role("refund")(call) is not None
    for wrong in ((), ("",), (5,)):
        with pytest.raises(ConfigurationError):
            requires_role(*wrong)


def is_paid(call: Any) -> bool:
    return call.arguments["order_id"] == "paid"


async def is_paid_later(call: Any) -> bool:
    await asyncio.sleep(0)
    return is_paid(call)


@pytest.mark.parametrize("predicate", [is_paid, is_paid_later])
def test_preconditions(predicate: Any, make_call: Any) -> None:
    rule = requires(predicate, code="ORDER_NOT_PAID", message="the order is not paid", next_action="wait_for_payment")

    def ask(order: str) -> Any:
        verdict: Any = rule(make_call({"order_id": order}))
        return asyncio.run(verdict) if is_async(rule) else verdict

    assert is_async(rule) is (predicate is is_paid_later)
    assert ask("paid") is None
    assert ask("open") == Violation("ORDER_NOT_PAID", "the order is not paid", "wait_for_payment")


def test_preconditions_have_defaults_and_may_say_more(make_call: Any) -> None:
    call = make_call()
    refused = requires(lambda call: False)(call)
    assert isinstance(refused, Violation)
    assert (refused.code, refused.next_action) == ("PRECONDITION_FAILED", None)
    own = requires(lambda call: False, code="NOT_READY", failure_class=FailureClass.ENVIRONMENT)(call)
    assert own == Violation(
        "NOT_READY", "the precondition <lambda> does not hold", "ask_user", FailureClass.ENVIRONMENT
    )
    assert requires(lambda call: Violation("X", "mine"))(call) == Violation("X", "mine")
    for answer in (None, 1, "yes", []):
        with pytest.raises(TypeError, match="True or False"):
            requires(lambda call, answer=answer: answer)(call)


@pytest.mark.parametrize(
    "options",
    [
        {"code": "order_not_paid"},
        {"code": ""},
        {"code": 5},
        {"code": "A B"},
        {"next_action": "Do It"},
        {"next_action": ""},
        {"next_action": 5},
        {"code": "PARAM_INVALID", "failure_class": FailureClass.POLICY},
    ],
)
def test_precondition_options_are_checked(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="requires"):
        requires(lambda call: True, **options)


def test_a_freeze_is_a_state_rule(make_call: Any) -> None:
    def not_frozen(call: Any) -> bool:
        return not call.context.state.resource_state.get("freeze", False)

    rule = requires(not_frozen, code="TENANT_FROZEN", message="a freeze is active; nothing may be written")
    frozen = context(state=State(resource_state={"freeze": True}))
    assert rule(make_call(effect="write", context=context())) is None
    assert rule(make_call(effect="write", context=frozen)).code == "TENANT_FROZEN"  # type: ignore[union-attr]


def test_allowed_values(make_call: Any) -> None:
    rule = allowed_values("status", ["open", "closed", 1])
    assert rule(make_call({"status": "open"})) is None
    assert rule(make_call({"status": 1})) is None
    for value in ("Open", "open ", True, 1.0, "1", ["open"], {"a": 1}):
        refused = rule(make_call({"status": value}))
        assert refused.code == "PARAM_INVALID"
        assert "'open', 'closed', 1" in refused.message
    assert "and 5 more" in allowed_values("n", range(25))(make_call({"n": 99})).message


def test_allowed_values_from_the_context(make_call: Any) -> None:
    task = context(
        environment=Environment(name="a", data_sources=("orders",)),
        state=State(previous_outputs={"ids": ["A1"], "one": "A2"}),
    )
    assert (
        allowed_values("source", from_context="environment.data_sources")(make_call({"source": "orders"}, context=task))
        is None
    )
    assert (
        allowed_values("source", from_context="environment.data_sources")(make_call({"source": "users"}, context=task))
        is not None
    )
    assert (
        allowed_values("ids[*]", from_context="state.previous_outputs.ids")(make_call({"ids": ["A1"]}, context=task))
        is None
    )
    assert (
        allowed_values("ids[*]", from_context="state.previous_outputs.ids")(
            make_call({"ids": ["A1", "A9"]}, context=task)
        )
        .problems[0]
        .path
        == "ids[1]"
    )
    assert (
        allowed_values("id", from_context="state.previous_outputs.one")(make_call({"id": "A2"}, context=task)) is None
    )
    assert (
        "none"
        in allowed_values("id", from_context="environment.nothing")(make_call({"id": "A2"}, context=task)).message
    )
    assert allowed_values("id", from_context=lambda context: {"A2"})(make_call({"id": "A2"}, context=task)) is None
    for wrong in (
        {},
        {"values": ["a"], "from_context": "x"},
        {"values": "abc"},
        {"from_context": "a..b"},
        {"from_context": 5},
    ):
        with pytest.raises(ConfigurationError, match="allowed_values"):
            allowed_values("id", **wrong)


@pytest.mark.parametrize("names", [(), ("",), (5,)])
def test_environments_have_names(names: Any) -> None:
    with pytest.raises(ConfigurationError, match="only_in"):
        only_in(*names)


def test_rules_compose(make_call: Any) -> None:
    rule = all_of(tool_allowed, write_permitted, only_in("test-a") & tenant_matches())
    assert rule(make_call({"tenant_id": "42"}, context=MALL)) is None
