"""Writing a report to files: the rendering is chosen by what is asked for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from fcguard.errors import UsageError
from fcguard.evaluation.report.html import render_html
from fcguard.evaluation.report.json_report import render_json
from fcguard.evaluation.report.junit import render_junit
from fcguard.evaluation.report.markdown import render_markdown

__all__ = ["RENDERINGS", "write_report"]

RENDERINGS: Final[dict[str, Callable[[dict[str, Any]], str]]] = {
    ".html": render_html,
    ".json": render_json,
    ".xml": render_junit,
    ".md": render_markdown,
}
"""Ending of a file name -> rendering."""


def write_report(document: dict[str, Any], path: str | Path) -> None:
    """Write the document in the form that the file's ending names.

    Raises:
        UsageError: the ending is none of `RENDERINGS`, or the file cannot be written.
    """
    path = Path(path)
    render = RENDERINGS.get(path.suffix.lower())
    if render is None:
        raise UsageError(f"report {str(path)!r}: unknown ending; use one of {', '.join(RENDERINGS)}")
    text = render(document)
    try:
        path.write_text(text, "utf-8")
    except OSError as error:
        raise UsageError(f"report {str(path)!r} cannot be written: {error}") from error
