"""The report in the terminal, with rich: the verdict, the indicators, the score and the worst cases."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from fcguard.errors import MissingExtraError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

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
        from rich.text import Text
    except ImportError as error:
        raise MissingExtraError("rich", "evaluation") from error
    console = console or Console()
    gate, unread = document["gate"], document["run"]["unread"]
    console.print(Text(document["title"], style="bold"))
    verdict = f"gate: {gate['outcome']} (exit {gate['exit_code']}): {gate['message']}"
    console.print(Text(verdict, style=_COLOURS[gate["outcome"]]))
    if unread["count"]:
        console.print(Text(f"not read: {unread['count']} things, e.g. {unread['first'][0]}", style="yellow"))
    console.print(_indicators(document))
    for item in document["indicators"]:
        if item["decision"] == "fail":
            console.print(Text(f"{item['priority']} {item['title']}: {item['fix']}", style="red"))
    console.print(_score(document["score"]))
    found = [case for case in document["cases"] if case["findings"] or case["outcome"] != "passed"][:most_cases]
    if found:
        console.print(_cases(found))


def _indicators(document: dict[str, Any]) -> Table:
    from rich.table import Table
    from rich.text import Text

    limits = {check["indicator"]: check["limit"] for check in document["gate"]["checks"]}
    head = ("", "indicator", "value", "95% interval", "decision", "limit")
    table = Table(*head, title="Indicators", title_justify="left")
    for item in document["indicators"]:
        decision = Text(item["decision"].replace("_", " "), style=_COLOURS[item["decision"]])
        limit = Text(limits.get(item["name"], ""))
        table.add_row(item["priority"], item["title"], Text(item["text"]), _interval(item), decision, limit)
    return table


def _score(score: dict[str, Any]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table("dimension", "points", "of", title=f"Score ({score['profile']})", title_justify="left")
    for row in score["dimensions"]:
        table.add_row(row["name"], Text(row["text"]), str(row["maximum"]))
    table.add_row("total", Text(_total(score)), "100", style="bold")
    return table


def _cases(cases: list[dict[str, Any]]) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table("severity", "task", "trial", "outcome", "findings", title="Worst cases", title_justify="left")
    for case in cases:
        findings = Text("; ".join(case["findings"]))
        table.add_row(case["severity"], Text(case["task_id"]), str(case["trial"]), case["outcome"], findings)
    return table


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
