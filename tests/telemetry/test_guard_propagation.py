"""The trace of a governed call goes on in what its tool calls, and stands in the ledger."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF

from fcguard.guard import Guard
from fcguard.model.call_info import CallInfo, current_call
from fcguard.stores.payload import body_of
from fcguard.stores.sqlite import SQLiteStore
from tests.telemetry.telemetry_driver import Recorded

ROOT = Path(__file__).parents[2]


class Service:
    """A real HTTP server that notes the header `traceparent` of each request."""

    def __init__(self) -> None:
        self.seen: list[str | None] = []
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                service.seen.append(self.headers.get("traceparent"))
                self.send_response(200)
                self.send_header("Content-Length", "4")
                self.end_headers()
                self.wfile.write(b"paid")

            def log_message(self, *_: Any) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever)
        self._thread.start()
        self.port = self._server.server_address[1]

    def ask(self, traceparent: str | None) -> str:
        headers = {} if traceparent is None else {"traceparent": traceparent}
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/", headers=headers)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.read().decode()

    async def aask(self, traceparent: str | None) -> str:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        header = "" if traceparent is None else f"traceparent: {traceparent}\r\n"
        writer.write(f"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{header}\r\n".encode())
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
        return answer.decode().rpartition("\r\n\r\n")[2]

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


@pytest.fixture
def service() -> Iterator[Service]:
    found = Service()
    yield found
    found.close()


@pytest.fixture
def guard(recorded: Recorded, tmp_path: Path) -> Iterator[Guard]:
    with Guard(
        store=SQLiteStore(tmp_path / "ledger.db"),
        evidence_dir=tmp_path / "evidence",
        tracer_provider=recorded.tracer_provider,
    ) as made:
        yield made


def declare(guard: Guard, service: Service, colour: str) -> None:
    """Declare a tool that calls the service under its call's trace: inline, in a worker thread, or in a coroutine."""
    if colour == "async":

        @guard.tool(effect="write", name="pay")
        async def apay(order_id: str, info: CallInfo) -> str:
            await asyncio.sleep(0)
            return await service.aask(info.traceparent)

    else:

        @guard.tool(effect="write", timeout=None if colour == "inline" else 10.0)
        def pay(order_id: str) -> str:
            return service.ask(current_call().traceparent)


def run(guard: Guard, is_async: bool) -> Any:
    async def main() -> Any:
        return await guard.acall("pay", {"order_id": "A1"})

    with guard.task(goal="pay"):
        return asyncio.run(main()) if is_async else guard.call("pay", {"order_id": "A1"})


@pytest.mark.parametrize(
    ("colour", "is_async"),
    [
        ("inline", False),
        ("thread", False),
        ("async", False),
        ("inline", True),
        ("thread", True),
        ("async", True),
    ],
)
def test_request_of_a_tool_continues_its_attempt(
    guard: Guard, service: Service, recorded: Recorded, colour: str, is_async: bool
) -> None:
    declare(guard, service, colour)
    result = run(guard, is_async)

    assert result.data == "paid"
    attempt = recorded.span("fcguard.attempt pay").context
    (sent,) = service.seen
    assert sent is not None
    version, trace_id, span_id, flags = sent.split("-")
    assert (version, trace_id, span_id) == ("00", f"{attempt.trace_id:032x}", f"{attempt.span_id:016x}")
    assert int(flags, 16) & 1
    assert result.trace_id == trace_id


def test_each_attempt_sends_its_own_span(guard: Guard, service: Service, recorded: Recorded) -> None:
    @guard.tool(effect="read")
    def look() -> str:
        service.ask(current_call().traceparent)
        if current_call().attempt == 1:
            raise ConnectionRefusedError
        return "paid"

    with guard.task(goal="look"):
        assert look().attempts == 2
    sent = [header.split("-")[2] for header in service.seen if header is not None]
    spans = [span.context.span_id for span in recorded.spans if span.name == "fcguard.attempt look"]
    assert sent == [f"{span_id:016x}" for span_id in spans]
    assert len(set(sent)) == 2


def test_two_calls_at_once_do_not_mix_their_traces(guard: Guard, service: Service, recorded: Recorded) -> None:
    @guard.tool(effect="read")
    async def look(number: int) -> str:
        before = current_call().traceparent
        await service.aask(before)
        assert current_call().traceparent == before
        return str(before)

    async def main() -> list[Any]:
        with guard.task(goal="look"):
            return await asyncio.gather(*(guard.acall("look", {"number": number}) for number in range(8)))

    results = asyncio.run(main())
    assert {result.data.split("-")[1] for result in results} == {result.trace_id for result in results}
    assert sorted(result.data for result in results) == sorted(header or "" for header in service.seen)
    assert len(set(service.seen)) == 8


def test_no_header_without_a_provider(service: Service, tmp_path: Path) -> None:
    with Guard(store=SQLiteStore(tmp_path / "ledger.db"), evidence_dir=tmp_path) as guard:
        declare(guard, service, "inline")
        result = run(guard, is_async=False)
    assert (result.data, result.trace_id, service.seen) == ("paid", None, [None])


def test_a_call_that_is_sampled_out_says_so_to_the_service(service: Service, tmp_path: Path) -> None:
    provider = TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False)
    with Guard(store=SQLiteStore(tmp_path / "ledger.db"), evidence_dir=tmp_path, tracer_provider=provider) as guard:
        declare(guard, service, "inline")
        result = run(guard, is_async=False)
    provider.shutdown()
    (sent,) = service.seen
    assert sent is not None
    assert sent.split("-")[1] == result.trace_id
    assert int(sent.split("-")[3], 16) & 1 == 0


def ids_in(guard: Guard, request_id: str) -> list[tuple[Any, Any]]:
    """Trace and span id of each event that tells them."""
    bodies = map(body_of, guard.store.events(request_id=request_id))
    return [(body["trace_id"], body["span_id"]) for body in bodies if "trace_id" in body]


@pytest.mark.parametrize("effect", ["read", "write"])
def test_ids_in_the_ledger_are_those_of_the_calls_span(guard: Guard, recorded: Recorded, effect: Any) -> None:
    @guard.tool(effect=effect)
    def pay() -> str:
        return "paid"

    with guard.task(goal="pay"):
        result = pay()
        refused = guard.call("pay", {"invented": 1})
    root, root_of_refused = (span.context for span in recorded.spans if span.name == "execute_tool pay")
    assert ids_in(guard, result.request_id) == [(f"{root.trace_id:032x}", f"{root.span_id:016x}")]
    assert ids_in(guard, refused.request_id) == [
        (f"{root_of_refused.trace_id:032x}", f"{root_of_refused.span_id:016x}")
    ]


@pytest.mark.parametrize("effect", ["read", "write"])
def test_fcguard_show_prints_the_trace(guard: Guard, recorded: Recorded, tmp_path: Path, effect: Any) -> None:
    @guard.tool(effect=effect)
    def pay() -> str:
        return "paid"

    with guard.task(goal="pay"):
        result = pay()
    guard.close()
    root = recorded.span("execute_tool pay").context
    shown = subprocess.run(
        [
            sys.executable,
            "-m",
            "fcguard.cli.main",
            "show",
            result.request_id,
            "--store",
            f"sqlite:///{tmp_path}/ledger.db",
        ],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=600,
        check=False,
    )
    assert (shown.returncode, shown.stderr) == (0, "")
    assert f"{root.trace_id:032x}, span {root.span_id:016x}" in shown.stdout
