"""Read values of a foreign wire format without trusting their shape: dicts, SDK objects, or anything else."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any, Final

from fcguard.model.intent import Usage
from fcguard.model.secrets import writable

__all__ = [
    "argument_text",
    "arguments_of",
    "bind_ids",
    "complete_reason",
    "count",
    "error_of",
    "field",
    "given_id",
    "identity",
    "is_object",
    "label",
    "plain",
    "plain_object",
    "present",
    "seed_of",
    "sequence",
    "text",
    "usage_of",
]

_SCALARS: Final = (str, bytes, bytearray, int, float, complex, type(None))
_SEQUENCES: Final = (list, tuple, set, frozenset)
_MAX_DEPTH: Final = 100
"""Deeper than any arguments that fcguard accepts (64), so that cutting an echo here never hides a call that runs."""
_MAX_CONTAINERS: Final = 400_000
"""More than any arguments that fcguard accepts (1 MiB as text) can hold; ends the copy of an object without an end."""
_CUT: Final = "..."
_LONGEST_POSITION: Final = 18
_DEFAULT_DIGITS: Final = 4300
"""Python's own default for the longest integer that is written as text."""

_CUT_SHORT: Final = frozenset({"content_filter", "refusal"})
"""Reasons that end a response in the middle, as a length limit does; calls in it may be incomplete."""


def is_object(value: Any) -> bool:
    """Answer whether a value has named fields: a mapping, or an object that is not a scalar or a list."""
    return isinstance(value, Mapping) or not isinstance(value, (*_SCALARS, *_SEQUENCES))


def field(value: Any, name: str) -> Any:
    """Answer a field of a mapping or an attribute of an SDK's object; None if there is none.

    Args:
        value: anything.
        name: the field's name.
    """
    if isinstance(value, Mapping):
        return value.get(name)
    if not is_object(value):
        return None
    try:
        found = getattr(value, name, None)
    except Exception:
        return None
    return None if callable(found) else found


def sequence(value: Any) -> list[Any]:
    """Answer the entries of a list; a mapping keyed by position (an accumulated stream) gives its values in order."""
    if isinstance(value, (list, tuple)):
        return list(value)
    if isinstance(value, Mapping) and len(value) and all(_is_position(key) for key in value):
        return [value[key] for key in sorted(value, key=int)]
    return []


def _is_position(key: Any) -> bool:
    if isinstance(key, str):
        return key.isdecimal() and len(key) <= _LONGEST_POSITION
    return isinstance(key, int) and not isinstance(key, bool)


def text(value: Any) -> str | None:
    """Answer the value if it is text and not empty, else None; lone surrogates are spelt out, so that UTF-8 can hold it."""
    return _written(value) or None if isinstance(value, str) else None


def _written(value: str) -> str:
    return writable(str.__str__(value))


def count(value: Any) -> int | None:
    """Answer a count of tokens; None for anything that is not a whole number of at least 0."""
    if isinstance(value, bool):
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return value if isinstance(value, int) and value >= 0 else None


def usage_of(usage: Any, prompt: Iterable[str], completion: str, max_tokens: int | None) -> Usage | None:
    """Answer the token counts of a response; None if nothing is known.

    Args:
        usage: the provider's object.
        prompt: names of the fields that together are the prompt's tokens.
        completion: name of the field with the completion's tokens.
        max_tokens: the limit that was asked for, in tokens.
    """
    parts = [found for name in prompt if (found := count(field(usage, name))) is not None]
    known = Usage(sum(parts) if parts else None, count(field(usage, completion)), count(max_tokens))
    return None if known == Usage() else known


def complete_reason(reason: str | None) -> str | None:
    """Answer the finish reason that a call of the response carries.

    A filter or refusal that stopped the model in the middle of a response leaves calls as incomplete as a length limit
    does, so that they are marked `incomplete`; every other word stays the provider's own.
    """
    return "incomplete" if reason in _CUT_SHORT else reason


def arguments_of(value: Any) -> str | bytes | Mapping[str, Any] | None:
    """Answer raw arguments as an intent holds them: text and objects as they are, anything else as its JSON text."""
    if value is None or isinstance(value, (str, bytes, Mapping)):
        return value
    if isinstance(value, float):
        return json.dumps(float.__float__(value))
    converted = plain(value)
    return converted if isinstance(converted, dict) else json.dumps(converted)


def argument_text(value: Any) -> str:
    """Answer raw arguments as the text that a provider reads back; none at all become an empty object."""
    raw = plain(arguments_of(value))
    if raw is None or (isinstance(raw, str) and not raw.strip()):
        return "{}"
    return raw if isinstance(raw, str) else json.dumps(raw)


def error_of(response: Any) -> list[str]:
    """Answer what `Turn.unread` lists for an error object that a server sent in place of a response."""
    error = field(response, "error")
    if error is None:
        return []
    message = field(error, "message")
    return [f"error: {label(error if message is None else message)}"]


