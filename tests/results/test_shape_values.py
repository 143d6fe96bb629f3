"""The JSON form of every kind of value, one row each."""

from __future__ import annotations

import array
import collections
import collections.abc
import dataclasses
import datetime as dt
import decimal
import enum
import fractions
import io
import ipaddress
import json
import pathlib
import re
import types
import typing
import uuid
import zoneinfo

import attrs
import msgspec
import numpy as np
import pydantic
import pytest

from fcguard.results import shape


class Colour(enum.Enum):
    RED = "red"
    NESTED = (1, 2)


class Level(enum.IntEnum):
    HIGH = 3


class Word(enum.StrEnum):
    YES = "yes"


class Point(typing.NamedTuple):
    x: int
    y: int


@dataclasses.dataclass
class Order:
    order_id: str
    lines: list[Point]
    password: pydantic.SecretStr | None = None


@dataclasses.dataclass
class Half:
    known: int
    unknown: int = dataclasses.field(init=False)


@attrs.define
class Attrs:
    a: int
    b: object


class Struct(msgspec.Struct):
    a: int
    when: dt.date


class Model(pydantic.BaseModel):
    a: int
    when: dt.datetime
    secret: pydantic.SecretStr
    hidden: int = pydantic.Field(default=1, exclude=True)


class RawModel(pydantic.BaseModel):
    raw: bytes
    hidden: str = pydantic.Field(default="do not show", exclude=True)


class Listing(pydantic.RootModel[list[int]]):
    pass


class Bag(collections.abc.Set):
    def __init__(self, items):
        self.items = items

    def __contains__(self, item):
        return item in self.items

    def __iter__(self):
        return iter(self.items)

    def __len__(self):
        return len(self.items)


class OldModel:
    __module__ = "pydantic.main"

    def dict(self):
        return {"a": 1}


OldModel.__name__ = "BaseModel"


class Text(str):
    __slots__ = ()

    def __str__(self) -> str:
        return "something else"


class Number(int):
    pass


class Real(float):
    pass


class Opaque:
    def __init__(self) -> None:
        self.token = "do not show"

    def __repr__(self) -> str:
        return "do not show"


