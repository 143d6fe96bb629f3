"""Fault injection without patching: make a tool of a guard fail as real services fail, a counted number of times, seeded.

::

    with inject(guard, "create_order", "write_timeout_committed", times=1) as fault:
        result = guard.call("create_order", {...})
    assert fault.struck == 1

The tool's code is exchanged through `Guard.instrument`; its contract stays. A guard that nothing is injected into pays nothing.
"""

from __future__ import annotations

import asyncio
import random
import threading
import time
from collections.abc import Callable, Mapping
from functools import wraps
from inspect import isasyncgenfunction
from typing import Any, Final, TypeAlias

from fcguard.config import is_coroutine_callable
from fcguard.errors import UsageError
from fcguard.guard import Guard
from fcguard.testing.fault_kinds import FAULTS, Fault, Moment
from fcguard.testing.faulty_store import FaultyStore

__all__ = ["FAULTS", "Fault", "Injection", "When", "inject"]

When: TypeAlias = Callable[[Mapping[str, Any], int], bool]
"""`(arguments, number) -> bool`: whether the fault may strike this call of the function; numbers count from 1."""

_CHANGING: Final = threading.Lock()
"""Held while the code of a tool is exchanged: two threads must not undo each other's change."""


class Injection:
    """A fault that was put into a tool; remove it by leaving its `with` block or by `remove()`.

    Attributes:
        fault: what happens.
        struck: how often it happened.
        seen: how often it could have happened.
    """

    def __init__(self, fault: Fault, times: int | None, when: When | None, seed: int, seconds: float) -> None:
        self.fault, self.struck, self.seen = fault, 0, 0
        self.random, self.seconds = random.Random(seed), seconds
        self._left, self._when = times, when
        self._lock = threading.Lock()
        self._undo: Callable[[], None] | None = None

    def strikes(self, arguments: Mapping[str, Any]) -> bool:
        """Answer whether the fault happens now, and count it."""
        with self._lock:
            self.seen += 1
            if self._left == 0 or (self._when is not None and not self._when(arguments, self.seen)):
                return False
            if self._left is not None:
                self._left -= 1
            self.struck += 1
            return True

    def remove(self) -> None:
        """Take the fault out of the tool. Idempotent."""
        undo, self._undo = self._undo, None
        if undo is not None:
            undo()

    def __enter__(self) -> Injection:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()


def inject(
    guard: Guard,
    tool: str,
    fault: str | Fault,
    *,
    times: int | None = None,
    when: When | None = None,
    seed: int = 0,
    seconds: float = 0.2,
) -> Injection:
    """Make a tool fail from now on.

    Several faults of one tool are asked in the order they were injected; the first that strikes happens.

    Args:
        guard: the guard.
        tool: name of the tool. For `evidence_write_failure` and `evidence_lost` the ledger fails for this tool's calls; the guard must then
            have been made with a `FaultyStore`.
        fault: a name of `FAULTS`, or a `Fault` of your own.
        times: how often it strikes; None: always.
        when: whether it may strike a call.
        seed: decides what is cut and which parameter's normalizer crashes; the same seed, the same fault.
        seconds: how much longer a slow success takes.

    Returns:
        The injection, active already.

    Raises:
        UsageError: the fault or the tool is unknown, or the fault cannot be put into this tool; the message says how to.
    """
    if isinstance(fault, str):
        if fault not in FAULTS:
            raise UsageError(f"unknown fault {fault!r}; known: {', '.join(FAULTS)}")
        fault = FAULTS[fault]
    if times is not None and times < 1:
        raise UsageError(f"times={times!r} must be 1 or more; None lets the fault strike always")
    injection = Injection(fault, times, when, seed, seconds)
    known = guard.instrument(tool)
    if fault.site == "proposal":
        raise UsageError(
            f"{fault.name!r} is a fault of the model, which no tool sees: use distort(intent, ...) or FaultySource"
        )
    if fault.site == "ledger":
        if not isinstance(guard.store, FaultyStore):
            raise UsageError(f"{fault.name!r} needs a ledger that can fail: Guard(store=FaultyStore(SQLiteStore(...)))")
        injection._undo = guard.store.fail(tool, fault.name, lambda: injection.strikes({}))
    elif fault.site == "normalizer":
        injection._undo = _crash_normalizer(guard, tool, known.parameters, injection)
    else:
        injection._undo = _add(guard, tool, injection)
    return injection


