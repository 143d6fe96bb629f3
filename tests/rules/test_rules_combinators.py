"""Combinators: colour, names, and the algebra of all_of, any_of, not_ and when."""

from __future__ import annotations

import asyncio
import functools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcguard.errors import ColourError, ConfigurationError
from fcguard.model.failure import FailureClass, Problem, Violation
from fcguard.rules import (
    all_of,
    any_of,
    check_rule,
    hosts,
    is_async,
    not_,
    only_in,
    requires,
    rule_name,
    tenant_matches,
    when,
)
from fcguard.rules.base import BaseRule, drive


def sync_rule(violation: Violation | None) -> Any:
    return lambda call: violation


def async_rule(violation: Violation | None) -> Any:
    async def rule(call: Any) -> Violation | None:
        await asyncio.sleep(0)
        return violation

    return rule


def decide(rule: Any, call: Any = None) -> Violation | None:
    answer = rule(call)
    return asyncio.run(answer) if is_async(rule) else answer


violations = st.one_of(
    st.none(),
    st.builds(
        Violation,
        st.sampled_from(["PARAM_INVALID", "ORDER_NOT_PAID", "PERMISSION_DENIED"]),
        st.text("abc", min_size=1, max_size=3),
        st.sampled_from([None, "ask_user"]),
        st.sampled_from([None, FailureClass.POLICY]),
        st.sampled_from([None, 1.0, 2.0]),
        st.lists(st.builds(Problem, st.sampled_from(["a", "b"]), st.just("r"), st.just("m")), max_size=2).map(tuple),
    ),
)
leaves = st.builds(lambda make, violation: make(violation), st.sampled_from([sync_rule, async_rule]), violations)
rules = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=3).map(lambda some: all_of(*some)),
        st.lists(inner, min_size=1, max_size=3).map(lambda some: any_of(*some)),
        inner.map(not_),
        st.builds(when, inner.map(lambda rule: all_of(rule)), inner),
    ),
    max_leaves=6,
)


def passes(rule: Any) -> bool:
    return decide(rule) is None


@given(a=rules, b=rules, c=rules)
def test_grouping_does_not_matter(a: Any, b: Any, c: Any) -> None:
    assert decide(all_of(all_of(a, b), c)) == decide(all_of(a, all_of(b, c))) == decide(all_of(a, b, c))
    assert decide(any_of(any_of(a, b), c)) == decide(any_of(a, any_of(b, c))) == decide(any_of(a, b, c))


@given(a=rules)
def test_identity_and_idempotence(a: Any) -> None:
    always, never = all_of(), not_(all_of())
    assert decide(all_of(a, always)) == decide(all_of(always, a)) == decide(all_of(a)) == decide(a)
    assert decide(any_of(a)) == decide(a)
    assert passes(any_of(a, never)) == passes(any_of(never, a)) == passes(a)
    assert passes(any_of(a, always))
    assert not passes(all_of(a, never))
    assert decide(all_of(a, a)) == decide(a)
    assert passes(any_of(a, a)) == passes(a)


@given(a=rules, b=rules)
def test_de_morgan(a: Any, b: Any) -> None:
    assert passes(not_(all_of(a, b))) == passes(any_of(not_(a), not_(b)))
    assert passes(not_(any_of(a, b))) == passes(all_of(not_(a), not_(b)))
    assert passes(not_(not_(a))) == passes(a)
    assert passes(all_of(a, b)) == passes(all_of(b, a)) == (passes(a) and passes(b))
    assert passes(any_of(a, b)) == passes(any_of(b, a)) == (passes(a) or passes(b))


@given(a=rules, b=rules)
def test_when_is_implication(a: Any, b: Any) -> None:
    assert decide(when(all_of(a), b)) == (decide(b) if passes(a) else None)
    assert decide(when(lambda call: True, b)) == decide(b)
    assert decide(when(lambda call: False, b)) is None


@given(a=rules, b=rules)
def test_colour_is_kept(a: Any, b: Any) -> None:
    mixed = is_async(a) or is_async(b)
    for rule in (all_of(a, b), any_of(a, b), when(all_of(a), b)):
        assert is_async(rule) == mixed
    assert is_async(not_(a)) == is_async(a)


@given(some=st.lists(violations, min_size=1, max_size=4))
def test_first_refusal_wins_and_any_of_reports_all(some: list[Violation | None]) -> None:
    assert decide(all_of(*map(sync_rule, some))) == next((one for one in some if one is not None), None)
    refused = decide(any_of(*map(sync_rule, some)))
    if None in some:
        assert refused is None
        return
    assert refused is not None
    kept = [one for one in some if one is not None]
    assert (refused.code, refused.next_action, refused.failure_class) == (
        kept[0].code,
        kept[0].next_action,
        kept[0].failure_class,
    )
    assert refused.message.split(" -- or -- ") == [one.message for one in kept]
    assert refused.problems == tuple(problem for one in kept for problem in one.problems)
    assert refused.retry_after == min((one.retry_after for one in kept if one.retry_after is not None), default=None)


def test_rules_after_the_decision_are_not_asked() -> None:
    asked: list[str] = []

    def ask(name: str, violation: Violation | None) -> Any:
        def rule(call: Any) -> Violation | None:
            asked.append(name)
            return violation

        return rule

    refusal = Violation("PARAM_INVALID", "no")
    all_of(ask("a", None), ask("b", refusal), ask("c", None))(None)
    any_of(ask("d", refusal), ask("e", None), ask("f", None))(None)
    assert asked == ["a", "b", "d", "e"]