def present(value: Mapping[str, Any], *without: str) -> dict[str, Any]:
    """Answer the entries that are not None, without the named ones; providers refuse their own nulls."""
    return {key: entry for key, entry in value.items() if entry is not None and key not in without}


def label(value: Any, longest: int = 200) -> str:
    """Answer a short printable form of a foreign value for `Turn.unread`."""
    if isinstance(value, str):
        shown = repr(str.__str__(value))
    else:
        shown = repr(_scalar(value)) if isinstance(value, (int, float, type(None))) else type(value).__name__
    return shown if len(shown) <= longest else shown[:longest] + _CUT


def plain(value: Any) -> Any:
    """Copy a value into plain dicts, lists and scalars that can be written as strict JSON and as UTF-8.

    Args:
        value: anything; objects with `model_dump` are dumped by alias with the fields that were set, others by their
            attributes.

    Returns:
        A copy that shares nothing mutable. What is deeper than 100 levels, or holds itself, or is an integer of more digits than
        Python writes (4300 by default), is cut to `"..."`; infinity and NaN become their names, and lone surrogates are spelt out.
    """
    return _Copier().copy(value, ())


class _Copier:
    """Copies one value, and gives up at a great number of parts."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = _MAX_CONTAINERS

    def copy(self, value: Any, path: tuple[int, ...]) -> Any:
        if value is None or isinstance(value, (str, int, float)):
            return _scalar(value)
        if isinstance(value, (bytes, bytearray)):
            return bytes(value).decode("utf-8", "replace")
        self._left -= 1
        if self._left < 0 or len(path) >= _MAX_DEPTH or id(value) in path:
            return _CUT
        path = (*path, id(value))
        if isinstance(value, _SEQUENCES):
            return [self.copy(entry, path) for entry in value]
        fields = value if isinstance(value, Mapping) else _fields(value)
        if fields is None:
            return label(value)
        return {_key(key): self.copy(entry, path) for key, entry in fields.items()}


def _scalar(value: Any) -> Any:
    """Answer a scalar, of a subclass too, as the builtin that strict JSON can hold."""
    if isinstance(value, str):
        return _written(value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        digits = sys.get_int_max_str_digits() or _DEFAULT_DIGITS
        number = int.__int__(value)
        return number if number.bit_length() < digits * math.log2(10) - 1 else _CUT
    real = float.__float__(value)
    return real if math.isfinite(real) else json.dumps(real)


def _key(key: Any) -> str:
    shown = _scalar(key) if isinstance(key, (str, int, float)) else key
    return writable(str(shown))


def plain_object(value: Any) -> dict[str, Any]:
    """Copy an object into a plain dict; an empty one if it has no fields that can be copied."""
    copied = plain(value)
    return copied if isinstance(copied, dict) else {}


def _fields(value: Any) -> Mapping[Any, Any] | None:
    dump = getattr(value, "model_dump", None)
    if callable(dump) and not isinstance(value, type):
        try:
            dumped = dump(by_alias=True, exclude_unset=True, warnings=False)
        except Exception:
            dumped = None
        if isinstance(dumped, Mapping):
            return dumped
    attributes = getattr(value, "__dict__", None)
    return attributes if isinstance(attributes, dict) else None


def bind_ids(given: Iterable[Any], seed: str) -> tuple[str, ...]:
    """Answer one usable id per call, by position: the given one, or a made one where it is missing, empty or taken.

    A made id depends only on the seed and the position. It has nine letters and digits, the one form that every
    provider takes: Mistral's API refuses any other length and any other character.

    Args:
        given: the ids as they came; whole numbers become text.
        seed: something that differs between responses, such as the response's id.
    """
    wanted = [given_id(value) for value in given]
    taken = {value for value in wanted if value is not None}
    used: set[str] = set()
    bound: list[str] = []
    for position, value in enumerate(wanted):
        if value is not None and value not in used:
            bound.append(value)
        else:
            bound.append(_made(seed, position, taken))
            taken.add(bound[-1])
        used.add(bound[-1])
    return tuple(bound)


def identity(value: Any) -> str | int | None:
    """Answer the id of a response or of a JSON-RPC request, in its own type; None if it has none."""
    return _scalar(value) if isinstance(value, (str, int)) and not isinstance(value, bool) else None


def seed_of(response: Any, content: Any) -> str:
    """Answer what made ids depend on: the response's id, or its content where it has none."""
    return str(identity(field(response, "id")) or json.dumps(plain(content)))


def given_id(value: Any) -> str | None:
    """Answer the model's own id of a call as text; None if it gave none."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(_scalar(value))
    found = text(value)
    return found if found is not None and found.strip() else None


def _made(seed: str, position: int, taken: set[str]) -> str:
    turn = 0
    while True:
        digest = sha256(f"{seed}\n{position}\n{turn}".encode("utf-8", "surrogatepass")).hexdigest()[:9]
        if digest not in taken:
            return digest
        turn += 1
