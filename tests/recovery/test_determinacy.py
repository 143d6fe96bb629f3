"""No false "not applied": every HTTP client against every fault on real sockets, beside the server's own count.

`pytest -s tests/recovery/test_determinacy.py` prints the table.
"""

from __future__ import annotations

import socket
import time

import pytest

from fcguard.recovery.classify import classify_exception, classify_signal
from fcguard.results import shape
from tests.recovery import http_clients
from tests.recovery.fault_server import Service, closed_port, full_backlog, read_request, reset, respond, serving
from tests.recovery.http_clients import CLIENTS, RETRYING, with_httpx, with_requests

TABLE = []


@pytest.fixture(scope="module", autouse=True)
def table():
    yield
    width = [max(len(str(row[column])) for row in TABLE) for column in range(5)] if TABLE else []
    print()
    for row in TABLE:
        print("  ".join(str(cell).ljust(size) for cell, size in zip(row, width, strict=True)))


def outcome(client, calls):
    """Run the tool and classify what came of it; None for a success."""
    try:
        returned = client(calls)
    except Exception as error:
        return classify_exception(error, now=time.time())
    signal = shape(returned).failure
    return None if signal is None else classify_signal(signal, now=time.time())


def check(name, fault, found, applied, expected):
    """Record a row and hold it against the law: what is claimed not to be applied is not applied."""
    proof = found.proof if found is not None else "success"
    TABLE.append((name, fault, found.error_type if found else "-", proof, applied))
    if proof in ("not_sent", "refused"):
        assert applied == 0, f"{name}: {fault}: {found} although the server applied it"
    assert proof == expected, f"{name}: {fault}: {found}"


# What a server does with a whole request. (name, script, expected proof) ----------------------------------------


def after_reading(act, *, applies):
    def script(service: Service, connection: socket.socket, number: int) -> bool:
        read_request(service, connection)
        if applies:
            service.apply()
        return act(service, connection)

    return script


def answer(status, body=b"{}", *headers, length=None):
    return lambda service, connection: respond(connection, status, body, *headers, length=length)


def hang_up(service, connection):
    return False


def stall(service, connection):
    service.stop.wait(60)
    return False


def cut_body(service, connection):
    respond(connection, 200, b'{"order', length=100)
    return False


def garbage(service, connection):
    connection.sendall(b"\x00\x01 this is no HTTP \r\n\r\n")
    return False


def reset_now(service, connection):
    return reset(connection)


SERVER_FAULTS = {
    "applied, then stalls": (after_reading(stall, applies=True), "unknown"),
    "not applied, stalls": (after_reading(stall, applies=False), "unknown"),
    "applied, then reset": (after_reading(reset_now, applies=True), "unknown"),
    "not applied, reset": (after_reading(reset_now, applies=False), "unknown"),
    "applied, then closed": (after_reading(hang_up, applies=True), "unknown"),
    "applied, body cut": (after_reading(cut_body, applies=True), "unknown"),
    "applied, body is no JSON": (after_reading(answer(200, b"{oops"), applies=True), "unknown"),
    "applied, garbage": (after_reading(garbage, applies=True), "unknown"),
    **{
        f"applied, then {status}": (after_reading(answer(status), applies=True), "unknown")
        for status in (408, 409, 425, 429, 500, 502, 503, 504)
    },
    **{
        f"not applied, {status}": (after_reading(answer(status, b'{"detail": "no"}'), applies=False), "refused")
        for status in (400, 401, 403, 404, 410, 412, 413, 422)
    },
    "applied, then 303 to a 404": (None, "unknown"),
    "applied, then 303 to a closed port": (None, "unknown"),
}
DO_NOT_READ = {("applied, body cut", "botocore")} | {
    ("applied, body is no JSON", name) for name in ("httpx, returned", "http.client", "urllib.request", "botocore")
}
"""Clients, as used here, that take a broken body of a 200 for a success."""
NOT_FOLLOWED = {"http.client", "botocore"}
"""Clients that do not follow redirects; what they make of one is their tool's business."""


