"""Shows where the time of a governed call goes, step by step."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from typing import Any

import pydantic

from fcguard import Guard, MemoryStore
from fcguard.runtime import drive
from fcguard.steps import PLAIN
from tests.benchmarks.harness import Row
from tests.benchmarks.tools import GOOD, flat_tool

__all__ = ["step_rows"]

_STEPS = (
    ("open the call", "request id, clocks, running task"),
    ("observer: call started", "spans, if there is an SDK"),
    ("1 context", ""),
    ("2 intent", ""),
    ("3 normalize", "schema validation, frozen copy"),
    ("4 validate", "three built-in rules"),
    ("5 execute", "the tool itself included"),
    ("6 result", "JSON copy of what was returned"),
    ("7 recover", "observer: attempt ended"),
    ("8 record", "envelope and ledger"),
    ("observer: call ended", "log line, span, counters"),
    ("hand over the envelope", ""),
)
_CALLS = 4000


def step_rows(rounds: int) -> list[Row]:
    """Answer microseconds and share of each step of a plain call: the lower quartile of single calls, less the clock's own cost."""
    guard = Guard(store=MemoryStore())
    fn = flat_tool("sync")
    guard.tool(fn, effect="read")
    validated = pydantic.validate_call(fn)
    times: list[list[int]] = []
    plain: list[int] = []
    for _ in range(_CALLS * max(1, rounds // 4)):
        times.append(drive(_stepwise(guard)))
        plain.append(_clocked(lambda: validated(**GOOD)))
    clock = _quarter([line[-1] for line in times])
    unit = (_quarter(plain) - clock) / 1000
    us = [max(0, _quarter([line[position] for line in times]) - clock) / 1000 for position in range(len(_STEPS))]
    total = sum(us)
    rows = [
        {
            "step": step,
            "us": round(one, 3),
            "share": round(one / total, 3),
            "x_validate_call": round(one / unit, 3),
            "what": what,
        }
        for (step, what), one in zip(_STEPS, us, strict=True)
    ]
    rows.append(
        {"step": "all", "us": round(total, 3), "share": 1.0, "x_validate_call": round(total / unit, 3), "what": ""}
    )
    return rows


async def _stepwise(guard: Guard) -> list[int]:
    """Make one call as the pipeline does, and read the clock between the steps."""
    config, io, clock = guard._config, guard._io, time.perf_counter_ns
    prepared: Any = config.tools.get("create_refund")
    marks = [clock()]
    mark: Callable[[int], None] = marks.append
    call: Any = guard._from_code(prepared, (), dict(GOOD))
    mark(clock())
    config.observer.call_started(call)
    mark(clock())
    for step in PLAIN:
        await step(call, config, io)
        mark(clock())
    config.observer.call_ended(call)
    mark(clock())
    if not call.take_result().success:
        raise RuntimeError("the call failed")
    mark(clock())
    mark(clock())
    return [after - before for before, after in zip(marks, marks[1:], strict=False)]


def _clocked(run: Callable[[], Any]) -> int:
    start = time.perf_counter_ns()
    run()
    return time.perf_counter_ns() - start


def _quarter(values: list[int]) -> float:
    return statistics.quantiles(values, n=4)[0]
