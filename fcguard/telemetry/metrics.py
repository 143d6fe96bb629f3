"""Counters of governed calls: own integers that OpenTelemetry reads when it collects, and two histograms.

A point on a synchronous counter of the SDK costs several microseconds, an own integer a tenth of one. All observers of
one meter provider share one set of instruments, so that two guards do not report the same series twice.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterable
from typing import Final
from weakref import WeakKeyDictionary, WeakSet

from opentelemetry.context import Context
from opentelemetry.metrics import CallbackOptions, Histogram, MeterProvider, Observation

from fcguard.telemetry import semconv as names
from fcguard.telemetry.providers import is_silent

__all__ = ["Cell", "Counter", "Instruments", "instruments_of"]

Attributes = dict[str, str]
Cell = list[int]
"""One series: a list of one integer, so that whoever counts often can keep it at hand. Change it under the lock."""


class Counter:
    """A bounded set of series, `(tool, ...)` -> integer.

    Args:
        keys: attribute keys of a series, the tool first.
        lock: guards every change.
        limit: most series; further ones are counted under the tool `_other`.
    """

    __slots__ = ("_cells", "_keys", "_limit", "_lock")

    def __init__(self, keys: tuple[str, ...], lock: threading.Lock, limit: int = names.SERIES_LIMIT) -> None:
        self._keys, self._lock, self._limit = keys, lock, limit
        self._cells: dict[tuple[str, ...], Cell] = {}

    def cell(self, *values: str) -> Cell:
        """Answer the series of these values. Call it with the lock held."""
        found = self._cells.get(values)
        if found is None:
            # The last places are kept for `_other`, whose other values come from small closed sets.
            if values and len(self._cells) >= self._limit - _RESERVED:
                is_full = len(self._cells) >= self._limit - 1
                values = (names.OTHER,) * len(values) if is_full else (names.OTHER, *values[1:])
            found = self._cells.setdefault(values, [0])
        return found

    def observe(self, _: CallbackOptions) -> Iterable[Observation]:
        """Answer one observation per series."""
        with self._lock:
            rows = [(values, cell[0]) for values, cell in self._cells.items()]
        return [Observation(count, dict(zip(self._keys, values, strict=True))) for values, count in rows]


_RESERVED: Final = 300


class Instruments:
    """The instruments of one meter provider.

    Attributes:
        lock: guards the counters.
        calls, attempts, refusals, recoveries, write_failures: the counters.
        is_silent: the provider does nothing; nothing need be counted.
        watchers: who knows how many calls are unresolved; held weakly, each lives as long as its observer.
    """

    def __init__(self, provider: MeterProvider) -> None:
        self.is_silent = is_silent(provider)
        self.lock = threading.Lock()
        meter = provider.get_meter(names.SCOPE, schema_url=names.SCHEMA_URL)
        self._histograms = {
            row.name: meter.create_histogram(
                row.name, row.unit, row.description, explicit_bucket_boundaries_advisory=row.buckets
            )
            for row in names.METRICS.values()
            if row.instrument == "histogram"
        }
        self.duration: Histogram = self._histograms[names.DURATION]
        self.write_duration: Histogram = self._histograms[names.EVIDENCE_DURATION]
        counters: dict[str, Counter] = {}
        for row in names.METRICS.values():
            if row.instrument == "counter":
                counters[row.name] = Counter(row.attributes, self.lock)
                meter.create_observable_counter(row.name, [counters[row.name].observe], row.unit, row.description)
        self.calls, self.attempts = counters[names.CALLS], counters[names.CALL_ATTEMPTS]
        self.refusals, self.recoveries = counters[names.VALIDATION_FAILURES], counters[names.RECOVERIES]
        self.write_failures = counters[names.EVIDENCE_FAILURES]
        self.watchers: WeakSet[Watcher] = WeakSet()
        gauge = names.METRICS[names.UNRESOLVED]
        meter.create_observable_gauge(gauge.name, [self._unresolved], gauge.unit, gauge.description)
        self._series: dict[tuple[str | None, ...], Attributes] = {}

    def record_duration(
        self, seconds: float, tool: str, error: str | None, agent: str | None, context: Context | None = None
    ) -> None:
        """Add a call to the histogram of durations.

        Args:
            seconds: wall time of the call.
            tool: registered name, or `_unknown`.
            error: error type; None if the call did not end in an error.
            agent: name of the agent, if the task has one.
            context: the current context, which says what trace the point belongs to; None: it is looked up.
        """
        key = (tool, error, agent)
        found = self._series.get(key)
        if found is None:
            found = self._attributes(tool, error, agent)
            if len(self._series) < names.SERIES_LIMIT - _RESERVED:
                self._series[key] = found
            else:
                found = self._series.setdefault((names.OTHER, error), self._attributes(names.OTHER, error, None))
        self.duration.record(seconds, found, context)

    @staticmethod
    def _attributes(tool: str, error: str | None, agent: str | None) -> Attributes:
        attributes = {names.TOOL_NAME: tool}
        if tool not in (names.UNKNOWN_TOOL, names.OTHER):
            attributes[names.TOOL_TYPE] = "function"
        if agent:
            attributes[names.AGENT_NAME] = agent
        if error:
            attributes[names.ERROR_TYPE] = error
        return attributes

    def _unresolved(self, _: CallbackOptions) -> Iterable[Observation]:
        counts: dict[Hashable, int] = {}
        for watcher in list(self.watchers):
            if watcher.ledger not in counts:  # several guards on one ledger see the same calls: one answer is enough
                count = watcher.count()
                if count is not None:
                    counts[watcher.ledger] = count
        return [Observation(sum(counts.values()))] if counts else []


class Watcher:
    """Asks somebody how many calls are unresolved, and takes no for an answer.

    Args:
        ask: answers the number, or None.
        ledger: which ledger it is about; of several watchers of one ledger one is asked. None: one of its own.
    """

    __slots__ = ("__weakref__", "_ask", "ledger")

    def __init__(self, ask: Callable[[], int | None], ledger: Hashable = None) -> None:
        self._ask = ask
        self.ledger: Hashable = id(self) if ledger is None else ledger

    def count(self) -> int | None:
        """Answer the number; None if it is not to be had now."""
        try:
            return self._ask()
        except Exception:  # a ledger that is down must not stop the other metrics
            return None


_of: WeakKeyDictionary[MeterProvider, Instruments] = WeakKeyDictionary()
_of_lock: Final = threading.Lock()


def instruments_of(provider: MeterProvider) -> Instruments:
    """Answer the instruments of a meter provider, made once."""
    with _of_lock:
        found = _of.get(provider)
        if found is None:
            found = _of[provider] = Instruments(provider)
        return found
