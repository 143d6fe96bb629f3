"""The canonical bytes of a JSON value: sorted, compact, and losing nothing."""

from __future__ import annotations

import base64
import datetime as dt
import json
import math
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from enum import Enum
from typing import Any, Final
from uuid import UUID

import msgspec.json

from fcguard.errors import StoreError

__all__ = ["decode", "encode", "record"]

_EXACT: Final = 2**53
"""Largest integer that every JSON reader keeps exactly (RFC 8259, section 6)."""


def encode(value: Any) -> bytes:
    """Write a JSON value as sorted, compact UTF-8 JSON, losing nothing.

    What JSON cannot hold for every reader becomes a tagged string: integers beyond 2**53 (`$int:`), NaN and infinities
    (`$float:`), Decimal, bytes, dates, times, UUID. A text that begins with `$` and looks like a tag is tagged itself
    (`$str:`), so that `decode` gives back what went in. Lone surrogates are kept as JSON escapes. Not kept: the difference
    between tuple and list, between a number and its text as a key, and between a surrogate pair and its character.

    Raises:
        StoreError: a value of another type, two keys that are one as text, a cycle, or nesting too deep for the interpreter.
    """
    try:
        data = _dump(value)
        if not _may_hold_tags(data) and not _has_long_integer(data):
            return data
    except (ValueError, TypeError, UnicodeEncodeError):
        pass
    except RecursionError:
        raise StoreError("a payload is nested too deeply, or holds itself; keep it as an artifact instead") from None
    try:
        return _dump(_tagged(value))
    except RecursionError:
        raise StoreError("a payload is nested too deeply, or holds itself; keep it as an artifact instead") from None


def record(value: Any) -> bytes:
    """Write what is to be kept once, in about half the time that `encode` takes; `decode` reads both.

    The same value, and as a rule the same bytes: only floats in exponent form are spelled otherwise (`1e16` for `1e+16`). So
    what is compared or signed as bytes is written by `encode`, and records, whose bytes are kept as they are, by this.

    The quick encoder also takes what it cannot give back (a date becomes a plain text, NaN becomes null). Therefore its bytes
    are read back at once, and stand only if they say what the value says.

    Raises:
        StoreError: as `encode`.
    """
    try:
        data = _write_quickly(value)
        if _read_quickly(data) == value and not _may_hold_tags(data) and not _has_long_integer(data):
            return data
    except Exception:  # noqa: S110 - a value of another kind, or one whose comparison fails: the thorough way decides
        pass
    return encode(value)


_write_quickly: Final = msgspec.json.Encoder(order="deterministic").encode
_read_quickly: Final = msgspec.json.Decoder().decode


def decode(data: bytes) -> Any:
    """Read bytes that `encode` wrote; tagged strings become their values again.

    Raises:
        StoreError: the bytes are not such JSON.
    """
    try:
        value = json.loads(data)
        return _untagged(value) if _may_hold_tags(data) else value
    except (ValueError, TypeError, ArithmeticError, RecursionError) as error:
        raise StoreError(f"stored bytes cannot be read as JSON: {error}") from error


def _default(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError


def _text_encoder() -> Callable[[Any], str]:
    """Make the function that writes canonical text.

    `JSONEncoder.encode` sets its C encoder up again for every value, a third of the cost of a typical payload; so the C
    encoder is kept where the interpreter has one.
    """
    make = getattr(json.encoder, "c_make_encoder", None)
    if make is None:
        return json.JSONEncoder(
            ensure_ascii=False,
            check_circular=False,
            allow_nan=False,
            sort_keys=True,
            separators=(",", ":"),
            default=_default,
        ).encode
    chunks = make(None, _default, json.encoder.encode_basestring, None, ":", ",", True, False, False)
    join = "".join
    return lambda value: join(chunks(value, 0))


_encode_text = _text_encoder()


def _dump(value: Any) -> bytes:
    # The only characters UTF-8 cannot hold are lone surrogates; Python's backslash form of one is JSON's.
    return _encode_text(value).encode("utf-8", "backslashreplace")


def _may_hold_tags(data: bytes) -> bool:
    return b"$" in data and b'"$' in data  # one character is found thirty times faster than two


_DIGITS: Final = bytes(57 if 48 <= code <= 57 else 32 for code in range(256))
_SIXTEEN: Final = b"9" * 16
_LONG_INTEGER: Final = re.compile(rb"[:,\[]-?[0-9]{16}|\A-?[0-9]{16}")


def _has_long_integer(data: bytes) -> bool:
    # A plain byte scan decides almost every payload six times faster than the pattern does.
    return _SIXTEEN in data.translate(_DIGITS) and _LONG_INTEGER.search(data) is not None


_TO_TEXT: Final[dict[type, tuple[str, Callable[[Any], str]]]] = {
    Decimal: ("$decimal:", str),
    bytes: ("$bytes:", lambda value: base64.b64encode(value).decode()),
    bytearray: ("$bytes:", lambda value: base64.b64encode(value).decode()),
    dt.datetime: ("$datetime:", dt.datetime.isoformat),
    dt.date: ("$date:", dt.date.isoformat),
    dt.time: ("$time:", dt.time.isoformat),
    UUID: ("$uuid:", str),
}
_FROM_TEXT: Final[dict[str, Callable[[str], Any]]] = {
    "$int": int,
    "$float": float,
    "$decimal": Decimal,
    "$bytes": lambda text: base64.b64decode(text, validate=True),
    "$datetime": dt.datetime.fromisoformat,
    "$date": dt.date.fromisoformat,
    "$time": dt.time.fromisoformat,
    "$uuid": UUID,
    "$str": str,
}


def _tagged(value: Any) -> Any:
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, Enum) and not isinstance(value, str | int | float):
        return _tagged(value.value)
    if isinstance(value, str):
        return f"$str:{value}" if value.partition(":")[0] in _FROM_TEXT and ":" in value else str(value)
    if isinstance(value, int):
        return int(value) if -_EXACT <= value <= _EXACT else f"$int:{int(value)}"
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else f"$float:{float(value)}"
    if isinstance(value, Mapping):
        return _tagged_object(value)
    if isinstance(value, list | tuple):
        return [_tagged(item) for item in value]
    for kind in type(value).__mro__:
        if kind in _TO_TEXT:
            tag, to_text = _TO_TEXT[kind]
            return tag + to_text(value)
    raise StoreError(
        f"a payload holds {type(value).__name__!r}, which has no JSON form; turn it into JSON values first"
    )


def _tagged_object(value: Mapping[Any, Any]) -> dict[str, Any]:
    tagged: dict[str, Any] = {}
    for key, item in value.items():
        if not (key is None or isinstance(key, str | int | float)):
            raise StoreError(f"a payload has the key {key!r}; keys must be text")
        name = str(key) if isinstance(key, str) else json.dumps(key)
        if name in tagged:
            raise StoreError(f"a payload has two keys that are both {name!r} as text; rename one")
        tagged[name] = _tagged(item)
    return tagged


def _untagged(value: Any) -> Any:
    if isinstance(value, str):
        tag, colon, text = value.partition(":")
        reader = _FROM_TEXT.get(tag) if colon else None
        return value if reader is None else reader(text)
    if isinstance(value, dict):
        return {key: _untagged(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_untagged(item) for item in value]
    return value
