"""The report as JSON: byte-identical for the same input, described by a published schema."""

from __future__ import annotations

import json
from importlib import resources
from typing import Any

__all__ = ["render_json", "report_schema"]


def render_json(document: dict[str, Any]) -> str:
    """Render the document as indented JSON with sorted keys and a newline at the end."""
    return json.dumps(document, ensure_ascii=False, indent=2, sort_keys=True, allow_nan=False) + "\n"


def report_schema() -> dict[str, Any]:
    """Answer the published JSON Schema of the report."""
    text = resources.files("fcguard.evaluation.report").joinpath("report.schema.json").read_text("utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema
