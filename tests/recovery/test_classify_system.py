"""Errors of the operating system, the standard library, programs, browsers and MCP servers, made for real where possible."""

from __future__ import annotations

import asyncio
import concurrent.futures
import datetime as dt
import errno
import http.client
import json
import os
import socket
import ssl
import subprocess
import sys
import threading

import psycopg.errors
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from mcp.shared.exceptions import MCPError
from playwright._impl import _errors as playwright_errors

from fcguard.recovery.classify import classify_exception
from fcguard.recovery.classify_database import SQLSTATES
from fcguard.recovery.classify_system import ERRNOS
from tests.recovery.fault_server import closed_port, full_backlog, read_request, respond, serving


def stable(value: object) -> str | None:
    """Name a case the same in every process: a text by itself, anything else by its number."""
    return value[:40] if isinstance(value, str) else None


NOW = 1_800_000_000.0


def classify(error):
    found = classify_exception(error, now=NOW)
    return str(found.error_type), found.proof


def raised_by(tool, kind=Exception):
    with pytest.raises(kind) as caught:
        tool()
    return caught.value


# errno ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("number", sorted(errno.errorcode))
def test_every_errno_has_an_answer_and_only_a_refused_connection_proves_something(number):
    error_type, proof = classify(OSError(number, os.strerror(number)))
    assert proof == ("not_sent" if number == errno.ECONNREFUSED else "unknown")
    name = errno.errorcode[number]
    assert error_type == (ERRNOS[name].error_type if name in ERRNOS else "TOOL_ERROR")


@pytest.mark.parametrize(
    ("error", "error_type"),
    [
        (ConnectionError("reset"), "CONNECTION_FAILED"),
        (ConnectionRefusedError("said the tool"), "CONNECTION_FAILED"),
        (BrokenPipeError("x"), "CONNECTION_FAILED"),
        (TimeoutError(), "TIMEOUT"),
        (concurrent.futures.TimeoutError(), "TIMEOUT"),
        (PermissionError("x"), "PERMISSION_DENIED"),
        (FileNotFoundError("x"), "PRECONDITION_FAILED"),
        (BlockingIOError("x"), "RESOURCE_EXHAUSTED"),
        (OSError("x"), "TOOL_ERROR"),
        (http.client.RemoteDisconnected("x"), "CONNECTION_FAILED"),
        (http.client.IncompleteRead(b""), "CONNECTION_FAILED"),
        (asyncio.IncompleteReadError(b"", 3), "CONNECTION_FAILED"),
        (ssl.SSLEOFError(8, "x"), "CONNECTION_FAILED"),
        (json.JSONDecodeError("x", "y", 0), "RESULT_INVALID"),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "x"), "RESULT_INVALID"),
    ],
    ids=stable,
)
def test_an_error_without_a_number_that_the_tool_may_have_raised_itself_proves_nothing(error, error_type):
    assert classify(error) == (error_type, "unknown")


def test_files(tmp_path):
    assert classify(raised_by(lambda: (tmp_path / "no").read_text())) == ("PRECONDITION_FAILED", "unknown")
    assert classify(raised_by(tmp_path.read_text)) == ("PRECONDITION_FAILED", "unknown")
    assert classify(raised_by(lambda: tmp_path.mkdir())) == ("PRECONDITION_FAILED", "unknown")


# Sockets --------------------------------------------------------------------------------------------------------


def test_a_plain_socket_is_refused():
    port = closed_port()
    assert classify(raised_by(lambda: socket.create_connection(("127.0.0.1", port)))) == (
        "CONNECTION_FAILED",
        "not_sent",
    )
    with socket.socket() as plain:
        assert classify(raised_by(lambda: plain.connect(("127.0.0.1", port)))) == ("CONNECTION_FAILED", "not_sent")


def test_a_connection_that_is_not_made_in_time_is_told_from_an_answer_that_does_not_come():
    with full_backlog() as port:
        error = raised_by(lambda: socket.create_connection(("127.0.0.1", port), timeout=0.1))
    assert classify(error) == ("TIMEOUT", "not_sent")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        with socket.create_connection(listener.getsockname(), timeout=0.1) as connection:
            connection.sendall(b"order")
            assert classify(raised_by(lambda: connection.recv(1))) == ("TIMEOUT", "unknown")


def test_a_name_that_does_not_resolve():
    assert classify(raised_by(lambda: socket.create_connection(("nobody.invalid", 9)))) == (
        "CONNECTION_FAILED",
        "not_sent",
    )


def test_streams_of_asyncio():
    async def connect(port):
        await asyncio.open_connection("127.0.0.1", port)

    assert classify(raised_by(lambda: asyncio.run(connect(closed_port())))) == ("CONNECTION_FAILED", "not_sent")

    async def late(port):
        await asyncio.wait_for(asyncio.open_connection("127.0.0.1", port), 0.1)

    with full_backlog() as port:
        error = raised_by(lambda: asyncio.run(late(port)))
    assert classify(error) == ("TIMEOUT", "unknown")


