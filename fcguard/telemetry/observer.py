"""The seam between the pipeline and telemetry: six moments of a call, told to whoever watches."""

from __future__ import annotations

from typing import Protocol

from fcguard.model.call import Attempt, Call

__all__ = ["Observer", "SilentObserver"]


class Observer(Protocol):
    """Watches governed calls. Must never raise and never change a call, but for its trace and span id."""

    def call_started(self, call: Call) -> None:
        """Called before step 1. Sets `call.trace_id` and `call.span_id`; may keep its own state in `call.observed`.

        `call.tool` is set if the name is registered exactly; a name that has to be folded is resolved later.
        """
        ...

    def call_ended(self, call: Call) -> None:
        """Called once per started call, after the envelope is made (`call.result`) and recorded.

        Also for refused, cancelled and interrupted calls; those have `call.result` too.
        """
        ...

    def attempt_started(self, call: Call, attempt: Attempt) -> None:
        """Called before the tool is entered, in the context that the tool will inherit. May use `attempt.observed`."""
        ...

    def attempt_ended(self, call: Call, attempt: Attempt) -> None:
        """Called after the attempt was classified (`attempt.error_type`, `attempt.effect`), in the same context."""
        ...

    def recovery_started(self, call: Call, action: str) -> None:
        """Called before a recovery action (`retry`, `confirm`, `wait`, `switch`, `fallback`) begins."""
        ...

    def recovery_ended(self, call: Call, action: str, outcome: str) -> None:
        """Called when it ended (`applied`, `not_applied`, `inconclusive`, `again`, `answered`, `gave_up`, ...)."""
        ...

    def stage(self, call: Call, name: str, started: float, ended: float) -> None:
        """Called after each of the steps context, intent, normalize, validate, result and record, only if `wants_stages`.

        `started` and `ended` are wall clock seconds.
        """
        ...

    @property
    def wants_stages(self) -> bool:
        """Whether `stage` should be called."""
        ...


class SilentObserver:
    """Watches nothing."""

    __slots__ = ()
    wants_stages = False

    def call_started(self, call: Call) -> None:
        """Do nothing."""

    def call_ended(self, call: Call) -> None:
        """Do nothing."""

    def attempt_started(self, call: Call, attempt: Attempt) -> None:
        """Do nothing."""

    def attempt_ended(self, call: Call, attempt: Attempt) -> None:
        """Do nothing."""

    def recovery_started(self, call: Call, action: str) -> None:
        """Do nothing."""

    def recovery_ended(self, call: Call, action: str, outcome: str) -> None:
        """Do nothing."""

    def stage(self, call: Call, name: str, started: float, ended: float) -> None:
        """Do nothing."""
