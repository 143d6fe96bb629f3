"""Request ids, digests and keys: what makes two calls the same call."""

from __future__ import annotations

import hashlib
import json
import os
import random
import time
from collections.abc import Mapping
from typing import Any, Final

__all__ = ["canonical", "digest_of", "effect_key_of", "idempotency_key_of", "new_request_id"]

_random = random.Random(os.urandom(16))  # noqa: S311 - ids must be unique, not secret
os.register_at_fork(after_in_child=lambda: _random.seed(os.urandom(16)))

_encode: Final = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=True, default=repr
).encode
_day: tuple[int, str] = (-1, "")


def new_request_id(now: float) -> str:
    """Make an id `fc-YYYYMMDD-<19 hex digits>`: sortable to the millisecond (UTC), unique over processes and hosts.

    Args:
        now: wall clock in seconds.
    """
    global _day
    milliseconds = int(now * 1000)
    day, rest = divmod(milliseconds, 86_400_000)
    cached = _day
    if cached[0] != day:
        cached = _day = (day, time.strftime("fc-%Y%m%d-", time.gmtime(day * 86_400)))
    return f"{cached[1]}{rest:07x}{_random.getrandbits(48):012x}"


def canonical(value: Any) -> str:
    """Answer one text for equal JSON values: sorted keys, no spaces, ASCII."""
    return _encode(value)


def digest_of(tool: str, arguments: Mapping[str, Any]) -> str:
    """Answer the digest of a tool with its normalized arguments (32 hex digits of SHA-256)."""
    return _hash(tool, _encode(arguments))


def effect_key_of(
    tenant: str | None, tool: str, arguments: Mapping[str, Any], business_key: tuple[str, ...] | None
) -> str:
    """Answer the key under which an open write blocks a second one of the same effect.

    Args:
        tenant: identity is part of every key.
        tool: name of the tool.
        arguments: normalized arguments.
        business_key: the parameters that identify the effect; None: all arguments.
    """
    return _hash("effect", tenant or "", tool, _encode(_chosen(arguments, business_key)))


def idempotency_key_of(
    tenant: str | None,
    tool: str,
    version: str,
    scope: str,
    arguments: Mapping[str, Any],
    business_key: tuple[str, ...] | None,
) -> str:
    """Answer the key that is sent to a server that removes duplicates: stable over retries, resumes and re-worded calls."""
    return "fcg-" + _hash("idempotency", tenant or "", tool, version, scope, _encode(_chosen(arguments, business_key)))


def _chosen(arguments: Mapping[str, Any], business_key: tuple[str, ...] | None) -> Mapping[str, Any]:
    return arguments if business_key is None else {name: arguments.get(name) for name in business_key}


def _hash(*parts: str) -> str:
    text = "\x1f".join(parts)
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
