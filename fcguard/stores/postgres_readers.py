"""Idle connections for readers: few, opened when needed, replaced at once when the server has dropped them.

A pool that opens connections in the background waits longer after each failure; after a server's restart its callers would
still be refused. Here the caller's own thread connects, and gets the server's own words if that fails.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import psycopg

from fcguard.errors import StoreUnavailable

__all__ = ["Readers"]

T = TypeVar("T")
Connection: TypeAlias = psycopg.Connection[Any]


class Readers:
    """At most `size` connections in use at once; one that is free is used again.

    Args:
        connect: opens a connection.
        size: most connections.
        timeout: seconds to wait for a free one.
    """

    def __init__(self, connect: Callable[[], Connection], size: int, timeout: float) -> None:
        self._connect, self._timeout = connect, timeout
        self._free = threading.BoundedSemaphore(size)
        self._idle: list[Connection] = []

    def run(self, reader: Callable[[Connection], T]) -> T:
        """Run a function that reads on a connection, once more on a fresh one if an idle one turns out to be dead.

        Raises:
            StoreUnavailable: no connection became free in time.
            psycopg.Error: the server cannot be reached, or refused.
        """
        if not self._free.acquire(timeout=self._timeout):
            raise StoreUnavailable(f"no connection for reading became free within {self._timeout} s; raise pool_size")
        try:
            while self._idle:
                connection = self._idle.pop()
                try:
                    return self._run_on(connection, reader)
                except psycopg.OperationalError:
                    if not connection.closed:
                        raise
            return self._run_on(self._connect(), reader)
        finally:
            self._free.release()

    def close(self) -> None:
        """Close the idle connections."""
        while self._idle:
            self._idle.pop().close()

    def _run_on(self, connection: Connection, reader: Callable[[Connection], T]) -> T:
        try:
            return reader(connection)
        finally:
            if not connection.closed:
                self._idle.append(connection)
