"""The charts of the HTML report, as plotly figures in plain JSON; colours come from the page, so both themes fit."""

from __future__ import annotations

import json
from typing import Any, Final

from fcguard.errors import MissingExtraError

__all__ = ["build_charts", "plotting_library"]

_MOST_TOOLS: Final = 20
_COLOURS: Final = {"fail": "bad", "pass": "good", "inconclusive": "warn"}


def plotting_library() -> str:
    """Answer the source of plotly.js, to be put into the page.

    Raises:
        MissingExtraError: plotly is not installed.
    """
    try:
        from plotly.offline import get_plotlyjs  # type: ignore[import-untyped, unused-ignore]
    except ImportError as error:
        raise MissingExtraError("plotly", "evaluation") from error
    return str(get_plotlyjs())


def build_charts(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Build the charts that the document has data for.

    Returns:
        For each: `id`, `title`, `summary` (what the picture shows, in words), `figure` (data and layout).

    Raises:
        MissingExtraError: plotly is not installed.
    """
    try:
        import plotly.graph_objects as go  # type: ignore[import-untyped, unused-ignore]
    except ImportError as error:
        raise MissingExtraError("plotly", "evaluation") from error
    charts = [_rates(document, go), _score(document, go), _trials(document, go), _tools(document, go)]
    return [chart for chart in charts if chart is not None]


def _chart(name: str, title: str, summary: str, figure: Any) -> dict[str, Any]:
    figure.update_layout(template=None, margin={"l": 8, "r": 8, "t": 8, "b": 8}, bargap=0.35)
    figure.update_xaxes(automargin=True)
    figure.update_yaxes(automargin=True)
    return {"id": name, "title": title, "summary": summary, "figure": json.loads(figure.to_json())}


def _rates(document: dict[str, Any], go: Any) -> dict[str, Any] | None:
    rows = [item for item in document["indicators"] if item["value"]["state"] == "ok" and item["name"] != "stability"]
    if not rows:
        return None
    rows.reverse()
    values = [item["value"]["value"] * 100 for item in rows]
    above = [
        (item["interval"] or {"high": item["value"]["value"]})["high"] * 100 - value
        for item, value in zip(rows, values, strict=True)
    ]
    below = [
        value - (item["interval"] or {"low": item["value"]["value"]})["low"] * 100
        for item, value in zip(rows, values, strict=True)
    ]
    bars = go.Bar(
        x=values,
        y=[f"{item['priority']} {item['title']}" for item in rows],
        orientation="h",
        error_x={"type": "data", "symmetric": False, "array": above, "arrayminus": below, "thickness": 1.5, "width": 5},
        customdata=[item["text"] for item in rows],
        hovertemplate="%{y}: %{customdata}<extra></extra>",
        meta=[_COLOURS.get(item["decision"], "accent") for item in rows],
    )
    figure = go.Figure(bars)
    figure.update_xaxes(range=[0, 100], ticksuffix="%")
    words = "; ".join(f"{item['title']} {item['text']}" for item in reversed(rows))
    return _chart("chart-rates", "Rates with 95% intervals", words, figure)


def _score(document: dict[str, Any], go: Any) -> dict[str, Any] | None:
    rows = [row for row in document["score"]["dimensions"] if row["value"]["state"] == "ok"]
    if not rows:
        return None
    points = [row["value"]["value"] for row in rows]
    names = [f"{row['name']} / {row['maximum']}" for row in rows]
    hover = "%{x}: %{y:.1f}<extra></extra>"
    figure = go.Figure(
        [
            go.Bar(x=names, y=points, name="points", hovertemplate=hover, meta="accent"),
            go.Bar(
                x=names,
                y=[row["maximum"] - point for row, point in zip(rows, points, strict=True)],
                name="lost",
                hovertemplate=hover,
                meta="faint",
            ),
        ]
    )
    figure.update_layout(barmode="stack", legend={"orientation": "h", "y": 1.12})
    words = "; ".join(f"{row['name']} {row['text']} of {row['maximum']}" for row in rows)
    return _chart("chart-score", "Score by dimension", words, figure)


def _trials(document: dict[str, Any], go: Any) -> dict[str, Any] | None:
    strict = [row for row in document["trials"]["pass_hat_k"] if row["state"] == "ok"]
    lenient = [row for row in document["trials"]["pass_at_k"] if row["state"] == "ok"]
    if len(strict) < 2:
        return None
    figure = go.Figure()
    for rows, name, meta in ((lenient, "pass@k: at least one passes", "good"), (strict, "pass^k: all pass", "accent")):
        figure.add_scatter(
            x=[row["trials"] for row in rows],
            y=[row["value"] * 100 for row in rows],
            mode="lines+markers",
            name=name,
            meta=meta,
            hovertemplate="k = %{x}: %{y:.1f}%<extra></extra>",
        )
    figure.update_xaxes(dtick=1, title="trials (k)")
    figure.update_yaxes(range=[0, 100], ticksuffix="%")
    figure.update_layout(legend={"orientation": "h", "y": 1.12})
    words = "; ".join(f"pass^{row['trials']} {row['value'] * 100:.1f}%" for row in strict)
    return _chart("chart-trials", "All of k trials pass", words, figure)


def _tools(document: dict[str, Any], go: Any) -> dict[str, Any] | None:
    rows = sorted(document["tools"], key=lambda row: (-row["calls"], row["server"], row["tool"]))[:_MOST_TOOLS]
    if not rows:
        return None
    rows.reverse()
    names = [_tool_name(row) for row in rows]
    figure = go.Figure()
    for name, fields, meta in (
        ("valid", ("valid",), "good"),
        ("invalid, unreadable, unknown or over-broad", ("invalid", "unparsable", "unknown_tool", "over_broad"), "bad"),
        ("not checked", ("unchecked",), "faint"),
    ):
        counts = [sum(row[field] for field in fields) for row in rows]
        if any(counts):
            figure.add_bar(
                x=counts, y=names, orientation="h", name=name, meta=meta, hovertemplate="%{y}: %{x}<extra></extra>"
            )
    figure.update_layout(
        barmode="stack",
        legend={"orientation": "h", "y": 1.0, "yanchor": "bottom"},
        height=max(260, 90 + 24 * len(rows)),
    )
    words = "; ".join(f"{name} {row['calls']} calls" for name, row in zip(reversed(names), reversed(rows), strict=True))
    title = "Calls by tool" if len(document["tools"]) <= _MOST_TOOLS else f"Calls by tool (the {_MOST_TOOLS} most used)"
    return _chart("chart-tools", title, words, figure)


def _tool_name(row: dict[str, Any]) -> str:
    """Answer a short label; plotly reads some HTML in labels, so a name's own angle brackets are taken out."""
    full = f"{row['server']}/{row['tool']}" if row["server"] else row["tool"] or "(no name)"
    plain = full.replace("<", "‹").replace(">", "›")
    return plain if len(plain) <= 34 else f"{plain[:16]}…{plain[-16:]}"
