"""The report in the terminal, with rich: the verdict, the indicators, the score and the worst cases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fcguard.errors import MissingExtraError

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["print_report"]

_COLOURS: Final = {
    "pass": "green",
    "fail": "bold red",
    "inconclusive": "yellow",
    "not_checked": "dim",
    "usage": "bold red",
}


def print_report(document: dict[str, Any], console: Console | None = None, *, most_cases: int = 10) -> None:
    """Print the document.

    Args:
        document: what `build_document` made.
        console: where to print; default: standard output.
        most_cases: how many of the worst cases to list.

    Raises:
        MissingExtraError: rich is not installed.
    """
    try:
        from rich.console import Console
        from rich.table import Table
        from rich.text import Text
    except ImportError as error:
        raise MissingExtraError("rich", "evaluation") from error
    console = console or Console()
    gate = document["gate"]
    console.print(Text(document["title"], style="bold"))
    console.print(
        Text(f"gate: {gate['outcome']} (exit {gate['exit_code']}): {gate['message']}", style=_COLOURS[gate["outcome"]])
    )
    unread = document["run"]["unread"]
    if unread["count"]:
        console.print(Text(f"not read: {unread['count']} things, e.g. {unread['first'][0]}", style="yellow"))
    limits = {check["indicator"]: check["limit"] for check in gate["checks"]}
    table = Table(
        "", "indicator", "value", "95% interval", "decision", "limit", title="Indicators", title_justify="left"
    )
    for item in document["indicators"]:
        decision = item["decision"]
        table.add_row(
            item["priority"],
            item["title"],
            Text(item["text"]),
            _interval(item),
            Text(decision.replace("_", " "), style=_COLOURS[decision]),
            Text(limits.get(item["name"], "")),
        )
    console.print(table)
    for item in document["indicators"]:
        if item["decision"] == "fail":
            console.print(Text(f"{item['priority']} {item['title']}: {item['fix']}", style="red"))
    score = Table("dimension", "points", "of", title=f"Score ({document['score']['profile']})", title_justify="left")
    for row in document["score"]["dimensions"]:
        score.add_row(row["name"], Text(row["text"]), str(row["maximum"]))
    score.add_row("total", Text(_total(document["score"])), "100", style="bold")
    console.print(score)
    found = [case for case in document["cases"] if case["findings"] or case["outcome"] != "passed"][:most_cases]
    if found:
        cases = Table("severity", "task", "trial", "outcome", "findings", title="Worst cases", title_justify="left")
        for case in found:
            cases.add_row(
                case["severity"],
                Text(case["task_id"]),
                str(case["trial"]),
                case["outcome"],
                Text("; ".join(case["findings"])),
            )
        console.print(cases)


def _interval(item: dict[str, Any]) -> str:
    interval = item["interval"]
    if item["upper_bound"] is not None:
        return f"up to {item['upper_bound'] * 100:.1f}%"
    return f"{interval['low'] * 100:.1f} to {interval['high'] * 100:.1f}%" if interval else ""


def _total(score: dict[str, Any]) -> str:
    total = score["total"]
    if total["state"] != "ok":
        return str(total["reason"])
    return f"{total['value']:.1f} (coverage {score['coverage']:.0f}, {total['k']} of {total['n']} sessions)"
