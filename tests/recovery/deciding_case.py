"""A shop with a clock of its own, an order that times out, and everything that can go wrong around it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from fcguard import (
    Applied,
    AppliedByOther,
    Budget,
    Classified,
    ConfirmBy,
    Guard,
    Inconclusive,
    NotApplied,
    Retry,
    Tool,
    ToolResult,
    current_call,
)
from fcguard.constraints import AttemptBudget, CircuitBreaker
from fcguard.model.states import CallState
from fcguard.telemetry.observer import SilentObserver
from tests.conftest import ANY_OBJECT
from tests.recovery_after_crash.crashed_world import HookedClock, SharedLedger

LATE: Final = 3.0
"""Seconds after which a late request lands."""
LAG: Final = 1.0
"""Seconds after which a read sees an effect."""
SETTLE: Final = LATE + LAG + 0.5
LIFETIME: Final = 100.0
"""Seconds for which the shop remembers an idempotency key."""
ORDER: Final = {"order_id": "A1"}

POLICIES: Final[dict[str, dict[str, Any]]] = {
    "none": {},
    "settle": {"settle": SETTLE},
    "key": {"idempotency_key": True, "idempotency_lifetime": LIFETIME},
    "key and settle": {"idempotency_key": True, "idempotency_lifetime": LIFETIME, "settle": SETTLE},
    "conditional": {"conditional": True},
    "idempotent": {"effect": "idempotent_write"},
    "destructive": {"effect": "destructive", "approval": "never", "settle": SETTLE},
}
SENDS: Final = ("commit", "lost", "late", "busy", "busy commit", "refused", "ok")
CONFIRMS: Final = (
    "honest", "none", "raises", "slow", "inconclusive", "other", "by tool", "by tool that fails", "by partial list",
    "careless", "careless of failure", "careless of a cut",
)  # fmt: skip
TROUBLES: Final = (
    "none", "seconds", "attempts", "calls", "own budget", "breaker", "confirm budget", "confirm breaker", "interrupted",
)  # fmt: skip


class Killed(BaseException):
    """The process is gone."""


class Busy(Exception):
    """429, after the body was sent."""


def asks_to_wait(outcome: Any, call: Any) -> Any:
    """Classify `Busy`: proves nothing, and asks for a pause that outlives the shop's memory of keys."""
    if isinstance(outcome, Busy):
        return Classified("RATE_LIMITED", "unknown", "busy", "429", retry_after=LIFETIME + 20.0)
    return None


@dataclass
class Case:
    """What is declared, what the shop does to each send, and what goes wrong beside it.

    Attributes:
        policy, confirm, trouble: words of the tables above.
        sends: what becomes of the first send, the second, ...; the last one holds for all others.
        kill_at: number of the command to the ledger at which the process dies; None: it lives.
        is_written: whether that command is written first.
        colour: `sync` or `async`.
    """

    policy: str = "settle"
    sends: tuple[str, ...] = ("commit", "ok")
    confirm: str = "honest"
    trouble: str = "none"
    kill_at: int | None = None
    is_written: bool = True
    colour: str = "sync"


@dataclass
class Shop:
    """Where orders land, at once or later; it keeps its word about keys, conditions and the time that it takes."""

    case: Case
    clock: HookedClock
    landings: list[tuple[float, str]] = field(default_factory=list)
    sends: int = 0

    def create(self, **_: Any) -> str:
        step = self.case.sends[min(self.sends, len(self.case.sends) - 1)]
        self.sends += 1
        info, now = current_call(), self.clock.monotonic()
        key = info.idempotency_key or ""
        if step in ("commit", "busy commit", "ok"):
            self.landings.append((now, key))
        elif step == "late":
            self.landings.append((now + LATE, key))
        elif step == "refused":
            raise NotApplied("no such customer")
        if step.startswith("busy"):
            raise Busy
        if step != "ok":
            raise TimeoutError
        return "created"

    def effects(self) -> list[float]:
        """When each effect came about; duplicates that the shop removes are none."""
        policy, made = self.case.policy, list[float]()
        known: dict[str, float] = {}
        for at, key in sorted(self.landings):
            if policy.startswith("key") and key in known and at - known[key] <= LIFETIME:
                continue
            if policy in ("conditional", "idempotent") and made:
                continue
            known[key] = at
            made.append(at)
        return made

    def is_seen(self) -> bool:
        return any(at + LAG <= self.clock.monotonic() for at in self.effects())


