"""Send the spans of the order check to a viewer: Arize Phoenix, Jaeger, or any collector that speaks OTLP over HTTP.

    python examples/view_trace.py http://127.0.0.1:6006

The server commits the order and never answers; the confirmation finds it. The last line is the id of the trace.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from order_check import build_guard, from_code, http
from order_service import running_service

from fcguard import Environment
from fcguard.telemetry import setup


def send_order_check(endpoint: str) -> str:
    """Run the four calls of the check below one span of the host, and send all of them to a viewer.

    Args:
        endpoint: base address of the viewer.

    Returns:
        The id of the trace, 32 hexadecimal digits.
    """
    with (
        tempfile.TemporaryDirectory(prefix="view-trace-") as name,
        setup(otlp_endpoint=endpoint, service_name="order-check") as telemetry,
        running_service(Path(name) / "orders.db") as url,
        build_guard(url, Path(name) / "orders.db", Path(name), tracer_provider=telemetry.tracer_provider) as guard,
    ):
        http("POST", f"{url}/fault", {"fault": "committed"}, timeout=5)
        task = guard.task(
            goal="create an order and check that it waits for its payment",
            environment=Environment(name="test-a", tenant="mall-regression", base_urls=(url,)),
            agent="order-checker",
        )
        tracer = telemetry.tracer_provider.get_tracer("order-check")
        with tracer.start_as_current_span("order check"), task:
            results = from_code(guard)
        return str(results[0].trace_id)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("endpoint", help="base address of the viewer, such as http://127.0.0.1:6006")
    print(send_order_check(parser.parse_args().endpoint))
