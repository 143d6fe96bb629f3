"""A TCP proxy that can lose the connection at a chosen moment."""

from __future__ import annotations

import selectors
import socket
import threading
from collections.abc import Callable
from contextlib import suppress


class Proxy:
    """Passes bytes between clients and one server.

    Attributes:
        port: where it listens on 127.0.0.1.
        watch: asked with the bytes of every message to the server: None passes it on; `before` drops the connection
            instead of passing it on; `after` passes it on and drops the connection before the answer comes back; `silent` and
            `heard` do the same, but keep the connection and never pass anything on again.
        is_down: whether new connections are refused.
    """

    def __init__(self, port: int) -> None:
        self._server_port = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.watch: Callable[[bytes], str | None] = lambda data: None
        self.is_down = False
        self.dropped = 0
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join(60)

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self.is_down:
                client.close()
                continue
            server = socket.create_connection(("127.0.0.1", self._server_port))
            threading.Thread(target=self._pump, args=(client, server), daemon=True).start()

    def _pump(self, client: socket.socket, server: socket.socket) -> None:
        with client, server, selectors.DefaultSelector() as ready, suppress(OSError):
            ready.register(client, selectors.EVENT_READ)
            ready.register(server, selectors.EVENT_READ)
            while True:
                for key, _ in ready.select():
                    source = client if key.fileobj is client else server
                    data = source.recv(65536)
                    if not data:
                        return
                    order = self.watch(data) if source is client else None
                    if order not in ("before", "silent"):
                        (server if source is client else client).sendall(data)
                    if order is not None:
                        self.dropped += 1
                        while order in ("silent", "heard") and client.recv(65536):
                            pass
                        return
