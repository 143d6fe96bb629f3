"""Request ids, digests and keys: what makes two calls the same call."""

from __future__ import annotations

import hashlib
import json
import os
import random
import time
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any, Final

__all__ = ["canonical", "digest_of", "effect_key_of", "idempotency_key_of", "new_request_id"]

_random = random.Random(os.urandom(16))  # noqa: S311 - ids must be unique, not secret
_turns: Iterator[int]
"""Tells ids of one millisecond apart and keeps their order; each process begins somewhere else."""


def _begin() -> None:
    global _turns
    _random.seed(os.urandom(16))
    _turns = count(_random.getrandbits(16))


_begin()
os.register_at_fork(after_in_child=_begin)

_encode: Final = json.JSONEncoder(
    sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=True, default=repr
).encode
_DAY: Final = 86_400
_day: tuple[float, str] = (-1.0 * _DAY, "")
"""When the day of the latest id began, and what its ids begin with."""


def new_request_id(now: float) -> str:
    """Make an id `fc-YYYYMMDD-<19 hex digits>`: sortable to the millisecond (UTC), unique over processes and hosts.

    Those of one process sort in the order of their making within a millisecond, too, but for one in 65,536: there the count
    begins anew.

    Args:
        now: wall clock in seconds.
    """
    global _day
    start, prefix = _day
    if not 0.0 <= now - start < _DAY:
        start = now // _DAY * _DAY
        prefix = time.strftime("fc-%Y%m%d-", time.gmtime(start))
        _day = start, prefix
    # On every call: `%` takes two thirds of the time of an f-string with two fields.
    within = int((now - start) * 1000) << 48 | (next(_turns) & 0xFFFF) << 32 | _random.getrandbits(32)
    return "%s%019x" % (prefix, within)  # noqa: UP031


def canonical(value: Any) -> str:
    """Answer one text for equal JSON values: sorted keys, no spaces, ASCII. An integer is not its float here."""
    return _encode(value)


def _meaning(value: Any) -> str:
    """Answer one text for values that mean the same effect: as `canonical`, but 5 and 5.0 are the same amount."""
    text = _encode(value)
    return _encode(_whole(value)) if ".0" in text or "e+" in text else text


def _whole(value: Any) -> Any:
    """Answer a JSON value with whole floats as integers."""
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, dict):
        return {key: _whole(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_whole(item) for item in value]
    return value


def digest_of(tool: str, arguments: Mapping[str, Any]) -> str:
    """Answer the digest of a tool with its normalized arguments (32 hex digits of SHA-256)."""
    return _hash(tool, _meaning(arguments))


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
    return _hash("effect", tenant or "", tool, _meaning(_chosen(arguments, business_key)))


def idempotency_key_of(
    tenant: str | None,
    tool: str,
    version: str,
    scope: str,
    arguments: Mapping[str, Any],
    business_key: tuple[str, ...] | None,
) -> str:
    """Answer the key that is sent to a server that removes duplicates: stable over retries, resumes and re-worded calls."""
    return "fcg-" + _hash("idempotency", tenant or "", tool, version, scope, _meaning(_chosen(arguments, business_key)))


def _chosen(arguments: Mapping[str, Any], business_key: tuple[str, ...] | None) -> Mapping[str, Any]:
    return arguments if business_key is None else {name: arguments.get(name) for name in business_key}


def _hash(*parts: str) -> str:
    text = "".join([f"{len(part)}:{part}" for part in parts])  # no two lists of parts give the same text
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
