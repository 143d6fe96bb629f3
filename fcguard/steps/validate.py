"""Step 4: three layers in order, structure, business, execution; the first that refuses ends the call."""

from __future__ import annotations

from collections.abc import Mapping
from inspect import isawaitable
from typing import Any, Final

from fcguard.approval.gate import Approved, review
from fcguard.arguments.bound import bind
from fcguard.config import Collaborator, Config, Prepared, Verdict
from fcguard.constraints.admission import admit, violated
from fcguard.constraints.budget import task_budget
from fcguard.io import IO
from fcguard.model.call import UNFILLED, Call
from fcguard.model.failure import ErrorType, Failure, FailureClass, Halt, Problem
from fcguard.model.frozen import freeze, thaw
from fcguard.stores.journal import look_up

__all__ = ["validate_call"]

_NOT_NOW: Final = frozenset({FailureClass.AVAILABILITY, FailureClass.ENVIRONMENT})
"""Refusals that say "later": a write that is done, or in doubt, must not look as if it could be sent then."""


async def validate_call(call: Call, config: Config, io: IO) -> None:
    """Fill `call.verdict` before the first attempt; before every attempt ask the execution constraints.

    Raises:
        Halt: a layer refused.
    """
    prepared: Prepared = call.prepared
    if call.verdict is UNFILLED:
        if call.normalized.problems or prepared.convert is not None:
            _check_structure(call)
        await _check_rules(call, prepared.rules, io)
        if prepared.needs_approval:
            try:  # nobody is asked about what is done, or must not be sent now
                await look_up(call, config.store, io)
            except Halt:
                call.verdict = prepared.all_passed
                raise
            approval = await _check_approval(call, config, io)
        else:
            approval = None
        call.verdict = Verdict(prepared.passed, approval=approval) if approval else prepared.all_passed
    constraints = prepared.constraints
    is_bounded = call.context.budget is not None or (call.task is not None and call.task.bounds)
    if is_bounded and task_budget not in constraints:
        constraints = (task_budget, *constraints)
    if constraints:
        failure = await admit(call, constraints, io)
        if failure is not None:
            if failure.failure_class in _NOT_NOW:
                await look_up(call, config.store, io)
            raise Halt(failure)


def _check_structure(call: Call) -> None:
    normalized = call.normalized
    if normalized.problems:
        raise Halt(
            Failure.of(
                normalized.error_type,
                normalized.message,
                "schema",
                next_action=normalized.next_action,
                problems=normalized.problems,
            )
        )
    problems = _conversion_problems(call.prepared, call.arguments)
    if problems:
        raise Halt(Failure.of(ErrorType.PARAM_INVALID, "; ".join(map(str, problems)), "schema", problems=problems))


def _conversion_problems(prepared: Prepared, arguments: Mapping[str, Any]) -> tuple[Problem, ...]:
    return () if prepared.convert is None else prepared.convert.problems(arguments)


async def _check_rules(call: Call, rules: tuple[Collaborator, ...], io: IO) -> None:
    position = 0
    try:
        for check in call.prepared.checks:
            answer: Any = check(call)
            if answer is not None:
                if isawaitable(answer):
                    answer = await io.call(_itself, answer)
                if answer is not None:
                    break
            position += 1
        else:
            return
    except Exception as error:
        name = rules[position].name
        failure = Failure.of(
            ErrorType.RULE_FAILED,
            f"The rule {name!r} failed, so the call was refused. This is a fault of the platform, not of the call.",
            "business",
            reason=f"{name} raised {type(error).__name__}",
            cause=type(error).__name__,
        )
    else:
        failure = violated(answer, rules[position].name, "business")
    call.verdict = Verdict(call.prepared.passed[:position], rules[position].name)
    raise Halt(failure)


async def _itself(answer: Any) -> Any:
    return await answer


async def _check_approval(call: Call, config: Config, io: IO) -> str | None:
    """Ask for approval where the tool wants it; answer how the call came to it, or None if it needed none."""
    answer = await review(call, config.approver, config.grants, io, io.now())
    if answer is None:
        return None
    if not isinstance(answer, Approved):
        call.verdict = Verdict(call.prepared.passed, "approval")
        raise Halt(violated(answer, "approval", "approval"))
    if answer.arguments is not None:
        _take_modified(call, answer.arguments)
        await _check_rules(call, call.prepared.rules, io)
    return f"{answer.source} {answer.reference} by {answer.by}{' with other arguments' if answer.arguments is not None else ''}"


def _take_modified(call: Call, arguments: Mapping[str, Any]) -> None:
    normalized = call.prepared.schema.normalize(thaw(dict(arguments)), effect=call.prepared.tool.effect)
    problems, message = normalized.problems, normalized.message
    if normalized.value is not None and not problems:
        bind(normalized.value, call.prepared.tool.bound, call.context)
        problems = _conversion_problems(call.prepared, normalized.value)
        message = "; ".join(map(str, problems))
    if normalized.value is None or problems:
        raise Halt(
            Failure.of(
                ErrorType.APPROVAL_DENIED,
                f"The arguments that the approver put in are not valid: {message}",
                "approval",
                problems=problems,
            )
        )
    call.reopen("arguments")
    call.normalized = normalized
    call.arguments = freeze(normalized.value)
    call.redactor = call.redactor.knowing(call.arguments)
