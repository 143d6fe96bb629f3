"""Classify a failure by proof: what it is, and whether a write that failed this way can have been applied."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from fcguard.errors import ToolCallFailed
from fcguard.model.failure import ErrorType, FailureClass, class_of
from fcguard.model.outcome import NotApplied, Signal
from fcguard.recovery.chain import LIBRARIES, MOST_LINKS, is_of, linked, names_of, read, wrapped
from fcguard.recovery.classify_aws import aws_answer
from fcguard.recovery.classify_database import database_answer
from fcguard.recovery.classify_http import (
    CLIENT_DEFAULTS,
    SAFE_METHODS,
    client_answer,
    headers_of,
    reason_of,
    status_answer,
    status_of,
)
from fcguard.recovery.classify_system import FAULT, system_answer
from fcguard.recovery.hidden_attempts import earlier_attempt, read_only_request
from fcguard.recovery.proof import Answer, Classified, Proof
from fcguard.recovery.retry_after import parse_retry_after, retry_after_in
from fcguard.recovery.wording import error_line, first_line

__all__ = ["Classified", "Proof", "classify_exception", "classify_signal"]

_LONGEST_WAIT: Final = 10 * 365 * 86_400.0
_DEEPEST: Final = 12


def classify_exception(error: BaseException, *, now: float) -> Classified:
    """Classify what a tool raised; total.

    Libraries are known by package and class name and are never imported. A proof (`not_sent`, `refused`) is about the request
    that failed. It is withdrawn where the exception shows that something else may have been sent before it: an earlier attempt
    of a retry layer, a redirect, an earlier error that was being handled, or a failed request that only reads. A tool that sends
    several writes and fails at the second must say so itself; nothing in the exception tells.

    Args:
        error: any exception.
        now: wall clock in seconds since 1970, for a `Retry-After` that is a date.

    Returns:
        What it is. Everything unknown is `TOOL_ERROR` with the proof `unknown`.
    """
    try:
        return _classified(error, now)
    except Exception:
        name = type(error).__name__
        return Classified(ErrorType.TOOL_ERROR, "unknown", name, "the exception itself cannot be read")


def classify_signal(signal: Signal, *, now: float) -> Classified:
    """Classify a returned value that means failure by its shape; total.

    Args:
        signal: what `fcguard.results.shape` found.
        now: wall clock in seconds since 1970, for a `Retry-After` that is a date.
    """
    said = first_line(signal.message)
    if signal.kind == "http":
        status = signal.status or 0
        answer = status_answer(status)
        if answer.proof != "unknown" and signal.has_history:
            answer = answer._replace(proof="unknown", reason=f"{answer.reason}; but other answers came before this one")
        elif answer.proof != "unknown" and signal.method in SAFE_METHODS:
            answer = answer._replace(proof="unknown", reason=f"{answer.reason}; but a {signal.method} proves nothing")
        message = f"HTTP {status}: {said}" if said else f"HTTP {status}: {answer.reason}"
        wait = parse_retry_after(signal.retry_after, now=now)
        return Classified(answer.error_type, answer.proof, message, f"HTTP {status}: {answer.reason}", wait, status)
    if signal.kind == "process":
        message = f"exit code {signal.status}: {said}" if said else f"exit code {signal.status}"
        reason = "the program ended with an error; a part may be done"
        return Classified(ErrorType.TOOL_ERROR, "unknown", message, reason, None, signal.status)
    message = said or "the MCP tool reported an error"
    return Classified(ErrorType.TOOL_ERROR, "unknown", message, "the MCP tool reported an error; a part may be done")


def _classified(error: BaseException, now: float) -> Classified:
    if isinstance(error, NotApplied):
        return _stated(error, now)
    if isinstance(error, ToolCallFailed):
        return _inner_call(error)
    if isinstance(error, BaseExceptionGroup):
        first = classify_exception(error.exceptions[0], now=now)
        reason = f"one of {len(error.exceptions)} tasks failed ({first.reason}); the others may have done their part"
        return Classified(first.error_type, "unknown", first.message, reason, first.retry_after, first.status)
    path = _path(error)
    answer, link = _decide(path, error)
    if answer.proof != "unknown":
        doubt = _doubt(error, path, link)
        if doubt is not None:
            answer = answer._replace(proof="unknown", reason=f"{answer.reason}; but {doubt}")
    status = status_of(link)
    wait = _wait(path, now)
    reason = answer.reason if link is error else f"{type(link).__name__}: {answer.reason}"
    return Classified(answer.error_type, answer.proof, _message(error, link, status), reason, wait, status)


def _path(error: BaseException) -> list[BaseException]:
    """Answer the exception and what it wraps, outermost first: one failure, told by several layers."""
    path: list[BaseException] = []
    todo = [error]
    while todo and len(path) < _DEEPEST:
        link = todo.pop(0)
        if not any(link is known for known in path):
            path.append(link)
            todo = wrapped(link) + todo
    return path


def _decide(path: list[BaseException], error: BaseException) -> tuple[Answer, BaseException]:
    """Answer the first layer that a table knows; then wrappers by default; then what was being handled, without its proof."""
    for link in path:
        answer = _own(link) or system_answer(link)
        if answer is not None:
            return answer, link
    for link in path:
        for name in names_of(link):
            if name in CLIENT_DEFAULTS:
                return CLIENT_DEFAULTS[name], link
    handled = error.__context__
    if type(error).__module__ != "builtins" and handled is not None and not error.__suppress_context__:
        answer = _own(handled) or system_answer(handled)
        if answer is not None:
            reason = f"raised while handling {type(handled).__name__}, which proves nothing about what came after it"
            return Answer(answer.error_type, "unknown", reason), error
    return FAULT, error


def _own(link: BaseException) -> Answer | None:
    """Answer what the tables of libraries say about one layer."""
    answer = client_answer(link) or aws_answer(link)
    if answer is not None:
        return answer
    status = status_of(link)
    return status_answer(status) if status is not None else database_answer(link)


def _doubt(error: BaseException, path: list[BaseException], decisive: BaseException) -> str | None:
    """Answer why the proof does not hold for the whole call, or None."""
    links = linked(error)
    if len(links) >= MOST_LINKS:
        return "too many errors came before it"
    told = earlier_attempt(links)
    if told is not None:
        return told
    method = read_only_request(path)
    if method is not None:
        return f"a failed {method} proves nothing about a write that may have come before it"
    is_bare = isinstance(decisive, OSError) and _own(decisive) is None
    return _unsettled((link for link in links if link is not decisive), is_bare)


def _unsettled(others: Iterable[BaseException], is_bare: bool) -> str | None:
    """Answer an earlier error of the same call that leaves its own request unsettled."""
    for other in others:
        answer = _own(other)
        if answer is None and is_bare and isinstance(other, OSError):
            answer = system_answer(other)
        if answer is not None and answer.proof == "unknown":
            return f"{type(other).__name__} came before it in the same call"
    return None


def _wait(path: list[BaseException], now: float) -> float | None:
    for link in path:
        wait = retry_after_in(headers_of(link), now=now)
        if wait is None:
            stated = read(link, "retry_after")
            wait = float(stated) if isinstance(stated, (int, float)) and not isinstance(stated, bool) else None
        if wait is not None and 0 <= wait <= _LONGEST_WAIT:
            return wait
    return None


def _message(error: BaseException, link: BaseException, status: int | None) -> str:
    said = first_line(reason_of(link)) if status is not None else ""
    if said:
        return f"HTTP {status}: {said}"
    return error_line(link if is_of(error, LIBRARIES) else error)


def _stated(error: NotApplied, now: float) -> Classified:
    """A tool that knows that nothing happened: its word is the proof, its cause tells what kind of failure it was."""
    error_type: str = ErrorType.DEPENDENCY_ERROR
    wait = None
    if error.__cause__ is not None and not isinstance(error.__cause__, NotApplied):
        cause = classify_exception(error.__cause__, now=now)
        error_type, wait = cause.error_type, cause.retry_after
    message = first_line(str(error.message)) or "nothing happened"
    return Classified(error_type, "refused", message, "the tool stated that nothing was applied", wait)


_PASSED_ON: Final = frozenset({FailureClass.AVAILABILITY, FailureClass.ENVIRONMENT})


def _inner_call(error: ToolCallFailed) -> Classified:
    """Another governed call that this tool made; its failure proves nothing about this tool's own work."""
    inner = str(error.result.error_type)
    is_passed_on = class_of(inner, FailureClass.TOOL) in _PASSED_ON
    message = first_line(f"{error.result.tool_name}: {error.result.message}")
    reason = f"the inner call of {error.result.tool_name} failed with {inner}"
    return Classified(
        inner if is_passed_on else ErrorType.TOOL_ERROR,
        "unknown",
        message,
        reason,
        error.result.retry_after if is_passed_on else None,
    )
