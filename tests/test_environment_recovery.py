"""Waiting for an environment, switching to the next one, and stopping without pressing."""

from __future__ import annotations

from typing import Any

import pytest

from fcguard import Classified, Environment, ErrorType, Guard, Violation
from fcguard.errors import ConfigurationError
from fcguard.recovery.table import DEFAULT_TABLE
from tests.conftest import Effect, Mode, Script, add


class NotReady(Exception):
    """What the tool raises while its environment starts up."""


def classify(outcome: Any, call: Any) -> Classified | None:
    if isinstance(outcome, NotReady):
        return Classified(ErrorType.ENVIRONMENT_NOT_READY, "refused", "The environment is starting up.", "declared")
    return None


def test_a_tool_waits_until_its_environment_is_ready(guard: Guard, mode: Mode, clock: Any) -> None:
    script = Script(NotReady(), Effect("done"))
    states = [False, False, True]
    add(guard, mode, script, classifiers=(classify,), ready=lambda call: states.pop(0))
    with guard.task("t"):
        result = mode.call(guard, "tool", {})
    assert (result.success, result.attempts, len(script.effects), states) == (True, 2, 1, [])
    assert len(clock.slept) == 3


def test_an_environment_that_never_gets_ready_is_not_pressed(guard: Guard, mode: Mode, clock: Any) -> None:
    script = Script(NotReady())
    add(guard, mode, script, classifiers=(classify,), ready=lambda call: False)
    with guard.task("t"):
        result = mode.call(guard, "tool", {})
    assert (result.error_type, result.next_action, result.retryable) == (
        "ENVIRONMENT_NOT_READY",
        "wait_environment",
        True,
    )
    assert (result.attempts, result.effect) == (1, "not_applied")
    assert sum(clock.slept) <= 60


def test_a_ready_check_that_raises_ends_the_waiting(guard: Guard, mode: Mode) -> None:
    def ready(call: Any) -> bool:
        raise OSError("the health page is down")

    add(guard, mode, Script(NotReady()), classifiers=(classify,), ready=ready)
    with guard.task("t"):
        result = mode.call(guard, "tool", {})
    assert (result.success, result.flags) == (False, ("ready_failed:OSError",))


def test_recovery_switches_to_the_next_environment_and_binds_again(guard: Guard, mode: Mode) -> None:
    script = Script(NotReady(), Effect("done"))
    add(guard, mode, script, classifiers=(classify,), bound={"tenant": "tenant"}, effect="read")
    first = Environment(name="a", tenant="t-a", alternatives=(Environment(name="b", tenant="t-b"),))
    with guard.task("t", environment=first):
        result = mode.call(guard, "tool", {"order": 1})
    assert result.success
    assert script.calls == [{"order": 1, "tenant": "t-a"}, {"order": 1, "tenant": "t-b"}]
    assert "environment:b" in result.flags


def test_the_rules_are_asked_again_after_a_switch(guard: Guard, mode: Mode) -> None:
    script = Script(NotReady(), Effect("done"))

    def only_a(call: Any) -> Violation | None:
        name = call.context.environment.name
        return None if name == "a" else Violation("ENVIRONMENT_FORBIDDEN", f"not in {name}")

    add(guard, mode, script, classifiers=(classify,), rules=(only_a,), effect="read")
    with guard.task("t", environment=Environment(name="a", alternatives=(Environment(name="prod"),))):
        result = mode.call(guard, "tool", {})
    assert (result.success, len(script.calls)) == (False, 1)


def test_a_table_that_would_take_an_uncertain_write_elsewhere_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="may have been applied"):
        DEFAULT_TABLE.replacing("UNCERTAIN_RESULT", {"write": ("confirm", "switch", "fallback", "wait", "stop")})


@pytest.mark.parametrize("code", ["ENVIRONMENT_NOT_READY", "ACCOUNT_POOL_EMPTY", "CONFIG_NOT_EFFECTIVE"])
def test_a_constraint_about_the_environment_is_waited_for_too(guard: Guard, mode: Mode, code: str) -> None:
    script = Script(Effect("done"))
    answers = [Violation(code, "not yet"), None]
    add(guard, mode, script, constraints=(lambda call: answers.pop(0),), ready=lambda call: True)
    with guard.task("t"):
        result = mode.call(guard, "tool", {})
    assert (result.success, result.attempts, len(script.effects)) == (True, 1, 1)


def test_a_write_that_was_sent_stays_with_its_environment(guard: Guard, mode: Mode) -> None:
    script = Script(NotReady(), Effect("elsewhere"))
    add(guard, mode, script, classifiers=(classify,))
    with guard.task(
        "t", environment=Environment(name="a", tenant="t1", alternatives=(Environment(name="b", tenant="t2"),))
    ):
        result = mode.call(guard, "tool", {})
    assert (result.error_type, result.effect, len(script.calls)) == ("ENVIRONMENT_NOT_READY", "not_applied", 1)


def test_a_write_that_was_not_sent_yet_goes_to_the_next_environment_with_keys_of_its_own(
    guard: Guard, mode: Mode
) -> None:
    script = Script(Effect("done"))
    answers = [Violation("ENVIRONMENT_NOT_READY", "not yet"), None]
    add(guard, mode, script, constraints=(lambda call: answers.pop(0),))
    first = Environment(name="a", tenant="t1", alternatives=(Environment(name="b", tenant="t2"),))
    with guard.task("t", environment=first):
        result = mode.call(guard, "tool", {})
    stored = guard.store.get(result.request_id)
    assert stored is not None
    assert (result.success, stored.identity.tenant, len(script.effects)) == (True, "t2", 1)
