"""Exceptions as they hang together: what wraps what, through which functions they passed, and which classes they are of."""

from __future__ import annotations

from collections.abc import Iterator
from types import FrameType
from typing import Any, Final

__all__ = ["LIBRARIES", "MOST_LINKS", "frames_of", "is_of", "linked", "module_root", "names_of", "read", "wrapped"]

MOST_LINKS: Final = 200
"""Exceptions that are followed; who meets so many cannot know what the rest would say."""

_WRAPPING_FIELDS: Final = ("reason", "orig", "os_error", "original_error")
"""Where urllib and urllib3, SQLAlchemy and aiohttp keep the error that they wrap."""

LIBRARIES: Final = frozenset(
    {
        "aiohttp",
        "anthropic",
        "anyio",
        "asyncpg",
        "botocore",
        "httpcore",
        "httpcore2",
        "httpx",
        "httpx2",
        "mcp",
        "openai",
        "psycopg",
        "psycopg2",
        "psycopg_pool",
        "redis",
        "requests",
        "sqlalchemy",
        "tenacity",
        "urllib",
        "urllib3",
    }
)
"""Libraries that raise their errors while handling the error they wrap, so that `__context__` is part of the same failure."""


def read(value: Any, name: str) -> Any:
    """Answer an attribute, or None if there is none or reading it raises."""
    try:
        return getattr(value, name)
    except Exception:
        return None


def names_of(error: BaseException) -> list[tuple[str, str]]:
    """Answer (root of the module, class name) of an exception's class and its bases, most special first."""
    return [(str(base.__module__).partition(".")[0], base.__name__) for base in type(error).__mro__]


def module_root(error: BaseException) -> str:
    """Answer the top package of an exception's class."""
    return str(type(error).__module__).partition(".")[0]


def is_of(error: BaseException, roots: frozenset[str]) -> bool:
    """Answer whether an exception's class is defined in one of the packages."""
    return module_root(error) in roots


def wrapped(error: BaseException) -> list[BaseException]:
    """Answer the exceptions that this one stands for: the same failure, told by a lower layer.

    An explicit cause always counts. What was merely being handled (`__context__`) counts for libraries alone: in a tool's own
    code it may be an earlier, different failure.
    """
    found: list[Any] = []
    if is_of(error, LIBRARIES):
        found += [read(error, name) for name in _WRAPPING_FIELDS]
        found += error.args
    last_attempt = read(error, "last_attempt")  # tenacity.RetryError
    if last_attempt is not None and module_root(error) == "tenacity":
        found.append(_raised_by(last_attempt))
    found.append(error.__cause__)
    if is_of(error, LIBRARIES) and error.__cause__ is None:
        found.append(error.__context__)
    return [inner for inner in found if isinstance(inner, BaseException)]


def _raised_by(attempt: Any) -> Any:
    try:
        return attempt.exception(timeout=0)
    except Exception:
        return None


def linked(error: BaseException) -> list[BaseException]:
    """Answer the exception and everything that hangs on it by wrapping, cause or context, also where the context is hidden."""
    found: list[BaseException] = []
    todo = [error]
    while todo and len(found) < MOST_LINKS:
        link = todo.pop(0)
        if any(link is known for known in found):
            continue
        found.append(link)
        todo += wrapped(link)
        todo += [other for other in (link.__cause__, link.__context__) if other is not None]
        if isinstance(link, BaseExceptionGroup):
            todo += link.exceptions
    return found


def frames_of(error: BaseException) -> Iterator[FrameType]:
    """Yield the frames that an exception passed, outermost first."""
    trace = error.__traceback__
    while trace is not None:
        yield trace.tb_frame
        trace = trace.tb_next