def test_a_lost_connection_before_a_refused_one_withdraws_the_proof():
    def script(service, connection, number):
        read_request(service, connection)  # all of it: what is left unread turns the farewell into a reset
        service.apply()
        service.stop_listening()
        return False

    with serving(script) as service:

        def tool():
            connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=30)
            try:
                connection.request("POST", "/orders", b"{}")
                connection.getresponse()
            except http.client.RemoteDisconnected:
                connection.close()
                connection.request("POST", "/orders", b"{}")

        error = raised_by(tool)
        assert service.applied == 1
    assert isinstance(error, ConnectionRefusedError)
    assert classify(error) == ("CONNECTION_FAILED", "unknown")


# TLS ------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    """A certificate that nobody trusts."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "orders.test")])
    begin = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, begin, begin.replace(year=2099))
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    path.write_bytes(builder.sign(key, hashes.SHA256()).public_bytes(form[0]) + key.private_bytes(*form))
    return path


def over_tls(port):
    with socket.create_connection(("127.0.0.1", port), timeout=30) as plain:
        ssl.create_default_context().wrap_socket(plain, server_hostname="orders.test")


def test_a_certificate_that_is_not_accepted(certificate):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve():
            plain, _ = listener.accept()
            with plain, pytest.raises(OSError):
                context.wrap_socket(plain, server_side=True)

        thread = threading.Thread(target=serve)
        thread.start()
        error = raised_by(lambda: over_tls(listener.getsockname()[1]))
        thread.join()
    assert isinstance(error, ssl.SSLCertVerificationError)
    assert classify(error) == ("CONNECTION_FAILED", "not_sent")


def test_a_server_that_does_not_speak_tls():
    with serving(lambda service, connection, number: respond(connection, 400) and False) as service:
        error = raised_by(lambda: over_tls(service.port))
    assert classify(error) == ("CONNECTION_FAILED", "not_sent")


# Programs -------------------------------------------------------------------------------------------------------


def run(*words, **options):
    subprocess.run(words, check=True, capture_output=True, **options)


def test_a_program_that_cannot_be_started(tmp_path):
    for error in (
        raised_by(lambda: run(tmp_path / "nothing")),
        raised_by(lambda: run(sys.executable, "-c", "", cwd=tmp_path / "nowhere")),
        raised_by(lambda: run(tmp_path)),
        raised_by(lambda: asyncio.run(asyncio.create_subprocess_exec(tmp_path / "nothing"))),
    ):
        assert classify(error) == ("TOOL_ERROR", "not_sent")


def test_a_program_that_was_started():
    assert classify(raised_by(lambda: run(sys.executable, "-c", "raise SystemExit(3)"))) == ("TOOL_ERROR", "unknown")
    forever = "import time\nwhile True: time.sleep(1)"
    assert classify(raised_by(lambda: run(sys.executable, "-c", forever, timeout=0.2))) == ("TIMEOUT", "unknown")


# Browsers and MCP servers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "error_type"),
    [
        (playwright_errors.TimeoutError("late"), "TIMEOUT"),
        (playwright_errors.TargetClosedError("closed"), "CONNECTION_FAILED"),
        (playwright_errors.Error("net::ERR_CONNECTION_REFUSED"), "TOOL_ERROR"),
    ],
    ids=stable,
)
def test_playwright(error, error_type):
    assert classify(error) == (error_type, "unknown")


@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (-32700, ("TOOL_ERROR", "refused")),
        (-32600, ("TOOL_ERROR", "refused")),
        (-32601, ("TOOL_ERROR", "refused")),
        (-32602, ("PARAM_INVALID", "refused")),
        (-32603, ("DEPENDENCY_ERROR", "unknown")),
        (-32001, ("TIMEOUT", "unknown")),
        (-32000, ("CONNECTION_FAILED", "unknown")),
        (408, ("TIMEOUT", "unknown")),
        (422, ("TOOL_ERROR", "unknown")),
        (7, ("TOOL_ERROR", "unknown")),
    ],
)
def test_mcp(code, expected):
    assert classify(MCPError(code, "no")) == expected


# SQLSTATE -------------------------------------------------------------------------------------------------------

PROVED_NOT_SENT = {"08001", "08004", "53300", "57P03"}
PROVED_NOTHING = {"40003", "57P01", "57P02", "08006", "08007", "53100", "58030", "XX000"}


@pytest.mark.parametrize("code", sorted(code for code in psycopg.errors._sqlcodes if len(code) == 5))
def test_every_sqlstate_has_an_answer(code):
    error_type, proof = classify(psycopg.errors.lookup(code)("no"))
    row = SQLSTATES.get(code) or SQLSTATES.get(code[:2])
    if row is not None:
        assert (error_type, proof) == (row.error_type, row.proof)
    else:
        assert (error_type, proof) == ("DEPENDENCY_ERROR", "unknown")
    if code in PROVED_NOT_SENT:
        assert proof == "not_sent"
    if code in PROVED_NOTHING:
        assert proof == "unknown"
    if code in ("23505", "40001", "40P01"):
        assert proof == "refused"


def test_other_drivers_say_it_in_their_own_field():
    class PgError(Exception):
        pgcode = "23505"

    assert classify(PgError("no")) == ("PRECONDITION_FAILED", "refused")
    PgError.pgcode = "no code"
    assert classify(PgError("no")) == ("TOOL_ERROR", "unknown")
