"""A store that speaks enough of the Redis protocol to apply SET, count it, and fail at an exact point."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable


class RedisStub:
    """Answers OK to everything but SET; what SET does is the script's business: (stub, connection) -> whether to go on."""

    def __init__(self, script: Callable[[RedisStub, socket.socket], bool], *, auth_error: bool = False) -> None:
        self.applied = 0
        self.stop = threading.Event()
        self._script, self._auth_error = script, auth_error
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def __enter__(self) -> RedisStub:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop.set()
        self.stop_listening()
        for thread in self._threads:
            thread.join(60)

    def stop_listening(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._listener.accept()
                thread = threading.Thread(target=self._serve, args=(connection,), daemon=True)
                thread.start()
                self._threads.append(thread)

    def _serve(self, connection: socket.socket) -> None:
        with connection, connection.makefile("rb") as lines, contextlib.suppress(OSError, ValueError):
            while head := lines.readline():
                words = []
                for _ in range(int(head[1:])):
                    size = int(lines.readline()[1:])
                    words.append(lines.read(size + 2)[:-2])
                if words[0].upper() == b"SET":
                    if not self._script(self, connection):
                        return
                elif words[0].upper() == b"AUTH" and self._auth_error:
                    connection.sendall(b"-WRONGPASS invalid username-password pair\r\n")
                else:
                    connection.sendall(b"+OK\r\n")
