"""A real counterpart for fault tests: an order service on HTTP with a SQLite file, in which side effects are counted."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.request import Request, urlopen

__all__ = ["OrderService", "request_json"]

_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS orders (row INTEGER PRIMARY KEY, order_id TEXT, sku TEXT, quantity TEXT, status TEXT);
CREATE TABLE IF NOT EXISTS payments (row INTEGER PRIMARY KEY, order_id TEXT);
"""


class OrderService:
    """Serve orders on 127.0.0.1, trusting as many real services: it checks nothing and removes no duplicates.

    `POST /orders` creates an order, `GET /orders/ID` answers it (404 if there is none), `POST /orders/ID/payment` pays it.
    It runs from `with` to its end, in daemon threads.

    Args:
        database: its SQLite file; made if it is missing.
    """

    def __init__(self, database: Path) -> None:
        self._database = database
        with self._connect() as connection:
            connection.executescript(_SCHEMA)
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    @property
    def url(self) -> str:
        """Base address."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def count(self, table: str, order_id: str | None = None) -> int:
        """Count side effects in the service's own database.

        Args:
            table: `orders` or `payments`.
            order_id: one order; None: all.
        """
        if table not in ("orders", "payments"):
            raise ValueError(f"{table!r} is no table; use 'orders' or 'payments'")
        where, values = ("", ()) if order_id is None else (" WHERE order_id = ?", (order_id,))
        with self._connect() as connection:
            return int(connection.execute(f"SELECT count(*) FROM {table}{where}", values).fetchone()[0])

    def add_order(self, order_id: str, status: str = "open") -> None:
        """Put an order into the database, as something that happened earlier."""
        self.create({"order_id": order_id, "sku": "S-0", "quantity": 1}, status)

    def create(self, body: dict[str, Any], status: str = "open") -> dict[str, Any]:
        """Insert an order, whatever is in it."""
        row = tuple(str(body.get(name)) for name in ("order_id", "sku", "quantity"))
        with self._connect() as connection:
            connection.execute(
                "INSERT INTO orders (order_id, sku, quantity, status) VALUES (?, ?, ?, ?)", (*row, status)
            )
        return {**body, "status": status}

    def find(self, order_id: str) -> dict[str, Any] | None:
        """Answer an order, or None."""
        with self._connect() as connection:
            row = connection.execute(
                "SELECT order_id, sku, quantity, status FROM orders WHERE order_id = ?", (order_id,)
            )
            found = row.fetchone()
        return None if found is None else dict(zip(("order_id", "sku", "quantity", "status"), found, strict=True))

    def pay(self, order_id: str) -> dict[str, Any]:
        """Book a payment, whatever the order's state."""
        with self._connect() as connection:
            connection.execute("INSERT INTO payments (order_id) VALUES (?)", (order_id,))
        return {"order_id": order_id, "paid": True}

    @contextmanager
    def _connect(self) -> Iterator[sqlite3.Connection]:
        with closing(sqlite3.connect(self._database, timeout=10)) as connection, connection:
            yield connection

    def __enter__(self) -> OrderService:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def request_json(method: str, url: str, body: Any = None, timeout: float = 5.0) -> Any:
    """Send one JSON request; raises what `urllib` raises."""
    data = None if body is None else json.dumps(body).encode()
    request = Request(url, data=data, method=method, headers={"Content-Type": "application/json"})
    with urlopen(request, timeout=timeout) as response:
        return json.load(response)


def _handler(service: OrderService) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers.get("Content-Length") or 0)) or b"{}")
            parts = self.path.strip("/").split("/")
            if parts == ["orders"]:
                self._answer(201, service.create(body))
            elif len(parts) == 3 and parts[2] == "payment":
                self._answer(201, service.pay(parts[1]))
            else:
                self._answer(404, {"detail": f"no such path {self.path!r}"})

        def do_GET(self) -> None:
            found = service.find(self.path.rpartition("/")[2])
            self._answer(404, {"detail": "no such order"}) if found is None else self._answer(200, found)

        def _answer(self, status: int, content: Any) -> None:
            data = json.dumps(content).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, format: str, *args: Any) -> None:
            """Stay silent; the database is the log."""

    return Handler
