"""Tolerant reading of foreign values."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel, Field

from fcguard.adapters import wire
from fcguard.model.intent import Usage


class Slotted:
    __slots__ = ("name",)

    def __init__(self) -> None:
        self.name = "query_order"


class Hostile:
    @property
    def name(self) -> str:
        raise RuntimeError("no")


class BadDump:
    def __init__(self) -> None:
        self.name = "query_order"

    def model_dump(self, **_: Any) -> Any:
        raise RuntimeError("no")


class OddDump(BadDump):
    def model_dump(self, **_: Any) -> Any:
        return "no mapping"


class Model(BaseModel):
    meta: dict[str, Any] | None = Field(alias="_meta", default=None)
    name: str = "unset"
    count: int = 0


@dataclass
class Data:
    name: str


def test_fields_of_mappings_and_objects() -> None:
    assert wire.field({"name": 1}, "name") == 1
    assert wire.field(Slotted(), "name") == "query_order"
    nothings: list[Any] = [{}, Hostile(), 5, "text", [1], None, BaseModel]
    for nothing in nothings:
        assert wire.field(nothing, "name") is None
    assert wire.field("text", "index") is None  # a method is not a field
    assert wire.field(Data("x"), "__init__") is None


@pytest.mark.parametrize(
    ("value", "entries"),
    [
        ([1, 2], [1, 2]),
        ((1,), [1]),
        ({1: "b", 0: "a"}, ["a", "b"]),
        ({"10": "b", "9": "a"}, ["a", "b"]),
        ({"a": 1}, []),
        ({True: 1}, []),
        ({}, []),
        ("ab", []),
        (None, []),
    ],
)
def test_sequences(value: Any, entries: list[Any]) -> None:
    assert wire.sequence(value) == entries


@pytest.mark.parametrize(
    ("value", "number"),
    [(5, 5), (0, 0), (5.0, 5), (5.5, None), (-1, None), (True, None), ("5", None), (float("inf"), None), (None, None)],
)
def test_counts(value: Any, number: int | None) -> None:
    assert wire.count(value) == number


def test_usage() -> None:
    assert wire.usage_of(None, ("a",), "b", None) is None
    assert wire.usage_of({"a": 1, "b": 2}, ("a",), "b", 3) == Usage(1, 2, 3)
    assert wire.usage_of(None, ("a",), "b", 3) == Usage(None, None, 3)


@pytest.mark.parametrize(
    ("value", "copied"),
    [
        (Data("x"), {"name": "x"}),
        (BadDump(), {"name": "query_order"}),
        (OddDump(), {"name": "query_order"}),
        (Slotted(), "Slotted"),
        (Model.model_validate({"_meta": {"a": None}, "count": 1}), {"_meta": {"a": None}, "count": 1}),
        (b"\xff", "\ufffd"),
        ({1: (2,)}, {"1": [2]}),
        (Model, "ModelMetaclass"),
    ],
)
def test_plain_copies(value: Any, copied: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert wire.plain(value) == copied


def test_cycles_and_depth_end() -> None:
    loop: list[Any] = []
    loop.append(loop)
    assert wire.plain(loop) == ["..."]
    deep: Any = 1
    for _ in range(500):
        deep = [deep]
    depth = 0
    copied = wire.plain(deep)
    while isinstance(copied, list):
        copied, depth = copied[0], depth + 1
    assert (copied, depth) == ("...", 100)
    shared: list[Any] = [1]
    assert wire.plain([shared, shared]) == [[1], [1]]


def test_made_ids_avoid_given_ones() -> None:
    (made,) = wire.bind_ids([None], "seed")
    first, second = wire.bind_ids([None, made], "seed")
    assert second == made
    assert first != made


def test_lone_surrogates_do_no_harm() -> None:
    assert len(wire.bind_ids([None], "\ud800")[0]) == 9
    assert wire.label("\ud800") == "'\\ud800'"


def test_a_mapping_that_is_no_dict_is_an_object() -> None:
    class View(Mapping[str, int]):
        def __getitem__(self, key: str) -> int:
            return {"a": 1}[key]

        def __iter__(self) -> Any:
            return iter(["a"])

        def __len__(self) -> int:
            return 1

    assert wire.field(View(), "a") == 1
    assert wire.plain(View()) == {"a": 1}
