"""The indicators of a run as one table: four failure rates and two baselines, what they count, and how to mend each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from fcguard.evaluation.aggregate import Partial, rate_of
from fcguard.evaluation.metrics import Counts
from fcguard.evaluation.values import Value, unknown

__all__ = ["CHECKED", "INDICATORS", "Indicator", "IndicatorName", "indicator_value", "scored_pass_rate", "with_derived"]

IndicatorName: TypeAlias = Literal["misfire", "wrong_tool", "invalid_arguments", "repeat", "pass_rate", "stability"]


@dataclass(frozen=True, slots=True)
class Indicator:
    """One indicator.

    Attributes:
        name: its name in reports and limits.
        priority: `P0` is mended first; `base` is a baseline.
        title: its name for people.
        numerator, denominator: the counts it is made of (see `COUNTS`); per task, so that intervals can be clustered.
        definition: what it says.
        not_said: what it does not say.
        fix: what to do first when it is red.
    """

    name: IndicatorName
    priority: Literal["P0", "P1", "P2", "P3", "base"]
    title: str
    numerator: str
    denominator: str
    definition: str
    not_said: str
    fix: str


INDICATORS: Final[tuple[Indicator, ...]] = (
    Indicator(
        "misfire",
        "P0",
        "High-risk misfire",
        "misfire_sessions",
        "misfire_judged",
        "Sessions with an executed write that should not have happened, of the sessions that could be judged.",
        "A rate of 0 is not safety: the upper bound says what the number of sessions still allows.",
        "Take the tool off the task's whitelist, or require approval for it; then look at the first case below.",
    ),
    Indicator(
        "wrong_tool",
        "P1",
        "Wrong tool",
        "substituted",
        "aligned_calls",
        "Calls of another tool in the place of the right one, of the calls of tasks with gold.",
        "Missing and extra calls are not in it; they are counted apart.",
        "Sharpen the descriptions: say in each what the tool is not for, and name the other tool.",
    ),
    Indicator(
        "invalid_arguments",
        "P2",
        "Invalid arguments",
        "invalid",
        "checked",
        "Calls whose arguments fail the tool's schema or its semantic checks, of the calls that could be checked.",
        "Unparsable text, unknown tools and over-broad arguments are counted apart. Valid is not the same as right.",
        "Tighten the schema: enums, formats, required fields, an example in the description of the field that fails.",
    ),
    Indicator(
        "repeat",
        "P3",
        "No-progress repeat",
        "repeat_sessions",
        "sessions",
        "Sessions in which a call was repeated although its result was not used, did not change, and nothing was written.",
        "It does not find a loop that varies its arguments.",
        "Have the agent read the result first, then decide; stop it at the second identical result.",
    ),
    Indicator(
        "pass_rate",
        "base",
        "Pass rate",
        "passed",
        "sessions",
        "Sessions that passed, of all sessions; a session that broke for another reason counts as failed.",
        "It does not say which step failed, nor whether the right tool was used.",
        "Read the failing cases below; compare with the baseline slice by slice.",
    ),
    Indicator(
        "stability",
        "base",
        "Stability",
        "",
        "",
        "Standard deviation of the pass rate over trials, divided by its mean.",
        "A stable agent can be stably wrong.",
        "Lower the temperature, pin the model version, and look at the tasks that flip between trials.",
    ),
)
"""In the order in which they are mended."""

CHECKED: Final = ("valid", "invalid", "over_broad", "unparsable", "unknown_tool")
"""Counts of calls that could be held against a schema or a list of tools; their sum is `checked`."""


def indicator_value(indicator: Indicator, counts: Counts) -> Value:
    """Answer the rate of an indicator from counts (of a run, a slice or a task).

    Raises:
        ValueError: for `stability`, which is not a rate; see `trials.stability`.
    """
    if not indicator.numerator:
        raise ValueError(f"{indicator.name!r} is not a rate of two counts")
    reasons = {
        "misfire_judged": "no session could be judged: gold or the effects of its tools are missing",
        "aligned_calls": "no call belongs to a task with gold",
        "checked": "no call could be checked: no schemas, or no arguments recorded",
        "sessions": "no session",
    }
    if indicator.name == "pass_rate" and counts.get("unscored", 0) == counts.get("sessions", 0):
        return unknown("no session says whether it passed, and there is no gold")
    shown = with_derived(counts)
    return rate_of(shown, indicator.numerator, indicator.denominator, reason=reasons[indicator.denominator])


def with_derived(counts: Counts) -> Counts:
    """Add the counts that are sums of others: `checked` is every call that could be held against a schema or a list."""
    checked = sum(counts.get(name, 0) for name in CHECKED)
    return {**counts, "checked": checked}


def scored_pass_rate(partial: Partial) -> Value:
    """Answer the pass rate over the sessions that were scored: infrastructure errors and unscored sessions left out."""
    counts = partial.totals()
    scored = counts.get("passed", 0) + counts.get("failed", 0)
    return rate_of({**counts, "scored_sessions": scored}, "passed", "scored_sessions", reason="no session was scored")
