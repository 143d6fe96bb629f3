"""A process whose collector is not there, or says nothing, ends soon, and says in one line what was lost."""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import SpanProcessor

from fcguard.errors import ConfigurationError
from fcguard.telemetry import setup
from fcguard.telemetry.otel import OtelObserver
from tests.telemetry.telemetry_collector import Collector
from tests.telemetry.telemetry_driver import Driver

NEVER = "600000"
"""Milliseconds until the SDK sends by itself: what is sent before is sent by the shutdown."""
ONE_CALL = """
from fcguard.telemetry import setup
from fcguard.telemetry.otel import OtelObserver
from tests.telemetry.telemetry_driver import Driver
telemetry = setup(otlp_endpoint={url!r}{options})
observer = OtelObserver(tracer_provider=telemetry.tracer_provider, meter_provider=telemetry.meter_provider)
Driver(observer).succeed()
"""


class SilentServer:
    """Accepts connections and says nothing."""

    def __init__(self) -> None:
        self.was_asked = threading.Event()
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._held: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self._held.append(connection)
            self.was_asked.set()

    def close(self) -> None:
        self._socket.close()
        for connection in self._held:
            connection.close()


@pytest.fixture
def silent() -> Iterator[SilentServer]:
    server = SilentServer()
    yield server
    server.close()


