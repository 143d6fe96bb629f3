"""Create an order, query it, check the database, keep evidence, report: each call governed, against a real service.

    python examples/order_check.py                       # the server commits and never answers: one order
    python examples/order_check.py --fault lost          # the request is lost: one order
    python examples/order_check.py --fault slow          # the server commits after the client gave up: one order
    python examples/order_check.py --naive               # what a blind retry does: two orders
    python examples/order_check.py --model               # the calls come from a model behind an HTTP endpoint
    python examples/order_check.py --keep DIR            # keeps ledger, spans and evidence in DIR, which must be new or empty

The last line says how many orders the service's database holds.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import sqlite3
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from order_service import count_orders, running_service

from fcguard import Applied, AppliedByOther, Environment, Guard, NotApplied, SQLiteStore, current_call, only_in
from fcguard.stores.base import CallQuery
from fcguard.telemetry import setup
from fcguard.telemetry.tree import read_spans, render_tree

ORDER = {"order_id": "A20260130001", "sku": "S-1", "quantity": 2}
TIMEOUT = 0.6
SETTLE = 2.0
"""The service works on a request for at most 1.5 seconds, also after the client is gone, and reads have no lag."""


def http(method: str, url: str, body: Any = None, timeout: float | None = None) -> Any:
    """Send one JSON request; raises what urllib raises."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data=data, method=method, headers={"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=timeout) as response:
        return json.load(response)


def build_guard(url: str, database: Path, folder: Path, **options: Any) -> Guard:
    """Declare the four tools of the check."""
    guard = Guard(store=SQLiteStore(folder / "ledger.db"), evidence_dir=folder / "evidence", **options)

    @guard.tool(effect="read", timeout=2.0)
    def query_order(order_id: str) -> list[dict[str, Any]]:
        """Look an order up in the service."""
        return http("GET", f"{url}/orders/{order_id}", timeout=current_call().remaining)

    def order_exists(call: Any) -> Applied | AppliedByOther | NotApplied:
        found = guard.call("query_order", {"order_id": call.arguments["order_id"]}).unwrap()
        if not found:
            return NotApplied()
        is_ours = all(found[0][name] == value for name, value in call.arguments.items())
        return Applied(found[0]) if is_ours else AppliedByOther(found[0])

    @guard.tool(
        effect="write",
        timeout=TIMEOUT,
        confirm=order_exists,
        settle=SETTLE,
        business_key=("order_id",),
        rules=[only_in("test-a")],
    )
    def create_order(order_id: str, sku: str, quantity: int) -> dict[str, Any]:
        """Create an order that waits for its payment."""
        body = {"order_id": order_id, "sku": sku, "quantity": quantity}
        return http("POST", f"{url}/orders", body, timeout=current_call().remaining)

    @guard.tool(effect="read")
    def check_database(order_id: str) -> dict[str, Any]:
        """Count an order's rows in the service's own database and keep them as evidence."""
        connection = sqlite3.connect(database)
        rows = connection.execute(
            "SELECT order_id, sku, quantity, status FROM orders WHERE order_id = ?", (order_id,)
        ).fetchall()
        connection.close()
        current_call().attach(json.dumps(rows), "rows.json", media_type="application/json", type="database_rows")
        return {"rows": len(rows), "status": rows[0][3] if rows else None}

    @guard.tool(effect="read")
    def report(order_id: str, rows: int, status: str) -> str:
        """Say whether the order is as it should be."""
        verdict = "ok" if rows == 1 and status == "pending_payment" else "WRONG"
        return f"order {order_id}: {rows} row(s), status {status}: {verdict}"

    return guard


def from_code(guard: Guard) -> list[Any]:
    """Run the four calls in code."""
    created = guard.call("create_order", ORDER)
    queried = guard.call("query_order", {"order_id": ORDER["order_id"]})
    checked = guard.call("check_database", {"order_id": ORDER["order_id"]})
    reported = guard.call("report", {"order_id": ORDER["order_id"], **checked.unwrap()})
    return [created, queried, checked, reported]


