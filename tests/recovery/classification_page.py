"""Writes the tables of docs/classification.md from the code: `python -m tests.recovery.classification_page`."""

from __future__ import annotations

import pathlib

from fcguard.recovery.classify_aws import AWS_CODES
from fcguard.recovery.classify_database import DRIVER_ERRORS, SQLITE_CODES, SQLSTATES
from fcguard.recovery.classify_http import CLIENT_DEFAULTS, CLIENT_ERRORS, STATUSES
from fcguard.recovery.classify_system import ERRNOS, MCP_CODES, PYTHON_ERRORS, TOOL_PROTOCOL_ERRORS
from fcguard.recovery.connecting import CONNECTING

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "classification.md"

TABLES = {
    "statuses": STATUSES,
    "clients": CLIENT_ERRORS,
    "wrappers": CLIENT_DEFAULTS,
    "aws": AWS_CODES,
    "sqlstates": SQLSTATES,
    "sqlite": SQLITE_CODES,
    "drivers": DRIVER_ERRORS,
    "errnos": ERRNOS,
    "python": PYTHON_ERRORS,
    "mcp": MCP_CODES,
    "protocols": TOOL_PROTOCOL_ERRORS,
}


def render(table):
    """Group the keys that mean the same into one row."""
    rows = {}
    for key, answer in table.items():
        rows.setdefault(answer, []).append(".".join(key) if isinstance(key, tuple) else str(key))
    lines = ["| what | error type | proof | why |", "|---|---|---|---|"]
    for answer, keys in rows.items():
        names = ", ".join(f"`{key}`" for key in keys)
        lines.append(f"| {names} | {answer.error_type} | {answer.proof} | {answer.reason} |")
    return "\n".join(lines)


def render_page(text):
    """Put the tables between their markers."""
    parts = {name: render(table) for name, table in TABLES.items()}
    parts["connecting"] = "\n".join(f"- `{module}.{function}`" for module, function in sorted(CONNECTING))
    for name, part in parts.items():
        begin, end = f"<!-- table: {name} -->", f"<!-- end: {name} -->"
        head, _, rest = text.partition(begin)
        _, _, tail = rest.partition(end)
        text = f"{head}{begin}\n\n{part}\n\n{end}{tail}"
    return text


if __name__ == "__main__":
    PAGE.write_text(render_page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
