"""The places where approvals are kept, named by a text that other processes can be given."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fcguard import Environment, Guard, MemoryStore, Tool
from fcguard.approval import Deferred, MemoryApprovals, PostgresApprovals, SQLiteApprovals
from fcguard.errors import UsageError

KINDS = ("memory", "sqlite", "postgres")
SHARED = ("sqlite", "postgres")


def open_place(place: str) -> Any:
    """Open what `memory:`, `sqlite:path` or `postgres:schema:url` names; close it afterwards."""
    kind, _, rest = place.partition(":")
    if kind == "memory":
        return MemoryApprovals()
    if kind == "sqlite":
        return SQLiteApprovals(rest)
    schema, _, url = rest.partition(":")
    return PostgresApprovals(url, schema=schema)


@contextmanager
def opened(place: str) -> Iterator[Any]:
    """Open a place for as long as the block lasts."""
    store = open_place(place)
    try:
        yield store
    finally:
        if hasattr(store, "close"):
            store.close()


def make_guard(store: Any, ran: Path, **options: Any) -> Guard:
    """Make a guard with a destructive tool that notes in a file that it ran."""
    guard = Guard(
        store=MemoryStore(), evidence_dir=ran.parent / "evidence", approver=Deferred(store), grants=store, **options
    )

    def purge(table: str) -> str:
        with ran.open("a", encoding="utf-8") as file:
            file.write(f"{table}\n")
        return table

    parameters = {"type": "object", "properties": {"table": {"type": "string"}}, "required": ["table"]}
    guard.register(Tool(name="purge", parameters=parameters, fn=purge, effect="destructive"))
    return guard


def ask(guard: Guard, table: str = "logs") -> Any:
    """Ask for the tool of `make_guard`, in the same task on every host."""
    with guard.task("clean", environment=Environment(name="test-a", tenant="t"), task_id="clean"):
        return guard.call("purge", {"table": table})


def have_run(ran: Path) -> list[str]:
    """Answer what the tools of all guards noted."""
    return ran.read_text(encoding="utf-8").splitlines() if ran.exists() else []


# What another process does


def use_often(place: str, times: int) -> int:
    """Use grants for a tool, and answer how often one was there."""
    with opened(place) as store:
        return sum(store.use("deploy", "1", {"env": "prod"}, {}, time.time()) is not None for _ in range(times))


def take(place: str, request_id: str) -> int:
    """Use an approval; answer 1 if it was there."""
    with opened(place) as store:
        return int(store.take(request_id, 1000.0) is not None)


def put(place: str, request: Any) -> str:
    """Put a request, and answer the id of the one that waits."""
    with opened(place) as store:
        return str(store.put(request, request.created_at).request.request_id)


def decide(place: str, request_id: str, decision: Any) -> bool:
    """Decide a request."""
    with opened(place) as store:
        return bool(store.decide(request_id, decision, 1000.0))


def resume(place: str, request_id: str, ran: str) -> str:
    """Resume a request; answer how it ended."""
    with opened(place) as store, make_guard(store, Path(ran)) as guard:
        try:
            return "sent" if guard.resume(request_id, approved=True, by="ann").success else "refused"
        except UsageError as error:
            return str(error)


def ask_again(place: str, table: str, ran: str) -> tuple[str, str | None]:
    """Ask for a tool; answer the error type, and the request that it waits for."""
    with opened(place) as store, make_guard(store, Path(ran)) as guard:
        result = ask(guard, table)
        return str(result.error_type), result.blocked_by
