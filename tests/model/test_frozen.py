"""Frozen containers: nobody changes what was validated; otherwise they are what they look like."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcguard.model.frozen import FrozenDict, FrozenList, freeze, thaw

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.text(max_size=4), JSON, max_size=5)


def kinds(value: Any) -> set[type]:
    """Name the types of all containers in a value."""
    if isinstance(value, dict):
        return {type(value)}.union(*map(kinds, value.values()))
    if isinstance(value, list):
        return {type(value)}.union(*map(kinds, value))
    return set()


@given(OBJECTS)
def test_freezing_and_thawing_change_nothing_but_the_kind(value: dict[str, Any]) -> None:
    frozen = freeze(value)
    assert frozen == value
    assert kinds(frozen) <= {FrozenDict, FrozenList}
    assert json.dumps(frozen) == json.dumps(value)
    thawed = thaw(frozen)
    assert thawed == value
    assert kinds(thawed) <= {dict, list}


@given(OBJECTS)
def test_copies_travel(value: dict[str, Any]) -> None:
    frozen = freeze(value)
    assert pickle.loads(pickle.dumps(frozen)) == frozen
    assert kinds(pickle.loads(pickle.dumps(frozen))) == kinds(frozen)
    assert copy.copy(frozen) is frozen
    deep = copy.deepcopy(frozen)
    assert deep == value
    assert kinds(deep) <= {dict, list}


def test_copies_of_a_frozen_list() -> None:
    frozen = freeze({"a": [[1]]})["a"]
    assert copy.copy(frozen) is frozen
    assert kinds(copy.deepcopy(frozen)) == {list}


def test_a_frozen_copy_does_not_follow_its_original() -> None:
    original: dict[str, Any] = {"a": [1, {"b": 2}]}
    frozen = freeze(original)
    original["a"][1]["b"] = 3
    original["a"].append(4)
    original["c"] = 5
    assert frozen == {"a": [1, {"b": 2}]}


def test_freezing_again_and_freezing_mixtures() -> None:
    frozen = freeze({"a": [1], "b": {"c": [2]}})
    mixed = freeze({"x": frozen, "y": FrozenList([[1]]), "z": 1})
    assert freeze(frozen) == frozen
    assert kinds(mixed) == {FrozenDict, FrozenList}
    assert thaw(mixed) == {"x": {"a": [1], "b": {"c": [2]}}, "y": [[1]], "z": 1}


DICT_CHANGES: list[Callable[[Any], Any]] = [
    lambda it: it.__setitem__("a", 1),
    lambda it: it.__delitem__("a"),
    lambda it: it.__ior__({"b": 1}),
    lambda it: it.clear(),
    lambda it: it.pop("a"),
    lambda it: it.pop("zz", None),
    lambda it: it.popitem(),
    lambda it: it.setdefault("a", 2),
    lambda it: it.update(a=2),
]
LIST_CHANGES: list[Callable[[Any], Any]] = [
    lambda it: it.__setitem__(0, 1),
    lambda it: it.__setitem__(slice(0, 1), []),
    lambda it: it.__delitem__(0),
    lambda it: it.__iadd__([1]),
    lambda it: it.__imul__(2),
    lambda it: it.append(1),
    lambda it: it.extend([1]),
    lambda it: it.insert(0, 1),
    lambda it: it.pop(),
    lambda it: it.remove(1),
    lambda it: it.clear(),
    lambda it: it.sort(),
    lambda it: it.reverse(),
]


@pytest.mark.parametrize("change", DICT_CHANGES, ids=[str(n) for n in range(len(DICT_CHANGES))])
def test_a_frozen_dict_refuses_to_change(change: Callable[[Any], Any]) -> None:
    frozen = freeze({"a": 1})
    with pytest.raises(TypeError, match="frozen"):
        change(frozen)
    assert frozen == {"a": 1}


@pytest.mark.parametrize("change", LIST_CHANGES, ids=[str(n) for n in range(len(LIST_CHANGES))])
def test_a_frozen_list_refuses_to_change(change: Callable[[Any], Any]) -> None:
    frozen = freeze({"a": [1, 2]})["a"]
    with pytest.raises(TypeError, match="frozen"):
        change(frozen)
    assert frozen == [1, 2]


def test_every_method_that_changes_is_refused() -> None:
    def changing(kind: type, frozen: type) -> set[str]:
        return {name for name in vars(kind) if getattr(kind, name) is not getattr(frozen, name)}

    quiet = {
        "__reduce__",
        "__class__",
        "__class_getitem__",
        "__doc__",
        "__new__",
        "fromkeys",
        "__slots__",
        "__copy__",
        "__deepcopy__",
        "__init_subclass__",
        "__subclasshook__",
    }
    assert changing(dict, FrozenDict) - quiet == {
        "__setitem__", "__delitem__", "__ior__", "clear", "pop", "popitem", "setdefault", "update",
    }  # fmt: skip
    assert changing(list, FrozenList) - quiet == {
        "__setitem__", "__delitem__", "__iadd__", "__imul__", "append", "extend", "insert", "pop", "remove", "clear",
        "sort", "reverse",
    }  # fmt: skip


def test_new_values_come_from_operators_as_plain_ones() -> None:
    frozen = freeze({"a": [1]})
    assert frozen | {"b": 2} == {"a": [1], "b": 2}
    assert frozen["a"] + [2] == [1, 2]
    assert frozen["a"] * 2 == [1, 1]


@pytest.mark.parametrize("value", [None, 1, "x", True, 1.5, (1, 2)])
def test_thaw_leaves_what_is_no_container(value: Any) -> None:
    assert thaw(value) is value
