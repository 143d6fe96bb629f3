"""The guarded transports against real servers: redirects, resolved addresses, and names that change their mind."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest

from fcguard.errors import ConfigurationError
from fcguard.model.attempt import Attempt
from fcguard.model.call import Call
from fcguard.model.call_info import CURRENT, CallInfo
from fcguard.model.context import Environment, TaskContext
from fcguard.model.intent import Intent
from fcguard.rules.transport import AsyncGuardedTransport, GuardedTransport, HostRefused


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.seen: list[str] = []
        self.redirect_to = ""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        self.server.seen.append(f"{self.headers['Host']} {self.path}")
        if self.path == "/cut":
            self.send_response(200)
            self.send_header("Content-Length", "100")
            self.end_headers()
            self.wfile.write(b"half")
            self.close_connection = True
            return
        self.send_response(302 if self.path.startswith("/go") else 200)
        if self.path.startswith("/go"):
            self.send_header("Location", self.server.redirect_to)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"ok")

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def servers() -> Iterator[tuple[_Server, _Server]]:
    """An allowed server and an inner one that must never hear of us."""
    pair = (_Server(), _Server())
    threads = [threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}) for server in pair]
    for thread in threads:
        thread.start()
    yield pair
    for server in pair:
        server.shutdown()
        server.server_close()
    for thread in threads:
        thread.join()


def _get(colour: str, url: str, *, allow: Any, resolved: str | None = None, **options: Any) -> httpx.Response:
    """Fetch a URL, following redirects, through a sync or an async client; `resolved` is what every name resolves to."""
    answer = [(2, 1, 6, "", (resolved, 0))] if resolved else []

    if colour == "sync":
        if resolved:
            options["resolve"] = lambda *_, **__: answer
        with httpx.Client(transport=GuardedTransport(allow, **options), follow_redirects=True) as client:
            return client.get(url)

    async def fetch() -> httpx.Response:
        async def resolve(*_: Any, **__: Any) -> Any:
            return answer

        if resolved:
            options["resolve"] = resolve
        async with httpx.AsyncClient(
            transport=AsyncGuardedTransport(allow, **options), follow_redirects=True
        ) as client:
            return await client.get(url)

    return asyncio.run(fetch())


@pytest.fixture(params=["sync", "async"])
def colour(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_an_allowed_server_answers(colour: str, servers: tuple[_Server, _Server]) -> None:
    allowed, _ = servers
    response = _get(colour, f"{allowed.url}/a", allow=[allowed.url])
    assert (response.status_code, response.text) == (200, "ok")


def test_a_redirect_within_the_list_is_followed(colour: str, servers: tuple[_Server, _Server]) -> None:
    allowed, _ = servers
    allowed.redirect_to = "/there"
    assert _get(colour, f"{allowed.url}/go", allow=[allowed.url]).text == "ok"
    assert [line.split()[1] for line in allowed.seen] == ["/go", "/there"]


@pytest.mark.parametrize(
    "to",
    [
        "{inner}/secret",
        "http://169.254.169.254/",
        "http://localhost:{port}/",
        "http://2130706433:{port}/",
        "//[::1]:{port}/",
    ],
)
def test_a_redirect_elsewhere_is_refused_before_it_is_sent(
    colour: str, to: str, servers: tuple[_Server, _Server]
) -> None:
    allowed, inner = servers
    allowed.redirect_to = to.format(inner=inner.url, port=inner.server_port)
    with pytest.raises(HostRefused) as caught:
        _get(colour, f"{allowed.url}/go", allow=[allowed.url])
    assert (caught.value.violation.code, caught.value.violation.next_action) == ("PARAM_INVALID", "fix_arguments")
    assert isinstance(caught.value, httpx.TransportError)
    assert inner.seen == []


def test_a_public_name_that_leads_inside_is_refused(colour: str, servers: tuple[_Server, _Server]) -> None:
    _, inner = servers
    with pytest.raises(HostRefused, match="private"):
        _get(
            colour, f"http://docs.example.test:{inner.server_port}/", allow=["docs.example.test"], resolved="127.0.0.1"
        )
    assert inner.seen == []


@pytest.mark.parametrize(
    "address", ["169.254.169.254", "10.0.0.1", "::1", "fe80::1%eth0", "::ffff:127.0.0.1", "64:ff9b::7f00:1"]
)
def test_whatever_a_name_resolves_to_is_checked(colour: str, address: str) -> None:
    with pytest.raises(HostRefused):
        _get(colour, "http://any.example.com/", allow=["*"], resolved=address)


def test_an_inner_host_can_be_meant(colour: str, servers: tuple[_Server, _Server]) -> None:
    allowed, _ = servers
    port = allowed.server_port
    url = f"http://docs.example.test:{port}/a"
    assert (
        _get(colour, url, allow=["docs.example.test"], allow_private=["127.0.0.0/8"], resolved="127.0.0.1").text == "ok"
    )
    assert _get(colour, f"http://localhost:{port}/a", allow=["localhost"]).text == "ok"
    assert allowed.seen[0] == f"docs.example.test:{port} /a"


def test_a_metadata_address_is_refused_even_where_inner_ones_are_allowed(colour: str) -> None:
    with pytest.raises(HostRefused):
        _get(colour, "http://any.example.com/", allow=["*"], allow_private=True, resolved="169.254.169.254")


def test_the_address_that_was_checked_is_the_one_connected_to(servers: tuple[_Server, _Server]) -> None:
    allowed, inner = servers
    answers = iter(["127.0.0.1", "169.254.169.254"])
    transport = GuardedTransport(
        ["docs.example.test"], allow_private=True, resolve=lambda *_, **__: [(2, 1, 6, "", (next(answers), 0))]
    )
    with httpx.Client(transport=transport) as client:
        assert client.get(f"http://docs.example.test:{allowed.server_port}/").text == "ok"
        with pytest.raises(HostRefused):
            client.get(f"http://docs.example.test:{inner.server_port}/")
    assert inner.seen == []


def test_the_next_address_is_tried_when_one_does_not_answer(colour: str, servers: tuple[_Server, _Server]) -> None:
    allowed, _ = servers
    found = [(2, 1, 6, "", (address, 0)) for address in ("127.255.255.1", "127.0.0.1")]

    async def resolve(*_: Any, **__: Any) -> Any:
        return found

    resolver = resolve if colour == "async" else lambda *_, **__: found
    url = f"http://localhost:{allowed.server_port}/"
    assert _get(colour, url, allow=["localhost"], resolve=resolver).text == "ok"


def test_errors_are_those_of_httpx(colour: str, servers: tuple[_Server, _Server]) -> None:
    allowed, _ = servers
    with pytest.raises(httpx.RemoteProtocolError):
        _get(colour, f"{allowed.url}/cut", allow=[allowed.url])
    with pytest.raises(httpx.ConnectError):
        _get(colour, "http://127.0.0.1:1/", allow=["127.0.0.1"])
    with pytest.raises(httpx.ConnectError):
        _get(colour, "http://nowhere.invalid/", allow=["nowhere.invalid"])


def test_a_name_without_address_is_a_connect_error() -> None:
    with (
        httpx.Client(transport=GuardedTransport(["a.example.com"], resolve=lambda *_, **__: [])) as client,
        pytest.raises(httpx.ConnectError),
    ):
        client.get("http://a.example.com/")


def test_another_transport_can_send(colour: str) -> None:
    def answer(request: httpx.Request) -> httpx.Response:
        return (
            httpx.Response(302, headers={"Location": "http://evil.test/"})
            if request.url.path == "/go"
            else httpx.Response(200, text="ok")
        )

    inner: Any = httpx.MockTransport(answer)
    assert _get(colour, "http://a.test/x", allow=["a.test"], inner=inner).text == "ok"
    with pytest.raises(HostRefused):
        _get(colour, "http://a.test/go", allow=["a.test"], inner=inner)


def test_the_environment_of_the_running_call_says_which_hosts_are_allowed(
    colour: str, servers: tuple[_Server, _Server]
) -> None:
    allowed, inner = servers
    call = Call("fc-1", Intent(tool="fetch"), "primary", None, None)
    call.context = TaskContext(environment=Environment(name="test-a", base_urls=(allowed.url,)))
    token = CURRENT.set(CallInfo(call, Attempt(1, 0.0, 0.0, None, 0.0), lambda: 0.0, lambda *_: None))  # type: ignore[arg-type,return-value]
    try:
        assert _get(colour, f"{allowed.url}/a", allow=None).text == "ok"
        with pytest.raises(HostRefused):
            _get(colour, f"{inner.url}/a", allow=None)
    finally:
        CURRENT.reset(token)
    with pytest.raises(HostRefused, match=r"environment\.base_urls"):
        _get(colour, f"{allowed.url}/a", allow=None)


def test_options_are_checked_when_the_transport_is_built() -> None:
    with pytest.raises(ConfigurationError, match="GuardedTransport"):
        GuardedTransport("a.test")


def test_httpx_is_missing() -> None:
    code = (
        "import sys; sys.modules['httpx'] = None\n"
        "import fcguard.rules\n"
        "try:\n    import fcguard.rules.transport\n"
        "except ImportError as error:\n    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=600, check=True)
    assert "pip install 'fcguard[http]'" in done.stdout
