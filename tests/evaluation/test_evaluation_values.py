"""Values: a number, or the reason why there is none."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fcguard.evaluation.canonical import canonical, digest, parse_arguments
from fcguard.evaluation.values import Value, not_applicable, ok, ratio, unknown, untested


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_a_value_is_never_nan_or_infinite(number: float) -> None:
    with pytest.raises(ValueError, match="not a finite number"):
        ok(number)


def test_a_state_without_a_number_holds_none() -> None:
    with pytest.raises(ValueError, match="cannot hold"):
        Value("unknown", 1.0)
    with pytest.raises(ValueError, match="cannot hold"):
        Value("ok")


@settings(deadline=None)
@given(k=st.integers(0, 1000), n=st.integers(0, 1000))
def test_a_rate_says_k_of_n_and_nothing_is_divided_by_zero(k: int, n: int) -> None:
    value = ratio(k, n)
    if n == 0:
        assert value.state == "not_applicable"
    else:
        assert value.require() == k / n
        assert f"({k} of {n})" in value.text(percent=True)


def test_the_reason_is_told() -> None:
    assert untested("no failure").text() == "untested (no failure)"
    assert not_applicable("").text() == "not applicable"
    assert unknown("no schemas").as_json() == {"state": "unknown", "reason": "no schemas"}
    assert ok(0.5, k=1, n=2).as_json() == {"state": "ok", "value": 0.5, "k": 1, "n": 2}
    assert ok(3.14159).text(digits=2) == "3.14"
    assert not unknown("x").is_ok
    with pytest.raises(ValueError, match="no schemas"):
        unknown("no schemas").require()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@settings(deadline=None)
@given(value=JSON)
def test_canonical_text_survives_a_round_trip(value: object) -> None:
    assert canonical(json.loads(json.dumps(value))) == canonical(value)


@pytest.mark.parametrize(
    ("first", "second", "is_equal"),
    [
        (1, 1.0, True),
        (1, True, False),
        (0, False, False),
        (1, "1", False),
        ({"a": 1, "b": 2}, {"b": 2.0, "a": 1}, True),
        ([1, 2], [2, 1], False),
        (None, "null", False),
        (2**53 + 1, float(2**53), False),
        (b"x", "b'x'", False),
        ((1, 2), [1, 2], True),
    ],
)
def test_canonical_text_is_equal_only_for_equal_json(first: object, second: object, is_equal: bool) -> None:
    assert (canonical(first) == canonical(second)) is is_equal
    assert (digest(canonical(first)) == digest(canonical(second))) is is_equal


@pytest.mark.parametrize(
    ("raw", "fault"),
    [
        ('{"a": 1', "not JSON"),
        ("[1]", "a list, not an object"),
        ("NaN", "NaN is not JSON"),
        ('{"a": Infinity}', "Infinity is not JSON"),
        (None, "no arguments were sent"),
        (7, "a int, not an object"),
        ("[" * 100_000, "nested too deeply"),
        (b"\xff\xfe{", "not JSON"),
    ],
)
def test_broken_arguments_are_told_not_raised(raw: object, fault: str) -> None:
    arguments, error = parse_arguments(raw)
    assert arguments is None
    assert error is not None
    assert fault in error


def test_readable_arguments_are_read() -> None:
    assert parse_arguments('{"a": 1}') == ({"a": 1}, None)
    assert parse_arguments({"a": 1}) == ({"a": 1}, None)
    assert parse_arguments(b"{}") == ({}, None)


def test_a_digest_of_bytes_and_text_is_the_same() -> None:
    assert digest(b"abc") == digest("abc")
    assert len(digest("\ud800")) == 16
