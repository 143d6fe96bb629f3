"""Arguments from code: Python values get their JSON form or are refused; hostile objects get an answer."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import ipaddress
import pathlib
import types
import uuid
from collections import OrderedDict, UserDict, deque, namedtuple
from collections.abc import Iterator, Mapping
from typing import Any

import pydantic
import pytest

from fcguard.arguments import ArgumentSchema, normalize
from fcguard.model.frozen import freeze

OPEN = ArgumentSchema.compile({"type": "object"})
DAY = ArgumentSchema.compile(
    {"type": "object", "properties": {"p": {"type": "string", "format": "date"}}, "additionalProperties": False}
)


class Colour(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


class Word(enum.StrEnum):
    YES = "yes"


class Text(str):
    __slots__ = ()


class Number(int):
    pass


class Real(float):
    pass


@dataclasses.dataclass
class Point:
    x: int
    when: dt.date


class Model(pydantic.BaseModel):
    user_name: str = pydantic.Field(alias="userName")
    inner: list[Point] = []


Pair = namedtuple("Pair", "a b")


class Indexed:
    def __index__(self) -> int:
        return 7


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (dt.date(2026, 1, 31), "2026-01-31"),
        (dt.datetime(2026, 1, 31, 9, 30, tzinfo=dt.UTC), "2026-01-31T09:30:00Z"),
        (dt.time(9, 30), "09:30:00"),
        (dt.timedelta(hours=1), "PT1H"),
        (decimal.Decimal("1.50"), "1.50"),
        (uuid.UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (pathlib.PurePosixPath("/a/b"), "/a/b"),
        (ipaddress.ip_address("192.0.2.1"), "192.0.2.1"),
        (b"text", "text"),
        (Colour.RED, "red"),
        (Level.HIGH, 3),
        (Word.YES, "yes"),
        (Text("a"), "a"),
        (Number(5), 5),
        (Real(2.5), 2.5),
        ((1, 2), [1, 2]),
        (Pair(1, "b"), [1, "b"]),
        ({3, 1, 2}, [1, 2, 3]),
        (frozenset({"b", "a"}), ["a", "b"]),
        (deque([1]), [1]),
        (Point(1, dt.date(2026, 1, 31)), {"x": 1, "when": "2026-01-31"}),
        (
            Model(userName="u", inner=[Point(2, dt.date(2026, 1, 1))]),
            {"userName": "u", "inner": [{"x": 2, "when": "2026-01-01"}]},
        ),
        (OrderedDict(a=1), {"a": 1}),
        (UserDict({"a": (1,)}), {"a": [1]}),
        (types.MappingProxyType({"a": 1}), {"a": 1}),
        (Indexed(), 7),
        ({Word.YES: 1, Text("k"): 2}, {"yes": 1, "k": 2}),
    ],
)
def test_python_values_get_their_json_form(value: Any, plain: Any) -> None:
    made = OPEN.normalize({"p": value, "list": [value]})
    assert made.problems == ()
    assert made.value == {"p": plain, "list": [plain]}
    assert type(made.value["p"]) is type(plain)
    if not isinstance(value, dict) or type(value) is not dict:
        assert {"p", "list[0]"} <= {fold.path for fold in made.folds if fold.rule == "python_value"}


def test_the_json_form_is_then_folded_and_validated() -> None:
    made = normalize({"type": "object", "properties": {"p": {"type": "number"}}}, {"p": decimal.Decimal("1.5")})
    assert (made.value, [fold.rule for fold in made.folds]) == ({"p": 1.5}, ["python_value", "number"])
    assert DAY.normalize({"p": dt.date(2026, 1, 31)}).value == {"p": "2026-01-31"}
    assert DAY.normalize({"p": dt.time(1, 2)}).error_type == "PARAM_INVALID"


def test_frozen_arguments_are_plain() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"type": "array"}, "b": {"type": "object"}},
        "additionalProperties": False,
    }
    frozen = freeze({"a": [1, {"x": [2]}], "b": {"y": 1}})
    made = ArgumentSchema.compile(schema).normalize(frozen)
    assert (made.value, made.folds) == ({"a": [1, {"x": [2]}], "b": {"y": 1}}, ())
    assert type(made.value) is dict
    assert type(made.value["a"]) is list
    assert OPEN.normalize(freeze({"a": [1], "f": 2.0})).folds == ()


class Screaming(str):
    __slots__ = ()

    def __str__(self) -> str:
        raise RuntimeError("no")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("no")

    __hash__ = str.__hash__


class NoItems(dict):  # type: ignore[type-arg]
    def items(self) -> Any:
        raise RuntimeError("no")


class NoRepr:
    def __repr__(self) -> str:
        raise RuntimeError("no")


class Liar:
    @property
    def __class__(self) -> Any:  # type: ignore[override]
        raise RuntimeError("no")


class Endless(Mapping[str, Any]):
    def __getitem__(self, key: str) -> Any:
        return self

    def __iter__(self) -> Iterator[str]:
        return iter(["a"])

    def __len__(self) -> int:
        return 1


class BadEnum(enum.Enum):
    SELF = object()


def cycle() -> dict[str, Any]:
    made: dict[str, Any] = {"a": []}
    made["a"].append(made)
    return made


def shared() -> dict[str, Any]:
    value: Any = ["x"]
    for _ in range(60):
        value = [value, value]
    return {"p": value}


HOSTILE: dict[str, Any] = {
    "cycle": cycle(),
    "shared": shared(),
    "deep": {"p": [[[[[{"a": [[[]]] * 2}]]]]] * 3, "q": object()},
    "object": {"p": object()},
    "function": {"p": lambda: 1},
    "class": {"p": int},
    "module": {"p": types},
    "generator": {"p": (number for number in range(3))},
    "nan": {"p": float("nan")},
    "infinity": {"p": [float("inf")]},
    "huge integer": {"p": 10**5000},
    "bytes": {"p": b"\xff"},
    "number key": {1: "x"},
    "none key": {None: "x"},
    "tuple key": {"p": {(1, 2): "x"}},
    "enum key": {Level.HIGH: "x"},
    "surrogate key": {"\ud800": 1},
    "nested surrogate key": {"p": [{"\ud800": 1}]},
    "no items": NoItems(a=1),
    "nested no items": {"p": NoItems(a=1)},
    "no repr": {"p": NoRepr()},
    "liar": {"p": Liar()},
    "liar itself": Liar(),
    "endless": Endless(),
    "bad enum": {"p": BadEnum.SELF},
    "set of objects": {"p": {object()}},
    "two spellings": {Word.YES: 1, "no": 2, Text("no"): 3, "yes ": 4, 5: 6},
    "two keys of one name": {"red": 1, Colour.RED: 2},
    "exception": ValueError("x"),
    "list": [1, 2],
    "number": 5,
    "boolean": True,
    "type": dict,
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize(
    "schema", [OPEN, DAY, ArgumentSchema.compile({"type": "object", "properties": {"p": {}}}, closed=True)]
)
def test_what_has_no_json_form_is_refused(schema: ArgumentSchema, name: str) -> None:
    raw = HOSTILE[name]
    made = schema.normalize(raw)
    assert made.value is None
    assert made.error_type == "PARAM_MALFORMED"
    assert made.next_action == "fix_arguments"
    assert made.message
    assert isinstance(made.raw, str)
    assert schema.check(raw)
    assert not schema.is_valid(raw)


def test_subclasses_with_hostile_methods_are_read_by_their_own_type() -> None:
    made = OPEN.normalize({"p": Screaming("x")})
    assert made.value == {"p": "x"}
    assert type(made.value["p"]) is str


def test_the_path_of_what_cannot_be_represented() -> None:
    assert OPEN.normalize({"a": [1, {"b": object()}]}).problems[0].path == "a[1].b"
    assert "object" in OPEN.normalize({"a": object()}).message


@pytest.mark.parametrize("signal", [KeyboardInterrupt, SystemExit])
def test_interrupts_pass(signal: type[BaseException]) -> None:
    class Interrupting(Mapping[str, Any]):
        def __getitem__(self, key: str) -> Any:
            raise signal

        def __iter__(self) -> Iterator[str]:
            return iter(["a"])

        def __len__(self) -> int:
            return 1

    with pytest.raises(signal):
        OPEN.normalize(Interrupting())


def test_half_a_surrogate_pair_in_a_value_is_kept_and_validated() -> None:
    items = {"type": "array", "items": {"type": "string", "maxLength": 1}}
    schema = ArgumentSchema.compile({"type": "object", "properties": {"p": items}})
    assert schema.normalize({"p": ["\ud83d"]}).value == {"p": ["\ud83d"]}
    assert [problem.path for problem in schema.normalize({"p": ["a", "\ud83d\ud83d"]}).problems] == ["p[1]"]
    assert "\\ud83d" in schema.normalize({"p": ["\ud83d\ud83d"]}).message


# -- own normalizers


def to_cents(value: Any) -> int:
    return round(float(str(value).lstrip("$")) * 100)


PAY = {
    "type": "object",
    "properties": {"amount": {"type": "integer"}, "to": {"type": "string"}},
    "required": ["to"],
    "additionalProperties": False,
}


def test_own_normalizers_run_first_and_are_recorded() -> None:
    compiled = ArgumentSchema.compile(PAY, normalizers={"amount": to_cents})
    made = compiled.normalize({"to": "a", "amount": "$12.50"})
    assert made.value == {"to": "a", "amount": 1250}
    assert [(fold.path, fold.rule, fold.before, fold.after) for fold in made.folds] == [
        ("amount", "normalizer", "$12.50", 1250)
    ]
    assert compiled.normalize({"to": "a", "Amount": 1}).value == {"to": "a", "amount": 100}
    assert compiled.normalize({"to": "a"}).value == {"to": "a"}
    same = ArgumentSchema.compile(PAY, normalizers={"to": str.strip})
    assert same.normalize({"to": "a"}).folds == ()
    assert compiled.normalize({"to": "a", "amount": None}).value == {"to": "a"}


def test_what_a_normalizer_makes_is_folded_and_validated() -> None:
    compiled = ArgumentSchema.compile(
        PAY, normalizers={"amount": lambda value: decimal.Decimal("5"), "to": lambda value: None}
    )
    made = compiled.normalize({"to": "a", "amount": 1})
    assert made.error_type == "PARAM_INVALID"
    assert [problem.path for problem in made.problems] == ["to"]


@pytest.mark.parametrize("broken", [lambda value: 1 / 0, lambda value: object(), lambda: 1])
def test_a_failing_normalizer_refuses_the_call(broken: Any) -> None:
    made = ArgumentSchema.compile(PAY, normalizers={"amount": broken}).normalize({"to": "a", "amount": 5})
    assert made.error_type == "NORMALIZER_FAILED"
    assert made.next_action == "escalate_to_platform"
    assert [problem.rule for problem in made.problems] == ["normalizer"]


def test_a_normalizer_runs_once_and_cannot_reach_the_callers_object() -> None:
    seen = []

    def remember(value: Any) -> Any:
        seen.append(value)
        value.append("more")
        return value

    schema = {
        "type": "object",
        "properties": {"tags": {"type": "array"}},
        "allOf": [{"properties": {"tags": {"minItems": 1}}}],
    }
    raw = {"tags": ["a"]}
    made = ArgumentSchema.compile(schema, normalizers={"tags": remember}).normalize(raw)
    assert made.value == {"tags": ["a", "more"]}
    assert raw == {"tags": ["a"]}
    assert len(seen) == 1
