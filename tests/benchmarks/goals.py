"""The performance goals, and what a run reached of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from tests.benchmarks.harness import Row
from tests.benchmarks.scenarios import COMMIT, MEMORY, SQLITE

__all__ = ["goal_lines"]

Find: TypeAlias = Callable[[Sequence[Row]], float | None]


def _of(key: str, name: str, colour: str = "async") -> Find:
    def find(rows: Sequence[Row]) -> float | None:
        return next((row[key] for row in rows if row["name"].startswith(name) and row["colour"] == colour), None)

    return find


def _x(name: str, colour: str = "async") -> Find:
    return _of("x_validate_call", name, colour)


def _beside(one: Find, other: Find) -> Find:
    def find(rows: Sequence[Row]) -> float | None:
        above, below = one(rows), other(rows)
        return None if above is None or not below else above / below

    return find


def _rate(name: str, colour: str = "async") -> Find:
    return _beside(lambda _: 1e6, _of("us", name, colour))


_FULL = "fcguard full call: rules, deadline, counters, span sampled out"
_SEEN = "fcguard full call: rules, deadline, counters, span recorded, JSON log line"
_IN_FLIGHT = "fcguard, 10,000 in flight, 10 ms tool"

_GOALS: tuple[tuple[str, str, float, bool, Find], ...] = (
    ("a governed call, sync", "x validate_call", 12, False, _x(MEMORY, "sync")),
    ("a governed call, async", "x validate_call", 12, False, _x(MEMORY)),
    ("telemetry without a provider, sync", "x no telemetry", 1.2, False, _of("x_silent", "telemetry, no p", "sync")),
    ("telemetry without a provider, async", "x no telemetry", 1.2, False, _of("x_silent", "telemetry, no p")),
    ("telemetry, sampled out, sync", "x no telemetry", 1.4, False, _of("x_silent", "telemetry, sampled out", "sync")),
    ("telemetry, sampled out, async", "x no telemetry", 1.4, False, _of("x_silent", "telemetry, sampled out")),
    ("P1 full async call, sampled out", "x validate_call", 8, False, _x(_FULL)),
    ("P1 nested tool", "x validate_call", 4.5, False, _x(f"{MEMORY}, nested tool")),
    ("P2 full async call, recorded, JSON line", "x validate_call", 11, False, _x(_SEEN)),
    ("P3 cheaper than langchain ainvoke", "times", 12, True, _beside(_x("langchain-core"), _x(_FULL))),
    ("P3 cheaper than ToolNode", "times", 18, True, _beside(_x("langgraph"), _x(_FULL))),
    ("P4 cheaper than openai-agents", "times", 16, True, _beside(_x("openai-agents function"), _x(_SEEN))),
    ("P4 cheaper than fastmcp's client", "times", 38, True, _beside(_x("fastmcp in-memory"), _x(_SEEN))),
    ("P7 validation alone", "x validate_call", 2, False, _x("fcguard validation alone", "sync")),
    ("P8 refused call, all errors worded", "x validate_call", 6, False, _x("fcguard refusal")),
    ("P9 durable, 100 in flight", "calls a second", 10_000, True, _rate(f"{SQLITE}, 100")),
    (
        "P9 beside a commit for each call",
        "times",
        9,
        True,
        _beside(_of("us", COMMIT, "sync"), _of("us", f"{SQLITE}, 100")),
    ),
    (
        "P10 durable, one in flight, beside a commit",
        "times",
        2,
        False,
        _beside(_of("us", SQLITE), _of("us", COMMIT, "sync")),
    ),
    (
        "P12 10,000 tools beside 1, sync",
        "times",
        1.15,
        False,
        _beside(_x("fcguard, 10,000 r", "sync"), _x("fcguard, 1 r", "sync")),
    ),
    ("P12 10,000 tools beside 1, async", "times", 1.15, False, _beside(_x("fcguard, 10,000 r"), _x("fcguard, 1 r"))),
    ("P13 registering a JSON Schema tool", "us", 150, False, _of("us", "registering JSON", "sync")),
    ("P13 memory of one", "KiB", 6, False, _of("kib_per_tool", "registering JSON", "sync")),
    ("P13 registering a function", "us", 150, False, _of("us", "registering functions", "sync")),
    ("P13 memory of one", "KiB", 6, False, _of("kib_per_tool", "registering functions", "sync")),
    ("P14 10,000 in flight, 10 ms tool", "calls a second", 10_000, True, _of("calls_per_second", _IN_FLIGHT)),
    ("P15 memory grown by 1,000,000 calls", "MiB", 5, False, _of("mib_grown", "1,000,000 calls", "sync")),
    ("P15 last tenth beside first", "times", 1.05, False, _of("last_tenth_beside_first", "1,000,000 calls", "sync")),
    (
        "P16 import of the guard, beside pydantic and asyncio",
        "times",
        1.6,
        False,
        _of("beside_pydantic_and_asyncio", "import fcguard and", "sync"),
    ),
    ("P18 sync tool from sync code, three rules", "x validate_call", 8, False, _x(f"{MEMORY}, three rules", "sync")),
)
"""Goal, unit, number, whether more is better, how it is read from the rows."""


def goal_lines(rows: Sequence[Row]) -> list[list[Any]]:
    """Answer a line for each goal: what is wanted, what was reached, and whether that meets it."""
    lines: list[list[Any]] = []
    for goal, unit, wanted, is_more_better, find in _GOALS:
        reached = find(rows)
        sign = "at least" if is_more_better else "at most"
        if reached is None:
            met = "not measured"
        else:
            met = "yes" if (reached >= wanted if is_more_better else reached <= wanted) else "no"
        lines.append([goal, f"{sign} {wanted:,g} {unit}", None if reached is None else float(reached), met])
    return lines
