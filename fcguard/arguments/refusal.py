"""Words refused arguments: one error type, one next action, and every problem that is left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from fcguard.arguments.compiled import Compiled
from fcguard.arguments.explain import MAX_PROBLEMS, listed
from fcguard.arguments.names import is_identifier
from fcguard.arguments.parse import Unreadable
from fcguard.arguments.records import Fold, Normalized, Path, place
from fcguard.model.failure import ErrorType, NextAction, Problem
from fcguard.model.secrets import Redactor, is_secret_name

__all__ = ["ERROR_TYPES", "OWN_RULES", "failed", "missing", "refused"]

ERROR_TYPES: Final[Mapping[str, ErrorType]] = {
    **dict.fromkeys(
        (
            "depth",
            "duplicate_key",
            "encoding",
            "key_surrogate",
            "malformed",
            "not_a_number",
            "not_an_object",
            "number_range",
            "python_value",
            "several_objects",
            "size",
        ),
        ErrorType.PARAM_MALFORMED,
    ),
    "truncated": ErrorType.PARAM_TRUNCATED,
    "normalizer": ErrorType.NORMALIZER_FAILED,
    **dict.fromkeys(
        ("additionalProperties", "bound_parameter", "reserved_name", "unevaluatedProperties", "wrapper_with_siblings"),
        ErrorType.PARAM_UNKNOWN,
    ),
    "required": ErrorType.PARAM_MISSING,
}
"""Rule of a problem -> error type; every other rule is `PARAM_INVALID`."""

_WORST_FIRST: Final = (
    ErrorType.NORMALIZER_FAILED,
    ErrorType.PARAM_MALFORMED,
    ErrorType.PARAM_TRUNCATED,
    ErrorType.PARAM_UNKNOWN,
    ErrorType.PARAM_MISSING,
    ErrorType.PARAM_INVALID,
)

_RANKS: Final = {rule: _WORST_FIRST.index(error_type) for rule, error_type in ERROR_TYPES.items()}
_LEAST: Final = len(_WORST_FIRST) - 1

OWN_RULES: Final = frozenset(
    {
        "ambiguous_date",
        "bound_parameter",
        "inexact",
        "name_collision",
        "normalizer",
        "reserved_name",
        "wrapper_with_siblings",
    }
)
"""Rules of our own; their problem says all about its place, so that the schema's problem there is left out."""


def refused(compiled: Compiled, fault: Unreadable, raw: Any) -> Normalized:
    """Word arguments that could not be read as an object."""
    message = fault.reason
    if fault.position is not None:
        message += f", at character {fault.position + 1}"
        if fault.excerpt and not compiled.speaker.secret and not any(map(is_secret_name, compiled.declared)):
            message += f", near {Redactor().text(fault.excerpt)!r}"
    allowed = _allowed(compiled, fault.path)
    if allowed and fault.rule != "truncated":
        message += f"; allowed values for {place(fault.path)!r}: {listed(allowed)}"
    where = place(fault.path)
    is_text = issubclass(type(raw), str | bytes | bytearray | memoryview)
    source = raw if is_text else f"<{type(raw).__name__} that could not be read>"
    problem = Problem(where, fault.rule, message)
    return Normalized(None, (), (problem,), ERROR_TYPES[fault.rule], NextAction.FIX_ARGUMENTS, source)


def _allowed(compiled: Compiled, path: Path) -> list[Any]:
    location = [step for part in path for step in (["properties", part] if isinstance(part, str) else ["items"])]
    members = compiled.engine.tree.at(location).get("enum")
    return members if isinstance(members, list) else []


def missing(compiled: Compiled, source: Any) -> Normalized:
    """Word that nothing was sent where something is required."""
    problems = compiled.speaker.problems(compiled.locator.faults({}), {})
    text = Problem("", "required", "no arguments were sent; send the required parameters as one JSON object")
    return Normalized(None, (), (text, *problems), ErrorType.PARAM_MISSING, NextAction.FIX_ARGUMENTS, source)


def failed(value: dict[str, Any], folds: Sequence[Fold], problems: Sequence[Problem], source: Any) -> Normalized:
    """Word an object that is not valid."""
    kept = tuple(problems)
    rules = {problem.rule for problem in problems}
    if not rules.isdisjoint(OWN_RULES):
        settled = {problem.path for problem in problems if problem.rule in OWN_RULES}
        kept = tuple(dict.fromkeys(p for p in problems if p.rule in OWN_RULES or p.path not in settled))
        rules = {problem.rule for problem in kept}
    error_type = _WORST_FIRST[min([_RANKS.get(rule, _LEAST) for rule in rules])]
    action = _next_action(error_type, rules, kept)
    if len(kept) > MAX_PROBLEMS:
        kept = (*kept[:MAX_PROBLEMS], Problem("", "more", f"and {len(kept) - MAX_PROBLEMS} more problems"))
    return Normalized(value, tuple(folds), kept, error_type, action, source)


def _next_action(error_type: ErrorType, rules: set[str], problems: Sequence[Problem]) -> NextAction:
    """Only a user knows which date is meant, or an id that was left out; everything else the model can mend."""
    if error_type == ErrorType.NORMALIZER_FAILED:
        return NextAction.ESCALATE_TO_PLATFORM
    if "ambiguous_date" in rules:
        return NextAction.ASK_USER
    if error_type == ErrorType.PARAM_MISSING and any(_lacks_id(problem) for problem in problems):
        return NextAction.ASK_USER
    return NextAction.FIX_ARGUMENTS


def _lacks_id(problem: Problem) -> bool:
    return problem.rule == "required" and is_identifier(problem.path.rpartition(".")[2])
