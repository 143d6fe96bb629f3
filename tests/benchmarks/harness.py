"""Times many ways to make one tool call side by side, so that drift and noise of the machine hit all of them alike.

Each case is calibrated to a short batch. In every round the batches of all cases of a group run once, in a new random
order, and each case is compared with its reference in the same round. Before and after a batch a fixed loop is timed: a
batch is quiet if both loops ran at full speed and the kernel did not take the processor away in between. Figures are medians
over the quiet batches; where there are too few of them, over the least disturbed. Beforehand each case is run until it is in
its stride: a ledger in memory is full then, and gives up an old call for each new one. An eighth of each batch is run before it
is timed, so that the caches do not hold what the case before it needed. The garbage collector stays on; what the imports
left behind is frozen, so that a call does not cost more because another framework is loaded.
"""

from __future__ import annotations

import gc
import json
import math
import os
import platform
import random
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

try:
    import resource
except ImportError:  # not on Windows: then only the timed loop tells a disturbed batch
    resource = None  # type: ignore[assignment]

__all__ = ["Bench", "Case", "Row", "machine", "finished", "print_rows", "print_table", "resident_bytes", "settle"]

Row: TypeAlias = dict[str, Any]

_BATCH = 0.0025
"""Seconds that one batch should take."""
_WARM_RUNS = 10_500
_QUIET = 1.25
_FEWEST = 7
_REFERENCE_BATCHES = 3


@dataclass
class Case:
    """One way to make a call.

    Attributes:
        name, colour: name of the row and colour of the tool (`sync` or `async`).
        run: makes the calls; what it answers is awaited if `is_awaited`.
        reference: name of the case of the same colour that it is compared with.
        is_awaited: whether `run` answers something to await.
        calls: how many calls one `run` makes.
        around: entered before each batch and left after it, outside the measured time.
        facts: further keys of the row.
    """

    name: str
    colour: str
    run: Callable[[], Any]
    reference: str
    is_awaited: bool
    calls: int = 1
    around: Callable[[], AbstractContextManager[Any]] = nullcontext
    facts: Row = field(default_factory=dict)
    repeats: int = 1
    batches: list[_Batch] = field(default_factory=list)


@dataclass(frozen=True)
class _Batch:
    """What was seen of one batch: microseconds a call, the slower of the two loops, how often it was interrupted."""

    us: float
    loop: float
    interrupts: int
    round: int

    @property
    def disturbance(self) -> tuple[bool, float]:
        return self.interrupts > 0, self.loop


