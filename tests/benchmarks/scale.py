"""What many registered tools, many calls in flight, many calls in a row, and the import cost."""

from __future__ import annotations

import asyncio
import gc
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fcguard import Guard, MemoryStore, Tool
from tests.benchmarks.harness import Case, Row, finished, resident_bytes, settle
from tests.benchmarks.scenarios import VALIDATE
from tests.benchmarks.tools import GOOD, flat_tool, runs

__all__ = ["CHILDREN", "in_child", "in_flight", "registered_cases"]

DELAY = 0.010
"""Seconds that the tool waits where calls are in flight."""
MANY = 10_000
_WARM_UP = 30_000
"""Calls before memory is measured: the ledger in memory then holds all it ever will."""


def _parameters() -> dict[str, Any]:
    guard = Guard(store=MemoryStore())
    guard.tool(flat_tool("sync"), effect="read")
    return dict(guard.tools[0].parameters)


def _guard_with(number: int, colour: str) -> Guard:
    guard, fn, parameters = Guard(store=MemoryStore()), flat_tool(colour), _parameters()
    for position in range(number):
        guard.register(Tool(name=f"refund_{position}", parameters=parameters, fn=fn, effect="read"))
    return guard


def registered_cases(colour: str, numbers: tuple[int, ...] = (1, 100, MANY)) -> list[Case]:
    """Make the cases that call the last of 1, 100 and 10,000 tools by its name."""
    cases = []
    for number in numbers:
        guard = _guard_with(number, colour)
        call: Any = guard.acall if colour == "async" else guard.call
        cases.append(_case(f"fcguard, {number:,} registered tools", colour, call, f"refund_{number - 1}"))
    return cases


def _case(name: str, colour: str, call: Callable[..., Any], tool: str) -> Case:
    return Case(name, colour, lambda: call(tool, GOOD), VALIDATE, colour == "async")


async def in_flight(
    name: str, call: Callable[[], Any], unit: float, numbers: tuple[int, ...], repeats: int
) -> list[Row]:
    """Have so many calls of a tool that waits 10 ms in flight at once.

    Args:
        name: what is called.
        call: makes one call; what it answers is awaited.
        unit: microseconds of a bare `validate_call`.
        numbers: how many calls at once.
        repeats: how often; the best one counts.

    Returns:
        Rows with calls per second, and microseconds of processor time a call.
    """
    rows = []
    settle()
    for number in numbers:
        walls, processors = [], []
        for _ in range(repeats):
            before, start, processor = runs[0], time.perf_counter(), time.process_time()
            await asyncio.gather(*[finished(call()) for _ in range(number)])
            walls.append(time.perf_counter() - start)
            processors.append(time.process_time() - processor)
            if runs[0] - before != number:
                raise RuntimeError(f"{name}: {runs[0] - before} of {number} calls ran the tool")
        us = min(walls) / number * 1e6
        rows.append(
            {
                "name": f"{name}, {number:,} in flight, 10 ms tool",
                "colour": "async",
                "us": round(us, 3),
                "x_validate_call": round(us / unit, 3),
                "calls_per_second": round(number / min(walls)),
                "processor_us": round(min(processors) / number * 1e6, 3),
            }
        )
    return rows


def waiting_tool() -> Callable[..., Any]:
    """Make the governed tool that waits."""
    tool: Callable[..., Any] = Guard(store=MemoryStore()).tool(flat_tool("async", DELAY), effect="read")
    return tool


# -- measured in a process of their own --------------------------------------------------------------------------------


def _remote(**arguments: Any) -> dict[str, Any]:
    """Stand for a tool that lives elsewhere."""
    return arguments


def _registering(*, is_quick: bool) -> list[Row]:
    """Register many functions, and many tools that come as JSON Schema."""
    many = MANY // 5 if is_quick else MANY
    parameters, functions = _parameters(), [flat_tool("sync", name=f"refund_{n}") for n in range(many)]
    rows = []
    for name in ("JSON Schema tools", "functions"):
        guard = Guard(store=MemoryStore())
        guard.register(Tool(name="first", parameters=parameters, fn=functions[0], effect="read"))
        gc.collect()
        memory, start = resident_bytes(), time.process_time()
        if name == "functions":
            for function in functions:
                guard.tool(function, effect="read")
        else:
            for number in range(many):
                guard.register(Tool(name=f"refund_{number}", parameters=parameters, fn=_remote, effect="read"))
        seconds = time.process_time() - start
        after = resident_bytes()
        grown = None if memory is None or after is None else round((after - memory) / 1024 / many, 3)
        rows.append({"name": f"registering {name}", "us": round(seconds / many * 1e6, 3), "kib_per_tool": grown})
        rows[-1]["tools"] = many
        kept.append(guard)
    return rows


kept: list[Guard] = []
"""Guards that stay, so that the memory of one is not measured as free for the next."""


def _soak(*, is_quick: bool, number: int = 1_000_000) -> list[Row]:
    """Make very many calls in a row."""
    tool = Guard(store=MemoryStore()).tool(flat_tool("sync"), effect="read")
    for _ in range(_WARM_UP):
        tool(**GOOD)
    gc.collect()
    memory, parts = resident_bytes(), []
    for _ in range(100):
        start = time.process_time()
        for _ in range(number // 100):
            tool(**GOOD)
        parts.append((time.process_time() - start) / (number // 100) * 1e6)
    gc.collect()
    after = resident_bytes()
    return [
        {
            "name": f"{number:,} calls in a row",
            "us": round(statistics.median(parts), 3),
            "last_tenth_beside_first": round(statistics.median(parts[-10:]) / statistics.median(parts[:10]), 3),
            "mib_grown": None if memory is None or after is None else round((after - memory) / 2**20, 3),
        }
    ]


def _importing(*, is_quick: bool) -> list[Row]:
    """Import fcguard, and its guard, beside what they stand on; compiled before, as an installed package is."""
    codes = {
        "bare": "pass",
        "base": "import asyncio, pydantic",
        "import fcguard": "import fcguard",
        "import fcguard and Guard": "from fcguard import Guard",
    }
    best = dict.fromkeys(codes, math.inf)
    with tempfile.TemporaryDirectory() as compiled:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": compiled, "PYTHONPATH": os.pathsep.join(sys.path[:1])}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        for _ in range(4 if is_quick else 10):
            for name, code in codes.items():
                command = [sys.executable, "-c", f"{code}\nimport time; print(time.process_time())"]
                printed = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout
                best[name] = min(best[name], float(printed))
    base = best["base"] - best["bare"]
    return [
        {
            "name": name,
            "us": round(max(best[name] - best["bare"], 1e-6) * 1e6, 1),
            "beside_pydantic_and_asyncio": round((best[name] - best["bare"]) / base, 3),
        }
        for name in list(codes)[2:]
    ]


CHILDREN: dict[str, Callable[..., list[Row]]] = {"registering": _registering, "soak": _soak, "importing": _importing}


def in_child(name: str, unit: float, *, is_quick: bool) -> list[Row]:
    """Measure something in a fresh process and answer its rows; `unit` is the microseconds of a bare `validate_call`."""
    script = str(Path(__file__).with_name("overhead.py"))
    command = [sys.executable, script, "--child", name, *(["--quick"] if is_quick else [])]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rows: list[Row] = json.loads(printed.splitlines()[-1])
    return [{"colour": "sync", **row, "x_validate_call": round(row["us"] / unit, 3)} for row in rows]
