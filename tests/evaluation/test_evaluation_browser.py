"""The HTML report in a real browser: charts are drawn, the console stays empty, nothing is wider than a small screen."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from fcguard.evaluation.importers.read import read_records
from fcguard.evaluation.metrics import Measures
from fcguard.evaluation.report.assess import assess
from fcguard.evaluation.report.write import write_report
from fcguard.evaluation.suites.traps import trap_catalogue, trap_gold

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--enable-logging=stderr",
    "--virtual-time-budget=5000",
)

MEASURE = """
<script>
window.addEventListener("load", function () {
  setTimeout(function () {
    var frame = document.querySelector("iframe"), page = frame.contentDocument;
    document.title = "done";
    document.body.dataset.width = page.documentElement.scrollWidth;
    document.body.dataset.charts = page.querySelectorAll(".plot .main-svg").length;
    document.body.dataset.tab = page.querySelectorAll("a, summary, [tabindex='0']").length;
  }, 1500);
});
</script>
<body><iframe src="report.html" style="width: 360px; height: 800px; border: 0"></iframe></body>
"""


@pytest.mark.skipif(BROWSER is None, reason="no Chromium is installed")
@pytest.mark.parametrize("scheme", ["0", "1"])
def test_the_report_in_a_browser_at_360_pixels(tmp_path: Path, scheme: str) -> None:
    assert BROWSER is not None
    calls = [{"tool": "web_search", "args": {"query": "a very long " + "word" * 60}, "status": "failed"}] * 3
    run = read_records(
        [{"task_id": "lured_by_name", "trial": trial, "calls": calls} for trial in range(3)], "tool_list"
    )
    found = assess([run], Measures(trap_gold("en"), trap_catalogue()))
    write_report(found.document, tmp_path / "report.html")
    (tmp_path / "frame.html").write_text(f"<!DOCTYPE html>{MEASURE}", "utf-8")
    done = subprocess.run(
        [
            BROWSER,
            *FLAGS,
            "--allow-file-access-from-files",
            f"--blink-settings=preferredColorScheme={scheme}",
            f"--user-data-dir={tmp_path / 'profile'}",
            "--dump-dom",
            (tmp_path / "frame.html").as_uri(),
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
    )
    assert "CONSOLE" not in done.stderr
    assert 'data-width="360"' in done.stdout or 'data-width="345"' in done.stdout, done.stdout[-400:]
    assert 'data-charts="0"' not in done.stdout
    assert "data-charts" in done.stdout
