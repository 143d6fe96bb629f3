"""The case table of a report: gold and calls of one session side by side, with argument differences and findings."""

from __future__ import annotations

from typing import Any, Final

from fcguard.evaluation.align import Pair
from fcguard.evaluation.canonical import canonical
from fcguard.evaluation.gold import GoldStep
from fcguard.evaluation.metrics import Measured
from fcguard.evaluation.trace import CallRecord
from fcguard.model.failure import Problem

__all__ = ["SEVERITIES", "case_document"]

SEVERITIES: Final[tuple[str, ...]] = (
    "P0 misfire",
    "P1 wrong tool",
    "P2 invalid arguments",
    "P3 no-progress repeat",
    "failed",
    "passed",
)
"""Severity of a case by its number, worst first."""

_MOST_TEXT: Final = 400
_MOST_ROWS: Final = 100


def case_document(measured: Measured, severity: int, *, arguments: bool) -> dict[str, Any]:
    """Write one session as plain data.

    Args:
        measured: the session with what was found.
        severity: index in `SEVERITIES`.
        arguments: whether argument values may be shown; names and paths always are.
    """
    session = measured.session
    rows = _rows(measured, arguments)
    return {
        "task_id": session.task_id,
        "trial": session.trial,
        "session_id": session.session_id,
        "slice": measured.slice,
        "outcome": measured.outcome,
        "detail": session.detail,
        "severity": SEVERITIES[severity],
        "total": measured.score.total.as_json(),
        "coverage": measured.score.coverage,
        "grade": measured.score.grade,
        "dimensions": {name: value.as_json() for name, value in measured.score.dimensions().items()},
        "findings": _findings(measured),
        "rows": rows[:_MOST_ROWS],
        "rows_left_out": max(0, len(rows) - _MOST_ROWS),
    }


def _rows(measured: Measured, arguments: bool) -> list[dict[str, Any]]:
    calls = measured.session.calls
    pairs = measured.alignment.pairs if measured.alignment is not None else ()
    if measured.alignment is None:
        pairs = tuple(Pair(None, position, "not_aligned") for position in range(len(calls)))
    ordered = sorted(enumerate(pairs), key=lambda item: _place(item[0], item[1], pairs))
    return [_row(pair, measured, arguments) for _, pair in ordered]


def _place(index: int, pair: Pair, pairs: tuple[Pair, ...]) -> tuple[float, int]:
    """Put calls in call order, and a step without a call after the step before it."""
    if pair.position is not None:
        return (pair.position, index)
    before = [other.position for other in pairs[:index] if other.position is not None and other.step is not None]
    return (before[-1] + 0.5 if before else -0.5, index)


def _row(pair: Pair, measured: Measured, arguments: bool) -> dict[str, Any]:
    row: dict[str, Any] = {"kind": pair.kind}
    if pair.step is not None:
        row["gold"] = _gold(pair.step, arguments)
    if pair.choice is not None:
        row["tier"] = pair.choice.tier
        if pair.choice.source == "catalogue":
            row["tier_source"] = "suitability catalogue"
    if pair.position is not None:
        row["call"] = _call(measured.session.calls[pair.position], pair.position, measured, arguments)
    if pair.mismatches:
        row["differences"] = [
            {"path": miss.path, "wanted": _shown(miss.wanted, arguments), "found": _shown(miss.found, arguments)}
            for miss in pair.mismatches
        ]
    return row


def _gold(step: GoldStep, arguments: bool) -> dict[str, Any]:
    return {
        "step": step.step_id,
        "optional": step.optional,
        "choices": [
            {
                "tool": f"{choice.server}/{choice.tool}" if choice.server else choice.tool,
                "tier": choice.tier,
                "arguments": _shown(choice.arguments.wanted, arguments) if choice.arguments is not None else "",
            }
            for choice in step.any_of
        ],
    }


def _call(call: CallRecord, position: int, measured: Measured, arguments: bool) -> dict[str, Any]:
    check = measured.checks[position]
    raw = call.raw_arguments if call.parse_error is not None else call.arguments
    shown = raw if isinstance(raw, str) else "" if raw is None else canonical(raw)
    return {
        "number": position + 1,
        "call_id": call.call_id,
        "tool": f"{call.server}/{call.tool}" if call.server else call.tool,
        "status": call.status,
        "error_type": call.error_type or "",
        "attempts": call.dispatches,
        "arguments": _shown(shown, arguments),
        "check": check.state,
        "problems": [_problem(problem, arguments) for problem in check.problems],
        "notes": _notes(position, measured),
        "evidence": list(call.evidence),
    }


def _problem(problem: Problem, arguments: bool) -> dict[str, Any]:
    """Write a fault; its message may repeat a value, so where values are not shown only the broken rule is named."""
    message = problem.message if arguments else f"breaks the rule {problem.rule!r}"
    return {"path": problem.path, "rule": problem.rule, "message": message}


def _notes(position: int, measured: Measured) -> list[str]:
    notes = [
        f"P0 {misfire.why}{'' if misfire.is_proved else ' (its effect is not proved)'}"
        f"{'; a person agreed' if misfire.confirmed_by_human else ''}"
        for misfire in measured.misfires.misfires
        if misfire.position == position
    ]
    if measured.session.calls[position].is_replay:
        notes.append("answered with the stored result of an earlier call; nothing was sent")
    if position in measured.misfires.blocked:
        notes.append("wrong write, stopped")
    if position in measured.misfires.unjudged:
        notes.append("cannot be judged: its effect is not declared")
    for repeat in measured.repeats:
        if repeat.position == position:
            reasons = ", ".join(reason.replace("_", " ") for reason in repeat.reasons)
            word = "P3 repeats" if repeat.is_no_progress else "repeats, excused,"
            notes.append(f"{word} call {repeat.first + 1}: {reasons}")
    return notes


def _findings(measured: Measured) -> list[str]:
    counts = measured.counts
    words = {
        "misfires": "P0: writes that should not have happened: {}",
        "substituted": "P1: calls of another tool: {}",
        "over_tooling": "P1: a tool was used where none is needed",
        "under_tooling": "P1: no tool was used where one is needed",
        "missing": "steps missing: {}",
        "extra": "extra calls: {}",
        "invalid": "P2: calls with invalid arguments: {}",
        "unparsable": "P2: calls with unreadable arguments: {}",
        "unknown_tool": "P2: calls of a tool that was not offered: {}",
        "arguments_differ": "calls with other arguments than the gold asks for: {}",
        "repeats": "P3: repeats without progress: {}",
        "blocked": "wrong writes stopped: {}",
    }
    return [text.format(counts[name]) for name, text in words.items() if counts.get(name)]


def _shown(text: str, arguments: bool) -> str:
    if not arguments:
        return "(not shown)" if text else ""
    return text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}… ({len(text)} characters)"
