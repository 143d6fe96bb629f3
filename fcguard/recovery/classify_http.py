"""HTTP: what each status and each client's exception means, and what it proves about a write."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from fcguard.model.failure import ErrorType
from fcguard.model.reasons import stated_reason
from fcguard.recovery.chain import names_of, read
from fcguard.recovery.proof import Answer

__all__ = [
    "CLIENT_DEFAULTS",
    "CLIENT_ERRORS",
    "SAFE_METHODS",
    "STATUSES",
    "client_answer",
    "headers_of",
    "reason_of",
    "status_answer",
    "status_of",
]

_E = ErrorType

SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})
"""Methods that only read (RFC 9110, 9.2.1). The failure of one proves nothing about a write that the tool sent before it."""

STATUSES: Final[dict[int, Answer]] = {
    400: Answer(_E.PARAM_INVALID, "refused", "the server found the request wrong"),
    401: Answer(_E.PERMISSION_DENIED, "refused", "the server does not know who is asking"),
    402: Answer(_E.PRECONDITION_FAILED, "refused", "the server wants to be paid first"),
    403: Answer(_E.PERMISSION_DENIED, "refused", "the server forbids it"),
    404: Answer(_E.PRECONDITION_FAILED, "refused", "there is no such thing on the server"),
    405: Answer(_E.TOOL_ERROR, "refused", "the server does not have this method"),
    406: Answer(_E.TOOL_ERROR, "refused", "the server cannot answer in this form"),
    407: Answer(_E.PERMISSION_DENIED, "refused", "the proxy does not know who is asking"),
    408: Answer(_E.TIMEOUT, "unknown", "the server waited too long for the request, or for its own work"),
    409: Answer(_E.PRECONDITION_FAILED, "unknown", "the state conflicts; an earlier send of ours may have made it so"),
    410: Answer(_E.PRECONDITION_FAILED, "refused", "the thing is gone from the server"),
    411: Answer(_E.TOOL_ERROR, "refused", "the server wants a length"),
    412: Answer(_E.PRECONDITION_FAILED, "refused", "the condition of the request does not hold"),
    413: Answer(_E.PARAM_INVALID, "refused", "the request is too large for the server"),
    414: Answer(_E.PARAM_INVALID, "refused", "the URL is too long for the server"),
    415: Answer(_E.TOOL_ERROR, "refused", "the server does not read this media type"),
    416: Answer(_E.PARAM_INVALID, "refused", "the range does not exist"),
    417: Answer(_E.TOOL_ERROR, "refused", "the server does not meet the expectation"),
    421: Answer(_E.TOOL_ERROR, "refused", "the server does not answer for this host"),
    422: Answer(_E.PARAM_INVALID, "refused", "the server found the content wrong"),
    423: Answer(_E.PRECONDITION_FAILED, "refused", "the thing is locked"),
    424: Answer(_E.PRECONDITION_FAILED, "refused", "an action that this one depends on failed"),
    425: Answer(
        _E.DEPENDENCY_ERROR, "unknown", "the server finds the request too early, perhaps after it was passed on"
    ),
    426: Answer(_E.TOOL_ERROR, "refused", "the server wants another protocol"),
    428: Answer(_E.PRECONDITION_FAILED, "refused", "the server wants a condition"),
    429: Answer(
        _E.RATE_LIMITED, "unknown", "too many requests; the limit may have been counted after the work was done"
    ),
    431: Answer(_E.TOOL_ERROR, "refused", "the headers are too large for the server"),
    451: Answer(_E.PERMISSION_DENIED, "refused", "the law forbids it"),
    501: Answer(_E.TOOL_ERROR, "unknown", "the server cannot do this"),
    505: Answer(_E.TOOL_ERROR, "unknown", "the server does not speak this version"),
    507: Answer(_E.RESOURCE_EXHAUSTED, "unknown", "the server has no room left"),
}
"""Status -> meaning. Statuses that are registered as client errors and not named as doubtful prove a refusal (RFC 9110, 15.5)."""

_RANGES: Final[tuple[tuple[range, Answer], ...]] = (
    (range(300, 400), Answer(_E.TOOL_ERROR, "unknown", "a redirect was not followed; it may follow a done write")),
    (range(400, 500), Answer(_E.TOOL_ERROR, "unknown", "a client error that no standard defines")),
    (range(500, 600), Answer(_E.DEPENDENCY_ERROR, "unknown", "the server failed, perhaps after the work was done")),
)
_NO_FAILURE: Final = Answer(_E.RESULT_INVALID, "unknown", "the answer could not be used")

_NO_CONNECTION: Final = Answer(_E.CONNECTION_FAILED, "not_sent", "the connection was never made")
_NO_CONNECTION_IN_TIME: Final = Answer(_E.TIMEOUT, "not_sent", "the connection was not made in time")
_NO_FREE_CONNECTION: Final = Answer(_E.TIMEOUT, "not_sent", "no connection of the pool became free in time")
_NO_TUNNEL: Final = Answer(_E.CONNECTION_FAILED, "not_sent", "the proxy did not open a tunnel")
_NOT_BUILT: Final = Answer(_E.TOOL_ERROR, "not_sent", "the request could not be built")
_NO_ANSWER: Final = Answer(_E.TIMEOUT, "unknown", "the request may have arrived; no answer came in time")
_LOST: Final = Answer(_E.CONNECTION_FAILED, "unknown", "the connection was lost after the request may have been sent")
_UNREADABLE: Final = Answer(_E.RESULT_INVALID, "unknown", "the request was answered; the answer cannot be read")
_LED_ON: Final = Answer(_E.DEPENDENCY_ERROR, "unknown", "the server answered with too many redirects or errors")
_MISUSED: Final = Answer(_E.TOOL_ERROR, "unknown", "the client was misused")


def _rows(roots: Iterable[str], rows: Mapping[str, Answer]) -> dict[tuple[str, str], Answer]:
    return {(root, name): answer for root in roots for name, answer in rows.items()}


CLIENT_ERRORS: Final[dict[tuple[str, str], Answer]] = {
    **_rows(
        ("httpx", "httpx2", "httpcore", "httpcore2"),
        {
            "ConnectError": _NO_CONNECTION,
            "ConnectTimeout": _NO_CONNECTION_IN_TIME,
            "PoolTimeout": _NO_FREE_CONNECTION,
            "ProxyError": _NO_TUNNEL,
            "UnsupportedProtocol": _NOT_BUILT,
            "InvalidURL": _MISUSED,
            "LocalProtocolError": _MISUSED,
            "TimeoutException": _NO_ANSWER,
            "NetworkError": _LOST,
            "ProtocolError": _LOST,
            "TransportError": _LOST,
            "DecodingError": _UNREADABLE,
            "TooManyRedirects": _LED_ON,
            "StreamError": _MISUSED,
        },
    ),
    **_rows(
        ("urllib3",),
        {
            "NewConnectionError": _NO_CONNECTION,
            "ConnectTimeoutError": _NO_CONNECTION_IN_TIME,
            "EmptyPoolError": _NO_FREE_CONNECTION,
            "FullPoolError": _NO_FREE_CONNECTION,
            "TimeoutError": _NO_ANSWER,
            "ProtocolError": _LOST,
            "IncompleteRead": _LOST,
            "DecodeError": _UNREADABLE,
            "ResponseError": _LED_ON,
            "LocationValueError": _MISUSED,
        },
    ),
    **_rows(
        ("requests",),
        {
            "ConnectTimeout": _NO_CONNECTION_IN_TIME,
            "ReadTimeout": _NO_ANSWER,
            "ChunkedEncodingError": _LOST,
            "ContentDecodingError": _UNREADABLE,
            "InvalidJSONError": _UNREADABLE,
            "TooManyRedirects": _LED_ON,
            "InvalidURL": _MISUSED,
            "MissingSchema": _MISUSED,
            "InvalidSchema": _MISUSED,
            "InvalidHeader": _MISUSED,
        },
    ),
    **_rows(
        ("aiohttp",),
        {
            "ClientConnectorError": _NO_CONNECTION,
            "ClientConnectorSSLError": _NO_CONNECTION,
            "ClientConnectorCertificateError": _NO_CONNECTION,
            "ConnectionTimeoutError": _NO_CONNECTION_IN_TIME,
            "ClientHttpProxyError": _NO_TUNNEL,
            "ServerTimeoutError": _NO_ANSWER,
            "ClientConnectionError": _LOST,
            "ClientPayloadError": _LOST,
            "HttpProcessingError": _UNREADABLE,
            "TooManyRedirects": _LED_ON,
            "InvalidURL": _MISUSED,
        },
    ),
    **_rows(
        ("botocore",),
        {
            "EndpointConnectionError": _NO_CONNECTION,
            "ConnectTimeoutError": _NO_CONNECTION_IN_TIME,
            "ReadTimeoutError": _NO_ANSWER,
            "HTTPClientError": _LOST,
            "ConnectionError": _LOST,
            "ParamValidationError": Answer(_E.PARAM_INVALID, "not_sent", "the client found the parameters wrong"),
            "NoCredentialsError": Answer(_E.PERMISSION_DENIED, "not_sent", "the client has no credentials"),
        },
    ),
    **_rows(("http",), {"HTTPException": _LOST}),
}
"""(package, class name) -> meaning; the first row that fits a class or one of its bases decides."""

CLIENT_DEFAULTS: Final[dict[tuple[str, str], Answer]] = {
    **_rows(("requests",), {"Timeout": _NO_ANSWER, "RequestException": _LOST}),
    **_rows(("urllib3", "urllib"), {"HTTPError": _LOST, "URLError": _LOST}),
    **_rows(("aiohttp",), {"ContentTypeError": _UNREADABLE, "ClientError": _LOST}),
    **_rows(("httpx", "httpx2"), {"HTTPError": _LOST}),
    **_rows(
        ("openai", "anthropic"),
        {"APITimeoutError": _NO_ANSWER, "APIConnectionError": _LOST, "APIResponseValidationError": _UNREADABLE},
    ),
}
"""The same for wrappers, which count only if nothing they wrap says more."""


def client_answer(error: BaseException) -> Answer | None:
    """Look an exception of an HTTP client up.

    aiohttp reports an answer that is no HTTP as status 400; the status is made up, so it proves nothing.
    """
    names = names_of(error)
    if ("aiohttp", "ClientResponseError") in names and error.__cause__ is not None:
        names += names_of(error.__cause__)
    for name in names:
        answer = CLIENT_ERRORS.get(name)
        if answer is not None:
            return answer
    return None


def status_answer(status: int) -> Answer:
    """Look an HTTP status up; total."""
    known = STATUSES.get(status)
    if known is not None:
        return known
    return next((answer for statuses, answer in _RANGES if status in statuses), _NO_FAILURE)


# Reading errors that carry a response ---------------------------------------------------------------------------


def status_of(error: BaseException) -> int | None:
    """Answer the HTTP status that an exception carries: its own, its response's, or botocore's; None if it carries none.

    `code` counts only beside a sign of HTTP, for exit codes and other codes have the same name.
    """
    response = read(error, "response")
    if isinstance(response, Mapping):
        return _status(_read_path(response, "ResponseMetadata", "HTTPStatusCode"), 300)
    for name in ("status_code", "http_status"):
        status = _status(read(error, name), 300)
        if status is not None:
            return status
    if response is not None:
        for name in ("status_code", "status"):
            status = _status(read(response, name), 300)
            if status is not None:
                return status
    status = _status(read(error, "status"), 400)
    if status is not None:
        return status
    has_sign = any(read(error, sign) is not None for sign in ("headers", "hdrs", "response", "request", "get_response"))
    return _status(read(error, "code"), 400) if has_sign else None


def _status(value: Any, lowest: int) -> int | None:
    is_status = isinstance(value, int) and not isinstance(value, bool) and lowest <= value <= 599
    return int(value) if is_status else None


def _read_path(value: Any, *path: str) -> Any:
    """Answer what lies under keys of nested mappings, or None."""
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def headers_of(error: BaseException) -> dict[str, str]:
    """Answer the response headers that an exception carries, names in lower case; empty if it carries none."""
    response = read(error, "response")
    sources = (
        _read_path(response, "ResponseMetadata", "HTTPHeaders"),
        read(response, "headers"),
        read(error, "headers"),
        read(error, "hdrs"),
    )
    for source in sources:
        items = read(source, "items")
        if callable(items):
            try:
                return {str(name).lower(): str(text) for name, text in items()}
            except Exception:
                return {}
    return {}


def reason_of(error: BaseException) -> str:
    """Answer why the server refused, from a response body that was read already; empty if there is none."""
    response = read(error, "response")
    stated = _read_path(response, "Error", "Message")
    if isinstance(stated, str):
        return stated
    if response is None or isinstance(response, Mapping):
        return ""
    if type(response).__module__.startswith("requests.") and read(response, "_content_consumed") is not True:
        return ""  # asking for the text would read from the network
    text = read(response, "text")
    if not isinstance(text, str):
        return ""
    try:
        return stated_reason(json.loads(text))
    except (ValueError, RecursionError):
        return stated_reason(text)
