"""The tools that are timed: a flat one and a nested one, in both colours, and what they are called with."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated, Any, Literal, get_type_hints

import pydantic
from typing_extensions import TypedDict

__all__ = ["BAD", "GOOD", "NESTED", "Shipment", "ShipmentModel", "flat_tool", "nested_tool", "runs"]

GOOD: dict[str, Any] = {"order_id": "ORD-00412345", "reason": "damaged", "amount_cents": 4999, "note": "box crushed"}
BAD: dict[str, Any] = {"order_id": 7, "reason": "bored", "amount_cents": 0, "surprise": 1}
NESTED: dict[str, Any] = {
    "order_id": "ORD-00412345",
    "reason": "damaged",
    "amount_cents": 4999,
    "shipment": {"carrier": "post", "lines": [{"sku": "S-1", "quantity": 2}, {"sku": "S-2", "quantity": 1}]},
    "tags": ["fragile", "gift"],
}
Reason = Literal["damaged", "late", "other"]
Cents = Annotated[int, pydantic.Field(ge=1, le=500_000)]
runs = [0]
"""How often a tool was run: what shows that a path runs it exactly once."""


class Line(TypedDict):
    """One line of a shipment."""

    __pydantic_config__ = pydantic.ConfigDict(extra="forbid")  # type: ignore[misc]

    sku: Annotated[str, pydantic.Field(min_length=1, max_length=32)]
    quantity: Annotated[int, pydantic.Field(ge=1, le=999)]


class Shipment(TypedDict):
    """What was sent."""

    __pydantic_config__ = pydantic.ConfigDict(extra="forbid")  # type: ignore[misc]

    carrier: str
    lines: list[Line]


class LineModel(pydantic.BaseModel, extra="forbid"):
    """One line of a shipment, as an object."""

    sku: Annotated[str, pydantic.Field(min_length=1, max_length=32)]
    quantity: Annotated[int, pydantic.Field(ge=1, le=999)]


class ShipmentModel(pydantic.BaseModel, extra="forbid"):
    """What was sent, as an object."""

    carrier: str
    lines: list[LineModel]


def flat_tool(colour: str, delay: float = 0.0, name: str = "create_refund") -> Callable[..., Any]:
    """Make the tool with four flat parameters; an async one can wait `delay` seconds."""

    def refund(order_id: str, reason: Reason, amount_cents: Cents, note: str | None = None) -> dict[str, Any]:
        """Create a refund for an order."""
        runs[0] += 1
        return {"refund_id": "RF-" + order_id, "amount_cents": amount_cents}

    async def arefund(order_id: str, reason: Reason, amount_cents: Cents, note: str | None = None) -> dict[str, Any]:
        """Create a refund for an order."""
        runs[0] += 1
        if delay:
            await asyncio.sleep(delay)
        return {"refund_id": "RF-" + order_id, "amount_cents": amount_cents}

    made: Callable[..., Any] = arefund if colour == "async" else refund
    made.__annotations__ = get_type_hints(made, include_extras=True)  # not every peer resolves names by itself
    made.__name__ = made.__qualname__ = name
    return made


def nested_tool(colour: str, shape: Any) -> Callable[..., Any]:
    """Make the tool with five parameters, an object with an array of objects among them.

    Args:
        colour: `sync` or `async`.
        shape: type of the object: a `TypedDict` takes JSON as it is, a pydantic model has to be built for each call.
    """

    def ship(order_id: str, reason: Any, amount_cents: Any, shipment: Any, tags: Any = None) -> dict[str, Any]:
        """Create a refund for a shipment."""
        runs[0] += 1
        return {"refund_id": "RF-" + order_id, "amount_cents": amount_cents}

    async def aship(order_id: str, reason: Any, amount_cents: Any, shipment: Any, tags: Any = None) -> dict[str, Any]:
        """Create a refund for a shipment."""
        runs[0] += 1
        return {"refund_id": "RF-" + order_id, "amount_cents": amount_cents}

    made: Callable[..., Any] = aship if colour == "async" else ship
    made.__annotations__ |= {"reason": Reason, "amount_cents": Cents, "shipment": shape, "tags": list[str] | None}
    return made
