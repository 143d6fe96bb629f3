"""The report document: everything a rendering shows, as plain data with a schema version; the same input, the same document."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from fcguard.evaluation.aggregate import Partial, mean_units
from fcguard.evaluation.gate import Verdict
from fcguard.evaluation.indicators import INDICATORS, Indicator, indicator_value, scored_pass_rate, with_derived
from fcguard.evaluation.intervals import Interval, rate_interval, upper_bound
from fcguard.evaluation.metrics import COUNTS, Counts
from fcguard.evaluation.report.cases import case_document
from fcguard.evaluation.score import MAXIMUM, Profile
from fcguard.evaluation.trace import RunIdentity, UnreadLog
from fcguard.evaluation.trials import flips, icc, pass_at_k, pass_hat_k, stability, task_trials

__all__ = ["REPORT_VERSION", "ReportOptions", "build_document"]

REPORT_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """What a report shows.

    Attributes:
        title: heading of the report.
        cases: how many of the worst cases are shown.
        arguments: whether argument values are shown; a trace may hold what not every reader may see.
    """

    title: str = "Evaluation of recorded tool calls"
    cases: int = 50
    arguments: bool = True


def build_document(
    partial: Partial,
    verdict: Verdict,
    *,
    source: str = "",
    suite: str = "",
    profile: Profile = "strict",
    identity: RunIdentity | None = None,
    unread: UnreadLog | None = None,
    naive: Mapping[str, Partial] | None = None,
    options: ReportOptions | None = None,
) -> dict[str, Any]:
    """Build the document that every rendering is made from.

    Args:
        partial: the whole run.
        verdict: the gate's decision about it.
        source: where the run came from.
        suite: name of the gold.
        profile: rule of the score.
        identity: version, model and hashes of the run.
        unread: what could not be read of the trace.
        naive: partial results of the naive agents.
        options: what to show.

    Returns:
        Plain data as `report.schema.json` describes it. It holds no time and no path of this machine.
    """
    options = options or ReportOptions()
    counts = partial.totals()
    document = {
        "schema_version": REPORT_VERSION,
        "title": options.title,
        "run": _run(source, suite, identity or RunIdentity(), unread or UnreadLog()),
        "gate": _gate(verdict),
        "indicators": [_indicator(item, partial, counts, verdict) for item in INDICATORS],
        "trials": _trials(partial),
        "score": _score(partial, counts, profile),
        "counts": [{"name": name, "number": counts.get(name, 0), "meaning": text} for name, text in COUNTS.items()],
        "slices": _slices(partial),
        "tools": [_tool(identity, row) for identity, row in sorted(partial.tools.items())],
        "tasks": [_task(key, row) for key, row in partial.by_task()],
        "comparisons": [asdict(row) for row in verdict.comparisons],
        "naive": [_naive(name, part.totals()) for name, part in (naive or {}).items()],
        **_cases(partial, counts, options),
    }
    cleaned: dict[str, Any] = _writable(document)
    return cleaned


def _writable(value: Any) -> Any:
    """Replace what no encoding can write (lone surrogates of a broken trace), so that no rendering stumbles over it."""
    if isinstance(value, str):
        return value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, dict):
        return {key: _writable(item) for key, item in value.items()}
    return [_writable(item) for item in value] if isinstance(value, list) else value


def _run(source: str, suite: str, identity: RunIdentity, unread: UnreadLog) -> dict[str, Any]:
    return {
        "source": source,
        "suite": suite,
        "identity": asdict(identity),
        "unread": {"count": unread.count, "first": [str(item) for item in unread.first]},
    }


def _cases(partial: Partial, counts: Counts, options: ReportOptions) -> dict[str, Any]:
    shown = partial.cases[: options.cases]
    return {
        "cases": [case_document(measured, key[0], arguments=options.arguments) for key, measured in shown],
        "cases_left_out": counts.get("sessions", 0) - len(shown),
    }


def _gate(verdict: Verdict) -> dict[str, Any]:
    return {
        "outcome": verdict.outcome,
        "exit_code": verdict.exit_code,
        "message": verdict.message,
        "checks": [
            {
                "indicator": check.indicator.name,
                "priority": check.indicator.priority,
                "title": check.indicator.title,
                "decision": check.decision,
                "value": check.value.as_json(),
                "value_text": check.value.text(percent=True),
                "limit": check.limit,
                "reason": check.reason,
                "fix": check.indicator.fix,
            }
            for check in verdict.checks
        ],
    }


def _indicator(indicator: Indicator, partial: Partial, counts: Counts, verdict: Verdict) -> dict[str, Any]:
    value = stability(partial) if indicator.name == "stability" else indicator_value(indicator, counts)
    interval: Interval | None = None
    if indicator.numerator and value.is_ok:
        rows = [with_derived(row) for _, row in partial.by_task()]
        interval = rate_interval([(row.get(indicator.numerator, 0), row.get(indicator.denominator, 0)) for row in rows])
    decision = next(
        (check.decision for check in verdict.checks if check.indicator.name == indicator.name), "not_checked"
    )
    bound = None
    if indicator.name == "misfire" and value.n:
        bound = round(upper_bound(value.k or 0, value.n), 12)
    return {
        "name": indicator.name,
        "priority": indicator.priority,
        "title": indicator.title,
        "value": value.as_json(),
        "text": value.text(percent=True),
        "interval": None if interval is None else _interval(interval),
        "upper_bound": bound,
        "decision": decision,
        "definition": indicator.definition,
        "not_said": indicator.not_said,
        "fix": indicator.fix,
    }


def _interval(interval: Interval) -> dict[str, Any]:
    return {
        "low": round(interval.low, 12),
        "high": round(interval.high, 12),
        "level": interval.level,
        "method": interval.method,
    }


def _trials(partial: Partial) -> dict[str, Any]:
    trials = task_trials(partial)
    most = max((row.n for row in trials), default=0)
    steps = range(1, min(most, 10) + 1)
    return {
        "pass_hat_k": [{"trials": k, **pass_hat_k(trials, k).as_json()} for k in steps],
        "pass_at_k": [{"trials": k, **pass_at_k(trials, k).as_json()} for k in steps],
        "scored_only": scored_pass_rate(partial).as_json(),
        "stability": stability(partial).as_json(),
        "flips": flips(trials).as_json(),
        "icc": icc(trials).as_json(),
        "by_trial": [
            {"trial": trial, "passed": passed, "sessions": made}
            for trial, (passed, made) in sorted(partial.trials.items())
        ],
    }


def _score(partial: Partial, counts: Counts, profile: Profile) -> dict[str, Any]:
    sessions = counts.get("sessions", 0)
    return {
        "profile": profile,
        "total": mean_units(counts, "score", n="scored").as_json(),
        "coverage": round(counts.get("coverage_points", 0) / sessions, 6) if sessions else 0,
        "dimensions": [
            {
                "name": name,
                "maximum": most,
                "value": mean_units(counts, name).as_json(),
                "text": mean_units(counts, name).text(),
            }
            for name, most in MAXIMUM.items()
        ],
        "grades": {grade: counts.get(f"grade_{grade}", 0) for grade in ("excellent", "pass", "fail")},
        "ratios": {
            name: mean_units(
                {**counts, "ratio_units": counts.get(f"{name}_ratio_units", 0)}, "ratio", n=f"{name}_n"
            ).as_json()
            for name in ("tokens", "cost", "seconds")
        },
    }


def _slices(partial: Partial) -> list[dict[str, Any]]:
    names = partial.slices()
    return [_slice(name, partial.totals(name)) for name in names] if len(names) > 1 else []


def _slice(name: str, counts: Counts) -> dict[str, Any]:
    rates = {item.name: indicator_value(item, counts) for item in INDICATORS if item.numerator}
    return {
        "slice": name or "(none)",
        "sessions": counts.get("sessions", 0),
        "rates": {key: {**value.as_json(), "text": value.text(percent=True)} for key, value in rates.items()},
    }


def _tool(identity: tuple[str, str], counts: Counts) -> dict[str, Any]:
    server, tool = identity
    names = (
        "calls",
        "valid",
        "invalid",
        "over_broad",
        "unparsable",
        "unknown_tool",
        "unchecked",
        "errors",
        "misfires",
        "repeats",
    )
    return {"server": server, "tool": tool, **{name: counts.get(name, 0) for name in names}}


def _task(key: tuple[str, str], counts: Counts) -> dict[str, Any]:
    names = ("sessions", "passed", "infra_error", "misfires", "substituted", "missing", "extra", "invalid", "repeats")
    return {"slice": key[0], "task_id": key[1], **{name: counts.get(name, 0) for name in names}}


def _naive(name: str, counts: Counts) -> dict[str, Any]:
    passed = indicator_value(next(item for item in INDICATORS if item.name == "pass_rate"), counts)
    return {
        "agent": name,
        "pass_rate": passed.as_json(),
        "pass_rate_text": passed.text(percent=True),
        "total": mean_units(counts, "score", n="scored").as_json(),
    }
