"""The output contract: what the data of a success must look like."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import jsonschema_rs

from fcguard.errors import SchemaError
from fcguard.model.call import Call
from fcguard.model.failure import ErrorType, Failure
from fcguard.model.identity import canonical

__all__ = ["broken_contract", "compile_contract", "flag_incomplete"]


def broken_contract(call: Call, data: Any) -> Failure | None:
    """Check data against the tool's `output` and the task's output contract.

    Returns:
        `RESULT_INVALID` for a read that breaks it. A write that breaks it is done: it is flagged `contract_broken`, never failed.
        A contract that cannot be used is flagged `contract_unusable`; nothing is raised.
    """
    tool, contract = call.prepared.tool, call.context.output
    faults = []
    if tool.output is not None:
        faults += _faults(call, tool.output, data)
    if contract is not None and call.purpose == "primary":
        if contract.json_schema is not None:
            faults += _faults(call, contract.json_schema, data)
        missing = [name for name in contract.required if not (isinstance(data, dict) and name in data)]
        faults += [f"{name!r} is missing" for name in missing]
    if not faults:
        return None
    message = f"The result of {tool.name} breaks its output contract: {'; '.join(faults[:5])}."
    if not tool.is_read:
        call.flag("contract_broken")
        call.message = f"{message} The write itself was done; do not repeat it."
        return None
    return Failure.of(ErrorType.RESULT_INVALID, call.redactor.text(message), "result", reason="output contract")


def compile_contract(schema: Any, owner: str) -> None:
    """Refuse an output schema that cannot be used, before any call has run.

    Args:
        schema: JSON Schema of a tool's `output` or of a task's contract.
        owner: whose it is, for the message.

    Raises:
        SchemaError: it is not plain JSON, not a valid schema, or refers to something outside itself.
    """
    if not isinstance(schema, Mapping):
        raise SchemaError(f"{owner}: {schema!r} is no JSON Schema; give a dict")
    try:
        json.dumps(dict(schema), allow_nan=False)
        _validator(canonical(schema))
    except Exception as error:
        raise SchemaError(
            f"{owner} is no usable JSON Schema ({type(error).__name__}: {str(error).partition(chr(10))[0][:200]})"
        ) from None


def flag_incomplete(call: Call, envelope: Mapping[str, Any]) -> None:
    """Flag a failure of a task's own call `contract_broken` if its envelope leaves a field empty that the task's contract wants filled."""
    contract = call.context.output
    if contract is None or call.purpose != "primary":
        return
    if any(envelope.get(name) in (None, "", (), [], {}) for name in contract.required_on_failure):
        call.flag("contract_broken")


@lru_cache(maxsize=1024)
def _validator(schema_text: str) -> Any:
    return jsonschema_rs.validator_for(schema_text, retriever=_refuse_remote)


def _refuse_remote(uri: str) -> Any:
    raise ValueError(f"$ref leads outside the schema: {uri}; put it into '$defs'")


def _faults(call: Call, schema: Any, data: Any) -> list[str]:
    """Answer what is wrong with the data; a contract that cannot be applied is flagged: what was done stays done."""
    try:
        validator = _validator(canonical(schema))
        if validator.is_valid(data):
            return []
        return [
            f"at {'/'.join(map(str, error.instance_path)) or 'the top'}: {error.kind.name}"
            for error in validator.iter_errors(data)
        ]
    except Exception:  # e.g. a schema of a context that was never checked, or data beyond what the validator can read
        call.flag("contract_unusable")
        return []
