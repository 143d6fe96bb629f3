"""Run field cases: small reproductions of faults that people met in production tool calling.

    python -m tests.field_cases tests/cases/field.jsonl [--only KIND] [--verbose]

Prints one line per failing case and ends with `N passed, M failed`; exit code 1 if any failed, 2 if an extra is missing
(the rules for SQL and shell need theirs).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from fcguard.errors import MissingExtraError
from tests.field_setup import CaseRun, UnknownSetting

REFUSED_BY_POLICY = ("name.", "loop.", "approval.", "shell.", "sql.", "net.", "path.", "policy.")
"""Kinds whose refusal is the guard's own policy, where a field case may speak of the call's or the system's fault."""

PENDING: dict[str, str] = {}
"""Case id -> what it waits for."""

CONTESTED: dict[str, tuple[str, dict[str, Any]]] = {
    "F046": (
        "an empty string that the schema allows is kept, so that 'clear this field' survives (2.3)",
        {"normalized_args": {"project_id": "42", "search": ""}},
    ),
    "F104": ("a declared failed_when is a TOOL failure in the taxonomy (2.7)", {"failure_class": "TOOL"}),
    "F108": (
        "a returned value means failure only by a declared rule (2.6); this tool declares none, so the data is returned as it is",
        {"outcome": "executed", "failure_class": None, "next_action_kind": "none"},
    ),
    "F114": (
        "an unexpected exception of a non-idempotent write proves nothing about its effect (2.7)",
        {"failure_class": "UNCERTAIN", "next_action_kind": "confirm_then_retry", "model_may_reissue": False},
    ),
    "F153": ("a declared failed_when is a TOOL failure in the taxonomy (2.7)", {"failure_class": "TOOL"}),
}
"""Contested cases that the design decides otherwise, each with its reason and what is expected instead."""

NEXT_ACTIONS = {
    "none": {"continue"},
    "fix_params": {"fix_arguments", "ask_user"},
    "ask_user": {"ask_user", "fix_arguments"},
    "choose_tool": {"choose_tool"},
    "request_approval": {"request_approval"},
    "confirm_then_retry": {"confirm_state"},
    "abort": {"abort", "escalate_to_platform"},
    "fallback": {"use_fallback", "retry_later"},
    "retry": {"retry_later"},
    "wait": {"wait_environment", "retry_later"},
}
MAY_REISSUE = {"fix_arguments", "ask_user", "choose_tool"}


def problems_of(case: dict[str, Any]) -> list[str]:
    """Run one case and answer what is not as expected."""
    expected = dict(case["expected"])
    _, changes = CONTESTED.get(case["id"], ("", {}))
    expected |= changes
    try:
        run = CaseRun(case)
        asyncio.run(run.play())
    except UnknownSetting as error:
        return [str(error)]
    found: list[str] = []
    if run.executions != expected["tool_executions"]:
        found.append(f"tool ran {run.executions} times, not {expected['tool_executions']}")
    if run.refused_at_registration is not None:
        if expected["outcome"] != "rejected":
            found.append(f"refused at registration: {run.refused_at_registration}")
        return found
    if run.cancelled:
        return found + list(_check_record(run, expected))
    return found + list(_check_results(run, expected, case))


def _check_record(run: CaseRun, expected: dict[str, Any]) -> Iterator[str]:
    states = run.ledger_states()
    if expected["failure_class"] == "UNCERTAIN" and states != ["UNCERTAIN"]:
        yield f"a cancelled write must leave an UNCERTAIN record, not {states}"


def _check_results(run: CaseRun, expected: dict[str, Any], case: dict[str, Any]) -> Iterator[str]:
    result = run.results[-1]
    outcome = expected["outcome"]
    is_success = all(one.success for one in run.results) if outcome not in ("rejected", "aborted") else result.success
    if is_success != (outcome in ("accepted", "normalized", "executed", "recovered")):
        yield f"outcome {outcome!r} expected, got success={result.success} {result.error_type}: {result.message}"
        return
    if outcome == "rejected" and result.attempts:
        yield f"refused calls have no attempts, this has {result.attempts}"
    if outcome == "normalized" and not run.was_folded():
        yield "nothing was recorded as folded"
    if outcome == "accepted" and run.was_changed():
        yield f"the arguments were changed: {run.folds()}"
    if outcome == "recovered" and not any(one.attempts > 1 or one.outcome_basis != "returned" for one in run.results):
        yield "nothing was recovered"
    if result.retryable != expected["retryable"]:
        yield f"retryable={result.retryable}, not {expected['retryable']}"
    if result.next_action not in NEXT_ACTIONS[expected["next_action_kind"]]:
        yield f"next_action={result.next_action!r}, not {expected['next_action_kind']!r}"
    if not result.success and not _fits_class(result, expected["failure_class"], case["kind"]):
        yield f"failure_class={result.failure_class} ({result.error_type}), not {expected['failure_class']}"
    if "model_may_reissue" in expected and not result.success and not case["contested"]:
        may = result.next_action in MAY_REISSUE
        if may != expected["model_may_reissue"]:
            yield f"a changed call may be sent: {may}, not {expected['model_may_reissue']} ({result.next_action})"
    wanted = expected.get("normalized_args")
    if wanted is not None and not run.has_arguments(wanted):
        yield f"arguments {run.seen_arguments()}, not {wanted}"


def _fits_class(result: Any, wanted: str | None, kind: str) -> bool:
    if wanted is None or result.failure_class == wanted:
        return True
    is_refusal = result.failure_class == "POLICY" and wanted in ("AVAILABILITY", "PARAMETER")
    return is_refusal and kind.startswith(REFUSED_BY_POLICY)


def load(path: Path) -> list[dict[str, Any]]:
    """Read a file of cases."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]


def main(arguments: list[str] | None = None) -> int:
    """Run a file of cases; see the module's docstring."""
    parser = argparse.ArgumentParser(prog="python -m tests.field_cases", description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--only", help="run only the kinds that start with this")
    parser.add_argument("--verbose", action="store_true", help="name the passing, pending and contested cases too")
    options = parser.parse_args(arguments)
    passed = failed = 0
    for case in load(options.file):
        if options.only and not case["kind"].startswith(options.only):
            continue
        label = f"{case['id']} {case['kind']}"
        if case["id"] in PENDING:
            print(f"{label}: pending: {PENDING[case['id']]}")
            continue
        try:
            problems = problems_of(case)
        except MissingExtraError as error:
            print(f"{label} needs an extra: {error}; from a checkout: pip install -e '.[sql,shell]'", file=sys.stderr)
            return 2
        if problems:
            failed += 1
            print(f"{label}: {'; '.join(problems)}")
            continue
        passed += 1
        if options.verbose:
            reason = CONTESTED.get(case["id"], ("",))[0]
            print(f"{label}: ok{f' (contested; {reason})' if reason else ''}")
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
