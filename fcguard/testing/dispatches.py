"""Watching what reaches the functions of a guard's tools, through the guard or around it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from inspect import isasyncgenfunction
from typing import Any

from fcguard.config import is_coroutine_callable
from fcguard.evaluation.canonical import digest
from fcguard.guard import Guard
from fcguard.model.call_info import CURRENT

__all__ = ["Dispatch", "watch_dispatches"]


@dataclass(slots=True)
class Dispatch:
    """One entry into a tool's function.

    Attributes:
        tool, effect: the tool.
        arguments: what the function was given by name.
        is_governed: whether it came through the guard.
        started: monotonic seconds.
        seconds: how long it took; None while it runs.
        error: class name of what it raised; None if it returned.
        result_digest: digest of what it returned.
    """

    tool: str
    effect: str
    arguments: Mapping[str, Any]
    is_governed: bool
    started: float
    seconds: float | None = None
    error: str | None = None
    result_digest: str | None = None

    def record(self) -> dict[str, Any]:
        """Answer it as a call of a trace, for calls that went around the guard."""
        answer = {
            "tool": self.tool,
            "tool_effect": self.effect,
            "args": dict(self.arguments),
            "status": "failed" if self.error else "succeeded",
            "error_type": self.error,
            "seconds": self.seconds,
            "result_digest": self.result_digest,
            "is_governed": False,
        }
        return {name: value for name, value in answer.items() if value is not None}


def watch_dispatches(guard: Guard) -> list[Dispatch]:
    """Have every entry into a tool's function noted from now on, faults included.

    Args:
        guard: the guard; tools that are registered later, and async generators, are not watched.

    Returns:
        The list that fills.
    """
    seen: list[Dispatch] = []
    lock = threading.Lock()
    for tool in guard.tools:
        if not isasyncgenfunction(tool.fn):
            guard.instrument(tool.name, fn=_watched(tool.name, tool.effect, tool.fn, seen, lock))
    return seen


def _watched(
    name: str, effect: str, fn: Callable[..., Any], seen: list[Dispatch], lock: threading.Lock
) -> Callable[..., Any]:
    def begin(keywords: Mapping[str, Any]) -> Dispatch:
        dispatch = Dispatch(name, effect, dict(keywords), CURRENT.get() is not None, time.monotonic())
        with lock:
            seen.append(dispatch)
        return dispatch

    def end(dispatch: Dispatch, value: Any, error: BaseException | None) -> None:
        dispatch.seconds = time.monotonic() - dispatch.started
        dispatch.error = None if error is None else type(error).__name__
        if error is None:
            dispatch.result_digest = digest(value)

    async def run_async(*args: Any, **keywords: Any) -> Any:
        dispatch = begin(keywords)
        try:
            value = await fn(*args, **keywords)
        except BaseException as error:
            end(dispatch, None, error)
            raise
        end(dispatch, value, None)
        return value

    def run(*args: Any, **keywords: Any) -> Any:
        dispatch = begin(keywords)
        try:
            value = fn(*args, **keywords)
        except BaseException as error:
            end(dispatch, None, error)
            raise
        end(dispatch, value, None)
        return value

    watched: Callable[..., Any] = wraps(fn)(run_async if is_coroutine_callable(fn) else run)
    return watched
