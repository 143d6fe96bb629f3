"""Matchers: JSON types are kept apart, and every difference is named by its path."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fcguard.errors import ConfigurationError
from fcguard.evaluation.matchers import MATCHERS, compile_matcher

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text("abc$", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc$", max_size=2), inner, max_size=3),
    max_leaves=8,
)


@settings(deadline=None)
@given(value=JSON)
def test_a_value_matches_itself_exactly(value: Any) -> None:
    assert compile_matcher({"$exact": value}).compare(value, "") == ()


@settings(deadline=None)
@given(first=JSON, second=JSON)
def test_two_values_match_exactly_or_differ_somewhere(first: Any, second: Any) -> None:
    same = compile_matcher({"$exact": first}).matches(second)
    assert same == compile_matcher({"$exact": second}).matches(first)


@pytest.mark.parametrize(
    ("spec", "yes", "no"),
    [
        (1, [1, 1.0], ["1", True, 2]),
        (True, [True], [1, "true"]),
        ("100", ["100"], [100, "100 "]),
        (None, [None], [0, ""]),
        ([1, "a"], [[1, "a"], [1.0, "a"]], [["a", 1], [1], "1a"]),
        ({"a": 1}, [{"a": 1}], [{"a": 1, "b": 2}, {}, [1]]),
        ({"$one_of": [1, "a", {"$range": [5, 6]}]}, [1, "a", 5.5], ["1", 7]),
        ({"$regex": "^A\\d+$"}, ["A12"], ["B1", 12, None]),
        ({"$range": [1, 3]}, [1, 2.5, 3], [0, 4, "2", True, None]),
        ({"$range": [None, 3]}, [-1e9, 3], [4]),
        ({"$range": [1, None]}, [1, 1e9], [0]),
        ({"$set": [1, 2, 2]}, [[2, 1, 2]], [[1, 2], [1, 2, 2, 3], "122"]),
        ({"$subset": {"a": 1}}, [{"a": 1, "b": 2}], [{"b": 2}, []]),
        ({"$subset": [1, {"$regex": "x"}]}, [[3, "axb", 1]], [[1], [], {}]),
        ({"$ignore": True}, [None, 1, {}, "x"], []),
        ({"a": {"$ignore": True}}, [{}, {"a": 1}], [{"b": 1}]),
        ({"a": {"$optional": 1}}, [{}, {"a": 1}], [{"a": 2}, {"a": None}]),
        ({"$exact": {"$regex": "x"}}, [{"$regex": "x"}], ["x"]),
        ({"$exact": [{"a": [1]}]}, [[{"a": [1]}]], [[{"a": [2]}], [{"a": [1]}, 2]]),
    ],
)
def test_matchers(spec: Any, yes: list[Any], no: list[Any]) -> None:
    matcher = compile_matcher(spec)
    assert [value for value in yes if not matcher.matches(value)] == []
    assert [value for value in no if matcher.matches(value)] == []


def test_a_callable_is_asked_and_its_error_is_a_mismatch() -> None:
    matcher = compile_matcher(lambda value: value["a"] > 1)
    assert matcher.matches({"a": 2})
    (miss,) = matcher.compare({}, "x")
    assert "raised KeyError" in miss.wanted
    assert miss.path == "x"


def test_each_difference_is_named_by_its_path() -> None:
    matcher = compile_matcher({"a": {"b": [1, 2]}, "c": "x"})
    found = {(miss.path, miss.found) for miss in matcher.compare({"a": {"b": [1, 3]}, "d": 0}, "")}
    assert found == {("a.b[1]", "3"), ("c", "missing"), ("d", "0")}
    assert str(matcher.compare({"a": {"b": [1, 2]}}, "")[0]) == 'c: wanted "x", found missing'
    assert str(compile_matcher(1).compare(2, "")[0]) == "arguments: wanted 1, found 2"


@pytest.mark.parametrize(
    "spec",
    [
        {"$regexp": "x"},
        {"$regex": "("},
        {"$regex": 1},
        {"$one_of": "abc"},
        {"$range": [1]},
        {"$range": [3, 1]},
        {"$range": ["a", 2]},
        {"$range": [True, 2]},
        {"$set": 1},
        {"$subset": 1},
        {"$one_of": [1], "$regex": "x"},
        {"$one_of": [1], "a": 1},
    ],
)
def test_a_matcher_that_cannot_work_is_refused(spec: Any) -> None:
    with pytest.raises(ConfigurationError, match="matcher"):
        compile_matcher(spec)


def test_the_message_lists_the_known_names() -> None:
    with pytest.raises(ConfigurationError, match=r"\$subset"):
        compile_matcher({"$like": 1})
    assert len(MATCHERS) == 8
