"""A ledger with several owners in one process, and a way to end a worker without a word."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from fcguard import Applied, Environment, Guard, MemoryStore, NotApplied, Tool, ToolResult
from fcguard.errors import StoreUnavailable
from fcguard.reconcile.report import Recovered, Recovery
from fcguard.stores.owner import Owner, this_owner
from fcguard.telemetry.observer import SilentObserver
from fcguard.testing.clock import FakeClock

ARGUMENTS = {"order_id": "A1", "quantity": 2}
SETTLE = 5.0


@cache
def dead_pid() -> int:
    """Answer the id of a process that has ended."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        return process.pid


class HookedClock(FakeClock):
    """A clock for tests that lets something happen while somebody sleeps."""

    def __init__(self) -> None:
        super().__init__()
        self.on_sleep: Callable[[], None] = lambda: None

    def advance(self, seconds: float) -> None:
        super().advance(seconds)
        self.on_sleep()


class SharedLedger(MemoryStore):
    """A ledger in memory that believes in several processes; it can be away, and then takes nothing."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(clock=clock.now)
        here = this_owner(clock.now())
        gone = replace(here, id="gone", pid=dead_pid(), started=1)
        alive = replace(here, id="alive", pid=os.getppid(), started=0)
        far = replace(here, id="far", host="elsewhere", boot="other/pid:[1]")
        self.people = {owner.id: owner for owner in (here, gone, alive, far)}
        self.here = self.acting = here
        self.is_away = self.is_spool_away = False
        self.before: Callable[[Any], None] = lambda command: None

    @property
    def owner(self) -> Owner:
        return self.acting

    def owners(self) -> list[Owner]:
        return list(self.people.values())

    def heartbeat(self) -> None:
        others = [(row, row.lease_until) for row in self._open.values() if row.owner != self.owner.id]
        super().heartbeat()
        for row, lease_until in others:
            row.lease_until = lease_until

    def submit(self, command: Any, done: Any) -> None:
        self.before(command)
        if self.is_away:
            done(StoreUnavailable("the ledger is away"))
        else:
            super().submit(command, done)

    def spool(self, command: Any) -> None:
        if self.is_spool_away:
            raise StoreUnavailable("the disk is full")
        super().spool(command)


class World:
    """Effects, a ledger, and guards over it."""

    def __init__(self, folder: Path, colour: str) -> None:
        self.folder, self.colour = folder, colour
        self.clock = HookedClock()
        self.store = SharedLedger(self.clock)
        self.sent: list[dict[str, Any]] = []
        self.effects: list[dict[str, Any]] = []
        self.confirmed: list[Any] = []
        self.others: list[Tool] = []
        self.answer: Callable[[Any], Any] = lambda call: Applied({"found": True}) if self.effects else NotApplied()

    def guard(self, send: Callable[..., Any] | None = None, observer: Any = None, **options: Any) -> Guard:
        """A guard with one write, `create_order`, and the world's other tools; `send` does it."""
        guard = Guard(
            store=self.store, evidence_dir=self.folder, clock=self.clock, observer=observer or SilentObserver()
        )
        parameters = {
            "type": "object",
            "properties": {
                "order_id": {"type": "string"},
                "quantity": {"type": "integer"},
                "api_key": {"type": "string"},
            },
            "additionalProperties": False,
        }
        done = send or self.apply
        for tool in self.others:
            guard.register(tool)

        async def later(**arguments: Any) -> Any:
            await asyncio.sleep(0)
            return done(**arguments)

        options = {"effect": "write", "confirm": self.confirm, **options}
        guard.register(
            Tool(name="create_order", parameters=parameters, fn=later if self.colour == "async" else done, **options)
        )
        return guard

    def apply(self, **arguments: Any) -> dict[str, Any]:
        self.sent.append(arguments)
        self.effects.append(arguments)
        return {"order": len(self.effects)}

    def confirm(self, call: Any) -> Any:
        self.confirmed.append(call)
        answer = self.answer(call)
        if isinstance(answer, Exception) and not isinstance(answer, NotApplied):
            raise answer
        return answer

    def crash(
        self, *, applied: bool, owner: str = "gone", arguments: dict[str, Any] | None = None, **options: Any
    ) -> str:
        """Let a worker of `owner` end while it is in its tool; answer the request id."""

        def send(**sent: Any) -> None:
            self.sent.append(sent)
            if applied:
                self.effects.append(sent)
            self.store.is_away = self.store.is_spool_away = True

        self.store.acting = self.store.people[owner]
        guard = self.guard(send, **options)
        with guard.task(
            "order", task_id="T", environment=Environment(name="test-a", tenant="mall", base_urls=("http://shop",))
        ):
            result = self.call(guard, arguments or ARGUMENTS)
        self.store.acting = self.store.here
        self.store.is_away = self.store.is_spool_away = False
        return result.request_id

    def call(self, guard: Guard, arguments: dict[str, Any]) -> ToolResult[Any]:
        if self.colour == "async":
            return asyncio.run(guard.acall("create_order", arguments))
        return guard.call("create_order", arguments)

    def recover(self, guard: Guard, **options: Any) -> Recovery:
        return asyncio.run(guard.arecover(**options)) if self.colour == "async" else guard.recover(**options)

    def recover_one(self, guard: Guard, **options: Any) -> Recovered:
        (call,) = self.recover(guard, **options).calls
        return call

    def advance(self, guard: Guard, request_id: str) -> ToolResult[Any]:
        return asyncio.run(guard.aadvance(request_id)) if self.colour == "async" else guard.advance(request_id)

    def kinds(self, request_id: str) -> list[str]:
        return [event.kind for event in self.store.events(request_id=request_id)]

    def state(self, request_id: str) -> str:
        row = self.store.get(request_id)
        assert row is not None
        return str(row.state)
