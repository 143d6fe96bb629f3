"""Laws of the canonical bytes: lossless, sorted, one form, and refusals instead of crashes."""

from __future__ import annotations

import datetime as dt
import enum
import json
import math
from collections.abc import Callable
from decimal import Decimal
from types import MappingProxyType
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fcguard.errors import StoreError
from fcguard.model.states import CallState
from fcguard.stores.canonical import decode, encode, record

# A lone surrogate that stands before another one could form a pair, which is the one character it stands for.
_texts = st.text(st.characters(exclude_categories=("Cs",)), max_size=20) | st.just("\ud800") | st.just("x\udfff")
_tags = st.sampled_from(
    ["$int:5", "$str:$int:5", "$float:nan", "$", "$x:", "$bytes:", "$decimal:1", "$date:", "a$int:1"]
)
_leaves = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(min_value=2**53 - 2, max_value=2**53 + 2),
    st.floats(allow_nan=False),
    _texts,
    _tags,
    st.binary(max_size=10),
    st.decimals(allow_nan=False),
    st.dates(),
    st.datetimes(),
    st.times(),
    st.uuids(),
)
values = st.recursive(
    _leaves,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_texts | _tags, inner, max_size=4),
    max_leaves=15,
)

Write = Callable[[object], bytes]
both = pytest.mark.parametrize("write", [encode, record])


@settings(deadline=None)
@given(values)
def test_what_is_encoded_is_decoded(value: object) -> None:
    assert decode(encode(value)) == value
    assert decode(record(value)) == value


@settings(deadline=None)
@given(values)
def test_a_record_differs_from_the_encoded_form_in_the_spelling_of_exponents_only(value: object) -> None:
    def spelled(data: bytes) -> str:
        return json.dumps(json.loads(data), ensure_ascii=True, separators=(",", ":"))  # keeps the order of keys

    assert spelled(record(value)) == spelled(encode(value))


@settings(deadline=None)
@given(values)
def test_the_bytes_are_sorted_compact_json(value: object) -> None:
    data = encode(value)
    parsed = json.loads(data)
    again = json.dumps(parsed, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    assert data == again.encode("utf-8", "backslashreplace")


@settings(deadline=None)
@given(values)
def test_no_reader_of_doubles_loses_an_integer(value: object) -> None:
    def check(item: object) -> None:
        if isinstance(item, dict):
            for inner in item.values():
                check(inner)
        elif isinstance(item, list):
            for inner in item:
                check(inner)
        elif isinstance(item, int):
            assert abs(item) <= 2**53

    check(json.loads(encode(value)))


@settings(deadline=None)
@given(st.dictionaries(_texts, st.integers(), min_size=2, max_size=6))
def test_the_order_of_keys_does_not_matter(value: dict[str, int]) -> None:
    assert encode(value) == encode(dict(reversed(value.items())))


@both
def test_floats_that_json_lacks_are_tagged(write: Write) -> None:
    assert write([math.inf, -math.inf]) == b'["$float:inf","$float:-inf"]'
    assert math.isnan(decode(write(math.nan)))
    assert decode(write({"a": [math.inf, 2**70]})) == {"a": [math.inf, 2**70]}


@both
@pytest.mark.parametrize("value", [2**53, -(2**53), 2**53 + 1, -(2**53) - 1, 10**30, 1234567890123456])
@pytest.mark.parametrize("wrap", [lambda n: n, lambda n: [n], lambda n: {"a": n}, lambda n: {"a": [0, n]}])
def test_integers_are_exact_wherever_they_stand(write: Write, value: int, wrap: object) -> None:
    data = write(wrap(value))  # type: ignore[operator]
    assert decode(data) == wrap(value)  # type: ignore[operator]
    assert (b"$int:" in data) is (abs(value) > 2**53)


@both
def test_long_digits_in_text_stay_text(write: Write) -> None:
    assert write({"card": "4111111111111111"}) == b'{"card":"4111111111111111"}'
    assert decode(write({"a": ":-1234567890123456789"})) == {"a": ":-1234567890123456789"}


class _Colour(enum.Enum):
    RED = 1


class _Number(enum.IntEnum):
    ONE = 1


@both
def test_kinds_of_values_have_one_form(write: Write) -> None:
    assert decode(write({"s": CallState.PARKED, "n": _Number.ONE, "t": (1, 2), "m": MappingProxyType({"a": 1})})) == {
        "s": "PARKED", "n": 1, "t": [1, 2], "m": {"a": 1},
    }  # fmt: skip
    assert decode(write([_Colour.RED, bytearray(b"x"), Decimal("1.10"), UUID(int=5)])) == [
        1, b"x", Decimal("1.10"), UUID(int=5),
    ]  # fmt: skip
    assert decode(write(dt.datetime(2026, 1, 30, tzinfo=dt.UTC))) == dt.datetime(2026, 1, 30, tzinfo=dt.UTC)


@both
def test_keys_that_are_numbers_become_text(write: Write) -> None:
    assert write({1: "a", 2: "b"}) == b'{"1":"a","2":"b"}'

    assert write({None: "$int:1", 1.5: 0, True: 1}) == b'{"1.5":0,"null":"$str:$int:1","true":1}'


@both
@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (object(), "'object', which has no JSON form"),
        ({"a": {1, 2}}, "'set', which has no JSON form"),
        ({b"a": 1}, "keys must be text"),
        ({("a",): 1}, "keys must be text"),
        ({1: "a", "1": "b"}, "two keys that are both '1'"),
    ],
)
def test_what_has_no_form_is_refused(write: Write, value: object, reason: str) -> None:
    with pytest.raises(StoreError, match=reason):
        write(value)


@both
def test_cycles_and_depth_are_refused(write: Write) -> None:
    cycle: list[object] = []
    cycle.append(cycle)
    with pytest.raises(StoreError, match="nested too deeply"):
        write(cycle)
    with pytest.raises(StoreError, match="nested too deeply"):
        write([cycle, math.nan])
    deep: list[object] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(StoreError, match="nested too deeply"):
        write({"deep": deep, "nan": math.nan})


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"\xff", b'"$int:x"', b'"$decimal:x"', b'"$bytes:x"', b'"$date:x"', b'"$uuid:x"', b"[" * 100_000],
)
def test_bytes_that_are_not_ours_are_refused(data: bytes) -> None:
    with pytest.raises(StoreError, match="cannot be read as JSON"):
        decode(data)
