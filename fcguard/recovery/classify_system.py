"""The operating system, the standard library and tool protocols: what their errors mean and what they prove about a write."""

from __future__ import annotations

import errno
from typing import Final

from fcguard.model.failure import ErrorType
from fcguard.recovery.chain import names_of, read
from fcguard.recovery.connecting import passed_connect, passed_exec
from fcguard.recovery.proof import Answer

__all__ = ["ERRNOS", "FAULT", "MCP_CODES", "PYTHON_ERRORS", "TOOL_PROTOCOL_ERRORS", "system_answer"]

_E = ErrorType

_REFUSED: Final = Answer(_E.CONNECTION_FAILED, "not_sent", "nobody listens there; the connection was never made")
_LOST: Final = Answer(_E.CONNECTION_FAILED, "unknown", "the connection failed; something may have been sent before")
_LATE: Final = Answer(_E.TIMEOUT, "unknown", "the time was over; the work may have been done, or still be done")
_EXHAUSTED: Final = Answer(_E.RESOURCE_EXHAUSTED, "unknown", "the system has run out of something; a part may be done")
_DENIED: Final = Answer(_E.PERMISSION_DENIED, "unknown", "the system forbids it; a part may be done")
_WRONG_STATE: Final = Answer(_E.PRECONDITION_FAILED, "unknown", "the file is not what it should be; a part may be done")
_TROUBLE: Final = Answer(_E.DEPENDENCY_ERROR, "unknown", "a device failed; a part may be done")
_UNREADABLE: Final = Answer(_E.RESULT_INVALID, "unknown", "something came back that cannot be read")
FAULT: Final = Answer(_E.TOOL_ERROR, "unknown", "the tool failed in a way that proves nothing")
"""What is said of every exception that no table knows."""

_NO_CONNECTION: Final = Answer(_E.CONNECTION_FAILED, "not_sent", "the connection was never made")
_NO_CONNECTION_IN_TIME: Final = Answer(_E.TIMEOUT, "not_sent", "the connection was not made in time")
_NOT_STARTED: Final = Answer(_E.TOOL_ERROR, "not_sent", "the program could not be started")

_ERRNO_ROWS: Final[tuple[tuple[Answer, tuple[str, ...]], ...]] = (
    (_REFUSED, ("ECONNREFUSED",)),
    (_LOST, ("ECONNRESET", "ECONNABORTED", "EPIPE", "ENOTCONN", "ESHUTDOWN", "EBADF", "ENOTSOCK", "EDESTADDRREQ")),
    (_LOST, ("ENETDOWN", "ENETUNREACH", "ENETRESET", "EHOSTDOWN", "EHOSTUNREACH", "EADDRNOTAVAIL", "EADDRINUSE")),
    (_LATE, ("ETIMEDOUT",)),
    (_EXHAUSTED, ("EAGAIN", "EBUSY", "ETXTBSY", "ENOSPC", "EDQUOT", "EMFILE", "ENFILE", "ENOMEM", "ENOBUFS", "EFBIG")),
    (_DENIED, ("EACCES", "EPERM", "EROFS")),
    (_WRONG_STATE, ("ENOENT", "ENOTDIR", "EISDIR", "EEXIST", "ENOTEMPTY", "ENAMETOOLONG", "ELOOP", "EXDEV", "ESRCH")),
    (_TROUBLE, ("EIO", "ENXIO", "ENODEV", "ESTALE")),
)

ERRNOS: Final[dict[str, Answer]] = {name: answer for answer, names in _ERRNO_ROWS for name in names}
"""errno -> meaning. Only a refused connection proves that nothing was sent; every other one can come in the middle of the work."""

_BY_NUMBER: Final = {number: ERRNOS[name] for name, number in vars(errno).items() if name in ERRNOS}

