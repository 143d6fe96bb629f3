"""Builders of sessions and gold that the tests of evaluation share."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fcguard.evaluation.catalogue import Catalogue, ToolSpec
from fcguard.evaluation.gold import Gold, parse_gold
from fcguard.evaluation.trace import CallRecord, Session

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"

needs_data = pytest.mark.skipif(not SHARED.is_dir(), reason="../shared/data is not here")


def call(tool: str, arguments: Any = None, **fields: Any) -> CallRecord:
    """Make a call that succeeded, unless told otherwise."""
    fields.setdefault("status", "succeeded")
    fields.setdefault("call_id", tool)
    return CallRecord(tool=tool, arguments=arguments, raw_arguments=arguments, **fields)


def session(*calls: CallRecord, task_id: str = "t", trial: int = 0, **fields: Any) -> Session:
    """Make a session of calls."""
    return Session(fields.pop("session_id", f"{task_id}#{trial}"), task_id, trial, calls=calls, **fields)


def gold_of(*steps: dict[str, Any], task_id: str = "t", **fields: Any) -> Gold:
    """Make the gold of one task."""
    return parse_gold({"version": 1, "suite": "s", "tasks": [{"id": task_id, "steps": list(steps), **fields}]})


def step(*tools: str, **fields: Any) -> dict[str, Any]:
    """Make a gold step: the first tool is best, the others are acceptable."""
    choices = [{"tool": tool, "tier": "best" if index == 0 else "acceptable"} for index, tool in enumerate(tools)]
    return {"any_of": choices, **fields}


def catalogue_of(**effects: str) -> Catalogue:
    """Make a catalogue of tools that take any object."""
    return Catalogue.of(ToolSpec(name, schema={"type": "object"}, effect=effect) for name, effect in effects.items())  # type: ignore[arg-type]
