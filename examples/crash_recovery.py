"""Kill a worker after the server committed its order and before the outcome is recorded; restart, recover: one order.

    python examples/crash_recovery.py            # the server commits, the worker is killed before it hears of it
    python examples/crash_recovery.py --lost     # the request is lost, the worker is killed: it is sent once more, one order
    python examples/crash_recovery.py --naive    # what a restarted worker without a ledger does: two orders

The worker is a process of its own, ended with SIGKILL. The story of the call is printed as `fcguard show` prints it; no extra is
needed. With `--lost` the recovery first waits for the settle window. The last line says how many orders the service's database holds.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from order_check import ORDER, http
from order_service import count_orders, running_service

from fcguard import Applied, Environment, Guard, NotApplied, SQLiteStore
from fcguard.cli.story import read_story, render_story

TASK = "crash-recovery"
TIMEOUT = 5.0
SETTLE = 5.0
"""The service works on a request for at most 1.5 seconds, also after the client is gone, and reads have no lag. Not below the timeout."""


def build_guard(url: str, folder: Path) -> Guard:
    """Declare the tools; the worker and the restarted service do the same."""
    guard = Guard(store=SQLiteStore(folder / "ledger.db"), evidence_dir=folder / "evidence")

    @guard.tool(effect="read", timeout=5.0)
    def query_order(order_id: str) -> list[dict[str, Any]]:
        """Look an order up in the service."""
        return http("GET", f"{url}/orders/{order_id}", timeout=5)

    def order_exists(call: Any) -> Applied | NotApplied:
        found = guard.call("query_order", {"order_id": call.arguments["order_id"]}).unwrap()
        return Applied(found[0]) if found else NotApplied()

    @guard.tool(effect="write", timeout=TIMEOUT, confirm=order_exists, settle=SETTLE, business_key=("order_id",))
    def create_order(order_id: str, sku: str, quantity: int) -> dict[str, Any]:
        """Create an order that waits for its payment."""
        (folder / "sending").touch()
        return http("POST", f"{url}/orders", {"order_id": order_id, "sku": sku, "quantity": quantity}, timeout=TIMEOUT)

    return guard


def work(url: str, folder: Path, is_naive: bool) -> None:
    """Make one order, in the process that will be killed while it waits for the server's answer."""
    if is_naive:
        http("POST", f"{url}/orders", ORDER, timeout=TIMEOUT)
        return
    guard = build_guard(url, folder)
    environment = Environment(name="test-a", tenant="mall-regression", base_urls=(url,))
    with guard.task("create an order", environment=environment, task_id=TASK):
        guard.call("create_order", ORDER)


def kill_worker(url: str, folder: Path, has_come_so_far: Callable[[], bool], *options: str) -> None:
    """Run a worker in a process of its own, and kill it once it has come so far."""
    worker = subprocess.Popen([sys.executable, __file__, "--work", url, "--folder", str(folder), *options])
    deadline = time.monotonic() + 60
    while not has_come_so_far():
        if worker.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError("the worker ended before it could be killed")
        time.sleep(0.02)
    worker.send_signal(signal.SIGKILL)
    print(f"the worker was killed ({signal.Signals(-worker.wait()).name}) while it waited for the server's answer")


def recover(url: str, folder: Path) -> None:
    """Do what a restarted service does first, and print the story of the call."""
    guard = build_guard(url, folder)
    recovery = guard.recover()
    print("\n— guard.recover() in the restarted service —")
    print(recovery)
    print("\n— the story of the call, as fcguard show prints it —")
    print(render_story(read_story(guard, recovery.calls[0].request_id)))
    print()
    guard.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lost", action="store_true", help="the server loses the request instead of committing it")
    parser.add_argument("--naive", action="store_true", help="a worker without a ledger, that begins again")
    parser.add_argument("--work", metavar="URL", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.work:
        work(options.work, options.folder, options.naive)
        return
    with tempfile.TemporaryDirectory(prefix="crash-recovery-") as name:
        folder = Path(name)
        database = folder / "orders.db"
        with running_service(database) as url:
            http("POST", f"{url}/fault", {"fault": "lost" if options.lost else "committed"}, timeout=5)
            if options.naive:
                kill_worker(url, folder, lambda: count_orders(database) == 1, "--naive")
                print("the next worker begins again:", http("POST", f"{url}/orders", ORDER, timeout=5))
            else:
                arrived = (folder / "sending").exists if options.lost else lambda: count_orders(database) == 1
                kill_worker(url, folder, arrived)
                http("POST", f"{url}/fault", {"fault": "none"}, timeout=5)
                recover(url, folder)
        print(f"orders in the database: {count_orders(database)}")


if __name__ == "__main__":
    main()
