"""From traces to a verdict and a report in one call: what a command line, a test plugin and a notebook have in common."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from fcguard.errors import UsageError
from fcguard.evaluation.aggregate import Partial
from fcguard.evaluation.baseline import Baseline, check_comparable
from fcguard.evaluation.evaluate import evaluate
from fcguard.evaluation.gate import GateLimits, Verdict, judge
from fcguard.evaluation.metrics import Measures
from fcguard.evaluation.report.document import ReportOptions, build_document
from fcguard.evaluation.suites.naive import evaluate_naive
from fcguard.evaluation.trace import Run, RunIdentity, Session, UnreadLog

__all__ = ["Assessment", "assess", "number_trials"]


@dataclass(frozen=True, slots=True)
class Assessment:
    """What came out.

    Attributes:
        partial: the numbers.
        verdict: the gate's decision; its exit code is the command's.
        document: the report, to be rendered.
        identity: version, model and hashes of what was assessed; a baseline needs them.
    """

    partial: Partial
    verdict: Verdict
    document: dict[str, Any]
    identity: RunIdentity


def assess(
    runs: Iterable[Run],
    measures: Measures,
    *,
    identity: RunIdentity | None = None,
    baseline: Baseline | None = None,
    limits: GateLimits | None = None,
    options: ReportOptions | None = None,
    on_session: Callable[[Session], object] | None = None,
) -> Assessment:
    """Read runs of one suite, measure them, judge them and build the report.

    Args:
        runs: one or several traces; further sessions of a task are further trials of it.
        measures: gold, catalogue and rule.
        identity: version and model; hashes that are left empty are taken from gold and catalogue.
        baseline: what to compare with. If it is not comparable the verdict is `usage`, and the report says why.
        limits: what a release must hold.
        options: what the report shows.
        on_session: called after each session, e.g. to move a progress bar.
    """
    gold, held = measures.gold, list(runs)
    known = identity or RunIdentity()
    known = replace(
        known,
        prompt_set_hash=known.prompt_set_hash or (gold.prompt_set_hash if gold is not None else ""),
        schema_hash=known.schema_hash or (measures.catalogue.schema_hash if measures.catalogue.tools else ""),
    )
    most = (options or ReportOptions()).cases
    sessions = number_trials(session for run in held for session in run)
    partial = evaluate(sessions, measures, on_session=on_session, most_cases=most)
    verdict = _judged(partial, known, baseline, limits)
    document = build_document(
        partial,
        verdict,
        source=", ".join(run.source for run in held if run.source),
        suite=gold.suite if gold is not None else "",
        profile=measures.profile,
        identity=known,
        unread=_joined(held),
        naive=evaluate_naive(measures),
        options=options,
    )
    return Assessment(partial, verdict, document, known)


def _judged(partial: Partial, identity: RunIdentity, baseline: Baseline | None, limits: GateLimits | None) -> Verdict:
    if baseline is not None:
        try:
            check_comparable(baseline, partial, identity)
        except UsageError as error:
            return Verdict.usage(str(error))
    return judge(partial, limits=limits, baseline=baseline)


def _joined(runs: list[Run]) -> UnreadLog:
    joined = UnreadLog()
    for run in runs:
        joined.count += run.unread.count
        room = joined.limit - len(joined.first)
        joined.first.extend(
            replace(item, where=f"{run.source}, {item.where}" if run.source else item.where)
            for item in run.unread.first[:room]
        )
    return joined


def number_trials(sessions: Iterable[Session]) -> Iterator[Session]:
    """Give each further session of a task its own trial number, where a trace numbers none or several traces number alike.

    Numbers that do not clash stay as they are. Streams; remembers one number a session.
    """
    used: dict[str, set[int]] = {}
    for session in sessions:
        taken = used.setdefault(session.task_id, set())
        trial = session.trial if session.trial not in taken else len(taken)
        while trial in taken:
            trial += 1
        taken.add(trial)
        yield session if trial == session.trial else replace(session, trial=trial)
