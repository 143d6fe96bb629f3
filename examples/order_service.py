"""A real order service: HTTP on 127.0.0.1 with a SQLite file behind it, which can be told to misbehave.

    python examples/order_service.py --db orders.db        # prints "listening on PORT"

POST /orders        create an order; it does NOT remove duplicates, as many services do not
GET  /orders/ID     the orders with that id
POST /fault         {"fault": "committed" | "lost" | "slow" | "none"}: how the next POST /orders behaves
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

SCHEMA = "CREATE TABLE IF NOT EXISTS orders (row INTEGER PRIMARY KEY, order_id TEXT, sku TEXT, quantity INTEGER, status TEXT)"
SLOW_SECONDS = 1.5


class OrderService(ThreadingHTTPServer):
    """Serves one SQLite file; `fault` is used up by the next order."""

    daemon_threads = True

    def __init__(self, database: Path) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.database, self.fault = database, "none"
        self.lock, self.stopping = threading.Lock(), threading.Event()
        with self.connect() as connection:
            connection.execute(SCHEMA)

    @contextlib.contextmanager
    def connect(self) -> Iterator[sqlite3.Connection]:
        connection = sqlite3.connect(self.database, timeout=10)
        try:
            with connection:
                yield connection
        finally:
            connection.close()

    def take_fault(self) -> str:
        with self.lock:
            fault, self.fault = self.fault, "none"
            return fault

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that hung up is not worth a stack trace."""


class Handler(BaseHTTPRequestHandler):
    server: OrderService

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or "{}")
        if self.path == "/fault":
            self.server.fault = body["fault"]
            self.answer(200, {"fault": body["fault"]})
            return
        fault = self.server.take_fault()
        if fault == "lost":
            self.hang()
            return
        if fault == "slow":
            time.sleep(SLOW_SECONDS)
        with self.server.connect() as connection:
            connection.execute(
                "INSERT INTO orders (order_id, sku, quantity, status) VALUES (?, ?, ?, 'pending_payment')",
                (body["order_id"], body["sku"], body["quantity"]),
            )
        if fault == "committed":
            self.hang()
            return
        self.answer(201, {**body, "status": "pending_payment"})

    def do_GET(self) -> None:
        order_id = self.path.rpartition("/")[2]
        with self.server.connect() as connection:
            rows = connection.execute(
                "SELECT order_id, sku, quantity, status FROM orders WHERE order_id = ?", (order_id,)
            ).fetchall()
        self.answer(200, [dict(zip(("order_id", "sku", "quantity", "status"), row, strict=True)) for row in rows])

    def answer(self, status: int, content: object) -> None:
        data = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def hang(self) -> None:
        """Say nothing until the service ends; the client gives up first."""
        self.server.stopping.wait(30)
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        """Keep the output of the example readable."""


@contextlib.contextmanager
def running_service(database: Path) -> Iterator[str]:
    """Run the service in a process of its own and yield its base URL."""
    command = [sys.executable, __file__, "--db", str(database)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            if not line.startswith("listening on "):
                raise RuntimeError("the order service did not start")
            yield f"http://127.0.0.1:{int(line.split()[-1])}"
        finally:
            process.terminate()


def count_orders(database: Path) -> int:
    """Count the orders in the service's own database."""
    connection = sqlite3.connect(database)
    try:
        return int(connection.execute("SELECT count(*) FROM orders").fetchone()[0])
    finally:
        connection.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--db", type=Path, required=True)
    service = OrderService(parser.parse_args().db)
    print(f"listening on {service.server_address[1]}", flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        service.serve_forever()


if __name__ == "__main__":
    main()
