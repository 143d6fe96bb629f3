"""Fixtures that every part shares: how a tool is called, and a guard whose clock does not waste time.

Laws are tried with the same examples everywhere, however slow the machine is; `--hypothesis-profile=search` tries new ones.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from fcguard import Guard, MemoryStore, Tool
from fcguard.testing.clock import FakeClock

settings.register_profile("search", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.register_profile("same", settings.get_profile("search"), derandomize=True, database=None)
settings.load_profile("same")


class Script:
    """A tool that does, call by call, what its script says.

    A step is a value to return, an exception to raise, or `Hang(then)`: wait until released, then do `then`.
    """

    def __init__(self, *steps: Any) -> None:
        self.steps = list(steps)
        self.calls: list[dict[str, Any]] = []
        self.effects: list[dict[str, Any]] = []
        self.release = threading.Event()

    def next(self, keywords: dict[str, Any]) -> Any:
        self.calls.append(keywords)
        return self.steps[min(len(self.calls), len(self.steps)) - 1]

    def sync(self, **keywords: Any) -> Any:
        step = self.next(keywords)
        if isinstance(step, Hang):
            self.release.wait(60)
            step = step.then
        return self.do(step, keywords)

    async def aio(self, **keywords: Any) -> Any:
        step = self.next(keywords)
        await asyncio.sleep(0)
        if isinstance(step, Hang):
            while not self.release.is_set():
                await asyncio.sleep(0.005)
            step = step.then
        return self.do(step, keywords)

    def do(self, step: Any, keywords: dict[str, Any]) -> Any:
        if isinstance(step, BaseException):
            raise step
        if isinstance(step, Effect):
            self.effects.append(keywords)
            if isinstance(step.then, BaseException):
                raise step.then
            return step.then
        return step


@dataclass
class Hang:
    """Wait until the script is released."""

    then: Any = None


@dataclass
class Effect:
    """Change the world, then return or raise `then`."""

    then: Any = None


@dataclass
class Mode:
    """One way to call a tool: the colour of the tool and of the caller."""

    name: str

    @property
    def is_async_tool(self) -> bool:
        return self.name in ("async", "async_from_sync")

    def fn(self, script: Script) -> Callable[..., Any]:
        return script.aio if self.is_async_tool else script.sync

    def call(self, guard: Guard, name: str, arguments: Any, **options: Any) -> Any:
        if self.name in ("sync", "async_from_sync"):
            return guard.call(name, arguments, **options)
        if self.name == "sync_on_loop":

            async def on_loop() -> Any:
                return guard.call(name, arguments, **options)

            return asyncio.run(on_loop())
        return asyncio.run(guard.acall(name, arguments, **options))


@pytest.fixture(params=["sync", "async", "sync_on_loop", "sync_from_async", "async_from_sync"])
def mode(request: pytest.FixtureRequest) -> Mode:
    return Mode(request.param)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def guard(clock: FakeClock, tmp_path: Any) -> Iterator[Guard]:
    made = Guard(store=MemoryStore(), evidence_dir=tmp_path / "evidence", clock=clock)
    yield made
    made.close()


ANY_OBJECT = {"type": "object"}


def add(guard: Guard, mode: Mode, script: Script, name: str = "tool", **options: Any) -> None:
    """Register a scripted tool that takes any arguments."""
    parameters = options.pop("parameters", ANY_OBJECT)
    guard.register(Tool(name=name, parameters=parameters, fn=mode.fn(script), **options))