def test_operators(make_call: Any) -> None:
    refuse, accept = sync_rule(Violation("PARAM_INVALID", "no")), sync_rule(None)
    base = only_in("x")
    assert not passes(all_of() & refuse)
    assert not passes(refuse & all_of())
    assert passes(all_of() & accept)
    assert passes(any_of(refuse) | accept)
    assert passes(refuse | any_of(accept))
    assert passes(~any_of(refuse))
    assert (
        repr(base & ~base)
        == "all_of(rules=(only_in(names={'x'}), not_(rule=only_in(names={'x'}), code='PRECONDITION_FAILED', message='refused because only_in holds', next_action=None)))"
    )


def test_a_rule_that_raises_is_never_taken_for_an_answer() -> None:
    def broken(call: Any) -> None:
        raise KeyError("x")

    for rule in (
        all_of(broken),
        any_of(broken, sync_rule(None)),
        not_(broken),
        when(broken, sync_rule(None)),
        when(lambda call: True, broken),
    ):
        with pytest.raises(KeyError):
            rule(None)


@pytest.mark.parametrize("answer", [True, False, "no", 0, {"code": "X"}])
def test_an_answer_that_is_no_verdict_raises(answer: Any) -> None:
    for rule in (all_of(lambda call: answer), any_of(lambda call: answer), not_(lambda call: answer)):
        with pytest.raises(TypeError, match="answer None or a Violation"):
            rule(None)


@pytest.mark.parametrize("answer", [None, 0, 1, "yes", Violation("X", "x")])
def test_a_condition_answers_true_or_false(answer: Any) -> None:
    with pytest.raises(TypeError, match="True or False"):
        when(lambda call: answer, sync_rule(None))(None)


def test_an_async_condition() -> None:
    async def holds(call: Any) -> bool:
        return True

    rule = when(holds, sync_rule(Violation("X", "x")))
    assert is_async(rule)
    assert asyncio.run(rule(None)) == Violation("X", "x")  # type: ignore[arg-type]


def test_a_hidden_awaitable_in_a_sync_rule_is_an_error_of_colour() -> None:
    hidden = all_of(lambda call: async_rule(None)(call))
    assert not is_async(hidden)
    with pytest.raises(ColourError, match="async def"):
        hidden(None)


def test_drive_answers_what_needs_no_loop() -> None:
    async def at_once() -> int:
        return 5

    assert drive(at_once()) == 5


def test_not_says_why() -> None:
    rule = not_(all_of(), code="MUST_NOT", message="must not", next_action="stop_here")
    assert rule(None) == Violation("MUST_NOT", "must not", "stop_here")


class CallableRule:
    def __call__(self, call: Any) -> None:
        return None


class AsyncCallableRule:
    async def __call__(self, call: Any) -> None:
        return None


def named(call: Any, extra: int = 0) -> None:
    return None


async def async_named(call: Any, extra: int = 0) -> None:
    return None


@pytest.mark.parametrize(
    ("rule", "name", "colour"),
    [
        (named, "named", False),
        (async_named, "async_named", True),
        (functools.partial(named, extra=1), "named", False),
        (functools.partial(async_named, extra=1), "async_named", True),
        (CallableRule(), "CallableRule", False),
        (AsyncCallableRule(), "AsyncCallableRule", True),
        (only_in("a"), "only_in", False),
        (tenant_matches(), "tenant_matches", False),
        (requires(lambda call: True), "requires", False),
        (requires(async_named), "requires", True),
        (sync_rule(None), "<lambda>", False),
        (async_rule(None), "rule", True),
        (all_of(named, async_named), "all_of", True),
    ],
)
def test_names_and_colours(rule: Any, name: str, colour: bool) -> None:
    assert rule_name(rule) == name
    assert is_async(rule) is colour


@pytest.mark.parametrize("rule", [None, 5, "only_in", only_in, hosts, CallableRule, dict])
def test_what_is_no_rule_is_refused_when_built(rule: Any) -> None:
    for build in (
        all_of,
        any_of,
        not_,
        lambda one: when(one, named),
        lambda one: when(named, one),
        lambda one: check_rule(one, {}),
    ):
        with pytest.raises(ConfigurationError, match="rule"):
            build(rule)


def test_any_of_nothing_is_refused_when_built() -> None:
    with pytest.raises(ConfigurationError, match="at least one"):
        any_of()


def test_a_rule_is_compared_with_the_schema_of_its_tool() -> None:
    schema = {"type": "object", "properties": {"url": {}, "tenant_id": {}}, "additionalProperties": False}
    rule = all_of(named, when(tenant_matches(), any_of(hosts("url"), not_(hosts("url")))))
    check_rule(rule, schema)
    check_rule(named, schema)
    for wrong in (hosts("uri"), tenant_matches("tenant"), rule & hosts("urls[*]")):
        with pytest.raises(ConfigurationError, match="has no parameter"):
            check_rule(wrong, schema)


def test_rules_are_frozen_and_equal_by_value() -> None:
    rule = only_in("a", "b")
    assert rule == only_in("b", "a")
    assert hash(rule) == hash(only_in("b", "a"))
    with pytest.raises(AttributeError):
        rule.names = frozenset()  # type: ignore[attr-defined]


def test_a_bare_base_rule_is_abstract() -> None:
    with pytest.raises(NotImplementedError):
        BaseRule()(None)
