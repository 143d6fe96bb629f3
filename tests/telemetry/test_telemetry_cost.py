"""What telemetry adds to a governed read, in Python functions that are called: a limit that no busy machine can blur.

Times are measured by `tests/benchmarks/overhead.py --telemetry`. Whoever needs more functions than these changes the numbers
here, and says in the change what for.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.telemetry.telemetry_cost import CASES

OWN = {
    "without telemetry": 4,
    "no provider": 6,
    "sampled out": 7,
    "sampled out, meter provider": 14,
    "recorded, one span": 16,
    "recorded": 22,
    "log line": 19,
}
"""Functions of `fcguard.telemetry`, as counted."""
OF_THE_API = {
    "sampled out": 22,
    "sampled out, meter provider": 49,
    "recorded, one span": 87,
    "recorded": 157,
}
"""Functions of OpenTelemetry 1.45, most of them the SDK's; none where no provider is set."""
PIPELINE = 63
"""Functions of the other packages of fcguard."""

IN_THE_DOCS = {
    "without telemetry": "without telemetry",
    "no provider": "no provider",
    "sampled out": "sampled out",
    "sampled out, meter provider": "sampled out, with a meter provider",
    "recorded, one span": 'recorded, `span_detail="call"`',
    "recorded": 'recorded, `span_detail="attempts"`',
    "log line": "a log line through stdlib logging",
}
"""What docs/telemetry.md calls a case."""

Counted = dict[str, dict[str, dict[str, float]]]


@pytest.fixture(scope="module")
def counted() -> Counted:
    """What an interpreter of its own counts, in which no other test has set up anything."""
    root = Path(__file__).parents[2]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("OTEL_")}
    done = subprocess.run(
        [sys.executable, "-m", "tests.telemetry.telemetry_cost"],
        capture_output=True,
        text=True,
        cwd=root,
        env=environment | {"PYTHONPATH": str(root)},
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: Counted = json.loads(done.stdout)
    return found


def with_room(number: int) -> int:
    """A tenth more, at least one: for what another version of Python or of a library does differently."""
    return number + max(1, number // 10)


@pytest.mark.parametrize("colour", ["sync", "async"])
@pytest.mark.parametrize("case", CASES)
def test_call_does_not_take_more_functions_than_declared(counted: Counted, case: str, colour: str) -> None:
    found = counted[case][colour]
    assert found["telemetry"] <= with_room(OWN[case])
    assert found.get("opentelemetry", 0) <= with_room(OF_THE_API.get(case, -1))
    assert found["pipeline"] <= with_room(PIPELINE)


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_what_is_counted_is_there(counted: Counted, colour: str) -> None:
    """The order of the cases: each asks for more than the one before it, and the SDK was really asked."""
    spans = ["no provider", "sampled out", "sampled out, meter provider", "recorded, one span", "recorded"]
    own = [counted[case][colour]["telemetry"] for case in spans]
    assert own == sorted(own)
    assert own[0] < own[-1]
    theirs = [counted[case][colour].get("opentelemetry", 0) for case in spans]
    assert theirs == sorted(theirs)
    assert theirs[0] == 0 < theirs[1]
    assert counted["log line"][colour]["telemetry"] > counted["no provider"][colour]["telemetry"]


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_telemetry_does_not_slow_the_pipeline(counted: Counted, colour: str) -> None:
    """Whoever watches, the pipeline itself does the same."""
    bare = counted["without telemetry"][colour]["pipeline"]
    assert {case: found[colour]["pipeline"] for case, found in counted.items()} == dict.fromkeys(CASES, bare)


def test_documented_numbers_are_those_that_are_held() -> None:
    page = (Path(__file__).parents[2] / "docs" / "telemetry.md").read_text()
    assert list(IN_THE_DOCS) == list(OWN) == list(CASES)
    rows = [f"| {text} | {OWN[case]} | {OF_THE_API.get(case, 0)} |\n" for case, text in IN_THE_DOCS.items()]
    assert "".join(rows) in page
