"""One session measured: the counts behind the four failure rates and the baselines, and the rows behind its case table."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from fcguard.evaluation.align import Alignment, align
from fcguard.evaluation.catalogue import ArgumentCheck, Catalogue
from fcguard.evaluation.gold import Gold, GoldTask
from fcguard.evaluation.misfires import MisfireReport, find_misfires
from fcguard.evaluation.recovery import Episode, find_episodes
from fcguard.evaluation.repeats import Repeat, find_repeats
from fcguard.evaluation.score import Profile, Score, logical_calls, score_session
from fcguard.evaluation.trace import CallRecord, Outcome, Session

__all__ = ["COUNTS", "UNITS", "Counts", "Measured", "Measures", "measure_session"]

Counts = dict[str, int]
"""Name -> whole number. Counts only ever add up, so partial results merge in any grouping to the same whole."""

UNITS: Final = 1_000_000_000
"""Points are counted in billionths, as whole numbers: sums of floats would depend on the order."""

COUNTS: Final[dict[str, str]] = {
    "sessions": "sessions read",
    "passed": "sessions passed",
    "failed": "sessions failed",
    "infra_error": "sessions that broke for a reason that is not the agent's",
    "unscored": "sessions of which nobody knows whether they passed",
    "outcome_from_gold": "sessions whose outcome was derived from the gold, because the trace has none",
    "no_gold": "sessions whose task is not in the gold",
    "calls": "calls",
    "logical_calls": "calls that were sent, without retries of a transient failure",
    "attempts": "dispatches, retries inside a call included",
    "errors": "calls that failed or are uncertain",
    "refused": "calls that were refused before anything was sent",
    "replayed": "calls that were answered with the stored result of an earlier one; nothing was sent",
    "misfire_sessions": "P0: sessions with an executed write that should not have happened",
    "misfires": "P0: such writes",
    "misfires_unproved": "P0: of them, writes that are not proved to have had their effect",
    "misfires_confirmed": "P0: of them, writes that a person agreed to",
    "misfire_not_in_gold": "P0: writes that match no gold write",
    "misfire_effect_not_allowed": "P0: writes outside the task's allowed effects",
    "misfire_effect_repeated": "P0: writes that repeat a committed effect",
    "blocked": "P0: wrong writes that were stopped",
    "blocked_sessions": "P0: sessions with a wrong write that was stopped",
    "misfire_judged": "P0: sessions that could be judged",
    "unjudged_calls": "P0: calls outside the gold whose effect nobody declared",
    "aligned_calls": "P1: calls in sessions with gold",
    "gold_steps": "P1: gold steps that count",
    "substituted": "P1: calls of another tool in the place of the right one",
    "missing": "P1: steps that nobody did",
    "extra": "P1: calls that no step asks for",
    "free": "reads that no step asks for, where the gold lets the agent look around",
    "over_tooling": "P1: sessions that used a tool where none is needed",
    "under_tooling": "P1: sessions that used none where one is needed",
    "arguments_matched": "aligned calls whose arguments are what the gold asks for",
    "arguments_differ": "aligned calls whose arguments differ from the gold",
    "tier_from_catalogue": "steps whose tier came from the suitability catalogue, not from people",
    "inexact_alignments": "sessions whose alignment is not proved to be the cheapest",
    "valid": "P2: calls whose arguments pass schema and semantic checks",
    "invalid": "P2: calls that fail them",
    "over_broad": "P2: calls that are legal but ask for too much",
    "unparsable": "P2: calls whose arguments cannot be read",
    "unknown_tool": "P2: calls of a tool that was not offered",
    "unchecked": "P2: calls that could not be checked (no arguments recorded, or no schema)",
    "repeat_sessions": "P3: sessions with a repeat that made no progress",
    "repeats": "P3: such repeats",
    "exact_repeats": "repeats of tool and arguments, whatever lay between",
    "exact_repeat_sessions": "sessions with such a repeat",
    "adjacent_repeats": "exact repeats with nothing between",
    "cycles": "exact repeats that close a cycle of several tools",
    "same_result_repeats": "exact repeats with the same result",
    "repeats_after_write": "exact repeats after a successful write",
    "excused_result_changed": "exact repeats excused: the result changed",
    "excused_write_between": "exact repeats excused: a write succeeded between",
    "excused_consumed": "exact repeats excused: the earlier result had been used",
    "excused_polling": "exact repeats excused: polling tool",
    "excused_policy_retry": "exact repeats excused: retry of a transient failure",
    "excused_not_sent": "exact repeats excused: one of the two calls was not sent",
    "episodes": "failure episodes",
    "episodes_recovered": "failure episodes that were recovered",
    "episodes_stopped": "failure episodes that were safely stopped with the reason told",
    "scored": "sessions whose total could be scored",
    "score_units": "their totals, in billionths of a point",
    "coverage_points": "points that could be judged, over all sessions",
    "grade_excellent": "sessions graded excellent",
    "grade_pass": "sessions graded pass",
    "grade_fail": "sessions graded fail",
    "selection_n": "sessions with points for selection",
    "selection_units": "their points, in billionths",
    "parameters_n": "sessions with points for parameters",
    "parameters_units": "their points, in billionths",
    "recovery_n": "sessions with points for recovery",
    "recovery_units": "their points, in billionths",
    "efficiency_n": "sessions with points for efficiency",
    "efficiency_units": "their points, in billionths",
    "tokens": "tokens, where recorded",
    "tokens_n": "sessions with tokens recorded and a best value in the gold",
    "tokens_ratio_units": "their ratios to the best tool's, in billionths",
    "cost_n": "sessions with cost recorded and a best value in the gold",
    "cost_ratio_units": "their ratios to the best tool's, in billionths",
    "seconds_n": "sessions with time recorded and a best value in the gold",
    "seconds_ratio_units": "their ratios to the best tool's, in billionths",
}
"""Every count that a session gives, and what it means. The documentation is checked against this table."""


@dataclass(frozen=True, slots=True)
class Measures:
    """How sessions are measured.

    Attributes:
        gold: what people say a good run is; None: only what needs no gold is measured.
        catalogue: the tools that were offered.
        profile: the rule of the 100-point score.
        mechanism: whether a recovery mechanism exists; None: only if a trace shows one at work.
    """

    gold: Gold | None = None
    catalogue: Catalogue = field(default_factory=Catalogue)
    profile: Profile = "strict"
    mechanism: bool | None = None


@dataclass(frozen=True, slots=True)
class Measured:
    """One session with everything that was found about it; kept only for the sessions that the report shows."""

    session: Session
    task: GoldTask | None
    alignment: Alignment | None
    checks: tuple[ArgumentCheck, ...]
    misfires: MisfireReport
    repeats: tuple[Repeat, ...]
    episodes: tuple[Episode, ...]
    score: Score
    outcome: Outcome
    counts: Counts

    @property
    def slice(self) -> str:
        """The slice of the task: the gold's, else the trace's."""
        return (self.task.slice if self.task is not None else "") or self.session.slice


def measure_session(session: Session, measures: Measures) -> Measured:
    """Measure one session. Deterministic; reads nothing but its arguments.

    Args:
        session: the session.
        measures: gold, catalogue and rule.

    Returns:
        What was found, with its counts. Names of counts are the keys of `COUNTS`; a count of 0 is left out.
    """
    gold, catalogue = measures.gold, measures.catalogue
    task = gold.tasks.get(session.task_id) if gold is not None else None
    alignment = align(session.calls, task, catalogue.effect_of) if task is not None else None
    checks = tuple(catalogue.check(call) for call in session.calls)
    misfires = find_misfires(session, task, alignment, catalogue)
    repeats = find_repeats(session.calls, catalogue)
    episodes = find_episodes(session, task)
    score = score_session(
        session, task, alignment, checks, episodes, profile=measures.profile, mechanism=measures.mechanism
    )
    outcome = _outcome(session, task, alignment, misfires, checks)
    counts: Counts = {"sessions": 1, outcome: 1}
    counts["outcome_from_gold"] = int(outcome != session.outcome)
    counts["no_gold"] = int(gold is not None and task is None)
    _count_calls(counts, session.calls, checks)
    _count_misfires(counts, misfires)
    _count_alignment(counts, session, task, alignment)
    _count_repeats(counts, repeats)
    _count_score(counts, score, episodes)
    _count_ratios(counts, session.calls, task)
    kept = {name: number for name, number in counts.items() if number}
    return Measured(session, task, alignment, checks, misfires, repeats, episodes, score, outcome, kept)


def _outcome(
    session: Session,
    task: GoldTask | None,
    alignment: Alignment | None,
    misfires: MisfireReport,
    checks: tuple[ArgumentCheck, ...],
) -> Outcome:
    """Take the trace's own outcome; without one, a session passed if it did every step rightly and nothing harmful.

    A call of unknown status counts as done: the formats that do not say how calls ended could not be judged otherwise.
    """
    if session.outcome != "unscored" or task is None or alignment is None:
        return session.outcome
    if misfires.misfires or alignment.count("missing", "substituted", "arguments_differ"):
        return "failed"
    done = [pair.position for pair in alignment.pairs if pair.kind == "match" and pair.position is not None]
    if any(session.calls[at].status in ("failed", "refused") or checks[at].state in _FAULTY for at in done):
        return "failed"
    return "failed" if task.wants_no_tool and alignment.count("extra") and not done else "passed"


_FAULTY: Final = frozenset({"invalid", "unparsable", "unknown_tool"})


def _count_calls(counts: Counts, calls: tuple[CallRecord, ...], checks: Iterable[ArgumentCheck]) -> None:
    counts["calls"] = len(calls)
    counts["logical_calls"] = logical_calls(calls)
    counts["attempts"] = sum(call.dispatches for call in calls)
    counts["errors"] = sum(1 for call in calls if call.status in ("failed", "uncertain"))
    counts["refused"] = sum(1 for call in calls if call.status == "refused")
    counts["replayed"] = sum(1 for call in calls if call.is_replay)
    counts["tokens"] = sum(call.tokens or 0 for call in calls)
    for check in checks:
        counts[check.state] = counts.get(check.state, 0) + 1


def _count_misfires(counts: Counts, report: MisfireReport) -> None:
    counts["misfires"] = len(report.misfires)
    counts["misfire_sessions"] = int(bool(report.misfires))
    counts["misfires_unproved"] = sum(1 for misfire in report.misfires if not misfire.is_proved)
    counts["misfires_confirmed"] = sum(1 for misfire in report.misfires if misfire.confirmed_by_human)
    for misfire in report.misfires:
        name = f"misfire_{misfire.kind}"
        counts[name] = counts.get(name, 0) + 1
    counts["blocked"] = len(report.blocked)
    counts["blocked_sessions"] = int(bool(report.blocked))
    counts["unjudged_calls"] = len(report.unjudged)
    counts["misfire_judged"] = int(bool(report.misfires) or (report.has_gold and not report.unjudged))


def _count_alignment(counts: Counts, session: Session, task: GoldTask | None, alignment: Alignment | None) -> None:
    if task is None or alignment is None:
        return
    counts["aligned_calls"] = len(session.calls)
    counts["gold_steps"] = sum(1 for pair in alignment.pairs if pair.step is not None and pair.kind != "skipped")
    for kind in ("substituted", "missing", "extra", "free", "arguments_differ"):
        counts[kind] = alignment.count(kind)
    counts["arguments_matched"] = alignment.count("match")
    needs_tool = (
        any(not step.is_none and not step.optional for step in task.paths[alignment.path]) if task.paths else False
    )
    is_done = alignment.count("match", "arguments_differ") > 0
    counts["over_tooling"] = int(alignment.count("extra") > 0 and task.wants_no_tool and not is_done)
    counts["under_tooling"] = int(not session.calls and needs_tool)
    chosen = [pair.choice for pair in alignment.pairs if pair.choice is not None]
    counts["tier_from_catalogue"] = sum(1 for choice in chosen if choice.source == "catalogue")
    counts["inexact_alignments"] = int(not alignment.is_exact)


def _count_repeats(counts: Counts, repeats: tuple[Repeat, ...]) -> None:
    counts["exact_repeats"] = len(repeats)
    counts["exact_repeat_sessions"] = int(bool(repeats))
    counts["repeats"] = sum(1 for repeat in repeats if repeat.is_no_progress)
    counts["repeat_sessions"] = int(counts["repeats"] > 0)
    counts["adjacent_repeats"] = sum(1 for repeat in repeats if repeat.is_adjacent)
    counts["cycles"] = sum(1 for repeat in repeats if repeat.is_cycle)
    counts["same_result_repeats"] = sum(1 for repeat in repeats if repeat.is_same_result)
    counts["repeats_after_write"] = sum(1 for repeat in repeats if repeat.is_after_write)
    for repeat in repeats:
        for reason in repeat.reasons:
            if not repeat.is_no_progress:
                counts[f"excused_{reason}"] = counts.get(f"excused_{reason}", 0) + 1


def _count_score(counts: Counts, score: Score, episodes: tuple[Episode, ...]) -> None:
    counts["episodes"] = len(episodes)
    counts["episodes_recovered"] = sum(1 for episode in episodes if episode.end == "recovered")
    counts["episodes_stopped"] = sum(1 for episode in episodes if episode.end == "safely_stopped")
    counts["coverage_points"] = score.coverage
    for name, value in score.dimensions().items():
        if value.number is not None:
            counts[f"{name}_n"], counts[f"{name}_units"] = (1, round(value.number * UNITS))
    if score.total.number is not None:
        counts["scored"], counts["score_units"] = 1, round(score.total.number * UNITS)
        counts[f"grade_{score.grade}"] = 1


def _count_ratios(counts: Counts, calls: tuple[CallRecord, ...], task: GoldTask | None) -> None:
    if task is None or not calls:
        return
    best = {"tokens": task.best_tokens, "cost": task.best_cost, "seconds": task.best_seconds}
    for name, least in best.items():
        spent = [getattr(call, name) for call in calls]
        if least and all(item is not None for item in spent):
            counts[f"{name}_n"] = 1
            counts[f"{name}_ratio_units"] = round(sum(spent) / least * UNITS)
