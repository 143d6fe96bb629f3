"""The output contract: what data must look like, what a broken one means, and that it undoes nothing that was done."""

from __future__ import annotations

from typing import Any

import pytest

from fcguard import Guard, MemoryStore, OutputContract, TaskContext, Tool
from fcguard.errors import SchemaError, TaskError
from fcguard.results.contract import compile_contract
from tests.conftest import ANY_OBJECT, Mode, Script, add

ORDER = {
    "type": "object",
    "properties": {"id": {"type": "string"}, "lines": {"type": "array", "items": {"type": "integer"}}},
    "required": ["id"],
}


@pytest.mark.parametrize(
    ("data", "fault"),
    [
        ({"id": "A", "lines": [1]}, None),
        ({"id": "A"}, None),
        ({}, "the top: required"),
        ({"id": 7}, "at id: type"),
        ({"id": "A", "lines": [1, "x"]}, "at lines/1: type"),
        ([], "the top: type"),
        (None, "the top: type"),
    ],
)
@pytest.mark.parametrize("effect", ["read", "write"])
def test_a_tools_own_contract(guard: Guard, mode: Mode, data: Any, fault: str | None, effect: Any) -> None:
    add(guard, mode, Script(data), effect=effect, output=ORDER)
    with guard.task("contract"):
        result = mode.call(guard, "tool", {})
    if effect == "write":
        assert (result.success, result.data, result.effect) == (True, data, "applied")
        assert ("contract_broken" in result.flags) is (fault is not None)
    else:
        assert result.success is (fault is None)
        assert result.error_type == (None if fault is None else "RESULT_INVALID")
    assert (fault or "") in result.message


def test_the_contract_of_the_task_comes_on_top(guard: Guard, mode: Mode) -> None:
    add(guard, mode, Script({"id": "A"}), effect="read", output=ORDER)
    wanted = OutputContract(json_schema={"minProperties": 2}, required=("status", "id"))
    with guard.task("contract", output=wanted):
        result = mode.call(guard, "tool", {})
    assert result.error_type == "RESULT_INVALID"
    assert "minProperties" in result.message
    assert "'status' is missing" in result.message


def test_the_contract_of_the_task_is_not_for_what_the_platform_reads(guard: Guard, mode: Mode) -> None:
    from fcguard import ConfirmBy

    add(guard, mode, Script({"found": 1}), "look", effect="read")
    add(guard, mode, Script(TimeoutError()), confirm=ConfirmBy("look", applied=lambda data: True))
    with guard.task("contract", output=OutputContract(required=("id",))):
        result = mode.call(guard, "tool", {})
    assert (result.success, result.outcome_basis) == (True, "confirmed")


def test_a_message_names_a_few_faults_only(guard: Guard) -> None:
    schema = {"required": [f"field_{n}" for n in range(50)]}
    guard.register(Tool(name="tool", parameters=ANY_OBJECT, fn=lambda: {}, effect="read", output=schema))
    assert len(guard.call("tool").message) < 400


UNUSABLE = [
    {"type": "strin"},
    {"$ref": "#/$defs/Nowhere"},
    {"$ref": "https://example.com/order.json"},
    {"properties": 3},
    {"const": float("nan")},
    {"x": object()},
    "string",
]


@pytest.mark.parametrize("schema", UNUSABLE, ids=[str(number) for number in range(len(UNUSABLE))])
def test_a_contract_that_cannot_be_used_is_refused_before_any_call(guard: Guard, schema: Any) -> None:
    with pytest.raises(SchemaError):
        compile_contract(schema, "here")
    with pytest.raises(SchemaError, match="output"):
        guard.tool(lambda: None, name="tool", output=schema)
    assert guard.tools == ()


def test_a_task_with_an_unusable_contract_is_refused_when_it_is_opened(guard: Guard) -> None:
    with pytest.raises(TaskError, match="json_schema"):
        guard.task("x", output=OutputContract(json_schema={"type": "strin"}))


@pytest.mark.parametrize("effect", ["read", "write"])
def test_an_unusable_contract_that_slipped_in_undoes_nothing(effect: Any, tmp_path: Any) -> None:
    broken = OutputContract.model_construct(json_schema={"type": "strin"}, required=())
    context = TaskContext(task_id="t").model_copy(update={"output": broken})
    with Guard(store=MemoryStore(), evidence_dir=tmp_path) as guard:
        guard.register(Tool(name="tool", parameters=ANY_OBJECT, fn=lambda: {"a": 1}, effect=effect))
        try:
            result = guard.call("tool", context=context)
        except TaskError:
            return  # refused before the call: as good
    assert (result.success, result.flags) == (True, ("contract_unusable",))