def from_model(guard: Guard) -> list[Any]:
    """Let a model propose the four calls: the real OpenAI client, against an endpoint that is started here."""
    import openai

    from fcguard.adapters.openai import OpenAIChatSource
    from fcguard.testing.model_server import Reply, ScriptedModelServer

    order_id = ORDER["order_id"]
    script = [
        Reply(calls=[("create_order", {**ORDER, "quantity": "2"})]),  # a number as text, as models send it
        Reply(calls=[("functions.query_order", {"order_id": order_id})]),  # a transport prefix
        Reply(calls=[("check_database", {"order_id": order_id})]),
        Reply(calls=[("report", {"order_id": order_id, "rows": 1, "status": "pending_payment"})]),
    ]
    with ScriptedModelServer(script) as server:
        client = openai.OpenAI(base_url=server.url, api_key="none", max_retries=0)
        messages = [{"role": "user", "content": "Create the order, then check that it waits for its payment."}]
        source = OpenAIChatSource(client, model="scripted", messages=messages)
        return [guard.step(source) for _ in script]


def run_guarded(url: str, database: Path, folder: Path, use_model: bool, is_kept: bool) -> None:
    """Run the check through a guard, and print what it leaves behind."""
    spans = folder / "spans.jsonl"
    telemetry = setup(jsonl_path=spans)
    guard = build_guard(url, database, folder, tracer_provider=telemetry.tracer_provider)
    task = guard.task(
        goal="create an order and check that it waits for its payment",
        environment=Environment(name="test-a", tenant="mall-regression", base_urls=(url,)),
        allow={"create_order", "query_order", "check_database", "report"},
        task_id="order-check",
    )
    with task:
        results = from_model(guard) if use_model else from_code(guard)
    print("— envelope of create_order —")
    print(results[0].model_dump_json(indent=2))
    print("\n— the ledger: calls, and the events of create_order with their numbers in the task's chain —")
    for call in guard.store.calls(CallQuery(task_id="order-check")):
        print(
            f"{call.identity.request_id}  {call.identity.tool:15} {call.identity.purpose:8} {call.state:10} attempts={call.attempt}"
        )
    for event in guard.store.events(request_id=results[0].request_id):
        print(f"  {event.seq:2} {event.kind:11} sha256 {event.hash.hex()[:16]}")
    guard.close()
    telemetry.shutdown()
    print("\n— the spans —")
    print(render_tree(read_spans(spans)))
    print("\n— evidence and report —")
    for evidence in results[2].evidence:
        print(f"{evidence.type}: evidence/{evidence.ref}")
    print(
        f"kept in {folder}"
        if is_kept
        else "ledger, spans and evidence are removed when the program ends; --keep DIR keeps them"
    )
    print(results[3].data)


def run_naive(url: str) -> None:
    """Do what retry wrappers do: the call failed, so send it again."""
    for attempt in (1, 2, 3):
        try:
            print(f"attempt {attempt}:", http("POST", f"{url}/orders", ORDER, timeout=TIMEOUT))
            return
        except OSError as error:
            print(f"attempt {attempt}: {type(error).__name__}: {error}")


@contextlib.contextmanager
def folder_for(kept: Path | None) -> Iterator[Path]:
    """Yield the folder to keep, or one that is removed in the end."""
    if kept is not None:
        kept.mkdir(parents=True, exist_ok=True)
        yield kept
        return
    with tempfile.TemporaryDirectory(prefix="order-check-") as name:
        yield Path(name)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--fault", choices=["committed", "lost", "none", "slow"], default="committed")
    parser.add_argument("--naive", action="store_true", help="retry blindly instead of through a guard")
    parser.add_argument("--model", action="store_true", help="let a model propose the calls (needs fcguard[openai])")
    parser.add_argument(
        "--keep", type=Path, metavar="DIR", help="keep ledger, spans and evidence in this new directory"
    )
    options = parser.parse_args()
    if options.model:
        try:
            importlib.import_module("openai")
        except ModuleNotFoundError:
            parser.error("--model needs the package openai; run: pip install -e '.[openai]'")
    if (
        options.keep is not None
        and options.keep.exists()
        and (not options.keep.is_dir() or any(options.keep.iterdir()))
    ):
        parser.error(f"--keep {options.keep}: this exists and is not an empty directory; name a new one")
    with folder_for(options.keep) as folder:
        database = folder / "orders.db"
        with running_service(database) as url:
            http("POST", f"{url}/fault", {"fault": options.fault}, timeout=5)
            if options.naive:
                run_naive(url)
            else:
                run_guarded(url, database, folder, options.model, options.keep is not None)
        print(f"orders in the database: {count_orders(database)}")


if __name__ == "__main__":
    main()