PYTHON_ERRORS: Final[dict[tuple[str, str], Answer]] = {
    ("asyncio", "CancelledError"): Answer(_E.CANCELLED, "unknown", "the call was cancelled; the work may go on"),
    ("builtins", "KeyboardInterrupt"): Answer(
        _E.CANCELLED, "unknown", "the call was interrupted; the work may be done"
    ),
    ("builtins", "GeneratorExit"): Answer(
        _E.CANCELLED, "unknown", "the call was ended from outside; the work may be done"
    ),
    ("socket", "gaierror"): Answer(_E.CONNECTION_FAILED, "not_sent", "the name of the host could not be resolved"),
    ("ssl", "SSLCertVerificationError"): Answer(_E.CONNECTION_FAILED, "not_sent", "the certificate was not accepted"),
    ("ssl", "SSLError"): _LOST,
    ("asyncio", "IncompleteReadError"): _LOST,
    ("subprocess", "TimeoutExpired"): _LATE,
    ("subprocess", "CalledProcessError"): Answer(
        _E.TOOL_ERROR, "unknown", "the program ended with an error; a part may be done"
    ),
    ("json", "JSONDecodeError"): _UNREADABLE,
    ("builtins", "UnicodeDecodeError"): _UNREADABLE,
    ("builtins", "MemoryError"): _EXHAUSTED,
    ("builtins", "TimeoutError"): _LATE,
    ("builtins", "ConnectionError"): _LOST,
    ("builtins", "PermissionError"): _DENIED,
    ("builtins", "FileNotFoundError"): _WRONG_STATE,
    ("builtins", "FileExistsError"): _WRONG_STATE,
    ("builtins", "IsADirectoryError"): _WRONG_STATE,
    ("builtins", "NotADirectoryError"): _WRONG_STATE,
    ("builtins", "BlockingIOError"): _EXHAUSTED,
}
"""(package, class name) of the standard library -> meaning, where no errno says more; the most special class decides."""

_OWN_NUMBERS: Final = frozenset({("socket", "gaierror"), ("ssl", "SSLError")})
"""Errors whose `errno` is no errno of the system."""

TOOL_PROTOCOL_ERRORS: Final[dict[tuple[str, str], Answer]] = {
    ("playwright", "TimeoutError"): _LATE,
    ("playwright", "TargetClosedError"): Answer(_E.CONNECTION_FAILED, "unknown", "the page or the browser was closed"),
    ("playwright", "Error"): Answer(_E.TOOL_ERROR, "unknown", "the browser failed to do it; a part may be done"),
}
"""(package, class name) -> meaning, for protocols that carry no status."""

MCP_CODES: Final[dict[int, Answer]] = {
    -32700: Answer(_E.TOOL_ERROR, "refused", "the MCP server could not read the message"),
    -32600: Answer(_E.TOOL_ERROR, "refused", "the MCP server found the request wrong"),
    -32601: Answer(_E.TOOL_ERROR, "refused", "the MCP server has no such method"),
    -32602: Answer(_E.PARAM_INVALID, "refused", "the MCP server found the parameters wrong"),
    -32603: Answer(_E.DEPENDENCY_ERROR, "unknown", "the MCP server failed"),
    -32001: Answer(_E.TIMEOUT, "unknown", "the MCP server did not answer in time"),
    -32000: Answer(_E.CONNECTION_FAILED, "unknown", "the connection to the MCP server was closed"),
    408: Answer(_E.TIMEOUT, "unknown", "the MCP server did not answer in time"),
}
"""JSON-RPC error code -> meaning (JSON-RPC 2.0, 5.1; the codes of the MCP SDKs)."""
_MCP_OTHER: Final = Answer(_E.TOOL_ERROR, "unknown", "the MCP server answered with an error")
_MCP_NAMES: Final = frozenset({("mcp", "MCPError"), ("mcp", "McpError")})


_STANDARD_MODULES: Final = frozenset({"builtins", "socket", "ssl"})


def system_answer(error: BaseException) -> Answer | None:
    """Look up an error of the operating system, the standard library or a tool protocol; None for all others."""
    names = names_of(error)
    for name in names:
        if name in TOOL_PROTOCOL_ERRORS:
            return TOOL_PROTOCOL_ERRORS[name]
    if not _MCP_NAMES.isdisjoint(names):
        code = read(read(error, "error"), "code")
        return MCP_CODES.get(code, _MCP_OTHER) if isinstance(code, int) else _MCP_OTHER
    answer = _python_answer(error, names)
    if not isinstance(error, OSError) or type(error).__module__ not in _STANDARD_MODULES:
        return answer
    if answer is None or answer.proof == "unknown":
        if passed_exec(error):
            return _NOT_STARTED
        if passed_connect(error):
            is_late = answer is not None and answer.error_type == _E.TIMEOUT
            return _NO_CONNECTION_IN_TIME if is_late else _NO_CONNECTION
    return answer


def _python_answer(error: BaseException, names: list[tuple[str, str]]) -> Answer | None:
    number = read(error, "errno")
    if isinstance(error, OSError) and isinstance(number, int) and _OWN_NUMBERS.isdisjoint(names):
        return _BY_NUMBER.get(number, FAULT)
    return next((PYTHON_ERRORS[name] for name in names if name in PYTHON_ERRORS), None)
