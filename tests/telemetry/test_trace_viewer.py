"""The example that sends the order check to a viewer sends what the picture in the documentation shows."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.telemetry.telemetry_collector import Collector

ROOT = Path(__file__).parents[2]
TREE = {
    ("order check", "execute_tool create_order"),
    ("execute_tool create_order", "fcguard.attempt create_order"),
    ("execute_tool create_order", "fcguard.recover"),
    ("fcguard.recover", "execute_tool query_order"),
    ("order check", "execute_tool query_order"),
    ("execute_tool query_order", "fcguard.attempt query_order"),
    ("order check", "execute_tool check_database"),
    ("execute_tool check_database", "fcguard.attempt check_database"),
    ("order check", "execute_tool report"),
    ("execute_tool report", "fcguard.attempt report"),
}
"""Each (parent, child) of the picture."""


def test_the_viewer_gets_the_tree_of_the_picture(tmp_path: Path, collector: Collector) -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "examples" / "view_trace.py"), collector.url],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        timeout=600,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    spans = collector.spans()
    names = {span.span_id: span.name for span in spans}
    assert {span.trace_id.hex() for span in spans} == {done.stdout.strip()}
    assert {(names[span.parent_span_id], span.name) for span in spans if span.parent_span_id} == TREE
    assert [span.name for span in spans if span.status.code == 2] == ["fcguard.attempt create_order"]
    assert list(tmp_path.iterdir()) == []


def test_the_picture_stands_in_the_page() -> None:
    page = (ROOT / "docs" / "telemetry.md").read_text(encoding="utf-8")
    picture = ROOT / "docs" / "images" / "trace-in-phoenix.png"
    assert f"images/{picture.name})" in page
    assert "examples/view_trace.py" in page
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert 10_000 < picture.stat().st_size < 400_000
