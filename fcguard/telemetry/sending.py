"""The handle of providers that fcguard made: it flushes them, stops them within a time limit, and says what was lost."""

from __future__ import annotations

import atexit
import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final
from weakref import WeakMethod

from opentelemetry import metrics as metrics_api
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from fcguard.telemetry.log import is_heard

__all__ = ["SHUTDOWN_TIMEOUT", "CountedSpans", "Outbox", "Telemetry"]

SHUTDOWN_TIMEOUT: Final = 3.0
"""Seconds that a shutdown takes at most unless somebody says otherwise."""
_log: Final = logging.getLogger("fcguard.telemetry")


class Outbox:
    """Keeps count of what one exporter was given and of what it has sent; the SDK logs failures, and keeps them to itself.

    Args:
        exporter: of spans or of metrics; its `export` is watched from now on.
        destination: where it sends to, for people: without credentials.
        is_of_spans: whether it exports spans; what it was given is counted by `CountedSpans` then.

    Attributes:
        failures: exports that failed.
        taken, sent: spans given to it, and spans that it has sent.
    """

    def __init__(self, exporter: Any, destination: str, *, is_of_spans: bool) -> None:
        self.exporter, self.destination = exporter, destination
        self.failures = self.taken = self.sent = 0
        self._is_of_spans, self._is_closed, self._is_last_sent = is_of_spans, False, True
        self._export = exporter.export
        exporter.export = self._send

    def close(self) -> None:
        """Send nothing from now on: what was told as lost must not arrive afterwards."""
        self._is_closed = True

    def lost(self, *, has_ended: bool) -> str | None:
        """Answer in words what was not sent, as far as is known; None if nothing is known to be lost.

        Args:
            has_ended: whether its provider has stopped by itself.
        """
        if self._is_of_spans:
            missing = self.taken - self.sent
            return f"{missing} of {self.taken} spans" if missing > 0 else None
        return None if self._is_last_sent and has_ended else "the last metrics"

    def _send(self, batch: Any, *args: Any, **options: Any) -> Any:
        result, self._is_last_sent = None, False
        if self._is_closed:
            return result
        try:
            result = self._export(batch, *args, **options)
        finally:
            if getattr(result, "name", "") == "SUCCESS":
                self._is_last_sent = True
                self.sent += len(batch) if self._is_of_spans else 0
            else:
                self.failures += 1
        return result


class CountedSpans(BatchSpanProcessor):
    """A batch processor that counts the spans which it takes for an outbox.

    Args:
        outbox: of the exporter to which they go.
        options: of `BatchSpanProcessor`.
    """

    def __init__(self, outbox: Outbox, **options: Any) -> None:
        super().__init__(outbox.exporter, **options)
        self._outbox, self._counting = outbox, threading.Lock()
        forget = WeakMethod(self._forget)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=lambda: (method := forget()) and method())

    def on_end(self, span: ReadableSpan) -> None:
        """Count a span that is sampled, and put it into the queue."""
        if span.context is not None and span.context.trace_flags.sampled:
            with self._counting:
                self._outbox.taken += 1
        super().on_end(span)

    def _forget(self) -> None:
        """Start anew in a child process: what was waiting at the fork is its parent's to send."""
        self._counting = threading.Lock()
        self._outbox.taken = self._outbox.sent = 0


