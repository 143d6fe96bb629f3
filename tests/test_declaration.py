"""What a tool may look like, and what is refused when it is declared, with the fix in the message."""

from __future__ import annotations

import asyncio
import functools
import inspect
from dataclasses import dataclass, fields
from datetime import date
from enum import Enum
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field, field_validator

from fcguard import Applied, Bound, CallInfo, ConfirmBy, Environment, Guard, MemoryStore, Tool, ToolResult, current_call
from fcguard.errors import (
    ColourError,
    ConfigurationError,
    DuplicateToolError,
    SchemaError,
    ToolCallFailed,
    UsageError,
)
from fcguard.model.tool import ToolOptions

ANY = {"type": "object"}


def test_bare_and_with_options_keep_what_frameworks_look_at(guard: Guard) -> None:
    def find(order_id: str, limit: int = 10) -> list[str]:
        """Find orders."""
        return [order_id] * limit

    bare = guard.tool(find)
    named = guard.tool(effect="read", name="find_orders")(find)
    assert inspect.signature(bare) == inspect.signature(find)
    assert (bare.__name__, bare.__doc__, bare.__annotations__) == ("find", "Find orders.", find.__annotations__)
    assert bare.__wrapped__ is find
    result = named("A", limit=2)
    assert isinstance(result, ToolResult)
    assert result.unwrap() == ["A", "A"]
    assert [tool.name for tool in guard.tools] == ["find", "find_orders"]


def test_an_async_function_stays_a_coroutine_function(guard: Guard) -> None:
    @guard.tool(effect="read")
    async def find(key: str) -> str:
        return key

    assert inspect.iscoroutinefunction(find)
    assert asyncio.run(find("x")).data == "x"


def test_methods_bound_methods_callables_partials_and_static_methods(guard: Guard) -> None:
    class Shop:
        def __init__(self, name: str) -> None:
            self.name = name

        @guard.tool(effect="read")
        def where(self, sku: str) -> str:
            return f"{self.name}/{sku}"

        def count(self, sku: str) -> str:
            return f"{self.name} has {sku}"

        @guard.tool(effect="read")
        @staticmethod
        def unit(sku: str) -> str:
            return f"piece of {sku}"

    class Stock:
        """Look at the stock."""

        def __call__(self, sku: str) -> str:
            return f"stock of {sku}"

    def price(currency: str, sku: str) -> str:
        return f"{sku} in {currency}"

    shop = Shop("north")
    guard.tool(shop.count, effect="read")
    stock = guard.tool(Stock(), effect="read", name="stock")
    in_euro = guard.tool(functools.partial(price, "EUR"), effect="read", name="price_in_euro")
    assert shop.where(sku="S").data == "north/S"
    assert Shop("south").where("S").data == "south/S"
    assert Shop.unit("S").data == "piece of S"
    assert guard.call("count", {"sku": "S"}).data == "north has S"
    assert stock(sku="S").data == "stock of S"
    assert in_euro(sku="S").data == "S in EUR"


def test_a_method_tool_called_without_its_instance_says_so(guard: Guard) -> None:
    class Shop:
        @guard.tool(effect="read")
        def where(self, sku: str) -> str:
            return sku

    result = guard.call("where", {"sku": "S"})
    assert (result.success, result.attempts) == (False, 0)
    assert "instance" in result.message


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Line(BaseModel):
    sku: str
    quantity: int = Field(ge=1)

    @field_validator("sku")
    @classmethod
    def known(cls, value: str) -> str:
        if not value.startswith("S-"):
            raise ValueError("a sku begins with S-")
        return value


@dataclass
class Point:
    x: int
    y: int