class Bench:
    """Collects cases and times them in one interleaved run.

    Args:
        rounds: how often each case is timed.
        seconds: when to stop before that; a busy machine then gets fewer rounds, at least one.
        warm: most seconds for which each case is run beforehand.
        batch: seconds of one batch.
    """

    def __init__(self, rounds: int, seconds: float = math.inf, *, warm: float = 0.5, batch: float = _BATCH) -> None:
        self._rounds, self._seconds, self._warm, self._batch = rounds, seconds, warm, batch
        self._cases: list[Case] = []

    def add(self, case: Case) -> None:
        """Add a case."""
        self._cases.append(case)

    async def run(self) -> list[Row]:
        """Time all cases and answer their rows, in the order in which they were added."""
        cases, references, end = self._cases, self._references(), time.monotonic() + self._seconds
        for case in cases:
            await self._warm_up(case)
            await self._calibrate(case)
        settle()
        schedule = cases + [case for case in references.values() for _ in range(_REFERENCE_BATCHES - 1)]
        for number in range(self._rounds):
            random.shuffle(schedule)
            for case in schedule:
                await _observe(case, number)
            if time.monotonic() > end:
                break
        loops = sorted(batch.loop for case in cases for batch in case.batches)
        limit = loops[len(loops) // 10] * _QUIET
        return [_row(case, references[case.reference, case.colour], limit) for case in cases]

    def _references(self) -> dict[tuple[str, str], Case]:
        named = {(case.name, case.colour): case for case in self._cases}
        wanted = {(case.reference, case.colour) for case in self._cases}
        return {key: named[key] for key in wanted}

    async def _warm_up(self, case: Case) -> None:
        """Run a case until a ledger in memory holds all that it ever will, or until it is clear that this takes long."""
        end = time.perf_counter() + self._warm
        with case.around():
            for _ in range(_WARM_RUNS // case.calls):
                if time.perf_counter() > end:
                    break
                await finished(case.run())

    async def _calibrate(self, case: Case) -> None:
        """Find how many runs fill a batch; this warms the case up, too."""
        with case.around():
            while True:
                seconds = min([await _timed(case, case.repeats) for _ in range(3)])
                if seconds >= self._batch / 2 or case.repeats >= 1_000_000:
                    break
                case.repeats *= 2
        case.repeats = max(1, int(case.repeats * self._batch / max(seconds, 1e-9)))


async def _timed(case: Case, repeats: int) -> float:
    run, numbers = case.run, range(repeats)
    if case.is_awaited:
        start = time.perf_counter()
        for _ in numbers:
            await run()
        return time.perf_counter() - start
    start = time.perf_counter()
    for _ in numbers:
        run()
    return time.perf_counter() - start


async def _observe(case: Case, number: int) -> None:
    with case.around():
        await _timed(case, case.repeats // 8)
        before, interrupts = _loop(), _interrupts()
        seconds = await _timed(case, case.repeats)
        interrupts = _interrupts() - interrupts
        loop = max(before, _loop())
    case.batches.append(_Batch(seconds / case.repeats / case.calls * 1e6, loop, interrupts, number))


def _loop(turns: int = 4000) -> float:
    count = 0
    start = time.perf_counter()
    for _ in range(turns):
        count += 1
    return time.perf_counter() - start


def _interrupts() -> int:
    return 0 if resource is None else resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw


def _quiet(batches: Sequence[_Batch], limit: float, fewest: int) -> list[_Batch]:
    quiet = [batch for batch in batches if not batch.interrupts and batch.loop <= limit]
    return quiet if len(quiet) >= fewest else sorted(batches, key=lambda batch: batch.disturbance)[:fewest]


def _row(case: Case, reference: Case, limit: float) -> Row:
    """Make the row of a case: medians over its quiet batches, each compared with the reference in the same round."""
    usual = statistics.median(batch.us for batch in _quiet(reference.batches, limit, 1))
    beside: dict[int, float] = {}
    for number in {batch.round for batch in case.batches}:
        of_round = [batch for batch in reference.batches if batch.round == number]
        quiet = _quiet(of_round, limit, 0)
        beside[number] = statistics.median(batch.us for batch in quiet) if quiet else usual
    chosen = _quiet(case.batches, limit, min(_FEWEST, len(case.batches)))
    times = [batch.us for batch in chosen]
    return {
        "name": case.name,
        "colour": case.colour,
        "us": round(statistics.median(times), 3),
        "x_validate_call": round(statistics.median(batch.us / beside[batch.round] for batch in chosen), 3),
        "best_us": round(min(times), 3),
        "reference": case.reference,
        "quiet_batches": sum(not batch.interrupts and batch.loop <= limit for batch in case.batches),
        "batches": len(case.batches),
        **case.facts,
    }


def settle() -> None:
    """Collect garbage, and leave what is loaded for good out of later collections."""
    gc.collect()
    gc.freeze()


async def finished(value: Any) -> Any:
    """Await what has to be awaited, and answer the rest as it is."""
    return await value if isinstance(value, Awaitable) else value


def machine() -> Row:
    """Describe where this runs, without names."""
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else None
    return {
        "python": platform.python_version(),
        "system": platform.system(),
        "processors": os.cpu_count(),
        "load": None if load is None else round(load, 2),
    }


def resident_bytes() -> int | None:
    """Answer the resident memory of this process; None where the system does not say."""
    statm = Path("/proc/self/statm")
    if not statm.exists():
        return None
    return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def print_rows(rows: Iterable[Row]) -> None:
    """Print rows as JSON on stdout."""
    sys.stdout.write(json.dumps(list(rows), indent=1) + "\n")


def print_table(title: str, heads: Sequence[str], body: Sequence[Sequence[Any]]) -> None:
    """Print a table: with rich where it is installed, plain otherwise."""
    cells = [[shown(cell) for cell in line] for line in body]
    try:
        from rich.console import Console
        from rich.table import Table
    except ImportError:
        widths = [max(len(line[i]) for line in [list(heads), *cells]) for i in range(len(heads))]
        lines = [
            "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in [heads, *cells]
        ]
        sys.stdout.write("\n".join(["", title, *lines, ""]))
        return
    table = Table(title=title, title_justify="left")
    for position, head in enumerate(heads):
        table.add_column(head, justify="left" if position == 0 else "right", overflow="fold")
    for line in cells:
        table.add_row(*line)
    Console(width=None if sys.stdout.isatty() else 120).print(table)


def shown(value: Any) -> str:
    """Write a cell: numbers with three digits that count."""
    if value is None:
        return "-"
    if not isinstance(value, float):
        return f"{value:,}" if isinstance(value, int) else str(value)
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
