"""From what came over the wire to one plain object: decoding, unwrapping and repairing, each change recorded."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Final

from fcguard.arguments.parse import Unreadable, check_limits, parse_json, parse_prefix
from fcguard.arguments.plain import to_plain
from fcguard.arguments.records import Fold
from fcguard.arguments.repair import EXCERPT, as_json, unfenced
from fcguard.arguments.scan import diagnose, find_duplicate

__all__ = ["WRAPPERS", "Reading", "read", "unwrap"]

WRAPPERS: Final = frozenset({"arguments", "args", "input", "parameters", "kwargs", "_"})
"""Keys that models put around the arguments."""

_WHITESPACE: Final = " \t\n\r"
_HINTS: Final = {
    "'": "JSON has double quotes only",
    "True": "write true",
    "False": "write false",
    "None": "write null",
    "//": "JSON has no comments",
    "/*": "JSON has no comments",
    "#": "JSON has no comments",
}
_CUT: Final = "The output was probably cut off. Send the call again, complete and with a smaller payload."


@dataclass(slots=True)
class Reading:
    """What was read.

    Attributes:
        value: the object; None for no arguments at all (empty text, `null`, not sent).
        folds: changes on the way.
    """

    value: dict[str, Any] | None
    folds: list[Fold]


def read(raw: Any, *, is_read: bool) -> Reading:
    """Read raw arguments as one object.

    Args:
        raw: text, UTF-8 bytes, a mapping or None.
        is_read: whether the tool only reads, so that more repairs are allowed.

    Returns:
        A new plain object and the changes made.

    Raises:
        Unreadable: it cannot be read as one object.
    """
    if raw is None:
        return Reading(None, [])
    if isinstance(raw, bytes | bytearray | memoryview):
        raw = _decoded(bytes(raw))
    if isinstance(raw, str):
        folds: list[Fold] = []
        value = _read_text(str.__str__(raw), folds, is_read=is_read)
        return Reading(value, folds)
    plain, made = to_plain(raw)
    return Reading(plain, made)


def unwrap(reading: Reading, declared: Collection[str]) -> None:
    """Take the arguments out of one wrapper key (`{"arguments": {...}}`), if the tool has no such parameter."""
    value = reading.value
    if value is None or len(value) != 1:
        return
    ((key, inner),) = value.items()
    if key in WRAPPERS and key not in declared and isinstance(inner, dict):
        reading.value = inner
        reading.folds.append(Fold("", "wrapper", key, None))


def _decoded(raw: bytes) -> str:
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise Unreadable("encoding", f"the arguments are not UTF-8 (byte {error.start})") from None


def _read_text(text: str, folds: list[Fold], *, is_read: bool, is_inner: bool = False) -> dict[str, Any] | None:
    if text.startswith("\ufeff"):
        text = text[1:]
        folds.append(Fold("", "byte_order_mark", "\ufeff", ""))
    check_limits(text)
    text = text.strip(_WHITESPACE)
    if not text and not is_inner:
        return None
    if text.startswith("```"):
        text = _out_of_fence(text, folds)
    value = _parsed(text, folds, is_read=is_read)
    if isinstance(value, dict):
        return value
    if value is None and not is_inner:
        return None
    if isinstance(value, str) and not is_inner and value.lstrip(_WHITESPACE).startswith("{"):
        folds.append(Fold("", "json_string", text[:EXCERPT], None))
        return _read_text(value, folds, is_read=is_read, is_inner=True)
    found = {list: "an array", str: "a string", bool: "true or false", type(None): "null"}.get(type(value), "a number")
    raise Unreadable("not_an_object", f"the arguments must be one JSON object, not {found}")


def _out_of_fence(text: str, folds: list[Fold]) -> str:
    body = unfenced(text)
    if body is None:
        if text.count("```") == 1:
            raise Unreadable("truncated", f"the arguments open a markdown fence and do not close it. {_CUT}")
        raise Unreadable("malformed", "the arguments must be one JSON object, without text around it", position=0)
    folds.append(Fold("", "fence", text[: len(text) - 3 - len(body)].strip()[:EXCERPT], None))
    return body


def _parsed(text: str, folds: list[Fold], *, is_read: bool) -> Any:
    """Parse strictly; else with the repairs allowed; else say what is wrong."""
    try:
        return parse_json(text)
    except Unreadable as fault:
        raise _located(fault, text) from None
    except ValueError:
        pass
    try:
        value, end = parse_prefix(text, control_characters=True)
        rest = text[end:].lstrip(_WHITESPACE)
        if not rest:
            folds.append(Fold("", "control_characters", None, None))
            return value
        if is_read and _is_copy(value, rest):
            folds.append(Fold("", "repeated_object", None, None))
            return value
        if rest.startswith("{"):
            raise Unreadable(
                "several_objects",
                "several JSON objects were sent as the arguments of one call; send exactly one object",
            )
    except Unreadable as fault:
        raise _located(fault, text) from None
    except ValueError:
        pass
    return _repaired(text, folds, is_read=is_read)


def _is_copy(value: Any, rest: str) -> bool:
    try:
        return json.dumps(parse_json(rest), sort_keys=True) == json.dumps(value, sort_keys=True)
    except ValueError:
        return False


def _repaired(text: str, folds: list[Fold], *, is_read: bool) -> Any:
    diagnosis = diagnose(text)
    rewritten = as_json(text) if is_read and diagnosis.kind != "truncated" else None
    if rewritten is not None:
        candidate, changes = rewritten
        try:
            value = parse_json(candidate, control_characters=True)
        except Unreadable as fault:
            raise _located(fault, candidate) from None
        except ValueError:
            rest = diagnose(candidate)
            diagnosis = rest if rest.kind == "truncated" else diagnosis
        else:
            folds += [Fold("", rule, before, None) for rule, before in changes]
            return value
    where = diagnosis.path
    if diagnosis.kind == "truncated":
        inside = "" if not where else " in the middle of a value"
        raise Unreadable("truncated", f"the arguments end{inside}, before the object is closed. {_CUT}", path=where)
    position = diagnosis.position
    excerpt = text[max(0, position - 5) : position + 25]
    reason = f"not valid JSON: expected {diagnosis.expected}{_hint(text, position)}"
    raise Unreadable("malformed", reason, path=where, position=position, excerpt=excerpt)


def _hint(text: str, position: int) -> str:
    """Say how JSON is written where another language shows."""
    rest = text[position : position + 6]
    if rest[:1] in ("}", "]") and text[:position].rstrip(_WHITESPACE).endswith(","):
        return " (remove the comma before the bracket)"
    return next((f" ({hint})" for start, hint in _HINTS.items() if rest.startswith(start)), "")


def _located(fault: Unreadable, text: str) -> Unreadable:
    if fault.rule != "duplicate_key":
        return fault
    return Unreadable(fault.rule, fault.reason, path=find_duplicate(text) or fault.path)
