"""The 100-point score of a session: selection 40, parameters 20, recovery 20, efficiency 20; profiles `strict`, `seed`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from fcguard.evaluation.align import Alignment, Pair
from fcguard.evaluation.catalogue import ArgumentCheck
from fcguard.evaluation.gold import GoldTask
from fcguard.evaluation.recovery import Episode, has_recovery_mechanism
from fcguard.evaluation.repeats import is_transient
from fcguard.evaluation.trace import CallRecord, Session
from fcguard.evaluation.values import Value, not_applicable, ok, unknown, untested

__all__ = ["GRADES", "MAXIMUM", "TIER_POINTS", "Profile", "Score", "grade_of", "logical_calls", "score_session"]

Profile: TypeAlias = Literal["strict", "seed"]
Dimension: TypeAlias = Literal["selection", "parameters", "recovery", "efficiency"]

MAXIMUM: Final[dict[Dimension, int]] = {"selection": 40, "parameters": 20, "recovery": 20, "efficiency": 20}
TIER_POINTS: Final[dict[str, int]] = {"best": 40, "acceptable": 30}
GRADES: Final[tuple[tuple[float, str], ...]] = ((80.0, "excellent"), (60.0, "pass"), (0.0, "fail"))
NO_FAILURE: Final = "No failure observed, recovery untested"


@dataclass(frozen=True, slots=True)
class Score:
    """The score of one session.

    Attributes:
        profile: which rule made it.
        selection, parameters, recovery, efficiency: points; a dimension without a number is out of the total.
        total: points, scaled to 100 over the dimensions that have a number; unknown if none has.
        coverage: how many of the 100 points could be judged.
        grade: `excellent` (>= 80), `pass` (>= 60), `fail`, or `unknown`.
    """

    profile: Profile
    selection: Value
    parameters: Value
    recovery: Value
    efficiency: Value
    total: Value
    coverage: int
    grade: str

    def dimensions(self) -> dict[Dimension, Value]:
        """Answer the four dimensions by name."""
        return {
            "selection": self.selection,
            "parameters": self.parameters,
            "recovery": self.recovery,
            "efficiency": self.efficiency,
        }


def grade_of(total: float) -> str:
    """Answer the grade of a total out of 100; it is compared rounded to 1e-9, so that 80 reached by thirds is 80."""
    return next(name for limit, name in GRADES if round(total, 9) >= limit)


def score_session(
    session: Session,
    task: GoldTask | None,
    alignment: Alignment | None,
    checks: Sequence[ArgumentCheck],
    episodes: Sequence[Episode],
    *,
    profile: Profile = "strict",
    mechanism: bool | None = None,
) -> Score:
    """Score one session.

    `strict` leaves out of the total, and of its maximum, what could not be judged. `seed` is the plain published rule:
    nothing recorded against the parameters is 20, no failure is 20, and a task without `min_calls` is taken to need one.

    Args:
        session: the session.
        task: its gold; without one selection and efficiency are unknown.
        alignment: its alignment with that gold.
        checks: what was found about each call's arguments, in call order.
        episodes: its failure episodes.
        profile: the rule.
        mechanism: whether a retry or fallback mechanism exists; None: only if the trace shows one at work.
    """
    exists = has_recovery_mechanism(session.calls, episodes) if mechanism is None else mechanism
    found: dict[Dimension, Value] = {
        "selection": _selection(task, alignment),
        "parameters": _parameters(checks, profile),
        "recovery": _recovery(episodes, exists, profile),
        "efficiency": _efficiency(session.calls, task, profile),
    }
    coverage = sum(MAXIMUM[name] for name, value in found.items() if value.is_ok)
    points = sum(value.number or 0.0 for value in found.values())
    total = ok(100 * points / coverage) if coverage else unknown("no dimension could be judged")
    grade = grade_of(total.require()) if total.is_ok else "unknown"
    return Score(profile=profile, total=total, coverage=coverage, grade=grade, **found)


def _selection(task: GoldTask | None, alignment: Alignment | None) -> Value:
    if task is None or alignment is None:
        return unknown("no gold for this task")
    counted = [pair for pair in alignment.pairs if pair.step is not None and pair.kind != "skipped"]
    if counted:
        return ok(sum(_points(pair) for pair in counted) / len(counted), k=len(counted), n=len(counted))
    if alignment.count("extra") and task.wants_no_tool:
        return ok(0.0, k=0, n=0)
    return ok(float(MAXIMUM["selection"]), k=0, n=0)


def _points(pair: Pair) -> float:
    if pair.choice is None or pair.kind not in ("match", "arguments_differ"):
        return 0.0
    return float(TIER_POINTS[pair.choice.tier])


def _parameters(checks: Sequence[ArgumentCheck], profile: Profile) -> Value:
    judged = [check for check in checks if check.state != "unchecked"]
    full = float(MAXIMUM["parameters"])
    if not judged:
        if profile == "seed":
            return ok(full)
        return unknown("no arguments could be checked") if checks else not_applicable("no call")
    valid = sum(1 for check in judged if check.state == "valid")
    return ok(full * valid / len(judged), k=valid, n=len(judged))


def _recovery(episodes: Sequence[Episode], exists: bool, profile: Profile) -> Value:
    if not episodes:
        return ok(float(MAXIMUM["recovery"])) if profile == "seed" else untested(NO_FAILURE)
    good = sum(1 for episode in episodes if episode.end != "not_recovered")
    return ok(15.0 * good / len(episodes) + (5.0 if exists else 0.0), k=good, n=len(episodes))


def _efficiency(calls: Sequence[CallRecord], task: GoldTask | None, profile: Profile) -> Value:
    fewest = task.min_calls if task is not None else None
    if fewest is None:
        if profile == "strict":
            return unknown("the gold states no min_calls")
        fewest = 1
    made, full = logical_calls(calls), float(MAXIMUM["efficiency"])
    if made <= fewest:
        return ok(full, k=fewest, n=made)
    return ok(full * fewest / made, k=fewest, n=made)


def logical_calls(calls: Sequence[CallRecord]) -> int:
    """Count the calls that were sent, without those that only retry a transient failure of the one before them."""
    made, earlier = 0, None
    for call in calls:
        if not call.was_sent:
            continue
        is_retry = earlier is not None and is_transient(earlier) and call.fingerprint is not None
        if not (is_retry and earlier is not None and earlier.fingerprint == call.fingerprint):
            made += 1
        earlier = call
    return made
