"""The report as one HTML page that needs nothing else: styles, charts and their library are inside."""

from __future__ import annotations

import json
import re
from importlib import resources
from typing import Any, Final

from fcguard.errors import MissingExtraError
from fcguard.evaluation.compare import p_text
from fcguard.evaluation.report.charts import build_charts, plotting_library

__all__ = ["render_html"]

_LINK: Final = re.compile(r"^(https?://[^\s\"'<>]+|(?![a-zA-Z][a-zA-Z0-9+.-]*:)[\w./@ -]+)$")


def render_html(document: dict[str, Any], *, charts: bool = True) -> str:
    """Render the document as one page.

    It opens without network (its own security policy forbids any), follows the reader's light or dark theme, is readable
    at 360 pixels, and can be used by keyboard. Every chart has its numbers in words beside it.

    Args:
        document: what `build_document` made.
        charts: put charts in; without them the page is some 5 MB smaller and needs no script.

    Raises:
        MissingExtraError: jinja2 or plotly is not installed.
    """
    try:
        from jinja2 import Environment, FunctionLoader, StrictUndefined, select_autoescape
    except ImportError as error:
        raise MissingExtraError("jinja2", "evaluation") from error
    folder = resources.files("fcguard.evaluation.report").joinpath("templates")

    def load(name: str) -> str:
        return folder.joinpath(name).read_text("utf-8")

    environment = Environment(
        loader=FunctionLoader(load),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["percent"] = lambda number: f"{number * 100:.1f}%"
    environment.filters["words"] = lambda text: str(text).replace("_", " ")
    environment.filters["value"] = _value
    environment.filters["p_value"] = p_text
    environment.tests["link"] = lambda text: bool(_LINK.match(str(text)))
    built = build_charts(document) if charts else []
    figures = {chart["id"]: chart["figure"] for chart in built}
    return environment.get_template("report.html").render(
        document=document,
        checks={check["indicator"]: check for check in document["gate"]["checks"]},
        charts=built,
        figures=_script_json(figures),
        library=plotting_library().replace("</script", "<\\/script") if built else "",
        style=load("report.css"),
        script=load("report.js"),
    )


def _script_json(value: Any) -> str:
    """Write JSON that cannot close the script element that it stands in."""
    text = json.dumps(value, ensure_ascii=True, sort_keys=True)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _value(value: dict[str, Any], *, percent: bool = False) -> str:
    if value["state"] != "ok":
        state = value["state"].replace("_", " ")
        return f"{state}: {value['reason']}" if value.get("reason") else state
    shown = f"{value['value'] * 100:.1f}%" if percent else f"{value['value']:.1f}"
    return f"{shown} ({value['k']} of {value['n']})" if "n" in value else shown