def test_the_function_gets_what_its_annotations_promise(guard: Guard) -> None:
    seen: list[Any] = []

    @guard.tool(effect="read")
    def take(day: date, colour: Colour, lines: list[Line], point: Point | None = None) -> str:
        seen.extend([day, colour, lines, point])
        return "ok"

    arguments = {
        "day": "2026-01-15",
        "colour": "red",
        "lines": [{"sku": "S-1", "quantity": 2}],
        "point": {"x": 1, "y": 2},
    }
    result = guard.call("take", arguments)
    assert result.success, result.message
    assert seen == [date(2026, 1, 15), Colour.RED, [Line(sku="S-1", quantity=2)], Point(1, 2)]
    assert dict(result.normalized_args or {}) == arguments
    refused = guard.call("take", {**arguments, "lines": [{"sku": "X", "quantity": 2}]})
    assert (refused.error_type, refused.attempts) == ("PARAM_INVALID", 0)
    assert "S-" in refused.message


def test_python_values_from_code_are_validated_as_json(guard: Guard) -> None:
    @guard.tool(effect="read")
    def take(day: date, point: Point) -> str:
        return f"{day.isoformat()} {point.x}"

    assert take(date(2026, 1, 15), point=Point(1, 2)).data == "2026-01-15 1"


def test_call_info_by_annotation_and_by_function(guard: Guard) -> None:
    @guard.tool(effect="read", version="7", timeout=5.0)
    def who(key: str, info: CallInfo) -> dict[str, Any]:
        assert current_call().request_id == info.request_id
        assert info.remaining is not None
        assert 0 < info.remaining <= 5
        assert info.deadline is not None
        return {
            "version": info.tool_version,
            "attempt": info.attempt,
            "name": info.tool_name,
            "key": info.arguments["key"],
        }

    assert "info" not in guard.tools[0].parameters["properties"]
    result = who("k")
    assert result.data == {"version": "7", "attempt": 1, "name": "who", "key": "k"}


def test_bound_parameters_come_from_the_task_and_never_from_the_model(guard: Guard) -> None:
    @guard.tool(effect="read")
    def orders(status: str, tenant: Annotated[str, Bound("tenant")]) -> dict[str, str]:
        return {"tenant": tenant, "status": status}

    offered = guard.schemas("openai")[0]["function"]["parameters"]
    assert list(offered["properties"]) == ["status"]
    assert offered["required"] == ["status"]
    with guard.task("look", environment=Environment(name="a", tenant="t1")):
        assert guard.call("orders", {"status": "open"}).data == {"tenant": "t1", "status": "open"}
        spoofed = guard.call("orders", {"status": "open", "tenant": "t2"})
    assert (spoofed.success, spoofed.attempts, spoofed.failure_class) == (False, 0, "PARAMETER")
    without = guard.call("orders", {"status": "open"})
    assert (without.error_type, without.attempts) == ("STATE_FAILED", 0)


def test_an_idempotency_key_parameter_is_filled_by_the_platform(guard: Guard) -> None:
    seen: list[str] = []

    def put(sku: str, key: str) -> str:
        seen.append(key)
        return "ok"

    guard.tool(put, idempotency_key="key")
    assert "key" not in guard.tools[0].model_schema["properties"]
    with guard.task("put", task_id="t"):
        assert guard.call("put", {"sku": "1"}).success
    with guard.task("put", task_id="t"):
        assert guard.call("put", {"sku": "2"}).success
    assert len(set(seen)) == 2
    assert all(key.startswith("fcg-") for key in seen)


def test_a_given_schema_is_used_as_it_is(guard: Guard) -> None:
    schema = {
        "type": "object",
        "properties": {"doc_id": {"type": "string", "pattern": "^doc_[0-9]{1,9}$"}},
        "required": ["doc_id"],
        "additionalProperties": False,
    }
    guard.register(Tool(name="delete_doc", parameters=schema, fn=lambda doc_id: doc_id, effect="idempotent_write"))
    with guard.task("clean"):
        assert guard.call("delete_doc", {"doc_id": "*"}).error_type == "PARAM_INVALID"
        assert guard.call("delete_doc", {"doc_id": "doc_1"}).success
        assert guard.schemas("mcp")[0]["inputSchema"] == schema


def sync_tool(key: str = "") -> str:
    return key


async def async_tool(key: str = "") -> str:
    return key


async def async_rule(call: Any) -> None:
    return None


def numbers() -> Any:
    yield 1


