"""A real OTLP/HTTP receiver."""

from __future__ import annotations

import gzip
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Collector:
    """A real OTLP/HTTP receiver on a local port."""

    def __init__(self) -> None:
        self.bodies: list[tuple[str, bytes]] = []
        self.status = 200
        self.may_answer = threading.Event()
        self.may_answer.set()
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = gzip.decompress(body)
                collector.may_answer.wait(60)
                status = collector.status
                if status == 200:
                    collector.bodies.append((self.path, body))
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def traces(self) -> list[Any]:
        return [ExportTraceServiceRequest.FromString(body) for path, body in self.bodies if path == "/v1/traces"]

    def spans(self) -> list[Any]:
        return [
            span
            for request in self.traces()
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    def metrics(self) -> list[Any]:
        return [ExportMetricsServiceRequest.FromString(body) for path, body in self.bodies if path == "/v1/metrics"]

    def close(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()