UTC = dt.UTC
VALUES = {
    "enum": (Colour.RED, "red", ()),
    "enum of a tuple": (Colour.NESTED, [1, 2], ()),
    "int enum": (Level.HIGH, 3, ()),
    "str enum": (Word.YES, "yes", ()),
    "decimal": (decimal.Decimal("1.10"), "1.10", ()),
    "decimal nan": (decimal.Decimal("NaN"), "NaN", ()),
    "fraction": (fractions.Fraction(1, 3), "1/3", ()),
    "complex": (1 + 2j, "(1+2j)", ()),
    "date": (dt.date(2026, 1, 30), "2026-01-30", ()),
    "datetime": (dt.datetime(2026, 1, 30, 12, tzinfo=UTC), "2026-01-30T12:00:00+00:00", ()),
    "time": (dt.time(1, 2, 3), "01:02:03", ()),
    "no time at all": (dt.timedelta(0), "PT0S", ()),
    "days": (dt.timedelta(days=2), "P2D", ()),
    "days and fractions": (dt.timedelta(days=1, milliseconds=1500), "P1DT1.5S", ()),
    "negative duration": (dt.timedelta(seconds=-90), "-PT90S", ()),
    "uuid": (uuid.UUID(int=7), "00000000-0000-0000-0000-000000000007", ()),
    "path": (pathlib.PurePosixPath("/a/b"), "/a/b", ()),
    "zone": (zoneinfo.ZoneInfo("UTC"), "UTC", ()),
    "pattern": (re.compile("a+"), "a+", ()),
    "address": (ipaddress.ip_address("::1"), "::1", ()),
    "network": (ipaddress.ip_network("10.0.0.0/8"), "10.0.0.0/8", ()),
    "tuple": ((1, "a"), [1, "a"], ()),
    "named tuple": (Point(1, 2), {"x": 1, "y": 2}, ()),
    "set": ({3, 1, 2}, [1, 2, 3], ()),
    "mixed set": ({"b", "a", 1, None, (2,)}, [None, 1, "a", "b", [2]], ()),
    "frozenset": (frozenset({"a"}), ["a"], ()),
    "deque": (collections.deque([1, 2]), [1, 2], ()),
    "range": (range(3), [0, 1, 2], ()),
    "array": (array.array("i", [1, 2]), [1, 2], ()),
    "dict keys": ({"z": 1, "a": 2}.keys(), ["z", "a"], ()),
    "dict values": ({"z": 1, "a": 2}.values(), [1, 2], ()),
    "own set": (Bag([2, 1]), [1, 2], ()),
    "old model": (OldModel(), {"a": 1}, ()),
    "counter": (collections.Counter("aab"), {"a": 2, "b": 1}, ()),
    "ordered dict": (collections.OrderedDict([("b", 1), ("a", 2)]), {"b": 1, "a": 2}, ()),
    "read-only mapping": (types.MappingProxyType({"a": {1}}), {"a": [1]}, ()),
    "namespace": (types.SimpleNamespace(a=1), {"a": 1}, ()),
    "dataclass": (Order("A1", [Point(1, 2)]), {"order_id": "A1", "lines": [{"x": 1, "y": 2}], "password": None}, ()),
    "dataclass with a secret": (
        Order("A1", [], pydantic.SecretStr("hush")),
        {"order_id": "A1", "lines": [], "password": "[redacted]"},
        (),
    ),
    "dataclass with a missing field": (Half(1), {"known": 1}, ()),
    "attrs": (Attrs(1, {2}), {"a": 1, "b": [2]}, ()),
    "msgspec": (Struct(1, dt.date(2026, 1, 2)), {"a": 1, "when": "2026-01-02"}, ()),
    "model": (
        Model(a=1, when=dt.datetime(2026, 1, 30, tzinfo=UTC), secret=pydantic.SecretStr("hush")),
        {"a": 1, "when": "2026-01-30T00:00:00Z", "secret": "**********"},
        (),
    ),
    "model that has no JSON": (
        RawModel(raw=b"\xff"),
        {"raw": {"$bytes": "/w==", "media_type": "application/octet-stream"}},
        ("bytes",),
    ),
    "root model": (Listing([1, 2]), [1, 2], ()),
    "bytes": (b"\xff\xd8\x00\x01", {"$bytes": "/9gAAQ==", "media_type": "application/octet-stream"}, ("bytes",)),
    "bytearray": (bytearray(b"GIF89a"), {"$bytes": "R0lGODlh", "media_type": "image/gif"}, ("bytes",)),
    "memoryview": (memoryview(b"a"), {"$bytes": "YQ==", "media_type": "application/octet-stream"}, ("bytes",)),
    "bytes in memory": (io.BytesIO(b"a"), {"$bytes": "YQ==", "media_type": "application/octet-stream"}, ("bytes",)),
    "text in memory": (io.StringIO("a"), "a", ()),
    "nan": ({"mean": float("nan"), "max": float("inf"), "n": 0}, {"mean": None, "max": None, "n": 0}, ("nan",)),
    "nan in a list": ([float("-inf")], [None], ("nan",)),
    "lone surrogate": ({"t": "a\ud835b"}, {"t": "a\\ud835b"}, ("surrogate",)),
    "lone surrogate in a key": ({"a\ud835": 1}, {"a\\ud835": 1}, ("surrogate",)),
    "lone surrogate in a list": (["\udc00"], ["\\udc00"], ("surrogate",)),
    "big integer": (2**53 + 1, 2**53 + 1, ()),
    "bigger integer": ({"n": 10**30}, {"n": 10**30}, ()),
    "huge integer": ([1 << 5000], [{"$int": hex(1 << 5000)}], ("integer",)),
    "str subclass": (Text("real"), "real", ()),
    "int subclass": ([Number(3)], [3], ()),
    "float subclass": ([Real("1.5"), Real("nan")], [1.5, None], ("nan",)),
    "number keys": ({1: "a", 2.5: "b", -1: "c"}, {"1": "a", "2.5": "b", "-1": "c"}, ()),
    "word keys": ({None: 1, False: 2}, {"null": 1, "false": 2}, ()),
    "compound keys": (
        {(1, "x"): 1, dt.date(2026, 1, 2): 2, Colour.RED: 3},
        {'[1,"x"]': 1, "2026-01-02": 2, "red": 3},
        (),
    ),
    "keys that collide with a numbered one": (
        {"1#2": 0, 1: "a", "1": "b"},
        {"1#2": 0, "1": "a", "1#3": "b"},
        ("key_collision",),
    ),
    "keys that collide": ({1: "a", "1": "b", "1#2": "c"}, {"1": "a", "1#2": "b", "1#2#2": "c"}, ("key_collision",)),
    "numpy number": ({"n": np.int64(3), "m": np.float32(0.5)}, {"n": 3, "m": 0.5}, ()),
    "numpy time": ([np.datetime64("2026-01-02")], ["2026-01-02"], ()),
    "generator": ((n for n in (1, 2)), {"$object": "generator"}, ("unrepresentable",)),
    "iterator": ({"i": iter([1])}, {"i": {"$object": "list_iterator"}}, ("unrepresentable",)),
    "type": ([int], [{"$object": "type"}], ("unrepresentable",)),
    "exception": ([ValueError("do not show")], [{"$object": "ValueError"}], ("unrepresentable",)),
}


