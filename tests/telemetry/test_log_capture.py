"""Log lines of a call as its evidence."""

from __future__ import annotations

import contextvars
import logging
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import structlog
from hypothesis import given
from hypothesis import strategies as st

from fcguard.model.attempt import Attempt
from fcguard.model.call import Call
from fcguard.model.call_info import CURRENT, CallInfo
from fcguard.model.intent import Intent
from fcguard.model.secrets import Redactor
from fcguard.model.tool import Tool
from fcguard.telemetry.capture import LogCapture, log_path

LOG = logging.getLogger("orders.client")
TOOL = Tool(name="query_order", parameters={}, fn=print, effect="read")


@pytest.fixture
def capture(tmp_path: Path) -> Iterator[LogCapture]:
    handler = LogCapture(tmp_path)
    handler.install()
    LOG.setLevel(logging.DEBUG)
    yield handler
    handler.close()
    LOG.setLevel(logging.NOTSET)
    assert handler not in logging.getLogger().handlers


def call_of(tool: Tool | None = TOOL, request_id: str = "fc-20260130-00128") -> Call:
    call = Call(request_id, Intent(tool="query_order"), "primary", None, None)
    call.tool, call.redactor = tool, Redactor(values=("hunter2-secret",))
    return call


class inside:
    """Run a block as the tool of a call."""

    def __init__(self, call: Call) -> None:
        attempt = Attempt(2, 0.0, 0.0, None, 0.0)
        self.info = CallInfo(call, attempt, lambda: 0.0, lambda *_: None)  # type: ignore[arg-type, return-value]

    def __enter__(self) -> None:
        self.token = CURRENT.set(self.info)

    def __exit__(self, *_: object) -> None:
        CURRENT.reset(self.token)


def test_lines_of_a_call_become_its_evidence(capture: LogCapture, tmp_path: Path) -> None:
    LOG.info("before")
    call = call_of()
    with inside(call):
        LOG.info("asked for %s", "A1")
        LOG.debug("details")
    LOG.info("after")

    evidence = capture.take(call)
    assert evidence is not None
    assert (evidence.type, evidence.ref) == ("log", "logs/query_order/fc-20260130-00128.log")
    text = (tmp_path / evidence.ref).read_text()
    assert evidence.size == len(text)
    lines = text.splitlines()
    assert [line.split("Z ", 1)[1] for line in lines] == [
        "INFO orders.client [2] asked for A1",
        "DEBUG orders.client [2] details",
    ]
    assert capture.dropped == 0


def test_call_without_lines_has_no_evidence(capture: LogCapture, tmp_path: Path) -> None:
    assert capture.take(call_of()) is None
    assert list(tmp_path.iterdir()) == []


def test_secrets_are_masked(capture: LogCapture, tmp_path: Path) -> None:
    call = call_of()
    with inside(call):
        LOG.warning("login with hunter2-secret and password=abcdefg, {'api_key': 'xyz123'}")
        try:
            raise ValueError("Authorization: Bearer abc.def.ghi")
        except ValueError:
            LOG.exception("failed")
    capture.take(call)
    text = (tmp_path / log_path("query_order", call.request_id)).read_text()
    assert "Traceback" in text
    for secret in ("hunter2-secret", "abcdefg", "xyz123", "abc.def.ghi"):
        assert secret not in text


