"""Sends one value to a tool with one parameter."""

from __future__ import annotations

from typing import Any

from fcguard.arguments import ArgumentSchema, Normalized


def sent(schema: Any, value: Any, *, effect: Any = "write", required: bool = True) -> Normalized:
    parameters = {
        "type": "object",
        "properties": {"p": schema},
        "required": ["p"] if required else [],
        "additionalProperties": False,
    }
    return ArgumentSchema.compile(parameters).normalize({"p": value}, effect=effect)
