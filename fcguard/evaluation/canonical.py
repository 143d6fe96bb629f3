"""Canonical form and digest of JSON values, and the strict reading of raw argument text."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

__all__ = ["canonical", "digest", "parse_arguments"]

_EXACT = 2**53


def canonical(value: Any) -> str:
    """Write a JSON value so that equal values give equal text: sorted keys, no spaces, 1.0 written as 1.

    `1` and `1.0` are one number in JSON; `true` and `1` are not, nor are `"1"` and `1`. Values that JSON does not know
    are written by `repr`, tagged with their type, so that nothing is ever equal by accident.
    """
    return json.dumps(_plain(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return int(value) if value.is_integer() and abs(value) < _EXACT else value
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    return {"$type": type(value).__name__, "$repr": repr(value)}


def digest(value: Any) -> str:
    """Answer the first 16 hex digits of the SHA-256 of a text, of bytes, or of a value's canonical form."""
    if isinstance(value, bytes):
        data = value
    else:
        text = value if isinstance(value, str) else canonical(value)
        data = text.encode("utf-8", "surrogatepass")
    return hashlib.sha256(data).hexdigest()[:16]


def parse_arguments(raw: Any) -> tuple[Any, str | None]:
    """Read arguments as a trace holds them: an object, or JSON text of one.

    Nothing is repaired: what a model wrote wrongly is what is to be counted.

    Args:
        raw: a mapping, text, bytes, or None.

    Returns:
        The arguments and None, or None and why they cannot be read. Never raises.
    """
    if isinstance(raw, Mapping):
        return dict(raw), None
    if raw is None:
        return None, "no arguments were sent"
    if not isinstance(raw, (str, bytes)):
        return None, f"arguments are a {type(raw).__name__}, not an object"
    try:
        value = json.loads(raw, parse_constant=_refuse_constant)
    except RecursionError:
        return None, "nested too deeply"
    except ValueError as error:
        return None, f"not JSON: {error}"
    if not isinstance(value, dict):
        return None, f"arguments are a {type(value).__name__}, not an object"
    return value, None


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
