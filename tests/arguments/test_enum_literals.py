"""`Literal[...]` with members of enums: the model sends their values, the function gets the members."""

from __future__ import annotations

import asyncio
from datetime import date
from enum import Enum, IntEnum, StrEnum
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field

from fcguard import Guard, MemoryStore, Tool
from fcguard.arguments.signature import read_signature
from fcguard.errors import ConfigurationError


class Colour(Enum):
    RED = "red"
    BLUE = "blue"
    NONE = None


class Level(Enum):
    LOW = 1
    HIGH = 2


class Place(Enum):
    CORNER = (0, 0)


class Size(StrEnum):
    SMALL = "s"


class Rank(IntEnum):
    FIRST = 1


class Other(Enum):
    RED = "red"


class Opaque(Enum):
    THING = object()


class Circle(BaseModel):
    kind: Literal[Colour.RED]
    radius: int


class Square(BaseModel):
    kind: Literal[Colour.BLUE] = Colour.BLUE
    side: int


class Dated(BaseModel):
    model_config = ConfigDict(strict=True)
    day: date
    colour: Literal[Colour.RED] = Colour.RED


Shape = Annotated[Circle | Square, Field(discriminator="kind")]


def given_to(annotation: Any, value: Any) -> Any:
    """Call a tool with one parameter of a type; answer what its function got, or why it was refused."""

    def tool(value: Any) -> Any:
        return value

    tool.__annotations__["value"] = annotation
    with Guard(store=MemoryStore()) as guard:
        guard.tool(tool, effect="read")
        result = guard.call("tool", {"value": value})
    return result.returned if result.success else (result.error_type, result.message)


@pytest.mark.parametrize(
    ("annotation", "sent", "got"),
    [
        (Literal[Colour.RED], "red", Colour.RED),
        (Literal[Colour.RED, Colour.BLUE], "blue", Colour.BLUE),
        (Literal[Colour.RED, Colour.BLUE], "Blue", Colour.BLUE),  # folded like any other enum
        (Literal[Colour.RED], Colour.RED, Colour.RED),  # from code
        (Literal[Colour.NONE, Colour.RED], None, Colour.NONE),
        (Literal[Level.LOW, Level.HIGH], 2, Level.HIGH),
        (Literal[Level.LOW, Level.HIGH], "2", Level.HIGH),
        (Literal[Place.CORNER], [0, 0], Place.CORNER),
        (Literal[Size.SMALL], "s", Size.SMALL),
        (Literal[Rank.FIRST], 1, Rank.FIRST),
        (Literal[Colour.RED, "other", 5], "red", Colour.RED),
        (Literal[Colour.RED, "other", 5], "other", "other"),
        (Literal[Colour.RED, "red"], "red", "red"),  # the text is there as it was sent
        (Literal[Colour.RED] | None, "red", Colour.RED),
        (Literal[Colour.RED] | None, None, None),
        (Literal["p"] | Literal[Colour.BLUE], "blue", Colour.BLUE),
        (str | Literal[Colour.RED], "red", "red"),  # the first that fits as it is
        (list[Literal[Colour.RED, Colour.BLUE]], ["red", "blue", "red"], [Colour.RED, Colour.BLUE, Colour.RED]),
        (dict[str, list[Literal[Level.HIGH]]], {"a": [2], "b": []}, {"a": [Level.HIGH], "b": []}),
        (dict[Literal[Colour.RED], int], {"red": 1}, {Colour.RED: 1}),
        (tuple[Literal[Colour.RED], int], ["red", 1], (Colour.RED, 1)),
        (set[Literal[Colour.RED, Colour.BLUE]], ["red"], {Colour.RED}),
        (Circle, {"kind": "red", "radius": 2}, Circle(kind=Colour.RED, radius=2)),
        (Circle | Square, {"kind": "blue", "side": 2}, Square(side=2)),
        (Shape, {"kind": "red", "radius": 2}, Circle(kind=Colour.RED, radius=2)),
        (list[Shape], [{"kind": "blue", "side": 1}, {"kind": "red", "radius": 2}], [Square(side=1), Circle(kind=Colour.RED, radius=2)]),
        (Dated, {"day": "2026-01-30"}, Dated(day=date(2026, 1, 30))),
        (Annotated[Literal[Colour.RED], Field(description="which")], "red", Colour.RED),
        (list[Literal[Colour.RED]] | list[Literal[Other.RED]], ["red"], [Colour.RED]),  # the first that fits
    ],
    ids=str,
)  # fmt: skip
def test_the_function_gets_the_member(annotation: Any, sent: Any, got: Any) -> None:
    answer = given_to(annotation, sent)
    assert (answer, type(answer)) == (got, type(got))


