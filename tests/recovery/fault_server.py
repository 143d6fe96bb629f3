"""An HTTP service on a real socket that applies writes, counts them, and fails on command at an exact point."""

from __future__ import annotations

import atexit
import contextlib
import functools
import socket
import struct
import threading
from collections.abc import Callable, Iterator

RESET = struct.pack("ii", 1, 0)


class Service:
    """Answers each request as its script says; a script gets (service, connection, number of the request on it)."""

    def __init__(self, script: Callable[[Service, socket.socket, int], bool]) -> None:
        self.applied = 0
        self.requests = 0
        self.warm = False
        self.stop = threading.Event()
        self._script = script
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self._threads: list[threading.Thread] = []
        self.port = self._listener.getsockname()[1]
        self._spawn(self._accept)

    def _spawn(self, target, *args) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)
        thread.start()
        self._threads.append(thread)

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self._open.append(connection)
            self._spawn(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        number = 0
        with contextlib.suppress(OSError), connection:
            while self._script(self, connection, number):
                number += 1

    def apply(self) -> None:
        """Do the write; after this line it is in the system."""
        self.applied += 1

    def stop_listening(self) -> None:
        """Refuse every further connection."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def close(self) -> None:
        self.stop.set()
        self.stop_listening()
        for connection in self._open:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(60)


def read_request(service: Service, connection: socket.socket) -> bytes:
    """Read one whole request, its body included."""
    data = b""
    while b"\r\n\r\n" not in data:
        chunk = connection.recv(65536)
        if not chunk:
            raise ConnectionError("the client went away")
        data += chunk
    head, _, body = data.partition(b"\r\n\r\n")
    headers = {
        name.strip().lower(): value.strip()
        for name, _, value in (line.partition(b":") for line in head.split(b"\r\n")[1:])
    }
    length = int(headers.get(b"content-length", 0))
    chunked = headers.get(b"transfer-encoding") == b"chunked"
    if headers.get(b"expect", b"").lower() == b"100-continue":
        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")
    while len(body) < length or (chunked and not body.endswith(b"0\r\n\r\n")):
        chunk = connection.recv(65536)
        if not chunk:
            raise ConnectionError("the client went away")
        body += chunk
    service.requests += 1
    return head.split(b" ", 1)[0]


def reset(connection: socket.socket) -> bool:
    """Close with a reset instead of a farewell."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
    connection.close()
    return False


def respond(
    connection: socket.socket, status: int, body: bytes = b"{}", *headers: str, length: int | None = None
) -> bool:
    lines = [
        f"HTTP/1.1 {status} X",
        f"Content-Length: {len(body) if length is None else length}",
        "Content-Type: application/json",
    ]
    connection.sendall("\r\n".join([*lines, *headers, "", ""]).encode() + body)
    return True


@contextlib.contextmanager
def serving(script: Callable[[Service, socket.socket, int], bool]) -> Iterator[Service]:
    service = Service(script)
    try:
        yield service
    finally:
        service.close()


@contextlib.contextmanager
def full_backlog() -> Iterator[int]:
    """A port whose queue of connections is full, so that a connection is neither made nor refused."""
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket())
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        for _ in range(8):
            filler = stack.enter_context(socket.socket())
            filler.setblocking(False)  # noqa: FBT003
            filler.connect_ex(listener.getsockname())
        yield listener.getsockname()[1]


@functools.cache
def closed_port() -> int:
    """A port on which nobody listens, and nobody will: it is kept bound."""
    kept = socket.socket()
    kept.bind(("127.0.0.1", 0))
    atexit.register(kept.close)
    return int(kept.getsockname()[1])