REFUSED: list[tuple[str, Any, dict[str, Any], type[Exception], str]] = [
    ("unknown option", sync_tool, {"efect": "read"}, ConfigurationError, "did you mean 'effect'"),
    ("unknown option without a likeness", sync_tool, {"zzz": 1}, ConfigurationError, "known options"),
    ("unknown effect", sync_tool, {"effect": "reads"}, ConfigurationError, "idempotent_write"),
    ("async rule on a sync tool", sync_tool, {"rules": [async_rule]}, ColourError, "make it sync"),
    ("async confirm on a sync tool", sync_tool, {"confirm": async_rule}, ColourError, "make it sync"),
    ("async ready on a sync tool", sync_tool, {"ready": async_rule}, ColourError, "make it sync"),
    ("a rule that is none", sync_tool, {"rules": ["only reads"]}, ConfigurationError, "rule"),
    ("a text where a sequence belongs", sync_tool, {"business_key": "order_id"}, ConfigurationError, "('order_id',)"),
    ("no sequence", sync_tool, {"fallback": 3}, ConfigurationError, "sequence"),
    ("generator without a limit", numbers, {}, ConfigurationError, "max_items"),
    ("negative timeout", sync_tool, {"timeout": -1}, ConfigurationError, "timeout"),
    ("zero timeout", sync_tool, {"timeout": 0}, ConfigurationError, "None"),
    ("not a number of attempts", sync_tool, {"retry": 0}, ConfigurationError, "attempts"),
    (
        "retry of a destructive tool",
        sync_tool,
        {"effect": "destructive", "retry": 2},
        ConfigurationError,
        "never repeated",
    ),
    (
        "confirm on a read",
        sync_tool,
        {"effect": "read", "confirm": lambda call: Applied()},
        ConfigurationError,
        "effect='write'",
    ),
    ("settle on a read", sync_tool, {"effect": "read", "settle": 1.0}, ConfigurationError, "effect='write'"),
    (
        "business key that is no parameter",
        sync_tool,
        {"business_key": ["order"]},
        ConfigurationError,
        "parameters: key",
    ),
    ("normalizer of no parameter", sync_tool, {"normalize": {"amount": int}}, ConfigurationError, "parameters: key"),
    ("bound to nothing", sync_tool, {"bound": {"key": "wallet"}}, ConfigurationError, "tenant"),
    ("approval that is no word", sync_tool, {"approval": "sometimes"}, ConfigurationError, "'never'"),
    ("a fallback that is none", sync_tool, {"fallback": [3]}, ConfigurationError, "Fallback"),
    ("confirm that is nothing", sync_tool, {"confirm": "query"}, ConfigurationError, "ConfirmBy"),
    ("bad name", sync_tool, {"name": "two words"}, ConfigurationError, "tool name"),
    ("lambda without a name", lambda key: key, {}, ConfigurationError, "name='...'"),
    ("not callable", 3, {}, ConfigurationError, "callable"),
    ("async failed_when, also on an async tool", async_tool, {"failed_when": async_rule}, ColourError, "always sync"),
    ("async classifier on an async tool", async_tool, {"classifiers": [async_rule]}, ColourError, "always sync"),
    ("async normalizer on an async tool", async_tool, {"normalize": {"key": async_tool}}, ColourError, "always sync"),
    ("inline with a timeout", sync_tool, {"inline": True, "timeout": 1.0}, ConfigurationError, "leave one out"),
    ("zero result size", sync_tool, {"max_result_chars": 0}, ConfigurationError, "above 0"),
]


@pytest.mark.parametrize(
    ("fn", "options", "error", "hint"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED]
)
def test_misuse_is_refused_at_declaration(
    guard: Guard, fn: Any, options: dict[str, Any], error: type[Exception], hint: str
) -> None:
    with pytest.raises(error) as caught:
        guard.tool(fn, **options)
    assert hint in str(caught.value)
    assert guard.tools == ()


