"""What spoils a proof: attempts inside a library or the tool that came before the one that failed, and requests that only read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import Any, Final, TypeAlias

from fcguard.recovery.chain import frames_of, module_root, names_of, read
from fcguard.recovery.classify_http import SAFE_METHODS

__all__ = ["earlier_attempt", "read_only_request"]

Check: TypeAlias = Callable[[Mapping[str, Any]], bool]

_IDEMPOTENT_METHODS: Final = frozenset({"PUT", "DELETE"})
_NOTHING_SENT: Final = frozenset({("urllib3", "NewConnectionError"), ("urllib3", "ConnectTimeoutError")})


def _urllib3_retried(names: Mapping[str, Any]) -> bool:
    """A retry object keeps what came before; only failures to connect are harmless."""
    histories = [
        read(value, "history")
        for value in names.values()
        if str(type(value).__module__).startswith("urllib3.") and type(value).__name__ == "Retry"
    ]
    if not histories:
        return True  # the frame is there, its variables are not: nothing can be proved
    longest = max((history for history in histories if isinstance(history, tuple)), key=len, default=())
    return any(not _sent_nothing(entry) for entry in longest[:-1])  # the last one is the failure itself


def _sent_nothing(entry: Any) -> bool:
    error = read(entry, "error")
    return isinstance(error, BaseException) and not _NOTHING_SENT.isdisjoint(names_of(error))


def _aiohttp_retried(names: Mapping[str, Any]) -> bool:
    """Redirects are kept in `history`; one silent retry of an idempotent method on a kept connection clears a flag."""
    if names.get("history"):
        return True
    is_retried_kind = str(names.get("method", "")).upper() in _IDEMPOTENT_METHODS
    return is_retried_kind and names.get("retry_persistent_connection") is False


def _counts(name: str) -> Check:
    def is_above_one(names: Mapping[str, Any]) -> bool:
        count = names.get(name)
        return not isinstance(count, int) or count > 1

    return is_above_one


def _tenacity_retried(names: Mapping[str, Any]) -> bool:
    number = read(names.get("retry_state"), "attempt_number")
    return isinstance(number, int) and number > 1


_RETRYING: Final[dict[tuple[str, str], Check]] = {
    ("urllib3.util.retry", "increment"): _urllib3_retried,
    ("aiohttp.client", "_request"): _aiohttp_retried,
    ("botocore.endpoint", "_send_request"): _counts("attempts"),
    ("redis.retry", "call_with_retry"): _counts("failures"),
    ("redis.asyncio.retry", "call_with_retry"): _counts("failures"),
    ("backoff._sync", "retry"): _counts("tries"),
    ("backoff._async", "retry"): _counts("tries"),
}
"""(module, function) of a retry layer -> whether its variables show an attempt before the one that failed."""

_OPAQUE: Final = (
    "retrying",
    "retry.",
    "httpx_retries.",
    "aiohttp_retry.",
    "google.api_core.retry",
    "azure.core.pipeline.policies._retry",
)
"""Retry layers whose variables are not known here: passing through one proves nothing any more."""

_CONNECT_FUNCTIONS: Final = frozenset({"connect", "connect_check_health"})


def earlier_attempt(links: Sequence[BaseException]) -> str | None:
    """Answer how an attempt before the failed one may have been sent, or None.

    Args:
        links: the exception and everything that hangs on it.
    """
    for link in links:
        told = _told_by_value(link)
        if told is not None:
            return told
        caller, last = "", None
        for frame in frames_of(link):
            if frame is last:  # an error that is raised again passes its frame twice
                continue
            module = str(frame.f_globals.get("__name__"))
            if module.startswith(_OPAQUE):
                return f"{module} may have sent it before"
            check = _RETRYING.get((module, frame.f_code.co_name))
            if module.partition(".")[0] == "tenacity":
                check = _tenacity_retried
            is_connecting = module.startswith("redis.") and caller in _CONNECT_FUNCTIONS
            if check is not None and not is_connecting and check(frame.f_locals):
                return f"{module} had sent it, or another request, before"
            caller, last = frame.f_code.co_name, frame
    return None


def _told_by_value(link: BaseException) -> str | None:
    if module_root(link) == "tenacity":
        number = read(read(link, "last_attempt"), "attempt_number")
        if not isinstance(number, int) or number > 1:
            return "tenacity had tried before"
    headers = read(read(link, "request"), "headers")
    try:
        if headers is not None and int(headers.get("x-stainless-retry-count") or 0) > 0:
            return "the SDK had sent the request before"
    except Exception:
        return "the SDK may have sent the request before"
    response = read(link, "response")
    if isinstance(response, Mapping):
        metadata = response.get("ResponseMetadata")
        if isinstance(metadata, Mapping) and metadata.get("RetryAttempts"):
            return "botocore had sent the request before"
        return None
    histories = (
        read(response, "history"),
        read(link, "history"),
        read(read(response, "retries"), "history"),
        read(read(read(response, "raw"), "retries"), "history"),
    )
    for holder in histories:
        if isinstance(holder, (list, tuple)) and len(holder) > 0:
            return "other answers came before this one"
    return None


def read_only_request(path: Sequence[BaseException]) -> str | None:
    """Answer the method if the request that failed was one that only reads, else None.

    A failed GET proves nothing about a POST that the tool may have sent before it, nor about one that was redirected to it: an
    SDK's own exception then names the POST, and the one it wraps the GET.

    Args:
        path: the exception and what it wraps, outermost first.
    """
    methods: list[Any] = []
    for link in path:
        holders = (read(link, "request"), read(read(link, "response"), "request"), read(link, "request_info"))
        methods += [read(holder, "method") for holder in holders]
        passed = [method for frame in frames_of(link) if (method := _method_in(frame)) is not None]
        methods += passed[-1:]
    return next((word for word in methods if isinstance(word, str) and word.upper() in SAFE_METHODS), None)


def _method_in(frame: FrameType) -> str | None:
    module = frame.f_globals.get("__name__")
    if module in ("urllib3.connectionpool", "aiohttp.client", "http.client"):
        method = frame.f_locals.get("method")
        return method if isinstance(method, str) else None
    if module == "urllib.request":
        request = frame.f_locals.get("req")
        try:
            return str(request.get_method()) if request is not None else None
        except Exception:
            return None
    return None
