"""One deterministic pass from a run to its numbers: streamed, offline, without a model."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from fcguard.evaluation.aggregate import MOST_CASES, Partial
from fcguard.evaluation.metrics import Measures, measure_session
from fcguard.evaluation.trace import Session

__all__ = ["evaluate"]


def evaluate(
    sessions: Iterable[Session],
    measures: Measures,
    *,
    on_session: Callable[[Session], object] | None = None,
    most_cases: int = MOST_CASES,
) -> Partial:
    """Measure every session once, in one pass.

    Time is linear in the calls. Memory grows with the number of tasks and with `most_cases`, not with the number of
    sessions.

    Args:
        sessions: a `Run`, or any iterable; it is read once and never held.
        measures: gold, catalogue and rule.
        on_session: called after each session, e.g. to move a progress bar.
        most_cases: how many of the worst sessions are kept for the report's case tables.

    Returns:
        A partial result; `merge` joins those of several shards.
    """
    partial = Partial(most_cases=most_cases)
    for session in sessions:
        partial.add(measure_session(session, measures))
        if on_session is not None:
            on_session(session)
    return partial
