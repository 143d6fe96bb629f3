"""Strict reading of JSON text: size, depth, duplicate keys, numbers and keys are checked, nothing is guessed."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any, Final

from fcguard.arguments.records import Path

__all__ = [
    "MAX_DEPTH",
    "MAX_SIZE",
    "Unreadable",
    "check_keys",
    "check_limits",
    "parse_json",
    "parse_prefix",
    "parse_simple_object",
    "parse_text",
    "too_deep",
]

MAX_DEPTH: Final = 64
"""Deepest nesting of objects and arrays; the outermost object counts as one."""
MAX_SIZE: Final = 1 << 20
"""Bytes of UTF-8 text; 1 MiB."""

_WHITESPACE: Final = " \t\n\r"
_TOKENS: Final = re.compile(r'"(?:[^"\\]|\\.?)*+"?|[\[{]|[\]}]', re.DOTALL)
_SURROGATE: Final = re.compile("[\ud800-\udfff]")
_SURROGATE_ESCAPE: Final = re.compile(r"\\u[dD][89a-fA-F]")


class Unreadable(ValueError):
    """The arguments cannot be read; carries what a `Problem` needs.

    Attributes:
        rule: our word for the fault.
        reason: in words for the model, without a position.
        path: where in the arguments, as far as it is known.
        position: index of the character; None if there is no one place.
        excerpt: the text around the position.
    """

    def __init__(
        self, rule: str, reason: str, *, path: Path = (), position: int | None = None, excerpt: str = ""
    ) -> None:
        self.rule, self.reason, self.path, self.position, self.excerpt = rule, reason, path, position, excerpt
        super().__init__(reason)


def parse_json(text: str, *, control_characters: bool = False) -> Any:
    """Parse one whole JSON document that is within the limits (`check_limits`).

    Args:
        text: the document; whitespace around it is allowed.
        control_characters: accept raw control characters within strings and keep them.

    Returns:
        Plain JSON values; integers exactly.

    Raises:
        Unreadable: it can be read, and must be refused (duplicate key, NaN, number out of range, half a surrogate pair
            in a key).
        ValueError: it is not JSON.
    """
    value, end = parse_prefix(text, control_characters=control_characters)
    if text[end:].strip(_WHITESPACE):
        raise json.JSONDecodeError("Extra data", text, end)
    return value


def parse_prefix(text: str, *, control_characters: bool = False) -> tuple[Any, int]:
    """Parse the JSON value at the start of a text; like `parse_json`, with the end of the value as second item."""
    start = len(text) - len(text.lstrip(_WHITESPACE))
    try:
        value, end = (_scan_lenient if control_characters else _scan)(text, start)
    except StopIteration as stop:
        raise json.JSONDecodeError("Expecting value", text, stop.value) from None
    except (json.JSONDecodeError, Unreadable):
        raise
    except ValueError:  # int() itself, whose limit of digits guards against quadratic time
        raise Unreadable(
            "number_range", "an integer has too many digits; send it as text if the parameter allows that"
        ) from None
    check_keys(value, text)
    return value, end


def parse_text(text: str, max_depth: int = MAX_DEPTH) -> Any:
    """Parse one whole JSON document strictly, within the limits.

    Args:
        text: the document.
        max_depth: deepest nesting, as for `check_limits`.

    Returns:
        Plain JSON values.

    Raises:
        Unreadable: over the limits, or as `parse_json`.
        ValueError: it is not JSON.
    """
    check_limits(text, max_depth)
    return parse_json(text)


def parse_simple_object(text: str) -> dict[str, Any] | None:
    """Parse the text of an object if it holds nothing out of the ordinary; None: read it the long way.

    Never raises. The common case of a call; leaves all diagnosis to the long way.
    """
    size = len(text)
    if size > MAX_SIZE // 4 or not text.startswith("{") or text.count("{") + text.count("[") > MAX_DEPTH:
        return None
    try:
        value, end = _scan(text, 0)
        if end != size:
            return None
        check_keys(value, text)
    except (ValueError, StopIteration):
        return None
    return value  # type: ignore[no-any-return]


def check_limits(text: str, max_depth: int = MAX_DEPTH) -> None:
    """Refuse a text that is too large or nested too deeply, before a parser could stumble over it.

    Args:
        text: JSON, or what claims to be JSON.
        max_depth: deepest nesting.

    Raises:
        Unreadable: over `MAX_SIZE` or the depth.
    """
    size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
    if size > MAX_SIZE:
        reason = f"the arguments are {size} bytes long; at most {MAX_SIZE} are allowed. Send a smaller payload."
        raise Unreadable("size", reason)
    position = too_deep(text, max_depth)
    if position is not None:
        reason = f"the arguments are nested deeper than {max_depth} levels. Send a flatter structure."
        raise Unreadable("depth", reason, position=position)


def too_deep(text: str, max_depth: int) -> int | None:
    """Answer where JSON text goes deeper than a limit; None if it does not. Brackets within strings do not count."""
    if text.count("{") + text.count("[") <= max_depth:
        return None
    depth = 0
    for token in _TOKENS.finditer(text):
        mark = token[0][0]
        if mark in "[{":
            depth += 1
            if depth > max_depth:
                return token.start()
        elif mark in "]}":
            depth -= 1
    return None


def check_keys(value: Any, text: str) -> None:
    """Refuse lone surrogates in keys; they cannot be written as UTF-8.

    Args:
        value: what was parsed.
        text: what it was parsed from; tells in most cases that there is nothing to look for.

    Raises:
        Unreadable: a key holds a lone surrogate.
    """
    raw = not text.isascii() and _SURROGATE.search(text)
    if not raw and not ("\\u" in text and _SURROGATE_ESCAPE.search(text)):
        return
    todo: list[tuple[Path, Any]] = [((), value)]
    while todo:
        path, item = todo.pop()
        if isinstance(item, dict):
            for key, sub in item.items():
                if _SURROGATE.search(key):
                    raise Unreadable(
                        "key_surrogate", f"the key {key!r} holds half of a surrogate pair; use valid Unicode", path=path
                    )
                if isinstance(sub, dict | list):
                    todo.append(((*path, key), sub))
        elif isinstance(item, list):
            todo += [((*path, index), sub) for index, sub in enumerate(item) if isinstance(sub, dict | list)]


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise Unreadable("duplicate_key", f"the key {key!r} is given more than once; give it once", path=(key,))
            seen.add(key)
    return made


def _float(text: str) -> float:
    number = float(text)
    if math.isinf(number) or (number == 0 and text.lower().partition("e")[0].strip("-0.")):
        raise Unreadable("number_range", f"the number {text[:40]} is out of range for a 64-bit float")
    return number


def _constant(text: str) -> Any:
    raise Unreadable("not_a_number", f"{text} is not JSON; leave the value out, or send null or a number")


def _scanner(*, strict: bool) -> Callable[[str, int], tuple[Any, int]]:
    decoder: Any = json.JSONDecoder(
        object_pairs_hook=_object, parse_float=_float, parse_constant=_constant, strict=strict
    )
    return decoder.scan_once  # type: ignore[no-any-return]


_scan: Final = _scanner(strict=True)
_scan_lenient: Final = _scanner(strict=False)