@pytest.mark.parametrize("name", VALUES)
def test_form(name):
    value, data, notes = VALUES[name]
    shaped = shape(value)
    assert shaped.data == data
    assert type(shaped.data) is type(data)
    assert shaped.notes == notes
    assert shaped.failure is None
    assert shaped.size is None
    json.dumps(shaped.data, allow_nan=False, ensure_ascii=False).encode()


@pytest.mark.parametrize("value", [0, "", {}, [], None, False, 0.0, {"error": None}, {"success": False, "error": "no"}])
def test_falsy_values_and_error_words_stay_what_they_are(value):
    shaped = shape(value)
    assert shaped.data == value
    assert type(shaped.data) is type(value)
    assert (shaped.failure, shaped.notes) == (None, ())


@pytest.mark.parametrize(
    ("value", "kind"), [("a", "text"), ({}, "json"), (b"", "binary"), (Opaque(), "object"), ("\ud800", "text")]
)
def test_kind(value, kind):
    assert shape(value).kind == kind


def test_an_object_without_a_form_shows_its_type_alone():
    shaped = shape({"thing": Opaque(), "rest": 1})
    assert shaped.data == {"thing": {"$object": f"{__name__}.Opaque"}, "rest": 1}
    assert shaped.notes == ("unrepresentable",)


def test_a_value_that_stands_for_a_value_without_end_is_given_up():
    value = 1
    for number in range(9):
        value = enum.Enum(f"E{number}", {"A": value}).A
    assert shape(value).notes == ("unrepresentable",)


def test_a_class_whose_module_has_no_name():
    class Module:
        def __format__(self, form):
            raise RuntimeError

    class Nameless:
        __module__ = Module()

    assert shape(Nameless()).data == {"$object": "object"}


def test_a_generator_is_not_consumed():
    numbers = iter(range(3))
    shape({"numbers": numbers})
    assert list(numbers) == [0, 1, 2]


def test_a_cycle_is_named_and_a_shared_child_is_not():
    shared = [1]
    loop = {"name": "g", "shared": [shared, shared], "deep": [{}]}
    loop["deep"][0]["again"] = loop["deep"]
    loop["self"] = loop
    shaped = shape(loop)
    assert shaped.data == {
        "name": "g",
        "shared": [[1], [1]],
        "deep": [{"again": {"$cycle": "$.deep"}}],
        "self": {"$cycle": "$"},
    }
    assert shaped.notes == ("cycle",)


def test_a_cycle_through_lists_and_objects():
    order = Order("A1", [])
    order.lines.append(order)
    assert shape([order]).data == [{"order_id": "A1", "lines": [{"$cycle": "$[0]"}], "password": None}]


def test_a_long_path_of_a_cycle_is_cut():
    inner = {}
    inner["again"] = inner
    data = shape({"k" * 500: inner}).data
    path = data["k" * 500]["again"]["$cycle"]
    assert path.startswith("$.kkk")
    assert len(path) == 200


def test_the_result_is_a_copy():
    for value in ({"a": [1], "b": {"c": [2]}}, [[1], {"a": 1}], {"s": {1}, "a": [1]}):
        shaped = shape(value)
        before = json.dumps(shaped.data)
        for part in value.values() if isinstance(value, dict) else value:
            part.clear()
        assert json.dumps(shaped.data) == before


def test_a_dict_that_changes_while_it_is_read_is_still_shaped():
    class Key(str):
        __slots__ = ()

        def __str__(self) -> str:
            value["new"] = 1
            return "key"

    value = {Key("key"): 1, "a": 2}
    assert shape(value).data == {"key": 1, "a": 2}


def test_an_open_file_is_named_and_not_read(tmp_path):
    path = tmp_path / "report.txt"
    path.write_text("content")
    with path.open() as file:
        shaped = shape(file)
        assert file.read() == "content"
    assert (shaped.kind, shaped.notes, shaped.data) == ("file", ("unread",), {"$file": str(path)})
