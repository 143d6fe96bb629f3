"""Health of dependencies and freezes: what cannot be known refuses."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from fcguard.constraints import Constraint, DependencyHealth, Freeze
from fcguard.errors import ConfigurationError
from fcguard.model.context import Environment, TaskContext
from fcguard.model.failure import ErrorType, FailureClass, Violation, class_of


class Check:
    def __init__(self, *answers: Any) -> None:
        self.answers, self.asked = list(answers), 0

    def __call__(self) -> Any:
        self.asked += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def raises() -> Any:
    raise ConnectionError("s3cret-host")


def test_answers_are_kept_for_their_time(make_call: Any) -> None:
    check = Check(True, False, True)
    health = DependencyHealth(check, cache_seconds=5, name="orders-db")
    assert [health.admit(make_call(), t) for t in (0, 4.9)] == [None, None] and check.asked == 1
    refused = health.admit(make_call(), 5)
    assert (refused.code, refused.retry_after) == ("DEPENDENCY_ERROR", 5) and "orders-db" in refused.message
    assert health.admit(make_call(), 8).retry_after == 2 and check.asked == 2
    assert health.admit(make_call(), 10) is None
    health.settle(make_call(), None, 10)
    assert isinstance(health, Constraint)


@pytest.mark.parametrize(
    ("answer", "is_healthy"), [(True, True), (None, True), (False, False), (0, False), ("ok", False), (1, False)]
)
def test_only_true_or_nothing_is_healthy(make_call: Any, answer: Any, is_healthy: bool) -> None:
    assert (DependencyHealth(lambda: answer).admit(make_call(), 0) is None) is is_healthy


def test_a_check_that_raises_is_unhealthy_and_tells_no_secrets(make_call: Any) -> None:
    refused = DependencyHealth(raises).admit(make_call(), 0)
    assert (
        refused.code == "DEPENDENCY_ERROR" and "ConnectionError" in refused.message and "s3cret" not in refused.message
    )


def test_a_check_may_say_what_is_wrong(make_call: Any) -> None:
    own = Violation("ENVIRONMENT_NOT_READY", "still starting", retry_after=1.5)
    assert DependencyHealth(lambda: own).admit(make_call(), 0) is own
    other = DependencyHealth(lambda: False, code=ErrorType.CONFIG_NOT_EFFECTIVE).admit(make_call(), 0)
    assert other.code == "CONFIG_NOT_EFFECTIVE"


def test_confirmations_pass(make_call: Any) -> None:
    assert DependencyHealth(lambda: False).admit(make_call(purpose="confirm"), 0) is None


def test_async_checks(make_call: Any) -> None:
    async def healthy() -> bool:
        return True

    async def broken() -> bool:
        raise OSError

    for check, is_healthy in ((healthy, True), (broken, False)):
        health = DependencyHealth(check)
        assert health.is_async
        assert (asyncio.run(health.admit(make_call(), 0)) is None) is is_healthy
        assert (health.admit(make_call(), 1) is None) is is_healthy, "kept, so nothing to await"
    assert not DependencyHealth(Check(True)).is_async


def test_environments_are_kept_apart_if_the_check_sees_the_call(make_call: Any) -> None:
    health = DependencyHealth(lambda call: call.context.environment is None or call.context.environment.name != "down")

    def call(name: str) -> Any:
        return make_call(context=TaskContext(environment=Environment(name=name)))

    assert health.admit(call("up"), 0) is None and health.admit(call("down"), 0) is not None
    assert health.admit(call("up"), 1) is None and health.admit(make_call(), 1) is None


def test_keys_do_not_grow_without_limit(make_call: Any) -> None:
    health = DependencyHealth(lambda: True, key=lambda call: call.request_id)
    for _ in range(1500):
        health.admit(make_call(), 0)
    assert len(health._known) <= 1000


def test_a_builtin_without_signature_is_asked_without_the_call(make_call: Any) -> None:
    assert DependencyHealth(dict).admit(make_call(), 0) is not None


def test_no_write_while_a_freeze_is_on(make_call: Any) -> None:
    check = Check(True, True, True, False)
    freeze = Freeze(check, name="release freeze")
    for effect in ("write", "idempotent_write", "destructive"):
        refused = freeze.admit(make_call(effect=effect), 0)
        assert (refused.code, refused.next_action) == ("TENANT_FROZEN", "abort") and "release freeze" in refused.message
        assert class_of(refused.code) is FailureClass.ENVIRONMENT
    assert freeze.admit(make_call(effect="read"), 0) is None and check.asked == 3
    assert freeze.admit(make_call(effect="write"), 0) is None
    freeze.settle(make_call(), None, 0)
    assert isinstance(freeze, Constraint)


@pytest.mark.parametrize("answer", [None, 0, "", "off", 1, [], RuntimeError("x")])
def test_only_false_is_off(make_call: Any, answer: Any) -> None:
    assert Freeze(Check(answer)).admit(make_call(effect="write"), 0).code == "TENANT_FROZEN"


def test_a_freeze_may_look_at_the_call_and_may_be_async(make_call: Any) -> None:
    frozen = Freeze(
        lambda call: call.arguments.get("tenant") == "acme", effects={"read"}, code=ErrorType.ENVIRONMENT_NOT_READY
    )
    assert frozen.admit(make_call(arguments={"tenant": "acme"}), 0).code == "ENVIRONMENT_NOT_READY"
    assert frozen.admit(make_call(arguments={"tenant": "other"}), 0) is None
    assert frozen.admit(make_call(effect="write", arguments={"tenant": "acme"}), 0) is None

    async def off() -> bool:
        return False

    async def broken() -> bool:
        raise OSError

    assert Freeze(off).is_async
    assert asyncio.run(Freeze(off).admit(make_call(effect="write"), 0)) is None
    assert asyncio.run(Freeze(broken).admit(make_call(effect="write"), 0)).code == "TENANT_FROZEN"


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Freeze(True),
        lambda: Freeze(bool, effects=[]),
        lambda: Freeze(bool, effects=["writes"]),
        lambda: DependencyHealth(True),
        lambda: DependencyHealth(bool, cache_seconds=0),
    ],
)
def test_options_that_make_no_sense_are_refused(wrong: Any) -> None:
    with pytest.raises(ConfigurationError):
        wrong()


def test_one_effect_may_be_a_text(make_call: Any) -> None:
    assert Freeze(lambda: True, effects="read").admit(make_call(), 0) is not None
