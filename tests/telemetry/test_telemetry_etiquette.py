"""What fcguard's telemetry leaves alone in the process of its host."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

CODE = """
import sys, threading
before = threading.active_count()
import fcguard.telemetry, fcguard.telemetry.otel, fcguard.telemetry.standard, fcguard.telemetry.propagate
import fcguard.telemetry.capture, fcguard.telemetry.tree, fcguard.telemetry.terminal
from fcguard.telemetry.standard import default_observer
from fcguard.model.attempt import Attempt
from fcguard.model.call import Call
from fcguard.model.intent import Intent
from fcguard.model.result import ToolResult
from fcguard.model.tool import Tool
from fcguard.model.failure import Failure
observer = default_observer()
tool = Tool(name="query", parameters={}, fn=print, effect="read")
for failure in (None, Failure.of("PARAM_INVALID", "no", "schema"), Failure.of("TOOL_ERROR", "no", "execute")):
    call = Call("fc-1", Intent(tool="query"), "primary", None, None)
    call.tool = tool
    observer.call_started(call)
    attempt = Attempt(1, 0.0, 0.0, None, 0.0)
    observer.attempt_started(call, attempt)
    observer.attempt_ended(call, attempt)
    call.failure = failure
    call.result = ToolResult(
        success=failure is None, error_type=failure and failure.error_type, retryable=False, tool_name="query",
        request_id="fc-1", normalized_args=None, data=None, evidence=(), message="", next_action="continue",
        failure_class=failure and failure.failure_class, effect="none", outcome_basis=None, attempts=1,
        duration_ms=1.0, trace_id=None, tool_version="1", task_id=None, step=None,
    )
    observer.call_ended(call)
from opentelemetry import metrics, trace
import logging
assert isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)
assert type(metrics.get_meter_provider()).__name__ == "_ProxyMeterProvider"
sdk = [name for name in sys.modules if name.startswith("opentelemetry.sdk")]
assert sdk == [], sdk
assert "structlog" not in sys.modules and "rich" not in sys.modules
assert [type(handler).__name__ for handler in logging.getLogger("fcguard").handlers] == ["NullHandler"]
assert logging.getLogger().handlers == []
assert threading.active_count() == before
assert observer.otel.faults == observer.log.faults == 0
import structlog
assert not structlog.is_configured()
assert call.trace_id is None
"""


def run(code: str, directory: Path) -> subprocess.CompletedProcess[str]:
    """Run code in a fresh interpreter."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("OTEL_")}
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        capture_output=True,
        text=True,
        cwd=directory,
        env=environment | {"PYTHONPATH": str(Path(__file__).parents[2])},
        timeout=600,
        check=False,
    )


def test_import_and_calls_touch_nothing_global_and_write_nothing(tmp_path: Path) -> None:
    done = run(CODE, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


ORDINARY = """
import sys, threading
import fcguard
loaded = [name for name in ("opentelemetry.sdk", "structlog", "rich") if name in sys.modules]
assert loaded == [], loaded
from fcguard.guard import Guard
from fcguard.stores.memory import MemoryStore
guard = Guard(store=MemoryStore())
@guard.tool(effect="read")
def query_order(order_id: str) -> str:
    return "paid"
with guard.task(goal="look"):
    assert query_order(order_id="A1").data == "paid"
    assert guard.call("query_order", {}).error_type == "PARAM_MISSING"
    assert guard.call("invented", {}).error_type == "TOOL_UNKNOWN"
guard.close()
from opentelemetry import metrics, trace
assert isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)
assert type(metrics.get_meter_provider()).__name__ == "_ProxyMeterProvider"
assert not [name for name in sys.modules if name.startswith("opentelemetry.sdk")]
import structlog
assert not structlog.is_configured()
"""


def test_import_and_an_ordinary_guard_write_nothing(tmp_path: Path) -> None:
    done = run(ORDINARY, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_sdk_is_imported_by_what_setup_loads_only() -> None:
    package = Path(__file__).parents[2] / "fcguard"
    importing = [
        path.name
        for path in package.rglob("*.py")
        if "import opentelemetry.sdk" in (text := path.read_text()) or "from opentelemetry.sdk" in text
    ]
    assert sorted(importing) == ["sdk.py", "sending.py"]
