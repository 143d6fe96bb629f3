"""Calls that want approval, and the port that consult reaches the world through."""

from __future__ import annotations

import asyncio
import multiprocessing
from collections.abc import Callable, Iterator
from inspect import isawaitable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from fcguard.approval import consult
from fcguard.approval.request import ApprovalRequest, make_request
from fcguard.approval.store import time_of
from fcguard.model.call import Call
from fcguard.model.context import Environment, Goal, TaskContext
from fcguard.model.frozen import freeze
from fcguard.model.intent import Intent
from fcguard.model.secrets import Redactor
from fcguard.model.tool import Tool
from tests.approval.places import KINDS, SHARED, opened
from tests.stores.postgres_server import Server, running_server

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


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Server]:
    pytest.importorskip("psycopg")
    with running_server() as server:
        yield server


@pytest.fixture
def make_place(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], str]:
    """Name a place of one kind where approvals can be kept, empty at first; see `open_place`."""

    def make(kind: str) -> str:
        if kind == "memory":
            return "memory:"
        if kind == "sqlite":
            return f"sqlite:{tmp_path / f'approvals-{next(_numbers)}.db'}"
        return f"postgres:approvals_{next(_numbers)}:{request.getfixturevalue('postgres_server').url}"

    return make


@pytest.fixture(params=KINDS)
def store(request: pytest.FixtureRequest, make_place: Callable[[str], str]) -> Iterator[Any]:
    """A store of each kind."""
    with opened(make_place(request.param)) as store:
        yield store


@pytest.fixture(params=[kind for kind in KINDS if kind != "postgres"])
def told_store(request: pytest.FixtureRequest, make_place: Callable[[str], str]) -> Iterator[Any]:
    """A store of each kind that goes by the time that it is told; see `test_postgres_approvals` for one that does not."""
    with opened(make_place(request.param)) as store:
        yield store


@pytest.fixture(params=SHARED)
def place(request: pytest.FixtureRequest, make_place: Callable[[str], str]) -> str:
    """The name of a place that processes share."""
    return make_place(request.param)


@pytest.fixture
def now(store: Any) -> float:
    """The wall clock of a store: its server's, or a made-up one."""
    return time_of(store, 1000.0)


@pytest.fixture
def request_for() -> Callable[..., ApprovalRequest]:
    def build(arguments: Any = None, *, now: float = 1000.0, ttl: float = 100.0, **options: Any) -> ApprovalRequest:
        call = build_call(arguments=arguments, **options)
        assert call.tool is not None
        return make_request(call, call.tool, now=now, ttl=ttl, policy_version="1")

    return build


@pytest.fixture(scope="session")
def processes() -> Iterator[Any]:
    """Four other processes, started once."""
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        yield pool
        pool.close()
        pool.join()
