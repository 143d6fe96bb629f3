"""Exceptions to classify, raised for real, and how their cases are named."""

from __future__ import annotations

import urllib3

from fcguard.recovery.classify import classify_exception

NOW = 1_800_000_000.0
PROOFS = {"not_sent", "refused", "unknown"}


CONNECT = urllib3.exceptions.NewConnectionError(None, "refused")


def stable(value: object) -> str | None:
    """Name a case the same in every process: a text by itself, anything else by its number."""
    return value[:40] if isinstance(value, str) else None


def classify(error):
    return classify_exception(error, now=NOW)


def raised(error, cause=None, context=None):
    """Raise an exception for real and catch it again."""
    try:
        if context is not None:
            try:
                raise context
            except BaseException:
                raise error  # noqa: B904
        elif cause is not None:
            raise error from cause
        raise error
    except BaseException as caught:
        return caught


def with_fields(**fields):
    return type("ServiceError", (Exception,), fields)("it failed")


class Response:
    def __init__(self, **fields):
        self.__dict__.update(fields)

    def __bool__(self):
        return False
