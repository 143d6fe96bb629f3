"""Calls and attempts as the pipeline hands them to constraints."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest

from fcguard.model.call import Attempt, Call
from fcguard.model.context import TaskContext
from fcguard.model.failure import Failure
from fcguard.model.frozen import freeze
from fcguard.model.intent import Intent
from fcguard.model.task import Task
from fcguard.model.tool import Tool

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
