"""Responses of every HTTP client from a real server, and objects that only look like responses."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import http.client
import http.server
import json
import threading
import urllib.error
import urllib.request

import aiohttp
import httpx
import pydantic
import pytest
import requests
import urllib3

from fcguard import Guard, MemoryStore
from fcguard.results import shape


def stable(value: object) -> str | None:
    """Name a case the same in every process: a text by itself, anything else by its number."""
    return value[:40] if isinstance(value, str) else None


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        status = int(self.path.partition("?")[0].rpartition("/")[2])
        if status == 302:
            self._answer(302, b"", Location="/422")
        elif status in (204, 304):
            self._answer(status, b"")
        else:
            self._answer(
                status, json.dumps({"detail": "why", "id": "A1"}).encode(), **{"Content-Type": "application/json"}
            )

    do_GET = do_POST

    def _answer(self, status, body, **headers):
        self.send_response(status)
        for name, value in {
            **headers,
            "Set-Cookie": "session=hunter22",
            "Retry-After": "7",
            "X-Request-Id": "r1",
        }.items():
            self.send_header(name, value)
        if status != 204:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


@pytest.fixture(scope="module")
def server():
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://user:hunter22@127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def bare(url):
    return url.replace("user:hunter22@", "")


def with_httpx(method, url):
    with httpx.Client(trust_env=False, verify=False) as client:
        return client.request(method, url, content=b"{}")


def with_requests(method, url):
    with requests.Session() as session:
        session.trust_env = False
        return session.request(method, url, data=b"{}", allow_redirects=False)


def with_urllib3(method, url):
    with urllib3.PoolManager() as pool:
        return pool.request(method, bare(url), body=b"{}", redirect=False)


def with_aiohttp(method, url):
    async def run():
        async with (
            aiohttp.ClientSession() as session,
            session.request(method, bare(url), data=b"{}", allow_redirects=False) as response,
        ):
            await response.read()
            return response

    return asyncio.run(run())


CLIENTS = [with_httpx, with_requests, with_urllib3, with_aiohttp]


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize("status", [200, 422, 503])
def test_a_response_of_a_client(server, client, status):
    shaped = shape(client("POST", f"{server}/orders/{status}?token=hunter22"))
    assert shaped.kind == "http"
    assert shaped.notes == ()
    assert shaped.data["status"] == status
    assert shaped.data["body"] == {"detail": "why", "id": "A1"}
    assert shaped.data["headers"]["x-request-id"] == "r1"
    assert "hunter22" not in json.dumps(shaped.data)
    if client is not with_urllib3:
        assert shaped.data["url"] == f"{bare(server)}/orders/{status}"
    if status == 200:
        assert shaped.failure is None
    else:
        failure = shaped.failure
        assert (failure.kind, failure.status, failure.method, failure.message) == ("http", status, "POST", "why")
        assert (failure.retry_after, failure.has_history) == ("7", False)


def test_a_response_without_content(server):
    assert shape(with_httpx("POST", f"{server}/204")).data["body"] is None


def test_an_answer_after_a_redirect_says_so(server):
    with requests.Session() as session:
        session.trust_env = False
        response = session.post(f"{bare(server)}/302", data=b"{}")
    assert shape(response).failure.has_history
    with httpx.Client(trust_env=False, follow_redirects=True, verify=False) as client:
        assert shape(client.post(f"{bare(server)}/302")).failure.has_history
    with urllib3.PoolManager() as pool:
        response = pool.request("POST", f"{bare(server)}/302", redirect=True)
    assert shape(response).failure.has_history


@pytest.mark.parametrize("client", CLIENTS)
@pytest.mark.parametrize(
    ("status", "is_failure"), [(301, True), (302, True), (303, False), (304, False), (307, True), (308, True)]
)
def test_a_redirect_that_was_not_followed_is_no_success(server, client, status, is_failure):
    failure = shape(client("POST", f"{server}/{status}")).failure
    assert (failure is not None) is is_failure
    assert failure is None or (failure.status, failure.method) == (status, "POST")


def test_a_write_whose_redirect_was_not_followed_is_uncertain(server):
    guard = Guard(store=MemoryStore())

    @guard.tool(effect="write")
    def create_order() -> object:
        return with_httpx("POST", f"{server}/307")  # a missing slash, say: nothing was created

    with guard.task("create an order"):
        result = create_order()
    assert (result.success, result.error_type, result.effect) == (False, "UNCERTAIN_RESULT", "unknown")
    assert "HTTP 307" in result.message


def test_a_response_that_was_not_read_stays_unread(server):
    url = f"{bare(server)}/422"
    with httpx.Client(trust_env=False, verify=False) as client, client.stream("POST", url) as response:
        assert_unread(shape(response))
        assert response.read() == b'{"detail": "why", "id": "A1"}'
    with requests.post(url, stream=True, timeout=60) as response:
        assert_unread(shape(response))
        assert response.json()["id"] == "A1"
    with urllib3.PoolManager() as pool:
        response = pool.request("POST", url, preload_content=False)
        assert_unread(shape(response))
        assert json.loads(response.read())["id"] == "A1"
    connection = http.client.HTTPConnection(bare(server).rpartition("/")[2])
    with contextlib.closing(connection):
        connection.request("POST", "/422", b"{}")
        response = connection.getresponse()
        assert_unread(shape(response))
        assert json.loads(response.read())["id"] == "A1"


def assert_unread(shaped):
    assert (shaped.data["status"], shaped.data["body"]) == (422, None)
    assert shaped.notes == ("unread",)
    assert shaped.failure.status == 422
    assert shaped.failure.message == ""


def test_urllib(server):
    with urllib.request.urlopen(f"{bare(server)}/200") as response:
        assert shape(response).data["status"] == 200
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(f"{bare(server)}/404")
    with contextlib.closing(caught.value):
        assert shape(caught.value).failure.status == 404


BODIES = [
    ("application/json; charset=utf-8", b'{"a": 1}', {"a": 1}),
    ("application/problem+json", b'{"a": 1}', {"a": 1}),
    ("application/json", b"{oops", "{oops"),
    ("application/json", b"9" * 5000, "9" * 5000),
    ("text/plain; charset=latin-1", b"\xe9", "é"),
    ('text/plain; charset="utf-8"', "é".encode(), "é"),
    ("text/plain; charset=unheard-of", b"a", {"$bytes": "YQ==", "media_type": "text/plain"}),
    ("application/octet-stream", b"\xff", {"$bytes": "/w==", "media_type": "application/octet-stream"}),
    ("", b"\x89PNG\r\n\x1a\n", {"$bytes": "iVBORw0KGgo=", "media_type": "image/png"}),
    ("text/plain; format=flowed", b"a", "a"),
    ("", b"", None),
]


@pytest.mark.parametrize(("content_type", "body", "shown"), BODIES, ids=stable)
def test_body(content_type, body, shown):
    headers = {"content-type": content_type} if content_type else {}
    assert shape(httpx.Response(200, headers=headers, content=body)).data["body"] == shown


REASONS = [
    ({"detail": "a", "message": "b"}, "a"),
    ({"error": {"message": "c"}}, "c"),
    ({"message": "  "}, ""),
    ({"detail": [{"loc": ["id"], "msg": "d"}]}, '[{"loc": ["id"], "msg": "d"}]'),
    ({"detail": [], "title": "e"}, "e"),
    ({"other": 1}, ""),
    ([1], ""),
]


@pytest.mark.parametrize(("body", "message"), REASONS, ids=str)
def test_reason_of_a_failure(body, message):
    assert shape(httpx.Response(400, json=body)).failure.message == message


def test_markup_is_no_reason():
    assert shape(httpx.Response(502, html=" <html>Bad gateway</html>")).failure.message == ""
    assert shape(httpx.Response(502, text="upstream is gone\nmore")).failure.message == "upstream is gone"


class Fake:
    def __init__(self, **fields):
        self.__dict__.update(fields)


@pytest.mark.parametrize(
    "fake",
    [
        Fake(status_code=503, text="down"),
        Fake(status_code=503, headers={}, content=b"down"),
        Fake(status=503, headers={"A": "b"}, data="down"),
        Fake(status_code=503, headers={b"A": b"b", 3: 4}, body=bytearray(b"down")),
        Fake(status_code=503, headers=5, text="down"),
    ],
    ids=stable,
)
def test_an_object_of_the_shape_of_a_response(fake):
    shaped = shape(fake)
    assert (shaped.kind, shaped.failure.status, shaped.data["body"]) == ("http", 503, "down")
    assert shaped.failure.method is None


def test_a_body_that_was_parsed_already():
    assert shape(Fake(status_code=200, data={"a": 1})).data["body"] == {"a": 1}


@pytest.mark.parametrize(
    "fake",
    [
        Fake(status_code=503),
        Fake(status=503, text="down"),
        Fake(status_code="503", text="down"),
        Fake(status_code=True, text="down"),
        Fake(status_code=5030, text="down"),
    ],
    ids=stable,
)
def test_an_object_that_is_no_response(fake):
    shaped = shape(fake)
    assert (shaped.kind, shaped.failure) == ("object", None)


@dataclasses.dataclass
class Order:
    status: int
    headers: dict
    content: str = ""


@dataclasses.dataclass
class Stub:
    status_code: int
    headers: dict


@dataclasses.dataclass
class GeneratedResponse:
    status_code: int
    headers: dict
    content: bytes


class Log(pydantic.BaseModel):
    status: int
    headers: dict


def test_declared_data_is_data_unless_it_is_a_whole_response():
    assert shape(Order(404, {}, "x")).data == {"status": 404, "headers": {}, "content": "x"}
    assert shape(Stub(404, {})).failure is None
    assert shape(Log(status=500, headers={})).data == {"status": 500, "headers": {}}
    assert shape({"status_code": 500, "headers": {}, "text": "x"}).failure is None
    assert shape(GeneratedResponse(404, {}, b"no")).failure.status == 404


def test_a_response_inside_a_result_is_shown_but_decides_nothing():
    shaped = shape({"first": httpx.Response(500, text="down")})
    assert shaped.data["first"]["status"] == 500
    assert (shaped.kind, shaped.failure) == ("json", None)


class Lazy:
    """Delegates everything, as wrappers of responses do."""

    def __init__(self, response):
        self._response = response

    def __getattr__(self, name):
        return getattr(self._response, name)

    @property
    def text(self):
        return self._response.text


def test_a_wrapper_of_a_response_is_one():
    shaped = shape(Lazy(httpx.Response(404, json={"detail": "why"})))
    assert (shaped.failure.status, shaped.failure.message) == (404, "why")


def test_a_url_that_is_none():
    assert shape(Fake(status_code=200, text="", url="http://[::1")).data["url"] is None
    assert shape(Fake(status_code=200, text="", url=lambda: "x")).data["url"] is None
