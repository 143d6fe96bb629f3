"""Decide in CI whether an agent may be released: run a suite, hold the gate, write the report, exit with the verdict.

    python examples/gate_in_ci.py                # an agent that acts through the guard: exit 0
    python examples/gate_in_ci.py --naive        # the same model with blind retries around the guard: exit 1

The same without code:

    fcguard suite run faults --agent fcguard.testing.reference_agents:follow_envelope --journal run.jsonl
    fcguard gate run.jsonl --suite faults --out report.html
"""

from __future__ import annotations

import argparse
from pathlib import Path

from fcguard.evaluation.gate import GateLimits
from fcguard.evaluation.report.assess import assess
from fcguard.evaluation.report.write import write_report
from fcguard.evaluation.trace import RunIdentity
from fcguard.testing.fault_matrix import render_matrix
from fcguard.testing.reference_agents import follow_envelope, retry_blindly
from fcguard.testing.suites import run_suite, suite_named


def main(arguments: list[str] | None = None) -> int:
    """Run the suite and answer the exit code of the gate."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--naive", action="store_true", help="try the agent that goes around the guard")
    parser.add_argument("--journal", type=Path, help="keep finished sessions here, and go on from them")
    parser.add_argument("--report", type=Path, help="write the report here (.html, .json, .md or .xml)")
    options = parser.parse_args(arguments)
    agent = retry_blindly if options.naive else follow_envelope
    ran = run_suite(agent, suite_named("faults"), trials=3, journal=options.journal, workers=2)
    found = assess(
        [ran.run()],
        ran.suite.measures,
        identity=RunIdentity(version="1.0", model="scripted"),
        limits=GateLimits(pass_rate=1.0),
    )
    print(render_matrix(ran.sessions))
    print(found.verdict.text())
    if options.report is not None:
        write_report(found.document, options.report)
    return found.verdict.exit_code


if __name__ == "__main__":
    raise SystemExit(main())