def redirect_to_missing(service, connection, number):
    if read_request(service, connection) == b"GET":
        return respond(connection, 404)
    service.apply()
    return respond(connection, 303, b"", f"Location: http://127.0.0.1:{service.port}/orders/1")


def redirect_to_nobody(service, connection, number):
    read_request(service, connection)
    service.apply()
    return respond(connection, 303, b"", f"Location: http://127.0.0.1:{closed_port()}/orders/1")


@pytest.fixture
def impatient(monkeypatch):
    """Let the clients give up soon."""
    monkeypatch.setattr(http_clients, "TIMEOUT", 0.5)


@pytest.mark.parametrize("name", CLIENTS)
@pytest.mark.parametrize("fault", SERVER_FAULTS)
def test_after_the_request_was_read(name, fault, request):
    script, expected = SERVER_FAULTS[fault]
    if "stalls" in fault:
        request.getfixturevalue("impatient")
    if script is None:
        if name in NOT_FOLLOWED:
            pytest.skip("does not follow redirects")
        script = redirect_to_missing if "404" in fault else redirect_to_nobody
    with serving(script) as service:
        found = outcome(CLIENTS[name], [("POST", f"http://127.0.0.1:{service.port}/orders")])
        applied = service.applied
    check(name, fault, found, applied, "success" if (fault, name) in DO_NOT_READ else expected)


# Before the request is read -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CLIENTS)
def test_nobody_listens(name):
    found = outcome(CLIENTS[name], [("POST", f"http://127.0.0.1:{closed_port()}/orders")])
    check(name, "nobody listens", found, 0, "not_sent")


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("name", CLIENTS)
def test_no_such_host(name):
    found = outcome(CLIENTS[name], [("POST", "http://nobody.invalid:9/orders")])
    check(name, "no such host", found, 0, "not_sent")


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("name", CLIENTS)
def test_the_connection_is_not_made_in_time(name):
    with full_backlog() as port:
        found = outcome(CLIENTS[name], [("POST", f"http://127.0.0.1:{port}/orders")])
    check(name, "connect timeout", found, 0, "not_sent")


def no_handshake(service, connection, number):
    connection.recv(65536)
    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    return False


@pytest.mark.parametrize("name", CLIENTS)
def test_the_handshake_fails(name):
    with serving(no_handshake) as service:
        found = outcome(CLIENTS[name], [("POST", f"https://127.0.0.1:{service.port}/orders")])
        applied = service.applied
    expected = "unknown" if name in ("urllib3", "botocore") else "not_sent"
    check(name, "no TLS there", found, applied, expected)


@pytest.mark.parametrize("name", CLIENTS)
@pytest.mark.parametrize("fault", ["reset unread", "closed unread"])
def test_the_connection_ends_before_the_request_is_read(name, fault):
    def script(service, connection, number):
        connection.recv(1, socket.MSG_PEEK)
        return reset(connection) if fault == "reset unread" else False

    with serving(script) as service:
        found = outcome(CLIENTS[name], [("POST", f"http://127.0.0.1:{service.port}/orders")])
        applied = service.applied
    check(name, fault, found, applied, "unknown")


# Connections that were used before ------------------------------------------------------------------------------

KEEPS_CONNECTIONS = [name for name in CLIENTS if name not in ("urllib.request", "openai", "anthropic", "botocore")]


@pytest.mark.parametrize("name", KEEPS_CONNECTIONS)
def test_a_kept_connection_ends_after_the_second_write(name):
    def script(service, connection, number):
        read_request(service, connection)
        if number == 0:
            return respond(connection, 200)
        service.apply()
        return False

    with serving(script) as service:
        url = f"http://127.0.0.1:{service.port}/orders"
        found = outcome(CLIENTS[name], [("POST", url), ("POST", url)])
        applied = service.applied
    check(name, "kept connection, applied, then closed", found, applied, "unknown")


# Attempts that a library makes by itself ------------------------------------------------------------------------


def applies_and_is_gone(service, connection, number):
    """A warm-up request is answered; the next one is applied, and nobody listens any more."""
    read_request(service, connection)
    if service.requests == 1 and service.warm:
        return respond(connection, 200)
    service.apply()
    service.stop_listening()
    return False


