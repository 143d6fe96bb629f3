"""A process that makes one governed write and is killed at a named moment, or that recovers what others left.

    python crash_worker.py die URL FOLDER WINDOW COLOUR [--schema S]
    python crash_worker.py recover COLOUR (URL FOLDER SCHEMA)...
    python crash_worker.py hold URL FOLDER SCHEMA         # waits in the tool for a line on stdin, then sends
    python crash_worker.py contend URL FOLDER SCHEMA      # waits for a line on stdin, then makes one write of a shared business key

The hooks are a store and a tool of the test; the product has none. An effect is a line in the file `effects`.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from fcguard import Applied, Environment, Guard, NotApplied
from fcguard.errors import StoreUnavailable
from fcguard.model.states import CallState
from fcguard.stores.audit import audit
from fcguard.stores.base import Accepted, Enter, Move, Open
from fcguard.telemetry.observer import SilentObserver

SETTLE = 0.3
ORDER = {"order_id": "A20260130001", "quantity": 2}


def die(*_: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def make_store(url: str, folder: Path, schema: str) -> Any:
    if url.startswith("postgresql"):
        from fcguard.stores.postgres import PostgresStore

        return PostgresStore(url, schema=schema, spool=folder / "spool")
    from fcguard.stores.sqlite import SQLiteStore

    return SQLiteStore(url)


class DyingStore:
    """A store whose process is killed, or that goes away, at a named moment."""

    def __init__(self, inner: Any, window: str) -> None:
        self._inner, self._window, self._is_down = inner, window, False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def submit(self, command: Any, done: Callable[[Any], None]) -> None:
        if self._window == "hold" and isinstance(command, Open):
            command.lease = 0.0
        if self._is_down:
            done(StoreUnavailable("the ledger is away"))
            return
        act = getattr(self, "_" + self._window.replace("-", "_"), None)
        if act is None or not act(command, done):
            self._inner.submit(command, done)

    def _before_intent(self, command: Any, done: Any) -> bool:
        return isinstance(command, Open) and die() is None

    def _intent_not_sent(self, command: Any, done: Any) -> bool:
        if isinstance(command, Open):
            self._inner.submit(command, die)
        return isinstance(command, Open)

    def _reply_in_memory(self, command: Any, done: Any) -> bool:
        return _is_success(command) and die() is None

    def _outcome_not_returned(self, command: Any, done: Any) -> bool:
        if _is_success(command):
            self._inner.submit(command, die)
        return _is_success(command)

    def _before_next_intent(self, command: Any, done: Any) -> bool:
        return isinstance(command, Move) and command.state is CallState.STARTED and die() is None

    def _intent_unknown(self, command: Any, done: Any) -> bool:
        return self._lose_answer(command, done, isinstance(command, Open), stays_away=False)

    def _intent_unknown_down(self, command: Any, done: Any) -> bool:
        return self._lose_answer(command, done, isinstance(command, Open), stays_away=True)

    def _outcome_unknown(self, command: Any, done: Any) -> bool:
        return self._lose_answer(command, done, _is_success(command), stays_away=False)

    def _down_before_sending(self, command: Any, done: Any) -> bool:
        return self._go_away(done, isinstance(command, Open | Enter))

    def _down_after_tool(self, command: Any, done: Any) -> bool:
        return self._go_away(done, _is_success(command))

    def _lose_answer(self, command: Any, done: Any, is_meant: bool, *, stays_away: bool) -> bool:
        def lose(answer: Any) -> None:
            assert isinstance(answer, Accepted), answer
            self._is_down = stays_away
            done(StoreUnavailable("the connection broke while the commit was on its way"))

        if is_meant:
            self._inner.submit(command, lose)
        return is_meant

    def _go_away(self, done: Any, is_meant: bool) -> bool:
        if is_meant:
            self._is_down = True
            done(StoreUnavailable("the ledger is away"))
        return is_meant


def _is_success(command: Any) -> bool:
    return isinstance(command, Move) and command.state is CallState.SUCCEEDED


def make_guard(store: Any, folder: Path, window: str, colour: str) -> Guard:
    """A guard with one write; `window` is empty in a process that recovers."""
    guard = Guard(store=store, evidence_dir=folder / "evidence", observer=SilentObserver())
    effects = folder / "effects"
    sends: list[int] = []

    def order_exists(call: Any) -> Applied | NotApplied:
        if window.startswith("confirming"):
            die()
        return Applied({"order_id": call.arguments["order_id"]}) if effects.exists() else NotApplied()

    def send(order_id: str, quantity: int) -> dict[str, Any]:
        sends.append(1)
        if window == "hold":
            os.write(1, b"in the tool\n")
            sys.stdin.readline()
        is_lost = window in ("confirming-lost", "before-next-intent")
        if is_lost or (window == "second-try-no-reply" and len(sends) == 1):
            raise TimeoutError("the request was lost")
        with effects.open("a") as file:
            file.write(f"{order_id} {quantity}\n")
            file.flush()
            os.fsync(file.fileno())
        if window in ("sent-no-reply", "second-try-no-reply"):
            die()
        if window == "confirming-applied":
            raise TimeoutError("the reply was lost")
        return {"order_id": order_id, "status": "pending_payment"}

    async def send_async(order_id: str, quantity: int) -> dict[str, Any]:
        await asyncio.sleep(0)
        return send(order_id, quantity)

    options: dict[str, Any] = {"name": "create_order", "effect": "write", "confirm": order_exists, "settle": SETTLE}
    guard.tool(send_async if colour == "async" else send, **options, business_key=("order_id",), timeout=20.0)
    return guard


def run_and_die(url: str, folder: Path, window: str, colour: str, schema: str) -> None:
    guard = make_guard(DyingStore(make_store(url, folder, schema), window), folder, window, colour)
    with guard.task("create an order", environment=Environment(name="test-a", tenant="mall"), task_id="crash"):
        if colour == "async":
            result = asyncio.run(guard.acall("create_order", ORDER))
        else:
            result = guard.call("create_order", ORDER)
    os.write(1, (result.model_dump_json() + "\n").encode())
    die()


def hold(url: str, folder: Path, schema: str) -> None:
    store = DyingStore(make_store(url, folder, schema), "hold")
    guard = make_guard(store, folder, "hold", "sync")
    with guard.task("create an order", task_id="crash"):
        result = guard.call("create_order", ORDER)
    print(json.dumps({**result.model_dump(mode="json"), "flags": result.flags}), flush=True)


def contend(url: str, folder: Path, schema: str) -> None:
    guard = make_guard(make_store(url, folder, schema), folder, "contend", "sync")
    guard.store.get("nothing")  # the ledger is open
    os.write(1, b"ready\n")
    sys.stdin.readline()
    with guard.task("create an order", task_id="crash"):
        result = guard.call("create_order", ORDER)
    print(result.model_dump_json(), flush=True)
    guard.close()


def recover(colour: str, url: str, folder: Path, schema: str) -> dict[str, Any]:
    """Recover one ledger, twice: the second time there is nothing left to do."""
    guard = make_guard(make_store(url, folder, schema), folder, "", colour)
    found = asyncio.run(guard.arecover()) if colour == "async" else guard.recover()
    again = guard.recover()
    store = guard.store
    verification = audit(store)
    effects = folder / "effects"
    out = {
        "effects": len(effects.read_text().splitlines()) if effects.exists() else 0,
        "calls": [
            {
                "request_id": call.identity.request_id,
                "state": call.state,
                "attempts": call.attempt,
                "result": call.result,
            }
            for call in store.calls()
            if call.identity.purpose == "primary"
        ],
        "found": found.to_json(),
        "again": again.to_json(),
        "fault": None if verification.fault is None else str(verification.fault),
        "events": verification.events,
    }
    guard.close()
    return out


def main() -> None:
    role, *rest = sys.argv[1:]
    if role == "die":
        url, folder, window, colour, schema = rest
        run_and_die(url, Path(folder), window, colour, schema)
    elif role in ("hold", "contend"):
        url, folder, schema = rest
        (hold if role == "hold" else contend)(url, Path(folder), schema)
    else:
        colour, *ledgers = rest
        for number in range(0, len(ledgers), 3):
            url, folder, schema = ledgers[number : number + 3]
            print(json.dumps(recover(colour, url, Path(folder), schema)), flush=True)


if __name__ == "__main__":
    main()
