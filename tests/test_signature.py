"""Signatures: the schema that a model sees, and the way back from JSON to what the annotations promise."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple
from uuid import UUID

import pytest
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, StringConstraints
from typing_extensions import TypedDict

from fcguard import Bound, CallInfo, Guard
from fcguard.arguments.signature import read_signature
from fcguard.errors import ConfigurationError


class Colour(Enum):
    RED = "red"


class Level(IntEnum):
    LOW = 1


class Line(BaseModel):
    sku: str
    quantity: int = 1


class Plain(TypedDict):
    limit: int
    tags: list[str]


class Strict(BaseModel):
    model_config = ConfigDict(strict=True)
    day: date


@dataclass
class Point:
    x: int


class Pair(NamedTuple):
    left: int
    right: int


class Options(TypedDict, total=False):
    limit: int
    since: date


def ran(guard: Guard, fn: Any, arguments: dict[str, Any]) -> Any:
    """Register a function that answers what it got, and call it."""
    guard.tool(fn, name="tool", effect="read")
    result = guard.call("tool", arguments)
    return result.returned if result.success else (result.error_type, result.message)


@pytest.mark.parametrize(
    ("annotation", "value", "got"),
    [
        (int, 1, 1),
        (float, 1.5, 1.5),
        (str, "x", "x"),
        (bool, True, True),
        (list[int], [1, 2], [1, 2]),
        (dict[str, int], {"a": 1}, {"a": 1}),
        (int | None, None, None),
        (int | str, "x", "x"),
        (Literal["a", "b"], "a", "a"),
        (Any, {"a": [None]}, {"a": [None]}),
        (date, "2026-01-30", date(2026, 1, 30)),
        (datetime, "2026-01-30T10:00:00Z", datetime.fromisoformat("2026-01-30T10:00:00+00:00")),
        (timedelta, "PT1H", timedelta(hours=1)),
        (Decimal, "1.10", Decimal("1.10")),
        (UUID, "12345678-1234-5678-1234-567812345678", UUID("12345678-1234-5678-1234-567812345678")),
        (Path, "a/b", Path("a/b")),
        (bytes, "abc", b"abc"),
        (set[int], [1, 2], {1, 2}),
        (tuple[int, str], [1, "a"], (1, "a")),
        (Sequence[int], [1], [1]),
        (Colour, "red", Colour.RED),
        (Level, 1, Level.LOW),
        (Line, {"sku": "S"}, Line(sku="S")),
        (Strict, {"day": "2026-01-30"}, Strict(day=date(2026, 1, 30))),
        (list[Line], [{"sku": "S", "quantity": 2}], [Line(sku="S", quantity=2)]),
        (dict[str, Point], {"a": {"x": 1}}, {"a": Point(1)}),
        (Pair, [1, 2], Pair(1, 2)),
        (Options, {"limit": 1, "since": "2026-01-30"}, {"limit": 1, "since": date(2026, 1, 30)}),
        (date | None, None, None),
        (date | None, "2026-01-30", date(2026, 1, 30)),
        (Annotated[int, Field(ge=1)], 3, 3),
        (Annotated[str, AfterValidator(str.upper)], "x", "X"),
        (Annotated[str, StringConstraints(strip_whitespace=True, to_lower=True)], " AbC ", "abc"),
        (Plain, {"limit": 1, "tags": ["a"]}, {"limit": 1, "tags": ["a"]}),
    ],
    ids=str,
)
def test_types(guard: Guard, annotation: Any, value: Any, got: Any) -> None:
    def tool(value: Any) -> Any:
        return value

    tool.__annotations__["value"] = annotation
    answer = ran(guard, tool, {"value": value})
    assert (answer, type(answer)) == (got, type(got))


@pytest.mark.parametrize("value", ["2026-02-31", "yesterday", 3])
def test_a_value_that_cannot_become_its_type_is_refused_before_the_call(guard: Guard, value: Any) -> None:
    def tool(day: date) -> None:
        raise AssertionError("entered")

    error, message = ran(guard, tool, {"day": value})
    assert error == "PARAM_INVALID"
    assert "day" in message


def test_a_validator_that_fails_in_its_own_way_is_a_problem_too(guard: Guard) -> None:
    def crash(value: str) -> str:
        raise KeyError(value)

    def tool(key: Annotated[str, AfterValidator(crash)]) -> None:
        raise AssertionError("entered")

    guard.tool(tool, effect="read")
    result = guard.call("tool", {"key": "x"})
    assert (result.error_type, result.message) == ("PARAM_INVALID", "key: cannot be used (KeyError)")


def test_a_validator_that_only_fails_the_second_time_still_leaves_a_write_unsent(guard: Guard) -> None:
    asked: list[str] = []

    def once(value: str) -> str:
        asked.append(value)
        if len(asked) > 1:
            raise ValueError("changed its mind")
        return value

    def tool(key: Annotated[str, AfterValidator(once)]) -> None:
        raise AssertionError("entered")

    guard.tool(tool)
    with guard.task("write"):
        result = guard.call("tool", {"key": "x"})
    assert (result.error_type, result.effect) == ("PARAM_INVALID", "not_applied")


def schema_of(fn: Any, **options: Any) -> dict[str, Any]:
    return read_signature(fn, "tool", **options).parameters


def test_required_optional_and_defaults() -> None:
    def tool(a: int, b: str = "x", *, c: float, d: list[int] | None = None, e: Any = None) -> None: ...

    schema = schema_of(tool)
    assert schema["required"] == ["a", "c"]
    assert schema["additionalProperties"] is False
    assert {name: sub.get("default") for name, sub in schema["properties"].items() if "default" in sub} == {
        "b": "x",
        "d": None,
        "e": None,
    }


def test_defaults_reach_the_function_as_it_wrote_them(guard: Guard) -> None:
    marker = object()

    def tool(a: int = 1, day: date = date(2026, 1, 1), own: Any = marker, colour: Colour = Colour.RED) -> Any:
        return (a, day, own, colour)

    assert ran(guard, tool, {}) == (1, date(2026, 1, 1), marker, Colour.RED)


def test_fields_of_pydantic_as_defaults(guard: Guard) -> None:
    def tool(
        a: int = Field(5, ge=1, description="how many"),
        tags: list[str] = Field(default_factory=lambda: ["new"]),
        day: date = Field(default=date(2026, 1, 1)),
        must: str = Field(min_length=2),
    ) -> Any:
        return (a, tags, day, must)

    schema = schema_of(tool)
    assert schema["required"] == ["must"]
    assert schema["properties"]["a"] == {"type": "integer", "minimum": 1, "default": 5, "description": "how many"}
    assert "default" not in schema["properties"]["tags"]
    assert ran(guard, tool, {"must": "ok"}) == (5, ["new"], date(2026, 1, 1), "ok")
    assert guard.call("tool", {"must": "x"}).error_type == "PARAM_INVALID"


def test_positional_only_parameters(guard: Guard) -> None:
    marker = object()

    def tool(a: int, b: Any = marker, c: int = 3, /, d: int = 4) -> Any:
        return (a, b, c, d)

    guard.tool(tool, effect="read")
    assert guard.call("tool", {"a": 1}).returned == (1, marker, 3, 4)
    assert guard.call("tool", {"a": 1, "c": 7}).returned == (1, marker, 7, 4)
    assert guard.call("tool", {"a": 1, "b": 2, "d": 9}).returned == (1, 2, 3, 9)


def test_positional_arguments_from_code(guard: Guard) -> None:
    @guard.tool(effect="read")
    def tool(a: int, b: int = 2, *, c: int = 3) -> Any:
        return [a, b, c]

    assert tool(1).data == [1, 2, 3]
    assert tool(1, 5, c=6).data == [1, 5, 6]
    for args, keywords in (((1, 2, 3), {}), ((1,), {"a": 2}), ((), {"z": 1})):
        result = tool(*args, **keywords)
        assert (result.failure_class, result.attempts) == ("PARAMETER", 0)


def test_open_signatures_take_anything(guard: Guard) -> None:
    def tool(a: int, **more: Any) -> Any:
        return {"a": a, **more}

    assert schema_of(tool)["additionalProperties"] is True
    assert ran(guard, tool, {"a": 1, "b": {"c": 2}}) == {"a": 1, "b": {"c": 2}}


def test_unannotated_parameters_take_any_json(guard: Guard) -> None:
    assert ran(guard, lambda a, b=None: [a, b], {"a": {"x": [1]}}) == [{"x": [1]}, None]


def test_string_annotations_of_a_closure(guard: Guard) -> None:
    class Local(BaseModel):
        n: int

    @guard.tool(effect="read")
    def tool(value: Local, maybe: Local | None = None) -> int:
        return value.n

    assert guard.call("tool", {"value": {"n": 3}}).data == 3
    assert tool(value={"n": 4}).data == 4
    assert guard.call("tool", {"value": {"n": "x"}}).attempts == 0


def test_parts_that_the_platform_fills_are_not_in_the_schema() -> None:
    def tool(
        a: int, info: CallInfo, tenant: Annotated[str, Bound("tenant")], other: CallInfo | None = None
    ) -> None: ...

    signature = read_signature(tool, "tool")
    assert set(signature.parameters["properties"]) == {"a", "tenant"}
    assert signature.bound == {"tenant": "tenant"}
    assert signature.info_parameter is not None


def test_shared_models_become_definitions() -> None:
    def tool(a: Line, b: list[Line]) -> None: ...

    schema = schema_of(tool)
    assert set(schema["$defs"]) == {"Line"}
    assert schema["properties"]["a"] == {"$ref": "#/$defs/Line"}


def test_partials_and_callable_objects(guard: Guard) -> None:
    class Adder:
        """Add."""

        def __call__(self, a: int, b: int = 1) -> int:
            return a + b

    assert set(schema_of(functools.partial(Adder(), 1))["properties"]) == {"b"}
    assert ran(guard, Adder(), {"a": 1}) == 2


@pytest.mark.parametrize(
    ("annotation", "hint"),
    [("Nowhere", "Nowhere"), ("1 +", "cannot be read"), ("list[Nowhere]", "Nowhere"), ("date.nope", "cannot be read")],
)
def test_annotations_that_cannot_be_used(annotation: Any, hint: str) -> None:
    def tool(value: Any) -> None: ...

    tool.__annotations__["value"] = annotation
    with pytest.raises(ConfigurationError, match=hint):
        read_signature(tool, "tool")


def test_a_function_without_a_signature_is_refused_with_a_way_out() -> None:
    with pytest.raises(ConfigurationError, match="JSON Schema"):
        read_signature(dict.update, "tool")


def test_a_registered_tool_may_have_no_readable_signature(guard: Guard) -> None:
    from fcguard import Tool

    guard.register(Tool(name="tool", parameters={"type": "object"}, fn=dict, effect="read"))
    assert guard.call("tool", {"a": 1}).data == {"a": 1}


def test_native_types_are_not_converted() -> None:
    def plain(
        a: int, b: str | None, c: list[dict[str, float]], d: Literal["x", 1] = "x", e: Plain | None = None
    ) -> None: ...

    assert read_signature(plain, "tool").convert is None


def test_generators_behind_objects_need_a_limit_too(guard: Guard) -> None:
    class Numbers:
        def __call__(self) -> Any:
            yield 1

    with pytest.raises(ConfigurationError, match="max_items"):
        guard.tool(Numbers(), name="numbers", effect="read")
    guard.tool(functools.partial(Numbers()), name="numbers", effect="read", max_items=5)
    assert guard.call("numbers").data == [1]
