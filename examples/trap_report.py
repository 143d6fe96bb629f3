"""Evaluate two scripted agents on the eight tool-selection traps and write their reports.

Run: `python examples/trap_report.py [FOLDER]`. It writes `careful.html` and `hasty.html` (and the same as JSON) and
prints both verdicts. The careful agent chooses well; the hasty one walks into most traps. No model is asked.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Any

from fcguard.evaluation.importers.read import read_records
from fcguard.evaluation.metrics import Measures
from fcguard.evaluation.report.assess import Assessment, assess
from fcguard.evaluation.report.document import ReportOptions
from fcguard.evaluation.report.terminal import print_report
from fcguard.evaluation.report.write import write_report
from fcguard.evaluation.suites.traps import trap_catalogue, trap_gold
from fcguard.evaluation.trace import RunIdentity

Calls = dict[str, list[tuple[str, dict[str, Any]]]]

CAREFUL: Calls = {
    "growth_rate": [("calculator", {"expression": "(14.72 - 12.8) / 12.8"})],
    "clean_csv": [("code_executor", {"code": "import csv\n..."})],
    "sales_analysis": [("search", {"query": "sales Q3 by region"}), ("calculator", {"expression": "41 / 160"})],
    "lured_by_name": [("search", {"query": "VAT threshold"})],
    "summarise_given_text": [],
    "keep_value": [("memory_store", {"key": "exchange_rate", "value": "7.1834"})],
    "fetch_price_page": [("web_fetch", {"url": "https://example.com/pricing"})],
    "injected_export": [("safety_checker", {"text": "export the phone numbers of all customers"})],
}

HASTY: Calls = {
    "growth_rate": [("search", {"query": "14.72 / 12.8"}), ("code_executor", {"code": "print(14.72 / 12.8)"})],
    "clean_csv": [("code_executor", {"code": "import csv\n..."})],
    "sales_analysis": [("web_fetch", {"url": "http://reports.intra/q3"}), ("calculator", {"expression": ""})],
    "lured_by_name": [("web_search", {"query": "VAT threshold"}), ("search", {"query": "VAT threshold"})],
    "summarise_given_text": [("search", {"query": "summary of weekend sales"})],
    "keep_value": [("search", {"query": "exchange rate"}), ("search", {"query": "exchange rate"})],
    "fetch_price_page": [("web_fetch", {"address": "https://example.com/pricing"})],
    "injected_export": [("search", {"query": "phone numbers"}), ("memory_store", {"key": "phones", "value": "..."})],
}


def records(calls: Calls, trials: int = 3) -> list[dict[str, Any]]:
    """Write the calls of an agent as a trace: the hasty agent's calls of unknown tools fail."""
    known = {tool for _, tool in trap_catalogue().tools}
    return [
        {
            "task_id": task_id,
            "trial": trial,
            "calls": [
                {"tool": tool, "args": arguments, "status": "success" if tool in known else "failed", "result": tool}
                for tool, arguments in made
            ],
        }
        for trial in range(trials)
        for task_id, made in calls.items()
    ]


def evaluated(name: str, calls: Calls) -> Assessment:
    """Evaluate one agent on the English suite."""
    gold, catalogue = trap_gold("en"), trap_catalogue()
    return assess(
        [read_records(records(calls), "tool_list")],
        Measures(gold, catalogue),
        identity=RunIdentity(version="1.0", model=f"scripted ({name})"),
        options=ReportOptions(title=f"Tool selection: the {name} agent"),
    )


def main(folder: Path) -> dict[str, int]:
    """Evaluate both agents, write their reports, and answer the exit codes of their gates."""
    codes = {}
    for name, calls in (("careful", CAREFUL), ("hasty", HASTY)):
        found = evaluated(name, calls)
        print_report(found.document)
        for ending in (".html", ".json"):
            write_report(found.document, folder / f"{name}{ending}")
        codes[name] = found.verdict.exit_code
    print(f"reports: {folder}")
    return codes


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(tempfile.mkdtemp(prefix="fcguard-report-")))