@pytest.mark.parametrize(
    ("annotation", "sent", "word"),
    [
        (Literal[Colour.RED], "blue", "red"),
        (Literal[Colour.RED, Colour.BLUE], "green", '"red", "blue"'),
        (Literal[Level.LOW], True, "value"),
        (Literal[Level.LOW], 2, "1"),
        (list[Literal[Colour.RED]], ["red", "blue"], "value[1]"),
        (Circle, {"kind": "blue", "radius": 2}, "kind"),
        (Circle, {"kind": "red", "radius": "wide"}, "radius"),
        (Shape, {"kind": "green", "side": 1}, "kind"),
    ],
    ids=str,
)
def test_what_is_no_member_is_refused_and_named(annotation: Any, sent: Any, word: str) -> None:
    error, message = given_to(annotation, sent)
    assert error == "PARAM_INVALID"
    assert word in message


def test_only_what_is_wrong_is_named_where_a_member_is_right() -> None:
    class Even(BaseModel):
        kind: Literal[Colour.RED]
        number: Annotated[int, Field(multiple_of=2)]
        day: date

    error, message = given_to(Even, {"kind": "red", "number": 2, "day": "2026-02-31"})
    assert error == "PARAM_INVALID"
    assert "day" in message
    assert "kind" not in message


def test_a_branch_that_fails_for_another_reason_is_still_refused() -> None:
    class Early(BaseModel):
        kind: Literal[Colour.RED]
        day: date

    error, message = given_to(Early | Circle, {"kind": "red", "day": "2026-02-31"})
    assert error == "PARAM_INVALID"
    assert "day" in message


def test_a_tool_with_a_schema_of_its_own_gets_members_too(guard: Guard) -> None:
    def paint(colour: Literal[Colour.RED, Opaque.THING]) -> Any:
        return colour

    schema = {"type": "object", "properties": {"colour": {"type": "string"}}, "required": ["colour"]}
    guard.register(Tool(name="paint", parameters=schema, fn=paint, effect="read"))
    assert guard.call("paint", {"colour": "red"}).returned is Colour.RED
    assert guard.call("paint", {"colour": "thing"}).error_type == "PARAM_INVALID"


def test_the_schema_shows_the_values_and_a_default_is_the_member(guard: Guard) -> None:
    def paint(colour: Literal[Colour.RED, Colour.BLUE] = Colour.BLUE) -> Any:
        return colour

    guard.tool(paint, effect="read")
    shown = read_signature(paint, "paint").parameters["properties"]["colour"]
    assert (shown["enum"], shown["default"]) == (["red", "blue"], "blue")
    assert guard.call("paint").returned is Colour.BLUE
    assert guard.call("paint").normalized_args == {"colour": "blue"}


def test_two_enums_with_one_value_are_told_apart_by_where_they_stand(guard: Guard) -> None:
    def paint(first: Literal[Colour.RED], second: list[Literal[Other.RED]]) -> Any:
        return [first is Colour.RED, second[0] is Other.RED]

    guard.tool(paint, effect="read")
    assert guard.call("paint", {"first": "red", "second": ["red"]}).data == [True, True]


def test_a_member_that_json_cannot_carry_is_refused_where_the_tool_is_declared(guard: Guard) -> None:
    def paint(thing: Literal[Opaque.THING]) -> None: ...

    with pytest.raises(ConfigurationError, match="no JSON Schema"):
        guard.tool(paint)


def test_an_async_tool_gets_the_member_too(guard: Guard) -> None:
    @guard.tool(effect="write")
    async def paint(colours: list[Literal[Colour.RED, Colour.BLUE]]) -> list[str]:
        return [colour.name for colour in colours]

    with guard.task("paint"):
        assert asyncio.run(guard.acall("paint", '{"colours": ["blue", "red"]}')).data == ["BLUE", "RED"]


members = st.sampled_from([Colour.RED, Colour.BLUE])


@given(st.lists(st.dictionaries(st.text(max_size=3), st.none() | members, max_size=3), max_size=4))
def test_values_come_back_as_their_members_however_deep(value: list[dict[str, Any]]) -> None:
    annotation = list[dict[str, Literal[Colour.RED, Colour.BLUE] | None]]

    def tool(value: annotation) -> None: ...  # type: ignore[valid-type]

    tool.__annotations__["value"] = annotation
    sent = [{key: item and item.value for key, item in one.items()} for one in value]
    convert = read_signature(tool, "tool").convert
    assert convert is not None
    before = str(sent)
    assert convert.problems({"value": sent}) == ()
    assert convert({"value": sent})["value"] == value
    assert str(sent) == before
