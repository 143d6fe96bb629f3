"""What tests read from a ledger, and how they wait for other threads and processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fcguard import Guard

LIMIT = 0.25
"""Seconds that a tool is given which will not answer; enough for a busy machine to have entered it by then."""


def kinds(guard: Guard, request_id: str) -> list[str]:
    return [event.kind for event in guard.store.events(request_id=request_id)]


def payloads(guard: Guard, kind: str) -> list[dict[str, Any]]:
    return [json.loads(event.payload) for event in guard.store.events() if event.kind == kind]


def only_call(guard: Guard) -> Any:
    (call,) = guard.store.calls()
    return call


def eventually(condition: Callable[[], bool]) -> None:
    """Wait for what another thread is about to do."""
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.002)


def run_python(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", textwrap.dedent(code), *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)},
    )
