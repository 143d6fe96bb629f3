"""Ids and keys: unique and sortable ids; one key for one effect, however the call is worded."""

from __future__ import annotations

import concurrent.futures
import json
import os
import random
import re
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fcguard.model.identity import canonical, digest_of, effect_key_of, idempotency_key_of, new_request_id

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=12,
)
OBJECTS = st.dictionaries(st.text(max_size=6), JSON, max_size=5)


@given(st.floats(0, 4e9))
def test_ids_have_one_form(now: float) -> None:
    assert re.fullmatch(r"fc-\d{8}-[0-9a-f]{19}", new_request_id(now))


@given(st.lists(st.integers(0, 10**12), min_size=2, max_size=20, unique=True))
def test_ids_sort_by_time_to_the_millisecond(moments: list[int]) -> None:
    ids = {moment: new_request_id(moment / 1000 + 0.0004) for moment in moments}
    assert sorted(moments) == sorted(moments, key=lambda moment: ids[moment])


def test_ids_of_one_millisecond_sort_in_the_order_of_their_making() -> None:
    ids = [new_request_id(1.0) for _ in range(5000)]
    turned = [later < earlier for earlier, later in pairwise(ids)].count(True)
    assert turned <= 1, "the count begins anew once in 65,536 ids"


def test_ids_tell_the_day_in_utc_also_when_days_change_back_and_forth() -> None:
    noon = 1_769_774_400.0
    for _ in range(2):
        assert [new_request_id(noon + day * 86_400)[:11] for day in (-1, 0, 1)] == [
            "fc-20260129",
            "fc-20260130",
            "fc-20260131",
        ]


def test_ids_are_unique_over_threads() -> None:
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        ids = [one for part in pool.map(lambda _: [new_request_id(1.0) for _ in range(2000)], range(8)) for one in part]
    assert len(set(ids)) == 16_000


def test_ids_are_unique_over_forks() -> None:
    reader, writer = os.pipe()
    for _ in range(3):
        if os.fork() == 0:
            os.write(writer, (" ".join(new_request_id(1.0) for _ in range(50)) + " ").encode())
            os._exit(0)
        os.wait()
    os.close(writer)
    with os.fdopen(reader) as pipe:
        ids = pipe.read().split() + [new_request_id(1.0) for _ in range(50)]
    assert len(ids) == len(set(ids)) == 200


def test_seeding_the_global_generator_changes_nothing() -> None:
    random.seed(1)
    first = new_request_id(1.0)
    random.seed(1)
    assert new_request_id(1.0) != first


def shuffled(value: Any, order: random.Random, *, is_exact: bool = False) -> Any:
    """Word a JSON value differently: other order of keys, and unless exact, whole numbers with and without a point."""
    if isinstance(value, dict):
        items = [(key, shuffled(item, order, is_exact=is_exact)) for key, item in value.items()]
        order.shuffle(items)
        return dict(items)
    if isinstance(value, list):
        return [shuffled(item, order, is_exact=is_exact) for item in value]
    if is_exact:
        return value
    if type(value) is int and abs(value) < 2**53 and order.random() < 0.5:
        return float(value)
    if isinstance(value, float) and value.is_integer() and order.random() < 0.5:
        return int(value)
    return value


@given(JSON, st.randoms(use_true_random=False))
def test_equal_values_have_one_text(value: Any, order: random.Random) -> None:
    text = canonical(value)
    assert text == canonical(shuffled(value, order, is_exact=True))
    assert json.loads(text) == value
    assert text.isascii()


@given(JSON, JSON)
def test_different_values_have_different_texts(left: Any, right: Any) -> None:
    if canonical(left) == canonical(right):
        assert json.dumps(left, sort_keys=True) == json.dumps(right, sort_keys=True)


def test_an_integer_is_not_its_float_where_exactness_counts() -> None:
    assert len({canonical(value) for value in (1, 1.0, True, "1")}) == 4


@given(OBJECTS, st.randoms(use_true_random=False))
def test_keys_are_stable_over_rewording(arguments: dict[str, Any], order: random.Random) -> None:
    again = shuffled(arguments, order)
    assert digest_of("t", arguments) == digest_of("t", again)
    assert effect_key_of("a", "t", arguments, None) == effect_key_of("a", "t", again, None)
    assert idempotency_key_of("a", "t", "1", "s", arguments, None) == idempotency_key_of(
        "a", "t", "1", "s", again, None
    )


def test_a_business_key_ignores_the_rest() -> None:
    keys = {
        effect_key_of("a", "pay", {"invoice": "7", "memo": memo}, ("invoice",))
        for memo in ("March", "the one for March")
    }
    assert len(keys) == 1
    assert effect_key_of("a", "pay", {"invoice": "8"}, ("invoice",)) not in keys
    assert effect_key_of("a", "pay", {"invoice": 7}, ("invoice",)) not in keys


def test_every_part_of_the_identity_counts() -> None:
    base: tuple[Any, ...] = ("tenant", "tool", "1", "scope", {"a": 1}, None)
    others = [
        (None, *base[1:]),
        ("other", *base[1:]),
        (base[0], "other", *base[2:]),
        (*base[:2], "2", *base[3:]),
        (*base[:3], "other", *base[4:]),
        (*base[:4], {"a": 2}, None),
        (*base[:4], {"a": "1"}, None),
        (*base[:4], {"a": True}, None),
    ]
    keys = [idempotency_key_of(*parts) for parts in (base, *others)]
    assert len(set(keys)) == len(keys)
    assert all(re.fullmatch(r"fcg-[0-9a-f]{32}", key) for key in keys)


@pytest.mark.parametrize("separator", ["\x1f", ":", "1:", ",", ""])
def test_parts_cannot_flow_into_each_other(separator: str) -> None:
    left = idempotency_key_of(f"a{separator}b", "c", "1", "s", {}, None)
    right = idempotency_key_of("a", f"b{separator}c", "1", "s", {}, None)
    assert left != right
    assert idempotency_key_of("t", "x", f"1{separator}s", "u", {}, None) != idempotency_key_of(
        "t", "x", "1", f"s{separator}u", {}, None
    )


def test_what_is_no_json_value_has_a_text_too() -> None:
    assert canonical({"a": float("nan"), "b": object}) == canonical({"b": object, "a": float("nan")})
    assert digest_of("t", {"a": "\ud800"}) != digest_of("t", {"a": "\ud801"})