def test_threads_that_follow_the_call_are_heard(capture: LogCapture, tmp_path: Path) -> None:
    calls = [call_of(request_id=f"fc-{number}") for number in range(4)]
    barrier = threading.Barrier(4)

    def work(number: int) -> None:
        barrier.wait()
        for line in range(50):
            LOG.info("call %d line %d", number, line)

    threads = []
    for number, call in enumerate(calls):
        with inside(call):
            threads.append(threading.Thread(target=contextvars.copy_context().run, args=(work, number)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for number, call in enumerate(calls):
        evidence = capture.take(call)
        assert evidence is not None
        lines = (tmp_path / evidence.ref).read_text().splitlines()
        assert [line.split("] ")[1] for line in lines] == [f"call {number} line {line}" for line in range(50)]


def test_late_lines_leave_the_record_as_it_is(capture: LogCapture, tmp_path: Path) -> None:
    call = call_of()
    with inside(call):
        LOG.info("in time")
        evidence = capture.take(call)
        assert evidence is not None
        LOG.info("late 1")
        LOG.info("late 2")
    path = tmp_path / evidence.ref
    assert path.stat().st_size == evidence.size
    late = path.with_name("fc-20260130-00128.late.log").read_text()
    assert [line.split("] ")[1] for line in late.splitlines()] == ["late 1", "late 2"]
    assert capture.take(call) is None


def test_log_is_cut_at_its_limit(tmp_path: Path) -> None:
    capture = LogCapture(tmp_path, max_bytes=400)
    stop = capture.install(LOG)
    LOG.setLevel(logging.INFO)
    call = call_of()
    with inside(call):
        for _ in range(50):
            LOG.info("x" * 40)
    stop()
    evidence = capture.take(call)
    assert evidence is not None
    text = (tmp_path / evidence.ref).read_text()
    assert len(text) <= 400
    assert text.endswith("[log cut here: it is larger than the limit]\n")
    assert text.count("cut here") == 1
    LOG.setLevel(logging.NOTSET)
    capture.close()


def test_path_and_level_can_be_given(tmp_path: Path) -> None:
    def place(info: CallInfo) -> tuple[Path, Path] | None:
        return None if info.call is other else (tmp_path, tmp_path / "own" / f"{info.request_id}.txt")

    capture = LogCapture(tmp_path, place=place, level="ERROR")
    capture.install(LOG)
    call, other = call_of(), call_of(request_id="fc-20260130-00129")
    with inside(call):
        LOG.warning("no")
        LOG.error("yes")
    evidence = capture.take(call)
    with inside(other):
        LOG.error("somebody else's")
    assert capture.take(other) is None
    assert capture.dropped == 0
    capture.close()
    assert evidence is not None
    assert evidence.ref == "own/fc-20260130-00128.txt"
    assert (tmp_path / evidence.ref).read_text().count("\n") == 1


def test_structlog_that_prints_by_itself_is_heard_by_the_processor(capture: LogCapture, tmp_path: Path) -> None:
    kept: list[Any] = []
    logger = structlog.wrap_logger(
        structlog.testing.CapturingLogger(),
        processors=[
            structlog.stdlib.add_log_level,
            capture.structlog_processor,
            lambda *event: kept.append(event[2]) or "",
        ],
    )
    capture.setLevel(logging.INFO)
    call = call_of()
    logger.info("outside")
    with inside(call):
        logger.info("asked", order="A1", password="hunter2-secret")
        logger.debug("too fine")
    assert [event["event"] for event in kept] == ["outside", "asked", "too fine"]
    capture.take(call)
    text = (tmp_path / log_path("query_order", call.request_id)).read_text()
    assert text.split("Z ", 1)[1].startswith("INFO structlog [2] asked ")
    assert "order='A1'" in text
    assert "hunter2-secret" not in text
    assert "too fine" not in text


def test_strange_structlog_events_pass_through(capture: LogCapture, tmp_path: Path) -> None:
    class Odd:
        def __repr__(self) -> str:
            raise RuntimeError("odd")

    call = call_of()
    with inside(call):
        assert capture.structlog_processor(None, "info", "text") == "text"
        event = {"event": "x", "odd": Odd()}
        assert capture.structlog_processor(None, "info", event) is event
        capture.structlog_processor(None, "notice", {"event": "own level"})
    assert capture.dropped == 1
    capture.take(call)
    assert "NOTICE structlog [2] own level" in (tmp_path / log_path("query_order", call.request_id)).read_text()


def test_line_that_cannot_be_written_breaks_nothing(tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("a file where a directory should be")
    capture = LogCapture(tmp_path)
    logger = logging.Logger("alone")
    capture.install(logger)
    with inside(call_of()):
        logger.error("lost")
        logger.error("lost %d", "not a number")
    capture.close()
    assert capture.dropped == 2


def test_masking_that_logs_does_not_run_in_circles(tmp_path: Path) -> None:
    class Chatty(Redactor):
        __slots__ = ()

        def text(self, text: str) -> str:
            LOG.error("masking %s", text)
            return super().text(text)

    capture = LogCapture(tmp_path, redactor=Chatty())
    capture.install(LOG)
    call = call_of()
    with inside(call):
        LOG.error("one")
    evidence = capture.take(call)
    capture.close()
    assert evidence is not None
    assert (tmp_path / evidence.ref).read_text().count("\n") == 1


def test_fcguards_own_lines_are_left_out(capture: LogCapture) -> None:
    call = call_of()
    with inside(call):
        logging.getLogger("fcguard").error("call failed")
    assert capture.take(call) is None


def test_open_logs_are_closed_with_the_capture(tmp_path: Path) -> None:
    capture = LogCapture(tmp_path)
    capture.install(LOG)
    with inside(call_of(None)):
        LOG.error("x")
    capture.close()
    assert (tmp_path / "logs" / "_" / "fc-20260130-00128.log").exists()


@given(st.text(max_size=200), st.text(max_size=200))
def test_paths_never_leave_the_directory(tool: str, request_id: str) -> None:
    path = log_path(tool, request_id)
    parts = path.split("/")
    assert parts[0] == "logs"
    assert len(parts) == 3
    assert os.path.normpath(path) == path
    assert not any(part.startswith(".") for part in parts)
    assert all(len(part) < 200 for part in parts)