@pytest.mark.parametrize("name", RETRYING)
def test_a_hidden_second_attempt_is_refused_after_the_first_was_applied(name):
    with serving(applies_and_is_gone) as service:
        service.warm = name == "aiohttp"
        url = f"http://127.0.0.1:{service.port}/orders"
        found = outcome(RETRYING[name], [("PUT", url)] * (2 if service.warm else 1))
        applied = service.applied
    assert applied == 1
    check(name, "hidden retry: applied, then refused", found, applied, "unknown")


@pytest.mark.parametrize("name", ["httpx, tenacity", "requests, Retry", "openai, 1 retry", "botocore, 2 attempts"])
def test_a_hidden_second_attempt_gets_an_answer_after_the_first_was_applied(name):
    def script(service, connection, number):
        read_request(service, connection)
        if service.requests == 1:
            service.apply()
            return False
        return respond(connection, 422, b'{"detail": "exists"}')

    with serving(script) as service:
        found = outcome(RETRYING[name], [("PUT", f"http://127.0.0.1:{service.port}/orders")])
        applied = service.applied
    assert applied == 1
    check(name, "hidden retry: applied, then 422", found, applied, "unknown")


@pytest.mark.parametrize("name", ["requests, Retry", "urllib3", "aiohttp"])
def test_hidden_attempts_that_never_connect_prove_that_nothing_was_sent(name):
    found = outcome(RETRYING[name], [("PUT", f"http://127.0.0.1:{closed_port()}/orders")])
    check(name, "hidden retries: nobody listens", found, 0, "not_sent")


# Proxies --------------------------------------------------------------------------------------------------------

PROXIED = {"httpx": with_httpx, "requests": with_requests}


@pytest.mark.parametrize("name", PROXIED)
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_nobody_listens_at_the_proxy(name, scheme):
    proxy = f"http://127.0.0.1:{closed_port()}"
    found = outcome(lambda calls: PROXIED[name](calls, proxy=proxy), [("POST", f"{scheme}://orders.invalid/orders")])
    check(name, f"no proxy, {scheme}", found, 0, "not_sent")


@pytest.mark.parametrize("name", PROXIED)
def test_the_proxy_opens_no_tunnel(name):
    with serving(after_reading(answer(403), applies=False)) as service:
        proxy = f"http://127.0.0.1:{service.port}"
        found = outcome(lambda calls: PROXIED[name](calls, proxy=proxy), [("POST", "https://orders.invalid/orders")])
        applied = service.applied
    check(name, "no tunnel", found, applied, "not_sent")


@pytest.mark.parametrize("name", PROXIED)
def test_the_proxy_passes_the_request_on_and_is_gone(name):
    with serving(after_reading(reset_now, applies=True)) as service:
        proxy = f"http://127.0.0.1:{service.port}"
        found = outcome(lambda calls: PROXIED[name](calls, proxy=proxy), [("POST", "http://orders.invalid/orders")])
        applied = service.applied
    check(name, "forwarded, then reset", found, applied, "unknown")


# Several requests of one tool -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CLIENTS)
def test_a_failed_read_after_a_done_write_proves_nothing(name):
    if name in ("openai", "anthropic", "botocore"):
        pytest.skip("sends one kind of request only")

    def script(service, connection, number):
        if read_request(service, connection) == b"GET":
            return respond(connection, 404, b"{}", "Connection: close") and False
        service.apply()
        return respond(connection, 201)

    with serving(script) as service:
        url = f"http://127.0.0.1:{service.port}/orders"
        found = outcome(CLIENTS[name], [("POST", url), ("GET", url)])
        applied = service.applied
    check(name, "applied, then a GET answers 404", found, applied, "unknown")


def test_a_second_write_after_an_unsettled_first_proves_nothing():
    with serving(applies_and_is_gone) as service:
        service.warm = False
        url = f"http://127.0.0.1:{service.port}/orders"

        def tool(calls):
            try:
                with_httpx(calls)
            except Exception:
                with_requests(calls)

        found = outcome(tool, [("POST", url)])
        applied = service.applied
    check("httpx, then requests", "own retry: applied, then refused", found, applied, "unknown")