@pytest.fixture
def refusing() -> Iterator[str]:
    """The address of a port that refuses: it is taken, and nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{taken.getsockname()[1]}"


def start(code: str, **variables: str) -> subprocess.Popen[str]:
    """Start code in a fresh interpreter in which nothing but a shutdown sends, and a request may take five minutes."""
    root = Path(__file__).parents[2]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("OTEL_")}
    environment |= {"OTEL_BSP_SCHEDULE_DELAY": NEVER, "OTEL_METRIC_EXPORT_INTERVAL": NEVER}
    environment |= {"OTEL_EXPORTER_OTLP_TIMEOUT": "300", "PYTHONPATH": str(root)} | variables
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [sys.executable, "-c", code], stdout=pipe, stderr=pipe, text=True, cwd=root, env=environment
    )


def lines_of(process: subprocess.Popen[str]) -> list[str]:
    """Wait for the end of a process, less long than it takes without a limit, and answer what it said of losses."""
    out, err = process.communicate(timeout=50)
    assert (process.returncode, out) == (0, ""), err
    assert "Traceback" not in err
    return [line for line in err.splitlines() if "lost" in line]


def lost(url: str, reason: str) -> list[str]:
    return [f"telemetry was lost: 2 of 2 spans and the last metrics did not reach {url}; {reason}"]


@pytest.mark.parametrize("ending", ["", "telemetry.shutdown()\ntelemetry.shutdown()\n"])
def test_process_whose_collector_refuses_ends_and_says_what_was_lost(refusing: str, ending: str) -> None:
    process = start(ONE_CALL.format(url=refusing, options="") + ending)
    assert lines_of(process) == lost(refusing, "gave up after 3 s (shutdown_timeout)")


def test_process_whose_collector_says_nothing_ends_and_says_what_was_lost(silent: SilentServer) -> None:
    process = start(ONE_CALL.format(url=silent.url, options=""))
    assert lines_of(process) == lost(silent.url, "gave up after 3 s (shutdown_timeout)")
    assert silent.was_asked.is_set()


@pytest.mark.parametrize(
    ("options", "variables", "seconds"),
    [
        (", shutdown_timeout=0.5", {}, "0.5"),
        (", shutdown_timeout=0", {}, "0"),
        ("", {"OTEL_BSP_EXPORT_TIMEOUT": "400"}, "0.4"),
        (", shutdown_timeout=1", {"OTEL_BSP_EXPORT_TIMEOUT": "400000"}, "1"),
    ],
)
def test_time_limit_is_that_of_setup_then_that_of_the_environment(
    silent: SilentServer, options: str, variables: dict[str, str], seconds: str
) -> None:
    process = start(ONE_CALL.format(url=silent.url, options=options), **variables)
    assert lines_of(process) == lost(silent.url, f"gave up after {seconds} s (shutdown_timeout)")


def test_request_that_the_environment_bounds_ends_before_the_limit(silent: SilentServer) -> None:
    code = ONE_CALL.format(url=silent.url, options=", shutdown_timeout=40")
    (line,) = lines_of(start(code, OTEL_EXPORTER_OTLP_TIMEOUT="0.5"))
    assert line == f"telemetry was lost: 2 of 2 spans and the last metrics did not reach {silent.url}"


def test_ctrl_c_ends_the_wait_at_once(silent: SilentServer) -> None:
    process = start(ONE_CALL.format(url=silent.url, options=", shutdown_timeout=600"))
    assert silent.was_asked.wait(50), "the shutdown has begun to send"
    process.send_signal(signal.SIGINT)
    assert lines_of(process) == lost(silent.url, "interrupted")


def test_file_gets_its_spans_although_the_collector_says_nothing(silent: SilentServer, tmp_path: Path) -> None:
    path = tmp_path / "spans.jsonl"
    process = start(ONE_CALL.format(url=silent.url, options=f", jsonl_path={str(path)!r}"))
    assert lines_of(process) == lost(silent.url, "gave up after 3 s (shutdown_timeout)")
    assert path.read_text().count('"spanId"') == 2


def test_line_goes_where_the_host_logs_and_shows_no_credentials(refusing: str) -> None:
    url = refusing.replace("127", "reader:hunter2@127")
    code = ONE_CALL.format(url=url, options=", shutdown_timeout=0.2")
    out = "import logging, sys\nlogging.basicConfig(stream=sys.stdout, format='%(levelname)s %(name)s %(message)s')\n"
    process = start(out + code)
    said, err = process.communicate(timeout=50)
    assert process.returncode == 0
    ours = [line for line in said.splitlines() if "lost" in line]
    assert ours == ["WARNING fcguard.telemetry " + lost(refusing, "gave up after 0.2 s (shutdown_timeout)")[0]]
    assert "lost" not in err
    assert "hunter2" not in " ".join(ours)


def test_collector_that_answers_gets_everything_and_nothing_is_said(collector: Collector) -> None:
    process = start(ONE_CALL.format(url=collector.url, options=""))
    assert lines_of(process) == []
    assert len(collector.spans()) == 2
    assert collector.metrics()


def test_child_process_does_not_report_what_its_parent_has_to_send(collector: Collector) -> None:
    code = ONE_CALL.format(url=collector.url, options="")
    process = start(code + "import os\npid = os.fork()\nif pid:\n    assert os.waitpid(pid, 0)[1] == 0\n")
    assert lines_of(process) == []
    assert len(collector.spans()) == 2


def test_what_was_refused_earlier_is_told_at_the_end(collector: Collector, caplog: pytest.LogCaptureFixture) -> None:
    collector.status = 400
    telemetry = setup(otlp_endpoint=collector.url)
    driver = Driver(OtelObserver(tracer_provider=telemetry.tracer_provider))
    driver.succeed()
    assert not telemetry.flush(timeout=20)
    collector.status = 200
    driver.succeed()
    with caplog.at_level(logging.WARNING, "fcguard.telemetry"):
        telemetry.shutdown(timeout=20)
    (text,) = [record.getMessage() for record in caplog.records if record.name == "fcguard.telemetry"]
    assert text == f"telemetry was lost: 2 of 4 spans did not reach {collector.url}"


def test_nothing_is_sent_after_a_shutdown_that_gave_up(collector: Collector) -> None:
    collector.may_answer.clear()
    telemetry = setup(otlp_endpoint=collector.url)
    driver = Driver(OtelObserver(tracer_provider=telemetry.tracer_provider))
    for _ in range(300):  # two batches: the second waits for the first
        driver.succeed()
    telemetry.shutdown(timeout=0.2)
    collector.may_answer.set()
    for thread in threading.enumerate():
        if thread.name == "fcguard-telemetry":
            thread.join(50)
    assert len(collector.spans()) in (0, 512)  # at most the request that was on its way


@pytest.mark.parametrize("seconds", [-1, float("nan"), float("inf"), "3", True])
def test_what_is_no_number_of_seconds_is_refused(seconds: Any) -> None:
    with pytest.raises(ConfigurationError, match="shutdown_timeout"):
        setup(console=True, shutdown_timeout=seconds)


def test_metrics_that_nobody_measured_are_not_lost(silent: SilentServer) -> None:
    code = ONE_CALL.format(url=silent.url, options=", shutdown_timeout=2")
    process = start(code.replace(", meter_provider=telemetry.meter_provider", ""))
    (line,) = lines_of(process)
    assert line.startswith(f"telemetry was lost: 2 of 2 spans did not reach {silent.url};")


def test_interpreter_that_starts_no_thread_any_more_sends_what_is_left(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    telemetry = setup(otlp_endpoint=collector.url)
    Driver(OtelObserver(tracer_provider=telemetry.tracer_provider)).succeed()

    begin = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name == "fcguard-telemetry":  # the collector of this test needs its own
            raise RuntimeError("can't create new thread at interpreter shutdown")
        begin(thread)

    with monkeypatch.context() as at_exit:
        at_exit.setattr(threading.Thread, "start", refuse)
        telemetry.shutdown()
    assert len(collector.spans()) == 2


def test_processor_that_cannot_be_stopped_is_told_and_does_not_stop_the_end(
    collector: Collector, caplog: pytest.LogCaptureFixture
) -> None:
    class Stubborn(SpanProcessor):
        def shutdown(self) -> None:
            raise OSError("canary")

    telemetry = setup(otlp_endpoint=collector.url)
    telemetry.tracer_provider.add_span_processor(Stubborn())
    with caplog.at_level(logging.WARNING, "fcguard.telemetry"):
        telemetry.shutdown(timeout=20)
    (text,) = [record.getMessage() for record in caplog.records if record.name == "fcguard.telemetry"]
    assert text == "a provider of OpenTelemetry failed with OSError"