def _crash_normalizer(
    guard: Guard, tool: str, parameters: Mapping[str, Any], injection: Injection
) -> Callable[[], None]:
    names = sorted(parameters.get("properties") or {})
    if not names:
        raise UsageError(f"tool {tool!r} has no parameter whose normalizer could crash")
    name = injection.random.choice(names)
    with _CHANGING:
        normalize = guard.instrument(tool).normalize
        crashing = normalize.get(name)
        if not isinstance(crashing, _Crashing):
            crashing = _Crashing(name, crashing)
            guard.instrument(tool, normalize={**normalize, name: crashing})
        crashing.faults.append(injection)

    def undo() -> None:
        with _CHANGING:
            crashing.faults.remove(injection)
            now = dict(guard.instrument(tool).normalize)
            if not crashing.faults and now.get(name) is crashing:
                del now[name]
                guard.instrument(tool, normalize=now if crashing.own is None else {**now, name: crashing.own})

    return undo


class _Crashing:
    """A normalizer that crashes while a fault strikes, and does what the tool's own does otherwise."""

    def __init__(self, name: str, own: Callable[[Any], Any] | None) -> None:
        self.name, self.own = name, own
        self.faults: list[Injection] = []

    def __call__(self, value: Any) -> Any:
        if any(fault.strikes({self.name: value}) for fault in tuple(self.faults)):
            raise RuntimeError("injected: the normalizer crashed")
        return value if self.own is None else self.own(value)


def _add(guard: Guard, tool: str, injection: Injection) -> Callable[[], None]:
    with _CHANGING:
        fn = guard.instrument(tool).fn
        if isasyncgenfunction(fn):
            raise UsageError(f"tool {tool!r} is an async generator; faults strike functions that answer once")
        faults: list[Injection] | None = getattr(fn, "__fcguard_faults__", None)
        if faults is None:
            faults = []
            guard.instrument(tool, fn=_with_faults(fn, faults))
        faults.append(injection)

    def undo() -> None:
        with _CHANGING:
            faults.remove(injection)
            now: Any = guard.instrument(tool).fn
            if not faults and getattr(now, "__fcguard_faults__", None) is faults:
                guard.instrument(tool, fn=now.__wrapped__)

    return undo


def _with_faults(fn: Callable[..., Any], faults: list[Injection]) -> Callable[..., Any]:
    """Put faults around a function; it keeps its colour, name and signature."""

    def struck(keywords: Mapping[str, Any]) -> Injection | None:
        return next((one for one in tuple(faults) if one.strikes(keywords)), None)

    async def run_async(*args: Any, **keywords: Any) -> Any:
        injection = struck(keywords)
        if injection is None:
            return await fn(*args, **keywords)
        moment = _moment(injection, keywords)
        injection.fault.before(moment)
        if moment.pause:
            await asyncio.sleep(moment.pause)
        return injection.fault.after(moment, await fn(*args, **keywords))

    def run(*args: Any, **keywords: Any) -> Any:
        injection = struck(keywords)
        if injection is None:
            return fn(*args, **keywords)
        moment = _moment(injection, keywords)
        injection.fault.before(moment)
        if moment.pause:
            time.sleep(moment.pause)
        return injection.fault.after(moment, fn(*args, **keywords))

    wrapped: Any = wraps(fn)(run_async if is_coroutine_callable(fn) else run)
    wrapped.__fcguard_faults__ = faults
    return wrapped  # type: ignore[no-any-return]


def _moment(injection: Injection, keywords: Mapping[str, Any]) -> Moment:
    return Moment(keywords, injection.random, injection.seconds)
