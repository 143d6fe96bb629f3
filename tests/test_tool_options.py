"""What the options of a tool may be: the same answer at declaration, whether it is decorated or registered."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import pytest
from tenacity import stop_after_delay, wait_fixed

from fcguard import Guard, Intent, OutputContract, Retry, TaskContext, Tool
from fcguard.errors import ConfigurationError, SchemaError, TaskError
from fcguard.tool_options import _CHECKS

NAN, INFINITE = float("nan"), float("inf")
SCHEMA = {
    "type": "object",
    "properties": {"order_id": {"type": "string"}},
    "required": ["order_id"],
    "additionalProperties": False,
}
OPEN = {"type": "object", "properties": {"order_id": {"type": "string"}}}


def put(order_id: str) -> str:
    return order_id


def decorate(guard: Guard, **options: Any) -> None:
    guard.tool(put, name="put", **options)


def register(guard: Guard, **options: Any) -> None:
    guard.register(Tool(name="put", fn=put, parameters=SCHEMA, **options))


def register_open(guard: Guard, **options: Any) -> None:
    guard.register(Tool(name="put", fn=put, parameters=OPEN, **options))


WRONG = [
    ("description", 3),
    ("title", 3),
    ("version", 3),
    ("version", ""),
    ("tags", {3}),
    ("tags", 3),
    ("timeout", INFINITE),
    ("timeout", NAN),
    ("timeout", threading.TIMEOUT_MAX * 2),
    ("timeout", -1),
    ("timeout", 10**400),
    ("timeout", "1"),
    ("timeout", True),
    ("settle", INFINITE),
    ("settle", NAN),
    ("settle", 1.0),
    ("retry", 0),
    ("retry", True),
    ("retry", Retry(attempts=2, wait=3)),  # type: ignore[arg-type]
    ("retry", Retry(attempts=2, stop=3)),  # type: ignore[arg-type]
    ("retry", Retry(attempts=2, max_wait=NAN)),
    ("retry", Retry(attempts=2, max_wait=INFINITE)),
    ("retry", Retry(attempts=2, max_wait=None)),  # type: ignore[arg-type]
    ("retry", Retry(attempts=0)),
    ("business_key", "order_id"),
    ("business_key", ("orderid",)),
    ("business_key", ()),
    ("business_key", (3,)),
    ("business_key", 3),
    ("idempotency_key", "idem"),
    ("idempotency_key", ""),
    ("idempotency_key", 3),
    ("idempotency_lifetime", 0),
    ("idempotency_lifetime", -1.0),
    ("idempotency_lifetime", float("inf")),
    ("idempotency_lifetime", NAN),
    ("idempotency_lifetime", "a day"),
    ("idempotency_lifetime", True),
    ("conditional", "yes"),
    ("classifiers", [3]),
    ("failed_when", 3),
    ("ready", 3),
    ("approval", 3),
    ("approval", "sometimes"),
    ("approval", bool),
    ("bound", {"zz": "tenant"}),
    ("bound", {"order_id": 3}),
    ("bound", {"order_id": "nobody"}),
    ("bound", 3),
    ("aliases", {"order_id": "id"}),
    ("aliases", {"order_id": [3]}),
    ("aliases", {"order_id": 3}),
    ("aliases", {"zz": ["id"]}),
    ("normalize", {"order_id": 3}),
    ("normalize", {"zz": str}),
    ("redact", "order_id"),
    ("redact", [3]),
    ("max_result_chars", 0),
    ("max_items", True),
    ("inline", "no"),
    ("cost", NAN),
    ("cost", -5),
    ("cost", "1"),
    ("polling", "x"),
    ("untrusted", None),
    ("rules", [3]),
    ("constraints", [3]),
    ("output", {"type": "nonsense"}),
    ("output", {"$ref": "https://example.com/schema.json"}),
    ("output", {"const": object()}),
    ("output", 3),
]


@pytest.mark.parametrize("declare", [decorate, register, register_open])
@pytest.mark.parametrize(("option", "value"), WRONG)
def test_what_cannot_work_is_refused_when_it_is_declared(
    guard: Guard, declare: Callable[..., None], option: str, value: Any
) -> None:
    with pytest.raises(ConfigurationError) as refused:
        declare(guard, **{"effect": "write", option: value})
    assert option.rstrip("s") in str(refused.value)
    assert guard.tools == ()


FINE = {
    "description": None,
    "title": "Put",
    "version": "2",
    "tags": ["stock"],
    "timeout": threading.TIMEOUT_MAX,
    "settle": 0,
    "retry": Retry(attempts=2, wait=wait_fixed(0), stop=stop_after_delay(1), max_wait=0),
    "business_key": ["order_id"],
    "idempotency_key": True,
    "conditional": True,
    "classifiers": [lambda outcome, call: None],
    "failed_when": lambda result: False,
    "ready": lambda call: True,
    "approval": lambda call: False,
    "aliases": {"order_id": ["id"]},
    "normalize": {"order_id": str},
    "redact": ["note"],
    "max_result_chars": 10,
    "max_items": None,
    "cost": 1,
    "polling": True,
    "untrusted": True,
    "output": {"type": "string"},
}


@pytest.mark.parametrize("declare", [decorate, register, register_open])
def test_what_can_work_does(guard: Guard, declare: Callable[..., None]) -> None:
    declare(guard, effect="write", inline=False, **FINE)
    with guard.task("put"):
        result = guard.call("put", {"id": "A"})
    assert (result.success, result.data, result.attempts) == (True, "A", 1)


def test_every_option_is_checked() -> None:
    by_meaning = {
        "name",
        "parameters",
        "fn",
        "effect",
        "confirm",
        "fallback",
        "recovery",
        "rules",
        "constraints",
        "output",
    }
    assert _CHECKS.keys() | by_meaning == {field.name for field in fields(Tool)}


def test_a_registered_tool_does_not_follow_what_it_was_made_of(guard: Guard) -> None:
    business_key, aliases = ["order_id"], {"order_id": ["id"]}
    register(guard, business_key=business_key, aliases=aliases, tags="stock")
    business_key.append("x")
    aliases.clear()
    tool = guard.tools[0]
    assert (tool.business_key, tool.aliases, tool.tags) == (("order_id",), {"order_id": ["id"]}, {"stock"})


def test_one_parameter_is_not_filled_twice(guard: Guard) -> None:
    with pytest.raises(ConfigurationError, match="keep one"):
        decorate(guard, bound={"order_id": "tenant"}, idempotency_key="order_id")


def test_a_schema_may_name_its_parameters_elsewhere(guard: Guard) -> None:
    composed = {"type": "object", "properties": {"a": {}}, "allOf": [{"properties": {"order_id": {"type": "string"}}}]}
    for number, schema in enumerate(({"type": "object"}, composed)):
        guard.register(Tool(name=f"put{number}", fn=lambda **sent: 1, parameters=schema, business_key=("order_id",)))
    assert [tool.business_key for tool in guard.tools] == [("order_id",)] * 2


def test_a_host_may_fill_what_the_schema_does_not_show(guard: Guard) -> None:
    def keep(order_id: str, key: str) -> str:
        return key

    guard.register(Tool(name="keep", fn=keep, parameters=SCHEMA, idempotency_key="key"))
    with guard.task("keep"):
        assert guard.call("keep", {"order_id": "A"}).unwrap().startswith("fcg-")


def test_an_output_contract_that_cannot_be_used_is_refused_where_it_is_given(guard: Guard) -> None:
    contract = OutputContract(json_schema={"type": "nonsense"})
    with pytest.raises(TaskError, match="output"):
        guard.task("put", output=contract)
    with pytest.raises(TaskError, match="output"):
        guard.task(context=TaskContext(output=contract))
    with pytest.raises(TaskError, match="output"):
        guard.call("put", {}, context=TaskContext(task_id="t", output=contract))


def test_an_output_schema_that_is_refused_says_why(guard: Guard) -> None:
    with pytest.raises(SchemaError, match="leads outside"):
        decorate(guard, output={"$ref": "https://example.com/schema.json"})


@pytest.mark.parametrize("context", [{}, 5, "t", []])
def test_what_is_no_context_is_refused_wherever_it_is_given(guard: Guard, context: Any) -> None:
    decorate(guard, effect="read")
    ways: list[Callable[[], object]] = [
        lambda: guard.task(context=context),
        lambda: guard.call("put", {"order_id": "A"}, context=context),
        lambda: guard.run(Intent("put", {"order_id": "A"}), context=context),
        lambda: guard.allowed(context),
    ]
    for way in ways:
        with pytest.raises(TaskError, match="no TaskContext"):
            way()


@pytest.mark.parametrize("option", ["allow", "forbid", "roles"])
@pytest.mark.parametrize("value", [5, "put", [5], [[]]])
def test_what_is_no_set_of_names_is_refused(guard: Guard, option: str, value: Any) -> None:
    with pytest.raises(TaskError):
        guard.task("put", **{option: value})


@pytest.mark.parametrize("options", [{"goal": 5}, {"environment": 5}, {"state": 5}, {"budget": 5}, {"task_id": 5}])
def test_a_task_of_something_else_is_refused(guard: Guard, options: dict[str, Any]) -> None:
    with pytest.raises(TaskError):
        guard.task(**options)
