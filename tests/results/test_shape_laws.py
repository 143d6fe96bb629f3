"""Laws of the JSON form: strict, deterministic, stable, and never an exception."""

from __future__ import annotations

import collections.abc
import dataclasses
import json
import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fcguard.results import shape

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text('a"\\\n\x00\x7fé漢\ud835😀', max_size=20),
    st.binary(max_size=40),
    st.decimals(),
    st.dates(),
    st.timedeltas(),
    st.uuids(),
)
keys = st.one_of(st.text(max_size=4), st.integers(-3, 3), st.none(), st.booleans(), st.tuples(st.integers(0, 2)))
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(keys, inner, max_size=4),
        st.tuples(inner, inner),
        st.sets(st.one_of(st.integers(), st.text(max_size=3), st.none()), max_size=4),
    ),
    max_leaves=20,
)
plain = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text(max_size=20)
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=4), inner, max_size=4)),
    max_leaves=20,
)


def text_of(data):
    return json.dumps(data, allow_nan=False, ensure_ascii=False)


def types_in(data):
    yield type(data)
    for part in [*data.keys(), *data.values()] if isinstance(data, dict) else data if isinstance(data, list) else ():
        yield from types_in(part)


@given(values, st.sampled_from([0, 50, 200, 100_000]))
def test_the_form_is_strict_json_of_builtin_types(value, max_chars):
    data = shape(value, max_chars=max_chars).data
    assert json.loads(text_of(data).encode()) == data
    assert set(types_in(data)) <= {dict, list, str, int, float, bool, type(None)}


@given(values)
def test_the_form_is_deterministic(value):
    assert text_of(shape(value).data) == text_of(shape(value).data)


@given(plain)
def test_json_stays_what_it_is(value):
    shaped = shape(value)
    assert text_of(shaped.data) == text_of(value)
    assert shaped.notes == ()


@given(values)
def test_shaping_a_form_again_changes_nothing(value):
    data = shape(value).data
    again = shape(data)
    assert text_of(again.data) == text_of(data)


@given(values, st.integers(300, 3000))
def test_the_form_fits_the_limit(value, max_chars):
    shaped = shape(value, max_chars=max_chars)
    assert len(json.dumps(shaped.data, ensure_ascii=False, separators=(",", ":"))) <= max_chars
    assert ("truncated" in shaped.notes) == (shaped.size is not None)


def boom(*_, **__):
    raise RuntimeError("do not show")


class Raises:
    __getattr__ = __iter__ = __len__ = __repr__ = __str__ = __hash__ = __eq__ = __bool__ = boom


class RaisesEverywhere:
    __getattribute__ = boom


class LyingClass:
    @property
    def __class__(self):
        raise RuntimeError("do not show")


class HostileMeta(type):
    def __getattribute__(cls, name):
        raise RuntimeError("do not show")


class OfHostileMeta(metaclass=HostileMeta):
    pass


class Endless(collections.abc.Mapping):
    def __getitem__(self, key):
        return self

    def __iter__(self):
        return iter(lambda: "key", None)

    def __len__(self):
        return 1


class BrokenMapping(collections.abc.Mapping):
    def __getitem__(self, key):
        if key == "b":
            raise RuntimeError("do not show")
        return 1

    def __iter__(self):
        return iter("abc")

    def __len__(self):
        return 3


class BrokenList(list):
    def __iter__(self):
        yield 1
        raise RuntimeError("do not show")


class BrokenResponse:
    status_code = 503
    text = "down"

    class headers:  # noqa: N801
        items = boom


class Nested:
    def __init__(self) -> None:
        self.value = self

    fetchmany = boom
    description = (("a",),)


@dataclasses.dataclass
class BrokenField:
    a: int = 1

    @property
    def b(self):
        raise RuntimeError("do not show")


HOSTILE = {
    "raises": Raises,
    "raises everywhere": RaisesEverywhere,
    "lying class": LyingClass,
    "hostile metaclass": lambda: OfHostileMeta(),
    "broken mapping": BrokenMapping,
    "broken list": lambda: BrokenList([1]),
    "broken cursor": Nested,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_object_never_raises_and_never_shows_itself(name):
    value = HOSTILE[name]()
    for whole in (value, {"a": value}, [1, (value,)]):
        shaped = shape(whole)
        assert "do not show" not in text_of(shaped.data)
        assert shaped.notes in {("unrepresentable",), ("unread",)}


def test_a_hostile_key_gets_the_name_of_its_type():
    class Key:
        __str__ = __repr__ = boom

    shaped = shape({Key(): 1})
    assert list(shaped.data.values()) == [1]
    assert shaped.notes == ("unrepresentable",)


def test_what_could_be_read_of_a_broken_container_stays():
    assert shape(BrokenMapping()).data == {"a": 1}
    assert shape(BrokenList([1])).data == [1]


def test_a_broken_response_is_still_a_failure():
    shaped = shape(BrokenResponse())
    assert shaped.failure.status == 503
    assert shaped.data["body"] == "down"


@pytest.mark.parametrize("make", [list, dict], ids=["lists", "objects"])
def test_a_deep_value_is_cut_and_does_not_recurse(make):
    value = make()
    for _ in range(200_000):
        value = [value] if make is list else {"k": value}
    shaped = shape(value)
    assert shaped.notes == ("depth",)
    assert '{"$truncated": "depth"}' in text_of(shaped.data)
    while value:  # free it without recursion
        value = value.pop() if make is list else value.pop("k")


def test_an_endless_value_is_cut():
    shaped = shape({"a": Endless()})
    assert {"truncated", "cycle", "key_collision"} >= set(shaped.notes)
    text_of(shaped.data)


def test_a_few_objects_that_make_a_huge_tree_are_cut():
    value = ["x" * 1000]
    for _ in range(60):
        value = [value, value]
    shaped = shape(value, max_chars=1000)
    assert "truncated" in shaped.notes
    assert len(text_of(shaped.data)) < 1100


@settings(max_examples=20)
@given(st.integers(1, 30))
def test_threads_that_change_the_value_do_no_harm(size):
    value = {str(number): [number] for number in range(size)}
    stop = threading.Event()

    def change():
        while not stop.is_set():
            value["new"] = [1]
            value.pop("new", None)

    thread = threading.Thread(target=change)
    thread.start()
    try:
        for _ in range(50):
            assert shape(value).data.items() >= {str(number): [number] for number in range(size)}.items()
    finally:
        stop.set()
        thread.join()
