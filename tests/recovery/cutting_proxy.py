"""A proxy in front of a database that cuts the line at an exact point of the conversation."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
from collections.abc import Callable


class CuttingProxy:
    """Passes bytes on until the client sends `word`; then cuts the line, before the server hears it or after it has answered.

    Args:
        connect: opens a connection to the real server.
        word: what the client says when the line is to be cut; None: never.
        after_answer: pass the word on and wait for the first byte of the answer, which the client does not get.
    """

    def __init__(self, connect: Callable[[], socket.socket], word: bytes | None, *, after_answer: bool) -> None:
        self._connect, self._word, self._after_answer = connect, word, after_answer
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def __enter__(self) -> CuttingProxy:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(60)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                thread = threading.Thread(target=self._pump, args=(client,), daemon=True)
                thread.start()
                self._threads.append(thread)

    def _pump(self, client: socket.socket) -> None:
        with client, self._connect() as server, selectors.DefaultSelector() as ready, contextlib.suppress(OSError):
            ready.register(client, selectors.EVENT_READ)
            ready.register(server, selectors.EVENT_READ)
            while True:
                for key, _ in ready.select():
                    chunk = key.fileobj.recv(65536)
                    if not chunk:
                        return
                    if key.fileobj is server:
                        client.sendall(chunk)
                    elif self._word is None or self._word not in chunk:
                        server.sendall(chunk)
                    else:
                        if self._after_answer:
                            server.sendall(chunk)
                            server.recv(1)
                        return