def test_signatures_that_cannot_work_are_refused(guard: Guard) -> None:
    def many(*keys: str) -> None: ...
    def odd(socket: asyncio.Queue[int]) -> None: ...
    def unresolved(key: Nowhere) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    for fn, hint in ((many, "*keys"), (odd, "socket"), (unresolved, "Nowhere")):
        with pytest.raises(ConfigurationError) as caught:
            guard.tool(fn)
        assert hint in str(caught.value)


def test_a_confirm_tool_that_writes_is_refused(guard: Guard) -> None:
    writes = guard.tool(sync_tool, name="writes")
    reads = guard.tool(sync_tool, name="reads", effect="read")
    with pytest.raises(ConfigurationError, match="may only read"):
        guard.tool(sync_tool, name="one", confirm=writes)
    with pytest.raises(ConfigurationError, match="ConfirmBy"):
        guard.tool(sync_tool, name="two", confirm=reads)
    guard.tool(sync_tool, name="three", confirm=ConfirmBy("reads", applied=bool))
    with pytest.raises(ConfigurationError, match="may only read"):
        guard.tool(sync_tool, name="four", confirm=ConfirmBy("writes", applied=bool))
    guard.tool(sync_tool, name="five", confirm=ConfirmBy("declared_later", applied=bool))
    with pytest.raises(ConfigurationError, match="effect='read'"):
        guard.tool(sync_tool, name="declared_later")


def test_names_that_collapse_to_one_are_refused(guard: Guard) -> None:
    guard.tool(sync_tool, name="get_by_id")
    for name in ("get_by_id", "get-by-id", "GetById"):
        with pytest.raises(DuplicateToolError, match="name="):
            guard.tool(sync_tool, name=name)
    assert len(guard.tools) == 1


def test_an_unusable_schema_is_refused_and_an_odd_one_is_a_finding(guard: Guard) -> None:
    with pytest.raises(SchemaError):
        guard.register(Tool(name="broken", parameters={"type": "object", "properties": 3}, fn=sync_tool))
    odd = {"type": "object", "properties": {"n": {"type": "integer", "enum": ["1", "2"]}, "d": {"type": "dict"}}}
    guard.register(Tool(name="odd", parameters=odd, fn=lambda **_: None, effect="read"))
    assert guard.findings("odd")
    with pytest.raises(UsageError, match="registered: odd"):
        guard.findings("nobody")


def test_register_takes_a_tool_and_nothing_else(guard: Guard) -> None:
    with pytest.raises(ConfigurationError, match="guard.tool"):
        guard.register(sync_tool)  # type: ignore[arg-type]


def test_the_options_are_those_of_a_tool() -> None:
    assert set(ToolOptions.__annotations__) == {field.name for field in fields(Tool)} - {"fn", "parameters"}


def test_worker_threads_must_be_a_number_above_zero() -> None:
    with pytest.raises(ConfigurationError, match="worker_threads"):
        Guard(store=MemoryStore(), worker_threads=0)


def test_a_governed_method_is_not_governed_twice(guard: Guard) -> None:
    class Shop:
        @guard.tool(effect="read")
        def where(self, sku: str) -> str:
            return sku

        def stock(self, sku: str) -> str:
            return f"stock of {sku}"

    with pytest.raises(ConfigurationError, match="governed already"):
        guard.tool(Shop().where, name="other", effect="read")
    guard.tool(Shop().stock, effect="read")
    assert guard.call("stock", {"sku": "S"}).data == "stock of S"
    assert [one["function"]["name"] for one in guard.schemas("openai")] == ["stock"]


def test_a_path_is_no_store() -> None:
    with pytest.raises(ConfigurationError, match=r"SQLiteStore\('ledger.db'\)"):
        Guard(store="ledger.db")


def test_what_a_tool_raised_is_chained_for_the_developer(guard: Guard) -> None:
    def broken() -> None:
        raise KeyError("typo")

    guard.tool(broken, effect="read")
    with pytest.raises(ToolCallFailed) as caught:
        guard.call("broken").unwrap()
    assert isinstance(caught.value.__cause__, KeyError)
    assert caught.value.__cause__.__traceback__ is not None
