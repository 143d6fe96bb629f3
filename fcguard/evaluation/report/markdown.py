"""The report as Markdown, short enough for a pull request comment."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = ["render_markdown"]


def render_markdown(document: dict[str, Any], *, most_cases: int = 20) -> str:
    """Render the document as Markdown: the verdict, the indicators with their first fix, the score, the worst cases."""
    gate = document["gate"]
    lines = [
        f"# {_cell(document['title'])}",
        "",
        f"**Gate: {gate['outcome']}** (exit {gate['exit_code']}): {_cell(gate['message'])}",
    ]
    unread = document["run"]["unread"]
    if unread["count"]:
        lines += [
            "",
            f"{unread['count']} things in the trace could not be read, e.g. {_cell('; '.join(unread['first'][:3]))}",
        ]
    checks = {check["indicator"]: check for check in gate["checks"]}
    rows = []
    for item in document["indicators"]:
        check = checks.get(item["name"], {"decision": "not_checked", "limit": ""})
        interval = item["interval"]
        spread = f"{interval['low'] * 100:.1f} to {interval['high'] * 100:.1f}%" if interval else ""
        fix = item["fix"] if check["decision"] == "fail" else ""
        rows.append(
            (
                item["priority"],
                item["title"],
                item["text"],
                spread,
                check["decision"].replace("_", " "),
                check["limit"],
                fix,
            )
        )
    lines += ["", *_table(("", "indicator", "value", "95% interval", "decision", "limit", "first fix"), rows)]
    lines += ["", f"## Score (profile {document['score']['profile']})", "", *_score(document["score"])]
    if document["comparisons"]:
        lines += ["", "## Against the baseline", "", *_comparisons(document["comparisons"])]
    found = [case for case in document["cases"] if case["findings"] or case["outcome"] != "passed"][:most_cases]
    if found:
        worst = [
            (c["severity"], c["slice"], c["task_id"], str(c["trial"]), c["outcome"], "; ".join(c["findings"]))
            for c in found
        ]
        lines += [
            "",
            "## Worst cases",
            "",
            *_table(("severity", "slice", "task", "trial", "outcome", "findings"), worst),
        ]
    return "\n".join(lines) + "\n"


def _score(score: dict[str, Any]) -> list[str]:
    rows = [(row["name"], row["text"], str(row["maximum"])) for row in score["dimensions"]]
    total = score["total"]
    shown = f"{total['value']:.1f} ({total['k']} of {total['n']})" if total["state"] == "ok" else total["reason"]
    rows.append(("**total**", f"**{shown}**, coverage {score['coverage']:.0f}", "100"))
    return _table(("dimension", "points (sessions judged)", "of"), rows)


def _comparisons(rows: list[dict[str, Any]]) -> list[str]:
    cells = [
        (
            row["slice"],
            str(row["tasks"]),
            f"{row['before'] * 100:.1f}%",
            f"{row['after'] * 100:.1f}%",
            row["decision"],
            "" if row["more_prompts"] is None else str(row["more_prompts"]),
        )
        for row in rows
    ]
    return _table(("slice", "tasks", "before", "now", "decision", "more prompts needed"), cells)


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    lines += [f"| {' | '.join(_cell(cell) for cell in row)} |" for row in rows]
    return lines


def _cell(text: str) -> str:
    """Keep a text from breaking a table or becoming markup."""
    return " ".join(text.split()).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;").replace("`", "\\`")
