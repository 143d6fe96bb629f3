"""HTTP responses of any client as plain data, and the status that means failure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

from fcguard.model.outcome import Signal
from fcguard.model.reasons import stated_reason
from fcguard.results.reading import Binary, Recognised, has, kind_names, read, whole

__all__ = ["http_response", "http_status", "without_query"]

_KEPT_HEADERS: Final = frozenset(
    {
        "allow",
        "cache-control",
        "content-disposition",
        "content-language",
        "content-length",
        "content-location",
        "content-type",
        "date",
        "etag",
        "expires",
        "last-modified",
        "link",
        "location",
        "preference-applied",
        "ratelimit",
        "ratelimit-limit",
        "ratelimit-policy",
        "ratelimit-remaining",
        "ratelimit-reset",
        "request-id",
        "retry-after",
        "server",
        "vary",
        "warning",
        "x-correlation-id",
        "x-ratelimit-limit",
        "x-ratelimit-remaining",
        "x-ratelimit-reset",
        "x-request-id",
        "x-total-count",
    }
)
"""Response headers that are shown. All others are left out: a cookie or a token must not become data."""

_DONE_REDIRECTS: Final = frozenset({303, 304})
"""Redirects that say the request was processed (RFC 9110, 15.4.4 and 15.4.5); any other may lead to a log-in page, or to
where the request has to be sent again (a missing slash), so that nothing was done."""

_BODY_NAMES: Final = ("json", "read", "body", "data", "text", "content")
_DECLARED_BODY_NAMES: Final = ("body", "text", "content")
"""Signs of a body, methods first: asking for one does not fetch anything."""

_UNREAD: Final = object()
_DECLARED: Final = ("__dataclass_fields__", "__pydantic_fields__", "__attrs_attrs__", "__struct_fields__", "_fields")


def http_status(value: Any) -> int | None:
    """Answer the HTTP status of an object that has the shape of a response, else None.

    A response has a status of 100 to 599 and something like a body; where the status is called `status` and not `status_code`,
    it must have headers too. An object of declared fields (dataclass, pydantic model, attrs class) is data in the first place:
    it must say `status_code` and hold both headers and a body.
    """
    is_declared = any(hasattr(type(value), mark) for mark in _DECLARED)
    for name in ("status_code",) if is_declared else ("status_code", "status"):
        status = whole(read(value, name))
        if status is not None and 100 <= status <= 599:
            names = _DECLARED_BODY_NAMES if is_declared else _BODY_NAMES
            has_body = any(has(value, body_name) for body_name in names)
            has_headers = callable(read(read(value, "headers"), "items"))
            return status if has_body and (has_headers or (name == "status_code" and not is_declared)) else None
    return None


def http_response(value: Any, status: int) -> Recognised:
    """Put a response in plain terms.

    Data: `{"status", "url", "headers", "body"}`; the URL without user, query and fragment, the body as JSON where it is declared
    to be, as text where it is text. A body that was not read yet stays unread.

    Args:
        value: a response.
        status: its status, as `http_status` answers it.
    """
    headers = _headers(value)
    content_type = headers.get("content-type", "")
    body = _body(value)
    unread = body is _UNREAD
    shown = None if unread else _parsed(body, content_type)
    data: dict[str, Any] = {
        "status": status,
        "url": without_query(read(value, "url") or read(read(value, "request"), "url")),
        "headers": {name: text for name, text in headers.items() if name in _KEPT_HEADERS},
        "body": shown,
    }
    failure = None
    if status >= 400 or (status >= 300 and status not in _DONE_REDIRECTS):
        failure = Signal(
            "http", stated_reason(shown), status, _method(value), headers.get("retry-after"), _has_history(value)
        )
    return Recognised("http", data, failure, ("unread",) if unread else ())


def _method(value: Any) -> str | None:
    """Answer the method of the request that was answered, where the client keeps it."""
    for holder in (value, read(value, "request"), read(value, "_original_response")):
        for name in ("method", "_method"):
            method = read(holder, name)
            if isinstance(method, str) and method.isalpha():
                return method.upper()
    return None


def _has_history(value: Any) -> bool:
    """Answer whether redirects, or retries inside the client, came before this answer."""
    holders = (value, read(value, "retries"), read(read(value, "raw"), "retries"))
    histories = (read(holder, "history") for holder in holders)
    return any(isinstance(history, (list, tuple)) and len(history) > 0 for history in histories)


def without_query(url: Any) -> str | None:
    """Answer a URL without user, query and fragment, which may hold secrets; None if it is no URL."""
    if url is None or callable(url):
        return None
    try:
        parts = urlsplit(str(url))
        return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
    except Exception:
        return None


def _headers(value: Any) -> dict[str, str]:
    try:
        return {name.lower(): text for name, text in _pairs(value.headers.items())}
    except Exception:  # the status must not be lost with them
        return {}


def _pairs(items: Any) -> Iterator[tuple[str, str]]:
    for pair in items:
        name, text = pair
        if isinstance(name, (str, bytes)) and isinstance(text, (str, bytes, int)):
            yield _latin(name), _latin(text)


def _latin(text: str | bytes | int) -> str:
    return text.decode("latin-1") if isinstance(text, bytes) else str(text)


def _body(value: Any) -> Any:
    """Answer a body that is at hand; never the network's, never a coroutine's."""
    roots = {root for root, _ in kind_names(type(value))}
    if "requests" in roots:
        return value.content if read(value, "_content_consumed") is True else _UNREAD
    if not roots.isdisjoint(("aiohttp", "urllib3")):
        body = read(value, "_body")
        return _UNREAD if body is None else body
    if not roots.isdisjoint(("http", "urllib", "playwright")):
        return _UNREAD
    for name in ("content", "body", "text", "data"):
        body = read(value, name)
        if isinstance(body, (bytes, bytearray, str, dict, list)):
            return body
    return _UNREAD


def _parsed(body: Any, content_type: str) -> Any:
    if isinstance(body, (dict, list)):
        return body
    if not body:
        return None
    if isinstance(body, (bytes, bytearray)):
        body = bytes(body)
        try:
            text = body.decode(_charset(content_type))
        except (UnicodeDecodeError, LookupError):
            return Binary(body, content_type.partition(";")[0].strip() or None)
    else:
        text = body
    essence = content_type.partition(";")[0].strip().lower()
    if essence == "application/json" or essence.endswith("+json"):
        try:
            return json.loads(text)
        except (ValueError, RecursionError):
            return text
    return text


def _charset(content_type: str) -> str:
    for parameter in content_type.split(";")[1:]:
        name, _, text = parameter.partition("=")
        if name.strip().lower() == "charset":
            return text.strip().strip("\"'")
    return "utf-8"
