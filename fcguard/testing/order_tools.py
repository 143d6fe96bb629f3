"""The tools of an order desk, governed: one reads, two write, each against a real service over HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from fcguard.guard import Guard
from fcguard.io import Clock
from fcguard.model.failure import Violation
from fcguard.model.outcome import Applied, NotApplied
from fcguard.model.tool import Tool
from fcguard.rules.preconditions import requires
from fcguard.stores.memory import MemoryStore
from fcguard.testing.faulty_store import FaultyStore
from fcguard.testing.order_service import OrderService, request_json

__all__ = ["ORDER_PARAMETERS", "order_guard"]

_ID: Final = {"type": "string", "minLength": 1}

ORDER_PARAMETERS: Final[dict[str, dict[str, Any]]] = {
    "query_order": {"type": "object", "properties": {"order_id": _ID}, "required": ["order_id"]},
    "create_order": {
        "type": "object",
        "properties": {"order_id": _ID, "sku": _ID, "quantity": {"type": "integer", "minimum": 1}},
        "required": ["order_id", "sku", "quantity"],
        "additionalProperties": False,
    },
    "pay_order": {
        "type": "object",
        "properties": {"order_id": _ID},
        "required": ["order_id"],
        "additionalProperties": False,
    },
}
"""Tool -> JSON Schema of its arguments."""

_ORDER: Final = {"type": "object", "required": ["order_id", "sku", "quantity", "status"]}


def order_guard(service: OrderService, folder: Path, *, clock: Clock | None = None) -> Guard:
    """Make a guard with the tools `query_order`, `create_order` and `pay_order` of a service.

    Its ledger is in memory and can be made to fail. Both writes may only touch orders that the task's state names
    (`state=State(resource_state={"orders": [...]})`), and only an open order may be paid.

    Args:
        service: the running service.
        folder: where evidence goes.
        clock: where time comes from; None: the machine's clocks.
    """
    guard = Guard(store=FaultyStore(MemoryStore()), evidence_dir=folder / "evidence", clock=clock)
    url = service.url

    def query_order(order_id: str) -> Any:
        return request_json("GET", f"{url}/orders/{order_id}")

    def create_order(order_id: str, sku: str, quantity: int) -> Any:
        return request_json("POST", f"{url}/orders", {"order_id": order_id, "sku": sku, "quantity": quantity})

    def pay_order(order_id: str) -> Any:
        return request_json("POST", f"{url}/orders/{order_id}/payment")

    def order_exists(call: Any) -> Applied | NotApplied:
        found = service.find(call.arguments["order_id"])
        return NotApplied() if found is None else Applied(found)

    def is_paid(call: Any) -> Applied | NotApplied:
        order_id = call.arguments["order_id"]
        return Applied({"order_id": order_id, "paid": True}) if service.count("payments", order_id) else NotApplied()

    def is_open(call: Any) -> bool:
        found = service.find(call.arguments["order_id"])
        return found is not None and found["status"] == "open"

    common: dict[str, Any] = {"timeout": 5.0, "settle": 1.0, "business_key": ("order_id",)}
    only_open = requires(is_open, code="ORDER_NOT_OPEN", message="Only an open order can be paid.")
    for tool in (
        _tool(
            "query_order", "Look an order up.", query_order, effect="read", timeout=5.0, output=_ORDER, untrusted=True
        ),
        _tool("create_order", "Create an order.", create_order, confirm=order_exists, rules=(_of_this_task,), **common),
        _tool("pay_order", "Pay an order.", pay_order, confirm=is_paid, rules=(_of_this_task, only_open), **common),
    ):
        guard.register(tool)
    return guard


def _tool(name: str, description: str, fn: Any, **options: Any) -> Tool:
    return Tool(name=name, parameters=ORDER_PARAMETERS[name], fn=fn, description=description, **options)


def _of_this_task(call: Any) -> Violation | None:
    """Refuse a write on an order that belongs to another task."""
    state: Mapping[str, Any] = call.context.state.resource_state
    orders = state.get("orders", ())
    if call.arguments["order_id"] in orders:
        return None
    shown = ", ".join(map(repr, orders)) or "none"
    return Violation(
        "ORDER_NOT_OF_TASK", f"This task is about {shown}, not {call.arguments['order_id']!r}.", "fix_arguments"
    )