class Telemetry:
    """The providers that `setup` made.

    Args:
        tracer_provider, meter_provider: what it is about.
        outboxes: of their exporters.
        shutdown_timeout: seconds that `shutdown` takes at most by default.

    Attributes:
        tracer_provider: for `Guard(tracer_provider=...)`.
        meter_provider: for `Guard(meter_provider=...)`; does nothing unless metrics go to a collector.
    """

    def __init__(
        self,
        tracer_provider: TracerProvider,
        meter_provider: metrics_api.MeterProvider,
        outboxes: Sequence[Outbox] = (),
        *,
        shutdown_timeout: float = SHUTDOWN_TIMEOUT,
    ) -> None:
        self.tracer_provider = tracer_provider
        self.meter_provider = meter_provider
        self._outboxes, self._shutdown_timeout, self._is_shut = outboxes, shutdown_timeout, False
        atexit.register(self._at_exit)

    def flush(self, timeout: float = 30.0) -> bool:
        """Send what is waiting.

        Args:
            timeout: seconds for all of it; what is not sent by then is still being sent.

        Returns:
            Whether all of it was sent, as far as anybody knows: a collector that is not there, or refuses it, means False.
        """
        before, is_sent = self._failures(), [False]

        def send() -> None:
            milliseconds = int(timeout * 1000)
            is_sent[0] = self.tracer_provider.force_flush(milliseconds)
            if isinstance(self.meter_provider, MeterProvider):
                is_sent[0] = self.meter_provider.force_flush(milliseconds) and is_sent[0]

        # The processors of the SDK send until they are done, however long they were given.
        return all(_together([send], timeout)) and is_sent[0] and self._failures() == before

    def shutdown(self, timeout: float | None = None) -> None:
        """Send what is left, and stop. Idempotent.

        What is not sent in time is dropped, and a warning in the log says how much that was.

        Args:
            timeout: seconds for all of it; 0: nothing is waited for. None: the `shutdown_timeout` of `setup`.

        Raises:
            KeyboardInterrupt: Ctrl-C; the rest is dropped at once.
        """
        if self._is_shut:
            return
        self._is_shut = True
        atexit.unregister(self._at_exit)
        seconds = self._shutdown_timeout if timeout is None else timeout
        stops: list[Callable[[], object]] = [self.tracer_provider.shutdown]
        if isinstance(self.meter_provider, MeterProvider):
            stops.append(self.meter_provider.shutdown)
        ended, reason = [False], "interrupted"
        try:
            ended = _together(stops, seconds)
            reason = "" if all(ended) else f"gave up after {seconds:g} s (shutdown_timeout)"
        finally:
            self._report(reason, has_meter_ended=ended[-1])

    def __enter__(self) -> Telemetry:
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()

    def _at_exit(self) -> None:
        with suppress(KeyboardInterrupt):  # what it means was said; a stack trace would say no more
            self.shutdown()

    def _failures(self) -> int:
        return sum(outbox.failures for outbox in self._outboxes)

    def _report(self, reason: str, *, has_meter_ended: bool) -> None:
        """Drop what is left, and say in one line what that was."""
        lost: dict[str, list[str]] = {}
        for outbox in self._outboxes:
            outbox.close()
            what = outbox.lost(has_ended=has_meter_ended)
            if what is not None:
                lost.setdefault(outbox.destination, []).append(what)
        if not lost:
            return
        texts = [f"{' and '.join(what)} did not reach {destination}" for destination, what in lost.items()]
        _warn(f"telemetry was lost: {', '.join(texts)}{reason and f'; {reason}'}")


def _together(tasks: Sequence[Callable[[], object]], seconds: float) -> list[bool]:
    """Run tasks side by side, and answer whether each of them ended in time; one that did not goes on in the background."""
    deadline = time.monotonic() + seconds
    ends = [_in_background(task) for task in tasks]
    return [end.wait(min(max(0.0, deadline - time.monotonic()), threading.TIMEOUT_MAX)) for end in ends]


def _in_background(task: Callable[[], object]) -> threading.Event:
    """Start a task on a thread that does not keep the process alive, and answer what is set at its end."""
    end = threading.Event()

    def run() -> None:
        try:
            task()
        except Exception as error:
            _log.warning("a provider of OpenTelemetry failed with %s", type(error).__name__)
        finally:
            end.set()

    try:
        threading.Thread(target=run, name="fcguard-telemetry", daemon=True).start()
    except RuntimeError:  # no thread is left, or the interpreter starts none at its end (Python 3.12.0 and 3.12.1)
        run()
    return end


def _warn(text: str) -> None:
    """Log a warning; on stderr if the host has not set up logging, as stdlib logging does for everybody else."""
    _log.warning("%s", text)
    if logging.lastResort is not None and _log.isEnabledFor(logging.WARNING) and not is_heard(_log):
        logging.lastResort.handle(_log.makeRecord(_log.name, logging.WARNING, __file__, 0, text, (), None))
