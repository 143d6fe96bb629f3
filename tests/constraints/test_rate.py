"""Rates: never more in any window than said; retries only as long as enough succeeds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fcguard.constraints import Constraint, RateLimit, RetryTokenBucket, SQLiteState
from fcguard.errors import ConfigurationError
from fcguard.model.failure import FailureClass, class_of


def test_the_limit_and_when_to_come_back(make_call: Any) -> None:
    limit = RateLimit(2, 10)
    assert [limit.admit(make_call(), t) for t in (0, 4)] == [None, None]
    refused = limit.admit(make_call(), 5)
    assert (refused.code, refused.retry_after) == ("RATE_LIMITED", 5)
    assert class_of(refused.code) is FailureClass.AVAILABILITY
    assert limit.admit(make_call(), 10) is None
    assert limit.admit(make_call(), 10).retry_after == 4
    assert isinstance(limit, Constraint)


def test_what_was_not_sent_is_given_back(make_call: Any, make_attempt: Any) -> None:
    limit = RateLimit(1, 10)
    call = make_call()
    assert limit.admit(call, 0) is None
    limit.settle(call, None, 1)
    assert limit.admit(call, 2) is None
    limit.settle(call, make_attempt(call), 3)
    limit.settle(call, None, 3)
    assert limit.admit(make_call(), 4) is not None
    late = RateLimit(1, 10)
    late.admit(call, 0)
    late.admit(make_call(), 11)
    late.settle(call, None, 12)
    assert late.admit(make_call(), 12) is not None, "what had left the window anyway takes nobody else's place"


def test_keys_count_apart(make_call: Any) -> None:
    limit = RateLimit(1, 10, key=lambda call: call.arguments["host"])
    assert limit.admit(make_call(arguments={"host": "a"}), 0) is None
    assert limit.admit(make_call(arguments={"host": "b"}), 0) is None
    assert limit.admit(make_call(arguments={"host": "a"}), 0) is not None


def test_a_shared_limit_uses_the_wall_clock_and_one_count(make_call: Any, tmp_path: Path) -> None:
    states = [SQLiteState(tmp_path / "s.db") for _ in range(2)]
    wall = [1000.0]
    limits = [RateLimit(2, 10, state=state, wall=lambda: wall[0]) for state in states]
    assert [limits[0].admit(make_call(), 5), limits[1].admit(make_call(), 99999)] == [None, None]
    assert limits[0].admit(make_call(), 0).retry_after == 10
    wall[0] += 10
    assert limits[1].admit(make_call(), 0) is None
    for state in states:
        state.close()


@settings(max_examples=200, deadline=None)
@given(
    limit=st.integers(1, 4),
    seconds=st.sampled_from([1.0, 5.0]),
    gaps=st.lists(st.sampled_from([0.0, 0.3, 1.0, 4.0]), max_size=40),
)
def test_never_more_in_any_window(make_call: Any, limit: int, seconds: float, gaps: list[float]) -> None:
    rate, now, admitted = RateLimit(limit, seconds), 0.0, []
    for gap in gaps:
        now += gap
        refused = rate.admit(make_call(), now)
        recent = [at for at in admitted if at > now - seconds]
        assert (refused is None) == (len(recent) < limit)
        if refused is None:
            admitted.append(now)
        else:
            assert refused.retry_after == pytest.approx(recent[-limit] + seconds - now)


def test_retries_stop_when_nothing_succeeds(make_call: Any, make_attempt: Any) -> None:
    bucket = RetryTokenBucket(2, refund=0.5)
    call = make_call()
    for _ in range(3):
        assert bucket.admit(call, 0) is None
        bucket.settle(call, make_attempt(call, error_type="TIMEOUT"), 0)
    refused = bucket.admit(call, 0)
    assert (refused.code, refused.next_action) == ("BUDGET_EXHAUSTED", "retry_later")
    for _ in range(2):
        fresh = make_call()
        assert bucket.admit(fresh, 0) is None, "first attempts always pass"
        bucket.settle(fresh, make_attempt(fresh), 0)
    assert bucket.admit(call, 0) is None
    assert bucket.admit(call, 0) is not None


def test_a_retry_that_was_not_sent_gives_its_token_back(make_call: Any, make_attempt: Any) -> None:
    bucket, call = RetryTokenBucket(1), make_call()
    bucket.admit(call, 0)
    bucket.settle(call, None, 0)
    make_attempt(call, error_type="TIMEOUT")
    for _ in range(3):
        assert bucket.admit(call, 0) is None
        bucket.settle(call, None, 0)


@given(
    capacity=st.integers(0, 3),
    ends=st.lists(st.sampled_from(["ok", "fail", "unsent"]), max_size=60),
    refund=st.sampled_from([0.0, 0.25]),
)
def test_retries_never_exceed_the_tokens(
    make_call: Any, make_attempt: Any, capacity: int, ends: list[str], refund: float
) -> None:
    bucket, retries, successes = RetryTokenBucket(capacity, refund=refund, key=lambda call: "k"), 0, 0
    call = make_call()
    for end in ends:
        is_retry = bool(call.attempts)
        if bucket.admit(call, 0) is not None:
            assert is_retry
            call = make_call()
            continue
        bucket.settle(
            call, None if end == "unsent" else make_attempt(call, error_type=None if end == "ok" else "TIMEOUT"), 0
        )
        retries += is_retry and end != "unsent"
        successes += end == "ok"
        call = call if end == "fail" else make_call()
    assert retries <= capacity + refund * successes


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: RateLimit(0, 1),
        lambda: RateLimit(1, 0),
        lambda: RateLimit(1.5, 1),
        lambda: RetryTokenBucket(-1),
        lambda: RetryTokenBucket(1, refund=float("nan")),
        lambda: RetryTokenBucket(1, retry_cost="1"),
    ],
)
def test_options_that_make_no_sense_are_refused(wrong: Any) -> None:
    with pytest.raises(ConfigurationError):
        wrong()