class Trial:
    """Runs a case, and whatever a recovery and a model do after it."""

    def __init__(self, case: Case, folder: Path) -> None:
        self.case, self.folder, self.clock = case, folder, HookedClock()
        self.store = SharedLedger(self.clock)
        self.shop = Shop(case, self.clock)
        self.commands = self.before = 0
        self.is_dead = False
        self.later: Guard | None = None

    # -- the guard ---------------------------------------------------------------------------------------------------

    def guard(self, *, troubled: bool) -> Guard:
        trouble = self.case.trouble if troubled else "none"
        guard = Guard(store=self.store, evidence_dir=self.folder, clock=self.clock, observer=SilentObserver())
        limits: tuple[Any, ...] = ()
        if trouble == "confirm budget":
            limits = (AttemptBudget(0),)
        elif trouble == "confirm breaker":
            breaker = CircuitBreaker("reads", minimum_calls=1, open_seconds=1e6)
            limits = (breaker,)
        guard.register(
            self.tool("query_order", self.query, effect="read", retry=1, constraints=limits, max_result_chars=200)
        )
        if trouble == "confirm breaker":
            guard.call("query_order", {"order_id": "trip"})
        own: tuple[Any, ...] = ()
        if trouble == "own budget":
            own = (AttemptBudget(1),)
        elif trouble == "breaker":
            own = (CircuitBreaker("orders", minimum_calls=1, open_seconds=30.0),)
        options = {"retry": Retry(attempts=3, max_wait=2 * LIFETIME), **POLICIES[self.case.policy]}
        if self.case.confirm == "none":
            options.pop("settle", None)
        if options.get("effect") == "destructive":
            options["retry"] = 1
        guard.register(
            self.tool(
                "create_order",
                self.shop.create,
                classifiers=(asks_to_wait,),
                business_key=("order_id",),
                constraints=own,
                confirm=self.confirm(guard),
                **options,
            )  # fmt: skip
        )
        return guard

    def tool(self, name: str, fn: Callable[..., Any], **options: Any) -> Tool:
        async def later(**arguments: Any) -> Any:
            await asyncio.sleep(0)
            return fn(**arguments)

        return Tool(name=name, parameters=ANY_OBJECT, fn=later if self.case.colour == "async" else fn, **options)

    def query(self, order_id: str = "A1") -> list[str]:
        if order_id == "trip" or self.case.confirm in ("by tool that fails", "careless of failure"):
            raise ConnectionError("down")
        if self.case.confirm == "careless of a cut":
            return ["another"] * 100 + ["A1"] * self.shop.is_seen()
        return [order_id] if self.shop.is_seen() else []

    def confirm(self, guard: Guard) -> Any:
        word = self.case.confirm
        if word == "none":
            return None
        if word in ("by tool", "by tool that fails"):
            return ConfirmBy("query_order", applied=bool)
        if word == "by partial list":
            return ConfirmBy("query_order", applied=lambda found: True if found else None)

        def ask(call: Any) -> Any:
            if word == "raises":
                raise ConnectionError("down")
            if word == "slow":
                self.clock.advance(7.0)
            if word.startswith("careless"):
                found = guard.call("query_order", ORDER)
                return Applied("found") if found.success and "A1" in found.data else NotApplied()
            if word == "inconclusive":
                return Inconclusive("the list is not whole")
            if word == "other" and self.shop.is_seen():
                return AppliedByOther(reason="no number on it")
            return Applied("found") if self.shop.is_seen() else NotApplied()

        return ask

    # -- what happens ------------------------------------------------------------------------------------------------

    def run(self) -> ToolResult[Any] | None:
        """Make the order; None if the process died or the call was interrupted on its way."""
        if self.case.kill_at is not None:
            self.store.acting = self.store.people["gone"]
        guard = self.guard(troubled=True)  # before anything is counted
        if self.case.kill_at is not None:
            self.store.before = self.die
        if self.case.trouble == "interrupted":
            self.clock.on_sleep = self.interrupt
        try:
            return self.call(guard, budget=self.budget())
        except (Killed, KeyboardInterrupt, asyncio.CancelledError):
            return None
        finally:
            self.is_dead = False
            self.store.before = lambda command: None
            self.clock.on_sleep = lambda: None
            self.store.acting = self.store.here

    def die(self, command: Any) -> None:
        if self.is_dead:
            raise Killed
        self.commands += 1
        if self.commands == self.case.kill_at:
            self.is_dead = True
            if self.case.is_written:
                self.store.before = lambda _: None
                self.store.submit(command, lambda answer: None)
                self.store.before = self.die
            raise Killed

    def interrupt(self) -> None:
        self.clock.on_sleep = lambda: None
        raise asyncio.CancelledError if self.case.colour == "async" else KeyboardInterrupt

    def budget(self) -> Budget | None:
        limits = {"seconds": {"seconds": 2.0}, "attempts": {"attempts": 1}, "calls": {"calls": 1}}
        found = limits.get(self.case.trouble)
        return None if found is None else Budget.model_validate(found)

    def call(self, guard: Guard, budget: Budget | None = None) -> ToolResult[Any]:
        with guard.task("order", task_id="T", budget=budget):
            if self.case.colour == "async":
                return asyncio.run(guard.acall("create_order", ORDER))
            return guard.call("create_order", ORDER)

    def restarted(self) -> Guard:
        """A guard of a process that began later."""
        if self.later is None:
            self.later = self.guard(troubled=False)
        return self.later

    def recover(self) -> None:
        guard = self.restarted()
        if self.case.colour == "async":
            asyncio.run(guard.arecover(parked=True))
        else:
            guard.recover(parked=True)

    def repeat(self) -> ToolResult[Any]:
        """Let a model that heeds nothing ask for the same order again."""
        self.before = len(self.shop.effects())
        return self.call(self.restarted())

    # -- what must hold ----------------------------------------------------------------------------------------------

    def check(self, result: ToolResult[Any] | None) -> None:
        """Assert that there is at most one effect, and that neither the envelope nor the ledger says what is not so."""
        effects = self.shop.effects()
        assert len(effects) <= 1, f"{len(effects)} effects"
        if result is not None:
            self._check_envelope(result, len(effects))
        for row in self.store.calls():
            if row.identity.effect == "read":
                continue
            if row.state is CallState.SUCCEEDED:
                assert effects, "the ledger says that it succeeded"
            if row.state in (CallState.FAILED, CallState.REJECTED) and row.attempt and self._is_alone(row):
                assert not effects, f"the ledger says that it is {row.state}"

    def _is_alone(self, row: Any) -> bool:
        """Whether no other call can have brought the effect about."""
        writes = [one for one in self.store.calls() if one.identity.effect != "read" and one.attempt]
        return len(writes) == 1

    def _check_envelope(self, result: ToolResult[Any], effects: int) -> None:
        if result.success:
            assert (effects, result.effect, result.next_action) == (1, "applied", "continue")
            return
        assert result.effect in ("none", "not_applied", "unknown")
        if result.attempts and result.effect != "unknown":
            assert effects == self.before, f"effect={result.effect}"
        if result.effect == "unknown" and self.case.policy != "idempotent":
            assert not result.retryable
            assert result.next_action == "confirm_state"
        if result.next_action == "retry_later" and self.case.policy != "idempotent":
            assert result.retryable and effects == self.before
