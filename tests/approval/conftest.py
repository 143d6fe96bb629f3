"""Calls that want approval, and the port that consult reaches the world through."""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import Callable, Iterator
from inspect import isawaitable
from itertools import count
from typing import Any

import pytest

from fcguard.approval import MemoryApprovals, SQLiteApprovals, consult
from fcguard.model.call import Call
from fcguard.model.context import Environment, Goal, TaskContext
from fcguard.model.frozen import freeze
from fcguard.model.intent import Intent
from fcguard.model.secrets import Redactor
from fcguard.model.tool import Tool

_numbers = count(1)


class Port:
    """Runs collaborators here; its clock only moves when told."""

    def __init__(self, now: float = 1000.0) -> None:
        self.time = now

    def now(self) -> float:
        return self.time

    async def call(self, fn: Callable[..., Any], *args: Any) -> Any:
        value = fn(*args)
        return await value if isawaitable(value) else value


def build_call(
    tool: str = "deploy",
    arguments: dict[str, Any] | None = None,
    *,
    effect: str = "destructive",
    tenant: str = "acme",
    environment: str = "prod",
    actor: str | None = "ann",
    purpose: str = "primary",
    task_id: str = "t-1",
    **options: Any,
) -> Call:
    call = Call(f"fc-{next(_numbers)}", Intent(tool), purpose, None, None)
    call.tool = Tool(name=tool, parameters={"type": "object"}, fn=lambda: None, effect=effect, **options)
    call.context = TaskContext(
        goal=Goal(objective="ship it"),
        environment=Environment(name=environment, tenant=tenant),
        task_id=task_id,
        actor=actor,
    )
    call.arguments = freeze({"env": "prod"} if arguments is None else arguments)
    call.redactor = Redactor(call.tool.redact)
    return call


@pytest.fixture(scope="session")
def make_call() -> Callable[..., Call]:
    return build_call


@pytest.fixture
def port() -> Port:
    return Port()


@pytest.fixture
def ask(port: Port) -> Callable[..., Any]:
    """Consult for a call and answer what comes back."""

    def run(call: Call, approver: Any = None, grants: Any = None, **options: Any) -> Any:
        return asyncio.run(consult(call, approver, grants, port, port.now(), **options))

    return run


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Any) -> Any:
    return MemoryApprovals() if request.param == "memory" else SQLiteApprovals(tmp_path / "approvals.db")


@pytest.fixture(scope="session")
def processes() -> Iterator[Any]:
    """Four other processes, started once."""
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        yield pool
        pool.close()
        pool.join()
