"""A process that writes to a ledger and prints the id of every acknowledged record; the tests kill it.

Usage: python ledger_worker.py URL PREFIX CALLS [--threads N] [--kind enter|write|open] [--stay] [--task TASK] [--schema S]
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from fcguard.model.states import CallState
from fcguard.stores.base import Accepted, Enter, Event, Identity, Move, Open
from fcguard.testing.store_contract import ask


def make_store(url: str, schema: str) -> Any:
    if url.startswith("postgresql"):
        from fcguard.stores.postgres import PostgresStore

        return PostgresStore(url, schema=schema)
    from fcguard.stores.sqlite import SQLiteStore

    return SQLiteStore(url)


def say(line: str) -> None:
    os.write(1, (line + "\n").encode())  # one system call: whole or not at all


def work(store: Any, options: argparse.Namespace, thread: int) -> None:
    for number in range(options.calls):
        request_id = f"fc-{options.prefix}-{thread}-{number:06d}"
        effect = "read" if options.kind == "enter" else "write"
        identity = Identity(request_id, options.task or f"task-{options.prefix}", "tool", "1", effect)
        if options.kind in {"write", "open"}:
            opened = Event("opened", time.time(), {"n": number})
            answer = ask(store, Open(identity, CallState.STARTED, 1, opened, 0.0), 120)
            assert answer == Accepted(1), answer
            say(f"opened {request_id}")
            if options.kind == "open":
                continue
            ended = Event("outcome", time.time(), {"n": number})
            answer = ask(store, Move(request_id, 1, CallState.SUCCEEDED, 1, ended, {"data": number}), 120)
        else:
            answer = ask(
                store,
                Enter(identity, CallState.SUCCEEDED, 1, Event("call", time.time(), {"n": number}), {"data": number}),
                120,
            )
        assert isinstance(answer, Accepted), answer
        say(f"done {request_id}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("prefix")
    parser.add_argument("calls", type=int)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--kind", default="enter")
    parser.add_argument("--task")
    parser.add_argument("--stay", action="store_true")
    parser.add_argument("--schema", default="fcguard")
    options = parser.parse_args()
    store = make_store(options.url, options.schema)
    threads = [threading.Thread(target=work, args=(store, options, number)) for number in range(options.threads)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if options.stay:
        say("staying")
        sys.stdin.read()
    store.close()
    say("finished")


if __name__ == "__main__":
    main()
