"""What the guards of other tests emit conforms, too: those tests know nothing of telemetry."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fcguard.telemetry import semconv as names

ROOT = Path(__file__).parents[2]


@pytest.mark.timeout(900)
def test_what_the_tests_of_execution_and_recovery_emit_conforms(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    plugin = ["-p", "tests.telemetry.conformance_plugin", "-p", "no:cacheprovider", "-n", "0", "-q"]
    modules = ["tests/test_execution.py", "tests/test_recovery.py"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *plugin, *modules],
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=os.environ | {"FCGUARD_CONFORMANCE": str(report)},
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:]
    found = json.loads(report.read_text())
    assert found["faults"] == []
    assert set(found["spans"]) == {names.CALL, names.ATTEMPT, names.RECOVER}
    assert sum(found["spans"].values()) > 500
    assert {names.CALLS, names.CALL_ATTEMPTS, names.DURATION, names.RECOVERIES, names.VALIDATION_FAILURES} <= set(
        found["metrics"]
    )
