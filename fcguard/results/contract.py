"""The output contract: what the data of a success must look like."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import jsonschema_rs

from fcguard.model.call import Call
from fcguard.model.failure import ErrorType, Failure
from fcguard.model.identity import canonical

__all__ = ["broken_contract"]


def broken_contract(call: Call, data: Any) -> Failure | None:
    """Check data against the tool's `output` and the task's output contract.

    Returns:
        `RESULT_INVALID` for a read that breaks it. A write that breaks it is done: it is flagged `contract_broken`, never failed.
    """
    tool, contract = call.prepared.tool, call.context.output
    faults = []
    if tool.output is not None:
        faults += _faults(tool.output, data)
    if contract is not None and call.purpose == "primary":
        if contract.json_schema is not None:
            faults += _faults(contract.json_schema, data)
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


@lru_cache(maxsize=1024)
def _validator(schema_text: str) -> Any:
    return jsonschema_rs.validator_for(schema_text)


def _faults(schema: Any, data: Any) -> list[str]:
    validator = _validator(canonical(schema))
    if validator.is_valid(data):
        return []
    return [
        f"at {'/'.join(map(str, error.instance_path)) or 'the top'}: {error.kind.name}"
        for error in validator.iter_errors(data)
    ]
